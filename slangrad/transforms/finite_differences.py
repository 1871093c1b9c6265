"""Derivatives of a call compared with differences of its values.

    check_gradients(module.f, x, 2.0)      returns nothing, or raises a GradientError that names the argument

Along a random direction v in one argument, and for a random cotangent c, three numbers must agree:

    reverse mode   <gradient for c, v>          forward mode   <c, tangent for v>
    differences    (<c, f(x + h v)> - <c, f(x - h v)>) / 2h

The last has an error that depends on h and on how exactly the kernel computes, so it is taken for several h, each with
a bound of what rounding may have done to it; one that agrees is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.compared import STEPS, Found, exactness, judge, least_step
from slangrad.marshal.directions import has_derivative, inner, moved, random_like, restricted
from slangrad.marshal.errors import CallError
from slangrad.transforms.arguments import CODE, in_their_types
from slangrad.transforms.gradients import Place, forward, given_of, label_of, reverse, with_cotangent


def check_gradients(
    f: Function,
    *args: Any,
    rtol: float | None = None,
    atol: float = 0.0,
    directions: int = 2,
    seed: int = 0,
    **kwargs: Any,
) -> None:
    """Compare reverse mode, forward mode and finite differences in each argument that has a derivative.

    GradientError (E1031) where they disagree by more than `rtol` of the terms (as the type of the numbers has it, if
    not said) and `atol`.
    """
    random = np.random.default_rng(seed)
    arguments = given_of(f, args, kwargs)
    f, args, kwargs = arguments.function, arguments.args, arguments.kwargs
    converted = in_their_types([*args, *kwargs.values()], f.bound(*args, **kwargs))
    args, kwargs = tuple(converted[: len(args)]), dict(zip(kwargs, converted[len(args) :]))
    given: dict[Place, Any] = dict(enumerate(args))
    given.update(kwargs)
    moving = [place for place, each in given.items() if has_derivative(each)]
    if not moving:
        raise CallError(
            CODE, "check_gradients: no argument has a derivative", (), "pass floats, or tensors of floats"
        )
    result, compared = f(*args, **kwargs), 0
    for place in moving:
        for _ in range(directions):
            found = along(f, args, kwargs, result, place, random)
            if found is not None:
                judge(found, rtol, atol)
                compared += 1
    if not compared:
        raise CallError(
            CODE, "check_gradients: no parameter has a derivative", (), "no_diff stands before all of them"
        )


def along(
    f: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    place: Place,
    random: np.random.Generator,
) -> Found | None:
    """The derivatives in a random direction of one argument, None for a constant; `result` is what the call returns."""
    value = args[place] if isinstance(place, int) else kwargs[place]
    direction, cotangent = random_like(value, random), random_like(result, random)
    if cotangent is None:
        raise CallError(CODE, f"check_gradients: '{f.name}' returns nothing that has a derivative")
    seeded = with_cotangent(f, result, cotangent)
    gradient = reverse(f, args, kwargs, [place], "sum", None, seeded, required=False)[place]
    if gradient is None:
        return None
    direction = restricted(direction, gradient)
    terms = inner(gradient, direction)
    tangent = forward(f, args, kwargs, {place: direction})[1]
    call = f.bound(*args, **kwargs)
    epsilon = exactness(call, place if isinstance(place, int) else len(args) + list(kwargs).index(place))
    least = least_step(value, epsilon)
    made = [
        _difference(f, args, kwargs, place, direction, cotangent, least * each, epsilon) for each in STEPS
    ]
    with np.errstate(invalid="ignore"):
        found = (float(np.sum(terms)), float(np.sum(inner(cotangent, tangent))))
    return Found(label_of(place), *found, made, float(np.linalg.norm(terms)), epsilon)


def _difference(
    f: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    place: Place,
    direction: Any,
    cotangent: Any,
    h: float,
    epsilon: float,
) -> tuple[float, float]:
    """The quotient for a step, and what rounding may have done to it."""
    sides = []
    for step in (h, -h):
        changed = moved(args[place] if isinstance(place, int) else kwargs[place], direction, step)
        own = tuple(changed if i == place else each for i, each in enumerate(args))
        named = {name: changed if name == place else each for name, each in kwargs.items()}
        sides.append(inner(cotangent, f(*own, **named)))
    difference = float(np.sum(sides[0] - sides[1])) / (2 * h)
    return difference, 4 * epsilon * float(np.linalg.norm(sides[0])) / h
