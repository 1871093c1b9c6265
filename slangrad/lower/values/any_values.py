"""Values of interface types in memory, in Slang's form. A header of 16 bytes has the id of the type in its third
word. Then come the bytes of the value: as many as the largest type takes, or n of [anyValueSize(n)].

IShape { u32 type; Circle is0; Square is1 }     <->     { [5 x u32] }      0 0 <id> 0 <bits of the radius>

A load unpacks the words for each type, a store packs the words of the value's type. A truth value
takes four bytes here. `createDynamicObject` makes a value from an id and the bytes of another value in the same way,
`reinterpret` a value from the bytes of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce

from slangrad.ir.data.forms import COLUMNS, WORDS, part_of
from slangrad.ir.data.layout import HEADER, Layout, any_value_layout, layout_of
from slangrad.ir.data.types import (
    U32,
    U64,
    Array,
    Matrix,
    Struct,
    Type,
    Vector,
    array,
    component,
    components,
    is_aggregate,
    matrix,
)
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.values.bit_casts import ByteForm, same_shape
from slangrad.lower.values.byte_runs import (
    WORD,
    BytePiece,
    Bytes,
    Run,
    assembled,
    holds_long,
    words_of,
)

ID = 8  # the place of the type's id in the header


def from_memory(f: Frame, value: Value) -> Value:
    """A loaded value in the form for computation."""
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
    vectors = [from_memory(f, f.emit("get", lines, index=i)) for i, _ in enumerate(components(lines.type))]
    rows = []
    for i, row in enumerate(components(target)):
        rows.append(f.emit("make", *(f.emit("get", line, index=i) for line in vectors), type=row))
    return f.emit("make", *rows, type=target)


def to_memory(f: Frame, value: Value, form: Type) -> Value:
    """A computed value in the form of memory."""
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
    """The content of the one field of a form."""
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
    words_of_value = (f.emit("get", words, index=i) for i in range(words.type.length))
    return [
        BytePiece(WORD * i, WORD, f.emit("convert", word, type=U64)) for i, word in enumerate(words_of_value)
    ]


def _assembled_words(f: Frame, value: Value, count: int) -> Value:
    parts = _parts(f, value)
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
    bits = [BytePiece(ID, WORD, f.emit("convert", number, type=U64)), *_AnyForm(f).parts(value, HEADER)]
    return _decoded(f, t, 0, bits)


def reinterpret(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """`reinterpret<T>(value)`: the bytes that a value has behind an interface as those of another type. Surplus
    bytes are dropped, missing bytes are zero."""
    assert t is not None
    value = places[0].get(f)
    if value.type is t:
        return value
    if same_shape(value.type, t):
        return f.emit("bitcast", value, type=t)
    return _AnyForm(f).value(t, 0, _parts(f, value))


# --- Putting together -----------------------------------------------------------------------------------


class _AnyForm(ByteForm):
    """The bytes of values behind the header of an interface value. Interface values within have headers, too."""

    def layout(self, t: Type) -> Layout:
        return any_value_layout(t)

    def parts(self, value: Value, start: int, form: Type | None = None) -> Iterator[Bytes]:
        types, form = self.f.lowering.types, self._form(value.type, form)
        if value.type in types.dynamics:
            return _encoded(self.f, value, start)
        if isinstance(form, Matrix) and value.type is not form:
            return self.parts(to_memory(self.f, value, form), start, form)
        return super().parts(value, start, form)

    def value(self, t: Type, start: int, parts: list[Bytes], form: Type | None = None) -> Value:
        if t in self.f.lowering.types.dynamics:
            assert isinstance(t, Struct)
            return _decoded(self.f, t, start, parts)
        form = self._form(t, form)
        if isinstance(form, Matrix) and t is not form:
            return from_memory(self.f, self.value(form, start, parts, form))
        return super().value(t, start, parts, form)

    def _form(self, t: Type, form: Type | None) -> Type:
        return self.f.lowering.types.memory(t) if form is None else form


def _parts(f: Frame, value: Value) -> list[Bytes]:
    return list(_AnyForm(f).parts(value, 0))


def _encoded(f: Frame, value: Value, start: int) -> Iterator[Bytes]:
    """The id, and the words of the value's type."""
    assert isinstance(value.type, Struct)
    number, ids = f.emit("get", value, index=0), f.lowering.types.ids(value.type)
    chosen = [f.emit("equal", number, f.b.constant(U32, i)) for i in range(len(ids))]
    id_ = _select(f, chosen, [f.b.constant(U64, type_id) for type_id in ids]) if ids else f.b.zero(U64)
    yield BytePiece(start + ID, 4, id_)
    size = f.lowering.types.any_layout(value.type).size - HEADER
    if holds_long(value.type):
        yield Run(start + HEADER, size, _words_of_type(f, value, chosen, size // WORD))
        return
    fields = [_parts(f, f.emit("get", value, index=i + 1)) for i in range(len(ids))]
    for at in range(0, size, WORD):
        words = [f.emit("convert", assembled(f, at, WORD, parts), type=U32) for parts in fields]
        word = _select(f, chosen, words) if words else f.b.zero(U32)
        yield BytePiece(start + HEADER + at, WORD, f.emit("convert", word, type=U64))


def _words_of_type(f: Frame, value: Value, chosen: list[Value], count: int) -> Value:
    """The words of the first type whose condition holds, else of the last one."""
    assert isinstance(value.type, Struct)
    number = len(value.type.fields) - len(chosen)

    def words() -> tuple[Value, ...]:
        return (words_of(f, count, _parts(f, f.emit("get", value, index=number))),)

    others = lambda: (_words_of_type(f, value, chosen[1:], count),)
    return (words() if len(chosen) == 1 else f.branch(chosen[0], words, others))[0]


def _select(f: Frame, chosen: list[Value], values: list[Value]) -> Value:
    """The value whose condition holds, else the first one."""
    pairs = zip(chosen[1:], values[1:], strict=True)
    return reduce(lambda other, pair: f.emit("select", *pair, other), pairs, values[0])


# --- Taking apart ---------------------------------------------------------------------------------------


def _decoded(f: Frame, t: Struct, start: int, parts_of_bytes: list[Bytes]) -> Value:
    """A value of an interface type; an id that no type has means the type with the largest one."""
    ids = f.lowering.types.ids(t)
    id_ = f.emit("convert", assembled(f, start + ID, 4, parts_of_bytes), type=U32)
    number = f.b.constant(U32, ids.index(max(ids)) if ids else 0)
    for i, type_id in enumerate(ids):
        matches = f.emit("equal", id_, f.b.constant(U32, type_id))
        number = f.emit("select", matches, f.b.constant(U32, i), number)
    parts = [_AnyForm(f).value(part_type, start + HEADER, parts_of_bytes) for _, part_type in t.fields[1:]]
    return f.emit("make", number, *parts, type=t)
