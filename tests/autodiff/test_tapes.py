"""What reverse mode keeps, as code: tapes of loops, extra results of branches, counts; and what it computes again."""

from __future__ import annotations

import pytest

from slangrad.opt.simplify.dead import remove_dead
from tests.autodiff.calculus import check, differentiated, parse
from tests.ir.golden import numbered
from tests.ir.parse_text import parse_function

# What is shown, the function, its vjp, and where its derivatives are compared with differences.
CASES = [
    (
        "a `for` writes its state to a tape, at the number of the iteration",
        """
func @f(%x: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %y = mul %s, %s
    yield %y
  }
  yield %r
}
""",
        """
func @f.vjp(%x: f64, %n: i32, %dresult: f64, out %dx: f64) -> () {
  %0 = zero {written_first=true} : [? x f64]
  %r, %1 = for %n, %x, %0 : f64, [? x f64] (%i: i32, %s: f64, %s.1: [? x f64]) {
    %2 = set_index %s.1, %i, %s
    %y = mul %s, %s
    yield %y, %2
  }
  %3 = for %n, %dresult {reverse=true} : f64 (%i.1: i32, %ds: f64) {
    %s.2 = index %1, %i.1
    %4 = scale %s.2, %ds {masks_only=true}
    %5 = add %4, %4
    yield %5
  }
  yield %3
}
""",
        (1.1, 3),
    ),
    (
        "an arm gives the value that it needs as an extra result",
        """
func @f(%x: f64, %c: bool) -> (f64) {
  %r = if %c : f64 {
    %y = exp %x
    %z = mul %y, %y
    yield %z
  } {
    yield %x
  }
  yield %r
}
""",
        """
func @f.vjp(%x: f64, %c: bool, %dresult: f64, out %dx: f64) -> () {
  %y = if %c : f64 {
    %y.1 = exp %x
    yield %y.1
  } {
    %0 = const 0.0 : f64
    yield %0
  }
  %1 = if %c : f64 {
    %2 = scale %y, %dresult {masks_only=true}
    %3 = add %2, %2
    %4 = scale %y, %3 {masks_only=true}
    yield %4
  } {
    yield %dresult
  }
  yield %1
}
""",
        (0.4, True),
    ),
    (
        "the condition of an arm is computed from the tape again",
        """
func @f(%x: f64, %n: i32) -> (f64) {
  %zero = const 0.0 : f64
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %c = less %zero, %s
    %t = if %c : f64 {
      %y = sin %s
      yield %y
    } {
      yield %s
    }
    yield %t
  }
  yield %r
}
""",
        """
func @f.vjp(%x: f64, %n: i32, %dresult: f64, out %dx: f64) -> () {
  %0 = zero {written_first=true} : [? x f64]
  %zero = const 0.0 : f64
  %r, %1 = for %n, %x, %0 : f64, [? x f64] (%i: i32, %s: f64, %s.1: [? x f64]) {
    %2 = set_index %s.1, %i, %s
    %c = less %zero, %s
    %t = if %c : f64 {
      %y = sin %s
      yield %y
    } {
      yield %s
    }
    yield %t, %2
  }
  %3 = for %n, %dresult {reverse=true} : f64 (%i.1: i32, %ds: f64) {
    %s.2 = index %1, %i.1
    %c.1 = less %zero, %s.2
    %4 = if %c.1 : f64 {
      %5 = cos %s.2
      %6 = scale %5, %ds {masks_only=true}
      yield %6
    } {
      yield %ds
    }
    yield %4
  }
  yield %3
}
""",
        (0.9, 3),
    ),
    (
        "a `while` counts its iterations",
        """
func @f(%x: f64) -> (f64) {
  %big = const 100.0 : f64
  %r = while %x : f64 (%t: f64) {
    %go = less %t, %big
    yield %go
  } (%s: f64) {
    %y = mul %s, %s
    yield %y
  }
  yield %r
}
""",
        """
func @f.vjp(%x: f64, %dresult: f64, out %dx: f64) -> () {
  %0 = zero {written_first=true} : [? x f64]
  %big = const 100.0 : f64
  %1 = const 0 : u32
  %r, %trips, %2 = while %x, %1, %0 : f64, u32, [? x f64] (%t: f64, %trips.1: u32, %s: [? x f64]) {
    %go = less %t, %big
    yield %go
  } (%s.1: f64, %trips.2: u32, %s.2: [? x f64]) {
    %3 = const 1 : u32
    %4 = add %trips.2, %3
    %5 = set_index %s.2, %trips.2, %s.1
    %y = mul %s.1, %s.1
    yield %y, %4, %5
  }
  %6 = for %trips, %dresult {reverse=true} : f64 (%i: u32, %ds: f64) {
    %s.3 = index %2, %i
    %7 = scale %s.3, %ds {masks_only=true}
    %8 = add %7, %7
    yield %8
  }
  yield %6
}
""",
        (1.5,),
    ),
    (
        "loops of constant counts share a tape of fixed length",
        """
func @f(%x: f64) -> (f64) {
  %n = const 4 : u32
  %r = for %n, %x : f64 (%i: u32, %s: f64) {
    %q = for %n, %s : f64 (%j: u32, %u: f64) {
      %y = sin %u
      yield %y
    }
    yield %q
  }
  yield %r
}
""",
        """
func @f.vjp(%x: f64, %dresult: f64, out %dx: f64) -> () {
  %0 = zero {written_first=true} : [16 x f64]
  %n = const 4 : u32
  %r, %1 = for %n, %x, %0 : f64, [16 x f64] (%i: u32, %s: f64, %u: [16 x f64]) {
    %q, %2 = for %n, %s, %u : f64, [16 x f64] (%j: u32, %u.1: f64, %u.2: [16 x f64]) {
      %3 = mul %i, %n
      %4 = add %3, %j
      %5 = set_index %u.2, %4, %u.1
      %y = sin %u.1
      yield %y, %5
    }
    yield %q, %2
  }
  %6 = for %n, %dresult {reverse=true} : f64 (%i.1: u32, %ds: f64) {
    %7 = for %n, %ds {reverse=true} : f64 (%i.2: u32, %du: f64) {
      %8 = mul %i.1, %n
      %9 = add %8, %i.2
      %u.3 = index %1, %9
      %10 = cos %u.3
      %11 = scale %10, %du {masks_only=true}
      yield %11
    }
    yield %7
  }
  yield %6
}
""",
        (0.8,),
    ),
]


@pytest.mark.parametrize("before, after, at", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_vjp_of_a_function(before, after, at):
    derivatives, _ = differentiated(parse(before), "f", "vjp")
    vjp = remove_dead(derivatives.program.functions["f.vjp"])
    assert numbered(vjp) == numbered(parse_function(after))
    check(parse(before), "f", at, order=1)
