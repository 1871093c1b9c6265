"""The order of kernels, which decides how much memory they need between them.

    dh2, dw2, dh1, dw1        dw2 before dh1: all that it alone reads is free then

Two orders are compared by the most bytes that are alive at once: that of the graph, and one in which kernels that free
more than they take run as soon as they can. With many workers it is the order in which collectives run beside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from slangrad.graph.emit import Await, Exchange, Step
from slangrad.graph.fuse import Group
from slangrad.graph.node import Node
from slangrad.graph.workers.overlap import Overlap


class Schedule:
    """`groups`: in order. `taken`: outputs that are written over inputs, once nothing else reads these; `stuck`: those
    for which there is no such time. `outside`: nodes that have memory of their own."""

    def __init__(self, groups: Sequence[Group], outside: set[Node], taken: Mapping[Node, Node]) -> None:
        self.stuck: set[Node] = set()
        self._groups = groups
        self._reads = [group.reads for group in groups]
        self._makers = {root: i for i, group in enumerate(groups) for root in group.roots}
        self._inside = self._makers.keys() - outside
        self._readers: dict[Node, set[int]] = {}
        for i, nodes in enumerate(self._reads):
            for node in nodes:
                self._readers.setdefault(node, set()).add(i)
        self._data = [
            {self._makers[n] for n in nodes if n in self._makers} - {i} for i, nodes in enumerate(self._reads)
        ]
        self._after = [
            set().union(*(self._readers.get(taken[root], ()) for root in group.roots if root in taken)) - {i}
            for i, group in enumerate(groups)
        ]
        exchanges = {i for i, group in enumerate(groups) if group.is_collective}
        if exchanges:
            _, order = self._ordered(Overlap(self._data, exchanges).next)
        else:
            (peak, order), (least, other) = self._ordered(min), self._ordered(self._freeing)
            order = other if least < peak else order
        self.groups = [groups[i] for i in order]

    def _ordered(self, choose: Callable[[Sequence[int]], int]) -> tuple[int, list[int]]:
        """The most bytes that are alive, and the order; `choose`: the next of those that may run."""
        needs = [set(a | b) for a, b in zip(self._data, self._after, strict=True)]
        then: dict[int, list[int]] = {}
        for i, each in enumerate(needs):
            for j in each:
                then.setdefault(j, []).append(i)
        self._left = left = {node: len(each) for node, each in self._readers.items()}
        ready = [i for i, each in enumerate(needs) if not each]
        order: list[int] = []
        live = peak = 0
        while len(order) < len(needs):
            if not ready:
                ready.append(self._freed(needs, order))
            i = choose(ready)
            ready.remove(i)
            peak = max(peak, live + self._made(i))
            live += self._change(i)
            for node in self._reads[i]:
                left[node] -= 1
            order.append(i)
            for j in then.get(i, ()):
                needs[j].discard(i)
                if not needs[j]:
                    ready.append(j)
        return peak, order

    def _freeing(self, ready: Sequence[int]) -> int:
        """The one that frees most, if that is more than it takes; else the first."""
        i = min(ready, key=lambda i: (self._change(i), i))
        return i if self._change(i) < 0 else min(ready)

    def _freed(self, needs: list[set[int]], order: list[int]) -> int:
        """A kernel that waits for others to read what it overwrites, and they wait for it: it overwrites nothing."""
        done = set(order)
        i = next(i for i, each in enumerate(self._data) if i not in done and each <= done)
        self.stuck.update(self._groups[i].roots)
        self._after[i], needs[i] = set(), {i}
        return i

    def _made(self, i: int) -> int:
        return sum(root.nbytes for root in self._groups[i].roots if root in self._inside)

    def _change(self, i: int) -> int:
        """Bytes that are alive after a kernel, less those before it."""
        return self._made(i) - sum(
            n.nbytes for n in self._reads[i] if self._left[n] == 1 and n in self._inside
        )


def with_waits(steps: Iterable[Step]) -> list[Step]:
    """The steps, and the end of each collective before the first that reads its result or writes to its memory."""
    made: list[Step] = []
    begun: list[Exchange] = []
    for step in steps:
        used, written = ({part.holder for part in parts} for parts in (step.parts, step.writes.values()))
        for each in list(begun):
            reads, writes = ({x.holder for x in parts.values()} for parts in (each.reads, each.writes))
            if not (writes.isdisjoint(used) and reads.isdisjoint(written)):
                begun.remove(each)
                made.append(end_of(each))
        made.append(step)
        if isinstance(step, Exchange):
            begun.append(step)
    return [*made, *map(end_of, begun)]


def end_of(exchange: Exchange) -> Await:
    return Await(exchange, reads=dict(enumerate(exchange.parts)))
