"""How aggregates come apart: vectors, control flow, memory, nested arrays."""

import pytest

from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.leaves import leaf_names, leaf_types
from slangrad.ir.data import types as t
from slangrad.ir.text.printer import print_function
from slangrad.opt.simplify.dead import remove_dead
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function


def flatten(function):
    return remove_dead(flatten_aggregates(function))


def test_leaves():
    inner = t.struct("Inner", (("v", t.vector(t.F32, 2)), ("n", t.array(t.I32, 4))))
    assert leaf_types(inner) == (t.F32, t.F32, t.array(t.I32, 4))
    assert leaf_names(inner) == ("_v_x", "_v_y", "_n")
    assert leaf_types(t.array(inner, 8)) == (t.array(t.F32, 8), t.array(t.F32, 8), t.array(t.I32, 32))
    assert leaf_types(t.array(inner, None)) == (t.array(t.F32, None),) * 2 + (t.array(t.I32, None),)
    tape = t.array(t.F32, None)
    assert leaf_types(t.array(t.array(tape, 3), 2)) == (t.array(tape, 6),)
    assert leaf_types(t.array(t.array(t.array(t.F32, 3), None), None)) == (t.array(tape, None),)


def test_vectors_in_memory_and_control_flow():
    before = """
    func @f(%p: ptr<f32x2, global>, %n: i32, %s: f32) -> () {
      %v = load %p : f32x2
      %k = splat %s : f32x2
      %r = for %n, %v : f32x2 (%i: i32, %a: f32x2) {
        %m = mul %a, %k
        yield %m
      }
      store %p, %r
      yield
    }"""
    after = """
    func @f(%p: ptr<f32x2, global>, %n: i32, %s: f32) -> () {
      %px = member %p {index=0}
      %v_x = load %px : f32
      %py = member %p {index=1}
      %v_y = load %py : f32
      %r_x, %r_y = for %n, %v_x, %v_y : f32, f32 (%i: i32, %a_x: f32, %a_y: f32) {
        %m_x = mul %a_x, %s
        %m_y = mul %a_y, %s
        yield %m_x, %m_y
      }
      store %px, %r_x
      store %py, %r_y
      yield
    }"""
    assert_becomes(flatten, before, after)


def test_dynamic_components_are_chosen():
    before = """
    func @f(%x: f32, %y: f32, %i: i32) -> (f32) {
      %v = make %x, %y : f32x2
      %e = index %v, %i {check=true}
      yield %e
    }"""
    after = """
    func @f(%x: f32, %y: f32, %i: i32) -> (f32) {
      %two = const 2 : u32
      %in = in_bounds %i, %two
      %none = const 0.0 : f32
      %at = convert %i : u32
      %zero = const 0 : u32
      %c0 = equal %at, %zero
      %e0 = select %c0, %x, %none
      %one = const 1 : u32
      %c1 = equal %at, %one
      %e = select %c1, %y, %e0
      yield %e
    }"""
    assert_becomes(flatten, before, after)


NESTED = """
func @f(%i: i32, %k: i32, %v: f32) -> (f32) {
  %n = const 8 : i32
  %a = zero : [8 x [4 x f32]]
  %r = for %n, %a : [8 x [4 x f32]] (%j: i32, %b: [8 x [4 x f32]]) {
    %row = index %b, %j
    %x = index %row, %k
    %y = add %x, %v
    %changed = set_index %row, %k, %y
    %c = set_index %b, %j, %changed
    yield %c
  }
  %row2 = index %r, %i
  %e = index %row2, %k
  yield %e
}"""


def test_an_element_of_a_row_is_read_and_written_alone():
    text = print_function(flatten(parse_function(NESTED)))
    assert text.count("set_index") == 1 and text.count(" = index") == 2
    assert text.count("for ") == 1
    assert "[32 x f32]" in text


def test_proven_indices_are_not_checked():
    text = """
    func @f(%i: i32, %v: f32) -> (f32) {
      %n = const 4 : i32
      %z = const 0.0 : f32
      %three = const 3 : i32
      %a = splat %v : [4 x f32]
      %s = for %n, %z : f32 (%j: i32, %q: f32) {
        %x = index %a, %j {check=true}
        %m = and %i, %three
        %y = index %a, %m {check=true}
        %u = add %x, %y
        %t = add %q, %u
        yield %t
      }
      yield %s
    }"""
    assert "in_bounds" not in print_function(flatten(parse_function(text)))


MIXED = [("i32", "i32", "i64"), ("u32", "i32", "i64"), ("i32", "u64", "u64"), ("u64", "u64", "u64")]


@pytest.mark.parametrize(("i", "n", "wide"), MIXED)
def test_checks_of_buffers_are_comparisons_when_reports_are_off(i, n, wide):
    text = f"func @f(%i: {i}, %n: {n}) -> (bool) {{ %c = in_bounds %i, %n yield %c }}"
    assert "in_bounds" in print_function(flatten_aggregates(parse_function(text)))
    plain = print_function(flatten_aggregates(parse_function(text), bounds_checks=False))
    assert "in_bounds" not in plain and wide in plain


def test_long_arrays_are_copied_by_loops():
    text = """
    struct "S" { x: f32, a: [100 x i32] }
    func @f(%p: ptr<struct "S", global>, %q: ptr<struct "S", global>) -> () {
      %s = load %p : struct "S"
      store %q, %s
      yield
    }"""
    flat = flatten(parse_function(text))
    assert [op.name for op in flat.region.ops if op.name == "for"] == ["for", "for"]
    assert len(flat.region.ops) < 16


def test_functions_take_and_return_the_parts_of_aggregates():
    flat = flatten_aggregates(parse_function("func @f(%v: f32x2, inout %n: i32) -> (f32x2) { yield %v, %n }"))
    assert [str(p.type) for p in flat.inputs] == ["f32", "f32", "i32"]
    assert [str(t) for t in flat.result_types] == ["f32", "f32", "i32"]
    assert flat.region.yields == flat.region.parameters
