"""Functions that call themselves: their basic blocks, the values that live over a call, and the loop that is made."""

from __future__ import annotations

import pytest

from slangrad.base.diagnostics import Reporter
from slangrad.ir.ops.core import Program, Value
from slangrad.ir.oracle.interpret import Recorded, evaluate
from slangrad.ir.text.printer import print_function
from slangrad.ir.text.verify import LOWERED, verify
from slangrad.lower.recursion.blocks import BasicBlock, Branch, ControlFlowGraph, Jump, RecursiveCall
from slangrad.lower.recursion.liveness import Liveness
from slangrad.lower.recursion.recursion import remove_recursion
from slangrad.opt.simplify.dead import remove_dead
from tests.ir.parse_text import parse_program
from tests.lower.lowering import lines

FACTORIAL = """
func @f(%n: i32) -> (i32) {
  %one = const 1 : i32
  %small = less %n, %one
  %r = if %small : i32 {
    yield %one
  } {
    %m = sub %n, %one
    %y = call @f %m : i32
    %p = mul %n, %y
    yield %p
  }
  yield %r
}
"""

# Calls itself in each iteration of a loop that carries a sum.
LOOP = """
func @f(%n: i32) -> (i32) {
  %one = const 1 : i32
  %s = for %n, %one : i32 (%i: i32, %sum: i32) {
    %y = call @f %i : i32
    %more = add %sum, %y
    yield %more
  }
  yield %s
}
"""

# The same, backwards and by a `while`.
BACKWARDS = LOOP.replace("for %n, %one", "for %n, %one {reverse=true}").replace(" : i32 {reverse=true}", "")
WHILE = """
func @f(%n: i32) -> (i32) {
  %one = const 1 : i32
  %a, %b = while %n, %one : i32, i32 (%k: i32, %sum: i32) {
    %go = less %one, %k
    yield %go
  } (%j: i32, %total: i32) {
    %m = sub %j, %one
    %y = call @f %m : i32
    %more = add %total, %y
    yield %m, %more
  }
  yield %b
}
"""

# A tail call: `%k` is the same in all calls, and nothing is needed after the call.
TAIL = """
func @f(%n: i32, %k: i32) -> (i32) {
  %one = const 1 : i32
  %square = mul %k, %k
  %small = less %n, %one
  %r = if %small : i32 {
    yield %square
  } {
    %m = sub %n, %one
    %y = call @f %m, %k : i32
    yield %y
  }
  yield %r
}
"""

# Two functions that call each other.
EVEN = """
func @f(%n: i32) -> (i32) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %done = equal %n, %zero
  %r = if %done : i32 {
    yield %one
  } {
    %m = sub %n, %one
    %y = call @odd %m : i32
    yield %y
  }
  yield %r
}
func @odd(%n: i32) -> (i32) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %done = equal %n, %zero
  %r = if %done : i32 {
    yield %zero
  } {
    %m = sub %n, %one
    %y = call @f %m : i32
    yield %y
  }
  yield %r
}
"""


def graph_of(text: str) -> tuple[Program, ControlFlowGraph]:
    program = parse_program(text)
    graph = ControlFlowGraph(set(program.functions))
    for function in program.functions.values():
        graph.function(function)
    return program, graph


def shown(block: BasicBlock) -> str:
    """What a block receives, its ops by name, and where control goes."""
    received = [f"({', '.join(v.hint for v in block.received)})"] if block.received else []
    return f"{block.number}: " + " ".join([*received, *(op.name for op in block.ops), _end(block)])


def _end(block: BasicBlock) -> str:
    end = block.end
    if isinstance(end, Jump):
        moves = ", ".join(f"{target.hint} = {source.hint}" for source, target in end.moves)
        return f"jump {end.target.number}" + (f", {moves}" if moves else "")
    if isinstance(end, Branch):
        return f"branch {end.condition.hint}, {end.then.number}, {end.otherwise.number}"
    operands = ", ".join(v.hint for v in block.sources)
    if isinstance(end, RecursiveCall):
        return f"call {end.callee}({operands}), then {end.after.number}"
    return f"return {operands}"


@pytest.mark.parametrize(
    "text, blocks",
    [
        (
            FACTORIAL,
            """
            1: const less branch small, 2, 3
            2: jump 5, r = one
            3: sub call f(m), then 4
            4: (y) mul jump 5, r = p
            5: return r
            """,
        ),
        (
            LOOP,
            """
            1: const const jump 2, trip = , s = one
            2: less const add branch , 3, 5
            3: call f(i), then 4
            4: (y) add jump 2, trip = , s = more
            5: return s
            """,
        ),
        (
            WHILE,
            """
            1: const jump 2, a = n, b = one
            2: less branch go, 3, 5
            3: sub call f(m), then 4
            4: (y) add jump 2, a = m, b = more
            5: return b
            """,
        ),
        (
            EVEN,
            """
            1: const const equal branch done, 2, 3
            2: jump 5, r = one
            3: sub call odd(m), then 4
            4: (y) jump 5, r = y
            5: return r
            6: const const equal branch done, 7, 8
            7: jump 10, r = zero
            8: sub call f(m), then 9
            9: (y) jump 10, r = y
            10: return r
            """,
        ),
        ("func @f(%n: i32) -> (i32) {\n  yield %n\n}", "1: return n"),
    ],
    ids=["if", "for", "while", "two functions", "no call"],
)
def test_blocks_end_at_calls_of_the_group(text: str, blocks: str) -> None:
    _, graph = graph_of(text)
    assert "\n".join(map(shown, graph.blocks)) == lines(blocks)


def test_control_flow_without_such_a_call_stays_in_its_block() -> None:
    _, graph = graph_of("""
    func @f(%n: i32) -> (i32) {
      %s = for %n, %n : i32 (%i: i32, %sum: i32) {
        %more = add %sum, %i
        yield %more
      }
      %y = call @f %s : i32
      yield %y
    }
    """)
    assert [shown(block) for block in graph.blocks] == ["1: for call f(s), then 2", "2: (y) return y"]


@pytest.mark.parametrize(
    "text, stacked, same, early",
    [
        (FACTORIAL, {"n"}, set(), ["const"]),
        (LOOP, {"n", "s", ""}, set(), ["const", "const", "const"]),
        (WHILE, {"m", "b"}, set(), ["const"]),
        (TAIL, set(), {"k"}, ["const", "mul"]),
        (EVEN, set(), set(), ["const", "const", "const", "const"]),
    ],
    ids=["factorial", "for", "while", "tail call", "two functions"],
)
def test_values_that_live_over_calls_have_stacks(
    text: str, stacked: set[str], same: set[str], early: list[str]
) -> None:
    """`same`: parameters that all calls pass on. `early`: ops that do not depend on the depth of a call. Values by
    their names; the number of the next iteration has none."""
    program, graph = graph_of(text)
    live = Liveness(graph, program.functions["f"], program.functions)
    assert {value.hint for value in live.stacked} == stacked
    assert names(live.same) == same
    assert [op.name for op in live.early] == early


def names(values: dict[Value, Value]) -> set[str]:
    return {value.hint for value in values}


def test_a_value_is_kept_where_it_is_made_if_a_later_block_needs_it() -> None:
    program, graph = graph_of(FACTORIAL)
    live = Liveness(graph, program.functions["f"], program.functions)
    kept = {block.number: [value.hint for value in live.kept(block)] for block in graph.blocks}
    assert kept == {1: [], 2: [], 3: [], 4: [], 5: []}  # `n` is a parameter, `r` is set by jumps
    needed = {block.number: [value.hint for value in live.needs[block]] for block in graph.blocks}
    assert needed == {1: ["n"], 2: [], 3: ["n"], 4: ["n"], 5: ["r"]}


def without_recursion(text: str, limit: int = 32) -> Program:
    program, reporter = parse_program(text), Reporter()
    remove_recursion(program, limit, reporter)
    reporter.raise_if_errors()
    verify(program, LOWERED)
    return program


def test_a_tail_call_becomes_a_loop_without_stacks_of_values() -> None:
    function = remove_dead(without_recursion(TAIL).functions["f"])
    text = print_function(function)
    assert "call" not in text
    assert text.count("zero : [? x i32]") == 1  # where calls return to
    assert text.startswith(
        "func @f(%n: i32, %k: i32) -> (i32) {\n  %one = const 1 : i32\n  %square = mul %k, %k\n"
    )


@pytest.mark.parametrize(
    "text", [FACTORIAL, LOOP, BACKWARDS, WHILE, EVEN], ids=["if", "for", "backwards", "while", "two"]
)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_loops_compute_what_calls_compute(text: str, n: int) -> None:
    """The oracle runs both."""
    reports = Recorded()
    assert evaluate(without_recursion(text), "f", (n,), reports=reports) == evaluate(
        parse_program(text), "f", (n,)
    )
    assert reports.bounds == []


def test_a_parameter_that_all_calls_pass_on() -> None:
    assert evaluate(without_recursion(TAIL), "f", (5, 3)) == (9,)


@pytest.mark.parametrize("n, reported", [(3, []), (4, [(5, 5)]), (100, [(5, 5)])])
def test_a_call_that_is_too_deep_is_reported(n: int, reported: list[tuple[int, int]]) -> None:
    reports = Recorded()
    evaluate(without_recursion(FACTORIAL, limit=4), "f", (n,), reports=reports)
    assert reports.bounds == reported


def test_each_call_has_variables_of_its_own() -> None:
    text = """
    func @f(%n: i32) -> (i32) {
      %one = const 1 : i32
      %v = variable : ptr<i32, global>
      store %v, %n
      %small = less %n, %one
      %r = if %small : i32 {
        yield %one
      } {
        %m = sub %n, %one
        %y = call @f %m : i32
        %own = load %v : i32
        %sum = add %own, %y
        yield %sum
      }
      yield %r
    }
    """
    program = without_recursion(text)
    assert "variable %" in print_function(program.functions["f"])  # the depth of the call is an operand
    assert evaluate(program, "f", (4,)) == (4 + 3 + 2 + 1 + 1,)
