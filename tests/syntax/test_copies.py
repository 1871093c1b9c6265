"""Copies of an AST, at once and late."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.copies import child_fields, duplicate, late_copy
from slangrad.syntax.parser import parse_module
from slangrad.syntax.print import print_node
from slangrad.syntax.walk import walk
from tests.syntax.shapes import expression, shape

TEXT = """
struct S<T> : IFoo where T : IBar { static T x; [Differentiable] T f(T y = 1) { return x; } }
namespace n { property int p { get { return 1; } } }
"""


def parsed(text: str = TEXT) -> ast.Module:
    return parse_module(SourceFile("test.slang", text), Reporter())


def test_duplicate_shares_nothing_but_spans() -> None:
    tree = expression("A<int>(x)[1]")
    twin = duplicate(tree)
    assert shape(twin) == shape(tree)
    pairs = list(zip(walk(tree), walk(twin), strict=True))
    assert all(first is not second and first.span is second.span for first, second in pairs)


@pytest.mark.parametrize("copy", [duplicate, late_copy])
def test_twins_have_parents_of_their_own(copy) -> None:
    module = parsed()
    twin = copy(module)
    struct, space = twin.members
    assert struct is not module.members[0]
    assert [each.parent for each in (*struct.members, *struct.generics)] == [struct] * 3
    assert [each.parent for each in struct.members[1].parameters] == [struct.members[1]]
    assert [each.parent for each in space.members[0].accessors] == [space.members[0]]
    assert struct.parent is space.parent is twin


def test_a_late_copy_has_what_somebody_has_asked_for() -> None:
    module = parsed()
    twin = late_copy(module)
    has = lambda node, name: name in {each for each in child_fields(type(node)) if _is_there(node, each)}
    assert not has(twin, "members")
    struct = twin.members[0]
    assert twin.members[0] is struct and has(twin, "members")
    assert struct.name == "S" and struct.members[0].modifiers == ("static",)
    assert not has(struct, "bases") and not has(struct.members[1], "parameters")
    struct.bases[0].name = "IOther"
    struct.members = struct.members[:1]
    assert module.members[0].bases[0].name == "IFoo" and len(module.members[0].members) == 2
    assert len(struct.members) == 1


def _is_there(node: ast.Node, name: str) -> bool:
    try:
        object.__getattribute__(node, name)
    except AttributeError:
        return False
    return True


def test_what_is_no_field_is_missed_in_late_copies_too() -> None:
    for struct in (late_copy(parsed()).members[0], parsed().members[0]):
        assert getattr(struct, "parameters", ()) == () and not hasattr(struct, "result")
        with pytest.raises(AttributeError, match="'Struct' object has no attribute 'parameters'"):
            _ = struct.parameters


@pytest.mark.parametrize("path", sorted(STD.glob("*.slang")), ids=lambda path: path.stem)
def test_late_copies_say_the_same(path: Path) -> None:
    module = parsed(path.read_text(encoding="utf-8"))
    assert print_node(late_copy(module)) == print_node(module)
    assert print_node(duplicate(late_copy(module))) == print_node(module)


def test_threads_get_the_same_copy() -> None:
    module = parsed("struct S { float x; }" * 200)
    twin = late_copy(module)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [each.members[0] for each in twin.members], range(8)))
    assert all(a is b for other in found for a, b in zip(other, found[0], strict=True))
