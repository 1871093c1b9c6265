"""Checks of bounds that a chunk knows: the kernel for such chunks, when it may run, and that it does the same."""

from __future__ import annotations

import pytest

from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Program, walk
from slangrad.ir.oracle.interpret import Recorded, evaluate
from slangrad.opt.checks.foreseen_bounds import Foreseen, foresee_bounds
from tests.ir.golden import assert_becomes
from tests.ir.outcomes import Memory
from tests.ir.parse_text import parse_program

HEAD = """
struct "Arguments" { n: i32, g: ptr<i32, global> }
arguments struct "Arguments"
func @f() -> () {
  %t = thread_id {axis=0} : u32
  %i = convert %t : i32
  %n_at = parameter {name="n"} : ptr<i32, constant>
  %n = load %n_at : i32
  %g_at = parameter {name="g"} : ptr<ptr<i32, global>, constant>
  %g = load %g_at : ptr<i32, global>
  %one = const 1 : i32
  %two = const 2 : i32
"""
CHECKED = "%ok = in_bounds %k, %n  if %ok { %p = offset %g, %k  store %p, %one yield } { yield }"
CHUNKS = [(0, 3), (3, 7), (4, 8), (6, 6)]
N = 8

# fmt: off
CASES = {  # which of the chunks may do without the check, of 8 elements
    "the thread's number":            ("%k = add %i, %two  %c = sub %k, %two " + CHECKED.replace("%k", "%c"), (True, True, False, True)),
    "two more":                       ("%k = add %i, %two " + CHECKED,                            (True, False, False, False)),
    "two less":                       ("%k = sub %i, %two " + CHECKED,                            (False, True, True, True)),
    "every other":                    ("%k = mul %i, %two " + CHECKED,                            (True, False, False, False)),
    "backwards":                      ("%k = sub %n, %i " + CHECKED,                              (False, True, True, True)),
    "32 bits may wrap": (
        "%far = const 2147483647 : i32  %a = add %i, %far  %k = sub %a, %far " + CHECKED,         (False, False, False, False)),
    "in an arm that only some take": (
        "%c = less %two, %i  %k = add %i, %one  if %c { " + CHECKED + " yield } { yield }",       (True, False, False, True)),
    "by a loop":                      ("for %two (%j: i32) { %k = add %i, %j " + CHECKED + " yield }", (True, False, False, True)),
}
NOT_FORESEEN = {
    "loaded":                         "%k = load %g : i32 " + CHECKED,
    "by a loop that loads":           "for %two (%j: i32) { %q = offset %g, %j  %k = load %q : i32 " + CHECKED + " yield }",
    "bits of the thread's number":    "%k = xor %i, %two " + CHECKED,
}
# fmt: on


def kernel_of(body: str) -> Function:
    return parse_program(f"{HEAD}{body} yield }}").functions["f"]


class Chunk:
    """Threads from `first` to `last`, on memory of their own."""

    def __init__(self, first: int, last: int) -> None:
        self.ends = {"first": first, "last": last}
        self.elements = Memory(t.I32, N, [7] * N)
        types = (("n", t.I32), ("g", t.pointer(t.I32)))
        self.arguments = Memory(t.struct("Arguments", types), 1, [(N, self.elements.address)])
        self.program = Program(arguments=t.struct("Arguments", types))

    def evaluate(self, function: Function, reports: Recorded, thread: int = 0) -> tuple:
        rules = {
            "chunk_thread": lambda walk, b, op: (b.constant(t.I64, self.ends[op.attributes["which"]]),),
            "thread_id": lambda walk, b, op: (b.constant(t.U32, thread),),
        }
        self.program.functions[function.name] = Rebuild(rules).function(function)
        return evaluate(self.program, function.name, (), self.arguments.address, reports)

    def run(self, kernel: Function) -> tuple[list, list]:
        """What is in memory after all threads, and what they report."""
        reports = Recorded()
        for thread in range(self.ends["first"], self.ends["last"] + 1):
            self.evaluate(kernel, reports, thread)
        return self.elements.values(), reports.bounds


def foreseen_of(kernel: Function) -> Foreseen:
    found = foresee_bounds(kernel)
    assert found is not None
    return found


@pytest.mark.parametrize("body, wanted", CASES.values(), ids=CASES)
def test_which_chunks(body: str, wanted: tuple[bool, ...]) -> None:
    kernel = kernel_of(body)
    found = foreseen_of(kernel)
    assert not any(op.name == "in_bounds" for op in walk(found.kernel.region))
    for ends, holds in zip(CHUNKS, wanted, strict=True):
        assert Chunk(*ends).evaluate(found.condition, Recorded()) == (holds,), ends
        if holds:
            assert Chunk(*ends).run(found.kernel) == Chunk(*ends).run(kernel)


@pytest.mark.parametrize("body", NOT_FORESEEN.values(), ids=NOT_FORESEEN)
def test_not_foreseen(body: str) -> None:
    assert foresee_bounds(kernel_of(body)) is None


def test_without_the_check_an_index_has_64_bits() -> None:
    body = f"{HEAD.partition('func')[2]}%k = add %i, %n {CHECKED} yield }}"
    after = """ @f() -> () {
      %t = thread_id {axis=0} : u32
      %i = convert %t : i32
      %n_at = parameter {name="n"} : ptr<i32, constant>
      %n = load %n_at : i32
      %g_at = parameter {name="g"} : ptr<ptr<i32, global>, constant>
      %g = load %g_at : ptr<i32, global>
      %one = const 1 : i32
      %two = const 2 : i32
      %k = add %i, %n
      %ok = const true : bool
      %t64 = convert %t : i64
      %n64 = convert %n : i64
      %k64 = add %t64, %n64
      %p = offset %g, %k64
      store %p, %one
      yield
    }"""
    assert_becomes(lambda f: foreseen_of(f).kernel, f"func{body}", f"func{after}")
