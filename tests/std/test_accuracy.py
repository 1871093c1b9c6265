"""Every floating-point function of `std`, in half, float and double: value, and partials in both modes, against exact
ones. The normal tier runs a seeded sample of the inputs, the deep tier all that is listed in `INPUTS`.

    python -m tests.std.test_accuracy         prints the table of `docs/standard_library.md`
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Options
from tests.std.accuracy import TYPES, Machine, Result, all_halves, errors, random_numbers, special, tuples
from tests.std.edges import EDGES, PARTIAL_ULP
from tests.std.exact import EXTENDED, ROWS, WIDE, Formula, Pair, Row, reference
from tests.std.hardest import HARDEST

PAGE = Path(__file__).parents[2] / "docs" / "standard_library.md"
DEEP = pytest.mark.deep
KINDS = [(number, arity) for number in TYPES for arity in (1, 2, 3)]
INPUTS = {
    "sample": (1500, 1500),
    "deep": (150_000, 100_000),
}  # special tuples, all pairs in the deep tier, and random ones
PARTS = 16  # in which all triples of special numbers are run
# Errors in long double that are so much below a limit are below it; tests/std/exact.py.
VALUE_MARGIN, PARTIAL_MARGIN = 0.02, 1.0


def inputs(number: str, arity: int, tier: str) -> list[np.ndarray]:
    specials, count = INPUTS[tier]
    if arity == 1 and number == "half":
        halves = all_halves()
        return [halves if tier == "deep" else np.concatenate([special("half"), halves[:: 64 + 1]])]
    if arity == 1:
        every = np.arange(0, 1 << 32 if number == "float" and tier == "deep" else 0, 4093, np.uint32)
        more = every.view(np.float32).astype(TYPES[number])
        given = [np.concatenate([special(number), random_numbers(number, count, 11), more])]
    else:
        given = tuples(number, arity, specials, count, 11)
    hardest = np.array(HARDEST[number, arity], TYPES[number]).T
    return [np.concatenate(pair) for pair in zip(given, hardest, strict=True)]


def rows_of(arity: int) -> list[Row]:
    return [row for row in ROWS.values() if row.arity == arity]


@cache
def machine(contraction: bool) -> Machine:
    return Machine(spy.create_device(options=Options(contraction=contraction)))


@lru_cache(maxsize=1)
def results(number: str, arity: int, tier: str, contraction: bool) -> tuple[list[np.ndarray], list[Result]]:
    xs = inputs(number, arity, tier)
    return xs, machine(contraction).run(number, rows_of(arity), xs)


def value_errors(row: Row, number: str, xs: list[np.ndarray], got: np.ndarray, limit: float) -> np.ndarray:
    """They are exact near the limit and beyond it."""
    of = None
    if row.of is not None:
        with np.errstate(all="ignore"):
            of = np.asarray(row.of(WIDE, *(x.astype(np.float64) for x in xs)), np.float64)

    def off(exact: Pair) -> np.ndarray:
        return errors(got, exact, number, of, row.zero_sign)

    return off(reference(row, row.value, xs, lambda close: ~(off(close) < limit - VALUE_MARGIN)))


def many_doubles(arity: int) -> list[np.ndarray]:
    """Where most functions bend."""
    rng, count = np.random.default_rng(5), 200_000

    def numbers() -> np.ndarray:
        scaled = 2.0 ** rng.uniform(-40, 10, count) * rng.choice([-1.0, 1.0], count)
        near_one = 1 + 2.0 ** rng.uniform(-50, 3, count)
        each = [rng.uniform(-1, 1, count), rng.uniform(-25, 25, count), scaled, near_one]
        return np.concatenate(each) if arity == 1 else rng.permutation(np.concatenate(each))

    return [numbers() for _ in range(arity)]


def worst(off: np.ndarray, xs: list[np.ndarray], got: np.ndarray) -> tuple[float, ...]:
    """The error, the operands and the result where the error is largest."""
    i = int(np.argmax(off))
    return float(off[i]), *(float(x[i]) for x in xs), float(got[i])


def documented() -> dict[str, tuple[float, float, float]]:
    """The largest errors by function, as the page says."""
    found = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (float(half), float(single), float(double)) for name, half, single, double in found}


def check_values(number: str, xs: list[np.ndarray], rows: list[Row], found: list[Result]) -> None:
    column, wrong = list(TYPES).index(number), {}
    for row, result in zip(rows, found, strict=True):
        limit = documented().get(row.name, row.ulp)[column]
        off = value_errors(row, number, xs, result.value, limit)
        if not (off <= limit).all():
            wrong[row.name] = worst(off, xs, result.value)
    assert not wrong


def check_partials(number: str, xs: list[np.ndarray], rows: list[Row], found: list[Result]) -> None:
    wrong = {}
    for row, result in zip(rows, found, strict=True):
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


def partial_errors(
    row: Row, j: int, formula: Formula, number: str, xs: list[np.ndarray], got: np.ndarray
) -> np.ndarray:
    """Errors of a partial: against the table of edges where it has a row, else against the exact one. Where there is no
    exact one, any answer holds."""
    info = np.finfo(TYPES[number])
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in xs]
        edges = [(where(info, *wide), partials[j]) for where, partials in EDGES.get(row.name, ())]

    def off(exact: Pair) -> np.ndarray:
        head, tail = exact
        for here, partial in edges:
            head, tail = np.where(here, partial, head), np.where(here, 0.0, tail)
        tiny = float(info.smallest_normal)
        underflow = (np.abs(head) < tiny) & (np.abs(got) <= tiny)
        return np.where(np.isnan(head) | underflow, 0.0, errors(got, (head, tail), number, signs=False))

    return off(reference(row, formula, xs, lambda close: ~(off(close) < PARTIAL_ULP - PARTIAL_MARGIN)))


@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_values_of_a_sample(number: str, arity: int) -> None:
    xs, found = results(number, arity, "sample", True)
    check_values(number, xs, rows_of(arity), found)


@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_partials_of_a_sample(number: str, arity: int) -> None:
    xs, found = results(number, arity, "sample", True)
    check_partials(number, xs, rows_of(arity), found)


@DEEP
@pytest.mark.parametrize("contraction", [True, False])
@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_values(number: str, arity: int, contraction: bool) -> None:
    xs, found = results(number, arity, "deep", contraction)
    check_values(number, xs, rows_of(arity), found)


@DEEP
@pytest.mark.skipif(
    not EXTENDED, reason="long double has no more digits than double, and mpmath takes too long"
)
@pytest.mark.parametrize("contraction", [True, False])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_many_doubles(arity: int, contraction: bool) -> None:
    xs, rows = many_doubles(arity), [replace(row, partials=None) for row in rows_of(arity)]
    check_values("double", xs, rows, machine(contraction).run("double", rows, xs))


@DEEP
@pytest.mark.parametrize(("number", "arity"), KINDS)
def test_partials(number: str, arity: int) -> None:
    xs, found = results(number, arity, "deep", True)
    check_partials(number, xs, rows_of(arity), found)


@DEEP
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("number", TYPES)
def test_all_triples(number: str, part: int) -> None:
    """Values, with and without contraction, and partials at each triple of special numbers. Four first numbers at a time."""
    each, rows = special(number), rows_of(3)
    second, third = (pair.ravel() for pair in np.meshgrid(each, each))
    for start in range(4 * part, len(each), 4 * PARTS):
        first = each[start : start + 4]
        xs = [np.repeat(first, len(second)), np.tile(second, len(first)), np.tile(third, len(first))]
        for contraction in (True, False):
            found = machine(contraction).run(number, rows, xs)
            check_values(number, xs, rows, found)
            if contraction:
                check_partials(number, xs, rows, found)


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
    for (number, arity), contraction in product(KINDS, (True, False)):
        given = [results(number, arity, "deep", contraction)]
        if number == "double":
            xs = many_doubles(arity)
            given.append(
                (
                    xs,
                    machine(contraction).run(number, [replace(r, partials=None) for r in rows_of(arity)], xs),
                )
            )
        column = list(TYPES).index(number)
        for xs, found in given:
            for row, result in zip(rows_of(arity), found, strict=True):
                if row.name in largest:
                    off = float(value_errors(row, number, xs, result.value, row.ulp[column]).max())
                    largest[row.name][column] = max(largest[row.name][column], off)
    for name, each in largest.items():
        print(f"| {name} | " + " | ".join(f"{np.ceil(off * 100) / 100:.2f}" for off in each) + " |")


if __name__ == "__main__":
    print_table()
