"""The measured times of a step of this worker: each kernel, and each exchange from its beginning to its end.

    step.timeline(x, y)          makes a step, as step(x, y)

An exchange has ended when a look after a kernel shows it, or when the wait for it returns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from slangrad.graph.lowering.steps import Await, Exchange
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.simulation.events import (
    CALL,
    COMMUNICATION,
    COMPARED,
    COMPARISON,
    COMPUTE,
    Event,
    path_to,
)
from slangrad.graph.workers.simulation.simulate import bytes_of, exchange_name, names_of, workers_text
from slangrad.graph.workers.simulation.timeline import Timeline

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan
    from slangrad.graph.planning.ready import Call

WAITED = 50e-6  # seconds of a wait that holds the worker up


@dataclass(frozen=True, slots=True)
class MeasuredTimeline(Timeline):
    """A step of this worker. Exchanges may be under way at the same time, and count once then."""

    @property
    def communication(self) -> float:
        """Seconds in which an exchange was under way."""
        return sum(stop - start for start, stop in self._spans)

    @property
    def hidden(self) -> float:
        """Seconds in which an exchange was under way and a kernel ran."""
        kernels = [(event.start, event.stop) for event in self.events if event.queue == COMPUTE]
        return _common_seconds(kernels, self._spans)

    @property
    def _spans(self) -> list[tuple[float, float]]:
        """The times of exchanges; those that touch are one."""
        exchanges = [(event.start, event.stop) for event in self.events if event.queue == COMMUNICATION]
        spans = list[tuple[float, float]]()
        for start, stop in sorted(exchanges):
            if spans and start <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(stop, spans[-1][1])
            else:
                spans.append((start, stop))
        return spans


def _common_seconds(a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]) -> float:
    """Of two lists of times, each in order and without overlap."""
    i, j, seconds = 0, 0, 0.0
    while i < len(a) and j < len(b):
        seconds += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return seconds


class Started(Protocol):
    """An exchange that has begun."""

    @property
    def has_ended(self) -> bool: ...


@dataclass(slots=True)
class StepRecorder:
    """The events of one step of a worker, from now on. `worker`: its rank."""

    worker: int
    begin: float = field(default_factory=perf_counter)
    events: list[Event] = field(default_factory=list)
    _open: dict[int, Started] = field(default_factory=dict)  # exchanges by the numbers of their events

    def of_plan(self, plan: Plan) -> PlanRecorder:
        return PlanRecorder(self, plan, names_of(plan))

    def compute(self, name: str, start: float, stop: float) -> None:
        """A kernel. Exchanges that are seen to have ended by now end with it."""
        if all(event.queue == COMMUNICATION for event in self.events):
            self._add(CALL, COMPUTE, self.begin, start)
        self._add(name, COMPUTE, start, stop)
        for number in [number for number, pending in self._open.items() if pending.has_ended]:
            self.ended(number, stop)

    def exchange(self, name: str, nbytes: int, start: float, stop: float) -> int:
        """An exchange; its number."""
        return self._add(name, COMMUNICATION, start, stop, nbytes)

    def began(self, name: str, nbytes: int, start: float, pending: Started) -> int:
        """An exchange begins; its number."""
        number = self.exchange(name, nbytes, start, start)
        self._open[number] = pending
        return number

    def compared(self, pending: Started) -> None:
        """The comparison of steps begins."""
        self.began(COMPARISON, COMPARED, perf_counter(), pending)

    def ended(self, number: int, stop: float) -> None:
        """An exchange has ended by now, if it was not seen before."""
        if self._open.pop(number, None) is not None:
            event = self.events[number]
            event.stop = stop - self.begin
            event.seconds = event.stop - event.start

    def timeline(self, mesh: Mesh, peak: int) -> Timeline:
        """The events of the step that ends now. `peak`: bytes of memory of the worker."""
        now = perf_counter()
        for number in list(self._open):
            self.ended(number, now)
        last = _linked(self.events)
        text = workers_text(mesh) if mesh.workers == 1 else f"worker {mesh.rank} of {workers_text(mesh)}"
        return MeasuredTimeline(text, now - self.begin, self.events, path_to(last, self.events), peak)

    def _add(self, name: str, queue: str, start: float, stop: float, nbytes: int = 0) -> int:
        start, stop = start - self.begin, stop - self.begin
        self.events.append(Event(name, queue, stop - start, start, stop, None, nbytes, self.worker))
        return len(self.events) - 1


def _linked(events: Sequence[Event]) -> int | None:
    """Set for each event the one that it began after: the kernel before it, or an exchange that ended since. The
    number of the last event of all."""
    kernels = [i for i, event in enumerate(events) if event.queue == COMPUTE]
    exchanges = [i for i, event in enumerate(events) if event.queue == COMMUNICATION]
    exchanges.sort(key=lambda i: events[i].stop)
    kernel_stops, exchange_stops = ([events[i].stop for i in order] for order in (kernels, exchanges))

    def last_before(start: float) -> int | None:
        kernel = bisect_right(kernel_stops, start) - 1
        exchange = bisect_right(exchange_stops, start) - 1
        before = kernel_stops[kernel] if kernel >= 0 else -inf
        if exchange >= 0 and exchange_stops[exchange] > before + WAITED:
            return exchanges[exchange]
        return kernels[kernel] if kernel >= 0 else None

    for i in kernels:
        events[i].after = last_before(events[i].start)
    for i in exchanges:
        kernel = bisect_right(kernel_stops, events[i].start) - 1
        events[i].after = kernels[kernel] if kernel >= 0 else None
    return last_before(inf)


@dataclass(frozen=True, slots=True)
class PlanRecorder:
    """Records the steps of a plan. `names`: of its kernels, by their steps."""

    step: StepRecorder
    plan: Plan
    names: Mapping[int, str]
    _numbers: dict[int, int] = field(default_factory=dict)

    def __call__(self, calls: Sequence[Call]) -> Iterator[Call]:
        """The same calls. Each is timed until the next one is taken."""
        for step, call in zip(self.plan.steps, calls, strict=True):
            start = perf_counter()
            yield call
            stop = perf_counter()
            if isinstance(step, Exchange):
                pending = self.plan.begun[id(step)]
                number = self.step.began(exchange_name(step), bytes_of(step), start, pending)
                self._numbers[id(step)] = number
            elif isinstance(step, Await):
                self.step.ended(self._numbers.pop(id(step.exchange)), stop)
            else:
                self.step.compute(self.names[id(step)], start, stop)
