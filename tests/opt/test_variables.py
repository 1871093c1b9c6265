"""Variables that become values, and those whose address goes where it cannot be followed."""

import pytest

from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.variables import settle_variables
from tests.ir.golden import assert_becomes

BRANCHES = [(True, 1.5), (False, 1.5)]
LOOPS = [(0, 1.5), (3, 1.5)]

# fmt: off
BECOMES = {
    "one after the other": (
        """
        func @f(%a: f32) -> (f32) {
          %x = variable : ptr<f32, local>
          store %x, %a
          %v = load %x : f32
          %y = mul %v, %v
          store %x, %y
          %z = load %x : f32
          yield %z
        }""", """
        func @f(%a: f32) -> (f32) { %y = mul %a, %a yield %y }""", [(1.5,)]),
    "written in a loop in an arm": (
        """
        func @f(%c: bool, %a: f32) -> (f32) {
          %n = const 2 : i32
          %x = variable : ptr<f32, local>
          store %x, %a
          if %c {
            for %n (%i: i32) {
              %y = variable : ptr<f32, local>
              %v = load %x : f32
              store %y, %v
              %w = load %y : f32
              %t = add %w, %w
              store %x, %t
              yield
            }
            yield
          } { yield }
          %z = load %x : f32
          yield %z
        }""", """
        func @f(%c: bool, %a: f32) -> (f32) {
          %n = const 2 : i32
          %z = if %c : f32 {
            %x = for %n, %a : f32 (%i: i32, %v: f32) { %t = add %v, %v yield %t }
            yield %x
          } { yield %a }
          yield %z
        }""", BRANCHES),
    "tested by a loop": (
        """
        func @f(%n: i32) -> (i32) {
          %one = const 1 : i32
          %zero = const 0 : i32
          %x = variable : ptr<i32, local>
          store %x, %n
          while { %u = load %x : i32 %c = less %zero, %u yield %c } {
            %v = load %x : i32
            %w = sub %v, %one
            store %x, %w
            yield
          }
          %y = load %x : i32
          yield %y
        }""", """
        func @f(%n: i32) -> (i32) {
          %one = const 1 : i32
          %zero = const 0 : i32
          %y = while %n : i32 (%u: i32) { %c = less %zero, %u yield %c } (%v: i32) { %w = sub %v, %one yield %w }
          yield %y
        }""", [(-1,), (0,), (4,)]),
    "an element at an unknown place may be the known one": (
        """
        func @f(%i: i32, %a: f32, %b: f32) -> (f32) {
          %two = const 2 : i32
          %x = variable : ptr<[4 x f32], local>
          %first = bitcast %x : ptr<f32, local>
          %p = offset %first, %i
          %q = offset %first, %two
          store %q, %a
          store %p, %b
          %y = load %q : f32
          yield %y
        }""", """
        func @f(%i: i32, %a: f32, %b: f32) -> (f32) {
          %x = zero : [4 x f32]
          %q = set %x, %a {index=2}
          %p = set_index %q, %i, %b {check=true}
          %y = get %p {index=2}
          yield %y
        }""", [(2, 1.5, 2.5), (3, 1.5, 2.5)]),
    "the value of a struct": (
        """
        struct "S" { a: f32, b: f32 }
        func @f(%a: f32) -> (f32) {
          %x = variable : ptr<struct "S", local>
          %p = member %x {index=1}
          store %p, %a
          %s = load %x : struct "S"
          %r = get %s {index=1}
          yield %r
        }""", """
        func @f(%a: f32) -> (f32) { yield %a }""", [(1.5,)]),
    "one of two": (
        """
        func @f(%c: bool, %a: f32) -> (f32) {
          %x = variable : ptr<f32, local>
          %y = variable : ptr<f32, local>
          store %x, %a
          store %y, %a
          %p = if %c : ptr<f32, local> { yield %x } { yield %y }
          %b = add %a, %a
          store %p, %b
          %v = load %x : f32
          yield %v
        }""", """
        func @f(%c: bool, %a: f32) -> (f32) {
          %b = add %a, %a
          %v = select %c, %b, %a
          yield %v
        }""", BRANCHES),
}

STAYS = {
    "its address is a number": ("""
        func @f(%a: f32) -> (f32) {
          %x = variable : ptr<f32, local>
          store %x, %a
          %k = bitcast %x : u64
          %one = const 1 : u64
          %l = add %k, %one
          %m = sub %l, %one
          %p = bitcast %m : ptr<f32, local>
          %y = load %p : f32
          yield %y
        }""", [(1.5,)]),
    "a loop moves it on": ("""
        func @f(%n: i32, %a: f32) -> (f32) {
          %one = const 1 : i32
          %x = variable : ptr<[4 x f32], local>
          %z = zero : [4 x f32]
          store %x, %z
          %first = bitcast %x : ptr<f32, local>
          store %first, %a
          %p = for %n, %first : ptr<f32, local> (%i: i32, %q: ptr<f32, local>) { %r = offset %q, %one yield %r }
          %y = load %p : f32
          yield %y
        }""", LOOPS),
    "seen as another type": ("""
        func @f(%a: f32) -> (u32) {
          %x = variable : ptr<f32, local>
          store %x, %a
          %p = bitcast %x : ptr<u32, local>
          %y = load %p : u32
          yield %y
        }""", [(1.5,)]),
    "an offset beyond it": ("""
        func @f(%a: f32) -> (f32) {
          %one = const 1 : i32
          %x = variable : ptr<f32, local>
          %p = offset %x, %one
          store %x, %a
          %z = load %p : f32
          %y = load %x : f32
          yield %y
        }""", [(1.5,)]),
    "an index that may lead to the next row": ("""
        func @f(%i: i32, %a: f32) -> (f32) {
          %x = variable : ptr<[2 x [2 x f32]], local>
          %r = bitcast %x : ptr<[2 x f32], local>
          %first = bitcast %r : ptr<f32, local>
          %p = offset %first, %i
          store %first, %a
          store %p, %a
          %y = load %first : f32
          yield %y
        }""", [(0, 1.5), (3, 1.5)]),
    "it, or memory of others": ("""
        func @f(%c: bool, %q: ptr<f32, local>, %a: f32) -> (f32) {
          %x = variable : ptr<f32, local>
          store %x, %a
          %p = select %c, %x, %q
          %y = load %p : f32
          yield %y
        }""", [(True, [2.0], 1.5), (False, [2.0], 1.5)]),
    "an atomic changes it": ("""
        func @f(%a: f32) -> (f32) {
          %x = variable : ptr<f32, local>
          store %x, %a
          %o = atomic %x, %a {kind="add"} : f32
          %y = load %x : f32
          yield %y
        }""", [(1.5,)]),
    "it leaves": ("""
        func @f(%a: f32) -> (ptr<f32, local>) {
          %x = variable : ptr<f32, local>
          store %x, %a
          yield %x
        }""", []),
}
# fmt: on


def settled(function):
    return remove_dead(settle_variables(function))


@pytest.mark.parametrize("before, after, inputs", BECOMES.values(), ids=BECOMES)
def test_variables_become_values(before, after, inputs):
    assert_becomes(settled, before, after, inputs)


@pytest.mark.parametrize("text, inputs", STAYS.values(), ids=STAYS)
def test_variables_whose_address_is_lost_stay(text, inputs):
    assert_becomes(settle_variables, text, text, inputs)


def test_a_variable_of_which_the_address_alone_is_used():
    before = """
    func @f(%a: f32) -> (f32) {
      %x = variable : ptr<f32, local>
      %y = variable : ptr<f32, local>
      store %x, %a
      %k = bitcast %x : u64
      %l = bitcast %y : u64
      %e = equal %k, %l
      %v = load %x : f32
      %r = select %e, %a, %v
      yield %r
    }"""
    assert_becomes(settled, before, "func @f(%a: f32) -> (f32) { yield %a }", [(1.5,)])


def test_a_pointer_in_a_variable_is_followed_once_that_variable_is_a_value():
    before = """
    func @f(%a: f32) -> (f32) {
      %x = variable : ptr<f32, local>
      %at = variable : ptr<ptr<f32, local>, local>
      store %at, %x
      %p = load %at : ptr<f32, local>
      store %p, %a
      %y = load %x : f32
      yield %y
    }"""
    assert_becomes(settled, before, "func @f(%a: f32) -> (f32) { yield %a }", [(1.5,)])
