"""Where modules and included files are found, and a record of what was found.

    files = Files([Path("shaders")])
    files.module("constants", importer)      the text and the path of a module; None when there is none
    files.included("macros.h", includer)     the text of a file

This needs no parser: whether a module is still made of the same texts can be told without one. A text that was
read to tell that is the one that is parsed later, whatever happens to the file in between (`kept`). What was read
is remembered with the file's marks (`seen`), so that somebody can see when a file changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from slangrad.base.source import SourceFile

STD = Path(__file__).parent.parent / "std"
MODULE, FILE, INCLUDED, LINK = "module", "file", "included", "link"


def is_standard(path: Path | None) -> bool:
    """Whether a file is one of the standard library."""
    return path is not None and STD in path.parents


class Request(NamedTuple):
    """A name that a text asked for, from which file, and what it meant: the key of a module, the digest of a file."""

    kind: str
    name: str
    asker: str
    found: str


# Time, size and number of a file; None where there is none.
Marks = tuple[int, int, int] | None


class Seen(NamedTuple):
    """A file as it was when it was read; `text` is None where it could not be."""

    marks: Marks
    text: str | None


def marks_of(path: Path) -> Marks:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def seen_now(path: Path) -> Seen:
    marks = marks_of(path)  # before the text: a change in between is noticed later
    try:
        return Seen(marks, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return Seen(marks, None)


class Files:
    """The texts that were provided, else files in the folders, the one of the asking file first."""

    def __init__(self, include_paths: Iterable[str | Path] = ()) -> None:
        self.include_paths = [Path(each) for each in include_paths]
        self.texts: dict[str, SourceFile] = {}
        self.kept: dict[Path, SourceFile] = {}
        self.seen: dict[Path, Seen] = {}  # all that was read, but for the standard library

    def module(self, name: str, importer: Path | None) -> tuple[SourceFile, Path | None] | None:
        """A module or a part of one; OSError and UnicodeDecodeError when the file cannot be read."""
        given = self.texts.get(name) or self.texts.get(name.replace("/", "."))
        if given is not None:
            return given, None
        for folder in self._folders(importer):
            for spelling in _spellings(name):
                path = folder / spelling
                if path.is_file():
                    return self.read(path), path
        return None

    def included(self, name: str, includer: str) -> SourceFile | None:
        given = self.texts.get(name)
        if given is not None:
            return given
        for folder in self._folders(Path(includer)):
            path = folder / name
            if path.is_file():
                return self.read(path)
        return None

    def read(self, path: Path) -> SourceFile:
        kept = self.kept.get(path)
        if kept is not None:
            return kept
        if is_standard(path):
            return SourceFile(f"std/{path.relative_to(STD).as_posix()}", path.read_text(encoding="utf-8-sig"))
        whole, marks = path.absolute(), marks_of(path)
        self.seen[whole] = Seen(marks, None)
        text = path.read_text(encoding="utf-8-sig")
        self.seen[whole] = Seen(marks, text)
        return SourceFile(str(path), text)

    def changed(self) -> bool:
        """Whether a file has another text than when it was read. Texts are compared: two that were written in the same
        moment may have the same marks."""
        for path, was in list(self.seen.items()):
            now = seen_now(path)
            if now.text != was.text:
                return True
            self.seen[path] = now
        return False

    def watch_also(self, others: Files) -> None:
        """From now on a change is one of what others have read, and of what only these have."""
        for path in self.seen.keys() - others.seen.keys():
            self.seen[path] = seen_now(path)
        self.seen |= others.seen

    def _folders(self, asker: Path | None) -> list[Path]:
        near = [asker.parent] if asker is not None else []
        return [*near, *self.include_paths, Path(), STD]


def _spellings(name: str) -> list[str]:
    """The files that a module name may mean: a/b_c.slang, a/b-c.slang, or the path itself."""
    if name.endswith(".slang"):
        return [name]
    spelled = [f"{name}.slang", f"{name.replace('_', '-')}.slang", name]
    return list(dict.fromkeys(spelled))
