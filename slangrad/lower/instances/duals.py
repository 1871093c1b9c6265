"""Derivatives of functions that take pointers, which come in two halves: to values, and to their derivatives.

float load(Mine p, int i)      bwd_diff(load)(DifferentialPtrPair<Mine> p, int i, float d)

func @load.dual(%p, %dp, %i)   of which the derivative is asked for; autodiff makes its body
"""

from __future__ import annotations

from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import Type
from slangrad.ir.ops.core import Function, Region, Value
from slangrad.lower.model.frame import Lowering
from slangrad.lower.model.signatures import Signature, SignatureParameter

Apart = tuple[Signature, Signature, list[Value | None]]


def taken_apart(
    lowering: Lowering, b: Builder, of: Signature, derivative: Signature, inputs: list[Value | None]
) -> Apart:
    """The function with two parameters for each pointer, its derivative with the same, and the arguments of
    that."""
    if of.dual is None and all(p.dual is None for p in of.parameters):
        return of, derivative, inputs
    dual = _dual_signature(of)
    if dual.name not in lowering.ir.functions:
        _declare(lowering, dual, of)
    pointers = {p.name: p for p in of.parameters if p.dual is not None}
    parameters: list[SignatureParameter] = []
    values: list[Value | None] = []
    for p, value in zip(derivative.parameters, inputs, strict=True):
        pointer = pointers.get(p.name)
        parameters += [p] if pointer is None else _halves(p, pointer)
        values += [value] if pointer is None else _given_halves(b, pointer, value)
    result_type = derivative.result_type
    if of.dual is not None and result_type is not None:
        result_type = of.result_type
        parameters.insert(0, _result(of, of.dual))
        values.insert(0, None)
    return dual, replace(derivative, parameters=tuple(parameters), result_type=result_type), values


def put_together(b: Builder, derivative: Signature, yields: list[Value]) -> list[Value]:
    """The results of the derivative of the function with two parameters, with pairs again."""
    left, values = iter(yields), []
    for t in derivative.result_types:
        value = next(left)
        values.append(value if value.type is t else b.emit("make", value, next(left), type=t))
    return values


def _dual_signature(of: Signature) -> Signature:
    parameters = [] if of.dual is None else [_result(of, of.dual)]
    for p in of.parameters:
        parameters += [p] if p.dual is None else _halves(p, p)
    return replace(of, name=f"{of.name}.dual", parameters=tuple(parameters), dual=None)


def _result(of: Signature, dual: Type) -> SignatureParameter:
    return SignatureParameter("dresult", of.result, dual, "out", False, False)


def _halves(pair: SignatureParameter, of: SignatureParameter) -> list[SignatureParameter]:
    """`pair`, a pair, as two parameters of the types of `of` and its other half."""
    assert of.dual is not None
    first = SignatureParameter(pair.name, of.checked, of.type, pair.direction, False, False)
    return [first, replace(first, name=f"d{pair.name}", type=of.dual)]


def _given_halves(b: Builder, of: SignatureParameter, value: Value | None) -> list[Value | None]:
    """Of a pair, or of the object of `fwd_diff(object.method)`, which has no other half."""
    assert of.dual is not None
    if value is None:
        return [None, None]
    if value.type is of.type:
        return [value, b.zero(of.dual)]
    return [b.emit("get", value, index=0), b.emit("get", value, index=1)]


def _declare(lowering: Lowering, dual: Signature, of: Signature) -> None:
    """Autodiff makes the body; until then it has the form alone."""
    b = Builder()
    inputs = tuple(Value(p.type, p.name) for p in dual.inputs)
    yields = tuple(b.zero(t) for t in dual.result_types)
    lowering.ir.add(
        Function(
            dual.name,
            dual.ir_parameters(),
            dual.result_type,
            Region(inputs, b.ops, yields),
            dual.result_differentiable,
            attributes={"dual_of": of.name},
        )
    )
