"""E0791 names the calls that make a program too large."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Limits
from slangrad.opt.calls.inline import inline_into
from tests.ir.parse_text import parse_program


def calls(name, callee, times):
    """A function that calls another one so often."""
    body = " ".join(f"%v{i} = call @{callee} %x : f32" for i in range(times))
    return f"func @{name}(%x: f32) -> (f32) {{ {body} yield %v0 }}"


def statements(name, count):
    body = " ".join(f"%v{i} = mul %x, %x" for i in range(count))
    return f"func @{name}(%x: f32) -> (f32) {{ {body} yield %v0 }}"


def refused(*functions, limit, keep=lambda _: False):
    program = parse_program("\n".join(functions))
    with pytest.raises(CompileError) as failure:
        inline_into(program, program.functions["main"], keep, Limits(inline_ops=limit))
    (diagnostic,) = failure.value.diagnostics
    return diagnostic.message, diagnostic.note.partition("; a call")[0]


def test_calls_that_are_repeated():
    assert refused(calls("main", "g", 10), statements("g", 7), limit=79) == (
        "'main' has more than 79 operations after inlining",
        "'main' has 80, by 10 calls of 'g' with 7",
    )


def test_the_function_that_repeats_most_is_not_always_the_one_that_gets_too_large():
    program = (
        calls("main", "a", 2),
        calls("a", "b", 1),
        calls("b", "c", 30),
        calls("c", "d", 1),
        statements("d", 3),
    )
    message, note = refused(*program, limit=200)
    assert message == "'main' has more than 200 operations after inlining"
    assert note == "'b' has 150, by 30 calls of 'c' with 4"


def test_of_equal_ones_it_is_the_first():
    note = refused(
        calls("main", "a", 2), calls("a", "b", 2), calls("b", "c", 2), statements("c", 9), limit=70
    )[1]
    assert note == "'main' has 86, by 2 calls of 'a' with 42"


def test_several_callees_and_small_ones():
    body = " ".join(f"%{name} = call @{name} %x : f32" for name in "abcd")
    main = f"func @main(%x: f32) -> (f32) {{ {body} yield %a }}"
    sizes = {"a": 20, "b": 1, "c": 40, "d": 30}
    note = refused(main, *(statements(*each) for each in sizes.items()), limit=94)[1]
    assert (
        note == "'main' has 95, by 1 call of 'c' with 40, by 1 call of 'd' with 30, by 1 call of 'a' with 20"
    )


def test_statements_alone():
    note = refused(calls("main", "g", 1), statements("g", 99), limit=99)[1]
    assert note == "'g' has 99, by its own statements"


def test_calls_that_stay_count_once():
    program = parse_program("\n".join([calls("main", "g", 10), statements("g", 7)]))
    kept = inline_into(program, program.functions["main"], lambda f: f.name == "g", Limits(inline_ops=10))
    assert len(kept.region.ops) == 10
    message = refused(calls("main", "g", 10), statements("g", 7), limit=9, keep=lambda f: f.name == "g")
    assert message[1] == "'main' has 10, by its own statements"
