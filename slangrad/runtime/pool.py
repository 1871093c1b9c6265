"""Parked threads that help with a job.

    job = Job(work)                    # work() takes pieces until none is left, on any thread
    POOL.ask_for_help(job, threads=3)  # wakes up to three threads, which call work()
    work()                             # the asking thread works, too
    job.close()                        # helpers that come later leave at once; waits for those at work

The asking thread never waits for a helper to start, so a busy machine only loses the help. Threads are made on
first use, as far as there is room for them. They survive neither a fork (new ones are made) nor the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from slangrad.base.process.threads import start_thread


class Job:
    """Work in progress. `error` is what a helper raised."""

    __slots__ = ("_active", "_closed", "_idle", "_lock", "_process", "error", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.error: BaseException | None = None
        self._active = 0
        self._closed = False
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._process = os.getpid()

    def help(self) -> None:
        """Called by a helper."""
        with self._lock:
            if self._closed:
                return
            self._active += 1
        try:
            self.work()
        except BaseException as error:
            self.error = error
        finally:
            with self._lock:
                self._active -= 1
                self._idle.notify_all()

    def close(self) -> None:
        """After this no helper is at work. May be interrupted, and called again. After a fork in the midst of a job the
        child has no helpers: an error of the job."""
        if self._process != os.getpid():
            self.error = RuntimeError(
                "the process was forked in the midst of a call, which the child cannot finish"
            )
            return
        with self._lock:
            self._closed = True
            while self._active:
                self._idle.wait()


class Pool:
    """Threads that sleep in one queue of jobs."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()

    def ask_for_help(self, job: Job, threads: int) -> None:
        """Wake up to `threads` threads; fewer when jobs are waiting already, for then no thread is free."""
        if self._threads < threads:
            self._grow(threads)
        for _ in range(min(threads, self._threads) - self._jobs.qsize()):
            self._jobs.put(job)

    def after_fork(self) -> None:
        """Threads do not survive a fork, and a lock that one of them held would stay locked."""
        self._jobs = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()

    def _grow(self, threads: int) -> None:
        with self._lock:
            while self._threads < threads:
                if start_thread(f"slangrad-{self._threads + 1}", _serve, self._jobs) is None:
                    return
                self._threads += 1


def _serve(jobs: SimpleQueue[Job]) -> None:
    while True:
        jobs.get().help()


POOL = Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.after_fork)
