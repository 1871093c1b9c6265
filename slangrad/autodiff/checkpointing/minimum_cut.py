"""The cheapest way to cut a source off from a sink.

    a graph of edges (from, to, capacity)        ->   the nodes on the source's side of a minimum cut

Dinic's algorithm. Ties go to the cut nearest to the source. INFINITE capacities are never cut.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Network:
    """Nodes are numbers from `node()`; 0 is the source and 1 the sink."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # of each node: indices into the lists below
        self._to: list[int] = []
        self._room: list[int] = []  # of edge i; edge i ^ 1 is its reverse

    def node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        for a, b, room in ((start, end, capacity), (end, start, 0)):
            self._edges[a].append(len(self._to))
            self._to.append(b)
            self._room.append(room)

    def cut(self) -> set[int]:
        """Saturate the network; the nodes that the source still reaches."""
        while self.SINK in (levels := self._levels()):
            self._saturate(levels)
        return set(levels)

    def _levels(self) -> dict[int, int]:
        """The distance of each node that has room on a way from the source."""
        levels, queue = {self.SOURCE: 0}, deque([self.SOURCE])
        while queue:
            node = queue.popleft()
            for i in self._edges[node]:
                if self._room[i] > 0 and self._to[i] not in levels:
                    levels[self._to[i]] = levels[node] + 1
                    queue.append(self._to[i])
        return levels

    def _saturate(self, levels: dict[int, int]) -> None:
        """Push flow along ways that go one level up at each step, until there are none."""
        untried = [list(edges) for edges in self._edges]
        path: list[int] = []
        while True:
            node = self._to[path[-1]] if path else self.SOURCE
            if node == self.SINK:
                self._push(path)
                path = []
                continue
            step = self._step(node, untried[node], levels)
            if step is not None:
                path.append(step)
            elif path:
                untried[self._to[path.pop() ^ 1]].pop()
            else:
                return

    def _step(self, node: int, untried: list[int], levels: dict[int, int]) -> int | None:
        while untried:
            i = untried[-1]
            if self._room[i] > 0 and levels.get(self._to[i]) == levels[node] + 1:
                return i
            untried.pop()
        return None

    def _push(self, path: list[int]) -> None:
        amount = min(self._room[i] for i in path)
        for i in path:
            self._room[i] -= amount
            self._room[i ^ 1] += amount
