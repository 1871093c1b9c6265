"""Values that are computed again where a plan may not take as much memory as it does.

    h1 h2 h3 ... loss ... dh3 dh2 dh1        h2, dropped between its two readers: ... h2 again, dh2

There are two choices for each bound. One is a knapsack: of all values that wait between two readers, cheap ones
with as many bytes as are too many at each kernel. The other takes runs of values from the front, as checkpoints do in a
chain: values that need each other are alive together when they are made again. Both are tried with tighter bounds until
one fits. A kernel that runs again is the same kernel, so results have the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from operator import attrgetter

import numpy as np

from slangrad.graph.ir.errors import GraphError, MemoryLimitError
from slangrad.graph.ir.node import Node, in_order
from slangrad.graph.lowering.steps import Await, Exchange, Holder, PlanStep, TemporaryMemory
from slangrad.graph.planning.memory import ArenaPlan, arena, bytes_of, lifetimes
from slangrad.graph.planning.schedule import with_waits

MOST_KERNELS = 8  # that make one value again
DEPTH = 2  # how often values are dropped that are made again
FIRST = 0.05  # of its costs are saved if the value that waits longest is dropped
TURNS = 24  # bounds that are tried: parts of the memory that is needed without a limit
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def bytes_in(text: str | int) -> int:
    """ "2 GiB" or a number of bytes; GraphError (E1043) for another text."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([kmgt]?)(i?)b?", str(text).strip().lower())
    if match is None:
        raise GraphError("E1043", f"memory={text!r} is no number of bytes", "'2 GiB', '500 MB' or an integer")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** _UNITS[match[2]])


@dataclass(slots=True, eq=False)
class Task:
    """The steps of a group. `number`: of the group. `again`: it has run before."""

    number: int
    steps: list[PlanStep]
    seconds: float
    again: bool = False

    @property
    def reads(self) -> list[Holder]:
        """The holders that other tasks fill, in an order that does not change from run to run, as that of sets does."""
        written, holders = self.writes, (part.holder for step in self.steps for part in step.reads.values())
        return [holder for holder in dict.fromkeys(holders) if holder not in written]

    @property
    def writes(self) -> dict[Holder, None]:
        return dict.fromkeys(part.holder for step in self.steps for part in step.writes.values())

    def on(self, names: Mapping[Holder, Holder], again: bool = False) -> Task:
        """The same task on other memory."""
        if not again and all(old is new for old, new in names.items()):
            return self
        return Task(self.number, [step.on(names) for step in self.steps], self.seconds, again or self.again)


def fitted(
    orders: Sequence[list[Task]],
    outside: set[Holder],
    overwritten: Mapping[Node, Node],
    most: int | None,
    held: int = 0,
) -> tuple[list[Task], ArenaPlan]:
    """The tasks in the first order in which the arena, and what is held anyway, are `most` bytes; else in the last one,
    some of them twice. `outside`: holders with memory of their own; `overwritten`: of outputs, the inputs whose memory
    they take.

    MemoryLimitError (E1047) with the least that would do.
    """
    limit = inf if most is None else most - held
    for tasks in orders:
        memory = arena(steps_in(tasks), outside)
        if memory.size <= limit:
            return tasks, memory
    search = _TaskSearch(outside, overwritten, limit)
    search.run(tasks)
    if search.best is not None:
        return search.best
    least = search.least(memory.size)
    note = f"memory={least + held} would do; without a limit it needs {memory.size + held}"
    raise MemoryLimitError(f"a plan cannot run in {most} bytes", note, least + held, held)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Tasks without some holders, and the bytes that are alive at once."""

    live: int
    drops: Drops
    dropped: set[Holder]

    @property
    def tasks(self) -> list[Task]:
        return self.drops.without(self.dropped)


class _TaskSearch:
    """The cheapest tasks that fit, `best`. If none does, the same trials were made as with any other limit that is too
    small. So `least`, the bytes that the smallest of them needs, is a limit that would do."""

    def __init__(self, outside: set[Holder], overwritten: Mapping[Node, Node], limit: float) -> None:
        self._outside, self._overwritten, self._limit = outside, overwritten, limit
        self.best: tuple[list[Task], ArenaPlan] | None = None
        self._seconds = inf
        self._trials: dict[tuple[Drops, frozenset[Holder]], _Trial] = {}

    def run(self, tasks: list[Task]) -> None:
        least: float = inf
        for _ in range(DEPTH):
            lives = lifetimes(steps_in(tasks), self._outside)
            if lives.live >= least:
                return
            least = lives.live
            drops = Drops(tasks, self._outside, self._overwritten, lives.alive)
            trials = [
                trial for choose in (drops.cheapest, drops.foremost) for trial in self._turn(drops, choose)
            ]
            if self.best is not None:
                return
            tasks = min(trials, key=attrgetter("live")).tasks

    def _turn(self, drops: Drops, choose: Callable[[int], set[Holder]]) -> list[_Trial]:
        """The trials of all bounds but the limit, from low to high. Those near it are made first, until one fits."""
        if 0 < self._limit < drops.live and self._takes(self._trial(drops, choose(int(self._limit)))):
            return []
        bounds = [drops.live * turn // TURNS for turn in range(TURNS)]
        trials: dict[int, _Trial] = {}
        for bound in sorted(bounds, key=lambda bound: (bound > self._limit, abs(self._limit - bound))):
            trials[bound] = self._trial(drops, choose(bound))
            if self._takes(trials[bound]):
                return []
        return [trials[bound] for bound in sorted(trials)]

    def _trial(self, drops: Drops, dropped: set[Holder]) -> _Trial:
        key = drops, frozenset(dropped)
        if key not in self._trials:
            live = lifetimes(steps_in(drops.without(dropped)), self._outside).live
            self._trials[key] = _Trial(live, drops, dropped)
        return self._trials[key]

    def _takes(self, trial: _Trial) -> bool:
        """Whether a trial fits. It is the best one if it is the cheapest, too."""
        if trial.live > self._limit:
            return False
        tasks = trial.tasks
        memory = arena(steps_in(tasks), self._outside)
        seconds = sum(task.seconds for task in tasks)
        if memory.size <= self._limit and seconds < self._seconds:
            self.best, self._seconds = (tasks, memory), seconds
        return memory.size <= self._limit

    def least(self, size: int) -> int:
        """The bytes of the smallest trial, or `size` if that is less."""
        for trial in sorted(self._trials.values(), key=attrgetter("live")):
            if trial.live < size:
                size = min(size, arena(steps_in(trial.tasks), self._outside).size)
        return size


def steps_in(tasks: Iterable[Task]) -> list[PlanStep]:
    return with_waits(step for task in tasks for step in task.steps)


class Drops:
    """The holders that can be dropped, between which tasks, and the seconds to make them again. `living`: the bytes
    that are alive at each step."""

    def __init__(
        self,
        tasks: Sequence[Task],
        outside: set[Holder],
        overwritten: Mapping[Node, Node],
        living: Sequence[int],
    ) -> None:
        self._tasks = tasks
        self._live, sent = _by_task(tasks, living)
        exchanges = [step for task in tasks for step in task.steps if isinstance(step, Exchange)]
        received = {part.holder for step in exchanges for part in step.writes.values()}
        writers = {holder: i for i, task in enumerate(tasks) for holder in task.writes}
        self._makers = {holder: i for holder, i in writers.items() if holder not in outside}
        self._reads = [task.reads for task in tasks]
        uses = {holder: [i] for holder, i in self._makers.items()}
        for i, reads in enumerate(self._reads):
            for holder in reads:
                if holder in uses:
                    uses[holder].append(i)
        self._last = {holder: sent.get((holder, places[-1]), places[-1]) for holder, places in uses.items()}
        ends: dict[Holder, int] = {
            source: writers[out] for out, source in overwritten.items() if out in writers
        }
        self._gaps: dict[Holder, tuple[int, int]] = {}
        self._seconds: dict[Holder, float] = {}
        for holder, places in uses.items():
            # A collective ends where its result is read first.
            pairs = list(pairwise(places))[holder in received :]
            gaps = [(sent.get((holder, start), start), stop) for start, stop in pairs]
            start, stop = max(gaps, key=lambda at: at[1] - at[0], default=(0, 0))
            if stop - start > 1 and bytes_of(holder) * 10000 > self.live:
                needed = self._needed([holder], self._outlive(stop), holder)
                if len(needed) <= MOST_KERNELS and all(
                    ends.get(x, stop) >= stop for i in needed for x in self._reads[i]
                ):
                    self._gaps[holder] = start, stop
                    self._seconds[holder] = sum(self._tasks[i].seconds for i in needed)

    @property
    def live(self) -> int:
        """The most bytes that are alive at a task."""
        return max(self._live, default=0)

    def _outlive(self, stop: int) -> Callable[[Holder], bool]:
        return lambda holder: bool(self._last.get(holder, stop) >= stop)

    def _needed(
        self, holders: Iterable[Holder], is_there: Callable[[Holder], bool], first: Holder | None = None
    ) -> list[int]:
        """The tasks that make holders again, each behind those that make its inputs."""

        def needs(i: int) -> list[int]:
            return [self._makers[x] for x in self._reads[i] if x in self._makers and not is_there(x)]

        return in_order(
            [self._makers[holder] for holder in holders if holder is first or not is_there(holder)], needs
        )

    def cheapest(self, bound: int) -> set[Holder]:
        """Cheap ones to drop so that no more bytes wait at any task, or as few as can."""
        held = list(self._gaps)
        sizes = np.array([bytes_of(holder) for holder in held], float)
        places = np.arange(len(self._tasks))[:, None]
        starts, stops = (np.array([self._gaps[holder][i] for holder in held]) for i in (0, 1))
        waits = (places > starts) & (places < stops)
        need = np.minimum(np.array(self._live) - bound, waits @ sizes)
        rows = need > 0
        if not rows.any():
            return set()
        costs = np.array([self._seconds[holder] for holder in held])
        costs *= 1 + FIRST * stops.min() / np.maximum(stops, 1)
        choice = _cover(costs, waits[rows] * sizes, need[rows])
        return {holder for holder, is_dropped in zip(held, choice, strict=True) if is_dropped}

    def foremost(self, bound: int) -> set[Holder]:
        """The first to drop so that no more bytes wait at any task, in runs that are made again as a whole. A run
        keeps the values that later runs read. The first one is made again last, beside no others, so it is the
        longest."""
        need, total = np.array(self._live) - bound, 0  # bytes of the run
        kept, dropped, run = list[Holder](), set[Holder](), list[Holder]()
        for holder in sorted(self._gaps, key=self._makers.__getitem__):
            start, stop = self._gaps[holder]
            if need[start + 1 : stop].max() <= 0:
                continue
            room = bound - sum(bytes_of(other) for other in kept if self._gaps[other][1] >= stop)
            while run and total + bytes_of(holder) > room:
                count = self._cut(run)
                total -= sum(map(bytes_of, run[:count]))
                read_later = self._read_later(run[:count])
                for other in read_later:
                    need[slice(*self._gaps[other])][1:] += bytes_of(other)
                room -= sum(map(bytes_of, read_later))
                kept += read_later
                dropped |= set(run[:count]).difference(read_later)
                run = run[count:]
            if bytes_of(holder) <= room:
                run.append(holder)
                total += bytes_of(holder)
                need[start + 1 : stop] -= bytes_of(holder)
        return dropped.union(run)

    def _cut(self, run: Sequence[Holder]) -> int:
        """The number of holders before a place in the second half of a run where the fewest bytes are read later."""
        totals = list(accumulate(map(bytes_of, run)))
        counts = [i + 1 for i, total in enumerate(totals) if 2 * total >= totals[-1]]
        return min(reversed(counts), key=lambda i: sum(map(bytes_of, self._read_later(run[:i]))))

    def _read_later(self, run: Sequence[Holder]) -> list[Holder]:
        """Those that a task behind the run reads before their gap."""
        end = self._makers[run[-1]]
        return [holder for holder in run if self._gaps[holder][0] > end]

    def without(self, dropped: set[Holder]) -> list[Task]:
        """The tasks, and before the first reader behind a gap those that make the dropped holders again."""
        until = {
            holder: self._gaps[holder][0] if holder in dropped else last
            for holder, last in self._last.items()
        }
        order: list[Task] = []
        again: dict[Holder, Holder] = {}
        for place, task in enumerate(self._tasks):

            def lives(holder: Holder, place: int = place) -> bool:
                return until.get(holder, place) >= place

            def current(holder: Holder) -> Holder:
                return holder if lives(holder) else again[holder]

            missing = [holder for holder in self._reads[place] if not lives(holder) and holder not in again]
            for i in self._needed(missing, lambda holder: lives(holder) or holder in again):
                names = {holder: current(holder) for holder in self._reads[i]}
                fresh = {x: TemporaryMemory(x.shape, x.dtype, (x, "again")) for x in self._tasks[i].writes}
                order.append(self._tasks[i].on({**names, **fresh}, again=True))
                again.update((x, new) for x, new in fresh.items() if not lives(x))
            order.append(task.on({holder: current(holder) for holder in self._reads[place]}))
        return order


def _by_task(tasks: Sequence[Task], living: Sequence[int]) -> tuple[list[int], dict[tuple[Holder, int], int]]:
    """The most bytes that are alive at each task. And the task at which each collective ends, by the holder that it
    sends and the task at which it begins."""
    place = {id(step): i for i, task in enumerate(tasks) for step in task.steps}
    live, sent, i = [0] * len(tasks), dict[tuple[Holder, int], int](), len(tasks) - 1
    for step, count in zip(reversed(steps_in(tasks)), reversed(living), strict=True):
        if not isinstance(step, Await):
            i = place[id(step)]
        else:
            parts = step.exchange.reads.values()
            sent |= {(part.holder, place[id(step.exchange)]): i for part in parts}
        live[i] = max(live[i], count)
    return live, sent


def _cover(costs: np.ndarray, sizes: np.ndarray, need: np.ndarray) -> np.ndarray:
    """A mask of cheap holders whose sizes add up to at least `need` in each row.

    The row that lacks most gets the cheapest for the bytes that it needs, one after another; those that later ones
    make needless are given up. A solver of integer programs takes much longer."""
    chosen, left = np.zeros(len(costs), bool), need.copy()
    while left.max() > 0:
        lacking = left.argmax()
        freed = np.minimum(sizes[lacking], left[lacking]) * ~chosen
        best = int(np.where(freed > 0, costs / np.maximum(freed, 1), np.inf).argmin())
        chosen[best] = True
        left -= sizes[:, best]
    for i in sorted(np.flatnonzero(chosen), key=lambda i: -costs[i]):
        if (left + sizes[:, i] <= 0).all():
            chosen[i], left = False, left + sizes[:, i]
    return chosen
