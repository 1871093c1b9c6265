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
    """Our own files by name, size and time of change, as Python does for its caches: a changed compiler makes other
    kernels, and reading all of it would take longer than a warm start may."""
    return content_key("\n".join(_files(str(PACKAGE))))


def _files(folder: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for each in sorted(entries, key=lambda entry: entry.name):
                if each.is_dir(follow_symlinks=False):
                    pending += [each.path] if each.name != "__pycache__" else []
                elif each.name.endswith((".py", ".slang")):
                    known = each.stat()
                    yield f"{each.path[len(folder) :]} {known.st_size} {known.st_mtime_ns}"
