"""The files that modules depend on, found and recorded while the modules are loaded.

trace.begin()                                 a module's text is parsed now; modules may begin inside
trace.include("macros.h", includer)           its text, or None after an error
trace.end(source, path, macros)               Origin: all names that were looked up, and what each one meant
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from slangrad.base.module_file import FILE, INCLUDED, Lookup, Macros, ModuleFileError, Origin
from slangrad.base.source import IncludeError, SourceFile, Span
from slangrad.check.texts.files import UNREADABLE, Files

Text = tuple[SourceFile, Path | None]
NOTHING = None, None


class Reporting(Protocol):
    """The parts of a program that this file uses."""

    files: Files

    def error(self, code: str, message: str, span: Span | None, note: str | None = None) -> object: ...


class DependencyTrace:
    """Those of one program, which reports what cannot be found."""

    def __init__(self, program: Reporting) -> None:
        self._program = program
        self._open: list[tuple[list[Lookup], dict[str, SourceFile]]] = []

    def begin(self) -> None:
        self._open.append(([], {}))

    def end(self, source: SourceFile, path: Path | None, macros: Macros) -> Origin:
        requests, texts = self._open.pop()
        return Origin(source, path, tuple(requests), texts, macros)

    def forget(self) -> None:
        self._open.clear()

    def module(self, name: str, importer: Path | None, span: Span | None) -> Text | tuple[None, None]:
        """The caller records the module itself later."""
        return self._find(self._program.files.module, name, importer, span)

    def part(self, name: str, asker: Path | None, span: Span | None) -> Text | tuple[None, None]:
        text = self._find(self._program.files.part, name, asker, span)
        if text[0] is not None:
            self.note_text(FILE, name, str(asker or ""), text[0])
        return text

    def include(self, name: str, includer: SourceFile) -> SourceFile | None:
        """IncludeError where it cannot be read."""
        try:
            text = self._program.files.included(name, includer.name)
        except UNREADABLE as problem:
            raise IncludeError(f"'{name}' cannot be read: {_sentence(problem)}", _note(problem)) from None
        if text is not None:
            self.note_text(INCLUDED, name, includer.name, text)
        return text

    def note_text(self, kind: str, name: str, asker: str, text: SourceFile) -> None:
        digest = text.digest
        self.note(kind, name, asker, digest)
        if self._open:
            self._open[-1][1][digest] = text

    def note(self, kind: str, name: str, asker: str, digest: str) -> None:
        """For the module that is being loaded; the standard library depends on nothing."""
        if self._open:
            self._open[-1][0].append(Lookup(kind, name, asker, digest))

    def _find(
        self,
        find: Callable[[str, Path | None], Text | None],
        name: str,
        asker: Path | None,
        span: Span | None,
    ) -> Text | tuple[None, None]:
        """A text that was provided, else a file."""
        try:
            text = find(name, asker)
        except UNREADABLE as problem:
            self._report(name, problem, span)
            return NOTHING
        if text is None:
            folders = (
                ", ".join(str(folder) for folder in self._program.files.include_paths)
                or "the folder of the file"
            )
            self._program.error("E0327", f"there is no module '{name}'", span, f"looked in {folders}")
            return NOTHING
        return text

    def _report(self, name: str, problem: Exception, span: Span | None) -> None:
        if isinstance(problem, ModuleFileError):
            self._program.error("E0330", str(problem), span, problem.note)
        else:
            message = f"'{name}' cannot be read: {_sentence(problem)}"
            self._program.error("E0327", message, span, _note(problem))


def _sentence(problem: Exception) -> str:
    """Without numbers of errors. Never contents of a file."""
    if isinstance(problem, UnicodeDecodeError):
        return f"it is no text in UTF-8 from byte {problem.start} on"
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    return str(problem)


def _note(problem: Exception) -> str | None:
    return getattr(problem, "note", None)
