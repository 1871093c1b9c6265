"""Branches and loops that lanes take differently, against the oracle; and which of them stay branches."""

import numpy as np
import pytest

from slangrad.ir.ops.core import walk
from slangrad.spmd.widen import widen
from tests.ir.parse_text import parse_program
from tests.llvm.machine import ALL_FEATURES, KERNEL, assert_like_oracle
from tests.spmd.kernels import program_of


def arguments(count: int) -> dict[str, object]:
    rng = np.random.default_rng(count)
    return {
        "n": 5,
        "x": rng.uniform(-2, 2, count).astype(np.float32),
        "k": rng.integers(-3, 9, count).astype(np.int32),
        "y": np.full(count, 7, np.float32),
        "z": np.full(count, 7, np.int32),
    }


# fmt: off
BODIES = {
    "cheap branch": """
  %c = less %x, %zero
  %r = if %c : f32 { %m = mul %x, %x yield %m } { %d = add %x, %one yield %d }
  store %y_at, %r""",
    "costly branch": """
  %c = less %x, %zero
  %r = if %c : f32 {
    %a = sqrt %x  %b = div %a, %x  %e = sqrt %b  %f = div %e, %a  %g = sqrt %f  %h = div %one, %g  yield %h
  } {
    %a = sqrt %x  %b = div %x, %a  %e = sqrt %b  %f = div %a, %e  %g = sqrt %f  %h = div %one, %g  yield %h
  }
  store %y_at, %r""",
    "stores in one arm": """
  %c = less %x, %zero
  if %c { store %y_at, %x store %z_at, %k yield } { yield }""",
    "a uniform branch": """
  %c = less %3, %n
  %r, %s = if %c : f32, i32 { %m = mul %x, %x yield %m, %n } { store %z_at, %k yield %x, %3 }
  store %y_at, %r
  %q = convert %s : f32
  store %y_at, %q""",
    "nested branches": """
  %c = less %x, %zero
  %r = if %c : f32 {
    %d = less %k, %3
    %q = if %d : f32 { store %z_at, %k yield %x } { store %z_at, %n %v = neg %x yield %v }
    yield %q
  } {
    %d = less %k, %0
    %q = if %d : f32 { yield %one } { store %y_at, %one yield %zero }
    yield %q
  }
  store %y_at, %r""",
    "equal yields": """
  %c = less %x, %zero
  %r, %s = if %c : f32, u32 { store %z_at, %k yield %x, %t } { yield %x, %t }
  %w = convert %s : f32
  %v = add %r, %w
  store %y_at, %v""",
    "for of uniform count": """
  %r, %s = for %n, %zero, %0 : f32, i32 (%i: i32, %a: f32, %b: i32) {
    %f = convert %i : f32  %m = mul %f, %x  %a2 = add %a, %m  %b2 = add %b, %i  yield %a2, %b2
  }
  store %y_at, %r
  store %z_at, %s""",
    "for of varying count": """
  %r, %s = for %k, %x, %0 : f32, i32 (%i: i32, %a: f32, %b: i32) {
    %f = convert %i : f32  %m = mul %f, %a  %a2 = add %x, %m  %b2 = add %b, %i  yield %a2, %b2
  }
  store %y_at, %r
  store %z_at, %s""",
    "reverse for of varying count": """
  %r = for %k, %x {reverse=true} : f32 (%i: i32, %a: f32) {
    %f = convert %i : f32  %m = mul %f, %a  %a2 = add %x, %m  store %z_at, %i  yield %a2
  }
  store %y_at, %r""",
    "for of unsigned varying count": """
  %m = and %k, %3
  %u = convert %m : u32
  %r = for %u, %x : f32 (%i: u32, %a: f32) { %a2 = mul %a, %x yield %a2 }
  store %y_at, %r""",
    "carried values that do not change": """
  %r, %u, %same = for %k, %x, %t, %n : f32, u32, i32 (%i: i32, %a: f32, %v: u32, %w: i32) {
    %f = convert %w : f32  %a2 = add %a, %f  yield %a2, %v, %w
  }
  %uf = convert %u : f32
  %q = add %r, %uf
  store %y_at, %q
  store %z_at, %same""",
    "strided carried values": """
  %r, %p = for %n, %zero, %x_at : f32, ptr<f32, global> (%i: i32, %a: f32, %at: ptr<f32, global>) {
    %v = load %at : f32
    %a2 = add %a, %v
    yield %a2, %at
  }
  store %y_at, %r""",
    "while": """
  %r, %s = while %x, %0 : f32, i32 (%a: f32, %b: i32) {
    %m = less %b, %k
    %l = less %a, %one
    %c = and %m, %l
    yield %c
  } (%a: f32, %b: i32) {
    %q = mul %a, %a  %a2 = add %q, %x  %b2 = add %b, %1  yield %a2, %b2
  }
  store %y_at, %r
  store %z_at, %s""",
    "uniform while": """
  %r, %s = while %x, %0 : f32, i32 (%a: f32, %b: i32) {
    %c = less %b, %n
    yield %c
  } (%a: f32, %b: i32) {
    %a2 = mul %a, %x  %b2 = add %b, %1  yield %a2, %b2
  }
  store %y_at, %r
  store %z_at, %s""",
    "flags for early exits": """
  %go = const true : bool
  %stop = const false : bool
  %r, %g, %s = while %zero, %go, %0 : f32, bool, i32 (%a: f32, %g: bool, %b: i32) {
    %m = less %b, %n
    %c = and %m, %g
    yield %c
  } (%a: f32, %g: bool, %b: i32) {
    %b2 = add %b, %1
    %e = equal %b, %k
    %a2, %g2 = if %e : f32, bool { store %z_at, %b yield %a, %stop } { %v = add %a, %x yield %v, %g }
    yield %a2, %g2, %b2
  }
  store %y_at, %r""",
    "loops in branches in loops": """
  %r = for %n, %x : f32 (%i: i32, %a: f32) {
    %c = less %i, %k
    %v = if %c : f32 {
      %w = while %a : f32 (%b: f32) { %l = less %b, %one yield %l } (%b: f32) {
        %h = abs %b  %g = add %h, %one  %q = mul %g, %one  yield %q
      }
      %s = for %k, %w : f32 (%j: i32, %d: f32) {
        %odd = and %j, %1
        %is = equal %odd, %1
        %d3 = if %is : f32 { store %z_at, %j yield %d } { %d2 = sub %d, %x yield %d2 }
        yield %d3
      }
      yield %s
    } { yield %x }
    yield %v
  }
  store %y_at, %r""",
    "division by zero in lanes that are off": """
  %c = not_equal %k, %0
  %q = if %c : i32 { %v = div %n, %k  %w = rem %n, %k  %u = add %v, %w  yield %u } { yield %3 }
  store %z_at, %q
  %all = div %k, %k
  %f = convert %all : f32
  store %y_at, %f""",
}
# fmt: on


@pytest.mark.parametrize("name", BODIES)
def test_like_the_oracle(name: str) -> None:
    program = program_of(BODIES[name])
    for count in (1, 37):
        assert_like_oracle(program, arguments(count), count)


@pytest.mark.parametrize("name", ["for of varying count", "while", "nested branches"])
def test_on_other_machines(name: str) -> None:
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(BODIES[name]), arguments(23), 23, lanes=(8, 16), cpus=cpus)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 255, 256, 257, 600])
def test_sizes(count: int) -> None:
    assert_like_oracle(program_of(BODIES["nested branches"]), arguments(count), count, lanes=(1, 16))


def test_rows_and_planes() -> None:
    """Waves are parts of rows: y and z are the same in all lanes."""
    program = parse_program("""
struct "Arguments" { z: ptr<u32, global> }
arguments struct "Arguments"
func @kernel() -> () {kernel=true} {
  %x = thread_id {axis=0} : u32
  %y = thread_id {axis=1} : u32
  %z = thread_id {axis=2} : u32
  %z_in = parameter {name="z"} : ptr<ptr<u32, global>, constant>
  %zs = load %z_in : ptr<u32, global>
  %19 = const 19 : u32
  %3 = const 3 : u32
  %a = mul %z, %3
  %b = add %a, %y
  %c = mul %b, %19
  %d = add %c, %x
  %at = offset %zs, %d
  %100 = const 100 : u32
  %e = mul %y, %100
  %f = add %e, %x
  %g = xor %f, %z
  store %at, %g
  yield
}
""")
    assert_like_oracle(program, {"z": np.zeros(19 * 3 * 4, np.uint32)}, (19, 3, 4))


def names_in(body: str) -> list[str]:
    full = widen(program_of(body).functions[KERNEL], 8).full
    assert full is not None
    return [op.name for op in walk(full.region)]


def test_cheap_branches_become_selects() -> None:
    names = names_in(BODIES["cheap branch"])
    assert "if" not in names and names.count("select") == 1


def test_costly_arms_are_skipped_when_no_lane_wants_them() -> None:
    names = names_in(BODIES["costly branch"])
    assert names.count("if") == 2 and names.count("lane_bits") == 2 and names.count("select") == 1


def test_uniform_control_flow_stays() -> None:
    assert names_in(BODIES["a uniform branch"]).count("if") == 1
    names = names_in(BODIES["for of uniform count"])
    assert names.count("for") == 1 and "lane_reduce" not in names and "select" not in names


def test_a_varying_for_runs_to_the_largest_count() -> None:
    names = names_in(BODIES["for of varying count"])
    assert names.count("lane_reduce") == 1 and names.count("for") == 1
