"""User-written derivatives in Slang's conventions, primal substitutes, and user-written tangent types."""

import math

import pytest

from slangrad.autodiff.analyses.zero_propagation import zero_results
from slangrad.base.diagnostics import CompileError
from slangrad.ir.ops.core import walk
from tests.autodiff.calculus import check, derivative, differentiated, parse, run

# g(x, k, y) = x k y. Its derivatives are %scale times too large, which shows who was asked.
CUSTOM = """
struct "DifferentialPair<f64>" { p: f64, d: f64 }

func @g(%x: f64, no_diff %k: f64, %y: f64) -> (f64) derivatives(jvp=@g_fwd, vjp=@g_bwd) {
  %a = mul %x, %k
  %r = mul %a, %y
  yield %r
}

func @g_fwd(%x: struct "DifferentialPair<f64>", %k: f64, %y: struct "DifferentialPair<f64>")
    -> (struct "DifferentialPair<f64>") {
  %scale = const 10.0 : f64
  %xp = get %x {index=0}
  %xd = get %x {index=1}
  %yp = get %y {index=0}
  %yd = get %y {index=1}
  %a = mul %xp, %k
  %p = mul %a, %yp
  %u = mul %xd, %yp
  %v = mul %xp, %yd
  %w = add %u, %v
  %z = mul %w, %k
  %d = mul %z, %scale
  %r = make %p, %d : struct "DifferentialPair<f64>"
  yield %r
}

func @g_bwd(inout %x: struct "DifferentialPair<f64>", %k: f64, inout %y: struct "DifferentialPair<f64>",
    %ct: f64) -> () {
  %scale = const 10.0 : f64
  %xp = get %x {index=0}
  %yp = get %y {index=0}
  %c = mul %ct, %scale
  %ck = mul %c, %k
  %u = mul %ck, %yp
  %v = mul %ck, %xp
  %x.1 = make %xp, %u : struct "DifferentialPair<f64>"
  %y.1 = make %yp, %v : struct "DifferentialPair<f64>"
  yield %x.1, %y.1
}

func @f(%x: f64, %y: f64) -> (f64) {
  %k = const 3.0 : f64
  %s = sin %x
  %r = call @g %s, %k, %y : f64
  %t = mul %r, %y
  yield %t
}
"""
EXACT = CUSTOM.replace("const 10.0", "const 1.0")
JVP_ONLY = CUSTOM.replace(", vjp=@g_bwd", "")
VJP_ONLY = CUSTOM.replace("jvp=@g_fwd, ", "")


def parts(x: float, y: float, scale: float) -> tuple[float, float, float]:
    """The value of `f`, and its derivatives."""
    g = 3 * math.sin(x) * y
    return g * y, scale * 3 * y * math.cos(x) * y, scale * 3 * math.sin(x) * y + g


@pytest.mark.parametrize(
    ("text", "forward", "backward"), [(CUSTOM, 10, 10), (EXACT, 1, 1), (JVP_ONLY, 10, 1), (VJP_ONLY, 1, 10)]
)
def test_custom_derivatives_come_first_and_the_body_serves_otherwise(text, forward, backward):
    x, y, program = 0.4, 0.9, parse(text)
    r, dx, dy = parts(x, y, forward)
    assert derivative(program, "f", "jvp", (x, y, 1.0, 0.0)) == pytest.approx((r, dx))
    assert derivative(program, "f", "jvp", (x, y, 0.0, 1.0)) == pytest.approx((r, dy))
    _, dx, dy = parts(x, y, backward)
    assert derivative(program, "f", "vjp", (x, y, 1.0)) == pytest.approx((dx, dy))


def test_a_request_for_the_function_itself():
    program = parse(CUSTOM)
    assert derivative(program, "g", "vjp", (2.0, 3.0, 5.0, 1.0)) == (150.0, 60.0)
    assert derivative(program, "g", "jvp", (2.0, 3.0, 5.0, 1.0, 0.0)) == (30.0, 150.0)


@pytest.mark.parametrize("text", [EXACT, JVP_ONLY.replace("10.0", "1.0"), VJP_ONLY.replace("10.0", "1.0")])
def test_they_are_differentiated_again(text):
    check(parse(text), "f", (0.4, 0.9), order=3)


LOOP = """
func @h(%x: f64, %y: f64, %n: i32) -> (f64) {
  %k = const 0.7 : f64
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %c = less %s, %y
    %b = if %c : f64 {
      %a = call @g %s, %k, %y : f64
      yield %a
    } {
      %a = cos %s
      yield %a
    }
    %t = call @g %b, %s, %s : f64
    %u = sin %t
    %v = add %u, %y
    yield %v
  }
  yield %r
}
"""


def test_in_loops_and_branches():
    text = (EXACT + LOOP).replace("call @g %b, %s, %s", "call @g %b, %k, %s")
    check(parse(text), "h", (0.4, 0.9, 3), order=2)


ALL_KINDS = """
struct "Pair" { p: f64, d: f64 }

func @f(%x: f64, no_diff %k: f64, out %u: f64, out no_diff %v: f64, inout %w: f64, inout no_diff %z: f64,
    %n: i32) -> (f64) derivatives(jvp=@f_fwd, vjp=@f_bwd) {
  %a = mul %x, %k
  %b = mul %a, %w
  %c = add %z, %k
  %d = mul %w, %z
  yield %b, %a, %k, %d, %c
}

func @f_fwd(%x: struct "Pair", %k: f64, out %u: struct "Pair", out %v: f64, inout %w: struct "Pair",
    inout %z: f64, %n: i32) -> (struct "Pair") {
  %xp = get %x {index=0}
  %xd = get %x {index=1}
  %wp = get %w {index=0}
  %wd = get %w {index=1}
  %a = mul %xp, %k
  %ad = mul %xd, %k
  %b = mul %a, %wp
  %b1 = mul %ad, %wp
  %b2 = mul %a, %wd
  %bd = add %b1, %b2
  %c = add %z, %k
  %d = mul %wp, %z
  %dd = mul %wd, %z
  %rb = make %b, %bd : struct "Pair"
  %ra = make %a, %ad : struct "Pair"
  %rd = make %d, %dd : struct "Pair"
  yield %rb, %ra, %k, %rd, %c
}

func @f_bwd(inout %x: struct "Pair", %k: f64, %du: f64, inout %w: struct "Pair", %z: f64, %n: i32,
    %dr: f64) -> () {
  %xp = get %x {index=0}
  %x0 = get %x {index=1}
  %wp = get %w {index=0}
  %dw = get %w {index=1}
  %a = mul %xp, %k
  %da = mul %dr, %wp
  %da1 = add %da, %du
  %dx = mul %da1, %k
  %dx1 = add %dx, %x0
  %w1 = mul %dr, %a
  %w2 = mul %dw, %z
  %dw1 = add %w1, %w2
  %rx = make %xp, %dx1 : struct "Pair"
  %rw = make %wp, %dw1 : struct "Pair"
  yield %rx, %rw
}
"""


def test_parameters_of_all_kinds():
    program = parse(ALL_KINDS)
    inputs = (0.5, 2.0, 0.7, 3.0, 1)
    assert run(program, "f", inputs) == (0.7, 1.0, 2.0, pytest.approx(2.1), 5.0)
    check(program, "f", inputs, order=2)
    # results r, u, w; tangents and cotangents of x, w and of r, u, w
    made = derivative(program, "f", "jvp", (*inputs, 1.0, 0.0))
    assert made == (0.7, 1.0, 2.0, pytest.approx(2.1), 5.0, 1.4, 2.0, 0.0)
    assert derivative(program, "f", "vjp", (*inputs, 1.0, 10.0, 100.0)) == (2.0 * (0.7 + 10.0), 1.0 + 300.0)


SUBSTITUTE = """
func @f(%x: f64) -> (f64) {
  %a = call @table %x : f64
  %b = mul %a, %x
  yield %b
}

func @table(%x: f64) -> (f64) derivatives(primal_substitute=@smooth) {
  %a = sin %x
  %r = floor %a
  yield %r
}

func @smooth(%x: f64) -> (f64) {
  %r = call @table2 %x : f64
  yield %r
}

func @table2(%x: f64) -> (f64) derivatives(primal_substitute=@smoother) {
  %r = floor %x
  yield %r
}

func @smoother(%x: f64) -> (f64) {
  %r = mul %x, %x
  yield %r
}
"""


def test_a_primal_substitute_is_differentiated_instead():
    program = parse(SUBSTITUTE)
    assert run(program, "f", (0.5,)) == (0.0,)
    assert derivative(program, "f", "vjp", (0.5, 1.0)) == (0.75,)
    assert derivative(program, "f", "jvp", (0.5, 1.0)) == (0.125, 0.75)
    assert derivative(program, "table", "vjp", (0.5, 1.0)) == (1.0,)


def test_a_function_without_body_needs_the_derivative_asked_for():
    text = JVP_ONLY.replace("vjp=@g_bwd", "").replace("(jvp=@g_fwd) {", "(jvp=@g_fwd) {bodiless=true} {")
    program = parse(text)
    assert derivative(program, "f", "jvp", (0.4, 0.9, 1.0, 0.0)) == pytest.approx(parts(0.4, 0.9, 10)[:2])
    with pytest.raises(CompileError, match=r"E0551.*'g' has no backward derivative"):
        derivative(program, "f", "vjp", (0.4, 0.9, 1.0))


# A tangent type of the user's own: its zero is (0, 1), so %count counts the zeros in a sum.
USER_TANGENT = """
struct "S" { a: f64, b: f64 }
struct "S.D" { a: f64, count: f64 }
differential struct "S" : struct "S.D" (0 -> 0) zero=@dzero add=@dadd

func @dzero() -> (struct "S.D") {
  %a = const 0.0 : f64
  %b = const 1.0 : f64
  %r = make %a, %b : struct "S.D"
  yield %r
}

func @dadd(%x: struct "S.D", %y: struct "S.D") -> (struct "S.D") {
  %xa = get %x {index=0}
  %ya = get %y {index=0}
  %xc = get %x {index=1}
  %yc = get %y {index=1}
  %a = add %xa, %ya
  %c = add %xc, %yc
  %r = make %a, %c : struct "S.D"
  yield %r
}

func @f(%s: struct "S", %i: i32, %n: i32) -> (f64) {
  %array = make %s, %s : [2 x struct "S"]
  %zero = const 0.0 : f64
  %r = for %n, %zero : f64 (%k: i32, %sum: f64) {
    %e = index %array, %i
    %a = get %e {index=0}
    %p = mul %a, %a
    %sum.1 = add %sum, %p
    yield %sum.1
  }
  yield %r
}

func @unused(%s: struct "S") -> (f64) {
  %r = get %s {index=1}
  yield %r
}
"""


def test_user_written_zero_and_add():
    program = parse(USER_TANGENT)
    assert derivative(program, "unused", "vjp", ((0.5, 0.25), 1.0)) == ((0.0, 1.0),)
    # two zeros for the array, one more in each trip
    (made,) = derivative(program, "f", "vjp", ((0.5, 0.25), 1, 3, 1.0))
    assert made == (3.0, 5.0)
    tangent = (1.0, 0.0)
    assert derivative(program, "f", "jvp", ((0.5, 0.25), 1, 3, tangent)) == (0.75, 3.0)


def test_functions_of_a_tangent_type_are_called_by_name():
    made, _ = differentiated(parse(USER_TANGENT), "f", "vjp")
    ops = walk(made.program.functions["f.vjp"].region)
    assert {op.attributes["callee"] for op in ops if op.name == "call"} == {"dzero", "dadd"}


AFFINE = CUSTOM.replace(
    "%d = mul %z, %scale\n", "%e = mul %z, %scale\n  %one = const 1.0 : f64\n  %d = add %e, %one\n"
)


@pytest.mark.parametrize(("text", "form"), [(EXACT, (False, True)), (AFFINE, False)])
def test_what_a_forward_derivative_brings_by_itself(text, form):
    pair = (False, True)  # whose tangent is zero
    assert zero_results(parse(text).functions, "g_fwd", (pair, False, pair)) == [form]


def test_a_loop_whose_derivative_stays_zero_and_one_that_is_added_to():
    text = """
    func @k(%dx: f64, %x: f64, %n: i32, out %t: f64) -> (f64) {
      %zero = const 0.0 : f64
      %one = const 1.0 : f64
      %a, %b = for %n, %zero, %zero : f64, f64 (%i: i32, %s: f64, %w: f64) {
        %p = mul %x, %dx
        %u = add %s, %p
        %v = add %w, %one
        yield %u, %v
      }
      yield %a, %b
    }
    """
    assert zero_results(parse(text).functions, "k", (True, False, False)) == [True, False]


def test_a_forward_derivative_is_asked_where_no_tangent_goes_in():
    text = AFFINE.replace("%s = sin %x", "%s = const 2.0 : f64").replace("%k, %y : f64", "%k, %k : f64")
    # g(2, 3, 3) = 18 is a constant whose derivative is 1 by the user's own
    assert derivative(parse(text), "f", "jvp", (0.4, 0.5, 0.0, 1.0)) == pytest.approx((9.0, 18.5))
