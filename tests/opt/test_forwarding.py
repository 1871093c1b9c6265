"""Loads of what is known, and what makes it unknown."""

from slangrad.opt.simplify.forwarding import forward_loads
from tests.ir.golden import assert_becomes


def test_stores_to_other_elements_change_nothing():
    before = """
    func @f(%x: f32, %y: f32, %i: i32) -> (f32) {
      %one = const 1 : i32
      %a = alloc {count=4} : ptr<f32, local>
      %b = alloc {count=4} : ptr<f32, local>
      %p = offset %a, %one
      %q = offset %a, %i
      %r = offset %b, %i
      store %a, %x
      store %p, %y
      store %r, %y
      %l0 = load %a : f32
      %l1 = load %p : f32
      %s = add %l0, %l1
      store %q, %s
      %l2 = load %a : f32
      %l3 = load %q : f32
      %l4 = load %r : f32
      %t = add %l2, %l3
      %u = add %t, %l4
      yield %u
    }"""
    after = """
    func @f(%x: f32, %y: f32, %i: i32) -> (f32) {
      %one = const 1 : i32
      %a = alloc {count=4} : ptr<f32, local>
      %b = alloc {count=4} : ptr<f32, local>
      %p = offset %a, %one
      %q = offset %a, %i
      %r = offset %b, %i
      store %a, %x
      store %p, %y
      store %r, %y
      %s = add %x, %y
      store %q, %s
      %l2 = load %a : f32
      %t = add %l2, %s
      %u = add %t, %y
      yield %u
    }"""
    assert_becomes(forward_loads, before, after)


def test_other_memory_may_overlap():
    text = """
    func @f(%p: ptr<f32, global>, %q: ptr<f32, global>, %x: f32) -> (f32) {
      store %p, %x
      store %q, %x
      %y = load %p : f32
      yield %y
    }"""
    assert_becomes(forward_loads, text, text)
    before = """
    func @f(%p: ptr<f32, global>, %x: f32) -> (f32) {
      %l = alloc : ptr<f32, local>
      %y = load %p : f32
      store %l, %y
      %z = load %p : f32
      %s = add %y, %z
      yield %s
    }"""
    after = """
    func @f(%p: ptr<f32, global>, %x: f32) -> (f32) {
      %l = alloc : ptr<f32, local>
      %y = load %p : f32
      store %l, %y
      %s = add %y, %y
      yield %s
    }"""
    assert_becomes(forward_loads, before, after)


def test_regions():
    before = """
    func @f(%c: bool, %n: i32, %x: f32) -> (f32) {
      %a = alloc : ptr<f32, local>
      %b = alloc : ptr<f32, local>
      store %a, %x
      store %b, %x
      %y = if %c : f32 { %l = load %a : f32 store %b, %l yield %l } { %m = load %b : f32 yield %m }
      %u = load %a : f32
      %v = load %b : f32
      for %n (%i: i32) { %k = load %a : f32 %h = load %b : f32 %g = add %h, %k store %a, %g yield }
      %w = load %b : f32
      %z = load %a : f32
      %s = add %u, %v
      %t = add %w, %z
      %r = add %s, %t
      yield %r
    }"""
    after = """
    func @f(%c: bool, %n: i32, %x: f32) -> (f32) {
      %a = alloc : ptr<f32, local>
      %b = alloc : ptr<f32, local>
      store %a, %x
      store %b, %x
      %y = if %c : f32 { store %b, %x yield %x } { yield %x }
      %v = load %b : f32
      for %n (%i: i32) { %k = load %a : f32 %g = add %v, %k store %a, %g yield }
      %z = load %a : f32
      %s = add %x, %v
      %t = add %v, %z
      %r = add %s, %t
      yield %r
    }"""
    assert_becomes(forward_loads, before, after)


def test_memory_whose_address_goes_elsewhere():
    text = """
    func @f(%c: bool, %q: ptr<f32, local>, %x: f32, %y: f32) -> (f32) {
      %a = alloc : ptr<f32, local>
      store %a, %x
      %p = select %c, %a, %q
      store %p, %y
      %z = load %a : f32
      yield %z
    }"""
    assert_becomes(forward_loads, text, text)


def test_what_is_loaded_in_an_arm_is_not_known_after_it():
    text = """
    func @f(%c: bool, %p: ptr<f32, global>) -> (f32) {
      %z = const 0.0 : f32
      %x = if %c : f32 { %l = load %p : f32 yield %l } { yield %z }
      %m = load %p : f32
      %s = add %x, %m
      yield %s
    }"""
    assert_becomes(forward_loads, text, text)
