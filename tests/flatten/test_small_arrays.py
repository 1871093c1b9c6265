"""Short arrays with constant indices are scalars; one dynamic index keeps a whole class of versions."""

from slangrad.flatten.small_arrays import split_small_arrays
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import walk
from slangrad.opt.simplify.dead import remove_dead
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function


def split(function):
    return remove_dead(split_small_arrays(function))


def arrays(text):
    values = [v for op in walk(split(parse_function(text)).region) for v in op.results]
    return sum(isinstance(v.type, t.Array) for v in values)


def test_through_a_loop():
    before = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %a = zero : [2 x f32]
      %b = set %a, %x {index=1}
      %r = for %n, %b : [2 x f32] (%i: i32, %p: [2 x f32]) {
        %y = get %p {index=0}
        %z = get %p {index=1}
        %q = make %z, %y : [2 x f32]
        yield %q
      }
      %e = get %r {index=0}
      yield %e
    }"""
    after = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %zero = const 0.0 : f32
      %r0, %r1 = for %n, %zero, %x : f32, f32 (%i: i32, %p0: f32, %p1: f32) {
        yield %p1, %p0
      }
      yield %r0
    }"""
    assert_becomes(split, before, after)


def test_one_dynamic_index_keeps_all_versions():
    text = """
    func @f(%i: u32, %c: bool, %x: f32) -> (f32) {
      %a = make %x, %x : [2 x f32]
      %r = if %c : [2 x f32] { yield %a } { %b = set %a, %x {index=1} yield %b }
      %e = index %r, %i
      yield %e
    }"""
    assert arrays(text) == 3


def test_a_zero_shared_with_a_dynamic_array_does_not_keep_another():
    text = """
    func @f(%i: u32, %x: f32) -> (f32) {
      %z = zero : [2 x f32]
      %a = set_index %z, %i, %x
      %b = set %z, %x {index=1}
      %u = index %a, %i
      %v = get %b {index=1}
      %e = add %u, %v
      yield %e
    }"""
    assert arrays(text) == 2


def test_a_carried_array_of_a_while():
    text = """
    func @f(%x: f32) -> (f32) {
      %a = make %x, %x : [2 x f32]
      %r = while %a : [2 x f32] (%p: [2 x f32]) {
        %u = get %p {index=0}
        %one = const 1.0 : f32
        %go = less %u, %one
        yield %go
      } (%q: [2 x f32]) {
        %v = get %q {index=0}
        %w = add %v, %one2
        %s = set %q, %w {index=0}
        yield %s
      }
      %e = get %r {index=1}
      yield %e
    }""".replace("%a = make", "%one2 = const 1.0 : f32\n      %a = make")
    assert arrays(text) == 0
