"""Which memory the threads of a launch reach, and whether each has its own: what the plan says, and what threads do.

A kernel is a function of the memory %g and a number %n. Each thread runs in the oracle; what it changes lies within the
bytes that the plan knows, and belongs to it alone where the plan says so.
"""

from __future__ import annotations

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import I64
from slangrad.ir.ops.core import Function, Program, Region, Value
from slangrad.ir.oracle.interpret import evaluate
from slangrad.opt.analyses.intervals import Interval
from slangrad.opt.analyses.launch_values import LaunchValues
from slangrad.opt.analyses.reach import Callees, Known, Survey
from slangrad.opt.delayed.own_elements import own_elements
from tests.ir.outcomes import outcome
from tests.ir.parse_text import parse_function

HEAD = """
func @f(%g: ptr<f32, global>, %n: i32) -> () {
  %tx = thread_id {axis=0} : u32
  %ty = thread_id {axis=1} : u32
  %i = convert %tx : i32
  %j = convert %ty : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %x = const 1.0 : f32
"""
ADD = '%p = offset %g, %k  %o = atomic %p, %x {kind="add"} : f32'
LENGTH = 64
SIZES = [(1, 1), (4, 1), (5, 3)]  # threads along x and y


class Launch:
    """The survey of a kernel, and the numbers of its plan for a launch."""

    def __init__(self, body: str, n: int, nx: int, ny: int) -> None:
        self.kernel = parse_function(f"{HEAD}{body} yield }}")
        self.n, self.counts = n, {"nx": nx, "ny": ny, "nz": 1}
        self.plan = Builder()
        _, number = self.kernel.region.parameters
        start = self.plan.constant(I64, 0)
        known = Known(None, start, Interval(start, start)), Known(self.plan.constant(number.type, n))
        launch = LaunchValues(self.kernel, self.plan)
        self.survey = Survey(launch, self.kernel, Callees({}), known)

    def number(self, value: Value) -> float:
        """A value of the plan."""
        sizes = lambda walk, b, op: (b.constant(op.results[0].type, self.counts[op.attributes["field"]]),)
        plan = Function("plan", (), value.type, Region((), self.plan.ops, (value,)))
        plan = Rebuild({"launch": sizes}).function(plan)
        (result,) = evaluate(Program({"plan": plan}), "plan", ())
        return result

    def reach(self) -> list[tuple[int, int] | None]:
        """The elements at which each access begins; None where that is not known or may not hold."""
        return [self._elements(self.survey.distances(access)) for access in self.survey.accesses]

    def _elements(self, found: Interval[Value] | None) -> tuple[int, int] | None:
        if found is None or not all(self.number(each) for each in found.conditions):
            return None
        return int(self.number(found.low)) // 4, int(self.number(found.high)) // 4

    def changed(self) -> list[set[int]]:
        """The elements that each thread changes, when it runs."""
        return [self._changed(x, y) for y in range(self.counts["ny"]) for x in range(self.counts["nx"])]

    def _changed(self, *thread: int) -> set[int]:
        place = lambda walk, b, op: (b.constant(op.results[0].type, thread[op.attributes["axis"]]),)
        one = Rebuild({"thread_id": place}).function(self.kernel)
        (memory,) = outcome(Program({"f": one}), "f", ([0.0] * LENGTH, self.n)).memory
        return {i for i, element in enumerate(memory) if element}


STORE = "%p = offset %g, {}  store %p, %x"
# fmt: off
REACH = {  # with n = 3 and nx, ny = 5, 3
    "the thread's number":      (STORE.format("%i"),                                                    [(0, 4)]),
    "the same for all":         (STORE.format("%n"),                                                    [(3, 3)]),
    "affine in two axes":       ("%a = mul %j, %n  %k = add %a, %i " + STORE.format("%k"),              [(0, 10)]),
    "backwards":                ("%a = mul %n, %n  %k = sub %a, %i " + STORE.format("%k"),              [(5, 9)]),
    "in an arm":                ("%c = less %i, %n  if %c { " + STORE.format("%i") + " yield } { yield }", [(0, 2)]),
    "in the other arm":         ("%c = less %i, %n  if %c { yield } { " + STORE.format("%i") + " yield }", [(3, 4)]),
    "both of two":              ("""%c = less %i, %n  %d = less_equal %one, %i  %e = and %c, %d
                                    if %e { """ + STORE.format("%i") + " yield } { yield }",            [(1, 2)]),
    "not both of two":          ("""%c = less %i, %n  %d = less_equal %one, %i  %e = and %c, %d
                                    if %e { yield } { """ + STORE.format("%i") + " yield }",            [(0, 4)]),
    "checked by bounds":        ("%k = mul %i, %i  %c = in_bounds %k, %n  if %c { " + STORE.format("%k")
                                 + " yield } { yield }",                                                [(0, 2)]),
    "by a loop":                ("for %n (%k: i32) { %l = add %k, %i " + STORE.format("%l") + " yield }", [(0, 6)]),
    "by a loop that adds up":   ("""%r = while %i : i32 (%a: i32) { %c = less %a, %n  yield %c } (%b: i32) {
                                    """ + STORE.format("%b") + " %m = add %b, %two yield %m }",         [(0, 2)]),
    "chosen":                   ("%c = less %i, %n  %k = select %c, %i, %zero " + STORE.format("%k"),   [(0, 2)]),
    "at most":                  ("%k = min %i, %two " + STORE.format("%k"),                             [(0, 2)]),
    "a remainder":              ("%u = rem %i, %two " + STORE.format("%u"),                             [(0, 1)]),
    "loaded":                   ("%q = bitcast %g : ptr<i32, global>  %k = load %q : i32 " + STORE.format("%k"),
                                 [(0, 0), None]),
    "32 bits may wrap":         ("""%far = const 2147483647 : i32  %a = add %i, %far  %k = sub %a, %far
                                    """ + STORE.format("%k"),                                           [None]),
    "a loop moves an address":  ("""%r = for %n, %g : ptr<f32, global> (%k: i32, %p: ptr<f32, global>) {
                                    store %p, %x  %q = offset %p, %one  yield %q }""",                  [None]),
}
OWN = {  # holds for nx, ny of SIZES
    "each its own":             ("%k = add %i, %zero " + ADD,                                     (True, True, False)),
    "of two axes":              ("%a = mul %j, %three  %b = add %a, %a  %k = add %b, %i " + ADD,  (True, True, True)),
    "rows that overlap":        ("%a = mul %j, %three  %k = add %a, %i " + ADD,                   (True, True, False)),
    "columns first":            ("%a = mul %i, %three  %k = add %a, %j " + ADD,                   (True, True, True)),
    "a stride of zero":         ("%a = mul %i, %zero  %k = add %a, %j " + ADD,                    (True, False, False)),
    "all the same":             ("%k = mul %n, %one " + ADD,                                      (False, False, False)),
    "halves":                   ("%k = div %i, %two " + ADD,                                      (False, False, False)),
    "some for each":            ("%a = mul %i, %three  for %n (%l: i32) { %k = add %a, %l " + ADD + " yield }",
                                                                                                  (True, True, False)),
    "too many for each":        ("%a = mul %i, %two  for %n (%l: i32) { %k = add %a, %l " + ADD + " yield }",
                                                                                                  (True, False, False)),
}
# fmt: on


@pytest.mark.parametrize("body, wanted", REACH.values(), ids=REACH)
def test_reach(body, wanted):
    launch = Launch(body, 3, 5, 3)
    assert launch.reach() == wanted
    for low, high in filter(None, wanted[-1:]):
        assert set().union(*launch.changed()) <= set(range(low, high + 1))


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_no_thread_reaches_more(size, n):
    for body, _ in REACH.values():
        launch = Launch(body, n, *size)
        for reached in launch.reach()[-1:]:
            assert reached is None or set().union(*launch.changed()) <= set(range(reached[0], reached[1] + 1))


@pytest.mark.parametrize("body, wanted", OWN.values(), ids=OWN)
def test_own_elements(body, wanted):
    for size, own in zip(SIZES, wanted, strict=True):
        launch = Launch(body, 3, *size)
        found = own_elements(launch.survey.intervals, launch.survey.accesses, 4)
        assert (found is not None and bool(launch.number(found))) == own, size
        changed = launch.changed()
        assert not own or sum(map(len, changed)) == len(set().union(*changed))
