"""Rows of tapes that are overwritten before they are used: read at once, so that no tape is copied."""

from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.rows import rows_to_read
from slangrad.ir.ops.core import Program, walk
from slangrad.ir.oracle.interpret import evaluate
from tests.ir.parse_text import parse_function

MOVED = """
func @f(%x: f32, %i: u32) -> (f32) {
  %t0 = zero : [? x [3 x f32]]
  %row = make %x, %x, %x : [3 x f32]
  %t1 = set_index %t0, %i, %row
  %old = index %t1, %i
  %zero = zero : [3 x f32]
  %t2 = set_index %t1, %i, %zero
  %one = const 1 : u32
  %next = add %i, %one
  %t3 = set_index %t2, %next, %old
  %moved = index %t3, %next
  %left = index %t3, %i
  %a = index %old, %one
  %b = index %moved, %one
  %c = index %left, %one
  %ab = add %a, %b
  %d = sub %ab, %c
  yield %d
}"""

CHANGED = """
func @f(%x: f32, %i: u32) -> (f32) {
  %t0 = zero : [? x [3 x f32]]
  %row = make %x, %x, %x : [3 x f32]
  %first = const 0 : u32
  %t1 = set_index %t0, %first, %row
  %old = index %t1, %i
  %one = const 1 : u32
  %twice = add %x, %x
  %new = set_index %old, %one, %twice
  %t2 = set_index %t1, %i, %new
  %back = index %t2, %i
  %d = index %back, %one
  yield %d
}"""


def test_an_overwritten_row_is_read_at_once() -> None:
    before = parse_function(MOVED)
    assert [op.results[0].hint for op in rows_to_read(before)] == ["old"]
    after = flatten_arrays(flatten_aggregates(before))
    assert all(op.name != "tape_copy" for op in walk(after.region))
    for i in (0, 2):
        assert evaluate(Program({"f": after}), "f", (1.5, i)) == evaluate(
            Program({"f": before}), "f", (1.5, i)
        )
        assert evaluate(Program({"f": after}), "f", (1.5, i)) == (3.0,)


def test_a_row_that_is_changed_and_put_back_stays_where_it_is() -> None:
    before = parse_function(CHANGED)
    assert rows_to_read(before) == set()
    after = flatten_arrays(flatten_aggregates(before))
    names = [op.name for op in walk(after.region)]
    assert (names.count("tape_copy"), names.count("alloc")) == (0, 1)  # the array that is the first row
    assert evaluate(Program({"f": after}), "f", (1.5, 0)) == (3.0,)
