"""Small tools that SlangPy's programs use: how much time has passed, and digests.

timer = Timer();  ...;  timer.elapsed_ms()          Timer.delta_s(Timer.now(), Timer.now())
SHA1("hello").hex_digest()                          digest = SHA1();  digest.update(b"hel").update("lo").digest()
"""

from __future__ import annotations

import hashlib
from time import perf_counter_ns


class Timer:
    """The time since it was made or reset."""

    def __init__(self) -> None:
        self._start = perf_counter_ns()

    def reset(self) -> None:
        """Begin again: the time that has passed is zero."""
        self._start = perf_counter_ns()

    def elapsed_ns(self) -> float:
        """Nanoseconds since the start or the last `reset()`."""
        return self.delta_ns(self._start, self.now())

    def elapsed_us(self) -> float:
        """Microseconds since the start or the last `reset()`."""
        return self.delta_us(self._start, self.now())

    def elapsed_ms(self) -> float:
        """Milliseconds since the start or the last `reset()`."""
        return self.delta_ms(self._start, self.now())

    def elapsed_s(self) -> float:
        """Seconds since the start or the last `reset()`."""
        return self.delta_s(self._start, self.now())

    @staticmethod
    def now() -> int:
        """A point in time, in nanoseconds."""
        return perf_counter_ns()

    @staticmethod
    def delta_ns(start: int, end: int) -> float:
        """The time between two points, in nanoseconds; the others in their units."""
        return float(end - start)

    @staticmethod
    def delta_us(start: int, end: int) -> float:
        """Microseconds between two results of `now()`."""
        return (end - start) / 1e3

    @staticmethod
    def delta_ms(start: int, end: int) -> float:
        """Milliseconds between two results of `now()`."""
        return (end - start) / 1e6

    @staticmethod
    def delta_s(start: int, end: int) -> float:
        """Seconds between two results of `now()`."""
        return (end - start) / 1e9


class SHA1:
    """The digest of all data so far; texts count as UTF-8."""

    def __init__(self, data: bytes | str = b"") -> None:
        self._hash = hashlib.sha1(usedforsecurity=False)
        self.update(data)

    def update(self, data: bytes | str) -> SHA1:
        """Add data."""
        self._hash.update(data.encode() if isinstance(data, str) else data)
        return self

    def digest(self) -> bytes:
        """20 bytes."""
        return self._hash.digest()

    def hex_digest(self) -> str:
        """The same as 40 digits."""
        return self._hash.hexdigest()
