"""Checks that passes put before accesses and behind numbers: of null, of pointers, of what is not finite."""

import math

import pytest

from slangrad.base.options import NOT_FINITE, POINTER
from slangrad.ir.ops.core import Program
from slangrad.ir.text.printer import print_program
from slangrad.opt.checks.finite_checks import check_finite
from slangrad.opt.checks.null_checks import check_null
from slangrad.opt.checks.pointer_checks import check_pointers
from tests.ir.golden import assert_becomes
from tests.ir.outcomes import Outcome, outcome
from tests.ir.parse_text import parse_function, parse_program

ARGUMENTS = """
struct "Arguments" { p: ptr<f32, global>, p_bytes: u64 }
arguments struct "Arguments"
"""
THERE = """
  %number = bitcast %p : u64
  %first = const 4096 : u64
  %from = sub %number, %first
  %far = const 9223372036854775807 : u64
  %there = in_bounds %from, %far {text="pointer"}
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

# fmt: off
NULL = {
    "two reads ask once": ("""
        func @f(%p: ptr<f32, global>, %i: i32) -> (f32) {
          %q = offset %p, %i
          %x = load %q : f32
          %y = load %p : f32
          %s = add %x, %y
          yield %s
        }""", """
        func @f(%p: ptr<f32, global>, %i: i32) -> (f32) {
          %q = offset %p, %i""" + THERE + """
          %x = if %there : f32 { %k = load %q : f32 yield %k } { %o = const 0.0 : f32 yield %o }
          %y = if %there : f32 { %l = load %p : f32 yield %l } { %o = const 0.0 : f32 yield %o }
          %s = add %x, %y
          yield %s
        }""", [([1.5, 2.5], 1)]),
    "what an arm has asked, the region around it has not": ("""
        func @f(%p: ptr<f32, global>, %c: bool, %x: f32) -> (f32) {
          if %c { store %p, %x yield } { yield }
          %z = load %p : f32
          yield %z
        }""", """
        func @f(%p: ptr<f32, global>, %c: bool, %x: f32) -> (f32) {
          if %c {""" + THERE + """ if %there { store %p, %x yield } { yield } yield } { yield }""" + THERE + """
          %z = if %there : f32 { %l = load %p : f32 yield %l } { %o = const 0.0 : f32 yield %o }
          yield %z
        }""", [([2.5], True, 1.5), ([2.5], False, 1.5)]),
    "a loop that moves on asks about where it began": ("""
        func @f(%p: ptr<f32, global>, %n: i32, %x: f32) -> (f32) {
          %one = const 1 : i32
          %s, %e = for %n, %x, %p : f32, ptr<f32, global> (%i: i32, %a: f32, %q: ptr<f32, global>) {
            %y = load %q : f32
            %b = add %a, %y
            %r = offset %q, %one
            yield %b, %r
          }
          yield %s
        }""", """
        func @f(%p: ptr<f32, global>, %n: i32, %x: f32) -> (f32) {
          %one = const 1 : i32
          %s, %e = for %n, %x, %p : f32, ptr<f32, global> (%i: i32, %a: f32, %q: ptr<f32, global>) {""" + THERE + """
            %y = if %there : f32 { %l = load %q : f32 yield %l } { %o = const 0.0 : f32 yield %o }
            %b = add %a, %y
            %r = offset %q, %one
            yield %b, %r
          }
          yield %s
        }""", [([1.5, 2.5], 2, 0.5), ([1.5], 0, 0.5)]),
    "the same for all threads: all that comes after": ("""
        func @f(%x: f32) -> () {""" + PARAMETER + """
          store %p, %x
          %i = thread_id {axis=0} : u32
          %q = offset %p, %i
          store %q, %x
          yield
        }""", """
        func @f(%x: f32) -> () {""" + PARAMETER + THERE + """
          if %there { store %p, %x %i = thread_id {axis=0} : u32 %q = offset %p, %i store %q, %x yield } { yield }
          yield
        }""", []),
    "not where threads wait for each other": ("""
        func @f(%x: f32) -> () {""" + PARAMETER + """
          store %p, %x
          barrier
          yield
        }""", """
        func @f(%x: f32) -> () {""" + PARAMETER + THERE + """
          if %there { store %p, %x yield } { yield }
          barrier
          yield
        }""", []),
}
OWN = """
  func @f(%x: f32, %i: i32) -> (f32) {
    %v = variable : ptr<f32, local>
    store %v, %x
    %y = load %v : f32
    yield %y
  }"""
# fmt: on


def without_null(function):
    return check_null(Program({"f": function}), function)


@pytest.mark.parametrize("before, after, inputs", NULL.values(), ids=NULL)
def test_null_is_asked_about(before, after, inputs):
    assert_becomes(without_null, before, after, inputs)


@pytest.mark.parametrize(
    "name, row, value, reports",
    [
        ("two reads ask once", (0, 1), 0.0, 1),
        ("a loop that moves on asks about where it began", (0, 2, 0.5), 0.5, 2),
    ],
)
def test_null_is_reported_and_not_followed(name, row, value, reports):
    changed = without_null(parse_function(NULL[name][0]))
    result = outcome(Program({"f": changed}), "f", row)
    assert result.results == (value,)
    assert result.bounds == [(2**64 - 4096, 2**63 - 1)] * reports


def with_pointers(function, by_hand=False):
    return check_pointers(
        parse_program(ARGUMENTS + print_program(Program({"f": function}))), function, by_hand
    )


def test_variables_are_there():
    assert_becomes(without_null, OWN, OWN)
    assert_becomes(with_pointers, OWN, OWN, [(1.5, 0)])


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


def finite(text: str, row) -> Outcome:
    return outcome(Program({"f": check_finite(parse_function(text))}), "f", row)


def test_what_is_not_finite_is_reported_where_it_arises():
    """The index is -1 - thread, the extent says which: 1 a NaN, 2 an infinity."""
    text = """
    func @f(%x: f32, %y: f32) -> (f32) {
      %r = div %x, %y
      %n = neg %r
      yield %n
    }"""
    for row, reports in {
        (1.0, 2.0): [],
        (1.0, 0.0): [(-1, 2)],
        (0.0, 0.0): [(-1, 1)],
        (-1.0, 0.0): [(-1, 2)],
    }.items():
        made = finite(text, row)
        assert made.bounds == reports, row
        assert str(made.results) == str(outcome(Program({"f": parse_function(text)}), "f", row).results)


def test_the_check_of_a_number():
    before = "func @f(%x: f64) -> (f64) { %r = exp %x yield %r }"
    after = """
    func @f(%x: f64) -> (f64) {
      %r = exp %x
      %size = abs %r
      %greatest = const 1.7976931348623157e308 : f64
      %fine = less_equal %size, %greatest
      %zero = const 0 : i64
      %tx = thread_id {axis=0} : u32
      %x64 = convert %tx : i64
      %mx = const 4294967295 : i64
      %ix = min %x64, %mx
      %one = const 1 : i64
      %ty = thread_id {axis=1} : u32
      %y64 = convert %ty : i64
      %my = const 65535 : i64
      %iy = min %y64, %my
      %sy = const 4294967296 : i64
      %py = mul %iy, %sy
      %xy = add %ix, %py
      %tz = thread_id {axis=2} : u32
      %z64 = convert %tz : i64
      %mz = const 32767 : i64
      %iz = min %z64, %mz
      %sz = const 281474976710656 : i64
      %pz = mul %iz, %sz
      %thread = add %xy, %pz
      %before = const -1 : i64
      %code = sub %before, %thread
      %index = select %fine, %zero, %code
      %is_number = equal %r, %r
      %two = const 2 : i64
      %which = select %is_number, %two, %one
      %ok = in_bounds %index, %which {text="not finite"}
      yield %r
    }"""
    assert_becomes(check_finite, before, after, [(1.5,), (math.inf,)])
    assert (NOT_FINITE, POINTER) == ("not finite", "pointer")  # as the texts here write them


@pytest.mark.parametrize(
    "text, row, reports",
    [
        ("func @f(%x: i32, %y: i32) -> (i32) { %r = mul %x, %y yield %r }", (2**31 - 1, 2), 0),
        ("func @f(%x: f32, %y: f32) -> (f32) { %r = max %x, %y yield %r }", (math.inf, 1.0), 0),
        ("func @f(%p: ptr<f32x2, global>) -> (f32x2) { %v = load %p : f32x2 yield %v }", ([(math.nan, math.inf)],), 2),
        ("func @f(%c: bool, %x: f32) -> (f32) { %y = if %c : f32 { %l = log %x yield %l } { yield %x } yield %y }",
         (False, 0.0), 0),
        ("func @f(%c: bool, %x: f32) -> (f32) { %y = if %c : f32 { %l = log %x yield %l } { yield %x } yield %y }",
         (True, 0.0), 1),
    ],
    ids=["integers wrap", "no op that only passes on", "each component", "an arm not taken", "an arm taken"],
)  # fmt: skip
def test_what_is_asked_whether_it_is_finite(text, row, reports):
    assert len(finite(text, row).bounds) == reports
