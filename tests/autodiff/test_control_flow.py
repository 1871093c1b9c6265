"""Derivatives through every shape of control flow, none of which needs an attribute."""

import pytest

from tests.autodiff.calculus import check, derivative, parse, run

BRANCH = """
func @f(%x: f64, %y: f64) -> (f64) {
  %c = less %x, %y
  %r, %s = if %c : f64, f64 {
    %a = mul %x, %x
    %b = mul %a, %y
    %inner = less %b, %x
    %d = if %inner : f64 {
      %e = sin %b
      yield %e
    } {
      %e = mul %b, %a
      yield %e
    }
    yield %d, %x
  } {
    %a = sin %x
    yield %a, %y
  }
  %z = mul %r, %s
  yield %z
}
"""


@pytest.mark.parametrize("point", [(0.3, 0.7), (0.9, 0.7), (1.5, 2.0), (-1.5, 2.0)])
def test_branches(point):
    check(parse(BRANCH), "f", point, order=3)


LOOP = """
func @f(%x: f64, %y: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %c = less %s, %y
    %u = if %c : f64 {
      %a = sin %s
      %b = mul %a, %y
      yield %b
    } {
      %b = mul %s, %s
      yield %b
    }
    %k = convert %i : f64
    %v = mul %s, %k
    %w = add %u, %v
    %t = sin %w
    yield %t
  }
  %z = mul %r, %x
  yield %z
}
"""


@pytest.mark.parametrize("trips", [-3, 0, 1, 2, 5])
def test_loop_with_run_time_trips(trips):
    check(parse(LOOP), "f", (0.9, 0.6, trips), order=2)
    check(parse(LOOP.replace("%n, %x :", "%n, %x {reverse=true} :")), "f", (0.9, 0.6, trips), order=2)


@pytest.mark.parametrize("type", ["i8", "u16", "u32", "i64", "u64"])
def test_index_types(type):
    check(parse(LOOP.replace("i32", type)), "f", (0.9, 0.6, 4))
    check(parse(UNEVEN.replace("i32", type)), "f", (0.9, 4))


def test_third_order_through_a_loop():
    check(parse(LOOP), "f", (0.9, 0.6, 3), order=3)


def test_loop_with_constant_trips():
    constant = LOOP.replace("for %n", "for %k0").replace(") {\n  %r", ") {\n  %k0 = const 4 : i32\n  %r", 1)
    check(parse(constant), "f", (0.9, 0.6, 0), order=3)


UNEVEN = """
func @f(%x: f64, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %u = sin %s
    %v = for %i, %u : f64 (%j: i32, %q: f64) {
      %w = mul %q, %u
      %z = cos %w
      yield %z
    }
    %t = mul %v, %s
    %o = add %t, %x
    yield %o
  }
  yield %r
}
"""


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_inner_trips_that_differ(trips):
    check(parse(UNEVEN), "f", (0.7, trips), order=2)


def test_third_order_through_uneven_loops():
    check(parse(UNEVEN), "f", (0.7, 3), order=3)


def test_inner_count_may_be_negative():
    text = UNEVEN.replace("for %i, %u", "for %less, %u")
    text = text.replace("%u = sin", "%two = const 2 : i32\n%less = sub %i, %two\n%u = sin")
    check(parse(text), "f", (0.7, 5), order=2)


NINE_BY_TWO = """
func @f(%x: f64) -> (f64) {
  %nine = const 9 : i32
  %two = const 2 : i32
  %r = for %nine, %x : f64 (%i: i32, %s: f64) {
    %v = for %two, %s : f64 (%j: i32, %q: f64) {
      %t = tanh %q
      yield %t
    }
    yield %v
  }
  yield %r
}
"""


def test_nine_times_two():
    check(parse(NINE_BY_TWO), "f", (0.8,), order=3)


DEEP = """
func @f(%x: f64, %y: f64, %n: i32, %m: i32) -> (f64) {
  %zero = const 0 : i32
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %even = const 1 : i32
    %bit = and %i, %even
    %c = equal %bit, %zero
    %b = if %c : f64 {
      %v = for %m, %s : f64 (%j: i32, %q: f64) {
        %d = less %q, %y
        %e = if %d : f64 {
          %k = for %j, %q : f64 (%l: i32, %p: f64) {
            %g = mul %p, %y
            %h = cos %g
            yield %h
          }
          %o = mul %k, %q
          yield %o
        } {
          %o = sin %q
          yield %o
        }
        %w = mul %e, %s
        yield %w
      }
      yield %v
    } {
      %v = sin %s
      %w = mul %v, %v
      yield %w
    }
    %t = add %b, %s
    yield %t
  }
  yield %r
}
"""


@pytest.mark.parametrize("trips", [(4, 3), (3, 4), (1, 3), (4, 0)])
def test_loops_inside_branches_inside_loops(trips):
    check(parse(DEEP), "f", (0.5, 0.6, *trips), order=2)


WHILE = """
func @f(%x: f64, %y: f64, %limit: i32) -> (f64) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %k, %r = while %zero, %x : i32, f64 (%k.0: i32, %s: f64) {
    %more = less %k.0, %limit
    %two = const 2.0 : f64
    %small = less %s, %two
    %go = and %more, %small
    yield %go
  } (%k.1: i32, %s.1: f64) {
    %a = mul %s.1, %y
    %b = add %a, %x
    %c = mul %b, %b
    %n = add %k.1, %one
    yield %n, %c
  }
  %z = mul %r, %y
  yield %z
}
"""


@pytest.mark.parametrize("limit", [0, 1, 3, 50])
def test_while(limit):
    check(parse(WHILE), "f", (0.6, 0.7, limit), order=2)


def test_third_order_through_a_while():
    check(parse(WHILE), "f", (0.6, 0.7, 3), order=3)


BREAK = """
func @f(%x: f64, %y: f64) -> (f64) {
  %true = const true : bool
  %one = const 1.0 : f64
  %on, %r, %t = while %true, %x, %one : bool, f64, f64 (%on.0: bool, %s: f64, %p: f64) {
    yield %on.0
  } (%on.1: bool, %s.1: f64, %p.1: f64) {
    %a = mul %s.1, %y
    %b = add %a, %s.1
    %c = less %b, %one
    %q = mul %p.1, %b
    %rest = if %c : f64 {
      %d = sin %b
      %e = add %d, %b
      yield %e
    } {
      yield %b
    }
    yield %c, %rest, %q
  }
  %z = mul %r, %t
  yield %z
}
"""


@pytest.mark.parametrize("x", [0.05, 0.2, 0.4, 1.5])
def test_break_reverses_what_ran_before_it(x):
    check(parse(BREAK), "f", (x, 0.3), order=2)


WHILE_IN_FOR = """
func @f(%x: f64, %y: f64, %n: u32) -> (f64) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %r = for %n, %x : f64 (%i: u32, %s: f64) {
    %k, %v = while %zero, %s : i32, f64 (%k.0: i32, %q: f64) {
      %w = mul %q, %q
      %big = less %y, %w
      yield %big
    } (%k.1: i32, %q.1: f64) {
      %h = mul %q.1, %y
      %g = tanh %h
      %k.2 = add %k.1, %one
      yield %k.2, %g
    }
    %kf = convert %k : f64
    %up = mul %v, %kf
    %o = add %up, %x
    %e = mul %o, %v
    %d = add %e, %y
    yield %d
  }
  yield %r
}
"""


@pytest.mark.parametrize("n", [0, 1, 4])
def test_while_in_for(n):
    check(parse(WHILE_IN_FOR), "f", (1.9, 0.8, n), order=2)


FOR_IN_WHILE = """
func @f(%x: f64, %y: f64, %n: i32) -> (f64) {
  %three = const 3 : i32
  %five = const 5.0 : f64
  %r, %c = while %x, %y : f64, f64 (%s: f64, %t: f64) {
    %go = less %s, %five
    yield %go
  } (%s.1: f64, %t.1: f64) {
    %v = for %three, %s.1 : f64 (%i: i32, %q: f64) {
      %m = mul %q, %t.1
      %w = for %n, %m : f64 (%j: i32, %p: f64) {
        %u = sin %p
        %l = mul %u, %q
        yield %l
      }
      %a = add %w, %q
      yield %a
    }
    %one = const 1.0 : f64
    %b = sin %v
    %d = add %b, %one
    %h = add %d, %s.1
    %e = add %h, %one
    %g = sin %t.1
    yield %e, %g
  }
  %z = mul %r, %c
  yield %z
}
"""


@pytest.mark.parametrize("n", [0, 2])
def test_for_in_while(n):
    check(parse(FOR_IN_WHILE), "f", (0.6, 0.7, n), order=2, tolerance=1e-4)


WHILE_IN_WHILE = """
func @f(%x: f64, %y: f64) -> (f64) {
  %half = const 0.5 : f64
  %ten = const 4.0 : f64
  %r = while %x : f64 (%s: f64) {
    %go = less %s, %ten
    yield %go
  } (%s.1: f64) {
    %v = while %s.1 : f64 (%q: f64) {
      %go = less %half, %q
      yield %go
    } (%q.1: f64) {
      %m = mul %q.1, %y
      %w = sin %m
      yield %w
    }
    %a = mul %v, %y
    %b = mul %s.1, %s.1
    %c = add %a, %b
    %d = add %c, %half
    yield %d
  }
  yield %r
}
"""


@pytest.mark.parametrize("x", [0.2, 0.9, 3.0, 5.0])
def test_while_in_while(x):
    check(parse(WHILE_IN_WHILE), "f", (x, 0.8), order=2, tolerance=1e-4)


FIBONACCI = """
func @f(%x: f64, %y: f64, %n: i32) -> (f64) {
  %a, %b, %same, %twice = for %n, %x, %y, %x, %y : f64, f64, f64, f64
      (%i: i32, %p: f64, %q: f64, %kept: f64, %other: f64) {
    %s = mul %p, %q
    %t = add %s, %x
    yield %q, %t, %kept, %t
  }
  %u = mul %a, %b
  %v = mul %u, %same
  %w = mul %v, %twice
  yield %w
}
"""


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_carried_values_that_swap_stay_and_repeat(n):
    check(parse(FIBONACCI), "f", (0.9, 0.8, n), order=2)


def test_carried_value_is_also_used_after_the_loop():
    program = parse("""
    func @f(%x: f64, %n: i32, out %v: f64x2) -> (f64) {
      %r = for %n, %x : f64 (%i: i32, %s: f64) {
        %t = sin %s
        %u = add %t, %s
        yield %u
      }
      %m = make %r, %r : f64x2
      %k = splat %r : f64x2
      %w = mul %m, %k
      yield %r, %w
    }
    """)
    check(program, "f", (0.4, 3), order=2)


EARLY_RETURN = """
func @f(%x: f64, %y: f64, %n: i32) -> (f64) {
  %false = const false : bool
  %zero = const 0.0 : f64
  %done, %result, %r = for %n, %false, %zero, %x : bool, f64, f64
      (%i: i32, %done.0: bool, %result.0: f64, %s: f64) {
    %done.1, %result.1, %s.1 = if %done.0 : bool, f64, f64 {
      yield %done.0, %result.0, %s
    } {
      %a = mul %s, %y
      %limit = const 1.5 : f64
      %over = less %limit, %a
      %d, %e, %g = if %over : bool, f64, f64 {
        %true = const true : bool
        %h = mul %a, %x
        yield %true, %h, %s
      } {
        %h = mul %a, %a
        %k = add %h, %s
        yield %false, %result.0, %k
      }
      yield %d, %e, %g
    }
    yield %done.1, %result.1, %s.1
  }
  %z = if %done : f64 {
    yield %result
  } {
    %w = sin %r
    yield %w
  }
  yield %z
}
"""


@pytest.mark.parametrize("n", [0, 2, 3, 9])
def test_early_return_as_flags(n):
    check(parse(EARLY_RETURN), "f", (0.8, 0.9, n), order=2)


def test_nothing_depends_on_the_input():
    program = parse(
        "func @f(%x: f64) -> (f64) {\n %c = const 2.0 : f64\n %r = floor %x\n %s = add %r, %c\n yield %s\n}"
    )
    assert derivative(program, "f", "jvp", (1.5, 1.0)) == (3.0, 0.0)
    assert derivative(program, "f", "vjp", (1.5, 1.0)) == (0.0,)


def test_input_is_the_result():
    program = parse("func @f(%x: f64, %n: i32) -> (f64) {\n yield %x\n}")
    assert derivative(program, "f", "jvp", (1.5, 1, 2.0)) == (1.5, 2.0)
    assert derivative(program, "f", "vjp", (1.5, 1, 2.0)) == (2.0,)


def test_detach_and_integers_cut():
    program = parse("""
    func @f(%x: f64) -> (f64) {
      %d = detach %x
      %i = convert %x : i32
      %k = convert %i : f64
      %a = mul %d, %x
      %b = mul %a, %k
      yield %b
    }
    """)
    assert run(program, "f", (2.5,)) == (12.5,)
    assert derivative(program, "f", "jvp", (2.5, 1.0)) == (12.5, 5.0)
    assert derivative(program, "f", "vjp", (2.5, 1.0)) == (5.0,)


def test_inactive_parameters_and_results():
    program = parse("""
    func @f(%x: f64, no_diff %y: f64, out no_diff %z: f64, inout %w: f64) -> (f64) {
      %a = mul %x, %y
      %b = mul %a, %w
      %c = mul %b, %b
      yield %a, %c, %b
    }
    """)
    x, y, w = 1.5, 2.0, 0.5
    assert derivative(program, "f", "jvp", (x, y, w, 1.0, 0.0)) == (3.0, 2.25, 1.5, 2.0, 1.0)
    assert derivative(program, "f", "vjp", (x, y, w, 1.0, 10.0)) == (2.0 + 10.0, 30.0)
    check(program, "f", (x, y, w), order=2)
