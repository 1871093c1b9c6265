"""Checks of null pointers: IR before and after, and the reports of the oracle."""

import pytest

from slangrad.ir.ops.core import Program
from slangrad.opt.checks.null_checks import check_null
from tests.ir.golden import assert_becomes, numbered
from tests.ir.outcomes import outcome
from tests.ir.parse_text import parse_function, parse_program

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
    "an atomic is dropped, and gives zero": ("""
        func @f(%p: ptr<i32, global>, %x: i32) -> (i32) {
          %old = atomic %p, %x {kind="add"} : i32
          yield %old
        }""", """
        func @f(%p: ptr<i32, global>, %x: i32) -> (i32) {""" + THERE + """
          %old = if %there : i32 { %k = atomic %p, %x {kind="add"} : i32 yield %k } { %o = const 0 : i32 yield %o }
          yield %old
        }""", [([5], 2)]),
}
# A variable, and memory of a group, are never null.
OWN = {
    "a variable": """
        func @f(%x: f32) -> (f32) { %v = variable : ptr<f32, local> store %v, %x %y = load %v : f32 yield %y }""",
    "memory of a group": """
        func @f(%x: f32) -> (f32) {
          %v = shared {name="v"} : ptr<f32, shared>
          store %v, %x
          %y = load %v : f32
          yield %y
        }""",
}
# fmt: on
LIBRARY = """
struct "Buffer" { data: ptr<f32, global> }
trusted struct "Buffer" (0)
func @f(%b: struct "Buffer", %i: i32) -> (f32) {
  %d = get %b {index=0}
  %q = offset %d, %i
  %x = load %q MARK : f32
  yield %x
}
"""


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


@pytest.mark.parametrize("text", OWN.values(), ids=OWN)
def test_own_memory_is_not_asked_about(text):
    assert_becomes(without_null, text, text)


def test_an_access_that_the_library_guarantees_loses_its_mark_and_gets_no_check():
    program = parse_program(LIBRARY.replace("MARK", "{trusted=true}"))
    checked = check_null(program, program.functions["f"])
    wanted = parse_program(LIBRARY.replace("MARK", "")).functions["f"]
    assert numbered(checked) == numbered(wanted)
