"""The printed tree, and walking it."""

from slangrad.syntax import ast
from slangrad.syntax.ast.walk import children, walk
from tests.syntax.shapes import expression, parse, print_node, shape


def test_print():
    module = parse("[Differentiable] static float f(inout float x[2]) { return x[0] * 2.0h; }")
    assert print_node(module) == "\n".join(
        [
            "Module test.slang language=2025",
            "  Function f modifiers=static",
            "    attributes: Attribute Differentiable",
            "    parameters: Parameter x direction=inout",
            "      value_type: ArrayTypeExpression",
            "        element: Name float",
            "        count: IntLiteral 2",
            "    result: Name float",
            "    body: Block",
            "      Return",
            "        value: Binary *",
            "          left: Index",
            "            base: Name x",
            "            arguments: IntLiteral 0",
            "          right: FloatLiteral 2.0 suffix=h",
        ]
    )


def test_types_are_shown_once_known():
    tree = expression("a + b")
    assert isinstance(tree, ast.Binary)
    tree.type, tree.left.type, tree.left.conversion = "float", "int", "float"
    assert print_node(tree) == "Binary + : float\n  left: Name a : int -> float\n  right: Name b"


def test_walk_goes_from_left_to_right():
    tree = expression("f(a, b[1])")
    kinds = [type(node).__name__ for node in walk(tree)]
    assert kinds == ["Call", "Name", "Name", "Index", "Name", "IntLiteral"]
    assert [shape(child) for child in children(tree)] == ["f", "a", "b[1]"]
