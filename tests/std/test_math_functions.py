"""The maths functions that targets without an instruction run: accuracy in units in the last place, special values."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

from slangrad.base.options import Options
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts.standard import MATHS
from slangrad.ir.data.numbers import power
from slangrad.ir.data.types import F64
from slangrad.ir.ops.core import Program
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.ir.oracle.interpret import Machine, Recorded
from slangrad.lower.program import lower_functions
from slangrad.syntax import ast

ULP = {"float": 2.0, "double": 2.0}
INF, NAN = math.inf, math.nan
BITS = {"float": 24, "double": 53}
LEAST = {"float": 2.0**-149, "double": 5e-324}
GREATEST = {"float": float(np.finfo(np.float32).max), "double": float(np.finfo(np.float64).max)}


@cache
def library() -> tuple[Program, dict[tuple[str, str], str]]:
    """All functions, lowered, and the name of each by (primitive, type)."""
    checked = CheckedProgram(Options())
    declared = [
        member
        for module in MATHS
        for member in checked.load_module(module).declaration.members
        if isinstance(member, ast.FunctionDeclaration) and checked.info(member).math_function is not None
    ]
    program, names = lower_functions(checked, [DeclRef(each, {}) for each in declared], Options())
    keys = [(checked.info(each).math_function, str(checked.info(each).result)) for each in declared]
    return program, dict(zip(keys, names, strict=True))  # type: ignore[arg-type]


@cache
def machine() -> Machine:
    return Machine(library()[0], 0, Recorded())


def value(name: str, number: str, *xs: float) -> float:
    """What the function gives; inputs are rounded to the type first."""
    (result,) = machine().call(library()[1][name, number], tuple(rounded(number, x) for x in xs))
    assert isinstance(result, float)
    return result


def rounded(number: str, x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x)) if number == "float" else x


def reference(name: str, *xs: float) -> float | np.longdouble:
    """With eleven bits more than a double."""
    with np.errstate(all="ignore"):
        wide = [np.longdouble(x) for x in xs]
        return getattr(np, NUMPY.get(name, name))(*wide)  # type: ignore[no-any-return]


NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power",
}  # fmt: skip


def ulps(number: str, got: float, wanted: float | np.longdouble) -> float:
    """How far off a finite result is, in units in the last place of the right one."""
    spacing = max(2.0 ** (math.frexp(float(wanted))[1] - BITS[number]), LEAST[number])
    return float(abs(np.longdouble(got) - wanted) / np.longdouble(spacing))


def same(x: float, y: float) -> bool:
    """Equal, zeros with their sign; NaN is NaN."""
    return (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y))


# fmt: off
RANGES: dict[str, list[tuple[float, float]]] = {
    "exp":   [(-80, 80), (-1, 1)],       "exp2":  [(-120, 120), (-1, 1)],
    "log":   [(1e-30, 1e30), (0.5, 2)],  "log2":  [(1e-30, 1e30), (0.5, 2)],  "log10": [(1e-30, 1e30), (0.5, 2)],
    "sin":   [(-8, 8), (-1e5, 1e5)],     "cos":   [(-8, 8), (-1e5, 1e5)],     "tan":   [(-8, 8), (-1e5, 1e5)],
    "asin":  [(-1, 1)],                  "acos":  [(-1, 1)],                  "atan":  [(-4, 4), (-1e6, 1e6)],
    "sinh":  [(-3, 3), (-80, 80)],       "cosh":  [(-3, 3), (-80, 80)],       "tanh":  [(-1, 1), (-20, 20)],
    "asinh": [(-3, 3), (-1e6, 1e6)],     "acosh": [(1, 2), (1, 1e6)],         "atanh": [(-1, 1)],
    "expm1": [(-1, 1), (-30, 80)],       "log1p": [(-1, 1), (-1e-3, 1e30)],
}
# fmt: on
NUMBERS = pytest.mark.parametrize("number", ["float", "double"])


def test_every_primitive_has_one() -> None:
    instructions = {"fma", "min", "max", "abs", "floor", "ceil", "round", "trunc", "sqrt", "rem"}
    arithmetic = {"add", "sub", "mul", "scale", "div", "neg"}
    maths = {
        name
        for name, row in PRIMITIVES.items()
        if "f" in row.kinds
        and row.kinds != "*"
        and callable(row.partials)
        and name not in instructions | arithmetic
    }
    assert {name for name, _ in library()[1]} == maths | {"pow"}
    assert len(library()[1]) == 2 * len(maths)


@NUMBERS
@pytest.mark.parametrize("name", RANGES)
def test_accuracy(name: str, number: str) -> None:
    points = random.Random(name)
    for low, high in RANGES[name]:
        for _ in range(40):
            x = rounded(number, points.uniform(low, high))
            wanted = reference(name, x)
            assert ulps(number, value(name, number, x), wanted) < ULP[number], (x, wanted)


@NUMBERS
def test_accuracy_of_two_operands(number: str) -> None:
    points = random.Random(number)
    for _ in range(60):
        x, y = rounded(number, points.uniform(0.01, 30)), rounded(number, points.uniform(-20, 20))
        assert ulps(number, value("pow", number, x, y), reference("pow", x, y)) < ULP[number], (x, y)
        assert (
            ulps(number, value("atan2", number, y, x - 15), reference("atan2", y, rounded(number, x - 15)))
            < ULP[number]
        )
    for _ in range(30):
        x = rounded(number, 1 + points.uniform(-1, 1) * 2.0 ** points.randrange(-20, -2))
        y = rounded(number, points.uniform(-80, 80) / math.log(x)) if x != 1 else 3.0
        assert ulps(number, value("pow", number, x, y), reference("pow", x, y)) < ULP[number], (x, y)


@NUMBERS
def test_large_angles(number: str) -> None:
    """Whole turns are taken off exactly, whatever their number; sines by the arithmetic of Python's integers."""
    points = random.Random(7)
    top = 127 if number == "float" else 1023
    for _ in range(20):
        x = rounded(
            number, math.ldexp(points.uniform(0.5, 1), points.randrange(13, top)) * points.choice((-1, 1))
        )
        sine, cosine = exact_sine(x)
        assert ulps(number, value("sin", number, x), sine) < ULP[number], x
        assert ulps(number, value("cos", number, x), cosine) < ULP[number], x
        assert ulps(number, value("tan", number, x), sine / cosine) < ULP[number], x


def exact_sine(x: float) -> tuple[np.longdouble, np.longdouble]:
    """Sine and cosine after reduction by pi to 1,300 bits."""
    bits, numerator, denominator = 1300, *x.as_integer_ratio()
    quarter = half_pi(bits)
    scaled = (numerator << bits) // denominator
    n, rest = divmod(scaled + quarter // 2, quarter)
    rest -= quarter // 2
    r = np.longdouble(rest >> (bits - 200)) / np.longdouble(2.0**200)
    sine, cosine = np.sin(r), np.cos(r)
    return [(sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine)][n % 4]


@cache
def half_pi(bits: int) -> int:
    """pi / 2 in fixed point, by Machin's formula."""
    guard = bits + 32

    def arctan_of_inverse(k: int) -> int:
        total = term = (1 << guard) // k
        for i in range(1, guard):
            term //= -k * k
            total += term // (2 * i + 1)
            if term in (0, -1):
                break
        return total

    return (2 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))) >> 32


# fmt: off
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp":   [(0.0, 1.0), (-INF, 0.0), (INF, INF), (1e4, INF), (-1e4, 0.0)],
    "exp2":  [(0.0, 1.0), (-INF, 0.0), (INF, INF), (7.0, 128.0), (-3.0, 0.125), (1e4, INF), (-1e4, 0.0)],
    "log":   [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2":  [(1.0, 0.0), (0.0, -INF), (INF, INF), (-1.0, NAN), (8.0, 3.0), (2.0**-20, -20.0)],
    "log10": [(1.0, 0.0), (0.0, -INF), (INF, INF), (-1.0, NAN), (1000.0, 3.0)],
    "sin":   [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos":   [(0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan":   [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin":  [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN)],
    "acos":  [(1.0, 0.0), (1.5, NAN), (-1.5, NAN)],
    "atan":  [(0.0, 0.0), (-0.0, -0.0)],
    "sinh":  [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF)],
    "cosh":  [(0.0, 1.0), (INF, INF), (-INF, INF), (1e4, INF)],
    "tanh":  [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (1e4, INF), (-1e4, -1.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN)],
    "erf":   [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (7.0, 1.0)],
    "erfc":  [(0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0), (-30.0, 2.0)],
    "sinpi": [(0.0, 0.0), (-0.0, -0.0), (3.0, 0.0), (-3.0, -0.0), (1e30, 0.0), (0.5, 1.0), (-2.5, -1.0), (INF, NAN)],
    "cospi": [(0.0, 1.0), (0.5, 0.0), (-1.5, 0.0), (1.0, -1.0), (3.0, -1.0), (1e30, 1.0), (INF, NAN)],
    "tanpi": [(0.0, 0.0), (-0.0, -0.0), (1.0, -0.0), (2.0, 0.0), (0.5, INF), (1.5, -INF), (-0.5, -INF), (INF, NAN)],
}
# fmt: on


@NUMBERS
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, number: str) -> None:
    for x, wanted in [*SPECIAL[name], (NAN, NAN)]:
        assert same(value(name, number, x), wanted), x


@NUMBERS
def test_ends_of_the_range(number: str) -> None:
    least, greatest = LEAST[number], GREATEST[number]
    for x in (least, 1000 * least, greatest):
        for name in ("log", "log2", "log10", "asinh", "atan", "sin", "tan", "cosh"):
            if name != "cosh" or x < 1:
                assert ulps(number, value(name, number, x), wide(name, x)) < ULP[number], (name, x)
    for name in ("log1p", "expm1"):  # no step overflows
        x = greatest if name == "log1p" else rounded(number, math.log(greatest) - 1e-5)
        assert ulps(number, value(name, number, x), reference(name, x)) < ULP[number], name
    edge = math.log(greatest)
    assert value("exp", number, edge * (1 - 1e-6)) < greatest < value("exp", number, edge * (1 + 1e-6)) == INF
    small = value("exp", number, math.log(least) + 3)
    assert ulps(number, small, reference("exp", rounded(number, math.log(least) + 3))) <= 1
    assert value("exp2", number, math.log2(least)) == least


def wide(name: str, x: float) -> float | np.longdouble:
    if name in ("sin", "tan") and x > 1:
        sine, cosine = exact_sine(x)
        return sine if name == "sin" else sine / cosine
    return reference(name, x)


EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, INF, -INF, NAN)


@NUMBERS
def test_every_case_of_pow_and_atan2(number: str) -> None:
    for x in EDGES:
        for y in EDGES:
            for name, wanted in (("pow", power(F64, x, y)), ("atan2", math.atan2(x, y))):
                got, wanted = value(name, number, x, y), rounded(number, wanted)
                assert same(got, wanted) or ulps(number, got, wanted) <= 1, (name, x, y)
