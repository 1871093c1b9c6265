"""Locks that a child of a fork can take, whatever other threads of its parent were doing.

    lock = kept_at_fork(threading.RLock(), WORK, session.begin_anew)

A fork copies one thread only: a lock that another one holds is never released in the child. So the forking thread
takes all locks first, waiting for the threads that hold them, and both processes release them. All are taken in the
order of their ranks. FORKING is held by threads that fork. WORK is held for long, and its holders take others.
LOADING is the count of `loading`. BRIEF guards a few lines. LIBRARY is the lock of another library, and its holders
take none of ours.

The wait has a time limit, because a holder may itself wait for the forking thread. After it, the child gets a new
lock. The guarded data may be half changed there: `broken` repairs it.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import MethodType
from typing import Protocol, TypeVar, cast
from weakref import ref

FORKING, WORK, LOADING, BRIEF, LIBRARY = range(5)
# Seconds that a fork waits for all locks of a rank.
PATIENCE = {FORKING: 60.0, WORK: 60.0, LOADING: 60.0, BRIEF: 1.0, LIBRARY: 600.0}


class ForkableLock(Protocol):
    """Locks of `threading`, and conditions."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...
    def release(self) -> None: ...
    def _at_fork_reinit(self) -> None: ...


AnyLock = TypeVar("AnyLock")
Broken = Callable[[], None]


class _WeakMethod:
    """A method that does not keep its object alive. That of `weakref` complains when Python 3.12 ends."""

    __slots__ = ("function", "owner")

    def __init__(self, method: Broken) -> None:
        assert isinstance(method, MethodType)
        self.owner, self.function = ref(method.__self__), method.__func__

    def call(self) -> None:
        owner = self.owner()
        if owner is not None:
            self.function(owner)


class _KeptLock:
    """A lock, as long as its owner lives. `taken`: by the thread that forks."""

    __slots__ = ("broken", "lock", "rank", "taken")

    def __init__(self, lock: ref[ForkableLock], rank: int, broken: _WeakMethod | None) -> None:
        self.lock = lock
        self.rank = rank
        self.broken = broken
        self.taken: ForkableLock | None = None

    def take(self, end: float) -> None:
        lock = self.lock()
        if lock is not None and lock.acquire(True, max(end - time.monotonic(), 0.0)):
            self.taken = lock

    def release(self) -> None:
        lock, self.taken = self.taken, None
        if lock is not None:
            lock.release()

    def begin_in_child(self) -> None:
        """Release what was taken, and make new what was not."""
        lock = self.lock()
        if self.taken is not None or lock is None:
            self.release()
            return
        lock._at_fork_reinit()
        if self.broken is not None:
            self.broken.call()


class _Loading:
    """How many modules each thread is loading. Taking it waits until no other thread loads any."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._threads: dict[int, int] = {}

    def add(self, change: int) -> None:
        me = threading.get_ident()
        with self._changed:
            left = self._threads.get(me, 0) + change
            if left:
                self._threads[me] = left
            else:
                del self._threads[me]
                self._changed.notify_all()

    def acquire(self, blocking: bool, timeout: float) -> bool:
        end = time.monotonic() + timeout
        if not self._changed.acquire(blocking, timeout):
            return False
        if self._changed.wait_for(self._no_other, max(end - time.monotonic(), 0.0)):
            return True
        self._changed.release()
        return False

    def release(self) -> None:
        self._changed.release()

    def _at_fork_reinit(self) -> None:
        me = threading.get_ident()
        self._changed = threading.Condition(threading.RLock())
        self._threads = {me: self._threads[me]} if me in self._threads else {}

    def _no_other(self) -> bool:
        return not (self._threads.keys() - {threading.get_ident()})


_kept: dict[int, _KeptLock] = {}
_numbers = count()
_loading = _Loading()


def kept_at_fork(lock: AnyLock, rank: int, broken: Broken | None = None) -> AnyLock:
    """The lock, which is free in every child. The child calls the method `broken` if another thread of the parent held
    the lock during the fork."""
    number = next(_numbers)
    reference: ref[ForkableLock] = ref(cast("ForkableLock", lock), lambda _: _kept.pop(number, None))
    _kept[number] = _KeptLock(reference, rank, None if broken is None else _WeakMethod(broken))
    return lock


@contextmanager
def loading() -> Iterator[None]:
    """A context for loading Python modules. A child would wait for ever for a module that another thread of its
    parent had begun to load. The objects of modules stay, and searching them for garbage takes a third of the time,
    so the collector is off meanwhile; a child gets its former setting."""
    _loading.add(1)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        _loading.add(-1)


# --- Hooks --------------------------------------------------------------------------------------------


def _before() -> None:
    ends: dict[int, float] = {}
    for row in _in_order():
        row.take(ends.setdefault(row.rank, time.monotonic() + PATIENCE[row.rank]))


def _after_in_parent() -> None:
    for row in reversed(_in_order()):
        row.release()


def _after_in_child() -> None:
    for row in reversed(_in_order()):
        row.begin_in_child()


def _in_order() -> list[_KeptLock]:
    """By rank, and within a rank in the order of their creation."""
    return sorted(_kept.values(), key=lambda row: row.rank)


_one_at_a_time = kept_at_fork(threading.RLock(), FORKING)
kept_at_fork(_loading, LOADING)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
