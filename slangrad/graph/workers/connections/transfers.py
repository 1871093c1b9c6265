"""Messages between two workers that are on their way.

torch.distributed does not report whether a message has ended before a wait, and a wait cannot be left when the
other worker is lost. So a thread waits, and the worker waits for the thread, which it can leave. A thread that
returned after the end of the program would abort it, so at the end all remaining waits time out.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from math import inf
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING

from slangrad.base.process.threads import start_thread
from slangrad.graph.workers.connections.faults import Watch, WorkerLost

if TYPE_CHECKING:
    import torch.distributed as dist

LEAVING, SHORT = 2.0, 0.005  # seconds: for all that is left at the end of a program, and between two looks


class Transfer:
    """`begin` starts the message, and returns an object to wait for. `start`, `stop`: by `perf_counter`."""

    def __init__(self, begin: Callable[[], dist.Work], name: str, watch: Watch) -> None:
        self.name, self.watch = name, watch
        self._ended = Event()
        self._error: Exception | None = None
        self.start, self.stop = perf_counter(), inf
        try:
            with watch.calling():
                self._work = begin()
        except WorkerLost:
            raise
        except RuntimeError as error:
            raise watch.lost(name, error) from error

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait_for_end(self) -> None:
        """In the thread."""
        try:
            self._work.wait()
        except RuntimeError as error:
            self._error = error
        self.stop = perf_counter()
        self._ended.set()

    def give_up(self) -> None:
        """At the end of the program: gloo ends all messages of its group when one of them is late."""
        with suppress(RuntimeError):
            self._work.wait(timedelta(milliseconds=1))

    def wait(self) -> None:
        """Return when the data is there, or sent. WorkerLost as by `Pending.wait`."""
        self.watch.until(self._ended.wait, self.name)
        if self._error is not None:
            raise self.watch.lost(self.name, self._error) from self._error


class Queue:
    """Transfers in the order in which they began, of one direction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: SimpleQueue[Transfer] = SimpleQueue()
        self._thread: Thread | None = None
        self._at: Transfer | None = None

    def add(self, transfer: Transfer) -> Transfer:
        if self._thread is None:
            self._thread = start_thread(self._name, self._serve)
            atexit.register(self._leave, os.getpid(), transfer.watch)
        if self._thread is None:
            transfer.wait_for_end()
        else:
            self._begun.put(transfer)
        return transfer

    def _serve(self) -> None:
        while True:
            self._at = self._begun.get()
            self._at.wait_for_end()
            self._at = None

    def _leave(self, process: int, watch: Watch) -> None:
        """At the end of the program; that of a child of a fork is another one."""
        if os.getpid() != process:
            return
        watch.close()
        end = monotonic() + LEAVING
        while monotonic() < end:
            at = self._at
            if at is not None:
                at.give_up()
            elif self._begun.empty():
                return
            sleep(SHORT)
