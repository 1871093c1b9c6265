"""The compiler's version, which is a part of all keys on disk.

The version is a digest of the compiler's own texts, so a folder of kernels can be moved to another machine. A warm
start has no time to read all texts. So the digest is kept, under the names, sizes and times of change of the files.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path

from slangrad.base.disk.store import Store, content_key

PACKAGE = Path(__file__).parents[2]


@cache
def compiler_identity() -> str:
    """The compiler's own files by name and text. A changed compiler makes other kernels."""
    files = _files(str(PACKAGE))
    store = Store.of_environment()
    key = content_key(
        "compiler", str(PACKAGE), "\n".join(f"{name} {size} {time}" for name, size, time in files)
    )
    known = store.get(key)
    if known is not None:
        return known.decode()
    digest = _digest(str(PACKAGE), [name for name, _, _ in files])
    store.put(key, digest.encode())
    return digest


def _files(folder: str) -> list[tuple[str, int, int]]:
    """Name, size and time of change of each file."""
    pending, files = [folder], list[tuple[str, int, int]]()
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending += [entry.path] if entry.name != "__pycache__" else []
                elif entry.name.endswith((".py", ".slang")):
                    status = entry.stat()
                    files.append((entry.path[len(folder) :], status.st_size, status.st_mtime_ns))
    return sorted(files)


def _digest(folder: str, names: list[str]) -> str:
    digest = blake2b(digest_size=20)
    for name in names:
        with open(folder + name, "rb") as file:
            text = file.read()
        digest.update(f"{name.replace(os.sep, '/')} {len(text)}\n".encode() + text)
    return digest.hexdigest()
