"""The verifier accepts what passes make and names what is wrong in anything else."""

import pytest

from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Op, Program, Region, Value, walk
from slangrad.ir.text.verify import (
    DELAYED,
    DIFFERENTIATED,
    FLAT,
    LANES,
    LOWERED,
    LegalIR,
    verify,
    verify_function,
)
from tests.ir.parse_text import parse_program
from tests.ir.random_programs import FLAT as FLAT_STYLE
from tests.ir.random_programs import Style, random_program


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_are_well_formed(seed):
    verify(random_program(seed, Style(memory=True, prints=True, checks=True)), DIFFERENTIATED)


def test_scalar_programs_are_flat():
    """Those without `detach`, which only differentiation may meet."""
    checked = 0
    for seed in range(40):
        program = random_program(seed, FLAT_STYLE)
        for name in [n for n in program.functions if n != "main"]:
            del program.functions[name]
        if all(op.name != "detach" for op in walk(program.functions["main"].region)):
            verify(program, FLAT)
            checked += 1
    assert checked > 2


WRONG = [
    ("%a: i32, %c: bool", "%r = if %c : i32 { yield %a } { yield %c }", "yields of a region of if"),
    ("%a: i32", "if %a { yield } { yield }", "if: condition"),
    ("%a: f32", "for %a (%i: f32) { yield }", "the count of a for is no integer"),
    ("%a: i32", "for %a (%i: u32) { yield }", "parameters of a region of for"),
    ("%a: i32", "%r = while %a : i32 (%k: i32) { yield %k } (%j: i32) { yield %j }", "yields of a region"),
    ("%a: f32x2", "%r = get %a {index=2} : f32", "there is no component 2 of 2"),
    ("%a: f32x2, %b: i32", "%r = set %a, %b {index=1}", "set: component"),
    ("%a: f32x2, %b: f32", "%r = make %a, %b : f32x2", "make: operands"),
    ("%a: [4 x f32], %i: i32", "%r = set_index %a, %i, %i", "set_index: element"),
    ("%a: [4 x f32], %x: f32", "%r = set_index %a, %x, %x", "the index is no integer"),
    ("%a: f32x3", "%r = shuffle %a {indices=(0, 1)} : f32x3", "shuffle makes f32x2"),
    ("%a: f32x3", "%r = convert %a : i32x2", "convert changes the shape"),
    ("%p: ptr<f32, global>", "%r = load %p : i32", "load of another type"),
    ("%p: ptr<f32, global>, %i: i32", "store %p, %i", "store: the value is i32, the memory f32"),
    ("%p: ptr<f32, global>, %x: f32", '%r = atomic %p, %x {kind="foo"} : f32', "there is no atomic 'foo'"),
    ("%p: ptr<f32, global>, %i: i32", "%r = tape_load %p, %i", "tape_load"),
    ("", "call @nobody", "there is no function 'nobody'"),
    ("%a: i32", "call @f", "call: operands"),
    ("", "%r = thread_id {axis=3} : u32", "there is no such axis"),
    ("", '%r = parameter {name="x"} : ptr<f32, constant>', "there is no argument block"),
]


@pytest.mark.parametrize(("parameters", "body", "message"), WRONG)
def test_wrong_ops_are_named(parameters, body, message):
    program = parse_program(f"func @f({parameters}) -> () {{ {body} yield }}")
    with pytest.raises(AssertionError, match=message):
        verify(program, LOWERED)


def function(ops, yields, parameters=()):
    returned = yields[0].type if yields else None
    return Function("f", (), returned, Region(tuple(parameters), ops, tuple(yields)))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "print lacks the attribute 'format'"),
        ({"format": 1}, "the attribute 'format' of print is 1"),
        ({"format": "%d", "kind": "add"}, "print has no attribute 'kind'"),
    ],
)
def test_attributes(attributes, message):
    with pytest.raises(AssertionError, match=message):
        verify_function(function([Op("print", (), (), attributes)], []), Program())


def test_scopes():
    inner, c, outer = Value(t.F32), Value(t.BOOL), Value(t.F32)
    arm = Region((), [Op("const", (), (inner,), {"value": 1.0})], ())
    condition = Op("const", (), (c,), {"value": True})
    branch = Op("if", (c,), (), {}, (arm, Region((), [], ())))
    use = Op("neg", (inner,), (outer,))
    message = "an operand of neg is out of scope\n  %1 = neg %0\n  in @f, after lower"
    with pytest.raises(AssertionError, match=message):
        verify_function(function([condition, branch, use], [outer]), Program())
    with pytest.raises(AssertionError, match="a value is made twice"):
        verify_function(function([condition, condition], []), Program())
    with pytest.raises(AssertionError, match="a value out of scope is yielded"):
        verify_function(function([condition, branch], [inner]), Program())


def test_types_follow_the_table():
    x, y = Value(t.F32), Value(t.I32)
    constant = Op("const", (), (x,), {"value": 1.0})
    integer = Op("convert", (x,), (y,))
    with pytest.raises(AssertionError, match="add does not take"):
        verify_function(function([constant, integer, Op("add", (x, y), (Value(t.F32),))], []), Program())
    with pytest.raises(AssertionError, match=r"neg: \[i32\] where \[f32\]"):
        verify_function(function([constant, Op("neg", (x,), (y,))], []), Program())


def test_stages():
    text = "func @f(%a: f32x2) -> (f32x2) { %r = add %a, %a yield %r }"
    with pytest.raises(AssertionError, match="a value of type f32x2"):
        verify(parse_program(text), FLAT)
    text = "func @g(%x: f32) -> () { yield } func @f(%x: f32) -> () { %d = jvp @g %x, %x : f32 yield }"
    with pytest.raises(AssertionError, match="jvp is not an op of this stage"):
        verify(parse_program(text), DIFFERENTIATED)


def test_signatures():
    with pytest.raises(AssertionError, match="results"):
        verify(parse_program("func @f(%x: f32) -> (f32) { yield }"))
    with pytest.raises(AssertionError, match="a kernel has parameters or results"):
        verify(parse_program("func @f(%x: f32) -> () {kernel=true} { yield }"))
    with pytest.raises(AssertionError, match="there is no function 'g'"):
        verify(parse_program("func @f() -> () derivatives(jvp=@g) { yield }"))


def test_tests_of_loops_do_not_write_before_flattening():
    text = """
    func @f(%p: ptr<i32, global>, %x: i32) -> () {
      while () { store %p, %x %c = const false : bool yield %c } { yield }
      yield
    }""".replace("while () {", "while {")
    with pytest.raises(AssertionError, match="the test of a while has effects"):
        verify(parse_program(text), LOWERED)
    verify(parse_program(text), FLAT)


def test_only_pointers_are_trusted():
    text = 'struct "B" {{ data: ptr<f32, global>, count: u32 }}\ntrusted struct "B" ({})\n'
    verify(parse_program(text.format(0)))
    with pytest.raises(AssertionError, match="'count' is trusted and no pointer"):
        verify(parse_program(text.format(1)))


@pytest.mark.parametrize(
    "op, first",
    [
        ('launch {field="nx"} : i64', DELAYED),
        ("accumulators {block=0, count=4} : ptr<f32, local>", DELAYED),
        ("lane_index : lanes<u32>", LANES),
        ('chunk_thread {which="first"} : i64', LANES),
        ("group_id {axis=0} : u32", LANES),
    ],
    ids=lambda each: each.name if isinstance(each, LegalIR) else each.split()[0],
)
def test_ops_of_targets_are_legal_behind_the_stages_that_make_them(op, first):
    program = parse_program(f"func @f() -> () {{ %r = {op} yield }}")
    stages = [LOWERED, FLAT, DELAYED, LANES]
    for stage in stages[: stages.index(first)]:
        with pytest.raises(AssertionError, match="is not an op of this stage"):
            verify(program, stage)
    for stage in stages[stages.index(first) :]:
        verify(program, stage)
