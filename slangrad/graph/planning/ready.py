"""A run of a plan makes the calls of all steps. After some runs over the same memory, a GPU makes them as one graph.

run = ReadyRun(memory, copies, calls, device)    device: None for a plan whose runs are not replayed
run(recorder)                                    calls in order, or one graph of the driver
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import slangrad as spy
from slangrad.graph.lowering.steps import Await, Exchange, Holder, PlanStep, RepeatStep

Memory: TypeAlias = "dict[Holder, spy.Tensor]"
Call: TypeAlias = "Callable[[], object]"  # of one step
RUNS_BEFORE_REPLAY = 4  # the first ones compile and load kernels
MOST_REPLAYED = 8192  # launches and copies; a longer run has loops whose bodies are replayed


class ReadyRun:
    """`memory`: tensors that do not keep it alive. `device`: a GPU, which may replay the calls."""

    __slots__ = ("_device", "_has_expired", "_replay", "_runs", "calls", "copies", "memory")

    def __init__(
        self, memory: Memory, copies: list[Call], calls: list[Call], device: spy.Device | None
    ) -> None:
        self.memory, self.copies, self.calls = memory, copies, calls
        self._device = device
        self._replay: Call | None = None
        self._has_expired: Callable[[], bool] = lambda: False
        self._runs = 0

    def __call__(self, recorder: Callable[[Sequence[Call]], Iterable[Call]]) -> None:
        """Make all calls. A recorder other than `iter` sees each of them."""
        device = self._device
        if device is None or recorder is not iter or not device.runtime.may_replay():
            for call in recorder(self.calls):
                call()
            return
        if self._replay is not None and self._has_expired():
            self._replay, self._runs = None, 0  # functions of users may have another text now
        if self._replay is not None:
            self._replay()
            return
        for call in self.calls:
            call()
        self._runs += 1
        if self._runs == RUNS_BEFORE_REPLAY:
            generation = device.slang_session.generation
            self._has_expired = lambda: generation.expired
            self._replay = device.runtime.replay_of(self.calls)


def launches_of(steps: Iterable[PlanStep], loops: Callable[[RepeatStep], int]) -> int:
    """How many launches and copies a run has at most, by those of one step of its loops. More than MOST_REPLAYED where
    a step needs the host."""
    count = 0
    for step in steps:
        if isinstance(step, Exchange | Await):
            return MOST_REPLAYED + 1
        if isinstance(step, RepeatStep):
            loop = step.loop
            count += loop.length * (loops(step) + loop.carries + loop.scanned + len(step.writes))
        count += 1
    return count
