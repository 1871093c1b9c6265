"""Loops as lowering writes them for `for (j = i; j < n; j += s)`: the variable, its start and its bound are read back."""

import pytest

from slangrad.ir.ops.core import walk
from slangrad.opt.analyses.counted_loops import counted_variables
from tests.ir.parse_text import parse_function

HEAD = """
func @f(%i: i32, %n: i32) -> () {
  %zero = const 0 : i32
  %one = const 1 : i32
  %step = const 4 : i32
  %some = less %i, %n
"""
STEPS = "%d = sub %n, %i  %e = sub %d, %one  %q = div %e, %step  %m = add %q, %one  "

# fmt: off
COUNTED = {
    "step one":           "%d = sub %n, %i  %c = select %some, %d, %zero  for %c (%k: i32) { %j = add %i, %k yield }",
    "the other way":      "%d = sub %n, %i  %c = select %some, %d, %zero  for %c (%k: i32) { %j = add %k, %i yield }",
    "step four":          STEPS + "%c = select %some, %m, %zero  for %c (%k: i32) { %p = mul %k, %step %j = add %i, %p yield }",
    "through conversions": "%u = convert %n : u32  %v = convert %i : u32  %d = sub %u, %v  %z = const 0 : u32 "
                           "%c = select %some, %d, %z  for %c (%k: u32) { %w = convert %k : i32 %j = add %i, %w yield }",
}
OTHER = {
    "a plain count":      "for %n (%k: i32) { %j = add %i, %k yield }",
    "another start":      "%d = sub %n, %i  %c = select %some, %d, %zero  for %c (%k: i32) { %j = add %one, %k yield }",
    "another step":       STEPS + "%c = select %some, %m, %zero  for %c (%k: i32) { %j = add %i, %k yield }",
    "another distance":   "%d = sub %n, %one  %c = select %some, %d, %zero  for %c (%k: i32) { %j = add %i, %k yield }",
    "at least once":      "%d = sub %n, %i  %c = select %some, %d, %one  for %c (%k: i32) { %j = add %i, %k yield }",
    "not in the body":    "%d = sub %n, %i  %c = select %some, %d, %zero  for %c (%k: i32) { %j = sub %i, %k yield }",
}
# fmt: on


def found(body: str) -> list[tuple[str, str, str]]:
    """Names of the variable, its start and its bound."""
    function = parse_function(f"{HEAD}{body} yield }}")
    (loop,) = (op for op in walk(function.region) if op.name == "for")
    rows = counted_variables(loop, function.region.makers.get)
    return [tuple(value.hint for value in row) for row in rows]


@pytest.mark.parametrize("body", COUNTED.values(), ids=COUNTED)
def test_counted(body: str) -> None:
    assert found(body) == [("j", "i", "n")]


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_other_loops(body: str) -> None:
    assert found(body) == []
