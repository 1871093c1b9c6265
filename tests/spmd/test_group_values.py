"""Which values all threads of a group share, and barriers that only some threads come to: tables of IR."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.ir.ops.core import Program, walk
from slangrad.spmd.analyses.group_values import FIXED, OWN, SAME, GroupValues, check_barriers
from tests.ir.parse_text import parse_program

HEAD = """
func @own(%v: u32) -> (u32) {{
  %t = thread_id {{axis=0}} : u32
  %s = add %v, %t
  yield %s
}}
func @plain(%v: u32) -> (u32) {{
  %s = add %v, %v
  yield %s
}}
func @kernel(%n: u32, %g: ptr<u32, global>) -> () {{group_size=(4, 2, 1), kernel=true}} {{
  %x = thread_id {{axis=0}} : u32
  %y = thread_id {{axis=1}} : u32
  %z = thread_id {{axis=2}} : u32
  %two = const 2 : u32
  %four = const 4 : u32
  %mine = less %x, %n
  %all = less %two, %n
  {body}
  yield
}}
"""

# fmt: off
RANKS = {
    #                              body                                                        the rank of %r
    "an argument":                ("%r = add %n, %two",                                        FIXED),
    "the thread":                 ("%r = add %x, %n",                                          OWN),
    "the group's number":         ("%r = div %x, %four",                                       FIXED),
    "the place in the group":     ("%r = rem %x, %four",                                       OWN),
    "a part of a group":          ("%r = div %x, %two",                                        OWN),
    "divided by another size":    ("%r = div %y, %four",                                       OWN),
    "the group along y":          ("%r = div %y, %two",                                        FIXED),
    "a group of one along z":     ("%r = add %z, %n",                                          FIXED),
    "a load of one place":        ("%r = load %g : u32",                                       SAME),
    "a load of each":             ("%p = offset %g, %x  %r = load %p : u32",                   OWN),
    "what an atomic gives":       ('%r = atomic %g, %n {kind="add"} : u32',                    OWN),
    "a call with one argument":   ("%r = call @plain %n : u32",                                SAME),
    "a call that asks for the thread": ("%r = call @own %n : u32",                             OWN),
    "a branch that all take":     ("%r = if %all : u32 { yield %n } { yield %two }",           SAME),
    "a branch around a barrier":  ("%r = if %all : u32 { barrier yield %n } { yield %two }",   FIXED),
    "a branch of some":           ("%r = if %mine : u32 { yield %n } { yield %two }",          OWN),
    "carried through a barrier":  ("%r = for %n, %two : u32 (%i: u32, %a: u32) { barrier %b = add %a, %i  yield %b }", FIXED),
    "carried by a loop of each":  ("%r = for %x, %two : u32 (%i: u32, %a: u32) { %b = add %a, %i  yield %b }",         OWN),
    "mixed in a later iteration": ("%r, %s = for %n, %n, %n : u32, u32 (%i: u32, %a: u32, %b: u32) { yield %b, %x }",  OWN),
}
REACHED = {
    "outside of branches": "barrier",
    "in a branch that all take": "if %all { barrier yield } { yield }",
    "in a loop that all do": "for %n (%i: u32) { barrier yield }",
}
MISSED = {
    "in a branch of some": ("if %mine { barrier yield } { yield }", "branch"),
    "in a loop of each": ("for %x (%i: u32) { barrier yield }", "loop"),
    "deeper than the branch of some": (
        "if %all { if %mine { for %n (%i: u32) { barrier yield } yield } { yield } yield } { yield }", "branch"),
}
# fmt: on


def kernel_of(body: str) -> Program:
    return parse_program(HEAD.format(body=body))


@pytest.mark.parametrize("body, rank", RANKS.values(), ids=RANKS)
def test_ranks(body: str, rank: int) -> None:
    functions = kernel_of(body).functions
    kernel = functions["kernel"]
    (value,) = (value for op in walk(kernel.region) for value in op.results if value.hint == "r")
    assert GroupValues(kernel, functions).rank(value) == rank


@pytest.mark.parametrize("body", REACHED.values(), ids=REACHED)
def test_barriers_that_all_threads_come_to(body: str) -> None:
    functions = kernel_of(body).functions
    check_barriers(functions["kernel"], functions)


@pytest.mark.parametrize("body, construct", MISSED.values(), ids=MISSED)
def test_barriers_that_some_threads_come_to(body: str, construct: str) -> None:
    functions = kernel_of(body).functions
    with pytest.raises(
        CompileError, match=rf"(?s)E9009.*the {construct} around it differs from thread to thread"
    ):
        check_barriers(functions["kernel"], functions)
