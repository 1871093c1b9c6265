"""A folder that a session fills with precompiled modules: one for each module that it reads from a file.

    cache = ModuleCache(Path("cache"), include_paths, macros)
    cache.keep(origin, files)              cache/<digest>/0/scale.slang-module, if scale.slang is in the first path
    cache.folders                          where Files looks for modules without a source

Sessions with other include paths or macros have folders of their own (the digest). A file is replaced when it would
have other contents, and as a whole, so any number of processes may fill a cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from slangrad.base.disk.store import content_key
from slangrad.base.disk.whole_files import read_whole, write_whole
from slangrad.base.module_file import FORMAT, LARGEST, SUFFIX, Origin, packed, to_bytes
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import CacheFolder, Files


class ModuleCache:
    """OSError where the folder cannot be made."""

    def __init__(self, folder: Path, include_paths: Iterable[str | Path], macros: Mapping[str, str]) -> None:
        roots = dict.fromkeys(_whole(Path(path)) for path in (*include_paths, Path()))
        key = content_key(FORMAT, tuple(map(str, roots)), tuple(sorted(macros.items())))
        own_folder = _whole(folder) / key
        own_folder.mkdir(parents=True, exist_ok=True)
        self.folders = [CacheFolder(own_folder / str(number), root) for number, root in enumerate(roots)]
        self._kept: dict[Path, SourceFile] = {}

    def keep(self, origin: Origin, files: Files) -> None:
        """Compile a module that was read from a file; others are passed over, and so is a folder without room."""
        target = None if origin.path is None else self._target(origin.path, origin.source.text, files)
        if target is None or self._kept.get(target) is origin.source:
            return
        self._kept[target] = origin.source
        data = to_bytes(packed(origin))
        try:
            if _contents(target) != data:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, data)
        except OSError:
            return

    def _target(self, path: Path, text: str, files: Files) -> Path | None:
        """The file into which a source that was read is compiled."""
        seen = files.seen.get(path.absolute())
        if seen is None or seen.text != text or path.name.endswith(SUFFIX):
            return None
        whole = _whole(path)
        for cache in self.folders:
            if whole.is_relative_to(cache.sources):
                return (cache.folder / whole.relative_to(cache.sources)).with_suffix(SUFFIX)
        return None


def _whole(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _contents(path: Path) -> bytes | None:
    try:
        return read_whole(path, LARGEST)
    except OSError:  # it is not there, or something else is in its place
        return None
