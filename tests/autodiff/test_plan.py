"""What is stored and what is recomputed, and how the stored values travel."""

import itertools
import random

import pytest

from slangrad.autodiff.checkpointing.minimum_cut import Network
from slangrad.autodiff.requests import differentiate
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Op, walk
from slangrad.ir.text.verify import DIFFERENTIATED, verify
from slangrad.opt.calls.inline import inline_into
from tests.autodiff import calculus
from tests.autodiff.calculus import check, differentiated, parse, request


def plan_of(text: str, residuals: str = "cut") -> tuple[Function, list[str], list[str]]:
    """The vjp of @f, and the names of what it keeps and of what it computes again."""
    asking, _ = request(parse(text), "f", "vjp")
    made = differentiate(asking, inline_into, 0, residuals)
    verify(made.program, DIFFERENTIATED)
    report = made.reports["f.vjp"]
    return (
        made.program.functions["f.vjp"],
        sorted(each.name for each in report.stored),
        sorted(each.name for each in report.recomputed),
    )


def loops(function: Function, name: str = "for") -> list[Op]:
    return [op for op in walk(function.region) if op.name == name]


SHARED_SOURCE = """
func @f(%x: f64, %n: i32) -> (f64) {ATTRIBUTES} {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %a = mul %s, %x
    %b = add %s, %x
    %c = sub %x, %s
    %u = sin %a
    %v = cos %b
    %w = tanh %c
    %p = mul %u, %v
    %q = mul %p, %w
    yield %q
  }
  yield %r
}
"""


@pytest.mark.parametrize(
    ("attributes", "stored", "recomputed"),
    [
        ("", ["s", "u", "v", "w"], ["a", "b", "c", "p"]),
        ('prefer="checkpoint"', ["a", "b", "c", "p", "s", "u", "v", "w"], []),
        ('prefer="recompute"', ["s"], ["a", "b", "c", "p", "u", "v", "w"]),
    ],
)
def test_three_cheap_values_cost_one_tape(attributes, stored, recomputed):
    text = SHARED_SOURCE.replace("{ATTRIBUTES}", f"{{{attributes}}}" if attributes else "")
    _, kept, again = plan_of(text)
    assert (kept, again) == (stored, recomputed)
    check(parse(text), "f", (0.4, 3), order=2)


READS = """
func @f(%x: f64, %p: ptr<f64, global>, %n: i32) -> (f64) {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %p0 = offset %p, %i
    %one = const 1 : i32
    %j = add %i, %one
    %p1 = offset %p, %j
    %a = load %p0 : f64
    %b = load %p1 : f64
    %c = add %a, %b
    %d = mul %s, %c
    %e = exp %d
    yield %e
  }
  yield %r
}
"""


@pytest.mark.parametrize(
    ("text", "residuals", "stored", "recomputed"),
    [
        (SHARED_SOURCE, "store", ["a", "b", "c", "p", "s", "u", "v", "w"], []),
        (SHARED_SOURCE, "recompute", ["s", "u", "v", "w"], ["a", "b", "c", "p"]),
        (READS, "cut", ["c", "e"], []),
        (READS, "store", ["c", "e"], []),
        (READS, "recompute", ["a", "b", "e"], ["c"]),
    ],
)
def test_fixed_rules(text, residuals, stored, recomputed, monkeypatch):
    text = text.replace("{ATTRIBUTES}", "")
    assert plan_of(text, residuals)[1:] == (stored, recomputed)
    if text is not READS:
        by_rule = lambda program, inline: differentiate(program, inline, 0, residuals)
        monkeypatch.setattr(calculus, "differentiate", by_rule)
        check(parse(text), "f", (0.4, 3), order=2)


def test_an_op_on_a_vector_costs_as_much_as_on_its_components():
    """To store three quotients costs more than to compute one again, but not than three."""
    text = """
    func @f(%x: f32x3, %n: i32) -> (f32x3) {
      %r = for %n, %x : f32x3 (%i: i32, %s: f32x3) {
        %a = mul %s, %s
        %q = div %x, %a
        %b = mul %q, %q
        yield %b
      }
      yield %r
    }
    """
    assert plan_of(text)[1:] == (["q", "s"], ["a"])
    assert plan_of(text.replace("f32x3", "f32"))[1:] == (["q", "s"], ["a"])


def test_indices_are_computed_again():
    """What is read at an index from a tape is read lane by lane; at one that follows from iterations, for all at once."""
    text = """
    func @f(%x: [4 x f64], %n: i32) -> (f64) {
      %3 = const 3 : i32
      %one = const 1.0 : f64
      %r = for %n, %one : f64 (%i: i32, %s: f64) {
        %a = mul %i, %i
        %b = add %a, %3
        %c = rem %b, %3
        %e = index %x, %c
        %t = mul %e, %s
        yield %t
      }
      yield %r
    }
    """
    _, kept, again = plan_of(text)
    assert kept == ["s"] and {"a", "b", "c", "e"} <= set(again)


COUNTERS = """
func @f(%x: f64, %n: i32) -> (f64) {
  %0 = const 0 : i32
  %2 = const 2 : i32
  %3 = const 3 : u8
  %250 = const 250 : u8
  %small = const 0.01 : f64
  %r, %i, %u, %w = LOOP : f64, i32, u8, i32 REGION
    %a = convert %i : f64
    %b = convert %u : f64
    %c = convert %w : f64
    %d = mul %a, %s
    %e = mul %b, %small
    %g = mul %d, %e
    %h = sin %g
    %k = mul %h, %c
    %l = mul %k, %x
    %m = cos %l
    %i.1 = sub %i, %2
    %u.1 = add %3, %u
    %w.1 = mul %w, %2
    yield %m, %i.1, %u.1, %w.1
  }
  yield %r
}
"""
STATE = "%s: f64, %i: i32, %u: u8, %w: i32) {"
TEST = f"({STATE} %m = sub %0, %n %go = less %m, %i yield %go }} ({STATE}"
COUNTED_LOOPS = {  # loop, the region's begin, whether numbers follow from the iteration
    "for": ("for %n, %x, %n, %250, %2", f"(%j: i32, {STATE}", True),
    "while": ("while %x, %n, %250, %2", TEST, True),
    "backwards": ("for %n, %x, %n, %250, %2 {reverse=true}", f"(%j: i32, {STATE}", False),
}


@pytest.mark.parametrize("kind", COUNTED_LOOPS)
def test_counters_follow_from_the_iteration(kind):
    """Up and down, around the end of the type; not those that are multiplied, or where iterations go backwards."""
    loop, region, follow = COUNTED_LOOPS[kind]
    text = COUNTERS.replace("LOOP", loop).replace("REGION", region)
    _, kept, again = plan_of(text)
    assert {"i", "u", "w"} & set(kept) == ({"w"} if follow else {"i", "u", "w"})
    assert {"a", "b", "c"} <= set(again)
    for count in (0, 1, 3):
        check(parse(text), "f", (0.4, count), order=2)


def test_a_loop_of_its_own_indexes_tapes_by_its_iteration():
    function, _, _ = plan_of(SHARED_SOURCE.replace("{ATTRIBUTES}", ""))
    forward, backward = loops(function)
    index = forward.regions[0].parameters[0]
    assert all(op.operands[1] is index for op in walk(forward.regions[0]) if op.name == "set_index")
    back = backward.regions[0].parameters[0]
    assert all(op.operands[1] is back for op in walk(backward.regions[0]) if op.name == "index")
    assert all(r.type is not t.U32 for r in forward.results)


NEST = """
func @f(%x: f64, %n: u32, %m: u32) -> (f64) {
  %two = const 2 : u32
  %one = const 1 : u32
  %three = add %two, %one
  %r = for OUTER, %x : f64 (%i: u32, %s: f64) {
    %k = add %m, %one
    %v = for INNER, %s : f64 (%j: u32, %q: f64) {
      %t = sin %q
      yield %t
    }
    yield %v
  }
  yield %r
}
"""


@pytest.mark.parametrize(
    ("outer", "inner", "tape", "carried"),
    [
        ("%two", "%three", [t.array(t.F64, 6)], [t.F64]),  # a fixed array, indexed by both loops
        ("%n", "%three", [t.array(t.F64, None)], [t.F64]),
        ("%n", "%m", [t.array(t.F64, None)], [t.F64]),
        ("%n", "%k", [t.array(t.F64, None)], [t.F64]),  # the same in each iteration, though computed in it
        ("%n", "%i", [t.array(t.F64, None), t.array(t.U32, None)], [t.F64, t.U32]),  # where runs begin
    ],
)
def test_positions_on_tapes(outer, inner, tape, carried):
    text = NEST.replace("OUTER", outer).replace("INNER", inner)
    function, _, _ = plan_of(text)
    forward = loops(function)[0]
    assert [r.type for r in forward.results if isinstance(r.type, t.Array)] == tape
    assert [r.type for r in forward.results if not isinstance(r.type, t.Array)] == carried
    check(parse(text), "f", (0.4, 3, 2), order=2)


def test_a_long_nest_of_constant_trips_has_a_growing_tape():
    text = NEST.replace("const 2 :", "const 300 :").replace("OUTER", "%two").replace("INNER", "%three")
    function, _, _ = plan_of(text)
    assert [r.type for r in loops(function)[0].results] == [t.F64, t.array(t.F64, None)]


def test_while_counts_its_trips_only_if_it_is_reversed():
    text = """
    func @f(%x: f64, %n: i32) -> (f64) {
      %zero = const 0 : i32
      %one = const 1 : i32
      %k = while %zero : i32 (%a: i32) {
        %go = less %a, %n
        yield %go
      } (%a.1: i32) {
        %b = add %a.1, %one
        yield %b
      }
      %r = while %x : f64 (%s: f64) {
        %big = less %x, %s
        yield %big
      } (%s.1: f64) {
        %h = sin %s.1
        yield %h
      }
      %kf = convert %k : f64
      %p = mul %r, %kf
      yield %p
    }
    """
    function, _, _ = plan_of(text)
    first, second = loops(function, "while")
    assert [r.type for r in first.results] == [t.I32]
    assert [r.type for r in second.results] == [t.F64, t.U32, t.array(t.F64, None)]
    (backward,) = loops(function)
    assert backward.operands[0] is second.results[1] and backward.attributes == {"reverse": True}


def test_values_of_an_arm_are_extra_results():
    function, kept, _ = plan_of("""
    func @f(%x: f64, %c: bool) -> (f64) {
      %r = if %c : f64 {
        %a = sin %x
        %b = cos %a
        %d = mul %a, %b
        yield %d
      } {
        yield %x
      }
      yield %r
    }
    """)
    forward, _ = loops(function, "if")
    assert kept == ["a", "b"]
    assert [r.type for r in forward.results] == [t.F64] * 3


def test_the_report_counts_bytes():
    made, _ = differentiated(parse(NEST.replace("OUTER", "%n").replace("INNER", "%i")), "f", "vjp")
    report = made.reports["f.vjp"]
    assert [(each.name, each.type, each.bytes, each.count) for each in report.stored] == [
        ("q", "f64", 8, None),
        ("base", "u32", 4, None),
    ]
    assert "stored      %q: f64, 8 bytes an iteration" in str(report)
    made, _ = differentiated(parse(NEST.replace("OUTER", "%two").replace("INNER", "%three")), "f", "vjp")
    assert [each.bytes_a_thread for each in made.reports["f.vjp"].stored] == [48]


def test_attributes_of_loops_and_branches_stay():
    function, _, _ = plan_of(
        SHARED_SOURCE.replace("{ATTRIBUTES}", "").replace("%n, %x :", "%n, %x {unroll=true} :")
    )
    forward, backward = loops(function)
    assert forward.attributes == {"unroll": True}
    assert backward.attributes == {"unroll": True, "reverse": True}


@pytest.mark.parametrize("seed", range(60))
def test_minimum_cut(seed):
    rng, network = random.Random(seed), Network()
    nodes = [Network.SOURCE, Network.SINK, *(network.node() for _ in range(rng.randint(0, 6)))]
    edges = []
    for _ in range(rng.randint(1, 20)):
        a, b = rng.sample(nodes, 2)
        edges.append((a, b, rng.randint(0, 9)))
        network.edge(*edges[-1])

    def price(side: set[int]) -> int:
        return sum(room for a, b, room in edges if a in side and b not in side)

    inner = [set(x) for k in range(len(nodes) - 1) for x in itertools.combinations(nodes[2:], k)]
    assert price(network.cut()) == min(price({Network.SOURCE} | side) for side in inner)
