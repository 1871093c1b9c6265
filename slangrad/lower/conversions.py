"""Implicit and explicit conversions, and the assembling of aggregates from parts.

int -> float         convert            float -> float3     splat
float4 -> float2     make of two get    {1, 2, {3, 4}}      parts, flattened when their number asks for it
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.checked import Conversion
from slangrad.ir.core import Value
from slangrad.ir.types import (
    U64,
    Array,
    Matrix,
    Pointer,
    Scalar,
    Struct,
    Type,
    Vector,
    component,
    components,
    scalar_of,
)
from slangrad.lower import calls
from slangrad.lower.frame import Frame
from slangrad.lower.places import Temporary


def convert(f: Frame, value: Value, conversion: Conversion) -> Value:
    rule = CONVERSIONS.get(conversion.kind)
    if rule is None:
        return _refuse(f, value, conversion)
    return rule(f, value, conversion)


def _target(f: Frame, conversion: Conversion) -> Type:
    return f.type(conversion.target, f.b.span)


def _numeric(f: Frame, value: Value, conversion: Conversion) -> Value:
    return f.emit("convert", value, type=_target(f, conversion))


def _splat(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    element = scalar_of(target)
    assert element is not None
    converted = f.emit("convert", value, type=element)
    return f.emit("splat", converted, type=target)


def _truncate(f: Frame, value: Value, conversion: Conversion) -> Value:
    return truncate(f, value, _target(f, conversion))


def truncate(f: Frame, value: Value, target: Type) -> Value:
    """The leading components, elements converted."""
    if isinstance(target, Scalar):
        while not isinstance(value.type, Scalar):
            value = f.emit("get", value, index=0)
        return f.emit("convert", value, type=target)
    parts = [truncate(f, f.emit("get", value, index=i), part) for i, part in enumerate(components(target))]
    return f.emit("make", *parts, type=target)


def _reshape(f: Frame, value: Value, conversion: Conversion) -> Value:
    return assemble(f, _scalars(f, value), _target(f, conversion))


def _pointer(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    if isinstance(value.type, Pointer) and isinstance(target, Scalar):
        return f.emit("convert", f.emit("bitcast", value, type=U64), type=target)
    if isinstance(value.type, Scalar) and isinstance(target, Pointer):
        value = f.emit("convert", value, type=U64)
    return f.emit("bitcast", value, type=target)


def _call(f: Frame, value: Value, conversion: Conversion) -> Value:
    assert conversion.function is not None
    made = calls.call_function(f, conversion.function, [Temporary(value)])
    assert made is not None
    return made


def _array(f: Frame, value: Value, conversion: Conversion) -> Value:
    assert conversion.inner is not None
    count = sum(1 for _ in components(value.type))
    parts = [convert(f, f.emit("get", value, index=i), conversion.inner) for i in range(count)]
    return f.emit("make", *parts, type=_target(f, conversion))


def _existing(f: Frame, value: Value, conversion: Conversion) -> Value:
    return value


def _refuse(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    f.error("E0704", f"a conversion to '{conversion.target}' at run time is not supported", f.b.span)
    return f.b.zero(target)


CONVERSIONS: dict[str, Callable[[Frame, Value, Conversion], Value]] = {
    "numeric": _numeric,
    "splat": _splat,
    "truncate": _truncate,
    "reshape": _reshape,
    "pointer": _pointer,
    "call": _call,
    "array": _array,
    "existing": _existing,
}


def assemble(f: Frame, parts: list[Value], target: Type) -> Value:
    """An aggregate from parts: one for each component, or parts whose scalars add up to its scalars."""
    wanted = tuple(components(target))
    if len(parts) == len(wanted) and all(part.type is t for part, t in zip(parts, wanted, strict=True)):
        return f.emit("make", *parts, type=target)
    if isinstance(target, (Scalar, Pointer)):
        assert len(parts) == 1, (target, parts)
        return parts[0]
    scalars = [scalar for part in parts for scalar in _scalars(f, part)]
    made, rest = _take(f, scalars, target)
    assert not rest, f"{len(rest)} scalars too many for {target}"
    return made


def _scalars(f: Frame, value: Value) -> list[Value]:
    if not isinstance(value.type, (Vector, Matrix, Array, Struct)):
        return [value]
    count = sum(1 for _ in components(value.type))
    return [scalar for i in range(count) for scalar in _scalars(f, f.emit("get", value, index=i))]


def _take(f: Frame, scalars: list[Value], target: Type) -> tuple[Value, list[Value]]:
    if not isinstance(target, (Vector, Matrix, Array, Struct)):
        assert scalars, f"too few scalars for {target}"
        first = scalars[0]
        return (f.emit("convert", first, type=target) if isinstance(target, Scalar) else first), scalars[1:]
    parts = []
    for i in range(sum(1 for _ in components(target))):
        part, scalars = _take(f, scalars, component(target, i))
        parts.append(part)
    return f.emit("make", *parts, type=target), scalars
