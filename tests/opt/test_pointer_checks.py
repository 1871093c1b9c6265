"""Checks of pointers in check mode: IR before and after, and the reports of the oracle."""

import pytest

from slangrad.ir.ops.core import Program, walk
from slangrad.ir.text.printer import print_program
from slangrad.opt.checks.pointer_checks import check_pointers
from tests.ir.golden import assert_becomes
from tests.ir.outcomes import outcome
from tests.ir.parse_text import parse_function, parse_program

ARGUMENTS = """
struct "Arguments" { p: ptr<f32, global>, p_bytes: u64 }
arguments struct "Arguments"
"""
PARAMETER = """
  %at = parameter {name="p"} : ptr<ptr<f32, global>, constant>
  %p = load %at : ptr<f32, global>
"""
SIZE = """
  %bytes_at = parameter {name="p_bytes"} : ptr<u64, constant>
  %bytes = load %bytes_at : u64
  %wide = convert %bytes : i64
  %three = const 3 : i64
  %room = sub %wide, %three
"""
VARIABLE = """
  func @f(%x: f32, %i: i32) -> (f32) {
    %v = variable : ptr<f32, local>
    store %v, %x
    %y = load %v : f32
    yield %y
  }"""


def with_pointers(function, by_hand=False):
    return check_pointers(
        parse_program(ARGUMENTS + print_program(Program({"f": function}))), function, by_hand
    )


def test_a_variable_is_there():
    assert_becomes(with_pointers, VARIABLE, VARIABLE, [(1.5, 0)])


def test_a_parameter_is_compared_with_its_size():
    before = f"""
    func @f(%i: i32) -> (f32) {{{PARAMETER}
      %q = offset %p, %i
      %x = load %q : f32
      yield %x
    }}"""
    after = f"""
    func @f(%i: i32) -> (f32) {{{PARAMETER}
      %q = offset %p, %i{SIZE}
      %to = bitcast %q : i64
      %from = bitcast %p : i64
      %distance = sub %to, %from
      %zero = const 0 : i64
      %extent = max %room, %zero
      %ok = in_bounds %distance, %extent {{text="pointer"}}
      %x = if %ok : f32 {{ %y = load %q : f32 yield %y }} {{ %o = const 0.0 : f32 yield %o }}
      yield %x
    }}"""
    assert_becomes(with_pointers, before, after)


def test_a_pointer_without_a_size_may_lead_to_any_memory_that_is_known():
    before = """
    func @f(%q: ptr<f32, global>, %x: f32) -> () { store %q, %x yield }"""
    after = """
    func @f(%q: ptr<f32, global>, %x: f32) -> () {
      %known = is_memory %q {bytes=4}
      %to = bitcast %q : i64
      %zero = const 0 : i64
      %index = select %known, %zero, %to
      %one = const 1 : i64
      %nowhere = const -1 : i64
      %extent = select %known, %one, %nowhere
      %ok = in_bounds %index, %extent {text="pointer"}
      if %ok { store %q, %x yield } { yield }
      yield
    }"""
    assert_becomes(lambda f: with_pointers(f, by_hand=True), before, after)


@pytest.mark.parametrize("i, value, reports", [(0, 1.5, 0), (3, 0.0, 0), (4, 0.0, 1), (-1, 0.0, 1)])
def test_a_variable_is_compared_with_its_size(i, value, reports):
    function = parse_function("""
    func @f(%i: i32, %x: f32) -> (f32) {
      %v = variable : ptr<[4 x f32], local>
      %z = zero : [4 x f32]
      store %v, %z
      %first = bitcast %v : ptr<f32, local>
      %p = offset %first, %i
      store %first, %x
      %y = load %p : f32
      yield %y
    }""")
    result = outcome(Program({"f": with_pointers(function)}), "f", (i, 1.5))
    assert (result.results, len(result.bounds)) == ((value,), reports)


def test_an_element_of_a_variable_begins_with_the_function_and_is_compared():
    before = """
    func @f(%i: i32, %c: bool) -> () {
      if %c {
        %v = variable : ptr<[4 x f32], local>
        %first = bitcast %v : ptr<f32, local>
        %q = offset %first, %i
        %x = const 1.5 : f32
        store %q, %x
        yield
      } { yield }
      yield
    }"""
    after = """
    func @f(%i: i32, %c: bool) -> () {
      %v = variable : ptr<[4 x f32], local>
      if %c {
        %first = bitcast %v : ptr<f32, local>
        %q = offset %first, %i
        %x = const 1.5 : f32
        %size = const 16 : i64
        %three = const 3 : i64
        %extent = const 13 : i64
        %to = bitcast %q : i64
        %from = bitcast %v : i64
        %distance = sub %to, %from
        %zero = const 0 : i64
        %ok = in_bounds %distance, %extent {text="pointer"}
        if %ok { store %q, %x yield } { yield }
        yield
      } { yield }
      yield
    }"""
    assert_becomes(with_pointers, before, after, [(2, True), (2, False)])


CHOSEN = """
    func @f(%c: bool, %x: f32) -> (f32) {
      %v = variable : ptr<f32, local>
      store %v, %x
      %g = bitcast %v : ptr<f32, global>
      %p = if %c : ptr<f32, global> { yield %g } { %o = zero : ptr<f32, global> yield %o }
      ACCESS
      yield %y
    }"""


def test_a_pointer_that_a_branch_chooses_may_lead_to_variables_too():
    after = """
      %known = is_memory %p {bytes=4}
      %four = const 4 : i64
      %three = const 3 : i64
      %one = const 1 : i64
      %to = bitcast %p : i64
      %from = bitcast %v : i64
      %distance = sub %to, %from
      %zero = const 0 : i64
      %after = less_equal %zero, %distance
      %before = less %distance, %one
      %inside = and %after, %before
      %ok = or %known, %inside
      %index = select %ok, %zero, %to
      %nowhere = const -1 : i64
      %extent = select %ok, %one, %nowhere
      %there = in_bounds %index, %extent {text="pointer"}
      %y = if %there : f32 { %k = load %p : f32 yield %k } { %z = const 0.0 : f32 yield %z }"""
    assert_becomes(
        lambda f: with_pointers(f, by_hand=True),
        CHOSEN.replace("ACCESS", "%y = load %p : f32"),
        CHOSEN.replace("ACCESS", after),
    )


def test_it_may_lead_to_parameters_with_sizes_too():
    checked = with_pointers(parse_function(CHOSEN.replace("ACCESS", "%y = load %p : f32")))
    names = [op.name for op in walk(checked.region)]
    assert [names.count(name) for name in ("is_memory", "or", "parameter", "in_bounds")] == [1, 2, 2, 1]
