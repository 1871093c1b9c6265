"""Collecting and showing diagnostics."""

import pytest

from slangrad.base.diagnostics import CODES, CompileError, Diagnostic, Reporter
from slangrad.base.source import SourceFile, Span

SOURCE = SourceFile("a.slang", "float x = y;\nint z;\n")
Y = Span(SOURCE, 10, 11)


def test_text():
    diagnostic = Diagnostic("E0202", "no such thing", Y, "try x", related=(("see", Span(SOURCE, 17, 18)),))
    assert str(diagnostic) == (
        "error[E0202]: no such thing\n"
        "  --> a.slang:1:11\n"
        "1 | float x = y;\n"
        "  |           ^\n"
        "  see: a.slang:2:5\n"
        "2 | int z;\n"
        "  |     ^\n"
        "  note: try x"
    )
    assert str(Diagnostic("E0112", "careful", severity="warning")) == "warning[E0112]: careful"


def test_codes_are_four_digits_of_known_ranges():
    ranges = {*range(1, 11), 90}
    assert all(len(code) == 5 and code[0] == "E" and int(code[1:3]) in ranges for code in CODES)
    with pytest.raises(AssertionError):
        Diagnostic("E9999", "no row")


def test_reporter():
    reporter = Reporter()
    reporter.warning("E0112", "careful", Y)
    assert not reporter.has_errors
    reporter.raise_if_errors()
    reporter.error("E0202", "first", Y)
    reporter.error("E0202", "the same place again", Y)
    reporter.error("E0201", "another code", Y)
    with pytest.raises(CompileError) as caught:
        reporter.raise_if_errors()
    assert [each.code for each in caught.value.diagnostics] == ["E0112", "E0202", "E0201"]
    assert isinstance(caught.value, ValueError) and "error" in str(caught.value)


def test_an_error_counts_even_behind_many_warnings():
    reporter = Reporter(limit=2)
    for start in range(5):
        reporter.warning("E0112", "careful", Span(SOURCE, start, start + 1))
    reporter.error("E0202", "wrong", Y)
    reporter.error("E0201", "more", Y)
    assert reporter.has_errors and len(reporter.diagnostics) == 3
