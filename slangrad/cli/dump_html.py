"""`slangrad dump --html`: all stages of a kernel side by side on one page that needs nothing else.

    source            lowered              lanes                  asm
    y = y * x + a;    %9 = mul %a.2, %x    %26 = mul %25, %20     vmulps %ymm6, %ymm4, %ymm1

In: a compiled kernel.   Out: HTML, with colors for tokens (no grammar is known). Each line has the number of its
place: a list of source lines, that of the code itself and those of the calls that inlined it. page/page.js uses
these numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from slangrad.base.source import Line, SourceFile, source_lines
from slangrad.pipeline import CompiledKernel

PAGE = Path(__file__).parent / "page"
HUES = 8  # of the bars that mark lines; page.css has as many

ABOUT = {
    "ast": "parsed and checked, with types",
    "lowered": "IR; derivatives are requests",
    "autodiff": "requests have become functions",
    "inlined": "one function",
    "clean": "unrolled, hoisted, dead code gone",
    "flat": "scalars and memory only",
    "math": "sin, exp and others are arithmetic",
    "delayed": "float adds wait for the end of the launch",
    "lanes": "one thread has become W lanes",
    "llvm": "LLVM's language",
    "asm": "assembly for this machine",
}
LANGUAGES = {"ast": "ast", "llvm": "llvm", "asm": "asm"}
HIDDEN = ("ast", "inlined", "math", "delayed")  # to begin with

Place = tuple[tuple[int, int], ...]  # (number of the source, line), the innermost first


@dataclass(frozen=True, slots=True)
class Column:
    """A stage, or with `source` a text that code comes from."""

    name: str
    about: str
    language: str
    lines: list[Line]
    milliseconds: float | None = None
    source: SourceFile | None = None


class Places:
    """Numbers the places in the sources on the page that lines come from."""

    def __init__(self, sources: list[SourceFile]) -> None:
        self._sources = {source: number for number, source in enumerate(sources)}
        self._generated = {number for number, source in enumerate(sources) if is_generated(source)}
        self._numbers: dict[Place, int] = {}
        self._hues: dict[tuple[int, int], int] = {}

    def color(self, lines: list[Line]) -> None:
        """Give the user's lines colors in their order: the sources of any of `lines`."""
        firsts = {first for line in lines if (first := self._first(line)) is not None}
        self._hues = {source: number % HUES for number, source in enumerate(sorted(firsts))}

    def number(self, line: Line) -> int | None:
        """None for a line with another source."""
        place = self._place(line)
        return self._numbers.setdefault(place, len(self._numbers)) if place else None

    def hue(self, line: Line) -> int | None:
        first = self._first(line)
        return None if first is None else self._hues.get(first)

    def _first(self, line: Line) -> tuple[int, int] | None:
        """The user's line; code of the generated kernel alone has none."""
        return next((place for place in self._place(line) if place[0] not in self._generated), None)

    def _place(self, line: Line) -> Place:
        spans = [] if line.span is None else line.span.and_callers()
        places = ((self._sources.get(span.source), span.line) for span in spans)
        return tuple(dict.fromkeys((source, line) for source, line in places if source is not None))

    def table(self) -> list[Place]:
        return list(self._numbers)


def is_generated(source: SourceFile) -> bool:
    return source.name.startswith("kernel ")


def write_page(path: Path, compiled: CompiledKernel, title: str, machine: str) -> int:
    """Write the page, and print how many columns it has."""
    columns = columns_of(compiled)
    try:
        path.write_text(page(columns, title, machine), encoding="utf-8")
    except OSError as failure:
        raise ValueError(f"error: '{path}' cannot be written: {failure.strerror}") from None
    return len(columns)


def page(columns: list[Column], title: str, machine: str) -> str:
    places = Places([column.source for column in columns if column.source is not None])
    places.color([line for column in columns if column.source is None for line in column.lines])
    times = [column.milliseconds or 0.0 for column in columns]
    sections = "\n".join(section(column, places, max(times)) for column in columns)
    return Template(_part("page.html")).substitute(
        title=escape(title),
        machine=escape(f"{machine}, compiled in {sum(times):.0f} ms"),
        style=_part("page.css"),
        script=_part("page.js"),
        chips="\n".join(map(_chip, columns)),
        columns=sections,
        places=json.dumps(places.table(), separators=(",", ":")),
    )


def _part(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


# --- Columns


def columns_of(compiled: CompiledKernel) -> list[Column]:
    """The files that code comes from, the kernel, the stages."""
    stages = {stage: compiled.lines(stage) for stage in compiled.stages}
    columns = [_source_column(source) for source in files_of(stages)]
    for stage in (name for name in stages if name != "kernel"):
        time, language = compiled.milliseconds.get(stage), LANGUAGES.get(stage, "ir")
        columns.append(Column(stage, ABOUT[stage], language, stages[stage], time))
    return columns


def _source_column(source: SourceFile) -> Column:
    if is_generated(source):
        return Column(
            "kernel",
            "generated: calls the function over arrays",
            "slang",
            source_lines(source),
            source=source,
        )
    return Column(Path(source.name).name, "as written", "slang", source_lines(source), source=source)


def files_of(stages: dict[str, list[Line]]) -> list[SourceFile]:
    """All texts that lines come from but the library's; the generated kernel last."""
    spans = (line.span for lines in stages.values() for line in lines if line.span is not None)
    sources: dict[str, SourceFile] = {}
    for source in dict.fromkeys(place.source for span in spans for place in span.and_callers()):
        earlier = sources.get(source.name)  # what macros expand to has the name of its file
        if not source.is_library and (earlier is None or len(earlier.text) < len(source.text)):
            sources[source.name] = source
    return sorted(sources.values(), key=is_generated)


# --- HTML


def _chip(column: Column) -> str:
    checked = "" if column.name in HIDDEN else " checked"
    return (
        f'<label><input type="checkbox" value="{escape(column.name)}"{checked}>{escape(column.name)}</label>'
    )


def section(column: Column, places: Places, slowest: float) -> str:
    name, time = escape(column.name), ""
    if column.milliseconds is not None:
        part = 100 * column.milliseconds / slowest if slowest else 0
        time = f'<span class="time" style="--part:{part:.1f}%">{column.milliseconds:.1f} ms</span>'
    hidden = " hidden" if column.name in HIDDEN else ""
    kind = "" if column.source is None else ' data-kind="source"'
    return f"""<section data-name="{name}"{kind} aria-label="{name}"{hidden}>
<h2><b>{name}</b> {time}<span class="found" aria-live="polite"></span>
<small>{escape(column.about)}</small></h2>
<ol tabindex="0">
{"".join(_rows(column, places))}</ol><canvas aria-hidden="true"></canvas>
</section>"""


def _rows(column: Column, places: Places) -> Iterator[str]:
    lines = column.lines
    while lines and not lines[-1].text.strip():
        lines = lines[:-1]
    for line, text in zip(lines, colored([line.text for line in lines], column.language), strict=True):
        number, hue = places.number(line), places.hue(line)
        place = "" if number is None else f" data-p={number}"
        color = "" if hue is None else f" class=h{hue}"
        yield f"<li{place}{color}>{text}\n"


_SLANG = (
    "as bool break case class const continue default do else enum extension fixed for func if import in inout "
    "interface internal implementing let module namespace no_diff out private property public return static struct "
    "switch this This throw typealias typedef uniform using var where while __include __init __subscript "
    "bwd_diff fwd_diff true false"
)
_SLANG_TYPES = (
    r"void|(?:bool|u?int|half|float|double)(?:8|16|32|64)?(?:_t)?(?:[1-4](?:x[1-4])?)?|vector|matrix"
)
_IR_TYPES = r"bool|[iuf](?:1|8|16|32|64)|ptr|lanes|tape|half|float|double|void"
_NUMBER = r"(?<![\w.%@])-?(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[hfuUL]*(?![\w.])"
_STRING = r'"(?:[^"\\]|\\.)*"'
_IR_WORDS = "func|yield|struct|differential|arguments|inout|no_diff|uniform|true|false"
_LLVM_WORDS = "define|declare|attributes|dso_local|noalias|to|label|true|false|poison|zeroinitializer"

_PLAIN = r"(?<![\w.%@])"  # no part of the name of a value

# Of each language: comments, strings, types, words, numbers; the first that fits counts.
# fmt: off
_TOKENS = {
    "slang": (r"//.*|/\*.*?\*/", _STRING, rf"\b(?:{_SLANG_TYPES})\b",
              rf"\b(?:{'|'.join(_SLANG.split())})\b|^\s*#\w+|\[(?=[A-Z])\w+", _NUMBER),
    "ast":   (r"(?<= : ).*", r"'[^']*'", r"^\s*\w+(?=: )", r"(?<=: )[A-Z]\w+|^\s*[A-Z]\w+", _NUMBER),
    "ir":    (r"//.*", _STRING, rf"{_PLAIN}(?:{_IR_TYPES})\b",
              rf"{_PLAIN}(?:{_IR_WORDS})\b|(?<== )[a-z]\w*|^\s+[a-z]\w*", _NUMBER),
    "llvm":  (r";.*|!(?:dbg|prof|\d+|{{).*", _STRING, rf"{_PLAIN}(?:{_IR_TYPES})\b",
              rf"{_PLAIN}(?:{_LLVM_WORDS})\b|(?<== )[a-z]\w*|^  [a-z]\w*|^\w+:", _NUMBER),
    "asm":   (r"#.*|^\s+\..*", _STRING, r"%\w+", r"^\s+[a-z]\w*|^[.\w$]+:", r"\$-?(?:0x)?[\da-f]+|" + _NUMBER),
}
# fmt: on
_TAGS = ("i", "s", "em", "b", "u")
_PATTERNS = {
    language: re.compile("|".join(f"({part})" for part in parts)) for language, parts in _TOKENS.items()
}


def colored(lines: Iterable[str], language: str) -> Iterator[str]:
    pattern = _PATTERNS[language]
    for line in lines:
        text = _aligned(line) if language == "asm" else line.expandtabs(4)
        yield "".join(_pieces(text, pattern))


def _aligned(line: str) -> str:
    """A line of assembly; a tab follows the instruction."""
    if not line.startswith("\t"):
        return line
    instruction, _, operands = line[1:].partition("\t")
    return f"    {instruction:<12} {operands}".rstrip().expandtabs()


def _pieces(line: str, pattern: re.Pattern[str]) -> Iterator[str]:
    done = 0
    for match in pattern.finditer(line):
        assert match.lastindex is not None
        tag = _TAGS[match.lastindex - 1]
        yield escape(line[done : match.start()], quote=False)
        yield f"<{tag}>{escape(match[0], quote=False)}</{tag}>"
        done = match.end()
    yield escape(line[done:], quote=False)
