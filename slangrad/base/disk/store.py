"""Entries on disk that outlive the process: bytes under the digest of what they were made from.

    store = Store.of_environment()            SLANGRAD_CACHE names the folder; 0 or off: there is none
    key = content_key("kernel", text, 16)     equal parts, equal key
    store.put(key, data);  store.get(key)     bytes, or None

An entry that is damaged, cut off, of another user or of another version counts as missing. A folder that cannot be
used means no store: never an error, and a warning where other users could write machine code into it. Entries are
renamed into place, so any number of processes may fill a store at once. A full store drops the least recently used
entries first.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from slangrad.base.disk.whole_files import OWN, open_file, write_whole
from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.base.process.warn import warn

Json = Any  # what JSON has

MAGIC = b"slangrad entry 1"
DIGEST = 32
ENTRIES = "entries"  # the folder inside of the one that is named, whose mode may be the user's affair
DEFAULT_LIMIT = 256  # MiB
OFF = ("0", "off", "no", "false")
TO_WRITERS = stat.S_IWGRP | stat.S_IWOTH
ELSEWHERE = "Choose a folder that only you can write to (SLANGRAD_CACHE=FOLDER), or none (SLANGRAD_CACHE=0)"
RECENTLY = 600.0  # seconds; entries used since then are not marked again
ABANDONED = 3600.0  # seconds after which a half-written file has no writer any more
ROOM_BETWEEN_SCANS = 16  # this part of the limit may be written before the store is measured again


def content_key(*parts: object) -> str:
    """The digest of texts, bytes, numbers, truth values, None, and tuples of such."""
    digest = blake2b(digest_size=20)
    for piece in _pieces(parts):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(part: object) -> Iterator[bytes]:
    """Bytes that record where each part ends and of which kind it is."""
    if isinstance(part, (tuple, list)):
        yield b"(%d:" % len(part)
        for item in part:
            yield from _pieces(item)
        return
    assert part is None or isinstance(part, (str, bytes, bool, int, float)), part
    data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
    yield b"%s%d:" % (type(part).__name__.encode(), len(data))
    yield data


@dataclass(frozen=True, slots=True)
class Usage:
    """The entries of a store, and its folder."""

    folder: str
    problem: str
    entries: int
    size: int
    limit: int


class CacheWarning(UserWarning):
    """Kernels are not kept on disk, since other users could change them."""


class Store:
    """A folder of entries. `problem` says why there is none, in words; empty where there is one."""

    def __init__(self, folder: str, limit: int = DEFAULT_LIMIT << 20, problem: str = "") -> None:
        self.folder = os.path.join(os.path.abspath(folder), ENTRIES)
        self.limit = limit
        self._problem = problem
        self._checked = bool(problem)
        self._written = limit  # the first entry that is written looks how much there is
        self._lock = kept_at_fork(threading.Lock(), BRIEF)
        self.hits = self.misses = 0  # kernels that were looked for here

    @staticmethod
    def of_environment(environment: Mapping[str, str] | None = None) -> Store:
        """The store of this user and these settings; the same object for the same settings."""
        environment = os.environ if environment is None else environment
        named = environment.get("SLANGRAD_CACHE", "").strip()
        limit = environment.get("SLANGRAD_CACHE_SIZE", "").strip()
        if limit and not limit.isdecimal():
            raise ValueError(f"SLANGRAD_CACHE_SIZE must be a whole number of MiB, not {limit!r}")
        if named.lower() in OFF:
            return _store("", 0, "switched off (SLANGRAD_CACHE)")
        megabytes = int(limit) if limit else DEFAULT_LIMIT
        return _store(named or _default_folder(environment), megabytes << 20, "")

    @property
    def problem(self) -> str:
        """Why nothing is kept; computed on first use."""
        if not self._checked:
            self._problem, advice = _prepare(self.folder)
            self._checked = True
            if advice:
                message = f"compiled kernels are not kept: {self._problem}. {advice}"
                warn(message, CacheWarning)
        return self._problem

    def get(self, key: str) -> bytes | None:
        """The entry; None where there is none, and for the key ""."""
        if not key or self.problem:
            return None
        try:
            return _read(self._path(key), key, self.limit)
        except (OSError, MemoryError):
            return None

    def put(self, key: str, data: bytes) -> None:
        if not key or self.problem or len(data) > self.limit // 4:
            return
        try:
            _write(self._path(key), key, data)
            self._make_room(len(data))
        except OSError:
            return

    def usage(self) -> Usage:
        entries = [] if self.problem else list(self._entries())
        size = sum(status.st_size for _, status in entries)
        return Usage(self.folder, self.problem, len(entries), size, self.limit)

    def clear(self) -> int:
        """Remove all entries; gives how many there were."""
        entries = [] if self.problem else list(self._entries())
        for path, _ in entries:
            _remove(path)
        return len(entries)

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], key[2:])

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        for part in _listed(self.folder):
            if len(part.name) == 2 and part.is_dir(follow_symlinks=False):
                for entry in _listed(part.path):
                    try:
                        yield entry.path, entry.stat(follow_symlinks=False)
                    except OSError:  # another process has removed it
                        continue

    def _make_room(self, written: int) -> None:
        """Remove the least recently used entries, down to four fifths of the limit."""
        with self._lock:
            self._written += written
            if self._written < self.limit // ROOM_BETWEEN_SCANS:
                return
            self._written = 0
        entries = sorted(self._entries(), key=lambda item: item[1].st_mtime)
        size = sum(status.st_size for _, status in entries)
        too_much = size > self.limit - self.limit // ROOM_BETWEEN_SCANS
        for path, status in entries:
            abandoned = os.path.basename(path).startswith(".") and time.time() - status.st_mtime > ABANDONED
            if abandoned or (too_much and size > self.limit * 4 // 5):
                _remove(path)
                size -= status.st_size


@cache
def _store(folder: str, limit: int, problem: str) -> Store:
    return Store(folder, limit, problem)


def _default_folder(environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "slangrad")


# --- Files --------------------------------------------------------------------------------------------


def _own_user() -> int | None:
    return os.geteuid() if hasattr(os, "geteuid") else None


def _prepare(folder: str) -> tuple[str, str]:
    """Make the folder of entries; gives why it cannot be used, and the cure. Machine code is only read from folders
    where no other user can write."""
    if _own_user() is not None:
        problem = next(filter(None, map(_exposure, _folders_above(folder))), "")
        if problem:
            return problem, ELSEWHERE
    try:
        for path in (os.path.dirname(folder), folder):
            os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError as problem:
        return f"{folder}: {problem.strerror or problem}", ""
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder", ""
    if _own_user() is None:
        return "", ""
    if status.st_uid != _own_user():
        return f"{folder} belongs to another user", ELSEWHERE
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"{folder} is open to other users", f"Close it: chmod 700 {folder}"
    return "", ""


def _folders_above(folder: str) -> Iterator[str]:
    """All folders that exist, by the names in the path and by the targets of links."""
    for path in dict.fromkeys((folder, os.path.realpath(folder))):
        while (above := os.path.dirname(path)) != path:
            path = above
            yield path


def _exposure(folder: str) -> str:
    """Why another user could replace the files of a folder; empty if no other user can."""
    try:
        status = os.lstat(folder)
    except OSError:
        return ""
    if status.st_uid not in (0, _own_user()):
        return f"{folder} belongs to another user"
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return f"{folder} is open to all users" if open_to_all and not stat.S_ISLNK(status.st_mode) else ""


def _read(path: str, key: str, most: int) -> bytes | None:
    with open_file(path, follow=False) as file:
        status = os.fstat(file.fileno())
        if status.st_size > most or _own_user() not in (None, status.st_uid):
            return None
        if _own_user() is not None and status.st_mode & TO_WRITERS:
            return None
        whole = file.readall()
    data = whole[len(MAGIC) + DIGEST :]
    if whole[: len(MAGIC)] != MAGIC or whole[len(MAGIC) : len(MAGIC) + DIGEST] != _digest(key, data):
        return None
    if time.time() - status.st_mtime > RECENTLY:
        _mark_used(path)
    return data


def _digest(key: str, data: bytes) -> bytes:
    return blake2b(data, key=key.encode()[:64], digest_size=DIGEST).digest()


def _mark_used(path: str) -> None:
    try:
        os.utime(path)
    except OSError:
        return


def _write(path: str, key: str, data: bytes) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_whole(Path(path), MAGIC + _digest(key, data) + data, OWN)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
