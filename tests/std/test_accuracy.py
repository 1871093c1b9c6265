"""Every floating-point function of `std`, in half, float and double: value, and partials in both modes, against exact
ones. The normal tier runs a seeded sample of the inputs, the deep tier all that is listed in `INPUTS`.

    python -m tests.std.test_accuracy         prints the table of `docs/standard_library.md`
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Options
from tests.std.accuracy import TYPES, Machine, Result, all_halves, errors, random_numbers, special, tuples
from tests.std.edges import EDGES, PARTIAL_ULP
from tests.std.exact import ROWS, WIDE, Row, reference

PAGE = Path(__file__).parents[2] / "docs" / "standard_library.md"
DEEP = pytest.mark.deep
# fmt: off
EXTENDED = {
    1: ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "rsqrt"],
    2: ["pow", "atan2", "hypot"],
}
# fmt: on
KINDS = [(number, arity) for number in TYPES for arity in (1, 2, 3)]
# What is run of special tuples and of random numbers, by tier; the exact doubles of mpmath take longer.
INPUTS = {
    "sample": {"float": (1500, 1500), "double": (150, 150)},
    "deep": {"float": (100_000, 100_000), "double": (4000, 6000)},
}


def inputs(number: str, arity: int, tier: str) -> list[np.ndarray]:
    specials, count = INPUTS[tier]["double" if number == "double" else "float"]
    if arity == 1 and number == "half":
        halves = all_halves()
        return [halves if tier == "deep" else np.concatenate([special("half"), halves[:: 64 + 1]])]
    if arity == 1:
        every = np.arange(0, 1 << 32 if number == "float" and tier == "deep" else 0, 4093, np.uint32)
        more = every.view(np.float32).astype(TYPES[number])
        return [np.concatenate([special(number), random_numbers(number, count, 11), more])]
    return tuples(number, arity, specials, count, 11)


def rows_of(arity: int) -> list[Row]:
    return [row for row in ROWS.values() if row.arity == arity]


@cache
def machine(contraction: bool) -> Machine:
    return Machine(spy.create_device(options=Options(contraction=contraction)))


@lru_cache(maxsize=1)
def results(number: str, arity: int, tier: str, contraction: bool) -> tuple[list[np.ndarray], list[Result]]:
    xs = inputs(number, arity, tier)
    return xs, machine(contraction).run(number, rows_of(arity), xs)


def value_errors(row: Row, number: str, xs: list[np.ndarray], got: np.ndarray) -> np.ndarray:
    of = None
    if row.of is not None:
        with np.errstate(all="ignore"):
            of = np.asarray(row.of(WIDE, *(x.astype(np.float64) for x in xs)), np.float64)
    return errors(got, reference(row, row.value, xs, number == "double"), number, of, row.zero_sign)


def many_doubles(arity: int) -> list[np.ndarray]:
    """Where most functions bend, in more number than mpmath has time for."""
    rng, count = np.random.default_rng(5), 200_000

    def numbers() -> np.ndarray:
        scaled = 2.0 ** rng.uniform(-40, 10, count) * rng.choice([-1.0, 1.0], count)
        near_one = 1 + 2.0 ** rng.uniform(-50, 3, count)
        each = [rng.uniform(-1, 1, count), rng.uniform(-25, 25, count), scaled, near_one]
        return np.concatenate(each) if arity == 1 else rng.permutation(np.concatenate(each))

    return [numbers() for _ in range(arity)]


def errors_of_many_doubles(arity: int, contraction: bool) -> dict[str, float]:
    """The largest error by function, against numbers with eleven bits more, for those that NumPy has."""
    xs, rows = many_doubles(arity), [ROWS[name] for name in EXTENDED[arity]]
    found = machine(contraction).run("double", rows, xs)
    largest = {}
    for row, result in zip(rows, found, strict=True):
        with np.errstate(all="ignore"):
            exact = row.value(WIDE, *(x.astype(np.longdouble) for x in xs))
            head = exact.astype(np.float64)
            tail = ((exact - head) / np.abs(np.spacing(head))).astype(np.float64)
            tail = np.where(np.isfinite(head), tail, 0.0)
            off = errors(result.value, (head, tail), "double", signs=False)
        largest[row.name] = float(off.max())
    return largest


def worst(off: np.ndarray, xs: list[np.ndarray], got: np.ndarray) -> tuple[float, ...]:
    """The error, the operands and the result where the error is largest."""
    i = int(np.argmax(off))
    return float(off[i]), *(float(x[i]) for x in xs), float(got[i])


def documented() -> dict[str, tuple[float, float, float]]:
    """The largest errors by function, as the page says."""
    found = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (float(half), float(single), float(double)) for name, half, single, double in found}


def check_values(number: str, arity: int, tier: str, contraction: bool) -> None:
    xs, found = results(number, arity, tier, contraction)
    column, wrong = list(TYPES).index(number), {}
    for row, result in zip(rows_of(arity), found, strict=True):
        off = value_errors(row, number, xs, result.value)
        limit = documented().get(row.name, row.ulp)[column]
        if not (off <= limit).all():
            wrong[row.name] = worst(off, xs, result.value)
    assert not wrong


def check_partials(number: str, arity: int, tier: str, contraction: bool) -> None:
    xs, found = results(number, arity, tier, contraction)
    wrong = {}
    for row, result in zip(rows_of(arity), found, strict=True):
        for j, formula in enumerate(row.partials or ()):
            forward, backward = result.forward[j], result.backward[j]
            off = partial_errors(row, j, formula, number, xs, forward)
            if not (off <= PARTIAL_ULP).all():
                wrong[row.name, j, "forward"] = worst(off, xs, forward)
            apart = ~((forward == backward) | (np.isnan(forward) & np.isnan(backward)))
            if apart.any():
                off = np.where(apart, partial_errors(row, j, formula, number, xs, backward), 0.0)
                if not (off <= PARTIAL_ULP).all():
                    wrong[row.name, j, "backward"] = worst(off, xs, backward)
    assert not wrong


def partial_errors(row, j, formula, number, xs, got) -> np.ndarray:
    """Errors of a partial: against the table of edges where it has a row, else against the exact one. Where there is no
    exact one, any answer holds."""
    head, tail = reference(row, formula, xs, number == "double")
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in xs]
        for where, partials in EDGES.get(row.name, ()):
            here = where(np.finfo(TYPES[number]), *wide)
            head, tail = np.where(here, partials[j], head), np.where(here, 0.0, tail)
        off = errors(got, (head, tail), number, signs=False)
    tiny = float(np.finfo(TYPES[number]).smallest_normal)
    underflow = (np.abs(head) < tiny) & (np.abs(got) <= tiny)
    return np.where(np.isnan(head) | underflow, 0.0, off)


@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_values_of_a_sample(number: str, arity: int) -> None:
    check_values(number, arity, "sample", True)


@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_partials_of_a_sample(number: str, arity: int) -> None:
    check_partials(number, arity, "sample", True)


@DEEP
@pytest.mark.parametrize("contraction", [True, False])
@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_values(number: str, arity: int, contraction: bool) -> None:
    check_values(number, arity, "deep", contraction)


@DEEP
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double has no more digits than double")
@pytest.mark.parametrize("contraction", [True, False])
@pytest.mark.parametrize("arity", [1, 2])
def test_many_doubles(arity: int, contraction: bool) -> None:
    largest = errors_of_many_doubles(arity, contraction)
    assert {name: off for name, off in largest.items() if off > documented()[name][2]} == {}


@DEEP
@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_partials(number: str, arity: int) -> None:
    check_partials(number, arity, "deep", True)


def test_the_page_promises_no_more_than_the_table() -> None:
    assert documented().keys() == {row.name for row in ROWS.values() if row.name in documented_names()}
    for name, measured in documented().items():
        assert all(each <= most for each, most in zip(measured, ROWS[name].ulp, strict=True)), name


def documented_names() -> set[str]:
    """Functions whose results are rounded more than once."""
    return {row.name for row in ROWS.values() if max(row.ulp) > 0.5 and not row.call}


def test_every_function_has_a_row() -> None:
    """The sections on numbers name all of them."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    text = "".join(s for s in sections if s.startswith(("Arithmetic", "Exponentials", "Angles")))
    named = set(re.findall(r"`(\w+)\(", text))
    others = {"sign", "select", "and", "or", "isnan", "isinf", "isfinite", "sincos"}
    assert named - others == ROWS.keys() - {"modf_whole", "sincos_s", "sincos_c"}


def print_table() -> None:
    """Largest errors with and without contraction, rounded up."""
    largest: dict[str, list[float]] = {name: [0.0] * 3 for name in ROWS if name in documented_names()}
    for column, number in enumerate(TYPES):
        for arity in (1, 2, 3):
            for contraction in (True, False):
                xs, found = results(number, arity, "deep", contraction)
                for row, result in zip(rows_of(arity), found, strict=True):
                    if row.name in largest:
                        off = float(value_errors(row, number, xs, result.value).max())
                        largest[row.name][column] = max(largest[row.name][column], off)
    for arity in (1, 2):
        for contraction in (True, False):
            for name, off in errors_of_many_doubles(arity, contraction).items():
                largest[name][2] = max(largest[name][2], off)
    for name, each in largest.items():
        print(f"| {name} | " + " | ".join(f"{np.ceil(off * 100) / 100:.2f}" for off in each) + " |")


if __name__ == "__main__":
    print_table()
