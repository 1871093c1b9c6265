"""Fences and queries, which order and time commands.

    fence = device.create_fence()
    device.submit_command_buffers([commands], signal_fences=[fence], signal_fence_values=[1])
    pool = device.create_query_pool(QueryType.timestamp, 2)
    encoder.write_timestamp(pool, 0)

Commands run while they are submitted, so a fence is signaled when `submit_command_buffers` returns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from time import perf_counter_ns

from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.marshal.errors import CallError

AUTO = TIMEOUT_INFINITE = (1 << 64) - 1
TICKS_A_SECOND = 1_000_000_000


class FenceError(CallError, RuntimeError):
    """A wrong use of a fence or query."""


class CommandQueueType(Enum):
    """Commands have one queue."""

    graphics = "graphics"


class QueryType(Enum):
    """The kinds of queries."""

    timestamp = "timestamp"


@dataclass(slots=True)
class FenceDesc:
    """The start of a fence. `shared` has no effect: no other API uses it."""

    initial_value: int = 0
    shared: bool = False


class Fence:
    """A number that only grows; submissions wait until it reaches a value."""

    AUTO = AUTO
    TIMEOUT_INFINITE = TIMEOUT_INFINITE

    def __init__(self, device: object, desc: FenceDesc) -> None:
        self.device = device
        self.desc = desc
        self._value = desc.initial_value
        self._changed = threading.Condition(kept_at_fork(threading.RLock(), BRIEF))

    def __repr__(self) -> str:
        return f"Fence(current_value={self._value})"

    @property
    def current_value(self) -> int:
        """The value that was signaled last."""
        return self._value

    signaled_value = current_value

    def signal(self, value: int = AUTO) -> int:
        """Set the number, by default to the next one, and return it."""
        with self._changed:
            self._value = self._value + 1 if value == AUTO else value
            self._changed.notify_all()
            return self._value

    def wait(self, value: int = AUTO, timeout_ns: int = TIMEOUT_INFINITE) -> None:
        """Wait until the number is `value` or more. FenceError (E1021) after the time, or if no other thread could
        signal it."""
        wanted = self._value if value == AUTO else value
        with self._changed:
            if self._value >= wanted:
                return
            if timeout_ns == TIMEOUT_INFINITE and threading.active_count() == 1:
                raise _never(self._value, wanted)
            seconds = None if timeout_ns == TIMEOUT_INFINITE else timeout_ns / 1e9
            if not self._changed.wait_for(lambda: self._value >= wanted, seconds):
                message = f"the fence is at {self._value} after {timeout_ns} ns, and {wanted} was waited for"
                raise FenceError("E1021", message)


def _never(value: int, wanted: int) -> FenceError:
    message = f"the fence is at {value}, and nothing is left that could bring it to {wanted}"
    return FenceError("E1021", message, (), "submit what signals it first, or call signal()")


def check_waits(fences: Sequence[Fence], values: Sequence[int]) -> None:
    """FenceError for a submission that waits for a value that was not signaled."""
    for fence, value in _pairs(fences, values, "wait"):
        if fence.current_value < value:
            raise _never(fence.current_value, value)


def signal_all(fences: Sequence[Fence], values: Sequence[int]) -> None:
    for fence, value in _pairs(fences, values, "signal"):
        fence.signal(value)


def _pairs(fences: Sequence[Fence], values: Sequence[int], verb: str) -> Iterator[tuple[Fence, int]]:
    all_values = list(values) or [AUTO if verb == "signal" else fence.current_value for fence in fences]
    if len(all_values) != len(fences):
        message = f"{verb}_fence_values: {len(all_values)} values for {len(fences)} fences"
        raise FenceError("E1021", message)
    return zip(fences, all_values)


@dataclass(slots=True)
class QueryPoolDesc:
    """The number of queries, and their type."""

    type: QueryType = QueryType.timestamp
    count: int = 0


class QueryPool:
    """Times that commands write."""

    def __init__(self, device: object, desc: QueryPoolDesc) -> None:
        if desc.type is not QueryType.timestamp:
            raise FenceError(
                "E1021", f"type: {desc.type!r} cannot be asked for", (), "QueryType.timestamp can"
            )
        if desc.count < 1:
            raise FenceError("E1021", f"count: {desc.count} must be positive")
        self.device = device
        self.desc = desc
        self._results: list[int | None] = [None] * desc.count

    def __repr__(self) -> str:
        return f"QueryPool(type={self.desc.type.name}, count={self.desc.count})"

    def reset(self, index: int = 0, count: int | None = None) -> None:
        """Forget results: all, or `count` of them."""
        for i in self._range(index, self.desc.count - index if count is None else count):
            self._results[i] = None

    def check(self, index: int, count: int = 1) -> None:
        """FenceError for queries outside of the pool."""
        self._range(index, count)

    def write(self, index: int) -> None:
        """Set a result to the time now, in nanoseconds."""
        self._results[index] = perf_counter_ns()

    def get_results(self, index: int, count: int) -> list[int]:
        """Ticks, `device.info.timestamp_frequency` a second. FenceError (E1021) for queries that no submitted command
        has written.
        """
        results = [self._results[i] for i in self._range(index, count)]
        if None in results:
            message = f"query {index + results.index(None)} has no result"
            raise FenceError("E1021", message, (), "submit commands with write_timestamp(pool, index) first")
        return [ticks for ticks in results if ticks is not None]

    def get_result(self, index: int) -> int:
        """One of `get_results`."""
        return self.get_results(index, 1)[0]

    def get_timestamp_results(self, index: int, count: int) -> list[float]:
        """Seconds; only their differences mean something."""
        return [ticks / TICKS_A_SECOND for ticks in self.get_results(index, count)]

    def get_timestamp_result(self, index: int) -> float:
        """One of `get_timestamp_results`, in seconds."""
        return self.get_timestamp_results(index, 1)[0]

    def _range(self, index: int, count: int) -> range:
        if index < 0 or count < 0 or index + count > self.desc.count:
            message = f"queries {index} to {index + count} are not in a pool of {self.desc.count}"
            raise FenceError("E1021", message)
        return range(index, index + count)
