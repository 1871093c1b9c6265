"""Effects happen once, in the forward sweep and in order; what is loaded is kept, not loaded again."""

import math

import pytest

from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Program, walk
from slangrad.ir.oracle.interpret import Recorded
from tests.autodiff.calculus import differentiated, parse, run
from tests.ir.outcomes import Memory

EFFECTS = """
func @f(%x: f64, %p: ptr<f64, global>, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %e = offset %p, %i
    %w = load %e : f64
    %a = mul %s, %w
    %b = mul %a, %a
    store %e, %b
    print %b {format="b"}
    %old = atomic %p, %a {kind="add"} : f64
    %two = const 2 : i32
    %inside = in_bounds %i, %two
    %c = if %inside : f64 {
      %d = sin %b
      yield %d
    } {
      %d = mul %b, %old
      yield %d
    }
    yield %c
  }
  yield %r
}
"""


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
@pytest.mark.parametrize("again", [False, True])
def test_effects_happen_once_and_in_order(mode, again):
    program = parse(EFFECTS)
    before, reports = Memory(t.F64, 4, (0.5, 0.7, 0.9, 1.1)), Recorded()
    run(program, "f", (0.3, before.address, 3), reports)
    made, entry = differentiated(program, "f", mode)
    inputs = [0.3, 0, 3, 1.0]
    if again:
        made, entry = differentiated(derivative_requested(program, mode), f"f_{mode}", "vjp")
        inputs += [1.0, 1.0] if mode == "jvp" else [1.0]
    after, derived = Memory(t.F64, 4, (0.5, 0.7, 0.9, 1.1)), Recorded()
    inputs[1] = after.address
    run(made.program, entry, inputs, derived)
    assert after.values() == before.values()
    assert derived.prints == reports.prints and len(derived.prints) == 3
    assert derived.bounds == reports.bounds == [(2, 2)]


def derivative_requested(program: Program, mode: str) -> Program:
    text = {
        "jvp": """
        func @f_jvp(%x: f64, %p: ptr<f64, global>, %n: i32, %dx: f64, out %dr: f64) -> (f64) {
          %r, %dr.1 = jvp @f %x, %p, %n, %dx : f64, f64
          yield %r, %dr.1
        }""",
        "vjp": """
        func @f_vjp(%x: f64, %p: ptr<f64, global>, %n: i32, %ct: f64) -> (f64) {
          %dx = vjp @f %x, %p, %n, %ct : f64
          yield %dx
        }""",
    }
    return Program({**program.functions, **parse(text[mode]).functions})


def test_the_derivative_is_that_of_what_was_loaded():
    made, entry = differentiated(parse(EFFECTS), "f", "vjp")
    forward, _ = differentiated(parse(EFFECTS), "f", "jvp")
    memory = Memory(t.F64, 4, (0.5, 0.7, 0.9, 1.1))
    (reverse,) = run(made.program, entry, (0.3, memory.address, 3, 1.0))
    memory = Memory(t.F64, 4, (0.5, 0.7, 0.9, 1.1))
    _, tangent = run(forward.program, "f_jvp", (0.3, memory.address, 3, 1.0))
    assert reverse == pytest.approx(tangent) and reverse != 0


def loads(program: Program) -> int:
    return sum(op.name == "load" for op in walk(program.functions["f.vjp"].region))


@pytest.mark.parametrize(("space", "count"), [("global", 1), ("constant", 2)])
def test_only_constant_memory_is_read_again(space, count):
    text = """
    func @f(%x: f64, %p: ptr<f64, SPACE>, %n: i32) -> (f64) {
      %r = for %n, %x : f64 (%i: i32, %s: f64) {
        %e = offset %p, %i
        %w = load %e : f64
        %a = mul %s, %w
        yield %a
      }
      yield %r
    }
    """
    made, _ = differentiated(parse(text.replace("SPACE", space)), "f", "vjp")
    assert loads(made.program) == count
    assert len(made.reports["f.vjp"].stored) == 2 - count


def test_a_checked_index_reports_in_the_forward_sweep_only():
    program = parse("""
    func @f(%a: [2 x f64], %n: i32) -> (f64) {
      %one = const 1.0 : f64
      %r = for %n, %one : f64 (%i: i32, %s: f64) {
        %x = index %a, %i {check=true}
        %b = mul %x, %x
        %c = add %b, %one
        %d = mul %s, %c
        yield %d
      }
      yield %r
    }
    """)
    for mode, more in (("jvp", (0.5, 0.5)), ("vjp", 1.0)):
        made, entry = differentiated(program, "f", mode)
        reports = Recorded()
        run(made.program, entry, ((0.5, 0.25), 4, more), reports)
        assert reports.bounds == [(2, 2), (3, 2)]


# A tensor as std writes it: loads and stores whose derivatives are in memory.
TENSOR = """
func @load(%p: ptr<f64, global>, %g: ptr<f64, global>, %i: i32) -> (f64) derivatives(vjp=@load_bwd) {
  %e = offset %p, %i
  %x = load %e : f64
  yield %x
}

func @load_bwd(%p: ptr<f64, global>, %g: ptr<f64, global>, %i: i32, %ct: f64) -> () {
  %e = offset %g, %i
  %old = atomic %e, %ct {kind="add"} : f64
  yield
}

struct "DifferentialPair<f64>" { p: f64, d: f64 }

func @store(%p: ptr<f64, global>, %g: ptr<f64, global>, %i: i32, %x: f64) -> ()
    derivatives(vjp=@store_bwd) {drop_primal=true} {
  %e = offset %p, %i
  store %e, %x
  yield
}

func @store_bwd(%p: ptr<f64, global>, %g: ptr<f64, global>, %i: i32,
    inout %x: struct "DifferentialPair<f64>") -> () {
  %e = offset %g, %i
  %ct = load %e : f64
  %x.1 = set %x, %ct {index=1}
  yield %x.1
}

func @f(%p: ptr<f64, global>, %gp: ptr<f64, global>, %q: ptr<f64, global>, %gq: ptr<f64, global>,
    %n: i32) -> () {
  for %n (%i: i32) {
    %x = call @load %p, %gp, %i : f64
    %y = mul %x, %x
    %one = const 0 : i32
    %first = call @load %p, %gp, %one : f64
    %z = mul %y, %first
    %c = less %first, %x
    if %c {
      call @store %q, %gq, %i, %z
      yield
    } {
      call @store %q, %gq, %i, %x
      yield
    }
    yield
  }
  yield
}
"""


def test_loads_and_stores_with_derivatives_in_memory():
    program = parse(TENSOR)
    made, entry = differentiated(program, "f", "vjp")
    p, gp = Memory(t.F64, 3, (0.5, 2.0, 3.0)), Memory(t.F64, 3, (0.0, 0.0, 0.0))
    q, gq = Memory(t.F64, 3, (7.0, 7.0, 7.0)), Memory(t.F64, 3, (1.0, 10.0, 100.0))
    run(made.program, entry, (p.address, gp.address, q.address, gq.address, 3))
    assert q.values() == [7.0, 7.0, 7.0]  # the stores do not happen again
    # q = (p0, p1^2 p0, p2^2 p0)
    assert gp.values() == [1.0 + 10 * 4.0 + 100 * 9.0, 10 * 2 * 2.0 * 0.5, 100 * 2 * 3.0 * 0.5]


def test_a_store_happens_where_the_primal_is_kept():
    program = parse(TENSOR.replace(" {drop_primal=true}", ""))
    made, entry = differentiated(program, "f", "vjp")
    p, gp = Memory(t.F64, 3, (0.5, 2.0, 3.0)), Memory(t.F64, 3, (0.0, 0.0, 0.0))
    q, gq = Memory(t.F64, 3, (7.0, 7.0, 7.0)), Memory(t.F64, 3, (1.0, 10.0, 100.0))
    run(made.program, entry, (p.address, gp.address, q.address, gq.address, 3))
    assert q.values() == [0.5, 2.0, 4.5]
    assert gp.values() == [941.0, 20.0, 300.0]


def test_what_is_opened_is_differentiated_further_by_its_body():
    """A load whose own load has a derivative: that of the vjp goes to the inner one, not once more to the outer."""
    text = """
func @outer(%p: ptr<f64, global>, %g: ptr<f64, global>, %h: ptr<f64, global>, %i: i32) -> (f64)
    derivatives(vjp=@outer_bwd) ATTRIBUTE{
  %x = call @load %p, %g, %i : f64
  yield %x
}

func @outer_bwd(%p: ptr<f64, global>, %g: ptr<f64, global>, %h: ptr<f64, global>, %i: i32, %ct: f64) -> () {
  %e = offset %h, %i
  %old = atomic %e, %ct {kind="add"} : f64
  yield
}

func @k(%p: ptr<f64, global>, %g: ptr<f64, global>, %h: ptr<f64, global>, %c: f64) -> (f64) {
  %zero = const 0 : i32
  %x = call @outer %p, %g, %h, %zero : f64
  %xx = mul %x, %x
  %y = mul %xx, %c
  yield %y
}

func @slope(%p: ptr<f64, global>, %g: ptr<f64, global>, %h: ptr<f64, global>, %c: f64) -> (f64) {
  %one = const 1 : f64
  %d = vjp @k %p, %g, %h, %c, %one : f64
  yield %d
}
"""
    found = []
    for attribute in ("", "{open_primal=true} "):
        made, entry = differentiated(parse(TENSOR + text.replace("ATTRIBUTE", attribute)), "slope", "vjp")
        p, g, h = (Memory(t.F64, 1, (value,)) for value in (3.0, 0.0, 0.0))
        run(made.program, entry, (p.address, g.address, h.address, 0.5, 1.0))
        found.append((g.values(), h.values()))
    # h gets the gradient of k, 2 x c = 3; the derivative of slope = x^2 by x, 2 x = 6, is the inner load's
    assert found == [([0.0], [9.0]), ([6.0], [3.0])]


def test_calls_run_again_only_where_their_function_allows_it():
    for attribute, calls in (("", 2), (' {prefer="recompute"}', 4)):
        text = TENSOR.replace("derivatives(vjp=@load_bwd) {", f"derivatives(vjp=@load_bwd){attribute} {{")
        made, _ = differentiated(parse(text), "f", "vjp")
        ops = [op for op in walk(made.program.functions["f.vjp"].region) if op.name == "call"]
        assert sum(op.attributes["callee"] == "load" for op in ops) == calls


NESTED_LOADS = """
struct "Tensor" { p: ptr<f64, global>, g: ptr<f64, global>, shape: [2 x i32] }
struct "DifferentialPair<f64>" { p: f64, d: f64 }

func @at(%t: struct "Tensor", %index: [2 x i32]) -> (i32) {
  %shape = get %t {index=2}
  %columns = get %shape {index=1}
  %i = get %index {index=0}
  %j = get %index {index=1}
  %first = mul %i, %columns
  %r = add %first, %j
  yield %r
}

func @load(%t: struct "Tensor", %index: [2 x i32]) -> (f64) derivatives(vjp=@load_bwd) {
  %at = call @at %t, %index : i32
  %p = get %t {index=0}
  %e = offset %p, %at
  %x = load %e : f64
  yield %x
}

func @load_bwd(%t: struct "Tensor", %index: [2 x i32], %ct: f64) -> () {
  %at = call @at %t, %index : i32
  %g = get %t {index=1}
  %e = offset %g, %at
  %old = atomic %e, %ct {kind="add"} : f64
  yield
}

func @f(%t: struct "Tensor", %x: f64) -> (f64) {
  %shape = get %t {index=2}
  %n = get %shape {index=0}
  %zero = const 0 : i32
  %m = index %shape, %zero
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %v = for %m, %s : f64 (%j: i32, %q: f64) {
      %index = make %i, %j : [2 x i32]
      %w = call @load %t, %index : f64
      %y = mul %w, %s
      %z = add %q, %y
      yield %z
    }
    %u = tanh %v
    yield %u
  }
  yield %r
}
"""


def test_indices_and_descriptions_of_tensors_are_not_kept():
    made, entry = differentiated(parse(NESTED_LOADS), "f", "vjp")
    assert sorted(each.name for each in made.reports["f.vjp"].stored) == ["s", "v", "w"]
    p, g = Memory(t.F64, 4, (0.5, -0.3, 0.7, 0.9)), Memory(t.F64, 4, (0.0,) * 4)
    (dx,) = run(made.program, entry, ((p.address, g.address, (2, 2)), 0.4, 1.0))

    def value(w, x):
        for i in range(2):
            x = math.tanh(x + (w[2 * i] + w[2 * i + 1]) * x)
        return x

    step = 1e-6
    for k in range(4):
        up, down = ([v + sign * step * (i == k) for i, v in enumerate(p.values())] for sign in (1, -1))
        assert g.values()[k] == pytest.approx((value(up, 0.4) - value(down, 0.4)) / (2 * step))
    assert dx == pytest.approx((value(p.values(), 0.4 + step) - value(p.values(), 0.4 - step)) / (2 * step))
