"""Opened precompiled modules, and the texts behind names inside of them.

    opened = Precompiled()
    main = opened.open(Path("lib/scale.slang-module"))     the module's text, named lib/scale.slang-module/scale.slang
    opened.text(INCLUDED, "macros.h", Path(main.name))     the text that it included when it was compiled

The file lookup treats such a file as a folder that holds the texts of one module. Imports of the module are looked up
elsewhere, as for any other module.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from slangrad.base.disk.whole_files import read_whole
from slangrad.base.module_file import LARGEST, Macros, ModuleFileError, PackedModule, from_bytes
from slangrad.base.source import SourceFile


class Opened(NamedTuple):
    """A module and its texts as sources, that of the module first."""

    module: PackedModule
    sources: tuple[SourceFile, ...]


class Precompiled:
    """The modules by the paths of their files. A file is read once."""

    def __init__(self) -> None:
        self._opened: dict[Path, Opened] = {}

    def open(self, path: Path) -> tuple[SourceFile, bytes | None]:
        """The module's text, and the bytes of the file where it was read now; OSError, ModuleFileError."""
        if path in self._opened:
            return self._opened[path].sources[0], None
        data = read_whole(path, LARGEST)
        return self.add(path, data), data

    def add(self, path: Path, data: bytes) -> SourceFile:
        """The same for bytes, as if they were those of the file."""
        try:
            module = from_bytes(data)
        except ModuleFileError as problem:
            raise ModuleFileError(f"'{path}' {problem}", problem.note) from None
        sources = tuple(SourceFile(str(path / name), text) for name, text in module.texts)
        self._opened[path] = Opened(module, sources)
        return sources[0]

    def text(self, kind: str, name: str, asker: Path) -> tuple[SourceFile, Path] | None:
        """The text behind a name in a precompiled module, and its path there; None for others."""
        owner = self._owner(asker)
        if owner is None:
            return None
        opened, number = owner
        position = opened.module.meanings.get((kind, name, number))
        if position is None:
            return None
        return opened.sources[position], Path(opened.sources[position].name)

    def macros(self, place: Path) -> Macros | None:
        """The macros that a text was compiled with; None unless it is precompiled."""
        owner = self._owner(place)
        return None if owner is None else owner[0].module.macros

    def file_of(self, place: Path) -> Path | None:
        """The precompiled module that a text belongs to, or that the place is."""
        places = (place, *place.parents) if self._opened else ()
        return next((folder for folder in places if folder in self._opened), None)

    def _owner(self, place: Path) -> tuple[Opened, int] | None:
        """The module that a text or the file itself belongs to, and the number of the text."""
        file = self.file_of(place)
        if file is None:
            return None
        opened = self._opened[file]
        names = [source.name for source in opened.sources]
        if str(place) in names:
            return opened, names.index(str(place))
        return (opened, 0) if place == file else None
