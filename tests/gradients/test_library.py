"""Every differentiable function of the library, through machine code, in double: forward mode = reverse mode = finite
differences of the primal, and the derivative of the gradient = finite differences of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest

import slangrad as spy
from tests.gradients.library import (
    NOT_DIFFERENTIABLE,
    ROWS,
    SPECIAL,
    Text,
    functions,
    is_of_scalars,
    overloads,
)

POINTS, STEP = 6, 2e-6
NUMPY = {"double": np.float64, "float": np.float32, "half": np.float16}


def test_each_function_of_the_library_has_a_row() -> None:
    """A new function fails here until the tables of library.py say what to do with it."""
    differentiable = {each.name for each in functions() if each.info.level != "none"}
    assert differentiable == ROWS.keys() | SPECIAL
    assert {each.name for each in functions()} - differentiable == NOT_DIFFERENTIABLE
    assert all(overloads(name) for name in ROWS)


@dataclass(frozen=True)
class Derivatives:
    """At each of the points: the value, the gradient, and the derivatives of both along a direction."""

    y: np.ndarray
    gradient: np.ndarray
    dy: np.ndarray
    dgradient: np.ndarray


@cache
def device() -> spy.Device:
    """One for all: it reads the library once. Levels of optimization and lanes are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLANGRAD_OPTIMIZE", "0")
        patch.setenv("SLANGRAD_LANES", "4")
        return spy.create_device()


class Kernel:
    def __init__(self, text: Text) -> None:
        self.text, self.device, self.type = text, device(), NUMPY[text.kind]
        self.module = spy.Module.load_from_source(self.device, "library", str(text))

    def points(self, seed: int) -> np.ndarray:
        low, high = np.array(self.text.domains).T
        return np.random.default_rng(seed).uniform(low, high, (POINTS, len(low)))

    def directions(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).uniform(-1.0, 1.0, (POINTS, len(self.text.domains)))

    def __call__(self, a: np.ndarray, v: np.ndarray) -> Derivatives:
        shapes = (a.shape[:1], a.shape, a.shape[:1], a.shape)
        out = [spy.Tensor.from_numpy(self.device, np.zeros(shape, self.type)) for shape in shapes]
        self.module.run(a.astype(self.type), v.astype(self.type), *out)
        return Derivatives(*(each.to_numpy().astype(np.float64) for each in out))


@cache
def kernel(name: str, kind: str) -> Kernel:
    return Kernel(Text(name, kind))


@pytest.mark.parametrize("name", ROWS)
def test_derivatives(name: str) -> None:
    run = kernel(name, "double")
    a, v = run.points(1), run.directions(2)
    at = run(a, v)
    assert np.isfinite(at.gradient).all() and np.isfinite(at.dgradient).all()
    np.testing.assert_allclose((at.gradient * v).sum(1), at.dy, rtol=1e-11, atol=1e-11)
    for i in range(a.shape[1]):
        unit = np.zeros_like(a)
        unit[:, i] = STEP
        slope = (run(a + unit, v).y - run(a - unit, v).y) / (2 * STEP)
        np.testing.assert_allclose(at.gradient[:, i], slope, rtol=1e-6, atol=1e-7, err_msg=f"by a[{i}]")
    up, down = run(a + STEP * v, v), run(a - STEP * v, v)
    np.testing.assert_allclose(at.dgradient, (up.gradient - down.gradient) / (2 * STEP), rtol=2e-6, atol=2e-7)


EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-200, 1e200, -1e200, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("name", [name for name in ROWS if any(map(is_of_scalars, overloads(name)))])
def test_modes_agree_at_edges(name: str) -> None:
    """Numbers only. A tangent of zero stays zero beside an infinite partial, but not beside an infinity that was given,
    or the sum or product that is too large."""
    run = kernel(name, "double")
    where = run.text.scalars
    edges = np.array(list(product(EDGES, repeat=len(where))))
    a = np.repeat(run.points(1)[:1], len(edges), axis=0)
    a[:, where] = edges
    for i in where:
        v = np.zeros_like(a)
        v[:, i] = 1.0
        at = run(a, v)
        rows = np.isfinite(at.gradient[:, where]).all(1) | (np.abs(edges) < 10).all(1) | (len(where) == 1)
        np.testing.assert_allclose(at.gradient[rows, i], at.dy[rows], rtol=1e-12, err_msg=f"by a[{i}]")


ROUNDED = (
    "sin",
    "exp",
    "log",
    "erf",
    "pow",
    "atan2",
    "hypot",
    "lerp",
    "smoothstep",
    "normalize",
    "mul",
    "determinant",
)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("kind", "tolerance"), [("float", 2e-5), ("half", 3e-2)])
@pytest.mark.parametrize("name", ROUNDED)
def test_float_and_half_are_near_double(name: str, kind: str, tolerance: float) -> None:
    run, exact = kernel(name, kind), kernel(name, "double")
    a, v = run.points(3).astype(run.type), run.directions(4).astype(run.type)
    found, wanted = run(a, v), exact(a, v)
    scale = np.abs(wanted.gradient).max()
    np.testing.assert_allclose(found.gradient, wanted.gradient, rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_allclose(found.dy, wanted.dy, rtol=tolerance, atol=2 * tolerance * scale)
