"""The order of kernels in which collectives run beside them.

    dw2, dh1, dw1, sum of dw1 and dw2, updates       dw2, begin its sum, dh1, dw1, begin its sum, update 2, update 1

Kernels that lead to the next sum over workers come first; those that wait for one come last, in the order in which the
sums began. A parameter is gathered while the kernels before its reader run: two are on their way at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

AHEAD = 2  # parameters that are gathered before they are read


class Overlap:
    """Chooses the next of the groups of a plan. `needs`: for each group those before it; `exchanges`: the groups that
    are collectives."""

    def __init__(self, needs: Sequence[set[int]], exchanges: set[int]) -> None:
        self._needs, self._exchanges = needs, exchanges
        copies = self._copies()
        self._gathers: set[int] = set()  # behind copies of inputs, or each other
        self._begun: dict[int, int] = {}  # sums over workers: when they began
        self._held: set[int] = set()  # gathers that nothing has read
        depth = [0] * len(needs)
        for i in self._inputs_first():
            if i in exchanges and needs[i] - copies <= self._gathers:
                self._gathers.add(i)
            depth[i] = 1 + max((depth[j] for j in needs[i]), default=0)
        self._deadline = [len(needs)] * len(needs)
        for i in sorted(exchanges - self._gathers, key=lambda i: (-depth[i], -i)):
            self._lead_to(i, depth[i])
        for i in copies:
            self._deadline[i] = 0

    def _copies(self) -> set[int]:
        """Groups that copy inputs into buckets: they wait for nothing, and collectives alone read them."""
        kernels = set(range(len(self._needs))) - self._exchanges
        read = set().union(*(self._needs[i] for i in kernels))
        return {i for i in kernels - read if not self._needs[i]}

    def _inputs_first(self) -> list[int]:
        order: list[int] = []
        seen: set[int] = set()
        stack = [(i, False) for i in range(len(self._needs))]
        while stack:
            i, is_done = stack.pop()
            if is_done:
                order.append(i)
            elif i not in seen:
                seen.add(i)
                stack.append((i, True))
                stack += [(j, False) for j in self._needs[i]]
        return order

    def _lead_to(self, exchange: int, depth: int) -> None:
        """All groups before a sum are as urgent as the sum; sums that can begin earlier are entered later."""
        stack, seen = [exchange], {exchange}
        while stack:
            i = stack.pop()
            self._deadline[i] = depth
            stack += [j for j in self._needs[i] if j not in seen]
            seen.update(self._needs[i])

    def next(self, ready: Collection[int]) -> int:
        """The best of the groups that may run now; it is taken."""
        return self.take(self.best(ready))

    def best(self, ready: Collection[int], is_lean: bool = False) -> int:
        """`is_lean`: the one that keeps the fewest arrays alive."""
        return min(ready, key=self._lean_key if is_lean else self._key)

    def take(self, i: int) -> int:
        if i in self._gathers:
            self._held.add(i)
            return i
        self._held -= self._needs[i]
        if i in self._exchanges:
            self._begun[i] = len(self._begun)
        return i

    def _key(self, i: int) -> tuple[int, int, int, int]:
        if i in self._gathers:
            return (0 if len(self._held) < AHEAD else 3), 0, 0, i
        if i in self._exchanges:
            return 1, 0, 0, i
        return 2, 1 + self._awaited(i), self._deadline[i], i

    def _lean_key(self, i: int) -> tuple[int, int, int, int]:
        """Results of sums are read at once, and parameters are gathered when nothing else can run."""
        if i in self._gathers:
            return 3, 0, 0, i
        return int(i not in self._exchanges and self._awaited(i) < 0), 0, self._deadline[i], i

    def _awaited(self, i: int) -> int:
        """The number of the last sum that a group waits for, -1 where there is none."""
        return max((self._begun.get(j, -1) for j in self._needs[i]), default=-1)
