"""Arrays in memory: what is changed in place, what is copied, and that old versions stay what they were."""

import pytest

from slangrad.flatten.arrays import flatten_arrays
from slangrad.ir.ops.core import Program, walk
from slangrad.ir.oracle.interpret import evaluate
from slangrad.ir.text.verify import FLAT, verify
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_function


def run(function, *inputs):
    return evaluate(Program({function.name: function}), function.name, inputs)


def counts(text):
    """How many slots and copies of tapes the flat function has; it must compute the same."""
    before = parse_function(text)
    after = flatten_arrays(before)
    verify(Program({after.name: after}), FLAT)
    for inputs in ((0, 1.5), (1, 2.5), (3, -1.0), (6, 0.5)):
        assert run(before, *inputs) == run(after, *inputs)
    names = [op.name for op in walk(after.region)]
    return names.count("alloc"), names.count("tape_new"), names.count("tape_copy")


def test_a_chain_of_versions_is_one_slot():
    before = """
    func @f(%i: u32, %x: f32) -> (f32) {
      %seven = const 7 : u32
      %k = and %i, %seven
      %a = make %x, %x : [2 x f32]
      %b = set_index %a, %k, %x
      %c = set %b, %x {index=1}
      %y = index %c, %k
      yield %y
    }"""
    after = """
    func @f(%i: u32, %x: f32) -> (f32) {
      %seven = const 7 : u32
      %k = and %i, %seven
      %a = alloc {count=2, zero=false} : ptr<f32, local>
      %zero = const 0 : u32
      %a0 = offset %a, %zero
      store %a0, %x
      %one = const 1 : u32
      %a1 = offset %a, %one
      store %a1, %x
      %two = const 2 : u32
      %in = less %k, %two
      %safe = min %k, %one
      if %in {
        %ak = offset %a, %safe
        store %ak, %x
        yield
      } {
        yield
      }
      store %a1, %x
      %as = offset %a, %safe
      %v = load %as : f32
      %none = const 0.0 : f32
      %y = select %in, %v, %none
      yield %y
    }"""
    assert_becomes(flatten_arrays, before, after)


def test_proven_indices_are_not_compared():
    before = """
    func @f(%i: u32, %x: f32) -> (f32) {
      %one = const 1 : u32
      %k = and %i, %one
      %a = make %x, %x : [2 x f32]
      %y = index %a, %k
      yield %y
    }"""
    assert [op.name for op in flatten_arrays(parse_function(before)).region.ops][-2:] == ["offset", "load"]


LOOPS = {
    "in place": """
      %a = zero : [4 x f32]
      %r = for %n, %a : [4 x f32] (%i: i32, %p: [4 x f32]) {
        %k = convert %i : u32
        %q = set_index %p, %k, %x
        yield %q
      }
      %y = index %r, %one
      yield %y""",
    "an old version is needed": """
      %a = make %x, %x, %x, %x : [4 x f32]
      %b = set %a, %two {index=1}
      %r = for %n, %b : [4 x f32] (%i: i32, %p: [4 x f32]) {
        %k = convert %i : u32
        %q = set_index %p, %k, %x
        %old = index %p, %k
        %s = set_index %q, %one, %old
        yield %s
      }
      %u = index %a, %one
      %v = index %r, %one
      %y = add %u, %v
      yield %y""",
    "swapped": """
      %a = make %x, %two, %x, %two : [4 x f32]
      %b = make %two, %x, %x, %x : [4 x f32]
      %r, %s = for %n, %a, %b : [4 x f32], [4 x f32] (%i: i32, %p: [4 x f32], %q: [4 x f32]) {
        %k = convert %i : u32
        %t = set_index %p, %k, %two
        yield %q, %t
      }
      %u = index %r, %one
      %v = index %s, %one
      %w = mul %u, %two
      %y = add %w, %v
      yield %y""",
    "one start twice": """
      %a = make %x, %two, %x, %two : [4 x f32]
      %r, %s = for %n, %a, %a : [4 x f32], [4 x f32] (%i: i32, %p: [4 x f32], %q: [4 x f32]) {
        %k = convert %i : u32
        %t = set_index %p, %k, %two
        yield %t, %q
      }
      %u = index %r, %one
      %v = index %s, %one
      %w = mul %u, %two
      %y = add %w, %v
      yield %y""",
    "begun anew": """
      %a = make %x, %two, %x, %two : [4 x f32]
      %r = for %n, %a : [4 x f32] (%i: i32, %p: [4 x f32]) {
        %k = convert %i : u32
        %z = zero : [4 x f32]
        %v = index %p, %k
        %t = add_index %z, %k, %v
        yield %t
      }
      %y = index %r, %one
      yield %y""",
    "while": """
      %a = make %x, %two, %x, %two : [4 x f32]
      %m, %r = while %n, %a : i32, [4 x f32] (%c: i32, %p: [4 x f32]) {
        %k = convert %c : u32
        %t = set_index %p, %one, %two
        %e = index %t, %one
        %f = index %p, %one
        %same = equal %e, %f
        %positive = less %none, %c
        %go = or %same, %positive
        %on = and %go, %positive
        yield %on
      } (%d: i32, %q: [4 x f32]) {
        %j = convert %d : u32
        %g = add_index %q, %j, %two
        %less = sub %d, %single
        yield %less, %g
      }
      %y = index %r, %one
      yield %y""",
    "a branch in a loop": """
      %a = zero : [4 x f32]
      %r = for %n, %a : [4 x f32] (%i: i32, %p: [4 x f32]) {
        %k = convert %i : u32
        %odd = rem %i, %pair
        %c = equal %odd, %none
        %q = if %c : [4 x f32] {
          %s = set_index %p, %k, %x
          yield %s
        } {
          yield %p
        }
        yield %q
      }
      %y = index %r, %one
      yield %y""",
}
EXPECTED = {  # slots, new tapes, copied tapes
    "in place": (1, 0, 0),
    "an old version is needed": (3, 0, 0),
    "swapped": (3, 0, 0),
    "one start twice": (2, 0, 0),
    "begun anew": (2, 0, 0),
    "while": (2, 0, 0),
    "a branch in a loop": (1, 0, 0),
}
CONSTANTS = """
      %one = const 1 : u32
      %zero = const 0 : u32
      %none = const 0 : i32
      %single = const 1 : i32
      %pair = const 2 : i32
      %two = const 2.0 : f32"""


def whole(body):
    return f"func @f(%n: i32, %x: f32) -> (f32) {{ {CONSTANTS} {body} }}"


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    assert counts(whole(LOOPS[name])) == EXPECTED[name]


BRANCHES = {
    "both arms change it": (
        1,
        """
      %a = make %x, %x : [2 x f32]
      %c = less %none, %n
      %r = if %c : [2 x f32] {
        %b = set %a, %two {index=0}
        yield %b
      } {
        %b2 = set %a, %two {index=1}
        yield %b2
      }
      %y = index %r, %one
      yield %y""",
    ),
    "needed afterwards": (
        2,
        """
      %a = make %x, %x : [2 x f32]
      %c = less %none, %n
      %r = if %c : [2 x f32] {
        %b = set %a, %two {index=1}
        yield %b
      } {
        yield %a
      }
      %u = index %r, %one
      %v = index %a, %one
      %y = sub %u, %v
      yield %y""",
    ),
    "made in the arms": (
        1,
        """
      %c = less %none, %n
      %z = zero : [2 x f32]
      %r = if %c : [2 x f32] {
        %b = set_index %z, %one, %two
        yield %b
      } {
        %inner = if %c : [2 x f32] {
          yield %z
        } {
          %m = make %two, %x : [2 x f32]
          yield %m
        }
        yield %inner
      }
      %y = index %r, %one
      yield %y""",
    ),
    "one version for two results": (
        2,
        """
      %c = less %none, %n
      %a = make %x, %x : [2 x f32]
      %r, %s = if %c : [2 x f32], [2 x f32] {
        yield %a, %a
      } {
        %b = set_index %a, %one, %two
        yield %b, %b
      }
      %t = set_index %r, %one, %x
      %u = index %t, %one
      %v = index %s, %one
      %y = sub %u, %v
      yield %y""",
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name):
    slots, body = BRANCHES[name]
    assert counts(whole(body)) == (slots, 0, 0)


TAPES = {
    "one tape": (
        (0, 1, 0),
        """
      %t = zero : [? x f32]
      %full = for %n, %t : [? x f32] (%i: i32, %p: [? x f32]) {
        %k = convert %i : u32
        %xk = convert %i : f32
        %q = set_index %p, %k, %xk
        yield %q
      }
      %y = index %full, %one
      yield %y""",
    ),
    "tapes of tapes": (
        (0, 2, 0),
        """
      %t = zero : [? x [? x f32]]
      %e = zero : [? x f32]
      %outer = for %n, %t : [? x [? x f32]] (%i: i32, %p: [? x [? x f32]]) {
        %inner = for %i, %e : [? x f32] (%j: i32, %q: [? x f32]) {
          %k = convert %j : u32
          %xk = convert %i : f32
          %q2 = set_index %q, %k, %xk
          yield %q2
        }
        %m = convert %i : u32
        %p2 = set_index %p, %m, %inner
        yield %p2
      }
      %three = const 3 : u32
      %row = index %outer, %three
      %y = index %row, %one
      yield %y""",
    ),
    "made in an arm": (
        (0, 1, 0),
        """
      %e = zero : [? x f32]
      %c = less %none, %n
      %t = if %c : [? x f32] {
        %full = for %n, %e : [? x f32] (%i: i32, %p: [? x f32]) {
          %k = convert %i : u32
          %q = set_index %p, %k, %x
          yield %q
        }
        yield %full
      } {
        yield %e
      }
      %y = index %t, %one
      yield %y""",
    ),
    "an element that is changed afterwards": (
        (0, 2, 1),
        """
      %t = zero : [? x [? x f32]]
      %e = zero : [? x f32]
      %a = set_index %e, %one, %x
      %u = set_index %t, %zero, %a
      %b = set_index %a, %one, %two
      %row = index %u, %zero
      %v = index %row, %one
      %w = index %b, %one
      %y = sub %v, %w
      yield %y""",
    ),
    "an element that is changed in the next iteration": (
        (0, 1, 1),
        """
      %t = zero : [? x [? x f32]]
      %e = zero : [? x f32]
      %u, %v = for %n, %t, %e : [? x [? x f32]], [? x f32] (%i: i32, %p: [? x [? x f32]], %q: [? x f32]) {
        %k = convert %i : u32
        %xk = convert %i : f32
        %q2 = set_index %q, %zero, %xk
        %p2 = set_index %p, %k, %q2
        yield %p2, %q2
      }
      %row = index %u, %one
      %y = index %row, %zero
      yield %y""",
    ),
    "swapped": (
        (0, 2, 0),
        """
      %e = zero : [? x f32]
      %a = set_index %e, %one, %x
      %b = set_index %e, %one, %two
      %u, %v = for %n, %a, %b : [? x f32], [? x f32] (%i: i32, %p: [? x f32], %q: [? x f32]) {
        %p2 = add_index %p, %one, %two
        yield %q, %p2
      }
      %f = index %u, %one
      %g = index %v, %one
      %h = mul %f, %two
      %y = add %g, %h
      yield %y""",
    ),
    "an old version is needed": (
        (0, 1, 1),
        """
      %e = zero : [? x f32]
      %a = set_index %e, %one, %x
      %b = set_index %a, %one, %two
      %f = index %a, %one
      %g = index %b, %one
      %y = sub %f, %g
      yield %y""",
    ),
    "a branch between two tapes": (
        (0, 2, 1),
        """
      %e = zero : [? x f32]
      %a = set_index %e, %one, %x
      %b = set_index %e, %one, %two
      %c = less %none, %n
      %t = if %c : [? x f32] { yield %a } { yield %b }
      %u = set_index %t, %zero, %two
      %f = index %u, %one
      %g = index %a, %zero
      %y = sub %f, %g
      yield %y""",
    ),
}


@pytest.mark.parametrize("name", TAPES)
def test_tapes(name):
    expected, body = TAPES[name]
    assert counts(whole(body)) == expected


FREED = {  # the regions that free a tape
    "of an iteration": (
        ["for"],
        """
      %r = for %n, %x : f32 (%i: i32, %v: f32) {
        %e = zero : [? x f32]
        %t = for %n, %e : [? x f32] (%j: i32, %p: [? x f32]) {
          %k = convert %j : u32
          %q = set_index %p, %k, %v
          yield %q
        }
        %w = index %t, %one
        %s = add %v, %w
        yield %s
      }
      yield %r""",
    ),
    "of an arm": (
        ["if"],
        """
      %c = less %none, %n
      %r = if %c : f32 {
        %e = zero : [? x f32]
        %t = set_index %e, %one, %x
        %y = index %t, %one
        yield %y
      } { yield %x }
      yield %r""",
    ),
    "handed on": (
        [],
        """
      %e = zero : [? x f32]
      %t = for %n, %e : [? x f32] (%i: i32, %p: [? x f32]) {
        %f = set_index %e, %one, %x
        %z = index %p, %one
        %g = set_index %f, %zero, %z
        yield %g
      }
      %y = index %t, %zero
      yield %y""",
    ),
    "elements": ([], TAPES["tapes of tapes"][1]),
    "of the function": ([], TAPES["one tape"][1]),
}


@pytest.mark.parametrize("name", FREED)
def test_tapes_are_freed_where_nobody_has_them_any_more(name):
    expected, body = FREED[name]
    assert counts(whole(body))
    flat = flatten_arrays(parse_function(whole(body)))
    freed = [
        op.name for op in walk(flat.region) for r in op.regions if r.ops and r.ops[-1].name == "tape_free"
    ]
    assert freed == expected
    assert sum(op.name == "tape_free" for op in walk(flat.region)) == len(expected)


def test_what_is_written_first_is_not_cleared():
    body = """
      %a = zero {written_first=true} : [100 x f32]
      %t = zero {written_first=true} : [? x f32]
      %k = convert %n : u32
      %b = set_index %a, %k, %x
      %u = set_index %t, %k, %two
      %f = index %b, %k
      %g = index %u, %k
      %y = sub %f, %g
      yield %y"""
    assert counts(whole(body)) == (1, 1, 0)
    flat = flatten_arrays(parse_function(whole(body)))
    made = {op.name: op.attributes for op in walk(flat.region) if op.name in ("alloc", "tape_new")}
    assert made == {
        "alloc": {"count": 100, "zero": False, "written_first": True},
        "tape_new": {"written_first": True},
    }


def test_negative_positions_of_tapes_are_dropped():
    body = """
      %e = zero : [? x f32]
      %k = sub %n, %pair
      %a = set_index %e, %k, %x
      %y = index %a, %k
      yield %y"""
    function = parse_function(whole(body))
    flat = flatten_arrays(function)
    assert run(flat, 3, 1.5) == (1.5,)
    assert run(flat, 1, 1.5) == (0.0,)
    assert [op.name for op in flat.region.ops if op.name == "if"] == ["if"]


def test_long_arrays_are_copied_by_loops():
    body = """
      %a = zero : [100 x f32]
      %k = convert %n : u32
      %b = set_index %a, %k, %x
      %c = set_index %b, %k, %two
      %f = index %b, %k
      %g = index %c, %k
      %y = sub %f, %g
      yield %y"""
    assert counts(whole(body)) == (2, 0, 0)
    assert [op.name for op in flatten_arrays(parse_function(whole(body))).region.ops].count("for") == 1
