"""Decided control flow disappears; results that need no branch leave it."""

from slangrad.opt.simplify.branches import simplify_branches
from slangrad.opt.simplify.dead import remove_dead
from tests.ir.golden import assert_becomes


def test_constant_condition():
    before = """
    func @f(%x: f32) -> (f32) {
      %c = const false : bool
      %y = if %c : f32 { %a = sqrt %x yield %a } { %b = neg %x yield %b }
      yield %y
    }"""
    after = "func @f(%x: f32) -> (f32) { %c = const false : bool %b = neg %x yield %b }"
    assert_becomes(simplify_branches, before, after)


def test_the_condition_is_known_in_its_arms():
    before = """
    func @f(%c: bool, %d: bool, %x: f32) -> (f32) {
      %both = and %c, %d
      %y = if %both : f32 {
        %inner = if %d : f32 { %s = sqrt %x yield %s } { yield %x }
        yield %inner
      } {
        %n = not %both
        %other = if %n : f32 { yield %x } { %t = sqrt %x yield %t }
        yield %other
      }
      yield %y
    }"""
    after = """
    func @f(%c: bool, %d: bool, %x: f32) -> (f32) {
      %both = and %c, %d
      %y = if %both : f32 { %s = sqrt %x yield %s } { yield %x }
      yield %y
    }"""
    assert_becomes(lambda f: remove_dead(simplify_branches(f)), before, after)


def test_truth_values_are_the_condition():
    before = """
    func @f(%c: bool, %x: bool, %z: f32, out %q: bool, out %r: bool, out %s: bool, out %t: f32) -> (bool) {
      %yes = const true : bool
      %no = const false : bool
      %one = const 1.0 : f32
      %a, %b, %d, %e, %g = if %c : bool, bool, bool, bool, f32 {
        yield %yes, %no, %yes, %x, %one
      } {
        yield %no, %yes, %x, %no, %one
      }
      yield %a, %b, %d, %e, %g
    }"""
    after = """
    func @f(%c: bool, %x: bool, %z: f32, out %q: bool, out %r: bool, out %s: bool, out %t: f32) -> (bool) {
      %yes = const true : bool
      %no = const false : bool
      %one = const 1.0 : f32
      %b = not %c
      %d = or %c, %x
      %e = and %c, %x
      yield %c, %b, %d, %e, %one
    }"""
    assert_becomes(simplify_branches, before, after)


def test_loops_that_turn_once_or_never():
    before = """
    func @f(%x: f32, %p: ptr<i32, global>) -> (f32) {
      %one = const 1 : i32
      %zero = const 0 : i32
      %y = for %one, %x : f32 (%i: i32, %a: f32) { store %p, %i %s = sqrt %a yield %s }
      %z = for %zero, %y : f32 (%j: i32, %b: f32) { %t = neg %b yield %t }
      yield %z
    }"""
    after = """
    func @f(%x: f32, %p: ptr<i32, global>) -> (f32) {
      %one = const 1 : i32
      %zero = const 0 : i32
      store %p, %zero
      %s = sqrt %x
      yield %s
    }"""
    assert_becomes(simplify_branches, before, after)


def test_a_while_that_never_turns():
    before = """
    func @f(%x: i32) -> (i32) {
      %y = while %x : i32 (%a: i32) { %c = less %a, %a yield %c } (%b: i32) { %d = neg %b yield %d }
      %zero = const 0 : i32
      %one = const 1 : i32
      %z = while %one : i32 (%a2: i32) { %c2 = less %a2, %zero yield %c2 } (%b2: i32) { yield %b2 }
      yield %z
    }"""
    after = """
    func @f(%x: i32) -> (i32) {
      %y = while %x : i32 (%a: i32) { %c = less %a, %a yield %c } (%b: i32) { %d = neg %b yield %d }
      %zero = const 0 : i32
      %one = const 1 : i32
      yield %one
    }"""
    assert_becomes(simplify_branches, before, after)


def test_carried_values_that_stay_or_are_carried_twice():
    before = """
    func @f(%n: i32, %x: f32, out %r: f32, out %s: f32) -> (f32) {
      %a, %b, %c = for %n, %x, %x, %x : f32, f32, f32 (%i: i32, %p: f32, %q: f32, %k: f32) {
        %t = mul %p, %q
        %u = mul %t, %k
        yield %u, %u, %k
      }
      yield %a, %b, %c
    }"""
    after = """
    func @f(%n: i32, %x: f32, out %r: f32, out %s: f32) -> (f32) {
      %a = for %n, %x : f32 (%i: i32, %p: f32) {
        %t = mul %p, %p
        %u = mul %t, %x
        yield %u
      }
      yield %a, %a, %x
    }"""
    assert_becomes(simplify_branches, before, after)
