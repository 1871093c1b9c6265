"""Halves as floats: rounded once by each operation, in local arrays too; memory and other ops keep halves."""

from slangrad.flatten.halves import halves_as_floats
from slangrad.ir.ops.core import walk
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function


def test_a_result_goes_to_half_and_back_once():
    before = """
    func @f(%p: ptr<f16, global>) -> () {
      %x = load %p : f16
      %y = mul %x, %x
      %z = abs %y
      %w = add %z, %x
      store %p, %w
      yield
    }"""
    after = """
    func @f(%p: ptr<f16, global>) -> () {
      %x.h = load %p : f16
      %x = convert %x.h : f32
      %y.f = mul %x, %x
      %y.h = convert %y.f : f16
      %y = convert %y.h : f32
      %z = abs %y
      %w.f = add %z, %x
      %w.h = convert %w.f : f16
      %w = convert %w.h : f32
      store %p, %w.h
      yield
    }"""
    assert_becomes(halves_as_floats, before, after)


def test_loops_carry_floats_and_local_arrays_hold_them():
    before = """
    func @f(%p: ptr<f16, global>, %n: i32) -> () {
      %a = alloc {count=8, zero=true} : ptr<f16, local>
      %x = load %p : f16
      %s = for %n, %x : f16 (%i: i32, %t: f16) {
        %at = offset %a, %i
        store %at, %t
        %u = load %at : f16
        yield %u
      }
      store %p, %s
      yield
    }"""
    after = """
    func @f(%p: ptr<f16, global>, %n: i32) -> () {
      %a = alloc {count=8, zero=true} : ptr<f32, local>
      %x.h = load %p : f16
      %x = convert %x.h : f32
      %s = for %n, %x : f32 (%i: i32, %t: f32) {
        %at = offset %a, %i
        store %at, %t
        %u = load %at : f32
        yield %u
      }
      %s.h = convert %s : f16
      store %p, %s.h
      yield
    }"""
    assert_becomes(halves_as_floats, before, after)


def test_an_array_whose_address_goes_elsewhere_keeps_halves():
    function = parse_function("""
    func @f(%p: ptr<f16, global>) -> () {
      %a = alloc {count=8, zero=true} : ptr<f16, local>
      %x = load %p : f16
      store %a, %x
      %n = bitcast %a : u64
      %q = bitcast %n : ptr<f16, local>
      %y = load %q : f16
      store %p, %y
      yield
    }""")
    types = [str(op.results[0].type) for op in walk(halves_as_floats(function).region) if op.name == "alloc"]
    assert types == ["ptr<f16, local>"]


def test_what_halves_do_not_take_part_in_stays_as_it_is():
    function = parse_function("func @f(%x: f32) -> (f32) { %y = mul %x, %x yield %y }")
    assert halves_as_floats(function) is function
