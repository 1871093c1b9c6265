"""Zeros and sums of tangents: `T.dzero()` and `T.dadd(a, b)` where no user wrote them.

{float3 x; Mine y}     make (zero), (call @"Mine.dzero")       component by component, users' functions within
"""

from __future__ import annotations

from slangrad.ir.array_loops import with_elements
from slangrad.ir.builder import Builder
from slangrad.ir.core import Value
from slangrad.ir.types import Array, Struct, Type, components, is_long, scalar_of
from slangrad.lower.model.frame import Lowering

UNROLLED = 8  # longer arrays are added by a loop


def zero(lowering: Lowering, b: Builder, primal: Type) -> Value:
    """The zero of the tangents of a type, which may differ for types that share a tangent type."""
    tangent, row = lowering.tangents.tangent_of(primal), lowering.tangents.row(primal)
    if row is not None and row.zero is not None:
        return _call(b, row.zero, (), tangent)
    if not _has_functions(lowering, primal):
        return b.zero(tangent)
    if isinstance(primal, Array) and is_long(primal):
        element = primal.element
        return with_elements(b, b.zero(tangent), lambda nb, _, i: zero(lowering, nb, element))
    parts = (b.zero(t) if part is None else zero(lowering, b, part) for part, t in _parts(lowering, primal))
    return b.emit("make", *parts, type=tangent)


def add(lowering: Lowering, b: Builder, primal: Type | None, x: Value, y: Value) -> Value:
    """The sum of two tangents of a type. What carries no derivative is taken from the first."""
    t, row = x.type, lowering.tangents.row(primal)
    if row is not None and row.add is not None:
        return _call(b, row.add, (x, y), t)
    scalar = scalar_of(t)
    if scalar is not None:
        return b.emit("add", x, y) if scalar.kind == "float" else x
    if primal is None or not isinstance(t, (Array, Struct)):
        return x
    if isinstance(primal, Array) and (primal.length or 0) > UNROLLED:
        element = primal.element
        return with_elements(
            b,
            x,
            lambda nb, whole, i: add(
                lowering, nb, element, nb.emit("index", whole, i), nb.emit("index", y, i)
            ),
        )
    parts = [part for part, _ in _parts(lowering, primal)]
    pairs = [(b.emit("get", x, index=i), b.emit("get", y, index=i)) for i in range(len(parts))]
    either = set() if row is None else {position for _, position in row.kept}
    sums = (
        b.emit("or", *pair) if i in either else add(lowering, b, parts[i], *pair)
        for i, pair in enumerate(pairs)
    )
    return b.emit("make", *sums, type=t)


def scale(b: Builder, factor: Value, x: Value) -> Value:
    """A multiple of a tangent. What carries no derivative stays as it is."""
    t = x.type
    if isinstance(t, Array) and is_long(t):
        return with_elements(b, x, lambda nb, whole, i: scale(nb, factor, nb.emit("index", whole, i)))
    if isinstance(t, (Array, Struct)):
        parts = (scale(b, factor, b.emit("get", x, index=i)) for i, _ in enumerate(components(t)))
        return b.emit("make", *parts, type=t)
    scalar = scalar_of(t)
    if scalar is None or scalar.kind != "float":
        return x
    own = b.emit("convert", factor, type=scalar)
    return b.emit("mul", own if t is scalar else b.emit("splat", own, type=t), x)


def _parts(lowering: Lowering, primal: Type) -> list[tuple[Type | None, Type]]:
    """Of each component of the tangent: what it is the tangent of, None where it belongs to nothing; and its type."""
    types = list(components(lowering.tangents.tangent_of(primal)))
    if isinstance(primal, Array):
        return [(primal.element, t) for t in types]
    row = lowering.tangents.row(primal)
    assert row is not None and isinstance(primal, Struct), primal
    owners = {position: primal.fields[own][1] for own, position in row.fields}
    return [(owners.get(i), t) for i, t in enumerate(types)]


def _has_functions(lowering: Lowering, primal: Type) -> bool:
    """Whether a user's own zero is somewhere in the type."""
    if isinstance(primal, Array):
        return _has_functions(lowering, primal.element)
    row = lowering.tangents.row(primal)
    if row is None or not isinstance(primal, Struct):
        return False
    return row.zero is not None or any(
        _has_functions(lowering, primal.fields[own][1]) for own, _ in row.fields
    )


def _call(b: Builder, callee: str, operands: tuple[Value, ...], t: Type) -> Value:
    return b.call(callee, operands, (t,))[0]
