"""Checks of numbers that are not finite: IR before and after, and the reports of the oracle."""

import math

import pytest

from slangrad.base.options import NOT_FINITE, POINTER
from slangrad.ir.ops.core import Program, walk
from slangrad.opt.checks.finite_checks import check_finite
from tests.ir.golden import assert_becomes
from tests.ir.outcomes import Outcome, outcome
from tests.ir.parse_text import parse_function, parse_program


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


UNCHECKED = {
    "integers": "func @f(%x: i32) -> (i32) { %r = mul %x, %x yield %r }",
    "comparisons": "func @f(%x: f32, %y: f32) -> (bool) { %r = less %x, %y yield %r }",
    "moves": "func @f(%c: bool, %x: f32, %y: f32) -> (f32) { %n = neg %x %r = select %c, %n, %y yield %r }",
    "long arrays": "func @f(%p: ptr<[17 x f32], global>) -> ([17 x f32]) { %r = load %p : [17 x f32] yield %r }",
    "stores": "func @f(%p: ptr<f32, global>, %x: f32) -> () { store %p, %x yield }",
}


@pytest.mark.parametrize("text", UNCHECKED.values(), ids=UNCHECKED)
def test_these_stay_as_they_are(text):
    assert_becomes(check_finite, text, text)


@pytest.mark.parametrize(
    "kind, greatest", [("f16", 65504.0), ("bf16", 3.3895313892515355e38), ("f32", 3.4028234663852886e38)]
)
def test_the_greatest_number_of_each_type_is_finite(kind, greatest):
    checked = check_finite(
        parse_function(f"func @f(%p: ptr<{kind}, global>) -> ({kind}) {{ %x = load %p : {kind} yield %x }}")
    )
    limits = [op.attributes["value"] for op in walk(checked.region) if op.name == "const"]
    assert limits[0] == greatest
    for value, reports in ((greatest, []), (-greatest, []), (math.inf, [(-1, 2)]), (math.nan, [(-1, 1)])):
        assert outcome(Program({"f": checked}), "f", ([value],)).bounds == reports, value


def test_each_number_of_a_struct_in_memory_is_checked():
    text = """
    struct "S" { n: i32, v: f32x2, a: [2 x f64] }
    func @f(%p: ptr<struct "S", global>) -> (i32) {
      %s = load %p : struct "S"
      %n = get %s {index=0}
      yield %n
    }"""
    checked = check_finite(parse_program(text).functions["f"])
    assert sum(op.name == "in_bounds" for op in walk(checked.region)) == 4
