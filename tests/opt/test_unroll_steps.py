"""Loops that copy short arrays are written out, where nothing else indexes these."""

import pytest

from slangrad.ir.ops.core import walk
from slangrad.opt.simplify.unroll_steps import unroll_steps
from tests.ir.parse_text import parse_function

COPY = """
func @f(%x: ptr<f32, global>, %m: i32) -> (f32) {
  %n = const COUNT : i32
  %a = zero : [LENGTH x f32]
  %b = for %n, %a : [LENGTH x f32] (%i: i32, %c: [LENGTH x f32]) {
    %p = offset %x, %i
    %t = load %p : f32
    %u = MADE %t
    %d = set_index %c, %i, %u
    yield %d
  }
  %y = READ
  yield %y
}"""


def loops(function):
    return sum(op.name == "for" for op in walk(function.region))


@pytest.mark.parametrize(
    "count, length, made, read, left",
    [
        (64, 64, "detach", "get %b {index=0}", 0),
        (65, 65, "detach", "get %b {index=0}", 1),  # as long an array stays in memory
        (1000, 64, "detach", "get %b {index=0}", 1),
        (64, 64, "abs", "get %b {index=0}", 1),
        (64, 64, "detach", "index %b, %m", 1),
    ],
)
def test_copies_of_arrays(count, length, made, read, left):
    text = COPY.replace("COUNT", str(count)).replace("LENGTH", str(length))
    after = unroll_steps(parse_function(text.replace("MADE", made).replace("READ", read)))
    assert loops(after) == left


ADDS = """
func @f(%x: [3 x [4 x f32]], %g: ptr<f32, global>) -> () {
  %n = const 3 : i32
  %four = const 4 : i32
  for %n (%i: i32) {
    %row = index %x, %i
    %start = mul %i, %four
    for %four (%k: i32) {
      %y = index %row, %k
      %z = mul %y, %y
      %at = add %start, %k
      %p = offset %g, %at
      %old = atomic %p, %z {kind="add"} : f32
      yield
    }
    yield
  }
  yield
}"""


def test_adds_of_rows():
    after = unroll_steps(parse_function(ADDS))
    assert [op.name for op in walk(after.region)].count("atomic") == 12
    assert loops(after) == 0


def test_an_inner_loop_without_end_keeps_its_array():
    text = ADDS.replace("for %four (%k", "for %m (%k").replace("global>)", "global>, %m: i32)")
    function = parse_function(text)
    assert unroll_steps(function) is function
