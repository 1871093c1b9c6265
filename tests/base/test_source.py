"""Places in a text and how they are shown."""

from slangrad.base.source import SourceFile, Span, excerpt

TEXT = "float f()\n{\n\treturn x;\r\n}\n"


def test_lines_and_columns():
    source = SourceFile("a.slang", TEXT)
    assert source.line_column(0) == (1, 1)
    assert source.line_column(TEXT.index("{")) == (2, 1)
    assert source.line_column(TEXT.index("x;")) == (3, 9)
    assert source.line_column(len(TEXT)) == (5, 1)
    assert (source.line_text(3), source.line_text(5), source.line_text(6)) == ("\treturn x;", "", "")


def test_span():
    source = SourceFile("a.slang", TEXT)
    x = Span(source, TEXT.index("x;"), TEXT.index("x;") + 1)
    assert (x.text, x.location, x.line, x.column) == ("x", "a.slang:3:9", 3, 9)


def test_excerpt():
    source = SourceFile("a.slang", TEXT)
    start = TEXT.index("return")
    assert excerpt(Span(source, start, start + 6)) == "3 |     return x;\n  |     ^^^^^^"
    assert excerpt(Span(source, 0, len(TEXT))) == "1 | float f()\n  | ^^^^^^^^^"
    assert excerpt(Span(source, len(TEXT), len(TEXT))) == "5 | \n  | ^"


def test_long_lines_are_cut_around_the_place():
    source = SourceFile("a.slang", "a" * 1000 + "X" + "b" * 1000)
    line, carets = excerpt(Span(source, 1000, 1001)).split("\n")
    assert len(line) < 200 and line[carets.index("^")] == "X"
