"""The time of a step of one worker, which has two queues: kernels in order, and collectives that run beside them.

compute      |== dw2 ==|== dw1 ==|          |== update ==|
communication          |== all_reduce dw2 ==== dw1 ==|
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from slangrad.graph.workers.simulation.events import CALL, COMMUNICATION, COMPUTE, Event, path_to
from slangrad.graph.workers.simulation.trace import trace_text

COLORS = {COMPUTE: "#93c5fd", COMMUNICATION: "#fca5a5"}
WIDTH, LANE, LEFT, TOP = 1200, 40, 120, 30  # pixels of the picture
ROUNDING = 1e-9  # of sums of seconds
MOST_PARTS = 12  # of a critical path that are shown


class WorkerQueues:
    """Runs events. `overlap`: the part of the shorter one that is hidden where a kernel and a collective run together;
    both are slower then. Collectives run one after another."""

    def __init__(self, overlap: float) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self._speed = 1 / (2 - overlap)
        self._last: int | None = None  # what the next kernel begins after
        self._running: deque[int] = deque()
        self._left: dict[int, float] = {}

    def compute(self, name: str, seconds: float) -> None:
        """Run a kernel."""
        event = Event(name, COMPUTE, seconds, self.now, self.now, self._last)
        self._last = self._add(event)
        left = seconds
        while left and self._running:
            work = min(left, self._left[self._running[0]])
            self._communicate(work, self._speed)
            left -= work
        self.now += left
        event.stop = self.now

    def begin(self, name: str, seconds: float, nbytes: int) -> int:
        """Begin a collective, and go on. Its number."""
        after = self._running[-1] if self._running else self._last
        number = self._add(Event(name, COMMUNICATION, seconds, self.now, self.now, after, nbytes))
        self._left[number] = seconds
        self._running.append(number)
        return number

    def wait(self, number: int) -> None:
        """Wait for the end of a collective."""
        if number in self._running:
            self._last = number
        while number in self._running:
            self._communicate(self._left[self._running[0]], 1.0)

    def _add(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events) - 1

    def _communicate(self, seconds: float, speed: float) -> None:
        """Go on with the first collective. The next one begins when it ends."""
        number = self._running[0]
        self.now += seconds / speed
        self._left[number] -= seconds
        if self._left[number] <= 0:
            self.events[self._running.popleft()].stop = self.now
            if self._running:
                self.events[self._running[0]].start = self.now

    @property
    def path(self) -> list[Event]:
        return path_to(self._last, self.events)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A step, simulated or measured: `print` shows a table, `save` a picture or a trace. `seconds`: of the step;
    `events`: each kernel and collective; `path`: those that decide how long it takes; `peak`: bytes of memory of one
    worker; `workers`: all of them, in words. `copying`: the seconds of copies of weights, before anything else, which
    micro-batches make once."""

    workers: str
    seconds: float
    events: list[Event]
    path: list[Event]
    peak: int
    copying: float = 0.0

    @property
    def compute(self) -> float:
        """Seconds of all kernels alone."""
        return _seconds(self.events, COMPUTE)

    @property
    def communication(self) -> float:
        """Seconds of all collectives alone."""
        return _seconds(self.events, COMMUNICATION)

    @property
    def hidden(self) -> float:
        """Seconds of collectives that the step does not take, as kernels run meanwhile."""
        both = self.compute + self.communication
        return both - self.seconds if both > self.seconds * (1 + ROUNDING) else 0.0

    def __str__(self) -> str:
        rows = [
            (self.workers, time_text(self.seconds), "a step"),
            (COMPUTE, time_text(self.compute), f"{_counted(self.events, COMPUTE)} kernels"),
            (COMMUNICATION, time_text(self.communication), f"{time_text(self.hidden)} of it hidden"),
            *self._collectives(),
            ("memory of a worker", bytes_text(self.peak), "at most"),
        ]
        return "\n".join([*table(rows), f"critical path: {path_text(self.path)}"])

    __repr__ = __str__

    def _collectives(self) -> Iterator[tuple[str, str, str]]:
        """A row for each kind of collective."""
        by_name: dict[str, list[Event]] = {}
        for event in self.events:
            if event.queue == COMMUNICATION:
                by_name.setdefault(event.name, []).append(event)
        for name, events in by_name.items():
            total = f"{len(events)} of {bytes_text(sum(event.nbytes for event in events))}"
            yield f"  {name}", time_text(_seconds(events, COMMUNICATION)), total

    @property
    def lanes(self) -> list[str]:
        """The rows of the picture."""
        return [COMPUTE, COMMUNICATION]

    def _lane(self, event: Event) -> tuple[int, int]:
        """The row of a bar, and its height in pixels."""
        return self.lanes.index(event.queue), LANE - 8

    def _name_of(self, lane: int) -> str:
        """The worker that events of a lane are of."""
        return self.workers

    @property
    def svg(self) -> str:
        """A bar for each kernel and collective, with its name and its seconds, as an element of HTML."""
        height = TOP + len(self.lanes) * LANE + 10
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH}" height="{height}"'
        parts = [f'{head} font-family="sans-serif" font-size="12">']
        for i, name in enumerate(self.lanes):
            parts.append(f'<text x="4" y="{TOP + LANE * i + LANE // 2}">{name}</text>')
        parts.append(
            f'<text x="{LEFT}" y="16">0</text>'
            f'<text x="{LEFT + WIDTH}" y="16" text-anchor="end">{time_text(self.seconds)}</text>'
        )
        on_path = set(map(id, self.path))
        parts += [self._bar(event, id(event) in on_path) for event in self.events]
        return "\n".join([*parts, "</svg>"])

    def _bar(self, event: Event, is_on_path: bool) -> str:
        scale = WIDTH / (self.seconds or 1.0)
        x, width = LEFT + event.start * scale, (event.stop - event.start) * scale
        lane, height = self._lane(event)
        y = TOP + LANE * lane
        line = ' stroke="#111827" stroke-width="0.5"' if is_on_path else ""
        size = f'width="{width:.2f}" height="{height}"'
        title = f"{escape(event.name)}, {time_text(event.seconds)}"
        shape = f'<rect x="{x:.2f}" y="{y}" {size} fill="{COLORS[event.queue]}"{line}>'
        return f"{shape}<title>{title}</title></rect>"

    def save(self, path: str | Path) -> None:
        """Write a picture, a trace or a page, by the ending of the name. Bars of the critical path have a border in the
        picture (.svg). A trace (.json) is for chrome://tracing and Perfetto. Other names get a page of HTML with the
        picture and the table."""
        if Path(path).suffix == ".json":
            Path(path).write_text(trace_text(self.events, self.path, self._name_of), encoding="utf-8")
            return
        page = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{self.workers}</title></head>\n'
        page += f"<body>\n{self.svg}\n<pre>{escape(str(self))}</pre>\n</body></html>\n"
        Path(path).write_text(self.svg if Path(path).suffix == ".svg" else page, encoding="utf-8")


def _seconds(events: Iterable[Event], queue: str) -> float:
    return sum(event.seconds for event in events if event.queue == queue)


def _counted(events: Iterable[Event], queue: str) -> int:
    return sum(event.queue == queue and event.name != CALL for event in events)


# --- text


def table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """A line for each row, in columns."""
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}" for a, b, c in rows]


def path_text(path: Iterable[Event], noun: str = "kernel") -> str:
    """The path in words: neighboring kernels (`noun`) are counted, and the middle of a long path is left out."""
    parts = []
    for queue, events in groupby(path, lambda event: event.queue):
        run = list(events)
        took = time_text(sum(event.stop - event.start for event in run))
        names = ", ".join(dict.fromkeys(event.name for event in run))
        computed = f"{len(run)} {noun}{'s' * (len(run) > 1)}"
        parts.append(f"{computed if queue == COMPUTE else names} {took}")
    if len(parts) > MOST_PARTS:
        half = MOST_PARTS // 2
        parts[half:-half] = [f"... {len(parts) - 2 * half} more ..."]
    return " -> ".join(parts) or "nothing"


def time_text(seconds: float) -> str:
    """With three digits: "1.25 ms"."""
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def bytes_text(count: float) -> str:
    """With three digits: "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
