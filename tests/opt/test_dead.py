"""Dead code: pure ops, results and carried values, control flow, memory that is only written."""

from slangrad.opt.simplify.dead import remove_dead
from tests.ir.golden import assert_becomes


def test_pure_ops():
    before = "func @f(%x: f32) -> (f32) { %a = sqrt %x %b = neg %a %c = add %x, %x yield %c }"
    assert_becomes(remove_dead, before, "func @f(%x: f32) -> (f32) { %c = add %x, %x yield %c }")


def test_carried_values_that_only_feed_themselves():
    before = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %a, %b, %c = for %n, %x, %x, %n : f32, f32, i32 (%i: i32, %p: f32, %q: f32, %r: i32) {
        %p1 = add %p, %p
        %q1 = add %q, %p
        %r1 = add %r, %i
        yield %p1, %q1, %r1
      }
      yield %a
    }"""
    after = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %a = for %n, %x : f32 (%i: i32, %p: f32) {
        %p1 = add %p, %p
        yield %p1
      }
      yield %a
    }"""
    assert_becomes(remove_dead, before, after)


def test_carried_values_that_others_need_stay():
    text = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %a, %b = for %n, %x, %x : f32, f32 (%i: i32, %p: f32, %q: f32) {
        %p1 = add %p, %q
        %q1 = neg %q
        yield %p1, %q1
      }
      yield %a
    }"""
    assert_becomes(remove_dead, text, text)


def test_results_of_branches():
    before = """
    func @f(%c: bool, %x: f32) -> (f32) {
      %a, %b = if %c : f32, f32 { %s = sqrt %x %t = neg %x yield %s, %t } { yield %x, %x }
      if %c { %u = neg %x yield } { yield }
      yield %b
    }"""
    after = """
    func @f(%c: bool, %x: f32) -> (f32) {
      %b = if %c : f32 { %t = neg %x yield %t } { yield %x }
      yield %b
    }"""
    assert_becomes(remove_dead, before, after)


def test_loops_without_effects():
    before = """
    func @f(%n: i32, %p: ptr<i32, global>) -> () {
      %s = for %n, %n : i32 (%i: i32, %k: i32) { %k1 = add %k, %i yield %k1 }
      for %n (%j: i32) { store %p, %j yield }
      %w = while %n : i32 (%a: i32) { %z = const 0 : i32 %c = less %z, %a yield %c } (%b: i32) { yield %b }
      yield
    }"""
    after = """
    func @f(%n: i32, %p: ptr<i32, global>) -> () {
      for %n (%j: i32) { store %p, %j yield }
      %w = while %n : i32 (%a: i32) { %z = const 0 : i32 %c = less %z, %a yield %c } (%b: i32) { yield %b }
      yield
    }"""
    assert_becomes(remove_dead, before, after)


def test_tests_of_loops_keep_what_they_need():
    before = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %one = const 1 : i32
      %k, %y, %z = while %n, %x, %x : i32, f32, f32 (%a: i32, %b: f32, %c: f32) {
        %zero = const 0 : i32
        %go = less %zero, %a
        yield %go
      } (%d: i32, %e: f32, %g: f32) {
        %d1 = sub %d, %one
        %e1 = neg %e
        %g1 = sqrt %g
        yield %d1, %e1, %g1
      }
      yield %y
    }"""
    after = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %one = const 1 : i32
      %k, %y = while %n, %x : i32, f32 (%a: i32, %b: f32) {
        %zero = const 0 : i32
        %go = less %zero, %a
        yield %go
      } (%d: i32, %e: f32) {
        %d1 = sub %d, %one
        %e1 = neg %e
        yield %d1, %e1
      }
      yield %y
    }"""
    assert_becomes(remove_dead, before, after)


def test_memory_that_is_only_written():
    before = """
    func @f(%x: f32, %i: i32) -> (f32) {
      %a = alloc {count=4} : ptr<f32, local>
      %b = alloc {count=4} : ptr<f32, local>
      %t = tape_new : ptr<f32, tape>
      %p = offset %a, %i
      %q = offset %b, %i
      store %p, %x
      store %q, %x
      tape_add %t, %i, %x
      %y = load %p : f32
      %z = load %q : f32
      tape_store %t, %i, %z
      yield %y
    }"""
    after = """
    func @f(%x: f32, %i: i32) -> (f32) {
      %a = alloc {count=4} : ptr<f32, local>
      %p = offset %a, %i
      store %p, %x
      %y = load %p : f32
      yield %y
    }"""
    assert_becomes(remove_dead, before, after)


def test_memory_whose_address_goes_elsewhere_is_kept():
    text = """
    func @f(%x: f32, %c: bool, %q: ptr<f32, local>) -> (f32) {
      %a = alloc : ptr<f32, local>
      store %a, %x
      %p = select %c, %a, %q
      %y = load %p : f32
      yield %y
    }"""
    assert_becomes(remove_dead, text, text)


def test_a_copied_tape_is_read():
    text = """
    func @f(%x: f32, %i: i32) -> (f32) {
      %t = tape_new : ptr<f32, tape>
      tape_store %t, %i, %x
      %u = tape_copy %t
      %y = tape_load %u, %i
      yield %y
    }"""
    assert_becomes(remove_dead, text, text)


def test_of_a_write_that_nobody_reads_the_check_stays():
    before = """
    func @f(%c: bool, %n: i32, %i: i32, %x: f32) -> (f32) {
      %a = zero : [4 x f32]
      if %c {
        %y = sqrt %x
        %b = set_index %a, %i, %y {check=true}
        yield
      } { yield }
      yield %x
    }"""
    after = """
    func @f(%c: bool, %n: i32, %i: i32, %x: f32) -> (f32) {
      if %c {
        %e = const 4 : u32
        %b = in_bounds %i, %e
        yield
      } { yield }
      yield %x
    }"""
    assert_becomes(remove_dead, before, after)


def test_nothing_stays_of_a_write_that_is_surely_in_range():
    before = """
    func @f(%i: i32, %x: f32) -> (f32) {
      %a = zero : [4 x f32]
      %four = const 4 : i32
      %b = for %four, %a : [4 x f32] (%k: i32, %p: [4 x f32]) {
        %q = set_index %p, %k, %x {check=true}
        yield %q
      }
      %three = const 3 : i32
      %j = and %i, %three
      %c = set_index %b, %j, %x {check=true}
      %d = set_index %c, %i, %x
      yield %x
    }"""
    assert_becomes(remove_dead, before, "func @f(%i: i32, %x: f32) -> (f32) { yield %x }")
