"""Functions with a forward pass of the user's own: the functions that are differentiated backward in their place.

    __apply(cube)(float x) -> Tuple<float, Context>      void Context::operator()(out float dx, float d)

    func @cube.applied(%x) {
      %t = call @"__apply(cube)" %x
      %r = call @cube.context %x, (get %t 0), (get %t 1)
      yield %r
    }

`cube.context` gives its second operand; its derivative is the operator. So the context is an ordinary value that
the plan of the reverse sweep stores or computes again.
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import Type
from slangrad.ir.building.builder import Builder
from slangrad.ir.ops.core import Derivatives, Function, Parameter, Region, Value
from slangrad.lower.model.frame import Lowering
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.syntax import ast


def lower_forward_pass(lowering: Lowering, of: Signature, custom: checked.Applied) -> str:
    """The name of the function that stands for one with a forward pass of its own."""
    name = lowering.unique(f"{of.name}.applied")
    inputs = tuple(Value(p.type, p.name) for p in of.inputs)
    lowering.tangents.enter_context(_result(lowering, custom.function), custom.context)
    apply, b = lowering.function(custom.function), Builder()
    returned = b.call(apply.name, inputs, apply.result_types)
    parts = [returned[0]] if of.result_type is None else [b.emit("get", returned[0], index=i) for i in (0, 1)]
    results = (*parts[:-1], *returned[1:])
    context = _context_function(lowering, of, custom, parts[-1])
    yields = b.call(context, (*inputs, *results, parts[-1]), of.result_types)
    region = Region(inputs, b.ops, yields)
    lowering.ir.add(
        Function(
            name,
            of.ir_parameters(),
            of.result_type,
            region,
            of.result_differentiable,
            attributes={"context": context},
        )
    )
    return name


def _result(lowering: Lowering, function: DeclRef) -> Type:
    declared: ast.AnyFunction = function.declaration
    return lowering.program.substitute(lowering.program.info(declared).result, function.substitution)


def _context_function(lowering: Lowering, of: Signature, custom: checked.Applied, context: Value) -> str:
    name = lowering.unique(f"{of.name}.context")
    parameters = _parameters(of, context)
    values = tuple(Value(p.type, p.name) for p in parameters)
    results = values[len(of.inputs) : -1]
    outputs = tuple(Parameter(p.name, p.type, "out", p.differentiable) for p in of.outputs)
    derivatives = Derivatives(vjp=_backward(lowering, name, of, custom, parameters))
    lowering.ir.add(
        Function(
            name,
            (*parameters, *outputs),
            of.result_type,
            Region(values, [], results),
            of.result_differentiable,
            derivatives,
        )
    )
    return name


def _parameters(of: Signature, context: Value) -> tuple[Parameter, ...]:
    """The inputs of the function, its results and the context; derivatives reach the inputs alone."""
    inputs = (Parameter(p.name, p.type, "in", p.differentiable) for p in of.inputs)
    results = (Parameter(f"result{i}", t, "in", False) for i, t in enumerate(of.result_types))
    return (*inputs, *results, Parameter("context", context.type, "in", False))


def _backward(
    lowering: Lowering, name: str, of: Signature, custom: checked.Applied, parameters: tuple[Parameter, ...]
) -> str:
    """The derivative in the form that autodiff itself gives them: inputs and cotangents to cotangents."""
    operator, b = lowering.function(custom.backward), Builder()
    values = [Value(p.type, p.name) for p in parameters]
    flags, types = of.result_flags, of.result_types
    cotangents = [
        Value(lowering.tangents.space.tangent_of(t)) for t, flag in zip(types, flags, strict=True) if flag
    ]
    given_back = iter(cotangents)
    returned = [next(given_back)] if of.result_differentiable else []
    output_cotangents = [next(given_back) for p in of.parameters if p.differentiable and p.direction != "in"]
    arguments = (values[-1], *output_cotangents, *returned)
    written = b.call(operator.name, arguments, operator.result_types)
    cts_of_inputs = _results_of(operator, written)
    yields = tuple(cts_of_inputs)
    ins = tuple(Parameter(p.name, p.type, "in") for p in parameters)
    ins += tuple(Parameter(f"d{i}", v.type, "in") for i, v in enumerate(cotangents))
    outs = tuple(Parameter(f"d{p.name}", v.type, "out") for p, v in zip(_varied(of), yields, strict=True))
    region = Region((*values, *cotangents), b.ops, yields)
    return lowering.ir.add(Function(f"{name}.vjp", (*ins, *outs), None, region)).name


def _results_of(operator: Signature, written: tuple[Value, ...]) -> tuple[Value, ...]:
    """The outputs of the operator, without a context that it changes."""
    pairs = zip(operator.outputs, written, strict=True)
    return tuple(value for p, value in pairs if p.name != "this")


def _varied(of: Signature) -> tuple[SignatureParameter, ...]:
    return tuple(p for p in of.inputs if p.differentiable)
