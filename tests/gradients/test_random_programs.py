"""Random programs: forward mode = reverse mode = finite differences, and the derivative of the gradient = the gradient of
the derivative = finite differences of the gradient; in the oracle, and a few of them in machine code.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import slangrad as spy
from slangrad.ir.interpret import Machine, Recorded
from tests.gradients.random_programs import generate
from tests.std.programs import differentiated

STEPS = (1e-6, 2.3e-6, 3e-7)
Vector = np.ndarray
Point = tuple[float, float, int]
Run = Callable[
    [float, float, int], list[Vector]
]  # value, gradient by reverse and by forward mode, second derivatives


def points(seed: int, count: int) -> list[Point]:
    r = random.Random(seed)
    return [(r.uniform(-1.3, 1.3), r.uniform(-1.2, 1.4), k % 6) for k in range(count)]


def slope(run: Run, which: int, point: Point, way: tuple[float, float], step: float) -> Vector:
    """The central difference along a way."""
    x, y, n = point
    up, down = (run(x + h * way[0], y + h * way[1], n)[which] for h in (step, -step))
    return (up - down) / (2 * step)


def near(x: Vector, y: Vector, tolerance: float) -> bool:
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance))


def check(run: Run, count: int, seed: int) -> None:
    """Where finite differences depend on the step there is a jump or a bend, and nothing to compare with."""
    compared = 0
    for point in points(seed, count):
        _, reverse, forward, second = run(*point)
        np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")
        np.testing.assert_allclose(second[:2], second[2:], rtol=1e-8, atol=1e-8, err_msg=f"seed {seed}")
        for found, which, way in (
            (reverse[0], 0, (1, 0)),
            (reverse[1], 0, (0, 1)),
            (second[:2], 1, (1, 0.5)),
        ):
            numeric = slope(run, which, point, way, STEPS[0])
            if near(found, numeric, 2e-3):
                compared += 1
            else:
                others = [slope(run, which, point, way, step) for step in STEPS[1:]]
                assert not all(near(numeric, each, 1e-3) for each in others), (seed, point, found, numeric)
    assert compared > count  # most points are smooth


@pytest.mark.parametrize("first", range(0, 18, 6))
def test_in_the_oracle(first: int) -> None:
    for seed in range(first, first + 6):
        machine = Machine(differentiated(generate(seed)), 0, Recorded())

        def run(x: float, y: float, n: int, machine: Machine = machine) -> list[Vector]:
            return [np.asarray(each) for each in machine.call("run", (x, y, n))]

        check(run, 4, seed)


@pytest.mark.parametrize("seed", [6, 7])
def test_in_machine_code(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_OPTIMIZE", "0")
    monkeypatch.setenv("SLANGRAD_LANES", "4")
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "program", generate(seed))

    def run(x: float, y: float, n: int) -> list[Vector]:
        out = [spy.Tensor.from_numpy(device, np.zeros((1, *shape))) for shape in ((), (2,), (2,), (4,))]
        module.run(np.array([x]), np.array([y]), np.array([n], dtype=np.int32), *out)
        return [each.to_numpy()[0] for each in out]

    check(run, 12, seed)
