"""Where addresses come from and go, in one kernel with all that can happen to them."""

import pytest

from slangrad.ir.analyses.addresses import NonEscapingMemory, Roots, leads_to_variables, path_of, root_of
from slangrad.ir.ops.core import walk
from tests.ir.parse_text import parse_program

KERNEL = """
struct "Pair" {{ x: f32, rest: [3 x f32] }}
struct "Link" {{ next: ptr<f32, global> }}
arguments struct "Link"
func @kernel() -> () {{
  %given = parameter {{name="next"}} : ptr<ptr<f32, global>, constant>
  %p = load %given : ptr<f32, global>
  %c = const true : bool
  %two = const 2 : i32
  %i = thread_id {{axis=0}} : i32
  %f = const 1.0 : f32
  {body}
  yield
}}
"""
CHOSEN = """
  %pair = bitcast %p : ptr<struct "Pair", global>
  %rest = member %pair {index=1}
  %first = bitcast %rest : ptr<f32, global>
  %n = zero : ptr<f32, global>
  %q = if %c : ptr<f32, global> { %far = offset %first, %two  %a = offset %far, %i  yield %a } { yield %n }
  %r = offset %q, %two
"""


def region(body: str):
    made = parse_program(KERNEL.format(body=body)).functions["kernel"].region
    return made, {v.hint: v for op in walk(made) for v in op.results}


def test_places():
    made, named = region(CHOSEN)
    made_by = made.makers.get
    assert root_of(named["r"], made_by) is named["q"]
    assert root_of(named["a"], made_by) is named["p"]
    assert path_of(named["r"], made_by).distance == 8
    place = path_of(named["r"], made_by, choices=True)
    assert (place.root, place.distance, place.steps) == (named["p"], 8 + 8 + 4, ((named["i"], 4),))
    assert [op.operands for op in place.choices] == [(named["c"],)]


def test_local_memory():
    made, named = region("""
      %a = alloc {count=8} : ptr<f32, local>  %x = offset %a, %i  store %x, %f
      %b = alloc {count=8} : ptr<f32, local>  %y = offset %b, %i  %z = if %c : ptr<f32, local> { yield %y } { yield %b }
    """)
    memory = NonEscapingMemory(made)
    assert memory.of(named["x"]) is memory.of(named["a"]) is named["a"]
    assert {memory.of(named[each]) for each in ("b", "y", "z", "p")} == {None}


LEADING = {
    "%v = variable : ptr<f32, global>  %q = offset %v, %i": {"v", "q"},
    "%v = variable : ptr<f32, global>  %q = if %c : ptr<f32, global> { yield %p } { yield %v }": {"v", "q"},
    "%v = variable : ptr<f32, global>  %n = bitcast %v : u64  %q = bitcast %n : ptr<f32, global>": {"v"},
    """%v = variable : ptr<f32, global>
    %q = for %two, %p : ptr<f32, global> (%k: i32, %m: ptr<f32, global>) { %o = offset %m, %k  yield %v }""": {"v", "q", "m", "o"},
    """%v = variable : ptr<f32, global>  %h = variable : ptr<struct "Link", global>
    %m = member %h {index=0}  %q = load %m : ptr<f32, global>""": {"v", "h", "m"},
    """%v = variable : ptr<f32, global>  %h = variable : ptr<struct "Link", global>
    %m = member %h {index=0}  store %m, %v  %q = load %m : ptr<f32, global>""": {"v", "h", "m", "q"},
    """%v = variable : ptr<f32, global>  %h = variable : ptr<ptr<f32, global>, global>  store %h, %v
    %m = variable : ptr<ptr<ptr<f32, global>, global>, global>  store %m, %h
    %o = load %m : ptr<ptr<f32, global>, global>  %q = load %o : ptr<f32, global>""": {"v", "h", "m", "o", "q"},
}  # fmt: skip


@pytest.mark.parametrize("body", LEADING)
def test_what_may_lead_to_a_variable(body):
    made, _ = region(body)
    found = leads_to_variables(made)
    assert {value.hint for value in found} == LEADING[body]
    assert {found[value].hint for value in found} <= {"v", "h", "m"}


def test_steps_are_taken_once():
    """A pointer that moves on after each of many accesses."""
    moves = "".join(f"%p{i + 1} = offset %p{i}, %i  " for i in range(300))
    made, named = region("%p0 = load %given : ptr<f32, global>  " + moves)
    asked = []
    roots = Roots(lambda value: asked.append(value) or made.makers.get(value))
    assert {roots.root(named[f"p{i}"]) for i in reversed(range(301))} == {named["p0"]}
    assert len(asked) == 301
