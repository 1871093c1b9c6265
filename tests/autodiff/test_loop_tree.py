"""Loops around values, and what a reverse sweep has without keeping anything."""

from collections.abc import Callable

import pytest

from slangrad.autodiff.analyses.halves import USUAL_TRIPS
from slangrad.autodiff.analyses.loop_tree import LoopTree
from slangrad.ir.ops.core import Region, Value, walk
from tests.ir.parse_text import parse_function

TEXT = """func @f(%x: f64, %n: i32, %a: [4 x [3 x f64]]) -> (f64) {
  %zero = const 0 : i32
  %two = const 2 : i32
  %m = add %n, %two
  %k.r, %j.r, %r = for %n, %zero, %zero, %x : i32, i32, f64 (%i: i32, %k: i32, %j: i32, %s: f64) {
    %k.next = add %two, %k
    %j.next = mul %j, %two
    %fixed = mul %m, %two
    %row = index %a, %i
    %e = index %row, %two
    %more = add %n, %i
    %u = for %two, %s : f64 (%p: i32, %t: f64) {
      %v = mul %t, %e
      yield %v
    }
    %w = while %u : f64 (%c: f64) {
      %on = less %c, %x
      yield %on
    } (%q: f64) {
      %h = add %q, %x
      yield %h
    }
    yield %k.next, %j.next, %w
  }
  yield %r
}"""


def values_of(region: Region) -> dict[str, Value]:
    inner = {
        name: value for op in region.ops for part in op.regions for name, value in values_of(part).items()
    }
    results = (result for op in region.ops for result in op.results)
    return inner | {value.hint: value for value in (*region.parameters, *results)}


TREE = LoopTree(parse_function(TEXT).region)
VALUES = values_of(TREE.top.region)
OUTER, INNER, REPEATED = [TREE.loops[op] for op in walk(TREE.top.region) if op.name in ("for", "while")]


def named(fact: Callable[[Value], bool], names: str) -> str:
    return " ".join(name for name in names.split() if fact(VALUES[name]))


def test_loops_around_loops() -> None:
    assert OUTER.outer is None and INNER.outer is OUTER and REPEATED.outer is OUTER
    assert (OUTER.constant, INNER.constant, REPEATED.constant) == (None, 2, None)
    assert OUTER.trips is VALUES["n"] and OUTER.index is VALUES["i"]
    assert REPEATED.index is None and TREE.homes[REPEATED.trips].loop is OUTER


def test_homes_of_values() -> None:
    homes = {name: TREE.homes[VALUES[name]].loop for name in VALUES}
    assert {name for name, loop in homes.items() if loop is INNER} == {"v", "p", "t"}
    assert {name for name, loop in homes.items() if loop is REPEATED} == {"on", "c", "h", "q"}
    assert {name for name, loop in homes.items() if loop is None} == {
        *("x", "n", "a", "zero", "two", "m", "k.r", "j.r", "r")
    }
    inner = TREE.homes[VALUES["v"]]
    assert inner.within(TREE.homes[VALUES["u"]]) and inner.within(TREE.top)
    assert not TREE.top.within(inner) and not inner.within(TREE.homes[VALUES["h"]])


def test_definitions_come_before_uses() -> None:
    for op in walk(TREE.top.region):
        for operand in op.operands:
            assert all(TREE.order[operand] < TREE.order[result] for result in op.results)


def test_guesses_of_runs() -> None:
    """A loop of unknown length runs a usual number of times, a known one as often as it says."""
    runs = {name: TREE.homes[VALUES[name]].runs for name in ("x", "u", "v")}
    assert runs == {"x": 1, "u": USUAL_TRIPS, "v": 2 * USUAL_TRIPS}


def test_counters_step_by_a_constant_from_a_value_at_hand() -> None:
    assert list(TREE.counters) == [VALUES["k"]]
    counter = TREE.counters[VALUES["k"]]
    assert (counter.start, counter.step, counter.falls) == (VALUES["zero"], VALUES["two"], False)


@pytest.mark.parametrize(
    "text, counts",
    [("sub %k, %two", True), ("sub %two, %k", False), ("add %k, %n", False), ("add %k, %k", False)],
)
def test_what_counts(text: str, counts: bool) -> None:
    function = parse_function(
        f"""func @f(%n: i32) -> (i32) {{
        %two = const 2 : i32
        %r = for %n, %n : i32 (%i: i32, %k: i32) {{ %next = {text} yield %next }}
        yield %r
        }}"""
    )
    counters = list(LoopTree(function.region).counters.values())
    assert [counter.falls for counter in counters] == [True] * counts


def test_values_at_hand() -> None:
    names = "x m i k j s fixed more e"
    assert named(TREE.is_at_hand, names) == "x m i k"
    assert named(TREE.is_fixed, names) == "x m fixed"
    handed = LoopTree(TREE.top.region, handed=True)
    assert named(handed.is_at_hand, "x n a two i k m r") == "x n a two i k"


def test_positions_follow_from_indices_where_loops_run_equally_often() -> None:
    assert TREE.is_linear(OUTER) and TREE.is_linear(INNER) and not TREE.is_linear(REPEATED)


def test_parts_of_arrays() -> None:
    row, element = TREE.makers[VALUES["row"]], VALUES["e"]
    assert TREE.whole_of(VALUES["row"]) == (VALUES["a"], [row])
    assert TREE.whole_of(element) == (element, [])
    assert TREE.is_view(VALUES["a"]) and TREE.is_view(VALUES["row"])
    changed = parse_function(
        """func @f(%a: [4 x f64], %x: f64, %i: i32) -> (f64) {
          %b = set_index %a, %i, %x
          %e = index %b, %i
          yield %e
        }"""
    ).region
    assert not LoopTree(changed).is_view(changed.parameters[0])
