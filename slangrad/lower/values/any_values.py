"""Values of interface types in memory: Slang's form, 16 bytes of which the third word is the id of the type, then the
bytes of the value, as many as the largest type takes or as [anyValueSize(n)] says.

IShape { u32 type; Circle is0; Square is1 }     <->     { [5 x u32] }      0 0 <id> 0 <bits of the radius>

A load takes the words apart for each type, a store puts the words of the type that is there together. A truth value
takes four bytes here. `createDynamicObject` makes a value from an id and the bytes of another value in the same way,
`reinterpret` a value from the bytes of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce

from slangrad.ir.data.forms import COLUMNS, WORDS, part_of
from slangrad.ir.data.layout import HEADER, any_value_layout, layout_of
from slangrad.ir.data.types import (
    BOOL,
    U8,
    U32,
    U64,
    Array,
    Matrix,
    Pointer,
    Scalar,
    Struct,
    Type,
    Vector,
    array,
    component,
    components,
    is_aggregate,
    is_long,
    matrix,
)
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.values.bit_casts import same_shape, unsigned, unsigned_of
from slangrad.lower.values.byte_runs import (
    WORD,
    Bytes,
    Piece,
    Run,
    array_of,
    assembled,
    holds_long,
    run_of,
    words_of,
)

ID = 8  # where in the header the id of the type stands


def from_memory(f: Frame, value: Value) -> Value:
    """What was loaded as it is computed with."""
    form, target = value.type, f.lowering.types.value(value.type)
    if target is form:
        return value
    if target in f.lowering.types.dynamics:
        assert isinstance(target, Struct)
        return _decoded(f, target, 0, _words(f, target, value))
    if part_of(form):
        inner = f.emit("get", value, index=0)
        if part_of(form) == WORDS:
            return f.emit("not_equal", inner, f.b.zero(inner.type))
        return turned(f, inner, target) if part_of(form) == COLUMNS else _of_parts(f, inner, target)
    return turned(f, value, target) if isinstance(form, Matrix) else _of_parts(f, value, target)


def _of_parts(f: Frame, value: Value, target: Type) -> Value:
    if value.type is target or not is_aggregate(value.type) or isinstance(target, Vector):
        return from_memory(f, value)
    return f.componentwise(value, target, lambda part, _: from_memory(f, part))


def turned(f: Frame, lines: Value, target: Type) -> Value:
    """A matrix or its columns, a line of memory each, as rows; the other way round as well."""
    found = [from_memory(f, f.emit("get", lines, index=i)) for i, _ in enumerate(components(lines.type))]
    rows = []
    for i, row in enumerate(components(target)):
        rows.append(f.emit("make", *(f.emit("get", each, index=i) for each in found), type=row))
    return f.emit("make", *rows, type=target)


def to_memory(f: Frame, value: Value, form: Type) -> Value:
    """What is computed with as it is stored."""
    if value.type is form:
        return value
    if value.type in f.lowering.types.dynamics:
        return f.emit("make", _assembled_words(f, value, layout_of(form).size // WORD), type=form)
    if part_of(form):
        return f.emit("make", _inner(f, value, form, component(form, 0)), type=form)
    if isinstance(form, Matrix):
        return turned(f, value, form)
    return f.componentwise(value, form, partial(to_memory, f))


def _inner(f: Frame, value: Value, form: Type, inside: Type) -> Value:
    """What the one field of a form holds."""
    part = part_of(form)
    if part == WORDS:
        return f.emit("convert", value, type=inside)
    if part == COLUMNS:
        assert isinstance(value.type, Matrix)
        value = turned(f, value, matrix(value.type.element, value.type.columns, value.type.rows))
    return to_memory(f, value, inside)


def _words(f: Frame, target: Type, value: Value) -> list[Bytes]:
    words = f.emit("get", value, index=0)
    assert isinstance(words.type, Array) and words.type.length is not None
    if holds_long(target):
        return [Run(0, WORD * words.type.length, words)]
    each = (f.emit("get", words, index=i) for i in range(words.type.length))
    return [Piece(WORD * i, WORD, f.emit("convert", word, type=U64)) for i, word in enumerate(each)]


def _assembled_words(f: Frame, value: Value, count: int) -> Value:
    parts = list(_parts(f, value, 0))
    if any(isinstance(part, Run) for part in parts):
        return words_of(f, count, parts)
    words = (f.emit("convert", assembled(f, WORD * i, WORD, parts), type=U32) for i in range(count))
    return f.emit("make", *words, type=array(U32, count))


def dynamic_object(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """`createDynamicObject<IFoo>(id, value)`."""
    types = f.lowering.types
    assert t is not None
    if t not in types.dynamics or not isinstance(t, Struct):
        f.error("E0412", "createDynamicObject makes values of interface types only", f.b.span)
        return f.b.zero(t)
    number, value = (place.get(f) for place in places)
    types.open(t)
    bits = [Piece(ID, WORD, f.emit("convert", number, type=U64)), *_parts(f, value, HEADER)]
    return _decoded(f, t, 0, bits)


def reinterpret(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """`reinterpret<T>(value)`: the bytes that a value has behind an interface as those of another type; what one has
    more than the other is dropped, what it lacks is zero."""
    assert t is not None
    value = places[0].get(f)
    if value.type is t:
        return value
    if same_shape(value.type, t):
        return f.emit("bitcast", value, type=t)
    return _made(f, t, 0, list(_parts(f, value, 0)))


# --- Putting together -----------------------------------------------------------------------------------


def _parts(f: Frame, value: Value, start: int, form: Type | None = None) -> Iterator[Bytes]:
    """The scalars and long arrays of a value with their places."""
    t, form = value.type, f.lowering.types.memory(value.type) if form is None else form
    layout = any_value_layout(form)
    if isinstance(t, (Scalar, Pointer)):
        yield Piece(start, layout.size, f.emit("convert", unsigned(f, value), type=U64))
    elif t in f.lowering.types.dynamics:
        yield from _encoded(f, value, start)
    elif isinstance(form, Matrix) and t is not form:
        yield from _parts(f, to_memory(f, value, form), start, form)
    elif isinstance(form, Array) and is_long(form):
        inner = form.element
        yield run_of(f, value, start, layout.offsets[1], lambda element, at: _parts(f, element, at, inner))
    else:
        for i, (offset, part) in enumerate(zip(layout.offsets, components(form), strict=True)):
            yield from _parts(f, f.emit("get", value, index=i), start + offset, part)


def _encoded(f: Frame, value: Value, start: int) -> Iterator[Bytes]:
    """The id, and the words of the type that is there."""
    assert isinstance(value.type, Struct)
    number, ids = f.emit("get", value, index=0), f.lowering.types.ids(value.type)
    chosen = [f.emit("equal", number, f.b.constant(U32, i)) for i in range(len(ids))]
    id_ = _select(f, chosen, [f.b.constant(U64, each) for each in ids]) if ids else f.b.zero(U64)
    yield Piece(start + ID, 4, id_)
    size = f.lowering.types.any_layout(value.type).size - HEADER
    if holds_long(value.type):
        yield Run(start + HEADER, size, _words_of_type(f, value, chosen, size // WORD))
        return
    fields = [list(_parts(f, f.emit("get", value, index=i + 1), 0)) for i in range(len(ids))]
    for at in range(0, size, WORD):
        words = [f.emit("convert", assembled(f, at, WORD, parts), type=U32) for parts in fields]
        word = _select(f, chosen, words) if words else f.b.zero(U32)
        yield Piece(start + HEADER + at, WORD, f.emit("convert", word, type=U64))


def _words_of_type(f: Frame, value: Value, chosen: list[Value], count: int) -> Value:
    """The words of the first type whose condition holds; of the last one where none does."""
    assert isinstance(value.type, Struct)
    number = len(value.type.fields) - len(chosen)

    def own() -> tuple[Value, ...]:
        return (words_of(f, count, list(_parts(f, f.emit("get", value, index=number), 0))),)

    others = lambda: (_words_of_type(f, value, chosen[1:], count),)
    return (own() if len(chosen) == 1 else f.branch(chosen[0], own, others))[0]


def _select(f: Frame, chosen: list[Value], values: list[Value]) -> Value:
    """The value whose condition holds; the first one where none does."""
    pairs = zip(chosen[1:], values[1:], strict=True)
    return reduce(lambda other, pair: f.emit("select", *pair, other), pairs, values[0])


# --- Taking apart ---------------------------------------------------------------------------------------


def _decoded(f: Frame, t: Struct, start: int, given: list[Bytes]) -> Value:
    """A value of an interface type; an id that no type has means the type with the largest one."""
    ids = f.lowering.types.ids(t)
    id_ = f.emit("convert", assembled(f, start + ID, 4, given), type=U32)
    number = f.b.constant(U32, ids.index(max(ids)) if ids else 0)
    for i, each in enumerate(ids):
        here = f.emit("equal", id_, f.b.constant(U32, each))
        number = f.emit("select", here, f.b.constant(U32, i), number)
    parts = [_made(f, each, start + HEADER, given) for _, each in t.fields[1:]]
    return f.emit("make", number, *parts, type=t)


def _made(f: Frame, t: Type, start: int, given: list[Bytes], form: Type | None = None) -> Value:
    """A value of type `t` from the bytes at `start`, where it has a form."""
    if t in f.lowering.types.dynamics:
        assert isinstance(t, Struct)
        return _decoded(f, t, start, given)
    form = f.lowering.types.memory(t) if form is None else form
    layout = any_value_layout(form)
    if isinstance(form, Matrix) and t is not form:
        return from_memory(f, _made(f, form, start, given, form))
    if isinstance(t, Array) and isinstance(form, Array) and is_long(t):
        element, inner = t.element, form.element

        def of_element(at: int, own: list[Bytes]) -> Value:
            return _made(f, element, at, own, inner)

        return array_of(f, t, start, layout.offsets[1], given, of_element)
    if not isinstance(t, (Scalar, Pointer)):
        parts = zip(components(t), layout.offsets, components(form), strict=True)
        made = (_made(f, part, start + offset, given, own) for part, offset, own in parts)
        return f.emit("make", *made, type=t)
    bits = assembled(f, start, layout.size, given)
    if isinstance(t, Pointer):
        return f.emit("bitcast", bits, type=t)
    if t is BOOL:
        narrow = f.emit("convert", bits, type=U8)
        return f.emit("not_equal", narrow, f.b.zero(U8))
    return f.emit("bitcast", f.emit("convert", bits, type=unsigned_of(t)), type=t)
