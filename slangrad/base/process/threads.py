"""Threads in the background, as many as the system has room for.

start_thread("slangrad-1", serve, queue)      the thread; None where there is no room, and one warning says so
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from slangrad.base.process.warn import warn

_NO_ROOM = "the system has no room for another thread ({}): slangrad goes on with fewer"
_told: list[str] = []


def start_thread(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread | None:
    """A daemon thread."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as problem:
        _tell(_NO_ROOM.format(problem))
        return None
    return thread


def _tell(message: str) -> None:
    """Once: calls that come after this one have no room, either."""
    if not _told:
        _told.append(message)
        warn(message, RuntimeWarning)
