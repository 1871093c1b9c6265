"""Unrolling: marked loops, small ones, limits."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Limits
from slangrad.ir.ops.core import walk
from slangrad.opt.simplify.unroll import unroll
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function

LOOP = """
func @f(%x: f32, %y: f32) -> (f32) {
  %n = const COUNT : i32
  %s = for %n, %x ATTRIBUTES : f32 (%i: i32, %a: f32) {
    %k = convert %i : f32
    %t = mul %a, %y
    %u = add %t, %k
    yield %u
  }
  yield %s
}"""


def loop(count, attributes=""):
    return LOOP.replace("COUNT", str(count)).replace("ATTRIBUTES", attributes)


def loops(function):
    return sum(op.name == "for" for op in walk(function.region))


def test_indices_become_constants():
    after = """
    func @f(%x: f32, %y: f32) -> (f32) {
      %n = const 2 : i32
      %one = const 1 : i32
      %k1 = const 1.0 : f32
      %t = mul %x, %y
      %u = add %t, %k1
      %zero = const 0 : i32
      %k0 = const 0.0 : f32
      %t2 = mul %u, %y
      %u2 = add %t2, %k0
      yield %u2
    }"""
    assert loops(unroll(parse_function(loop(2, "{reverse=true}")))) == 0
    reverse = unroll(parse_function(loop(2, "{reverse=true}")))
    assert [op.name for op in reverse.region.ops] == [op.name for op in parse_function(after).region.ops]


def test_small_loops_only():
    assert loops(unroll(parse_function(loop(40)))) == 0
    assert loops(unroll(parse_function(loop(50)))) == 1
    assert loops(unroll(parse_function(loop(50, "{unroll=true}")))) == 0


def test_too_long():
    with pytest.raises(CompileError, match="a loop of 5000 iterations is too long"):
        unroll(parse_function(loop(5000, "{unroll=true}")))
    with pytest.raises(CompileError, match="a loop of 11 iterations"):
        unroll(parse_function(loop(11, "{unroll=true}")), Limits(unroll_iterations=10))


def test_nested_loops_are_counted_as_unrolled():
    text = """
    func @f(%x: f32) -> (f32) {
      %n = const 8 : i32
      %r = for %n, %x : f32 (%i: i32, %a: f32) {
        %q = for %n, %a : f32 (%j: i32, %b: f32) {
          %s = mul %b, %b
          %t = add %s, %x
          yield %t
        }
        yield %q
      }
      yield %r
    }"""
    function = unroll(parse_function(text))
    assert loops(function) == 1


def test_a_marked_loop_without_a_constant_count_stays():
    text = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %s = for %n, %x {unroll=true} : f32 (%i: i32, %a: f32) { %t = mul %a, %x yield %t }
      yield %s
    }"""
    assert_becomes(unroll, text, text)
