"""Threads in the background, as many as the system has room for, and collections that several threads may use.

start_thread("slangrad-1", serve, queue)      the thread; None where there is no room, and one warning says so
WeakBag()                                     objects that live as long as others hold them
Interned().setdefault(key, object)            one object for a key, in all threads
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.base.process.warn import warn

Value = TypeVar("Value")
_NO_ROOM = "the system has no room for another thread ({}): slangrad goes on with fewer"
_warned: list[str] = []


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
    if not _warned:
        _warned.append(message)
        warn(message, RuntimeWarning)


class WeakBag(Generic[Value]):
    """Objects that live as long as others hold them. Unlike in a WeakSet, threads may add some while another one
    iterates."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: WeakValueDictionary[int, Value] = WeakValueDictionary()

    def add(self, value: Value) -> None:
        self._objects[id(value)] = value

    def discard(self, value: Value) -> None:
        self._objects.pop(id(value), None)

    def __iter__(self) -> Iterator[Value]:
        return (value for reference in self._objects.valuerefs() if (value := reference()) is not None)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


class Interned(Generic[Value]):
    """One object for each key, as long as others hold it."""

    __slots__ = ("_lock", "_objects", "get")

    def __init__(self) -> None:
        self._objects: WeakValueDictionary[Hashable, Value] = WeakValueDictionary()
        self._lock = kept_at_fork(threading.RLock(), BRIEF)
        self.get = self._objects.get

    def setdefault(self, key: Hashable, value: Value) -> Value:
        """The object of this key; `value` if there was none. Two threads at the same time get the same object."""
        with self._lock:
            return self._objects.setdefault(key, value)
