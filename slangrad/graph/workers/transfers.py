"""Messages between two workers that are on their way.

torch.distributed does not say whether a message has ended before one waits for it, and a wait cannot be left when the
other worker is lost. So a thread waits, and the worker looks whether it has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from slangrad.base.threads import start_thread
from slangrad.graph.workers.faults import Watch


class Transfer:
    """`begin` starts the message, and gives what is to be waited for."""

    def __init__(self, begin: Callable[[], Any], name: str, watch: Watch) -> None:
        self._name, self._watch = name, watch
        self._ended = False
        self._error: Exception | None = None
        try:
            self._work = begin()
        except RuntimeError as error:
            raise watch.lost(name, error) from error

    def wait_for_end(self) -> None:
        """In the thread."""
        try:
            self._work.wait()
        except RuntimeError as error:
            self._error = error
        self._ended = True

    def wait(self) -> None:
        """Return when the data is there, or sent. WorkerLost as by `Pending.wait`."""
        self._watch.until(lambda: self._ended, self._name)
        if self._error is not None:
            raise self._watch.lost(self._name, self._error) from self._error


class Queue:
    """Transfers in the order in which they began, of one direction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: SimpleQueue[Transfer] = SimpleQueue()
        self._thread: Any = None

    def add(self, transfer: Transfer) -> Transfer:
        self._thread = self._thread or start_thread(self._name, self._serve)
        if self._thread is None:
            transfer.wait_for_end()
        else:
            self._begun.put(transfer)
        return transfer

    def _serve(self) -> None:
        while True:
            self._begun.get().wait_for_end()
