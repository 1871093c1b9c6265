"""Regular files that exist as a whole or not at all, however many processes write them at once.

write_whole(Path("lib/scale.slang-module"), data)
read_whole(Path("scale.slang"), 1 << 20)               bytes; OSError where there are more, or where it is no file
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from io import FileIO
from pathlib import Path

READABLE, OWN = 0o666, 0o600
OTHERS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(path: str | Path, follow: bool = True) -> FileIO:
    """A file to read from. OSError for all else (a FIFO without a writer, a terminal), without waiting.
    `follow`: whether it may be a link to a file."""
    flags = (
        os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    )
    handle = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        require_file(os.fstat(handle), path)
        return FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_file(status: os.stat_result, path: str | Path) -> None:
    """OSError unless it is a regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = OTHERS.get(stat.S_IFMT(status.st_mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, and a file is needed", str(path))


def read_whole(path: str | Path, most: int) -> bytes:
    """All of a file; OSError where it has more than so many bytes."""
    with open_file(path) as file:
        parts, left = [], most + 1
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return b"".join(parts)


def write_output(path: Path, data: bytes) -> None:
    """The same at a path that the user chose. A device such as /dev/null is not replaced (OSError)."""
    if os.path.exists(path):
        require_file(os.stat(path), path)
    write_whole(path, data)


def write_whole(path: Path, data: bytes, mode: int = READABLE) -> None:
    """Put a file in the place of another. After an OSError both are unchanged."""
    fresh = path.with_name(f".{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
