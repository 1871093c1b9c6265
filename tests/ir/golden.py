"""Compare IR with the text that is expected; the names of values do not count."""

from slangrad.ir.core import Function, walk
from slangrad.ir.text import print_function
from tests.ir.parse_text import parse_function


def assert_becomes(change, before: str, after: str) -> None:
    """A pass turns the function of one text into that of another."""
    made, wanted = numbered(change(parse_function(before))), numbered(parse_function(after))
    assert made == wanted, f"made:\n{made}\nwanted:\n{wanted}"


def numbered(function: Function) -> str:
    """The text of a function with numbers for names."""
    copy = parse_function(print_function(function))
    for op in walk(copy.region):
        for value in (*op.results, *(p for region in op.regions for p in region.parameters)):
            value.hint = ""
    return print_function(copy)
