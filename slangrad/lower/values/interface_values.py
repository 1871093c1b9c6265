"""Values of interface types: the number of the type, beside one field for each possible type.

IShape = { u32 type; Circle is0; Square is1; }          Circle -> IShape      make 0, %circle, (zero)

Values of associated types have the same form: `narrow` takes a value apart for one of the types, `widen` puts it
together again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.base.options import TYPE_OF_VALUE
from slangrad.check.interfaces.lookup import conforms
from slangrad.check.model import types as checked
from slangrad.ir.data.types import U32, Struct
from slangrad.ir.ops.core import Value
from slangrad.lower.model.alternatives import is_tangent
from slangrad.lower.model.frame import Frame


def over_types(
    f: Frame, value: Value, wide: checked.Type, arm: Callable[[int, checked.Type], None], start: int = 0
) -> None:
    """Run the arm of the type that a value has."""
    types = f.lowering.types.alternatives(wide)
    if not types:
        f.lowering.alternatives.lacks(wide, f.b.span)
        return
    if start == len(types) - 1:
        arm(start, types[start])
        return
    others = partial(over_types, f, value, wide, arm, start + 1)
    f.branch(has_number(f, value, start), partial(arm, start, types[start]), others)


def has_number(f: Frame, value: Value, number: int) -> Value:
    return f.emit("equal", f.emit("get", value, index=0), f.b.constant(U32, number))


# --- Taking apart and putting together ------------------------------------------------------------------


def narrow(f: Frame, value: Value, wide: checked.Type, target: checked.Type, number: int) -> Value:
    """A value for the type of that number."""
    if wide is target:
        return value
    if is_tangent(wide):
        return f.emit("get", value, index=number)
    if checked.is_dynamic(wide):
        narrowed = f.emit("get", value, index=number + 1)
        for i in _numbers_of(f, wide, target):
            if i != number:
                narrowed = f.emit(
                    "select", has_number(f, value, i), f.emit("get", value, index=i + 1), narrowed
                )
        return narrowed
    return _part_by_part(
        f,
        value,
        wide,
        target,
        lambda part, part_wide, part_target: narrow(f, part, part_wide, part_target, number),
    )


def _numbers_of(f: Frame, wide: checked.Type, target: checked.Type) -> list[int]:
    """The numbers that mean this type: types of objects may have the same associated type."""
    return [i for i, alternative in enumerate(f.lowering.types.alternatives(wide)) if alternative is target]


def require_kind(f: Frame, value: Value, wide: checked.Type, target: checked.Type, number: int) -> None:
    """Report a value that is of another type than the one wanted: it came from an object of another type."""
    if wide is target or is_tangent(wide):
        return
    if not checked.is_dynamic(wide):
        for i, (part_wide, part_target) in enumerate(zip(_parts(f, wide), _parts(f, target), strict=True)):
            require_kind(f, f.emit("get", value, index=i), part_wide, part_target, number)
        return
    types, fitting = f.lowering.types.alternatives(wide), _numbers_of(f, wide, target)
    if len(fitting) == len(types) or not fitting:  # no other type is possible, or lowering begins again
        return
    fits = f.false()
    for i in fitting:
        fits = f.emit("or", fits, has_number(f, value, i))
    reported = f.emit("add", f.emit("get", value, index=0), f.b.constant(U32, 1))
    wrong = f.emit("select", fits, f.b.constant(U32, 0), reported)
    text = "\n".join((TYPE_OF_VALUE, str(target), *map(str, types)))
    f.emit("in_bounds", wrong, f.b.constant(U32, 1), text=text)


def widen(f: Frame, value: Value, source: checked.Type, wide: checked.Type, number: int) -> Value:
    """The inverse: fields of other types are zero."""
    if wide is source:
        return value
    if checked.is_dynamic(wide):
        return _with_number(f, value, wide, number)
    return _part_by_part(
        f,
        value,
        source,
        wide,
        lambda part, part_source, part_wide: widen(f, part, part_source, part_wide, number),
    )


def _with_number(f: Frame, value: Value, wide: checked.Type, number: int) -> Value:
    t = f.lowering.types.of(wide, f.b.span)
    assert isinstance(t, Struct)
    first = 0 if is_tangent(wide) else 1
    parts = [f.b.zero(part_type) for _, part_type in t.fields]
    if number + first >= len(parts):  # a type that is new to the interface: lowering begins again
        return f.b.zero(t)
    parts[number + first] = value
    if first:
        parts[0] = f.b.constant(U32, number)
    return f.emit("make", *parts, type=t)


def _part_by_part(
    f: Frame,
    value: Value,
    source: checked.Type,
    target: checked.Type,
    change: Callable[[Value, checked.Type, checked.Type], Value],
) -> Value:
    """A struct, tuple or array of such values."""
    pairs = list(zip(_parts(f, source), _parts(f, target), strict=True))
    if not pairs:
        f.error("E9007", f"'{target}' cannot be made where types are known at run time only", f.b.span)
        return f.b.zero(f.lowering.types.of(target, f.b.span))
    parts = (change(f.emit("get", value, index=i), *pair) for i, pair in enumerate(pairs))
    return f.emit("make", *parts, type=f.lowering.types.of(target, f.b.span))


def _parts(f: Frame, t: checked.Type) -> list[checked.Type]:
    if isinstance(t, checked.StructType):
        return [kind for _, kind in f.program.fields(t)]
    if isinstance(t, checked.Tuple):
        return list(t.elements)
    if isinstance(t, checked.ArrayType) and isinstance(t.count, int):
        return [t.element] * t.count
    return []


# --- Conversions and questions --------------------------------------------------------------------------


def as_interface(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """A value of a type that conforms, which may be one of another interface type."""
    if source is target:
        return value
    if f.differentiable and not f.lowering.tangents.has_tangent(target):
        value = f.detached(value)
    if not checked.is_dynamic(source):
        f.lowering.alternatives.add(target, source, f.b.span)
        return widen(f, value, source, target, _number(f, source, target))
    for alternative in f.lowering.types.alternatives(source):
        f.lowering.alternatives.add(target, alternative, f.b.span)
    return _over_all(f, value, source, target)


def _number(f: Frame, t: checked.Type, interface: checked.Type) -> int:
    types = f.lowering.types.alternatives(interface)
    return types.index(t) if t in types else len(types)


def _over_all(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """A value of one interface type as one of another; the types that the other lacks become its first one."""
    t = f.lowering.types.of(target, f.b.span)
    assert isinstance(t, Struct)
    targets, number = f.lowering.types.alternatives(target), f.b.constant(U32, 0)
    parts = {i: f.b.zero(kind) for i, (_, kind) in enumerate(t.fields)}
    for i, alternative in enumerate(f.lowering.types.alternatives(source)):
        if alternative in targets:
            position = targets.index(alternative)
            number = f.emit("select", has_number(f, value, i), f.b.constant(U32, position), number)
            parts[position + 1] = f.emit("get", value, index=i + 1)
    return f.emit("make", number, *list(parts.values())[1:], type=t)


def is_kind_of(f: Frame, t: checked.Type, target: checked.Type) -> bool:
    """`x is Target` of a type that is known."""
    if isinstance(target, checked.InterfaceType):
        return conforms(f.program, t, target)
    return t is target


def type_test(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """`x is Target`."""
    if source is target:
        return f.true()
    is_target = f.false()
    for i, alternative in enumerate(f.lowering.types.alternatives(source)):
        if is_kind_of(f, alternative, target):
            is_target = f.emit("or", is_target, has_number(f, value, i))
    return is_target


def downcast(f: Frame, value: Value, source: checked.Type, target: checked.Type, optional: object) -> Value:
    """`x as Target`: an optional."""
    assert isinstance(optional, Struct)
    if not checked.is_dynamic(source):
        if not is_kind_of(f, source, target):
            return f.b.zero(optional)
        inner = as_interface(f, value, source, target) if checked.is_dynamic(target) else value
        return f.emit("make", inner, f.true(), type=optional)
    fits = type_test(f, value, source, target)
    if checked.is_dynamic(target):
        for alternative in f.lowering.types.alternatives(source):
            if is_kind_of(f, alternative, target):
                f.lowering.alternatives.add(target, alternative, f.b.span)
        inner = value if source is target else _over_all(f, value, source, target)
    else:
        types = list(f.lowering.types.alternatives(source))
        if target not in types:
            return f.b.zero(optional)
        inner = f.emit("get", value, index=types.index(target) + 1)
    return f.emit("make", inner, fits, type=optional)
