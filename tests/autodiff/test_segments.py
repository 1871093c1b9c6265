"""Loops without a small bound in segments: derivatives stay what they are, and what is kept gets small."""

import pytest

from slangrad.autodiff.requests import differentiate
from slangrad.base.compiling import compiling
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Program
from slangrad.ir.oracle.interpret import Machine, Recorded
from slangrad.ir.text.verify import DIFFERENTIATED, verify
from slangrad.opt.calls.inline import inline_into
from tests.autodiff import calculus
from tests.autodiff.calculus import check, parse, request
from tests.autodiff.test_random_programs import Along, check_along, smooth_program


@pytest.fixture(autouse=True)
def in_segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All derivatives of these tests are made with segments of two iterations, or of `trips`."""
    trips = request.getfixturevalue("trips") if "trips" in request.fixturenames else 2
    monkeypatch.setattr(calculus, "differentiate", lambda p, inline: differentiate(p, inline, trips))


COUNTED = """
func @f(%x: f64, %n: INDEX) -> (f64) {
  %two = const 2.0 : f64
  %r = for %n, %x {REVERSE} : f64 (%i: INDEX, %s: f64) {
    %k = convert %i : f64
    %a = mul %s, %x
    %u = sin %a
    %v = mul %u, %two
    %w = add %v, %k
    yield %w
  }
  yield %r
}
"""
TESTED = """
func @f(%x: f64, %n: i32) -> (f64) {
  %one = const 1 : i32
  %zero = const 0 : i32
  %limit = const 3.0 : f64
  %r, %k = while %x, %zero : f64, i32 (%s: f64, %k: i32) {
    %more = less %k, %n
    %small = less %s, %limit
    %go = and %more, %small
    yield %go
  } (%s.1: f64, %k.1: i32) {
    %a = mul %s.1, %x
    %b = sin %a
    %c = add %b, %s.1
    %k.2 = add %k.1, %one
    yield %c, %k.2
  }
  yield %r
}
"""
NEST = """
func @f(%x: f64, %n: i32, %m: i32) -> (f64) {
  %half = const 0.5 : f64
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %inner = add %i, %m
    %odd = less %i, %m
    %p = mul %s, %x
    %q = if %odd : f64 {
      %v = for %inner, %p : f64 (%j: i32, %y: f64) {
        %z = sin %y
        %w = mul %z, %x
        yield %w
      }
      yield %v
    } {
      %e = cos %p
      yield %e
    }
    %h = mul %q, %half
    yield %h
  }
  yield %r
}
"""
STATE = """
func @f(%x: f64, %n: u32) -> (f64) {
  %one = const 1.0 : f64
  %three = const 3 : u32
  %a = make %x, %one, %x : [3 x f64]
  %b, %s, %unused = for %n, %a, %x, %one : [3 x f64], f64, f64 (%i: u32, %a.1: [3 x f64], %s.1: f64, %u.1: f64) {
    %k = rem %i, %three
    %e = index %a.1, %k
    %f = sin %e
    %g = mul %f, %s.1
    %a.2 = set_index %a.1, %k, %g
    %s.2 = add %s.1, %e
    %u.2 = sqrt %u.1
    yield %a.2, %s.2, %u.2
  }
  %first = get %b {index=0}
  %last = get %b {index=2}
  %p = mul %first, %last
  %r = add %p, %s
  yield %r
}
"""


@pytest.mark.parametrize("count", [-3, 0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("reverse", ["", "reverse=true"])
def test_counted_loops(count, reverse):
    text = COUNTED.replace("INDEX", "i32").replace(" {REVERSE}", f" {{{reverse}}}" if reverse else "")
    check(parse(text), "f", (0.7, count), order=2)


def test_third_derivatives():
    text = COUNTED.replace("INDEX", "u64").replace(" {REVERSE}", "")
    check(parse(text), "f", (0.7, 5), order=3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_loops_that_end_by_themselves(count):
    check(parse(TESTED), "f", (0.9, count), order=2)


@pytest.mark.parametrize("trips", [1, 2, 40])
@pytest.mark.parametrize(("n", "m"), [(0, 2), (1, 1), (3, 2), (5, 3)])
def test_nests(trips, n, m):
    check(parse(NEST), "f", (0.7, n, m), order=2)


@pytest.mark.parametrize("trips", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 4, 8])
def test_arrays_and_values_without_derivatives_are_part_of_the_state(trips, count):
    check(parse(STATE), "f", (0.6, count), order=2)


@pytest.mark.parametrize("trips", [1, 3])
@pytest.mark.parametrize("seed", [*range(12), 42, 83])
def test_random_programs(trips, seed):
    with compiling():
        program, inputs = smooth_program(seed)
        check_along(program, "main", inputs, seed)


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
@pytest.mark.parametrize("seed", range(6))
def test_second_derivatives_of_random_programs(seed, mode):
    program, inputs = smooth_program(seed)
    along = Along(program, "main", inputs, seed)
    asking, entry = request(program, "main", mode)
    check_along(asking, entry, [*inputs, *(along.tangents if mode == "jvp" else along.cotangents)], seed)


def reversed_program(text: str, trips: int) -> Program:
    asking, _ = request(parse(text), "f", "vjp")
    made = differentiate(asking, inline_into, trips).program
    verify(made, DIFFERENTIATED)
    return made


def test_a_segment_is_kept_in_a_fixed_array_and_states_on_a_tape():
    made = reversed_program(COUNTED.replace("INDEX", "i32").replace(" {REVERSE}", ""), 8)
    first, rest, *backwards = (op for op in made.functions["f.vjp"].region.ops if op.name == "for")
    assert [r.type for r in first.results] == [t.F64, t.array(t.F64, 8)]
    assert [r.type for r in rest.results] == [t.F64, t.array(t.F64, None)]
    assert [op.attributes for op in backwards] == [
        {"segmented": True, "reverse": True},
        {"at_most": 8, "reverse": True},
    ]


def test_long_loops_of_known_length_are_cut_short_ones_are_not():
    text = COUNTED.replace("%n: INDEX", "%unused: i32").replace(" {REVERSE}", "").replace("INDEX", "i32")
    text = text.replace("  %two", "  %n = const LENGTH : i32\n  %two")
    for length, segments in ((128, []), (129, ["f.segment0"])):
        made = reversed_program(text.replace("LENGTH", str(length)), 2)
        assert [name for name in made.functions if name.endswith("segment0")] == segments


def test_loops_with_effects_or_nothing_to_keep_are_not_cut():
    stores = COUNTED.replace("(%x: f64,", "(%x: f64, %p: ptr<f64, global>,").replace(
        "%a = mul", "store %p, %s\n    %a = mul"
    )
    linear = COUNTED.replace("%u = sin %a", "%u = add %a, %a").replace("mul %s, %x", "add %s, %x")
    for text in (stores, linear):
        made = reversed_program(text.replace("INDEX", "i32").replace(" {REVERSE}", ""), 2)
        assert not [name for name in made.functions if "segment" in name]


def test_loads_are_repeated_only_where_nothing_is_written():
    loads = COUNTED.replace("(%x: f64,", "(%x: f64, %p: ptr<f64, global>,").replace("INDEX", "i32")
    loads = (
        loads.replace(" {REVERSE}", "")
        .replace("mul %s, %x", "mul %s, %w.0\n    %w.1 = add %x, %w.0")
        .replace("%k = convert", "%w.0 = load %p : f64\n    %k = convert")
    )
    assert "f.segment0" in reversed_program(loads, 2).functions
    writes = loads.replace("  yield %r", "  store %p, %r\n  yield %r")
    assert "f.segment0" not in reversed_program(writes, 2).functions


def test_a_segment_reports_once():
    text = """
    func @f(%x: f64, %n: i32) -> (f64) {
      %a = make %x, %x : [2 x f64]
      %r = for %n, %x : f64 (%i: i32, %s: f64) {
        %e = index %a, %i {check=true}
        %p = mul %e, %s
        %q = sin %p
        %w = add %q, %x
        yield %w
      }
      yield %r
    }
    """
    reports = Recorded()
    asking, entry = request(parse(text), "f", "vjp")
    made = differentiate(asking, inline_into, 2).program
    Machine(made, 0, reports).call(entry, (0.5, 5, 1.0))
    assert reports.bounds == [(2, 2), (3, 2), (4, 2)]
