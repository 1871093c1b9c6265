"""Masks before and behind functions with infinite slopes: no infinity and no NaN comes through a branch that is not taken, in
both modes, to second order, in all types, in the oracle and in machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import slangrad as spy
from slangrad.ir.oracle.interpret import Machine, Recorded
from tests.gradients.edges import TYPES
from tests.std.programs import differentiated

INSIDE, OUTSIDE = 0.5, -1.0  # where masks take x, and where not

# Each is x inside, and zero outside.
MASKS = (
    "max({0}, T(0))",
    "clamp({0}, T(0), T(3))",
    "saturate({0})",
    "({0} > T(0) ? {0} : T(0))",
    "select({0} > T(0), {0}, T(0))",
    "median3({0}, T(0), T(3))",
    "fdim({0}, T(0))",
    "max3({0}, T(0), T(-1))",
    "-min(-{0}, T(0))",
)
# Infinite slopes, or none, at zero.
SINGULAR: dict[str, Callable[[Any], Any]] = {
    "log({0})": mp.log,
    "log2({0})": lambda x: mp.log(x, 2),
    "log10({0})": mp.log10,
    "log1p({0} - T(1))": mp.log,
    "sqrt({0})": mp.sqrt,
    "rsqrt({0})": lambda x: 1 / mp.sqrt(x),
    "cbrt({0})": mp.cbrt,
    "rcp({0})": lambda x: 1 / x,
    "T(3) / ({0} * {0})": lambda x: 3 / x**2,
    "pow({0}, T(0.25))": lambda x: x**0.25,
    "pow({0}, T(-1.5))": lambda x: x**-1.5,
    "pow(T(2), rcp({0}))": lambda x: 2 ** (1 / x),
    "asin(T(1) - {0})": lambda x: mp.asin(1 - x),
    "acos(T(1) - {0})": lambda x: mp.acos(1 - x),
    "acosh(T(1) + {0})": lambda x: mp.acosh(1 + x),
    "atanh(T(1) - {0})": lambda x: mp.atanh(1 - x),
    "hypot(log({0}), T(1))": lambda x: mp.sqrt(mp.log(x) ** 2 + 1),
    "fmod(T(2), T(0.75) * rcp({0}))": lambda x: 2 - 0.75 / x,
    "length(vector<T, 2>(rcp({0}), {0}))": lambda x: mp.sqrt(x**-2 + x**2),
    "normalize(vector<T, 2>({0}, {0} * {0})).x": lambda x: 1 / mp.sqrt(1 + x**2),
    "exp(rcp({0}))": lambda x: mp.exp(1 / x),
}
# What has no finite value or slope outside, and stands in a branch that is not taken there.
BEHIND: dict[str, Callable[[Any], Any]] = {
    "x * log(x)": lambda x: x * mp.log(x),
    "log(x) * log(x) * x": lambda x: mp.log(x) ** 2 * x,
    "sin(sqrt(x)) / sqrt(x)": lambda x: mp.sin(mp.sqrt(x)) / mp.sqrt(x),
    "sin(1 / (x + T(1)))": lambda x: mp.sin(1 / (x + 1)),
    "exp(T(-800) * x) * x": lambda x: mp.exp(-800 * x) * x,
    "tanh(atanh(x) * x)": lambda x: mp.tanh(mp.atanh(x) * x),
    "(x * (T(1) / sqrt(dot(x, x + T(1))))) * x": lambda x: x**2 / mp.sqrt(x * (x + 1)),
}
CHOICES = (
    "return x > T(0) ? y : x * x;",
    "return select(x > T(0), y, x * x);",
    "T result = x * x; if (x > T(0)) result = y; return result;",
    "T both[2] = { x * x, y }; return both[x > T(0) ? 1 : 0];",
    "T sum = x * x; for (int i = 0; i < (x > T(0) ? 1 : 0); i++) sum = y; return sum;",
)


@dataclass(frozen=True)
class Case:
    body: str
    inside: Callable[[Any], Any]
    outside: tuple[float, float]  # the two derivatives


def cases(kind: str) -> list[Case]:
    """Each singular function behind a mask, each of those that are behind in a choice; others in each type."""
    made, turn = [], list(TYPES).index(kind)
    for i, (text, exact) in enumerate(SINGULAR.items()):
        mask = MASKS[(i + 4 * turn) % len(MASKS)]
        made.append(Case(f"T y = {mask.format('x')}; return {text.format('y')};", exact, (0.0, 0.0)))
    for i, (text, exact) in enumerate(BEHIND.items()):
        choice = CHOICES[(i + 2 * turn) % len(CHOICES)]
        made.append(Case(f"T y = {text}; {choice}", exact, (2 * OUTSIDE, 2.0)))
    return made


def program(kind: str) -> str:
    """`run(which, x)`: the first derivative in both modes, and the second by three nestings."""
    parts, arms = [f"typealias T = {kind};"], []
    for i, case in enumerate(cases(kind)):
        parts.append(f"""
[Differentiable] T f{i}(T x) {{ {case.body} }}
[Differentiable] T g{i}(T x) {{ var p = diffPair(x); bwd_diff(f{i})(p, T(1)); return p.d; }}
[Differentiable] T h{i}(T x) {{ return fwd_diff(f{i})(diffPair(x, T(1))).d; }}""")
        arms.append(f"""    case {i}:
    {{
        first = vector<T, 2>(g{i}(x), h{i}(x));
        var p = diffPair(x);
        bwd_diff(g{i})(p, T(1));
        var q = diffPair(x);
        bwd_diff(h{i})(q, T(1));
        second = vector<T, 3>(p.d, fwd_diff(g{i})(diffPair(x, T(1))).d, q.d);
        break;
    }}""")
    head = "void run(int which, T x, out vector<T, 2> first, out vector<T, 3> second)"
    start = "first = vector<T, 2>(0); second = vector<T, 3>(0);"
    return "\n".join([*parts, head, "{", start, "switch (which)", "{", *arms, "}", "}"])


def wanted(case: Case, x: float) -> tuple[float, float]:
    if x == OUTSIDE:
        return case.outside
    with mp.workdps(40):
        return float(mp.diff(case.inside, x, 1)), float(mp.diff(case.inside, x, 2))


TOLERANCES = {"half": 2e-2, "float": 2e-5, "double": 1e-12}


def compare(case: Case, x: float, first: np.ndarray, second: np.ndarray, kind: str) -> str:
    """What is wrong, if anything."""
    for found, exact in zip((first, second), wanted(case, x), strict=True):
        tolerance = 0.0 if x == OUTSIDE else TOLERANCES[kind]
        if not np.allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance):
            return f"{kind} at {x}: {case.body} {found} instead of {exact}\n"
    return ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", TYPES)
def test_masks_in_machine_code(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_OPTIMIZE", "0")
    monkeypatch.setenv("SLANGRAD_LANES", "4")
    device, t, made = spy.create_device(), TYPES[kind], cases(kind)
    module = spy.Module.load_from_source(device, f"masks_{kind}", program(kind))
    which = np.repeat(np.arange(len(made), dtype=np.int32), 2)
    x = np.tile(np.array([INSIDE, OUTSIDE], t), len(made))
    first, second = (spy.Tensor.from_numpy(device, np.zeros((len(x), n), t)) for n in (2, 3))
    module.run(which, x, first, second)
    found = zip(which, x, first.to_numpy(), second.to_numpy(), strict=True)
    assert not (wrong := "".join(compare(made[i], float(at), a, b, kind) for i, at, a, b in found)), wrong


def test_masks_in_the_oracle() -> None:
    machine = Machine(differentiated(program("double")), 0, Recorded())
    for i, case in enumerate(cases("double")):
        for x in (INSIDE, OUTSIDE):
            first, second = (np.asarray(each) for each in machine.call("run", (i, x)))
            assert not (wrong := compare(case, x, first, second, "double")), wrong
