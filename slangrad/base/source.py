"""Source texts, places in them, lines with their places, and the excerpt with a caret.

In: a name and a text.   Out: `Span`s, which every token, AST node, IR op and diagnostic carries.

    3 |     float y = sinn(x);
      |               ^^^^

Offsets are indices into `text`; lines and columns count from one and are computed on demand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from slangrad.base.disk.store import content_key

TAB_WIDTH = 4
LONGEST_EXCERPT = 160


class IncludeError(Exception):
    """A text exists and cannot be included. `note` is a cure."""

    def __init__(self, message: str, note: str | None = None) -> None:
        super().__init__(message)
        self.note = note


class SourceFile:
    """One text with a name; compares by identity. `is_page`: a call from Python wrote it."""

    __slots__ = ("_line_starts", "is_page", "name", "text")

    def __init__(self, name: str, text: str, is_page: bool = False) -> None:
        self.name = name
        self.text = text
        self.is_page = is_page
        self._line_starts: list[int] | None = None

    def __repr__(self) -> str:
        return f"SourceFile({self.name!r})"

    @property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line."""
        if self._line_starts is None:
            starts = [0]
            position = self.text.find("\n")
            while position >= 0:
                starts.append(position + 1)
                position = self.text.find("\n", position + 1)
            self._line_starts = starts
        return self._line_starts

    @property
    def digest(self) -> str:
        """Of the text under its name."""
        return content_key(self.name, self.text)

    @property
    def is_library(self) -> bool:
        """Whether this is a file of the standard library."""
        return self.name.startswith("std/")

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from one."""
        starts = self.line_starts
        line = bisect_right(starts, max(offset, 0))
        return line, max(offset, 0) - starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of line `line` (from one) without its line end; empty when there is no such line."""
        starts = self.line_starts
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r")


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """The characters `start <= i < end` of a source. Never changed; frozen would be slower.

    Of inlined code, `caller` is the place of the call.
    """

    source: SourceFile
    start: int
    end: int
    caller: Span | None = field(default=None, compare=False, repr=False)

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def location(self) -> str:
        """`file:line:column`, as editors understand it."""
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def and_callers(self) -> Iterator[Span]:
        """This place, the call that brought its code where it is, the call of that function, and so on."""
        place: Span | None = self
        while place is not None:
            yield place
            place = place.caller

    @property
    def outside_library(self) -> Span:
        """The same place; for inlined code of the library the user's call of it."""
        return next((place for place in self.and_callers() if not place.source.is_library), self)

    def called_from(self, site: Span) -> Span:
        """The same place, in code that was inlined at a call."""
        caller = site if self.caller is None else self.caller.called_from(site)
        return Span(self.source, self.start, self.end, caller)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a stage's text, and the span that it comes from."""

    text: str
    span: Span | None = None


def source_lines(source: SourceFile) -> list[Line]:
    ends = [*source.line_starts[1:], len(source.text) + 1]
    spans = (Span(source, start, end - 1) for start, end in zip(source.line_starts, ends, strict=True))
    return [Line(span.text, span) for span in spans]


def text_of(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


def excerpt(span: Span) -> str:
    """The first line of the span with a caret line below it."""
    line, column = span.source.line_column(span.start)
    text = span.source.line_text(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    before = text[: column - 1].expandtabs(TAB_WIDTH)
    marked = text[column - 1 : column - 1 + width].expandtabs(TAB_WIDTH)
    shown = text.expandtabs(TAB_WIDTH)
    skipped = max(0, len(before) - LONGEST_EXCERPT // 2)
    shown = shown[skipped : skipped + LONGEST_EXCERPT]
    carets = "^" * max(1, min(len(marked), LONGEST_EXCERPT // 2))
    number = str(line)
    indent = " " * (len(before) - skipped)
    return f"{number} | {shown}\n{' ' * len(number)} | {indent}{carets}"
