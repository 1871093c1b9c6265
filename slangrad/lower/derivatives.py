"""`fwd_diff(f)` and `bwd_diff(f)` as ordinary functions around a request, in Slang's calling conventions.

    void bwd_diff(square)(inout DifferentialPair<float> x, float dOut)

    func @"bwd_diff(square)"(inout %x: pair, %dOut: f32) -> (pair) {
      %p = get %x {index=0}
      %dx = vjp @square %p, %dOut
      %new = make %p, %dx
      yield %new
    }

So a call of a derivative is a call, and a derivative of a derivative needs nothing of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.base.source import Span
from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Region, Value
from slangrad.ir.types import Struct, Type
from slangrad.lower.signatures import Signature

if TYPE_CHECKING:
    from slangrad.lower.instances import Lowering


def lower_derivative(
    lowering: Lowering, mode: str, of: Signature, own: Signature, span: Span | None
) -> Function:
    b = Builder(span=span)
    given = {p.name: Value(p.type, p.name) for p in own.parameters if p.direction != "out"}
    make = _forward if mode == "forward" else _backward
    yields = make(b, of, own, [given.get(p.name) for p in own.parameters])
    region = Region(tuple(given.values()), b.ops, tuple(yields))
    lowering.calls(own.name, of.name, span)
    return Function(
        own.name,
        own.ir_parameters(),
        own.result_type,
        region,
        own.result_differentiable,
        attributes={},
        span=span,
    )


def _part(b: Builder, pair: Value, index: int) -> Value:
    return b.emit("get", pair, index=index)


def _forward(b: Builder, of: Signature, own: Signature, given: list[Value | None]) -> list[Value]:
    """Pairs in, pairs out. `own` has the parameters of `of` with pairs for the differentiable ones."""
    primals, tangents = [], []
    for p, value in zip(of.parameters, given, strict=True):
        if p.direction == "out":
            continue
        assert value is not None
        primals.append(_part(b, value, 0) if p.differentiable else value)
        if p.differentiable:
            tangents.append(_part(b, value, 1))
    flags = _result_flags(of)
    pair_types = own.result_types
    tangent_types = [_tangent(t) for t, carries in zip(pair_types, flags, strict=True) if carries]
    made = b.control(
        "jvp", (*primals, *tangents), (*of.result_types, *tangent_types), (), {"callee": of.name}
    )
    results, derived = made[: len(flags)], iter(made[len(flags) :])
    return [
        b.emit("make", value, next(derived), type=t) if carries else value
        for value, t, carries in zip(results, pair_types, flags, strict=True)
    ]


def _backward(b: Builder, of: Signature, own: Signature, given: list[Value | None]) -> list[Value]:
    """Inout pairs for what goes in, cotangents for what comes out; see `Derivative` in check/checked.py."""
    arguments = list(given)
    result_cotangent = arguments.pop() if of.result_differentiable else None
    taken = iter(arguments)
    primals: list[Value] = []
    pairs: list[Value] = []  # of the differentiable inputs, in order
    cotangents = [] if result_cotangent is None else [result_cotangent]
    for p in of.parameters:
        if p.direction == "out" and not p.differentiable:
            continue
        value = next(taken)
        assert value is not None
        if p.direction == "out":
            cotangents.append(value)
        elif p.differentiable:
            primals.append(_part(b, value, 0))
            pairs.append(value)
            cotangents += [_part(b, value, 1)] if p.direction == "inout" else []
        else:
            primals.append(value)
    types = tuple(_tangent(pair.type) for pair in pairs)
    made = b.control("vjp", (*primals, *cotangents), types, (), {"callee": of.name})
    return [
        b.emit("make", _part(b, pair, 0), ct, type=pair.type) for pair, ct in zip(pairs, made, strict=True)
    ]


def _result_flags(of: Signature) -> list[bool]:
    returned = [] if of.result_type is None else [of.result_differentiable]
    return [*returned, *(p.differentiable for p in of.outputs)]


def _tangent(pair: Type) -> Type:
    """The type of `.d`."""
    assert isinstance(pair, Struct), pair
    return pair.fields[1][1]
