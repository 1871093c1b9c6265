"""Random programs: forward mode = reverse mode = finite differences, and the derivative of the gradient = the gradient of
the derivative = finite differences of the gradient; in the oracle, and a few of them in machine code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import AUTO, INLINE, KEEP
from slangrad.ir.oracle.interpret import Machine, Recorded
from tests.gradients.random_programs import generate, in_doubles
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


def check_mixed(run: Run, exact: Run, count: int, seed: int) -> None:
    """Both modes agree up to the digits of half, and with the program in double; but where rounding has taken another
    branch, or another side of a bend."""
    compared = 0
    for point in points(seed, count):
        value, reverse, forward, second = run(*point)
        wanted = exact(*point)
        scale = 1.0 + np.abs(reverse).max()
        np.testing.assert_allclose(reverse, forward, rtol=0.02, atol=0.02 * scale, err_msg=f"seed {seed}")
        assert np.isfinite(second).all(), f"seed {seed} at {point}: {second}"
        scale = 1.0 + np.abs(wanted[1]).max()
        compared += near(value, wanted[0], 0.02) and bool(np.allclose(reverse, wanted[1], atol=0.05 * scale))
    assert compared > count // 2, (seed, compared)


# What other compilers have got wrong; each must come up.
REACHED = {
    "an element times another that may be the same": r"v(\d+)\[(i\d+|n)\b[^]]*\] \* v\1\[",
    "break in an endless loop": r"while \(true\)\n +{\n.* break;",
    "loops in loops": r"for \(int i\d+ = 0; i\d+ < 5;[^\n]*\n +{\n +for \([^\n]*< (?:3|n)\b",
    "unrolled loops that break off": r"\[ForceUnroll\] [^\n]*\n +{\n(?:[^\n{}]*\n){0,3} +if [^\n]* break;",
    "two arrays written in a loop": r"weave\(v\d+, v\d+,",
    "a vector of one number, times it": r" (v\d+|x|y) \* double3\(\1, [^\n]*, \1\)",
    "second derivatives of tanh": r"tanh\(",
    "both arguments of fmod": r"fmod\(",
    "a loop with && or || in its condition": r"while \([^\n]*(?:&&|\|\|)",
    "a case that falls through": r"case \d:\n +{\n(?:[^\n{}]*\n){1,2} +}\n +(?:case|default)",
    "a case that shares the default": r"case \d:\n +default:",
    "an empty case at the end": r"case \d:\n +}",
    "a component without a derivative": r"weighted\(",
    "bwd_diff inside": r"slope\(",
    "a return in the else of an endless loop": r"settled\(",
    "lerp of vectors": r"lerp\(double3",
    "a property that is set": r"swing [-+*]?= ",
    "a mask before an infinite slope": r"pow\(max\(",
    "a logarithm in a branch": r"> 0\.2lf \? log\(",
}


@pytest.fixture(scope="module")
def programs() -> list[str]:
    return [generate(seed).partition("[Differentiable] double f(")[2] for seed in range(700)]


@pytest.mark.parametrize("pattern", REACHED.values(), ids=REACHED)
def test_what_programs_reach(pattern: str, programs: list[str]) -> None:
    assert any(re.search(pattern, program) for program in programs)


@pytest.mark.parametrize("first", range(0, 18, 6))
def test_in_the_oracle(first: int) -> None:
    for seed in range(first, first + 6):
        check(oracle(generate(seed)), 4, seed)


def oracle(text: str) -> Run:
    machine = Machine(differentiated(text), 0, Recorded())
    return lambda x, y, n: [np.asarray(each) for each in machine.call("run", (x, y, n))]


@pytest.mark.parametrize("seed", range(100, 106))
def test_mixed_precision_in_the_oracle(seed: int) -> None:
    text = generate(seed, mixed=True)
    check_mixed(oracle(text), oracle(in_doubles(text)), 4, seed)


def machine_code(seed: int, calls: str, monkeypatch: pytest.MonkeyPatch, backend: str = "cpu") -> Run:
    for name, value in (("CALLS", calls), ("OPTIMIZE", "0"), ("LANES", "4")):
        monkeypatch.setenv(f"SLANGRAD_{name}", value)
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "program", generate(seed))

    def run(x: float, y: float, n: int) -> list[Vector]:
        out = [spy.Tensor.from_numpy(device, np.zeros((1, *shape))) for shape in ((), (2,), (2,), (4,))]
        module.run(np.array([x]), np.array([y]), np.array([n], dtype=np.int32), *out)
        return [each.to_numpy()[0] for each in out]

    return run


@pytest.mark.parametrize(("seed", "calls"), [(6, AUTO), (7, KEEP), (9, KEEP)])
def test_in_machine_code(seed: int, calls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(machine_code(seed, calls, monkeypatch), 12, seed)


@pytest.mark.cuda
@pytest.mark.parametrize(
    "seed", [*range(200, 230), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(230, 700))]
)
def test_on_a_gpu(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of the processor, but those that hang on the last bits of the arguments."""
    cpu, gpu = (machine_code(seed, (AUTO, KEEP)[seed % 2], monkeypatch, b) for b in ("cpu", "cuda"))
    compared = 0
    for x, y, n in points(seed, 6):
        moved = cpu(x * (1 + 1e-14), y * (1 - 1e-14), n)
        for wanted, other, found in zip(cpu(x, y, n), moved, gpu(x, y, n), strict=True):
            if np.allclose(wanted, other, rtol=1e-9, atol=1e-9, equal_nan=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8, err_msg=f"seed {seed}")
                compared += 1
    assert compared > 3


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_with_all_functions_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all functions inlined give, in another order of sums."""
    inlined, kept = (machine_code(seed, calls, monkeypatch) for calls in (INLINE, KEEP))
    for point in points(seed, 12):
        for wanted, found in zip(inlined(*point), kept(*point), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8, err_msg=f"seed {seed}")
