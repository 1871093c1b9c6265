"""Which files a text may have read.

    search = Search(reach, "../common/hash.slang", asker, near, ...)      a name, and the file that asks for it
    search.first(folders, spellings)                                        the first of these files, or None
    search.give_up()                                                        an error with the reason

A file that the user loads, and the files beside it that it requests, may request any file. A precompiled module,
and one from the include paths, belong to others: they may read files in their own folder and in the include paths,
links followed. So no error shows lines of a file outside of these folders.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from slangrad.base.disk.whole_files import require_file
from slangrad.base.module_file import SUFFIX
from slangrad.base.records import record

Roots = tuple[Path, ...]
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class OutsideError(PermissionError):
    """A module requests a file that it must not read. `note` is a cure."""

    note = "add the folder of the file to include_paths, or load the module's own source, which may include any file"


class Reach:
    """Of the texts of one program, by the paths of their files."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)  # that all texts reach
        self._own: set[Path] = set()
        self._of_others: dict[Path, Roots] = {}

    def roots(self, asker: Path | None) -> Roots | None:
        """The folders that a source reaches besides; None: it may ask for any file."""
        return None if asker is None else self._of_others.get(asker)

    def allows(self, path: Path, roots: Roots) -> bool:
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(folder)) for folder in (*roots, *self._folders))

    def enter_own(self, path: Path) -> None:
        """The user has asked for a file."""
        self._own.add(path)
        self._of_others.pop(path, None)

    def enter(self, path: Path, roots: Roots | None) -> None:
        """Record a file of others, requested by one with such roots or by one of the user."""
        if path not in self._own:
            folders = (*(roots or ()), path.parent, Path(os.path.realpath(path)).parent)
            self._of_others.setdefault(path, tuple(dict.fromkeys(folders)))


@record
class Search:
    """One name that is looked for, in one list of folders after the other. `near`: folders of the asker's own files.
    `modules_here`: modules in the current folder can be seen by all."""

    reach: Reach
    name: str
    asker: Path | None
    near: Sequence[Path]
    roots: Roots | None
    modules_here: bool
    problem: OSError | None = field(default=None, init=False)

    def first(self, folders: Iterable[Path], spellings: Sequence[str]) -> Path | None:
        """OSError where it is a FIFO, a socket or a device, or cannot be looked at."""
        for folder in folders:
            existing = next((spelling for spelling in spellings if self._is_file(folder / spelling)), None)
            if existing is not None:
                if self.roots is not None or folder not in self.near:
                    self.reach.enter(folder / existing, self.roots)
                return folder / existing
        return None

    def give_up(self) -> None:
        """OSError if a file was found that could not be used."""
        if self.problem is not None:
            raise self.problem

    def _is_file(self, path: Path) -> bool:
        try:
            status = os.stat(path)
        except ValueError:  # a name that no file can have
            return False
        except OSError as problem:
            if problem.errno in NOT_THERE:
                return False
            raise
        try:
            require_file(status, path)
            self._require_reach(path)
        except OSError as problem:
            if not stat.S_ISDIR(status.st_mode) and not isinstance(problem, OutsideError):
                raise
            if not stat.S_ISDIR(status.st_mode) or Path(self.name).suffix:
                self.problem = self.problem or problem
            return False
        return True

    def _require_reach(self, path: Path) -> None:
        if self.roots is None:
            return
        working_folder = (Path(),) if self.modules_here and path.name.endswith((".slang", SUFFIX)) else ()
        if not self.reach.allows(path, (*self.roots, *working_folder)):
            message = f"it lies outside of the folder of '{self.asker}' and of the include paths"
            raise OutsideError(errno.EACCES, message)
