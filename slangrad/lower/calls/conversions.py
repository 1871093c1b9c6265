"""Implicit and explicit conversions, and the assembling of aggregates from parts.

int -> float         convert            float -> float3     splat
float4 -> float2     make of two get    {1, v.yz}           make of three: a vector's parts in a row
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.check.model.checked import Conversion
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import Type as CheckedType
from slangrad.ir.data.types import (
    BOOL,
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
    is_long,
    scalar_of,
)
from slangrad.ir.ops.core import Value
from slangrad.lower.calls.calls import call_function
from slangrad.lower.model.frame import Frame
from slangrad.lower.places.places import Temporary
from slangrad.lower.values.interface_values import as_interface


def convert(f: Frame, value: Value, conversion: Conversion) -> Value:
    return CONVERSIONS[conversion.kind](f, value, conversion)


def _target(f: Frame, conversion: Conversion) -> Type:
    return f.type(conversion.target)


def _splat(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    if isinstance(value.type, Vector):  # of one component
        value = f.emit("get", value, index=0)
    element = scalar_of(target)
    assert element is not None
    converted = f.emit("convert", value, type=element)
    return f.emit("splat", converted, type=target)


def truncate(f: Frame, value: Value, target: Type) -> Value:
    """The leading components, elements converted."""
    if isinstance(target, Scalar):
        while not isinstance(value.type, Scalar):
            value = f.emit("get", value, index=0)
        return f.emit("convert", value, type=target)
    return f.componentwise(value, target, partial(truncate, f))


def _pointer(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    if target is BOOL:
        return f.emit("not_equal", f.emit("bitcast", value, type=U64), f.b.zero(U64))
    if isinstance(value.type, Pointer) and isinstance(target, Scalar):
        return f.emit("convert", f.emit("bitcast", value, type=U64), type=target)
    if isinstance(value.type, Scalar) and isinstance(target, Pointer):
        value = f.emit("convert", value, type=U64)
    return f.emit("bitcast", value, type=target)


def _call(f: Frame, value: Value, conversion: Conversion) -> Value:
    assert conversion.function is not None
    if conversion.inner is not None:
        value = convert(f, value, conversion.inner)
    converted = call_function(f, conversion.function, [Temporary(value)])
    assert converted is not None
    return converted


def _stated(f: Frame, value: Value, conversion: Conversion) -> Value:
    """The conversion of `where U(T)`, for concrete types."""
    assert conversion.source is not None
    source, target = f.concrete(conversion.source), f.concrete(conversion.target)
    rule = f.program.conversion(source, target, implicit=False)
    if rule is None:
        f.error("E0404", f"'{source}' does not convert to '{target}'", f.b.span)
        return f.b.zero(f.type(target))
    stated = rule.conversion
    if stated is not None and stated.function is not None and f.differentiable:
        _check_derivative(f, source, target, stated.function)
    return value if stated is None else convert(f, value, stated)


def _check_derivative(f: Frame, source: CheckedType, target: CheckedType, constructor: DeclRef) -> None:
    tangents, level = f.lowering.tangents, f.program.info(constructor.declaration).level
    if level == "none" and tangents.has_tangent(source) and tangents.has_tangent(target):
        reason = f"'{target}.__init' is not differentiable"
        f.lost_derivative(reason, "mark the constructor as [Differentiable]")


def _array(f: Frame, value: Value, conversion: Conversion) -> Value:
    assert conversion.inner is not None
    inner = conversion.inner
    return f.componentwise(value, _target(f, conversion), lambda part, _: convert(f, part, inner))


def _optional(f: Frame, value: Value, conversion: Conversion) -> Value:
    """An optional with a value; `none` is all zero."""
    target = _target(f, conversion)
    if value.type is not component(target, 0) and conversion.inner is not None:
        value = convert(f, value, conversion.inner)
    if value.type is not component(target, 0):
        return f.b.zero(target)
    return f.emit("make", value, f.true(), type=target)


def _base(f: Frame, value: Value, conversion: Conversion) -> Value:
    target = _target(f, conversion)
    while value.type is not target:
        value = f.emit("get", value, index=0)
    return value


def _interface(f: Frame, value: Value, conversion: Conversion) -> Value:
    assert conversion.source is not None
    return as_interface(f, value, f.concrete(conversion.source), f.concrete(conversion.target))


# fmt: off
CONVERSIONS: dict[str, Callable[[Frame, Value, Conversion], Value]] = {
    "numeric":   lambda f, value, conversion: f.emit("convert", value, type=_target(f, conversion)),
    "sign":      lambda f, value, conversion: f.emit("convert", value, type=_target(f, conversion)),
    "splat":     _splat,
    "truncate":  lambda f, value, conversion: truncate(f, value, _target(f, conversion)),
    "reshape":   lambda f, value, conversion: _from_scalars(f, f.scalars(value), _target(f, conversion))[0],
    "pointer":   _pointer,
    "stated":    _stated,
    "call":      _call,
    "array":     _array,
    "optional":  _optional,
    "base":      _base,
    "existing":  lambda f, value, conversion: value,
    "interface": _interface,
}
# fmt: on


# --- Aggregates from parts ----------------------------------------------------------------------------


def assemble(f: Frame, parts: list[Value], target: Type) -> Value:
    """Fields or elements in order; of vectors and matrices the scalars in order. Missing parts are zero."""
    if not parts:
        return f.b.zero(target)
    if isinstance(target, (Vector, Matrix)):
        return _from_scalars(f, [scalar for part in parts for scalar in f.scalars(part)], target)[0]
    if not isinstance(target, (Array, Struct)):
        (only,) = parts
        return only
    missing = list(components(target))[len(parts) :]
    if missing and isinstance(target, Array) and is_long(target):
        whole = f.b.zero(target)
        for i, part in enumerate(parts):
            whole = f.emit("set", whole, part, index=i)
        return whole
    return f.emit("make", *parts, *map(f.b.zero, missing), type=target)


def _from_scalars(f: Frame, scalars: list[Value], target: Type) -> tuple[Value, list[Value]]:
    """A value from the first scalars, with zeros if they run out, and the remaining scalars."""
    if not isinstance(target, (Vector, Matrix, Array)):
        return (scalars[0], scalars[1:]) if scalars else (f.b.zero(target), [])
    parts = []
    for part in components(target):
        value, scalars = _from_scalars(f, scalars, part)
        parts.append(value)
    return f.emit("make", *parts, type=target), scalars
