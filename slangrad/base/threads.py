"""Threads in the background, as many as the system has room for.

start_thread("slangrad-1", serve, queue)      whether it runs; where there is no room, one warning says so
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from slangrad.base.warn import warn

_NO_ROOM = "the system has no room for another thread ({}): slangrad goes on with fewer"
_told: list[str] = []


def start_thread(name: str, work: Callable[..., None], *arguments: Any) -> bool:
    """A daemon thread."""
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except (RuntimeError, MemoryError) as problem:
        _tell(_NO_ROOM.format(problem))
        return False
    return True


def _tell(message: str) -> None:
    """Once: calls that come after this one have no room, either."""
    if not _told:
        _told.append(message)
        warn(message, RuntimeWarning)
