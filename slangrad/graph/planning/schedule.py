"""The order of kernels, which decides how much memory they need between them.

    dh2, dw2, dh1, dw1        dw2 before dh1: arrays that only dw2 reads are free then

Two orders are compared by the most bytes that are alive at once. One is that of the graph; in the other, kernels
that free more than they take run as soon as they can. With many workers the first is the order in which collectives
run beside kernels. With a limit of memory the next is that order as long as values fit, and the last the one of the
least bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from math import prod
from operator import itemgetter

from slangrad.graph.ir.node import Node
from slangrad.graph.lowering.steps import Await, Exchange, PlanStep
from slangrad.graph.planning.overlap import Overlap
from slangrad.graph.rewriting.fuse import Group


class Schedule:
    """`orders`: of groups, by their numbers, the best first; those behind it take less memory, which is limited to
    `most` bytes. `overwritten`: outputs that are written over inputs, once nothing else reads these; `stuck`: those for
    which there is no such time. `outside`: nodes that have memory of their own."""

    def __init__(
        self,
        groups: Sequence[Group],
        outside: set[Node],
        overwritten: Mapping[Node, Node],
        most: int | None = None,
    ) -> None:
        self.stuck: set[Node] = set()
        self._groups = groups
        self._makers = {root: i for i, group in enumerate(groups) for root in group.roots}
        self._inside = self._makers.keys() - outside
        reads = [group.reads for group in groups]
        # A collective reads no element of the one before it.
        self._uses = [{leaf.node for leaf in g.leaves if prod(leaf.layout.shape)} for g in groups]
        self._readers: dict[Node, set[int]] = {}
        for i, nodes in enumerate(reads):
            for node in nodes:
                self._readers.setdefault(node, set()).add(i)
        self._data = [
            {self._makers[n] for n in nodes if n in self._makers} - {i} for i, nodes in enumerate(reads)
        ]
        self._after = [
            set().union(
                *(self._readers.get(overwritten[root], ()) for root in group.roots if root in overwritten)
            )
            - {i}
            for i, group in enumerate(groups)
        ]
        self.orders: list[list[int]] = []
        exchanges = {i for i, group in enumerate(groups) if group.is_collective}
        if exchanges:
            self.orders.append(self._ordered(Overlap(self._data, exchanges).next)[1])
            for limit in () if most is None else (most, 0):
                choose = partial(self._beside, Overlap(self._data, exchanges), limit)
                self.orders.append(self._ordered(choose)[1])
        else:
            candidates = [self._ordered(min), self._ordered(self._freeing)]
            self.orders.append(min(candidates, key=itemgetter(0))[1])

    def _ordered(self, choose: Callable[[Collection[int]], int]) -> tuple[int, list[int]]:
        """The most bytes that are alive, and the order; `choose`: the next of those that may run."""
        needs = [set(a | b) for a, b in zip(self._data, self._after, strict=True)]
        then: dict[int, list[int]] = {}
        for i, needed in enumerate(needs):
            for j in needed:
                then.setdefault(j, []).append(i)
        self._left = Counter(node for nodes in self._uses for node in nodes)
        self._begun: set[int] = set()
        self._live = peak = 0
        ready = {i: None for i, needed in enumerate(needs) if not needed}
        self._moved = list(ready)
        self._heap: list[tuple[int, int]] = []
        order: list[int] = []
        while len(order) < len(needs):
            if not ready:
                i = self._freed(needs, order)
                ready[i] = None
                self._moved.append(i)
            i = choose(ready)
            del ready[i]
            peak = max(peak, self._live + self._new_bytes(i))
            self._live += self._change(i)
            for node in self._ended(i):
                self._left[node] -= 1
                if self._left[node] == 1:
                    self._moved += self._readers[node]
            self._begun -= self._awaited(i)
            if self._groups[i].kind == "exchange":
                self._begun.add(i)
            order.append(i)
            for j in then.get(i, ()):
                needs[j].discard(i)
                if not needs[j]:
                    ready[j] = None
                    self._moved.append(j)
        return peak, order

    def _freeing(self, ready: Collection[int]) -> int:
        """The one that frees most, if that is more than it takes; else the first."""
        heap = self._heap
        for i in self._moved:
            if i in ready:
                heappush(heap, (self._change(i), i))
        self._moved.clear()
        while heap[0][1] not in ready or heap[0][0] != self._change(heap[0][1]):
            heappop(heap)
        change, i = heap[0]
        return i if change < 0 else min(ready)

    def _beside(self, overlap: Overlap, most: int, ready: Collection[int]) -> int:
        """The one beside which collectives run, as long as the memory stays within a limit."""
        i = overlap.best(ready)
        if self._live + self._new_bytes(i) > most:
            i = overlap.best(ready, is_lean=True)
        return overlap.take(i)

    def _freed(self, needs: list[set[int]], order: list[int]) -> int:
        """A kernel and the readers of its overwritten input wait for each other: then it overwrites no input."""
        done = set(order)
        i = next(i for i, needed in enumerate(self._data) if i not in done and needed <= done)
        self.stuck.update(self._groups[i].roots)
        self._after[i], needs[i] = set(), {i}
        return i

    def _root_bytes(self, i: int) -> int:
        return sum(root.nbytes for root in self._groups[i].roots if root in self._inside)

    def _new_bytes(self, i: int) -> int:
        """Bytes that are alive during a kernel, and were not before. Arrays that are copied into a buffer lie
        there."""
        added = self._root_bytes(i)
        return max(0, self._change(i)) if self._groups[i].kind == "part" else added

    def _change(self, i: int) -> int:
        """Bytes that are alive after a kernel, less those before it."""
        ended = Counter(self._ended(i))
        return self._root_bytes(i) - sum(
            node.nbytes for node, n in ended.items() if self._left[node] == n and node in self._inside
        )

    def _ended(self, i: int) -> list[Node]:
        """The nodes whose last reader is this kernel: its own inputs (except those that a collective sends), and
        those of collectives that it waits for."""
        kernels = [] if self._groups[i].kind == "exchange" else [i]
        return [node for j in (*kernels, *self._awaited(i)) for node in self._uses[j]]

    def _awaited(self, i: int) -> set[int]:
        """The collectives that have begun, and that end before a kernel."""
        return {j for j in self._begun if not self._uses[i].isdisjoint(self._groups[j].roots)}


def with_waits(steps: Iterable[PlanStep]) -> list[PlanStep]:
    """The steps, and the end of each collective before the first that reads its result or writes to its memory."""
    order: list[PlanStep] = []
    begun: list[Exchange] = []
    for step in steps:
        for exchange in list(begun):
            used, written = ({part.holder for part in parts} for parts in (step.parts, step.writes.values()))
            reads, writes = (
                {x.holder for x in parts.values()} for parts in (exchange.reads, exchange.writes)
            )
            if not (writes.isdisjoint(used) and reads.isdisjoint(written)):
                begun.remove(exchange)
                order.append(end_of(exchange))
        order.append(step)
        if isinstance(step, Exchange):
            begun.append(step)
    return [*order, *map(end_of, begun)]


def end_of(exchange: Exchange) -> Await:
    return Await(exchange, reads={str(i): part for i, part in enumerate(exchange.parts)})
