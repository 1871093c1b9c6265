"""The calling conventions of derivative functions.

    @f.jvp(inputs, tangents of differentiable inputs)      -> results, tangents of differentiable results
    @f.vjp(inputs, cotangents of differentiable results)   -> cotangents of differentiable inputs

A user's custom derivative takes and returns differential pairs, as in Slang; `wrap_jvp` and `wrap_vjp` adapt it to
the convention above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import free_values
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import Scalar, Struct, Type
from slangrad.ir.ops.core import Function, FunctionAttributes, Parameter, Region, Value


def is_differentiable(p: Parameter, space: VectorSpace) -> bool:
    return p.differentiable and space.tangent(p.type) is not None


def input_flags(f: Function, space: VectorSpace) -> tuple[bool, ...]:
    return tuple(is_differentiable(p, space) for p in f.inputs)


def result_flags(f: Function, space: VectorSpace) -> tuple[bool, ...]:
    return tuple(is_differentiable(p, space) for p in _results(f))


def parameters_with(f: Function, inputs: Sequence[bool], results: Sequence[bool]) -> tuple[Parameter, ...]:
    """The "in" and "out" parameters of a derivative, for some active inputs and results."""
    flagged = zip((*_as_inputs(f), *_results(f)), (*inputs, *results), strict=True)
    return tuple(replace(p, differentiable=flag) for p, flag in flagged)


def jvp_function(f: Function, region: Region, space: VectorSpace) -> Function:
    """From a jvp's region. The tangents are as they are handed out."""
    flags = result_flags(f, space)
    flagged = [v for v, flag in zip(region.yields[: len(flags)], flags, strict=True) if flag]
    return _derivative(f, "jvp", jvp_parameters(f, space), _settled(region, len(flags), flagged, space))


def jvp_parameters(f: Function, space: VectorSpace) -> tuple[Parameter, ...]:
    outputs = (*_results(f), *_derivatives(_results(f), space, "out"))
    return (*_as_inputs(f), *_derivatives(f.inputs, space, "in"), *outputs)


def vjp_function(f: Function, region: Region, space: VectorSpace) -> Function:
    """From a vjp's region. The cotangents are as they are handed out."""
    return _derivative(f, "vjp", vjp_parameters(f, space), _handed(f, region, space))


def vjp_parameters(f: Function, space: VectorSpace) -> tuple[Parameter, ...]:
    return (*_as_inputs(f), *_derivatives(_results(f), space, "in"), *_derivatives(f.inputs, space, "out"))


def forward_function(f: Function, region: Region, residuals: Type | None) -> Function:
    """Returns the function's results, and then residuals."""
    handed = () if residuals is None else (Parameter("residuals", residuals, "out"),)
    parameters = (*_as_inputs(f), *_results(f), *handed)
    return Function(f"{f.name}.forward", parameters, None, region, attributes=f.attributes, span=f.span)


def reverse_function(
    f: Function, region: Region, residuals: Type | None, space: VectorSpace
) -> tuple[Function, tuple[bool, ...]]:
    """Takes those inputs that it needs, residuals and cotangents; and which inputs these are."""
    region, count = _handed(f, region, space), len(f.inputs)
    used = set(free_values(Region((), region.ops, region.yields)))
    takes = tuple(v in used for v in region.parameters[:count])
    inputs = [p for p, flag in zip(_as_inputs(f), takes, strict=True) if flag]
    handed = () if residuals is None else (Parameter("residuals", residuals),)
    derivatives = (*_derivatives(_results(f), space, "in"), *_derivatives(f.inputs, space, "out"))
    values = [v for v, flag in zip(region.parameters, takes) if flag]
    region = Region((*values, *region.parameters[count:]), region.ops, region.yields)
    parameters = (*inputs, *handed, *derivatives)
    reverse = Function(f"{f.name}.reverse", parameters, None, region, attributes=f.attributes, span=f.span)
    return reverse, takes


def _derivative(f: Function, mode: str, parameters: tuple[Parameter, ...], region: Region) -> Function:
    attributes: FunctionAttributes = {"library": True} if f.attributes.get("library") else {}
    return Function(f"{f.name}.{mode}", parameters, None, region, attributes=attributes, span=f.span)


def _handed(f: Function, region: Region, space: VectorSpace) -> Region:
    """The region of a vjp with its cotangents as they are handed out."""
    flags = input_flags(f, space)
    flagged = [v for v, flag in zip(region.parameters[: len(flags)], flags, strict=True) if flag]
    return _settled(region, 0, flagged, space)


def _settled(region: Region, first: int, primals: list[Value], space: VectorSpace) -> Region:
    """The derivatives that a region yields from a position on, as they are handed out beside their primals."""
    b = Builder()
    pairs = zip(primals, region.yields[first:], strict=True)
    tangents = tuple(space.settled(b, primal.type, tangent, primal) for primal, tangent in pairs)
    return Region(region.parameters, [*region.ops, *b.ops], (*region.yields[:first], *tangents))


def _as_inputs(f: Function) -> tuple[Parameter, ...]:
    """The inputs as "in" parameters."""
    return tuple(replace(p, direction="in") for p in f.inputs)


def _results(f: Function) -> Iterator[Parameter]:
    """The results as "out" parameters."""
    if f.return_type is not None:
        yield Parameter("result", f.return_type, "out", f.return_differentiable)
    for p in f.outputs:
        yield Parameter(p.name, p.type, "out", p.differentiable)


def _derivatives(of: Iterable[Parameter], space: VectorSpace, direction: str) -> tuple[Parameter, ...]:
    """Those of the ones that have any."""
    chosen = (p for p in of if is_differentiable(p, space))
    return tuple(Parameter(f"d{p.name}", space.tangent_of(p.type), direction) for p in chosen)


# --- custom derivatives


def wrap_jvp(f: Function, user: Function, space: VectorSpace) -> Function:
    """Differentiable inputs become pairs; pairs that come back are taken apart."""
    b, flags, wanted = Builder(span=user.span), input_flags(f, space), result_flags(f, space)
    primals = tuple(Value(p.type, p.name) for p in f.inputs)
    varied = [p for p, flag in zip(primals, flags, strict=True) if flag]
    tangents = tuple(Value(space.tangent_of(p.type), f"d{p.hint}") for p in varied)
    assert len(user.inputs) == len(primals), f"{user.name} does not take what {f.name} takes"
    derivative = dict(zip(varied, tangents, strict=True))
    arguments = tuple(
        _pair(b, expected.type, p, space.settled(b, p.type, derivative[p], p))
        if p in derivative
        else _converted(b, p, expected.type)
        for p, expected in zip(primals, user.inputs, strict=True)
    )
    returned = b.call(user.name, arguments, user.result_types)
    both = list(zip(returned, wanted, strict=True))
    results = [_half(b, r, "p") if flag else r for r, flag in both]
    results += [_half(b, r, "d") for r, flag in both if flag]
    return jvp_function(f, Region((*primals, *tangents), b.ops, tuple(results)), space)


def wrap_vjp(f: Function, user: Function, space: VectorSpace) -> Function:
    """For each parameter of `f` in order, then for its result:

    in       differentiable: inout pair, `d` zero on entry       else the value
    out      differentiable: the cotangent                       else nothing
    inout    differentiable: inout pair, `d` the cotangent       else the value
    """
    b, results = Builder(span=user.span), list(zip(_results(f), result_flags(f, space), strict=True))
    primals = tuple(Value(p.type, p.name) for p in f.inputs)
    cotangents = [Value(space.tangent_of(p.type), f"d{p.name}") if flag else None for p, flag in results]
    handed = [
        None if ct is None else space.settled(b, p.type, ct)
        for ct, (p, _) in zip(cotangents, results, strict=True)
    ]
    returned = handed[: len(handed) - len(f.outputs)]
    of_outputs, of_inputs = iter(handed[len(returned) :]), iter(primals)
    arguments: list[Value] = []
    for p in f.parameters:
        ct = None if p.direction == "in" else next(of_outputs)
        if p.direction != "out":
            ct = _argument(b, p, next(of_inputs), ct, user.inputs[len(arguments)].type, space)
        arguments += _present([ct])
    arguments += _present(returned)
    assert len(arguments) == len(user.inputs), f"{user.name} is no backward derivative of {f.name}"
    pairs = b.call(user.name, arguments, user.result_types)
    yields = tuple(_half(b, pair, "d") for pair in pairs)
    return vjp_function(f, Region((*primals, *_present(cotangents)), b.ops, yields), space)


def _argument(
    b: Builder, p: Parameter, primal: Value, ct: Value | None, pair: Type, space: VectorSpace
) -> Value:
    if not is_differentiable(p, space):
        return _converted(b, primal, pair)
    return _pair(b, pair, primal, space.zero(b, p.type) if ct is None else ct)


def _converted(b: Builder, primal: Value, t: Type) -> Value:
    """A derivative may take whole numbers of another type: `int n` for `uint n`."""
    both_numbers = isinstance(primal.type, Scalar) and isinstance(t, Scalar)
    return b.emit("convert", primal, type=t) if both_numbers and primal.type is not t else primal


def _present(values: list[Value | None]) -> list[Value]:
    return [v for v in values if v is not None]


def _pair(b: Builder, t: Type, primal: Value, derivative: Value) -> Value:
    assert isinstance(t, Struct) and len(t.fields) == 2, f"{t} is no differential pair"
    halves = (primal, derivative) if t.index("p") == 0 else (derivative, primal)
    return b.emit("make", *halves, type=t)


def _half(b: Builder, pair: Value, name: str) -> Value:
    assert isinstance(pair.type, Struct), pair.type
    return b.emit("get", pair, index=pair.type.index(name))
