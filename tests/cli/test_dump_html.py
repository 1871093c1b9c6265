"""`slangrad dump --html`: one page, nothing from elsewhere, and lines that know where they came from."""

import json
import re
from html.parser import HTMLParser

import pytest

PROGRAM = """\
[Differentiable]
float square(float x)
{
    return x * x;
}

[Differentiable]
float f(float x, float y)
{
    float a = x / y;
    return square(a) < 2.0 ? a : exp2(y);
}

[shader("compute")] [numthreads(32, 1, 1)]
void fill(uint3 id : SV_DispatchThreadID, uniform float* data)
{
    data[id.x] = id.x & 3 ? 0.5 : 2.5;
}
"""


class Page(HTMLParser):
    """Columns as lists of (text, place, classes), and all that refers to other files."""

    def __init__(self, text):
        super().__init__()
        self.columns, self.hidden, self.elsewhere, self.kinds = {}, [], [], {}
        self._open, self._row = [], None
        self.feed(text)
        self.places = json.loads(re.search(r"^const PLACES = (.*);$", text, re.MULTILINE)[1])
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.elsewhere += [name for name in ("src", "href", "action", "data") if name in values]
        if tag == "section":
            self._column = self.columns[values["data-name"]] = []
            self.kinds[values["data-name"]] = values.get("data-kind")
            self.hidden += [values["data-name"]] if "hidden" in values else []
        if tag == "li":
            self._row = ["", values.get("data-p"), values.get("class")]
            self._column.append(self._row)
        elif tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "ol":
            self._row = None

    def handle_data(self, data):
        if self._row is not None:
            self._row[0] += data.rstrip("\n")

    def lines_of(self, column, line, source="program.slang"):
        """What stands in a column because of a line of the program."""
        sources = [name for name, kind in self.kinds.items() if kind == "source"]
        key = [sources.index(source), line]
        return [text for text, place, _ in self.columns[column] if place and key in self.places[int(place)]]


@pytest.fixture
def page(slangrad, write, tmp_path):
    def make(*words):
        write("program.slang", PROGRAM)
        code, printed, errors = slangrad(
            "dump", "program.slang", *words, "--html", "page.html", SLANGRAD_LANES="8"
        )
        assert (code, errors) == (0, "")
        return Page((tmp_path / "page.html").read_text()), printed

    return make


def test_columns(page):
    made, printed = page("f", "--bwd")
    assert printed == "page.html: 13 columns\n"
    assert list(made.columns) == [
        "program.slang", "kernel", "ast", "lowered", "autodiff", "inlined", "clean", "flat", "math", "delayed", "lanes", "llvm", "asm"
    ]  # fmt: skip
    assert made.hidden == ["ast", "inlined", "math", "delayed"]
    assert made.elsewhere == []
    assert [text for text, _, _ in made.columns["program.slang"]] == PROGRAM.splitlines()


def test_a_line_in_every_column(page):
    made, _ = page("f")
    assert made.lines_of("program.slang", 10) == ["    float a = x / y;"]
    expected = {
        "lowered": "div %",
        "flat": "div %",
        "lanes": "div %",
        "llvm": "fdiv <8 x float>",
        "asm": "div",
    }
    for column, text in expected.items():
        assert any(text in line for line in made.lines_of(column, 10)), column
        assert not any(text in line for line in made.lines_of(column, 4)), column
    assert all("mul" in line for line in made.lines_of("flat", 4))


def test_places_name_calls(page):
    made, _ = page("f", "--bwd")
    call = next(n for n, (text, _, _) in enumerate(made.columns["kernel"], 1) if "bwd_diff(f)" in text)
    rows = [(text, made.places[int(place)]) for text, place, _ in made.columns["clean"] if place]
    places = next(place for text, place in rows if [0, 4] in place)
    assert places == [[0, 4], [0, 11], [1, call]]


def test_colors_are_for_lines_of_the_program_that_became_code(page):
    made, _ = page("f")
    program = {n: color for n, (_, _, color) in enumerate(made.columns["program.slang"], 1)}
    assert program[10] and program[11] and program[10] != program[11]
    assert program[6] is None and program[17] is None
    assert {color for text, _, color in made.columns["flat"] if "div" in text} == {program[10]}
    assert {color for _, _, color in made.columns["kernel"]} == {None}


def test_kernels_are_shown_as_they_are(page):
    made, printed = page("fill")
    assert printed == "page.html: 12 columns\n"
    assert "kernel" not in made.columns
    assert any("store" in line for line in made.lines_of("lanes", 17))
    assert any("and" in line or "ptest" in line for line in made.lines_of("asm", 17))


def test_text_is_escaped(page, tmp_path):
    page("f", "--bwd")
    text = (tmp_path / "page.html").read_text()
    assert "&lt;" in text and "<float" not in text and "<8 x" not in text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("f", "--html", "missing/page.html"), "error: 'missing/page.html' cannot be written: No such file"),
        (
            ("f", "--html", "page.html", "--all"),
            "error: --html shows all stages: leave out --after and --all",
        ),
        (("fill", "--bwd"), "error: 'fill' is a kernel: --fwd, --bwd and --uniform are for functions"),
    ],
)
def test_failures(slangrad, write, words, error):
    write("program.slang", PROGRAM)
    code, printed, shown = slangrad("dump", "program.slang", *words)
    assert (code, printed) == (1, "")
    assert error in shown


def test_files_named_like_the_librarys_do_not_replace_it(slangrad, write):
    write("program.slang", PROGRAM)
    write("math_functions.slang", "float exp2_f32(float x) { return 0; }")
    code, printed, _ = slangrad("dump", "program.slang", "f", "--after", "math")
    assert code == 0 and "func @kernel" in printed
