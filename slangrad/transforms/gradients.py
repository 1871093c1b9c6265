"""Gradients of a call as values: `grad`, `value_and_grad`, `jvp`, `vjp`, `hvp`, named and shaped as in JAX.

    value, (dx, dw) = value_and_grad(module.loss, argnums=(0, 1))(x, w)
    y, dy = jvp(module.f, (x, 2.0), (dx, None))
    y, pullback = vjp(module.f, x);  (ct_x,) = pullback(ct_y)
    (product,) = hvp(module.loss, (x,), (direction,))

A function is called once for each element and gives one number for each call. Gradients are those of their sum (or
mean); an argument that repeats gets the sum over its calls. Gradients of the caller's tensors do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.binding.launchable import Launchable
from slangrad.check.model.types import ScalarType
from slangrad.marshal.composed import results
from slangrad.marshal.containers.memory import is_texture_type
from slangrad.marshal.containers.values import DiffPair, snapshot
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.vectors import HostArray
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, TANGENT
from slangrad.marshal.registry import holds_objects, unwrap
from slangrad.marshal.simple.plain import mapped
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.tensor import Tensor
from slangrad.transforms.arguments import (
    CODE,
    ArgumentPlace,
    Attached,
    Attacher,
    DifferentiatedCall,
    constant,
    describe,
    numbers_of,
)

REDUCTIONS = ("sum", "mean", "none")
Derivative = HostValue  # in the form of its argument: a number, a Tensor, an array, a dict, a list
Names = str | Sequence[str] | None
Numbers = int | Sequence[int] | None


@dataclass(frozen=True)
class Gradient:
    """The result of `grad`: a function that returns gradients. `order` counts how often it was applied."""

    function: Function
    argnums: Numbers
    argnames: Names
    reduction: str
    order: int = 1

    def __call__(self, /, *args: object, **kwargs: object) -> Derivative:
        primal = given_of(self.function, args, kwargs)
        chosen = _chosen(self, primal)
        _check_number(primal.bound(), "grad")
        if self.order == 1:
            gradients = reverse(primal, chosen.places, self.reduction)
        else:
            directions = {place: _ones(primal.values[place]) for place in chosen.places}
            gradients = _curved(primal, directions, chosen.places, self.order, self.reduction)
        return chosen.shaped(primal.derivatives(gradients))


@dataclass(frozen=True)
class ValueAndGradient:
    """The result of `value_and_grad`."""

    gradient: Gradient

    def __call__(self, /, *args: object, **kwargs: object) -> tuple[Derivative, Derivative]:
        gradient = self.gradient
        primal = given_of(gradient.function, args, kwargs)
        chosen, call = _chosen(gradient, primal), primal.bound()
        _refuse_changes(call, "value_and_grad")
        _check_number(call, "value_and_grad")
        value = primal.run()
        gradients = reverse(primal, chosen.places, gradient.reduction, _count(value))
        return primal.value(_reduced(value, gradient.reduction)), chosen.shaped(primal.derivatives(gradients))


def grad(
    f: Function | Gradient, argnums: Numbers = None, argnames: Names = None, *, reduction: str | None = None
) -> Gradient:
    """A function that returns the gradient of the sum (`reduction`: or "mean") of the results of `f`.

    `argnums` are positions, `argnames` names: one gives its gradient, several a tuple or a dict. The first argument,
    if nothing is said. `grad(grad(f))` are second derivatives, of the sum of the components of the first. CallError
    (E1030) for other arguments of the second.
    """
    if isinstance(f, Gradient):
        if (argnums, argnames) not in ((None, None), (f.argnums, f.argnames)) or reduction not in (
            None,
            "sum",
        ):
            note = "leave argnums out; hvp() and jvp(grad(f), ...) give mixed derivatives"
            raise CallError(CODE, "grad of grad: both are by the same arguments, of the sum", (), note)
        return Gradient(f.function, f.argnums, f.argnames, f.reduction, f.order + 1)
    if argnums is None and argnames is None:
        argnums = 0
    return Gradient(_checked(f, "grad"), argnums, argnames, _checked_reduction(reduction or "sum"))


def value_and_grad(
    f: Function, argnums: Numbers = None, argnames: Names = None, *, reduction: str = "sum"
) -> ValueAndGradient:
    """A function that returns the sum (or "mean") of the results of `f`, as a number, and its gradient.

    With reduction "none" the value is the result of `f`; the gradient is that of the sum. CallError (E1030) for
    `grad(f)`.
    """
    if isinstance(f, Gradient):
        raise CallError(
            CODE, "value_and_grad: a gradient is no single value", (), "call grad(f) and grad(grad(f))"
        )
    return ValueAndGradient(grad(_checked(f, "value_and_grad"), argnums, argnames, reduction=reduction))


def jvp(
    f: Function | Gradient, primals: Sequence[object], tangents: Sequence[object], **fixed: object
) -> tuple[Derivative, Derivative]:
    """The value of `f(*primals, **fixed)` and its tangent; None is the tangent of a constant.

    Of `grad(f)` these are the gradient and its derivative in that direction. CallError (E1030) for `grad(grad(f))`.
    """
    primals, tangents = _pairs("jvp", primals, tangents)
    if isinstance(f, Gradient):
        if f.order != 1:
            raise CallError(
                CODE, "jvp of grad of grad: that would be two directions", (), "hvp(f, ..., order=3)"
            )
        primal = given_of(f.function, primals, fixed)
        chosen = _chosen(f, primal)
        moved = _curved(primal, dict(enumerate(tangents)), chosen.places, 2, f.reduction)
        return f(*primals, **fixed), chosen.shaped(primal.derivatives(moved))
    primal = given_of(_checked(f, "jvp"), primals, fixed)
    value, tangent = forward(primal, dict(enumerate(tangents)))
    return primal.value(value), primal.value(tangent)


def vjp(
    f: Function, /, *primals: object, **fixed: object
) -> tuple[Derivative, Callable[[object], tuple[Derivative, ...]]]:
    """The value of `f(*primals, **fixed)`, and a function from its cotangent to those of the primals.

    The current values of the primals are kept: later writes to them have no effect. Constants have None. CallError
    (E1030) for a function without a result.
    """
    primal = given_of(_checked(f, "vjp"), primals, fixed)
    _refuse_changes(primal.bound(), "vjp")
    kept = primal.with_values({place: snapshot(argument) for place, argument in primal.values.items()})
    value = primal.run()
    if value is None or isinstance(value, int):
        raise _without_result("vjp", primal.function)

    def pullback(cotangent: object) -> tuple[object, ...]:
        places = list(range(len(primals)))
        result = with_cotangent(primal.function, value, numbers_of(cotangent))
        cotangents = primal.derivatives(reverse(kept, places, result=result, required=False))
        return tuple(cotangents[place] for place in places)

    return primal.value(value), pullback


def hvp(
    f: Function, primals: Sequence[object], tangents: Sequence[object], *, order: int = 2, **fixed: object
) -> tuple[Derivative, ...]:
    """Products of the Hessian of the sum of the results of `f` with the tangents, one for each primal.

    It is `fwd_diff` over `bwd_diff` in one launch. A higher `order` goes on in the same direction: order 3 is the
    second derivative of the gradient along it. CallError (E1030) for an order below 2.
    """
    if not isinstance(order, int) or order < 2:
        raise CallError(CODE, f"hvp: order must be 2 or more, not {order!r}", (), "grad(f) is order 1")
    f = _checked(f, "hvp")
    primals, tangents = _pairs("hvp", primals, tangents)
    primal = given_of(f, primals, fixed)
    places = list(range(len(primals)))
    _check_number(primal.bound(), "hvp")
    products = _curved(primal, dict(enumerate(tangents)), places, order, "sum", required=False)
    return tuple(primal.derivatives(products)[place] for place in places)


# --- Which arguments ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Chosen:
    """The arguments to differentiate by, and in which form their derivatives are returned."""

    places: list[ArgumentPlace]
    shaped: Callable[[dict[ArgumentPlace, object]], Derivative]


def _chosen(gradient: Gradient, primal: DifferentiatedCall) -> _Chosen:
    numbers, names = gradient.argnums, gradient.argnames
    count = len(primal.arguments[0])
    if numbers is not None and names is not None:
        by_number, by_name = _by_number(numbers, count), _by_name(names, primal, count)
        places = [*by_number.places, *by_name.places]
        return _Chosen(places, lambda by_place: (by_number.shaped(by_place), by_name.shaped(by_place)))
    if names is not None:
        return _by_name(names, primal, count)
    assert numbers is not None
    return _by_number(numbers, count)


def _by_number(numbers: int | Sequence[int], count: int) -> _Chosen:
    alone = isinstance(numbers, int)
    wanted = [numbers] if isinstance(numbers, int) else list(numbers)
    for number in wanted:
        if not isinstance(number, int) or not -count <= number < count:
            note = "arguments that are given by name are chosen by argnames"
            raise CallError(
                CODE, f"argnums: there is no positional argument {number!r}; the call has {count}", (), note
            )
    places: list[ArgumentPlace] = [number % count for number in wanted]
    return _Chosen(
        places, lambda by_place: by_place[places[0]] if alone else tuple(by_place[place] for place in places)
    )


def _by_name(names: str | Sequence[str], primal: DifferentiatedCall, count: int) -> _Chosen:
    alone = isinstance(names, str)
    wanted = [names] if isinstance(names, str) else list(names)
    place_of: dict[str, ArgumentPlace] = {name: name for name in primal.values if isinstance(name, str)}
    if not place_of.keys() >= set(wanted):
        positions = enumerate(primal.function.parameters[:count])
        place_of = {**{parameter.name: i for i, parameter in positions}, **place_of}
    for name in wanted:
        if name not in place_of:
            listed = ", ".join(place_of) or "none"
            raise CallError(CODE, f"argnames: there is no argument '{name}'", (), f"there are {listed}")
    places = [place_of[name] for name in wanted]
    return _Chosen(
        places,
        lambda by_place: (
            by_place[places[0]] if alone else {name: by_place[place_of[name]] for name in wanted}
        ),
    )


# --- One launch each ----------------------------------------------------------------------------------


def reverse(
    primal: DifferentiatedCall,
    places: Sequence[ArgumentPlace],
    reduction: str = "sum",
    count: int | None = None,
    result: object = None,
    required: bool = True,
) -> dict[ArgumentPlace, object]:
    """Gradients by the arguments at `places`. `count`: how many calls there are, for their mean."""
    if reduction == "mean":
        result = _mean_cotangent(primal, count)
    run = primal.function.with_mode(BACKWARD)
    attached = _attach(BACKWARD, run, primal, dict.fromkeys(places), result)
    return _launched(run, primal, attached, places, result, required)


def _curved(
    primal: DifferentiatedCall,
    directions: Mapping[ArgumentPlace, object],
    places: Sequence[ArgumentPlace],
    order: int,
    reduction: str,
    required: bool = True,
) -> dict[ArgumentPlace, object]:
    """Derivatives of the gradient in a direction."""
    result = _mean_cotangent(primal) if reduction == "mean" else None
    wanted = {place: directions.get(place) for place in [*places, *directions]}
    run = primal.function.with_mode(HIGHER, order)
    attached = _attach(HIGHER, run, primal, wanted, result)
    return _launched(run, primal, attached, places, result, required)


def _mean_cotangent(primal: DifferentiatedCall, count: int | None = None) -> DiffPair:
    """One over the number of calls, for each of them."""
    if count is None:
        count = _count(primal.run())
    return DiffPair(0.0, 1.0 / max(count, 1))


def forward(primal: DifferentiatedCall, tangents: dict[ArgumentPlace, object]) -> tuple[object, object]:
    """The value and its tangent."""
    f, call = primal.function, primal.bound()
    _refuse_changes(call, "jvp")
    as_array = call.created is not None and f.result_kind == results.NUMPY
    run = (f.return_type(Tensor) if as_array else f).with_mode(TANGENT)
    result = _passed(primal, _attach(TANGENT, run, primal, tangents, None)).run(run)
    if result is None:
        raise _without_result("jvp", f)
    if isinstance(result, DiffPair):
        return result.primal, result.grad
    if not isinstance(result, Tensor):
        return result, None
    moved, result = result.grad_out, result.detach()
    if not as_array:
        return result, moved
    inner = result.to_numpy().shape[len(result.shape) :]
    sizes = (*result.shape, *inner) if call.call_dims else inner
    return result.to_numpy().reshape(sizes), None if moved is None else moved.to_numpy().reshape(sizes)


def _attach(
    mode: str, f: Function, primal: DifferentiatedCall, wanted: Mapping[ArgumentPlace, object], result: object
) -> dict[ArgumentPlace, Attached]:
    """All arguments of `f`, which is in its mode; those not chosen are constants."""
    attacher = Attacher(mode, primal.bound(), f.module.device)
    attached: dict[ArgumentPlace, Attached] = {}
    for number, (place, value) in enumerate(primal.values.items()):
        if place in wanted:
            attached[place] = attacher.attach(value, number, label_of(place), wanted[place])
        else:
            attached[place] = Attached(constant(value))
    attacher.settle(_passed(primal, attached).bound(f, result))
    return attached


def _launched(
    run: Function,
    primal: DifferentiatedCall,
    attached: dict[ArgumentPlace, Attached],
    places: Sequence[ArgumentPlace],
    result: object,
    required: bool,
) -> dict[ArgumentPlace, object]:
    """The derivatives at `places`, None for constants; CallError for these, if derivatives are required."""
    for place in places if required else ():
        if attached[place].is_constant:
            note = run.instead_of(primal.number(place), *primal.arguments)
            raise CallError(
                CODE,
                f"{label_of(place)}: {describe(primal.values[place])} has no gradient",
                (),
                note or "pass a float, or a Tensor or NumPy array of floats",
            )
    if run is not primal.function.bwds or not all(attached[place].is_constant for place in places):
        _passed(primal, attached).run(run, result)
    return {place: None if attached[place].is_constant else attached[place].derivative() for place in places}


def _passed(primal: DifferentiatedCall, attached: dict[ArgumentPlace, Attached]) -> DifferentiatedCall:
    return primal.with_values({place: argument.passed for place, argument in attached.items()})


def label_of(place: ArgumentPlace) -> str:
    return f"argument {place}" if isinstance(place, int) else f"argument '{place}'"


# --- Values -------------------------------------------------------------------------------------------


def _count(value: object) -> int:
    """How many calls there were."""
    if isinstance(value, Tensor):
        return value.element_count
    return value.size if isinstance(value, np.ndarray) else 1


def _reduced(value: object, reduction: str) -> object:
    if reduction == "none" or isinstance(value, float):
        return value
    values = value.to_numpy() if isinstance(value, Tensor) else np.asarray(value)
    total = float(np.sum(values, dtype=np.float64))
    return total if reduction == "sum" else total / max(values.size, 1)


def _ones(value: HostValue) -> object:
    """A direction of ones."""
    if isinstance(value, Tensor):
        like = value.new_gradient(zero=False)
        if like.shape:
            return Tensor.ones(like.device, like.shape, like.element_type)
        like.copy_from_numpy(np.ones_like(like.to_numpy()))
        return like
    if isinstance(value, np.ndarray):
        return np.ones(value.shape, value.dtype)
    if isinstance(value, HostArray):
        return type(value)(1.0)
    if is_texture_type(type(value)):
        direction = value.new_gradient()
        for level in direction.levels:
            level.put_numbers(np.ones_like(level.numbers()))
        return direction
    if isinstance(value, (float, np.floating)):
        return 1.0
    return mapped(_ones, value) if isinstance(value, (list, dict)) else None


def with_cotangent(f: Function, value: object, cotangent: object) -> object:
    """The `_result` of `bwds`: the cotangent of a value."""
    label = "the cotangent"
    if isinstance(value, Tensor):
        return _seeded(value, cotangent, f, label)
    if isinstance(value, np.ndarray):
        device = f.module.device
        numbers = np.asarray(cotangent)
        if numbers.shape != value.shape:
            raise CallError(CODE, f"{label} has shape {numbers.shape}, the value {value.shape}")
        return _seeded(Tensor.from_numpy(device, value), np.broadcast_to(numbers, value.shape), f, label)
    if isinstance(cotangent, np.ndarray):  # of a torch tensor
        cotangent = type(value)(cotangent) if isinstance(value, HostArray) else cotangent.item()
    return DiffPair(value, cotangent)


def _seeded(value: Tensor, cotangent: object, f: Function, label: str) -> object:
    attacher = Attacher(TANGENT, Launchable(f.name, 0, [], [], None), f.module.device)
    return attacher.attach(value, 0, label, cotangent).passed


# --- Checks -------------------------------------------------------------------------------------------


def _checked(f: object, name: str) -> Function:
    if not isinstance(f, Function):
        message = f"{name}: expected a function of a module, not {type(f).__name__}"
        raise CallError(CODE, message, (), "module.f, or what map(), set() and return_type() make of it")
    if not f.is_primal:
        raise CallError(CODE, f"{name}: '{f.name}' is a derivative already: pass the function itself")
    return f


def _checked_reduction(reduction: str) -> str:
    if reduction not in REDUCTIONS:
        raise CallError(CODE, f"reduction: {reduction!r} is none of {', '.join(map(repr, REDUCTIONS))}")
    return reduction


def _pairs(
    name: str, primals: Sequence[object], tangents: Sequence[object]
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    for values, title in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(values, (tuple, list)):
            message = f"{name}: {title} are a tuple with one for each argument, not {type(values).__name__}"
            raise CallError(CODE, message, (), f"{name}(f, (x,), (dx,))")
    if len(primals) != len(tangents):
        raise CallError(CODE, f"{name}: there are {len(primals)} primals and {len(tangents)} tangents")
    return tuple(primals), tuple(numbers_of(unwrap(tangent)) for tangent in tangents)


def given_of(f: Function, args: Sequence[object], kwargs: dict[str, object]) -> DifferentiatedCall:
    """The arguments, with wrappers replaced by their values."""
    if "_result" in kwargs:
        raise CallError(
            CODE, "derivatives are returned: leave _result out", (), "f.bwds(..., _result=y) takes one"
        )
    named = {name: unwrap(value) if holds_objects(value) else value for name, value in kwargs.items()}
    return DifferentiatedCall(
        f, [unwrap(argument) if holds_objects(argument) else argument for argument in args], named
    )


def _refuse_changes(call: Launchable, name: str) -> None:
    """The function runs more than once, or its derivative is asked for where it was."""
    passed = call.leaves[:-1] if call.created is not None else call.leaves
    for leaf in passed:
        if leaf.role.reads and leaf.role.writes:
            message = f"{name}: argument '{leaf.label}' of '{call.name}' is read and written"
            raise CallError(CODE, message, (), "return the new value, or use bwds with gradients of your own")


def _check_number(call: Launchable, name: str) -> None:
    """Gradients are those of a floating-point number for each call."""
    kind = call.leaves[-1].type if call.created is not None else None
    if isinstance(kind, ScalarType) and kind.kind == "float":
        return
    message = f"{name}: '{call.name}' returns {kind or 'nothing'}, and gradients are those of a number"
    raise CallError(CODE, message, (), "vjp() takes a cotangent of any type")


def _without_result(name: str, f: Function) -> CallError:
    note = "bwds and fwds take derivatives of parameters that go out"
    return CallError(CODE, f"{name}: '{f.name}' returns nothing that has a derivative", (), note)
