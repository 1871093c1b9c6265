"""Variables, parameters and fields are named by what they hold: words that fit any value are no names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slangrad
from tools.size_table import names_twice

PACKAGE = Path(slangrad.__file__).parent
EMPTY_WORDS = {"asked", "each", "found", "given", "got", "here", "made", "said", "there", "told", "what"}

# Classes of one name that are one idea on two levels: of the public face and of the IR, or of the checker and of the IR.
ON_TWO_LEVELS = ["Array", "Device", "Function", "Struct", "Type"]


def names_bound(text: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each variable, parameter and field."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            yield node.lineno, node.name


def empty_names(text: str) -> list[tuple[int, str]]:
    """Those without a meaning, also behind underscores."""
    return [(line, name) for line, name in names_bound(text) if name.strip("_") in EMPTY_WORDS]


@pytest.mark.parametrize(
    "text",
    [
        "each = 1",
        "for each in range(3): ...",
        "def f(x, /, *, given): ...",
        "f = lambda told: 1",
        "class A:\n    found: int",
        "x.said = 1",
        "try: ...\nexcept ValueError as what: ...",
        "y = [made for made in x]",
        "if (here := 1): ...",
        "x._said = 1",
        "(a, *there), b = x",
    ],
)
def test_what_counts_as_a_name(text: str) -> None:
    assert len(empty_names(text)) == 1


def test_uses_and_longer_names_are_free() -> None:
    assert empty_names("loads = found(x, given=1)\nfound_loads = loads.given") == []


def test_names_say_what_they_hold() -> None:
    faults = {
        str(file.relative_to(PACKAGE)): names
        for file in sorted(PACKAGE.rglob("*.py"))
        if (names := empty_names(file.read_text()))
    }
    assert faults == {}


def test_class_names_have_one_meaning() -> None:
    assert names_twice(file.read_text() for file in sorted(PACKAGE.rglob("*.py"))) == ON_TWO_LEVELS
