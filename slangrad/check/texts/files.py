"""Search for modules and included files, and a record of the results.

    files = Files([Path("shaders")])
    files.module("constants", importer)      the text and the path of a module; None when there is none
    files.part("shapes", asker)              the same for a file that belongs to the asking module
    files.included("macros.h", includer)     the text of a file

A module is a file `.slang`, or a precompiled one, `.slang-module`. A file in the folder of the importing file comes
first. Else a source comes before a precompiled module in any folder, because it may be newer.

No parser is needed to check whether a module still has the same texts. A text that was read for that check is
parsed later, even if the file changes in between (`kept`). `seen` records each file that was read with its marks,
so that a change of the file can be noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from slangrad.base.disk.whole_files import read_whole
from slangrad.base.module_file import FILE, INCLUDED, LARGEST, SUFFIX, Macros, ModuleFileError
from slangrad.base.source import SourceFile
from slangrad.check.texts.precompiled import Precompiled
from slangrad.check.texts.reach import Reach, Search

STD = Path(__file__).parents[2] / "std"
WITHIN_STANDARD = {"slangpy"}  # modules of other compilers whose contents are part of the library
UNREADABLE = (OSError, UnicodeDecodeError, ModuleFileError)  # exceptions of unreadable or damaged files


def is_standard(path: Path | None) -> bool:
    """Whether a file is one of the standard library."""
    return path is not None and STD in path.parents


Place = tuple[list[Path], list[str]]

# Time, size and number of a file; None where there is none.
Marks = tuple[int, int, int] | None


class FileState(NamedTuple):
    """A file as it was when it was read; `text` is None where it could not be."""

    marks: Marks
    text: str | None


def marks_of(path: Path) -> Marks:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def seen_now(path: Path) -> FileState:
    marks = marks_of(path)  # before the text: a change in between is noticed later
    try:
        return FileState(marks, _text(read_whole(path, LARGEST)))
    except OSError:
        return FileState(marks, None)


def _text(data: bytes) -> str | None:
    """None for what is no text."""
    try:
        return _decoded(data)
    except UnicodeDecodeError:
        return None


def _decoded(data: bytes) -> str:
    """As `read_text` gives it."""
    with TextIOWrapper(BytesIO(data), encoding="utf-8-sig") as text:
        return text.read()


class CacheFolder(NamedTuple):
    """A folder of precompiled modules that were made of the sources in another folder, each at the same place."""

    folder: Path
    sources: Path


class Files:
    """The provided texts, else files in the folders, the one of the asking file first. Caches are searched for
    modules without a source."""

    def __init__(
        self,
        include_paths: Iterable[str | Path] = (),
        sources_first: bool = True,
        caches: Sequence[CacheFolder] = (),
    ) -> None:
        self.include_paths = [Path(folder) for folder in include_paths]
        self.texts: dict[str, SourceFile] = {}
        self.kept: dict[Path, SourceFile] = {}
        self.seen: dict[Path, FileState] = {}  # all that was read, but for the standard library
        self.precompiled = Precompiled()
        self.asked_for: set[str] = set()  # by the user, and not by a text
        self._reach = Reach([*self.include_paths, STD, *(cache.folder for cache in caches)])
        self._sources_first = sources_first
        self._caches = list(caches)

    def module(self, name: str, importer: Path | None) -> tuple[SourceFile, Path | None] | None:
        """A module. OSError and UnicodeDecodeError when the file cannot be read, ModuleFileError when it is no
        precompiled module."""
        text = self._provided(name)
        if text is not None:
            return text, None
        near, places = self._places(name, importer)
        search = self._search(name, importer, near or [Path()], modules_here=True)
        for folders, spellings in places:
            path = search.first(folders, spellings)
            if path is not None:
                if importer is None and name in self.asked_for:
                    self._reach.enter_own(path)
                return self.read(path), path
        search.give_up()
        return None

    def importer(self, name: str, file: Path, module: Path | None) -> Path | None:
        """The file beside which a module is looked for: an included one that imports it, if it is there, else that of
        the module."""
        if file == module or file.absolute() not in self.seen:
            return module
        try:
            return module if self.module(name, file) is None else file
        except UNREADABLE:
            return module

    def part(self, name: str, asker: Path | None) -> tuple[SourceFile, Path | None] | None:
        """A file of the asking module, which has no compiled form of its own."""
        text = self._provided(name)
        if text is not None:
            return text, None
        inside = None if asker is None else self.precompiled.text(FILE, name, asker)
        if inside is not None:
            return inside
        path = self._beside(name, asker, _spellings(name))
        return None if path is None else (self.read(path), path)

    def _beside(self, name: str, asker: Path | None, spellings: list[str]) -> Path | None:
        """A file in the folder of the one that asks, in the include paths or the current folder."""
        near = [] if asker is None else [asker.parent]
        search = self._search(name, asker, near)
        path = search.first([*near, *self.include_paths, Path(), STD], spellings)
        if path is None:
            search.give_up()
        return path

    def _search(self, name: str, asker: Path | None, near: list[Path], modules_here: bool = False) -> Search:
        file = None if asker is None else self.precompiled.file_of(asker)
        if file is None:
            return Search(self._reach, name, asker, near, self._reach.roots(asker), modules_here)
        sources = (cache.sources for cache in self._caches if cache.folder in file.parents)
        return Search(self._reach, name, file, near, (file.parent, *sources), modules_here)

    def _provided(self, name: str) -> SourceFile | None:
        return self.texts.get(name) or self.texts.get(name.replace("/", "."))

    def _places(self, name: str, importer: Path | None) -> tuple[list[Path], list[Place]]:
        """The folders of the importer's own files; folders and the files to look for there, one after the other."""
        forms = [_spellings(name), _precompiled_spellings(name)]
        forms = forms if self._sources_first else forms[::-1]
        near = [] if importer is None else [importer.parent]
        cached = [cache for cache in self._caches if cache.folder in (importer or Path()).parents]
        original = [cache.sources / near[0].relative_to(cache.folder) for cache in cached]
        searched = (original or near, [*self.include_paths, Path()])
        places: list[Place] = [(folders, form) for folders in searched for form in forms]
        caches = [*(near if cached else ()), *(cache.folder for cache in self._caches)]
        places += [(caches, _precompiled_spellings(name)), ([STD], _spellings(name))]
        if name in WITHIN_STANDARD:  # elsewhere it is that of another compiler
            places.insert(0, places[-1])
        return original or near, places

    def included(self, name: str, includer: str) -> SourceFile | None:
        provided = self.texts.get(name)
        if provided is not None:
            return provided
        inside = self.precompiled.text(INCLUDED, name, Path(includer))
        if inside is not None:
            return inside[0]
        path = self._beside(name, Path(includer), [name])
        return None if path is None else self.read(path)

    def macros(self, place: Path | None) -> Macros | None:
        """The macros of a precompiled text, and of the library, which has none; None: those of the program."""
        if is_standard(place):
            return ()
        return None if place is None else self.precompiled.macros(place)

    def is_precompiled(self, source: SourceFile) -> bool:
        """Whether a text is one of a precompiled module."""
        return self.precompiled.macros(Path(source.name)) is not None

    def read(self, path: Path) -> SourceFile:
        kept = self.kept.get(path)
        if kept is not None:
            return kept
        if path.name.endswith(SUFFIX):
            return self._open(path)
        if is_standard(path):
            return SourceFile(f"std/{path.relative_to(STD).as_posix()}", path.read_text(encoding="utf-8-sig"))
        whole, marks = path.absolute(), marks_of(path)
        self.seen[whole] = FileState(marks, None)
        text = _decoded(read_whole(path, LARGEST))
        self.seen[whole] = FileState(marks, text)
        return SourceFile(str(path), text)

    def _open(self, path: Path) -> SourceFile:
        whole, marks = path.absolute(), marks_of(path)
        self.seen.setdefault(whole, FileState(marks, None))
        source, data = self.precompiled.open(path)
        if data is not None:
            self.seen[whole] = FileState(marks, _text(data))
        return source

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
        """Merge the records of another `Files`: later changes are relative to its reads, too."""
        for path in self.seen.keys() - others.seen.keys():
            self.seen[path] = seen_now(path)
        self.seen |= others.seen


def _spellings(name: str) -> list[str]:
    """The sources that a module name may mean: a/b_c.slang, a/b-c.slang, or the path itself."""
    if name.endswith(SUFFIX):
        return []
    if name.endswith(".slang"):
        return [name]
    spelled = [f"{name}.slang", f"{name.replace('_', '-')}.slang", name]
    return list(dict.fromkeys(spelled))


def _precompiled_spellings(name: str) -> list[str]:
    """The same for precompiled modules, which replace a source."""
    if name.endswith(SUFFIX):
        return [name]
    stem = name.removesuffix(".slang")
    return list(dict.fromkeys((stem + SUFFIX, stem.replace("_", "-") + SUFFIX)))
