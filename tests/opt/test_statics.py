"""Static variables of a kernel as values: what arms and loops write goes on."""

import pytest

from slangrad.ir.ops.core import Program
from slangrad.opt.calls.inline import inline_into
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.statics import begin_statics, settle_statics
from tests.ir.golden import assert_becomes, numbered
from tests.ir.outcomes import assert_same, outcome
from tests.ir.parse_text import parse_function, parse_program

# fmt: off
CASES = {
    "never written": ("""
        func @f(%a: f32) -> (f32) { %x = read_static {name="n"} : f32 %y = add %x, %a yield %y }""", """
        func @f(%a: f32) -> (f32) { %x = const 0.0 : f32 %y = add %x, %a yield %y }""", [(1.5,), (-0.0,)]),
    "two names": ("""
        func @f(%a: f32) -> (f32) {
          write_static %a {name="n"}
          %x = sqrt %a
          write_static %x {name="m"}
          %y = read_static {name="n"} : f32
          %z = read_static {name="m"} : f32
          %r = mul %y, %z
          yield %r
        }""", """
        func @f(%a: f32) -> (f32) { %x = sqrt %a %r = mul %a, %x yield %r }""", [(1.5,)]),
    "written in one arm": ("""
        func @f(%c: bool, %a: f32) -> (f32) {
          write_static %a {name="n"}
          if %c { %x = read_static {name="n"} : f32 %y = neg %x write_static %y {name="n"} yield } { yield }
          %z = read_static {name="n"} : f32
          yield %z
        }""", """
        func @f(%c: bool, %a: f32) -> (f32) {
          %z = if %c : f32 { %y = neg %a yield %y } { yield %a }
          yield %z
        }""", [(True, 1.5), (False, 1.5)]),
    "written in a loop": ("""
        func @f(%n: i32, %a: f32) -> (f32) {
          write_static %a {name="n"}
          for %n (%i: i32) { %x = read_static {name="n"} : f32 %y = add %x, %x write_static %y {name="n"} yield }
          %z = read_static {name="n"} : f32
          yield %z
        }""", """
        func @f(%n: i32, %a: f32) -> (f32) {
          %z = for %n, %a : f32 (%i: i32, %x: f32) { %y = add %x, %x yield %y }
          yield %z
        }""", [(0, 1.5), (3, 1.5)]),
    "tested by a loop": ("""
        func @f(%n: i32) -> (i32) {
          %one = const 1 : i32
          %zero = const 0 : i32
          write_static %n {name="n"}
          while { %x = read_static {name="n"} : i32 %c = less %zero, %x yield %c } {
            %y = read_static {name="n"} : i32
            %w = sub %y, %one
            write_static %w {name="n"}
            yield
          }
          %z = read_static {name="n"} : i32
          yield %z
        }""", """
        func @f(%n: i32) -> (i32) {
          %zero = const 0 : i32
          %one = const 1 : i32
          %z = while %n : i32 (%x: i32) { %c = less %zero, %x yield %c } (%y: i32) { %w = sub %y, %one yield %w }
          yield %z
        }""", [(-1,), (0,), (4,)]),
    "only read in a loop": ("""
        func @f(%n: i32, %a: f32) -> (f32) {
          write_static %a {name="n"}
          %s = for %n, %a : f32 (%i: i32, %p: f32) { %x = read_static {name="n"} : f32 %q = mul %p, %x yield %q }
          yield %s
        }""", """
        func @f(%n: i32, %a: f32) -> (f32) {
          %s = for %n, %a : f32 (%i: i32, %p: f32) { %q = mul %p, %a yield %q }
          yield %s
        }""", [(0, 1.5), (3, 1.5)]),
}
# fmt: on


@pytest.mark.parametrize("before, after, inputs", CASES.values(), ids=CASES)
def test_static_variables_become_values(before, after, inputs):
    assert_becomes(lambda f: remove_dead(settle_statics(f)), before, after, inputs)


def test_a_function_without_them_is_the_same():
    function = parse_function("func @f(%x: f32) -> (f32) { yield %x }")
    assert settle_statics(function) is function


def test_a_kernel_begins_with_the_initializers():
    program = parse_program("""
    func @first() -> (f32) {initializes="n", order=0} { %a = const 2.5 : f32 yield %a }
    func @f(%x: f32) -> (f32) { %n = read_static {name="n"} : f32 %y = mul %x, %n yield %y }""")
    function = program.functions["f"]
    begun = begin_statics(program, function)
    wanted = """
    func @f(%x: f32) -> (f32) { %a = const 2.5 : f32 %y = mul %x, %a yield %y }"""
    inlined = remove_dead(settle_statics(inline_into(program, begun, lambda f: False)))
    assert numbered(inlined) == numbered(parse_function(wanted))
    one, other = (Program({**program.functions, "f": f}) for f in (begun, inlined))
    assert_same(outcome(one, "f", (2.0,)), outcome(other, "f", (2.0,)))
