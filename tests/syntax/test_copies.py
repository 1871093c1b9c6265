"""Copies of an AST."""

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.ast.walk import walk
from slangrad.syntax.parser import parse_module
from tests.syntax.shapes import expression, shape

TEXT = """
struct S<T> : IFoo where T : IBar { static T x; [Differentiable] T f(T y = 1) { return x; } }
namespace n { property int p { get { return 1; } } }
"""


def test_duplicate_shares_nothing_but_spans() -> None:
    tree = expression("A<int>(x)[1]")
    twin = duplicate(tree)
    assert shape(twin) == shape(tree)
    pairs = list(zip(walk(tree), walk(twin), strict=True))
    assert all(first is not second and first.span is second.span for first, second in pairs)


def test_twins_have_parents_of_their_own() -> None:
    module = parse_module(SourceFile("test.slang", TEXT), Reporter())
    twin = duplicate(module)
    struct, space = twin.members
    assert struct is not module.members[0]
    assert [each.parent for each in (*struct.members, *struct.generics)] == [struct] * 3
    assert [each.parent for each in struct.members[1].parameters] == [struct.members[1]]
    assert [each.parent for each in space.members[0].accessors] == [space.members[0]]
    assert struct.parent is space.parent is twin
