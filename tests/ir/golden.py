"""Compare IR with the text that is expected, and its numbers with those from before; the names of values do not count."""

from collections.abc import Sequence

from slangrad.ir.ops.core import Function, Program, walk
from slangrad.ir.text.printer import print_program
from tests.ir.outcomes import Input, assert_same, outcome
from tests.ir.parse_text import parse_function


def assert_becomes(change, before: str, after: str, inputs: Sequence[Sequence[Input]] = ()) -> None:
    """A pass turns the function of one text into that of another; both give the same for each row of inputs."""
    function = parse_function(before)
    changed = change(function)
    made, wanted = numbered(changed), numbered(parse_function(after))
    assert made == wanted, f"made:\n{made}\nwanted:\n{wanted}"
    for row in inputs:
        assert_same(*(outcome(Program({f.name: f}), f.name, row) for f in (function, changed)))


def numbered(function: Function) -> str:
    """The text of a function, and of its structs, with numbers for names."""
    copy = parse_function(_text(function))
    for op in walk(copy.region):
        for value in (*op.results, *(p for region in op.regions for p in region.parameters)):
            value.hint = ""
    return _text(copy)


def _text(function: Function) -> str:
    return print_program(Program({function.name: function}))
