"""Maths primitives become library code: at their type, half through float, on what the arguments are there."""

from slangrad.flatten.math_functions import expand_math
from slangrad.ir.data import types as t
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function

LIBRARY = {
    ("sin", t.F32): parse_function("func @sin_f32(%x: f32) -> (f32) { %r = mul %x, %x yield %r }"),
    ("pow", t.F32): parse_function("func @pow_f32(%x: f32, %y: f32) -> (f32) { %r = sub %x, %y yield %r }"),
}


def expand(function):
    return expand_math(function, LIBRARY, {})


def test_bodies_take_the_place_of_primitives():
    before = """
    func @f(%x: f32, %n: i32) -> (f32) {
      %s = for %n, %x : f32 (%i: i32, %a: f32) { %b = sin %a %c = pow %b, %x yield %c }
      yield %s
    }"""
    after = """
    func @f(%x: f32, %n: i32) -> (f32) {
      %s = for %n, %x : f32 (%i: i32, %a: f32) { %b = mul %a, %a %c = sub %b, %x yield %c }
      yield %s
    }"""
    assert_becomes(expand, before, after)


def test_half_goes_through_float():
    before = "func @f(%x: f16) -> (f16) { %y = sin %x yield %y }"
    after = """
    func @f(%x: f16) -> (f16) {
      %w = convert %x : f32
      %r = mul %w, %w
      %y = convert %r : f16
      yield %y
    }"""
    assert_becomes(expand, before, after)


def test_constants_fold_to_the_library_s_value():
    before = "func @f() -> (f32) { %x = const 3.0 : f32 %y = sin %x yield %y }"
    after = "func @f() -> (f32) { %x = const 3.0 : f32 %y = const 9.0 : f32 yield %y }"
    assert_becomes(expand, before, after)
