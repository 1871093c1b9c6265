"""Where modules and included files are found, and a record of what was found.

    files = Files([Path("shaders")])
    files.module("constants", importer)      the text and the path of a module; None when there is none
    files.included("macros.h", includer)     the text of a file

This needs no parser: whether a module is still made of the same texts can be told without one. A text that was
read to tell that is the one that is parsed later, whatever happens to the file in between (`kept`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from slangrad.base.source import SourceFile

STD = Path(__file__).parent.parent / "std"
MODULE, FILE, INCLUDED, LINK = "module", "file", "included", "link"


class Request(NamedTuple):
    """A name that a text asked for, from which file, and what it meant: the key of a module, the digest of a file."""

    kind: str
    name: str
    asker: str
    found: str


class Files:
    """The texts that were provided, else files in the folders, the one of the asking file first."""

    def __init__(self, include_paths: Iterable[str | Path] = ()) -> None:
        self.include_paths = [Path(each) for each in include_paths]
        self.texts: dict[str, SourceFile] = {}
        self.kept: dict[Path, SourceFile] = {}

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
        name = f"std/{path.name}" if path.parent == STD else str(path)
        return SourceFile(name, path.read_text(encoding="utf-8-sig"))

    def _folders(self, asker: Path | None) -> list[Path]:
        near = [asker.parent] if asker is not None else []
        return [*near, *self.include_paths, Path(), STD]


def _spellings(name: str) -> list[str]:
    """The files that a module name may mean: a/b_c.slang, a/b-c.slang, or the path itself."""
    if name.endswith(".slang"):
        return [name]
    spelled = [f"{name}.slang", f"{name.replace('_', '-')}.slang", name]
    return list(dict.fromkeys(spelled))
