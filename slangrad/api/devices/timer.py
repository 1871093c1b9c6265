"""Timer: how much time has passed.

timer = Timer();  ...;  timer.elapsed_ms()          Timer.delta_s(Timer.now(), Timer.now())
"""

from __future__ import annotations

from time import perf_counter_ns


class Timer:
    """Counts from when it was made or reset."""

    def __init__(self) -> None:
        self._start = perf_counter_ns()

    def reset(self) -> None:
        self._start = perf_counter_ns()

    def elapsed_ns(self) -> float:
        return self.delta_ns(self._start, self.now())

    def elapsed_us(self) -> float:
        return self.delta_us(self._start, self.now())

    def elapsed_ms(self) -> float:
        return self.delta_ms(self._start, self.now())

    def elapsed_s(self) -> float:
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
        return (end - start) / 1e3

    @staticmethod
    def delta_ms(start: int, end: int) -> float:
        return (end - start) / 1e6

    @staticmethod
    def delta_s(start: int, end: int) -> float:
        return (end - start) / 1e9
