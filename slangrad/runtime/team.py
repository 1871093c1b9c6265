"""Threads of PyTorch that help with a launch.

After an operation PyTorch's threads wait busily for the next one, for some milliseconds, and take the processors from
other threads. A launch within that time runs on them instead.

    TEAM.torch_has_computed()          # its threads are awake
    if TEAM.is_taken():                # by this thread, until `release`
        try:
            TEAM.run(kernel.share, arguments, launches, limit)
        finally:
            TEAM.release()

These are threads of the OpenMP library that PyTorch is linked with, by the interface of GNU's, which LLVM's and Intel's
have, too. The calling thread is the first one of the team, and waits for all others. A child of a fork has none of
them: PyTorch's own operations would hang there, too, with more than one thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import perf_counter_ns

from slangrad.base.lazy import loaded_torch

# Nanoseconds for which threads wait busily at least: 300,000 turns with a pause on a processor on which that is short.
AWAKE = 2_000_000
STACK_SETTINGS = "OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"

Parallel = Callable[[int, object, int, int], None]
OpenMP = tuple[Parallel, int]


class Team:
    """At most one launch has the team; others take helpers of the pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awake_until = 0
        self._is_lost = False
        self._openmp: OpenMP | None = None
        self.threads = 1

    def torch_has_computed(self) -> None:
        """Its threads are awake."""
        torch = loaded_torch()
        if torch is None or self._is_lost:
            return
        self._openmp, self.threads = openmp_of(torch.__file__), torch.get_num_threads()
        is_team = self._openmp is not None and self.threads > 1
        self._awake_until = perf_counter_ns() + AWAKE if is_team else 0

    def is_awake(self) -> bool:
        """Whether its threads wait busily now."""
        return perf_counter_ns() < self._awake_until

    def is_taken(self) -> bool:
        """Whether the team is awake, and from now on the calling thread's, until `release`."""
        return self.is_awake() and self._lock.acquire(blocking=False)

    def release(self) -> None:
        self._awake_until = perf_counter_ns() + AWAKE
        self._lock.release()

    def run(self, share: int, arguments: bytes, launches: Sequence[int], limit: int) -> None:
        """Run `share` of a kernel on each thread that has a launch record, the caller with the first; returns when all
        have ended. The team always has all of its threads: another number would end some, and begin them anew."""
        assert self._openmp is not None and len(launches) <= self.threads
        parallel, number = self._openmp
        block = ctypes.cast(ctypes.c_char_p(arguments), ctypes.c_void_p).value or 0
        team = (ctypes.c_int64 * (4 + len(launches)))(number, len(launches), block, limit, *launches)
        parallel(share, team, self.threads, 0)

    def after_fork(self) -> None:
        self._awake_until, self._is_lost, self._lock = 0, True, threading.Lock()


@cache
def openmp_of(path: str) -> OpenMP | None:
    """GOMP_parallel, and the address of omp_get_thread_num, of the library that PyTorch at `path` is linked with. None
    if it has another one, or threads with stacks of another size than threads of ours."""
    if any(name in os.environ for name in STACK_SETTINGS):
        return None
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(str(Path(path).parent / "lib" / "libtorch_cpu.so"))
        parallel, number = library.GOMP_parallel, library.omp_get_thread_num
        parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel.restype = None
        return parallel, ctypes.cast(number, ctypes.c_void_p).value or 0
    return None


TEAM = Team()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEAM.after_fork)
