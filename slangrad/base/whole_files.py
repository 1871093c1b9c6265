"""Files that are there as a whole or not at all, however many processes write them at once.

write_whole(Path("lib/scale.slang-module"), data)
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

READABLE, OWN = 0o666, 0o600


def write_whole(path: Path, data: bytes, mode: int = READABLE) -> None:
    """Put a file in the place of another; OSError, and then all is as it was."""
    fresh = path.with_name(f".{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
