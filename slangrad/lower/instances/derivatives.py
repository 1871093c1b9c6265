"""`fwd_diff(f)` and `bwd_diff(f)` as ordinary functions around a request, in Slang's calling conventions.

    void bwd_diff(square)(inout DifferentialPair<float> x, float dOut)

    func @"bwd_diff(square)"(inout %x: pair, %dOut: f32) -> (pair) {
      %p = get %x {index=0}
      %dx = vjp @square %p, %dOut
      %new = make %p, %dx
      yield %new
    }

So a call of a derivative is a call, and a derivative of a derivative needs no special case.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import Type
from slangrad.ir.ops.core import Function, Region, Value
from slangrad.lower.instances import duals
from slangrad.lower.model.frame import Lowering
from slangrad.lower.model.signatures import Signature, SignatureParameter


def lower_derivative(
    lowering: Lowering, mode: str, of: Signature, signature: Signature, span: Span | None
) -> Function:
    b = Builder(span=span)
    inputs = {p.name: Value(p.type, p.name) for p in signature.parameters if p.direction != "out"}
    values = [inputs.get(p.name) for p in signature.parameters]
    apart = duals.taken_apart(lowering, b, of, signature, values)
    request = _Request(lowering, b, *apart)
    yields = request.forward() if mode == "forward" else request.backward()
    yields = duals.put_together(b, signature, yields)
    region = Region(tuple(inputs.values()), b.ops, tuple(yields))
    derivative = Function(
        signature.name,
        signature.ir_parameters(),
        signature.result_type,
        region,
        signature.result_differentiable,
        span=span,
    )
    if apart[0] is not of:
        derivative.attributes["of_pointers"] = True
    return derivative


@dataclass(slots=True)
class _Request:
    """`of` is differentiated; `signature` is the signature of its derivative; `inputs` are its inputs, by parameter.

    The `this` of `fwd_diff(object.method)` comes without a derivative: its tangent is zero, and its cotangent is
    dropped.
    """

    lowering: Lowering
    b: Builder
    of: Signature
    signature: Signature
    inputs: list[Value | None]

    def forward(self) -> list[Value]:
        """Pairs in, pairs out. `signature` has the parameters of `of` with pairs for the differentiable ones."""
        primals, tangents = [], []
        for p, value in zip(self.of.parameters, self.inputs, strict=True):
            if p.direction == "out":
                continue
            assert value is not None
            is_pair = p.differentiable and value.type is not p.type
            primals.append(self._part(value, 0) if is_pair else value)
            if p.differentiable:
                tangents.append(self._part(value, 1) if is_pair else self._zero(p))
        flags = self._result_flags()
        types = (*self.of.result_types, *(t for t in flags if t is not None))
        outputs = self.b.call(self.of.name, (*primals, *tangents), types, name="jvp")
        results, derived = outputs[: len(flags)], iter(outputs[len(flags) :])
        tangents_of = [None if t is None else next(derived) for t in flags]
        return [
            value if tangent is None or value.type is t else self.b.emit("make", value, tangent, type=t)
            for value, tangent, t in zip(results, tangents_of, self.signature.result_types, strict=True)
        ]

    def backward(self) -> list[Value]:
        """Inout pairs for what goes in, cotangents for what comes out."""
        inputs = list(self.inputs)
        last = [inputs.pop()] if self.of.result_differentiable else []
        cotangents = [value for value in last if value is not None]
        remaining = iter(inputs)
        primals: list[Value] = []
        pairs: list[Value | None] = []  # of the differentiable inputs in order; None for what is no pair
        for p in self.of.parameters:
            if p.direction == "out" and not p.differentiable:
                continue
            value = next(remaining)
            assert value is not None
            if p.direction == "out":
                cotangents.append(value)
                continue
            is_pair = p.differentiable and value.type is not p.type
            primals.append(self._part(value, 0) if is_pair else value)
            if p.differentiable:
                pairs.append(value if is_pair else None)
            if p.differentiable and p.direction == "inout":
                cotangents.append(self._part(value, 1) if is_pair else self._zero(p))
        types = tuple(self._tangent(p) for p in self.of.inputs if p.differentiable)
        cts_of_inputs = self.b.call(self.of.name, (*primals, *cotangents), types, name="vjp")
        return [
            self.b.emit("make", self._part(pair, 0), cotangent, type=pair.type)
            for pair, cotangent in zip(pairs, cts_of_inputs, strict=True)
            if pair is not None
        ]

    def _part(self, pair: Value, index: int) -> Value:
        return self.b.emit("get", pair, index=index)

    def _zero(self, p: SignatureParameter) -> Value:
        return self.lowering.tangents.space.zero(self.b, p.type)

    def _result_flags(self) -> list[Type | None]:
        """The tangent type of each result; None for those without."""
        of, tangents = self.of, self.lowering.tangents
        returned = (
            []
            if of.result_type is None
            else [tangents.tangent(of.result) if of.result_differentiable else None]
        )
        return [*returned, *(self._tangent(p) if p.differentiable else None for p in of.outputs)]

    def _tangent(self, p: SignatureParameter) -> Type:
        return self.lowering.tangents.tangent(p.checked)
