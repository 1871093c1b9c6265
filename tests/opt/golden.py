"""Compare IR with the text that is expected, after both are printed in the same way."""

from slangrad.ir.text import parse_function, print_function


def assert_becomes(change, before, after):
    """A pass turns the function of one text into that of another."""
    assert print_function(change(parse_function(before))) == print_function(parse_function(after))
