"""Requests within requests, callees of all kinds, and what the program looks like afterwards."""

import math

import pytest

from slangrad.autodiff.requests import differentiate
from slangrad.ir.ops.core import walk
from slangrad.ir.oracle.interpret import Recorded
from slangrad.opt.calls.inline import inline_into
from tests.autodiff.calculus import check, derivative, differentiated, parse, run

GRADIENT_INSIDE = """
func @energy(%x: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %a = sin %s
    %b = mul %a, %s
    yield %b
  }
  yield %r
}

func @slope(%x: f64, %n: i32) -> (f64) {
  %one = const 1.0 : f64
  %dx = vjp @energy %x, %n, %one : f64
  yield %dx
}

func @f(%x: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %g = call @slope %s, %n : f64
    %step = const 0.1 : f64
    %d = mul %g, %step
    %t = sub %s, %d
    yield %t
  }
  %e, %de = jvp @energy %r, %n, %x : f64, f64
  %p = mul %e, %de
  yield %p
}
"""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_code_that_asks_for_derivatives_is_differentiated(n):
    check(parse(GRADIENT_INSIDE), "f", (0.8, n), order=2)


def test_no_requests_are_left():
    made, _ = differentiated(parse(GRADIENT_INSIDE), "f", "vjp")
    for function in made.program.functions.values():
        assert all(op.name not in ("jvp", "vjp") for op in walk(function.region))
    assert set(made.program.functions) == {
        *("energy", "slope", "f", "f_vjp"),
        *("energy.vjp", "energy.jvp", "f.vjp"),
    }


def test_functions_without_requests_stay_as_they_are():
    program = parse(GRADIENT_INSIDE)
    made = differentiate(program, inline_into).program
    assert made.functions["energy"] is program.functions["energy"]
    assert made.functions["f"] is not program.functions["f"]


def test_fourth_derivative():
    program = parse("""
    func @f(%x: f64) -> (f64) {
      %a = sin %x
      %r = mul %a, %a
      yield %r
    }
    func @f1(%x: f64) -> (f64) {
      %one = const 1.0 : f64
      %d = vjp @f %x, %one : f64
      yield %d
    }
    func @f2(%x: f64) -> (f64) {
      %one = const 1.0 : f64
      %r, %d = jvp @f1 %x, %one : f64, f64
      yield %d
    }
    func @f3(%x: f64) -> (f64) {
      %one = const 1.0 : f64
      %d = vjp @f2 %x, %one : f64
      yield %d
    }
    """)
    x = 0.3
    assert derivative(program, "f3", "vjp", (x, 1.0)) == (pytest.approx(-8 * math.cos(2 * x)),)
    assert derivative(program, "f3", "jvp", (x, 1.0))[1] == pytest.approx(-8 * math.cos(2 * x))


CALLS = """
func @square(%x: f64, inout %count: i32, out %twice: f64) -> (f64) {
  %r = mul %x, %x
  %one = const 1 : i32
  %c = add %count, %one
  %t = add %r, %r
  yield %r, %c, %t
}

func @f(%x: f64, %k: i32) -> (f64) {
  %a, %k.1, %b = call @square %x, %k : f64, i32, f64
  %c, %k.2, %d = call @square %b, %k.1 : f64, i32, f64
  %kf = convert %k.2 : f64
  %p = mul %c, %kf
  %q = mul %a, %d
  %r = add %p, %q
  yield %r
}
"""


def test_ordinary_calls_are_inlined():
    program = parse(CALLS)
    assert run(program, "f", (0.5, 1)) == (0.25 * 3 + 0.25 * 0.5,)
    check(program, "f", (0.5, 1), order=2)
    made, _ = differentiated(program, "f", "vjp")
    assert all(op.name != "call" for op in walk(made.program.functions["f.vjp"].region))


PREFERENCES = """
func @f(%x: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %a = call @wave %s : f64
    %b = sin %a
    %c = mul %b, %a
    %d = tanh %c
    yield %d
  }
  yield %r
}

func @wave(%x: f64) -> (f64) {ATTRIBUTES} {
  %u = call @inner %x : f64
  %v = mul %u, %x
  yield %v
}

func @inner(%x: f64) -> (f64) {INNER} {
  %w = sin %x
  yield %w
}
"""


@pytest.mark.parametrize(
    ("outer", "inner", "stored"),
    [
        ("", "", ["b", "s", "w"]),
        ('prefer="recompute"', "", ["b", "s"]),
        ('prefer="checkpoint"', "", ["b", "s", "v", "w"]),
        ('prefer="recompute"', 'prefer="checkpoint"', ["b", "s", "w"]),
    ],
)
def test_preferences_of_inlined_functions(outer, inner, stored):
    text = PREFERENCES
    for word, attributes in (("ATTRIBUTES", outer), ("INNER", inner)):
        text = text.replace(f" {{{word}}}", f" {{{attributes}}}" if attributes else "")
    program = parse(text)
    made, _ = differentiated(program, "f", "vjp")
    assert sorted(each.name for each in made.reports["f.vjp"].stored) == stored
    check(program, "f", (0.4, 3), order=2)


def test_a_custom_forward_derivative_replaces_the_call():
    """A store whose forward derivative stores the tangent as well is not run twice."""
    program = parse("""
    struct "DifferentialPair<f64>" { p: f64, d: f64 }
    func @note(%x: f64) -> () derivatives(jvp=@note_fwd) {
      print %x {format="primal"}
      yield
    }
    func @note_fwd(%x: struct "DifferentialPair<f64>") -> () {
      %p = get %x {index=0}
      %d = get %x {index=1}
      print %p, %d {format="both"}
      yield
    }
    func @f(%x: f64) -> (f64) {
      %a = mul %x, %x
      call @note %a
      %b = floor %x
      call @note %b
      yield %a
    }
    """)
    made, entry = differentiated(program, "f", "jvp")
    reports = Recorded()
    assert run(made.program, entry, (1.5, 1.0), reports) == (2.25, 3.0)
    assert reports.prints == [("both", (2.25, 3.0)), ("both", (1.0, 0.0))]
    reports = Recorded()
    made, entry = differentiated(program, "f", "vjp")
    assert run(made.program, entry, (1.5, 1.0), reports) == (3.0,)
    assert reports.prints == [("primal", (2.25,)), ("primal", (1.0,))]
