"""Derivatives of a call compared with differences of its values.

    check_gradients(module.f, x, 2.0)      returns nothing, or raises a GradientError that names the argument

Along a random direction v in one argument, and for a random cotangent c, three numbers must agree:

    reverse mode   <gradient for c, v>          forward mode   <c, tangent for v>
    differences    (<c, f(x + h v)> - <c, f(x - h v)>) / 2h

The error of the last one depends on h and on the precision of the kernel. So it is taken for several h, each with a
bound of its rounding error; one that agrees is enough.
"""

from __future__ import annotations

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.gradient_check import Along, exactness
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.directions import has_derivative, inner, moved, random_like, restricted
from slangrad.transforms.arguments import CODE, ArgumentPlace, DifferentiatedCall, in_their_types
from slangrad.transforms.gradients import forward, given_of, label_of, reverse, with_cotangent


def check_gradients(
    f: Function,
    *args: object,
    rtol: float | None = None,
    atol: float = 0.0,
    directions: int = 2,
    seed: int = 0,
    **kwargs: object,
) -> None:
    """Compare reverse mode, forward mode and finite differences in each argument that has a derivative.

    GradientError (E1031) where they disagree by more than `rtol` of the terms (as the type of the numbers has it, if
    not said) and `atol`.
    """
    random = np.random.default_rng(seed)
    primal = given_of(f, args, kwargs)
    converted = in_their_types([*primal.values.values()], primal.bound())
    primal = primal.with_values(dict(zip(primal.values, converted)))
    moving = [place for place, value in primal.values.items() if has_derivative(value)]
    if not moving:
        raise CallError(
            CODE, "check_gradients: no argument has a derivative", (), "pass floats, or tensors of floats"
        )
    result, compared = primal.run(), 0
    for place in moving:
        for _ in range(directions):
            compared += agree(primal, result, place, random, rtol, atol)
    if not compared:
        raise CallError(
            CODE, "check_gradients: no parameter has a derivative", (), "no_diff stands before all of them"
        )


def agree(
    primal: DifferentiatedCall,
    result: object,
    place: ArgumentPlace,
    random: np.random.Generator,
    rtol: float | None,
    atol: float,
) -> bool:
    """Compare in a random direction of one argument; False for a constant. `result` is what the call returns."""
    f, value = primal.function, primal.values[place]
    direction, cotangent = random_like(value, random), random_like(result, random)
    if cotangent is None:
        raise CallError(CODE, f"check_gradients: '{f.name}' returns nothing that has a derivative")
    seeded = with_cotangent(f, result, cotangent)
    gradient = reverse(primal, [place], result=seeded, required=False)[place]
    if gradient is None:
        return False
    direction = restricted(direction, gradient)
    with np.errstate(invalid="ignore"):
        along = float(np.sum(inner(cotangent, forward(primal, {place: direction})[1])))

    def outputs(step: float) -> np.ndarray:
        return inner(cotangent, primal.with_values({place: moved(value, direction, step)}).run())

    epsilon = exactness(primal.bound(), primal.number(place))
    terms = inner(gradient, direction)
    Along(label_of(place), value, terms, epsilon, (rtol, atol), along).check(outputs)
    return True
