"""Zeros and sums of tangents: `T.dzero()` and `T.dadd(a, b)` where no user wrote them.

{float3 x; Mine y}     make (zero), (call @"Mine.dzero")       component by component, users' functions within
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.ir.builder import Builder
from slangrad.ir.core import Region, Value
from slangrad.ir.types import U32, Array, Struct, Type, components, is_aggregate, scalar_of

if TYPE_CHECKING:
    from slangrad.lower.instances import Lowering

UNROLLED = 8  # longer arrays are added by a loop


def zero(lowering: Lowering, caller: str, b: Builder, t: Type) -> Value:
    """The zero of a tangent type, for code of the function `caller`."""
    user = lowering.types.own_differential(t)
    if user is not None and user.zero is not None:
        return _call(lowering, caller, b, user.zero, (), t)
    if not _has_functions(lowering, t):
        return b.zero(t)
    return b.emit("make", *(zero(lowering, caller, b, part) for part in components(t)), type=t)


def add(lowering: Lowering, caller: str, b: Builder, x: Value, y: Value) -> Value:
    """The sum of two tangents. What carries no derivative is taken from the first."""
    t = x.type
    user = lowering.types.own_differential(t)
    if user is not None and user.add is not None:
        return _call(lowering, caller, b, user.add, (x, y), t)
    scalar = scalar_of(t)
    if scalar is not None:
        return b.emit("add", x, y) if scalar.kind == "float" else x
    if not isinstance(t, (Array, Struct)):
        return x

    if isinstance(t, Array) and (t.length or 0) > UNROLLED:
        return _add_by_loop(lowering, caller, b, t, x, y)
    pairs = [(b.emit("get", x, index=i), b.emit("get", y, index=i)) for i, _ in enumerate(components(t))]
    return b.emit("make", *(add(lowering, caller, b, *pair) for pair in pairs), type=t)


def _add_by_loop(lowering: Lowering, caller: str, b: Builder, t: Array, x: Value, y: Value) -> Value:
    index, whole, inner = Value(U32, "i"), Value(t), b.nested()
    part = add(lowering, caller, inner, inner.emit("index", x, index), inner.emit("index", y, index))
    body = Region((index, whole), inner.ops, (inner.emit("set_index", whole, index, part),))
    return b.control("for", (b.constant(U32, t.length or 0), x), (t,), (body,))[0]


def _has_functions(lowering: Lowering, t: Type) -> bool:
    """Whether a user's own zero is somewhere in the type."""
    if lowering.types.own_differential(t) is not None:
        return True
    if scalar_of(t) is not None or not is_aggregate(t):
        return False
    parts = [t.element] if isinstance(t, Array) else components(t)
    return any(_has_functions(lowering, part) for part in parts)


def _call(
    lowering: Lowering, caller: str, b: Builder, callee: str, operands: tuple[Value, ...], t: Type
) -> Value:
    lowering.calls(caller, callee, b.span)
    return b.control("call", operands, (t,), (), {"callee": callee})[0]
