"""Tapes and variables of one thread, and what they are for lanes; that numbers are the same is in the tests of each."""

import pytest

from slangrad.spmd.widen import widen
from tests.ir.golden import assert_becomes

BEFORE = """
func @kernel() -> () {{
  %i = thread_id {{axis=0}} : u32
  %j = thread_id {{axis=1}} : u32
  %x = convert %i : f32
  %two = const 2 : u32
  {body}
  yield
}}"""
AFTER = """
func @kernel() -> () {{lanes=8}} {{
  %first = thread_id {{axis=0}} : u32
  %step = const 1 : u32
  %j = thread_id {{axis=1}} : u32
  %lane = lane_index : lanes<u32>
  %one = const 1 : lanes<u32>
  %all = splat %first : lanes<u32>
  %i = add %all, %lane
  %x = convert %i : lanes<f32>
  %two = const 2 : u32
  {body}
  yield
}}"""
TAPE = "%t = tape_new : ptr<f32, tape>  "
PLACES = """
  %base = splat %elements : lanes<ptr<f32, local>>
  %p = offset %base, %at
"""

# fmt: off
CASES = {
    "one element of one tape is a row": (
        TAPE + "tape_store %t, %j, %x  %o = tape_load %t, %two", TAPE + """
          %w = tape_address %t, %j {write=true} : ptr<f32, local>
          store %w, %x
          %r = tape_address %t, %two {write=false} : ptr<f32, local>
          %o = load %r : lanes<f32>"""),
    "elements of one tape: room for the last of them, then all at once": (
        TAPE + "tape_store %t, %i, %x", TAPE + """
          %k = convert %i : lanes<i64>
          %last = lane_reduce %k {kind="max"} : i64
          tape_reserve %t, %last
          %capacity = tape_capacity %t : u64
          %most = splat %capacity : lanes<u64>
          %number = convert %k : lanes<u64>
          %there = less %number, %most
          %elements = tape_elements %t : ptr<f32, local>
          %eight = const 8 : lanes<i64>
          %row = mul %k, %eight
          %own = lane_index : lanes<i64>
          %at = add %row, %own""" + PLACES + "store %p, %x, %there"),
    "lanes that are off ask for no room": (
        TAPE + "%c = less %i, %two  if %c { tape_store %t, %i, %x yield } { yield }", TAPE + """
          %limit = const 2 : lanes<u32>
          %c = less %i, %limit
          %bits = lane_bits %c : u64
          %none = const 0 : u64
          %some = not_equal %bits, %none
          if %some {
            %k = convert %i : lanes<i64>
            %zero = zero : lanes<i64>
            %wanted = select %c, %k, %zero
            %last = lane_reduce %wanted {kind="max"} : i64
            tape_reserve %t, %last
            %capacity = tape_capacity %t : u64
            %most = splat %capacity : lanes<u64>
            %number = convert %k : lanes<u64>
            %there = less %number, %most
            %elements = tape_elements %t : ptr<f32, local>
            %eight = const 8 : lanes<i64>
            %row = mul %k, %eight
            %own = lane_index : lanes<i64>
            %at = add %row, %own""" + PLACES + """
            %on = and %c, %there
            store %p, %x, %on
            yield
          } { yield }
          %others = not %c"""),
    "each a tape of its own: one lane after the other": (
        TAPE + """%c = less %i, %two
          %u = if %c : ptr<f32, tape> { %k = tape_copy %t  yield %k } { yield %t }
          tape_store %u, %j, %x""", TAPE + """
          %limit = const 2 : lanes<u32>
          %c = less %i, %limit
          %bits = lane_bits %c : u64
          %none = const 0 : u64
          %some = not_equal %bits, %none
          %k = if %some : lanes<ptr<f32, tape>> {
            %copy = tape_copy %t
            %copies = splat %copy : lanes<ptr<f32, tape>>
            yield %copies
          } { %null = zero : lanes<ptr<f32, tape>>  yield %null }
          %others = not %c
          %same = splat %t : lanes<ptr<f32, tape>>
          %u = select %c, %k, %same
          %on = const 255 : u64
          %end = while %on : u64 (%a: u64) { %more = not_equal %a, %none  yield %more } (%b: u64) {
            %l = trailing_zeros %b
            %tape = lane_get %u, %l : ptr<f32, tape>
            %v = lane_get %x, %l : f32
            %row = tape_address %tape, %j {write=true} : ptr<f32, local>
            %p = offset %row, %l
            store %p, %v
            %o = const 1 : u64
            %less = sub %b, %o
            %rest = and %b, %less
            yield %rest
          }"""),
    "a variable is one piece of memory, with a place for each": (
        "%v = variable : ptr<f32, local>  store %v, %x  %o = load %v : f32", """
          %v = alloc {count=8} : ptr<f32, local>
          %size = const 4 : i64
          store %v, %x
          %o = load %v : lanes<f32>"""),
}
# fmt: on


@pytest.mark.parametrize("body, wanted", CASES.values(), ids=CASES)
def test_memory_of_lanes(body, wanted):
    assert_becomes(
        lambda kernel: widen(kernel, 8, entire=True).full, BEFORE.format(body=body), AFTER.format(body=wanted)
    )
