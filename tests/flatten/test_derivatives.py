"""Flattened derivatives: the same numbers, rows of arrays changed in place, tapes never copied."""

import random

import pytest

from slangrad.autodiff.requests import differentiate
from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.small_arrays import split_small_arrays
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Program, walk
from slangrad.ir.text.verify import FLAT, verify
from slangrad.opt.calls.inline import inline, inline_into
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.products import settle_products
from tests.autodiff.calculus import request
from tests.ir.outcomes import KERNEL, assert_same, kernel_of, kernel_outcome
from tests.ir.parse_text import parse_program

PROGRAMS = {
    "nested loops": """
func @main(%x: f64, no_diff %n: i32) -> (f64) {
  %s = for %n, %x : f64 (%i: i32, %a: f64) {
    %q = for %i, %a : f64 (%j: i32, %b: f64) {
      %c = sin %b
      %d = mul %c, %x
      yield %d
    }
    yield %q
  }
  yield %s
}""",
    "a branch in a loop": """
func @main(%x: f64, no_diff %n: i32) -> (f64) {
  %one = const 1 : i32
  %s = for %n, %x : f64 (%i: i32, %a: f64) {
    %odd = and %i, %one
    %c = equal %odd, %one
    %r = if %c : f64 {
      %u = sin %a
      yield %u
    } {
      %v = mul %a, %a
      yield %v
    }
    yield %r
  }
  yield %s
}""",
    "rows": """
func @main(%x: [4 x [4 x f64]], no_diff %n: i32) -> ([4 x [4 x f64]]) {
  %three = const 3 : i32
  %s = for %n, %x : [4 x [4 x f64]] (%i: i32, %a: [4 x [4 x f64]]) {
    %k = and %i, %three
    %row = index %a, %k
    %v = index %row, %i
    %w = mul %v, %v
    %changed = set_index %row, %i, %w
    %r = set_index %a, %k, %changed
    yield %r
  }
  yield %s
}""",
}


def datum(rng, type):
    if type is t.I32:
        return rng.randint(0, 6)
    return (
        rng.uniform(-1, 1) if isinstance(type, t.Scalar) else tuple(datum(rng, c) for c in t.components(type))
    )


def flat_kernel(name, order):
    """The kernel before and after flattening, and the function that it runs."""
    program, asked = parse_program(PROGRAMS[name]), "main"
    for _ in range(order):
        program, asked = request(program, asked, "vjp")
    asking = kernel_of(program, asked)
    made = inline(differentiate(asking, inline_into).program, everything=True).functions[KERNEL]
    made = settle_products(made)
    flat = flatten_arrays(split_small_arrays(remove_dead(flatten_aggregates(remove_dead(made)))))
    before, after = (Program({KERNEL: f}, {}, asking.arguments) for f in (made, flat))
    return before, after, program.functions[asked]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_reverse_mode(name, order):
    before, after, function = flat_kernel(name, order)
    verify(after, FLAT)
    rng = random.Random(order)
    inputs = [[datum(rng, p.type) for p in function.inputs] for _ in range(4)]
    assert_same(kernel_outcome(before, function, inputs), kernel_outcome(after, function, inputs))
    assert all(op.name != "tape_copy" for op in walk(after.functions[KERNEL].region))


def test_cotangents_of_rows_are_changed_in_place():
    """One slot for the array and one for its cotangent."""
    _, after, _ = flat_kernel("rows", 1)
    assert [op.name for op in walk(after.functions[KERNEL].region)].count("alloc") == 2
