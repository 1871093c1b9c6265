"""Workers that die, hang, or run another program: an error on all others."""

from __future__ import annotations

import time
from collections.abc import Callable

SHORTEST, LONGEST, SHARE = 2e-5, 1e-3, 0.03  # seconds between two looks, and the part of the time waited


class WorkerLost(RuntimeError):
    """Another worker is gone, hangs, or runs another program. `rank`: which, -1 where that is not known; `step`: the
    number of steps that this worker has made; `collective`: the one that did not end."""

    def __init__(self, message: str, rank: int, step: int, collective: str) -> None:
        super().__init__(message)
        self.rank, self.step, self.collective = rank, step, collective


class Watch:
    """What this worker knows of the others. `timeout`: seconds that it waits for them."""

    def __init__(self, rank: int, workers: int, timeout: float) -> None:
        self.rank, self.workers, self.timeout = rank, workers, timeout
        self.step = 0
        self.at = ""

    def note(self, collective: str) -> None:
        """This worker begins a collective."""
        self.at = collective

    def until(self, is_done: Callable[[], bool], collective: str) -> None:
        """Return when it is done. WorkerLost where another worker is gone, hangs, or is late."""
        start = time.monotonic()
        while not is_done():
            waited = time.monotonic() - start
            if waited > self.timeout:
                raise self.lost(collective, None)
            time.sleep(min(LONGEST, max(SHORTEST, SHARE * waited)))

    def lost(self, collective: str, cause: Exception | None) -> WorkerLost:
        """The error for a collective that failed."""
        said = f"worker {self.rank}, step {self.step}, {collective}: another worker is lost ({cause or 'timeout'})"
        return WorkerLost(said, -1, self.step, collective)

    def agree(self, text: str) -> None:
        """Return when all workers have come here with the same text. WorkerLost, with their ranks, where others have
        another one."""
