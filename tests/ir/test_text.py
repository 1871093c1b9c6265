"""Printing and parsing: every construct comes back as the same text."""

import math

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Parameter, Program, Region, Value
from slangrad.ir.text.printer import print_function, print_op, print_program
from tests.ir.parse_text import TextError, parse_function, parse_program

EVERYTHING = """\
struct "Point" { x: f32, "odd name": f32x3 }

struct "Point.d" { x: f32 }

struct "Block" { count: u32, data: ptr<struct "Point", global> }

differential struct "Point" : struct "Point.d" (0 -> 0) zero=@dzero add=@"add<Point, 2>"

dual struct "Block" : struct "Point"

trusted struct "Block" (1)

arguments struct "Block"

func @square(%x: f32, no_diff %n: i32) -> (f32) derivatives(jvp=@square_jvp, vjp=@"f<3>", applied=@g) {cost=3} {
  %r = mul %x, %x
  %c = const -0.0 : f32
  %d = const nan : f32
  %e = const inf : f64
  %f = const 1e-07 : f64x2
  %b = const true : boolx2x3
  yield %r
}

func @control(%c: bool, inout no_diff %n: i32, out %last: f32, uniform %a: [4 x f32]) -> (no_diff f32) {
  %x = index %a, %n {check=true}
  %y, %z = if %c : f32, f32 {
    yield %x, %x
  } {
    %neg = neg %x
    yield %neg, %x
  }
  %s = for %n, %y {reverse=true} : f32 (%i: i32, %sum: f32) {
    %next = add %sum, %z
    yield %next
  }
  %k = while %n : i32 (%k.1: i32) {
    %more = less %k.1, %n
    yield %more
  } (%k.2: i32) {
    %0 = add %k.2, %n
    yield %0
  }
  if %c {
    yield
  } {
    yield
  }
  call @nothing
  %1, %2 = call @"pair<f32, 2>" %s, %y : f32, f32
  %3, %4 = vjp @square %s, %n, %y : f32, f32
  yield %s, %k, %1
}

func @memory() -> () {kernel=true, group_size=(64, 1, 1)} {
  %block = parameter {name="a\\"b"} : ptr<struct "Block", constant>
  %p = member %block {index=1}
  %q = load %p : ptr<struct "Point", global>
  %id = thread_id {axis=0} : u32
  %r = offset %q, %id
  %s = member %r {index=0}
  %v = load %s : f32
  %old = atomic %s, %v {kind="add"} : f32
  %tape = zero : [? x f32]
  %w = make %v, %v, %v : f32x3
  %m = shuffle %w {indices=(2)} : f32
  %l = alloc {count=3, zero=true} : ptr<f32, local>
  store %s, %m
  yield
}
"""


def test_everything_comes_back():
    assert print_program(parse_program(EVERYTHING)) == EVERYTHING


def test_parsed_parts():
    program = parse_program(EVERYTHING)
    control = program.functions["control"]
    assert control.parameters[1] == Parameter("n", t.I32, "inout", differentiable=False)
    assert control.parameters[2] == Parameter("last", t.F32, "out")
    assert control.parameters[3].uniform
    assert control.result_types == (t.F32, t.I32, t.F32)
    assert not control.return_differentiable
    assert [v.type for v in control.region.parameters] == [t.BOOL, t.I32, t.array(t.F32, 4)]
    square = program.functions["square"]
    assert square.derivatives is not None and square.derivatives.vjp == "f<3>"
    assert square.attributes == {"cost": 3}
    numbers = [op.attributes["value"] for op in square.region.ops if op.name == "const"]
    assert math.copysign(1, numbers[0]) == -1.0 and math.isnan(numbers[1])
    assert numbers[2:] == [math.inf, 1e-07, True]
    point = next(iter(program.differentials))
    assert point.name == "Point" and program.differentials[point].fields == ((0, 0),)
    assert program.differentials[point].add == "add<Point, 2>"
    assert {s.name: fields for s, fields in program.trusted.items()} == {"Block": (1,)}
    assert program.arguments is not None and program.arguments.index("data") == 1
    assert program.functions["memory"].attributes["group_size"] == (64, 1, 1)


def test_names_are_hints_made_unique():
    x, y = Value(t.F32, "x"), Value(t.F32, "y.3")
    b = Builder()
    first = b.emit("add", x, y)
    first.hint = "x"
    second = b.emit("mul", first, first)
    function = Function(
        "f", (Parameter("x", t.F32), Parameter("y", t.F32)), t.F32, Region((x, y), b.ops, (second,))
    )
    assert print_function(function) == (
        "func @f(%x: f32, %y: f32) -> (f32) {\n  %x.1 = add %x, %y\n  %0 = mul %x.1, %x.1\n  yield %0\n}\n"
    )


def test_one_op_prints_alone():
    function = parse_function("func @f(%a: f32) -> (f32) { %b = add %a, %a yield %b }")
    assert print_op(function.region.ops[0]) == "%b = add %a, %a"


def test_comments_and_layout_are_free():
    function = parse_function("func @f() -> (i32) { // seven\n %7 = const 7:i32 yield %7 }")
    assert print_function(function) == "func @f() -> (i32) {\n  %0 = const 7 : i32\n  yield %0\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @f() -> () { yield %x }", "line 1: %x is not defined"),
        ("func @f() -> () {\n  frob\n  yield }", "line 2: there is no op 'frob'"),
        ("func @f(%a: f99) -> () { yield }", "there is no type 'f99'"),
        ("func @f(%a: f32, %a: f32) -> () { yield }", "%a is defined twice"),
        ('func @f(%a: struct "S") -> () { yield }', "there is no struct 'S'"),
        ("func @f() -> () { %a, %b = const 1 : i32 yield }", "const has 1 results, not 2"),
        ("func @f(%a: f32) -> () { print %a yield }", "line 1: print lacks the attribute 'format'"),
        ("func @f() -> () { %a = const true {name=1} : f32 yield }", "const has no attribute 'name'"),
        ("func @f() -> () { ! }", "unexpected '!'"),
        ("func @f() -> () { yield", "expected '}'"),
    ],
)
def test_malformed_text(text, message):
    with pytest.raises(TextError, match=message.replace("(", r"\(")):
        parse_program(text)


def test_structs_are_found_wherever_they_are_used():
    inner = t.struct("Inner", (("v", t.F32),))
    outer = t.struct("Outer", (("inner", t.array(inner, 2)),))
    program = Program()
    b = Builder()
    b.emit("zero", type=outer)
    program.add(Function("f", (), None, Region((), b.ops, ())))
    text = print_program(program)
    assert text.startswith('struct "Inner" { v: f32 }\n\nstruct "Outer" { inner: [2 x struct "Inner"] }\n')
    assert print_program(parse_program(text)) == text
