"""Ops that a rebuild leaves as they are stay the same objects; all others are new, each once in a function."""

from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.ops.core import Function, Op, walk
from slangrad.ir.text.printer import print_function
from tests.ir.parse_text import parse_function

TEXT = """
func @f(%x: f32, %n: i32) -> (f32) {
  %two = const 2.0 : f32
  %y = mul %x, %two
  %z = for %n, %y : f32 (%i: i32, %c: f32) {
    %s = sin %c
    %t = add %s, %two
    yield %t
  }
  %c = cos %z
  %r = add %c, %y
  yield %r
}
"""


def rebuilt(text: str) -> Function:
    return Rebuild().function(parse_function(text))


def test_a_function_in_which_nothing_changes_is_itself() -> None:
    function = rebuilt(TEXT)
    assert Rebuild().function(function) is function


def test_arithmetic_and_control_flow_on_changed_operands_makes_the_same_values() -> None:
    """So what uses these stays the op that it is."""
    function = rebuilt(TEXT)
    made = Rebuild({"sin": lambda walk, b, op: (b.emit("tan", *walk.values(op.operands)),)}).function(
        function
    )
    before = set(walk(function.region))
    assert [op.name for op in walk(made.region) if op not in before] == ["for", "tan", "add"]
    assert made.region.yields == function.region.yields
    assert print_function(made) == print_function(function).replace("sin", "tan")


def test_an_op_that_is_copied_twice_is_there_once_as_it_was() -> None:
    function = rebuilt(TEXT)

    def twice(walk: Rebuild, b: object, op: Op) -> object:
        copy_op(walk, b, op)
        return copy_op(walk, b, op)

    made = Rebuild({"for": twice}).function(function)
    ops = list(walk(made.region))
    assert len(set(ops)) == len(ops)
    assert [op.name for op in made.region.ops].count("for") == 2


def test_ops_that_no_builder_made_are_simplified() -> None:
    made = rebuilt("func @f(%x: f32) -> (f32) { %one = const 1.0 : f32 %y = mul %x, %one yield %y }")
    assert made.region.yields == made.region.parameters
