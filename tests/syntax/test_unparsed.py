"""Bodies of functions that are parsed when they are asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.copies import late_copy
from slangrad.syntax.parser import parse_module
from slangrad.syntax.print import print_node
from slangrad.syntax.walk import children


def waiting(owner: ast.Declaration) -> Iterator[tuple[ast.Declaration, ast.Unparsed]]:
    for each in children(owner):
        if isinstance(each, ast.Unparsed):
            yield owner, each
        elif isinstance(each, ast.Declaration):
            yield from waiting(each)


def test_a_body_that_waits_has_no_statements() -> None:
    text = SourceFile("test.slang", "float f(float x) { return x; } float g();")
    f, g = parse_module(text, Reporter(), bodies_wait=True).members
    assert isinstance(f.body, ast.Unparsed) and g.body is None
    assert f.body.span.text == "{ return x; }"
    with pytest.raises(AttributeError):
        _ = f.body.statements
    assert isinstance(f.body.parse(f).statements[0], ast.Return)


@pytest.mark.parametrize("path", sorted(STD.glob("*.slang")), ids=lambda path: path.stem)
def test_the_tree_is_the_same_in_the_end(path: Path) -> None:
    """In a twin, and again in the original: a body can be parsed more than once."""
    source, reporter = SourceFile(path.name, path.read_text(encoding="utf-8")), Reporter()
    wanted = print_node(parse_module(source, reporter))
    original = parse_module(source, reporter, bodies_wait=True)
    for module in (late_copy(original), original):
        for owner, body in list(waiting(module)):
            owner.body = body.parse(owner)
            assert all(each.parent is owner for each in declared_in(owner.body))
        assert print_node(module) == wanted
    assert reporter.diagnostics == []


def declared_in(block: ast.Block) -> Iterator[ast.Declaration]:
    for statement in block.statements:
        if isinstance(statement, ast.DeclarationStatement):
            yield from statement.declarations
