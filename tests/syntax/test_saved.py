"""Modules as numbers and texts: declarations that are made of them late, bodies that are parsed later."""

import marshal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slangrad.base.diagnostics import Reporter
from slangrad.base.records import fields_of
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.ast.walk import children, walk
from slangrad.syntax.parser import parse_body, parse_module
from slangrad.syntax.saved import Surroundings, late_module, pack_module
from tests.syntax.shapes import print_node

TEXT = """
struct S<T> : IFoo where T : IBar { static T x; [Differentiable] T f(T y = 1) { return x; } }
namespace n { property int p { get { return 1; } } }
"""
FILES = sorted(STD.rglob("*.slang"))


def saved(source: SourceFile) -> object:
    """As it comes back from a file."""
    around, reporter = Surroundings(source), Reporter()
    data = marshal.dumps(pack_module(parse_module(source, reporter, around=around), around))
    assert reporter.diagnostics == []
    return marshal.loads(data)


def late(text: str = TEXT) -> ast.ModuleDeclaration:
    source = SourceFile("test.slang", text)
    return late_module(saved(source), source)


def waiting(owner: ast.Declaration) -> Iterator[tuple[ast.Declaration, ast.Unparsed]]:
    for each in children(owner):
        if isinstance(each, ast.Unparsed):
            yield owner, each
        elif isinstance(each, ast.Declaration):
            yield from waiting(each)


def parse_bodies(module: ast.ModuleDeclaration) -> None:
    for owner, body in list(waiting(module)):
        owner.body = parse_body(body, owner)


# --- Late declarations --------------------------------------------------------------------------------


def test_a_late_declaration_has_what_somebody_has_asked_for() -> None:
    struct = late().members[0]
    assert struct.name == "S" and struct.modifiers == () and _there(struct) == {"name", "modifiers"}
    assert (
        struct.bases[0].name == "IFoo" and _there(struct) == set(fields_of(ast.StructDeclaration)) - _BY_CHECK
    )
    variable, function = struct.members
    assert variable.modifiers == ("static",) and _there(function) == {"name", "modifiers"}
    assert function.parameters[0].default.value == 1 and struct.saved is None


_BY_CHECK = {"checked", "parent", "saved"}


def _there(node: ast.SyntaxNode) -> set[str]:
    names = set(fields_of(type(node))) - _BY_CHECK
    return {name for name in names if _has(node, name)}


def _has(node: ast.SyntaxNode, name: str) -> bool:
    try:
        object.__getattribute__(node, name)
    except AttributeError:
        return False
    return True


def test_programs_share_nothing() -> None:
    source = SourceFile("test.slang", TEXT)
    data = saved(source)
    one, other = late_module(data, source), late_module(data, source)
    one.members[0].bases[0].name = "IOther"
    one.members[0].members = one.members[0].members[:1]
    one.members[0].generics[0].parts["__first"] = one
    struct = other.members[0]
    assert struct.bases[0].name == "IFoo" and len(struct.members) == 2 and struct.generics[0].parts == {}


def test_declarations_know_what_they_stand_in() -> None:
    module = late()
    struct, space = module.members
    assert [each.parent for each in (*struct.members, *struct.generics)] == [struct] * 3
    assert [each.parent for each in struct.members[1].parameters] == [struct.members[1]]
    assert [each.parent for each in space.members[0].accessors] == [space.members[0]]
    assert struct.parent is space.parent is module and module.parent is None


def test_fields_that_a_class_has_not_are_missed_in_late_declarations_too() -> None:
    for struct in (late().members[0], parse_module(SourceFile("a", TEXT), Reporter()).members[0]):
        assert getattr(struct, "parameters", ()) == () and not hasattr(struct, "result")
        with pytest.raises(AttributeError, match="'StructDeclaration' object has no attribute 'parameters'"):
            _ = struct.parameters


def test_threads_get_the_same_members() -> None:
    module = late("struct S { float x; }" * 200)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [each.members[0] for each in module.members], range(8)))
    assert all(a is b for other in found for a, b in zip(other, found[0], strict=True))


def test_a_copy_of_a_late_declaration_is_whole() -> None:
    module = late("struct S<T> : IFoo { static T x; [A(1)] T f(T y = 1); }")
    twin = duplicate(module.members[0])
    assert twin.saved is None and print_node(twin) == print_node(module.members[0])


# --- Bodies -------------------------------------------------------------------------------------------


def test_a_body_that_waits_has_no_statements() -> None:
    f, g = late("float f(float x) { return x; } float g();").members
    assert isinstance(f.body, ast.Unparsed) and g.body is None
    assert f.body.span.text == "{ return x; }"
    with pytest.raises(AttributeError):
        _ = f.body.statements
    assert isinstance(parse_body(f.body, f).statements[0], ast.Return)


def test_bodies_know_what_their_text_knows() -> None:
    """Whether `(T)(-x)` converts or subtracts, language, and macros."""
    text = "#lang 2026\n#define TWICE(x) x, x\nstruct T { int v; }\nint f(int x) { (T) - x; let p = (TWICE(1)); }"
    source = SourceFile("test.slang", text)
    module = late(text)
    parse_bodies(module)
    assert print_node(module) == print_node(parse_module(source, Reporter())) and module.language == 2026


# --- The library --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_tree_is_the_same_in_the_end(path: Path) -> None:
    """Twice: what was saved does not change."""
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    wanted = parse_module(source, Reporter())
    data = saved(source)
    for _ in range(2):
        module = late_module(data, source)
        parse_bodies(module)
        assert print_node(module) == print_node(wanted)
        assert [_places(each) for each in walk(module)] == [_places(each) for each in walk(wanted)]
        assert all(_stands_in(each) == _stands_in(other) for each, other in zip(walk(module), walk(wanted)))


def _places(node: ast.SyntaxNode) -> tuple[object, ...]:
    names = [name for name in ("span", "name_span") if name in fields_of(type(node))]
    return (type(node), *(getattr(node, name) for name in names))


def _stands_in(node: ast.SyntaxNode) -> object:
    parent = getattr(node, "parent", None)
    return None if parent is None else (type(parent), parent.name, parent.span)
