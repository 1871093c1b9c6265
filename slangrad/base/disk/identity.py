"""This compiler, as part of the keys of what it keeps on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from slangrad.base.disk.store import content_key

PACKAGE = Path(__file__).parents[2]


@cache
def compiler_identity() -> str:
    """The compiler's own files by name, size and time of change, as in Python's caches. A changed compiler makes
    other kernels, and reading all of its text would take longer than a warm start may."""
    return content_key("\n".join(_files(str(PACKAGE))))


def _files(folder: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    pending += [entry.path] if entry.name != "__pycache__" else []
                elif entry.name.endswith((".py", ".slang")):
                    status = entry.stat()
                    yield f"{entry.path[len(folder) :]} {status.st_size} {status.st_mtime_ns}"
