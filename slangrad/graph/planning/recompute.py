"""Values that are computed again where a plan may not take as much memory as it does.

    h1 h2 h3 ... loss ... dh3 dh2 dh1        h2, dropped between its two readers: ... h2 again, dh2

The choice is a knapsack: of all values that wait between two readers, the cheapest, with as many bytes as are too
many at each kernel. A kernel that runs again is the same kernel, so results have the same bits. The arena tells the
true size; the bound is tightened until that fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from slangrad.base.late import Late
from slangrad.graph.ir.errors import GraphError, MemoryLimitError
from slangrad.graph.ir.node import Node, in_order
from slangrad.graph.lowering.steps import Await, Exchange, Holder, PlanStep, TemporaryMemory
from slangrad.graph.planning.memory import Arena, arena, bytes_of
from slangrad.graph.planning.schedule import with_waits

SCIPY = Late("scipy.optimize")
MOST_KERNELS = 8  # that make one value again
TURNS = 24  # bounds that are tried: parts of the memory that is needed without a limit
SOLVER = {"node_limit": 200, "mip_rel_gap": 0.01}  # no limit of time: all workers need the same answer
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def bytes_in(text: str | int) -> int:
    """ "2 GiB" or a number of bytes; GraphError (E1043) for another text."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([kmgt]?)(i?)b?", str(text).strip().lower())
    if found is None:
        raise GraphError("E1043", f"memory={text!r} is no number of bytes", "'2 GiB', '500 MB' or an integer")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])


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
        own, found = self.writes, (part.holder for step in self.steps for part in step.reads.values())
        return [each for each in dict.fromkeys(found) if each not in own]

    @property
    def writes(self) -> dict[Holder, None]:
        return dict.fromkeys(part.holder for step in self.steps for part in step.writes.values())

    def on(self, names: Mapping[Holder, Holder], again: bool = False) -> Task:
        """The same on other memory."""
        return Task(self.number, [step.on(names) for step in self.steps], self.seconds, again)


def fitted(
    orders: Sequence[list[Task]],
    outside: set[Holder],
    overwritten: Mapping[Node, Node],
    most: int | None,
    held: int = 0,
) -> tuple[list[Task], Arena]:
    """The tasks in the first order in which the arena, and what is held anyway, are `most` bytes; else in the last one,
    some of them twice. `outside`: holders with memory of their own; `overwritten`: of outputs, the inputs whose memory
    they take.

    MemoryLimitError (E1047) with the least that would do.
    """
    limit = inf if most is None else most - held
    for tasks in orders:
        found = arena(steps_in(tasks), outside)
        if found.size <= limit:
            return tasks, found
    drops, least = Drops(tasks, outside, overwritten, found.alive), found.size
    bounds = [found.live * turn // TURNS for turn in range(TURNS)]
    for bound in sorted(bounds, key=lambda bound: (bound > limit, abs(limit - bound))):
        made = drops.without(drops.chosen(bound))
        again = arena(steps_in(made), outside)
        least = min(least, again.size)
        if again.size <= limit:
            return made, again
    note = f"memory={least + held} would do; without a limit it needs {found.size + held}"
    raise MemoryLimitError(f"a plan cannot run in {most} bytes", note, least + held, held)


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
        writers = {each: i for i, task in enumerate(tasks) for each in task.writes}
        self._makers = {each: i for each, i in writers.items() if each not in outside}
        self._reads = [task.reads for task in tasks]
        uses = {each: [i] for each, i in self._makers.items()}
        for i, reads in enumerate(self._reads):
            for each in reads:
                if each in uses:
                    uses[each].append(i)
        self._last = {each: sent.get((each, places[-1]), places[-1]) for each, places in uses.items()}
        ends: dict[Holder, int] = {
            given: writers[out] for out, given in overwritten.items() if out in writers
        }
        self._gaps: dict[Holder, tuple[int, int]] = {}
        self._seconds: dict[Holder, float] = {}
        for each, places in uses.items():
            # A collective ends where its result is read first.
            pairs = list(pairwise(places))[each in received :]
            gaps = [(sent.get((each, start), start), stop) for start, stop in pairs]
            start, stop = max(gaps, key=lambda at: at[1] - at[0], default=(0, 0))
            if stop - start > 1 and bytes_of(each) * 10000 > max(self._live):
                needed = self._needed([each], self._outlive(stop), each)
                if len(needed) <= MOST_KERNELS and all(
                    ends.get(x, stop) >= stop for i in needed for x in self._reads[i]
                ):
                    self._gaps[each] = start, stop
                    self._seconds[each] = sum(self._tasks[i].seconds for i in needed)

    def _outlive(self, stop: int) -> Callable[[Holder], bool]:
        return lambda each: bool(self._last.get(each, stop) >= stop)

    def _needed(
        self, holders: Iterable[Holder], is_there: Callable[[Holder], bool], first: Holder | None = None
    ) -> list[int]:
        """The tasks that make holders again, each behind those that make its inputs."""

        def needs(i: int) -> list[int]:
            return [self._makers[x] for x in self._reads[i] if x in self._makers and not is_there(x)]

        return in_order(
            [self._makers[each] for each in holders if each is first or not is_there(each)], needs
        )

    def chosen(self, bound: int) -> set[Holder]:
        """The cheapest to drop so that no more bytes wait at any task, or as few as can."""
        held = list(self._gaps)
        sizes = np.array([bytes_of(each) for each in held], float)
        places = np.arange(len(self._tasks))[:, None]
        starts, stops = (np.array([self._gaps[each][i] for each in held]) for i in (0, 1))
        waits = (places > starts) & (places < stops)
        need = np.minimum(np.array(self._live) - bound, waits @ sizes)
        rows = need > 0
        if not rows.any():
            return set()
        costs = np.array([self._seconds[each] for each in held])
        found = _knapsack(costs, waits[rows] * sizes, need[rows])
        return {each for each, is_dropped in zip(held, found, strict=True) if is_dropped}

    def without(self, dropped: set[Holder]) -> list[Task]:
        """The tasks, and before the first reader behind a gap those that make the dropped holders again."""
        until = {each: self._gaps[each][0] if each in dropped else last for each, last in self._last.items()}
        made: list[Task] = []
        again: dict[Holder, Holder] = {}
        for place, task in enumerate(self._tasks):

            def lives(each: Holder, place: int = place) -> bool:
                return until.get(each, place) >= place

            def found(each: Holder) -> Holder:
                return each if lives(each) else again[each]

            missing = [each for each in self._reads[place] if not lives(each) and each not in again]
            for i in self._needed(missing, lambda each: lives(each) or each in again):
                names = {each: found(each) for each in self._reads[i]}
                fresh = {x: TemporaryMemory(x.shape, x.dtype, (x, "again")) for x in self._tasks[i].writes}
                made.append(self._tasks[i].on({**names, **fresh}, again=True))
                again.update((x, new) for x, new in fresh.items() if not lives(x))
            made.append(task.on({each: found(each) for each in self._reads[place]}))
        return made


def _by_task(tasks: Sequence[Task], living: Sequence[int]) -> tuple[list[int], dict[tuple[Holder, int], int]]:
    """The most bytes that are alive at each task; and for what a collective sends, with the task of its beginning, the
    task at which it ends."""
    place = {id(step): i for i, task in enumerate(tasks) for step in task.steps}
    live, sent, i = [0] * len(tasks), dict[tuple[Holder, int], int](), len(tasks) - 1
    for step, count in zip(reversed(steps_in(tasks)), reversed(living), strict=True):
        if not isinstance(step, Await):
            i = place[id(step)]
        else:
            given = step.exchange.reads.values()
            sent |= {(part.holder, place[id(step.exchange)]): i for part in given}
        live[i] = max(live[i], count)
    return live, sent


def _knapsack(costs: np.ndarray, sizes: np.ndarray, need: np.ndarray) -> np.ndarray:
    """Which are taken: the cheapest with sizes of at least `need` in each row. By scipy's solver where it is installed,
    else the cheapest for their size, one after another."""
    try:
        solve, constraint = SCIPY.milp, SCIPY.LinearConstraint
    except ImportError:
        return _greedy(costs, sizes, need)
    scale = 1.0 / max(1.0, need.max())
    rows = constraint(sizes * scale, need * scale, np.inf)
    made = solve(
        costs / costs.max(), constraints=rows, integrality=np.ones(len(costs)), bounds=(0, 1), options=SOLVER
    )
    return _greedy(costs, sizes, need) if made.x is None else made.x > 0.5


def _greedy(costs: np.ndarray, sizes: np.ndarray, need: np.ndarray) -> np.ndarray:
    taken, left = np.zeros(len(costs), bool), need.copy()
    while left.max() > 0:
        row = sizes[left.argmax()] * ~taken
        best = int(np.where(row > 0, costs / np.maximum(row, 1), np.inf).argmin())
        taken[best] = True
        left -= sizes[:, best]
    for each in sorted(np.flatnonzero(taken), key=lambda i: -costs[i]):  # those that later ones made needless
        if (left + sizes[:, each] <= 0).all():
            taken[each], left = False, left + sizes[:, each]
    return taken
