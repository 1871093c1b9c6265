"""`partition="auto"`: the strategies of all clusters of a graph that take the least time together, within memory.

    minimize    seconds of each strategy + seconds of the collectives between a node and those who read it
    so that     each cluster has one strategy, and what a worker holds fits

It is a linear program in whole numbers, solved by HiGHS: one variable for each strategy of a cluster, and for each edge
one for each pair of the spec that is held and those that are wanted. A node that is converted to one spec for several
readers is paid for once. Where the program is large, clusters with equal neighborhoods, such as those of equal layers,
share their variables; and the axes of the mesh are chosen for one after another, and all but the last once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from slangrad.base.late import Late
from slangrad.graph.errors import GraphError
from slangrad.graph.memory import alive
from slangrad.graph.node import Node, topological_order
from slangrad.graph.ops import base_of, is_view
from slangrad.graph.workers.buckets import BYTES
from slangrad.graph.workers.costs import Links, apart_on
from slangrad.graph.workers.mesh import Mesh
from slangrad.graph.workers.moves import Exchange, exchanges
from slangrad.graph.workers.partition import fixed_specs
from slangrad.graph.workers.propagate import Sharding
from slangrad.graph.workers.specs import Spec, whole
from slangrad.graph.workers.strategies import Cluster, Clusters, Variable

SCIPY = Late("scipy.optimize")
SPARSE = Late("scipy.sparse")
SOLVER = {"time_limit": 8.0, "mip_rel_gap": 1e-4}
ROUNDS = (None, 6, 3, 1, 0)  # of neighbors that make clusters different; None: no two are one
LARGEST = 20000  # pairs in a program
WAYS = 6  # to cut an operator along one axis of the mesh
LITTLE = 1e-3  # bytes that a microsecond is worth where bytes are minimized
MICRO = 1e6  # the program counts microseconds
Wanted = tuple[frozenset[Spec], ...]  # by one strategy after another


@dataclass(frozen=True, slots=True)
class Group:
    """A node, the cluster that makes it and those that read it: `held` and, for each, `wanted` by each strategy."""

    node: Node
    maker: int
    held: tuple[Spec, ...]
    wanted: Mapping[int, Wanted]


class Problem:
    """The costs of all assignments: of a strategy, by its number, to each cluster."""

    def __init__(
        self,
        clusters: Clusters,
        order: Sequence[Node],
        outputs: Mapping[Node, Spec],
        mesh: Mesh,
        links: Links,
    ) -> None:
        self.clusters, self._free = clusters.clusters, clusters.free
        self._mesh, self._links = mesh, links
        for node, spec in outputs.items():
            for each in self.clusters[clusters.of[node]].strategies if node in clusters.of else ():
                each.wants[node] = each.wants.get(node, frozenset()) | {spec}
        self._known: dict[Any, float] = {}
        self._in_buckets: set[Node] = set()  # gradients and results
        wanted: dict[Node, dict[int, Wanted]] = {}
        for i, cluster in enumerate(self.clusters):
            for node in cluster.strategies[0].wants:
                if node in clusters.of:
                    wants = tuple(each.wants[node] for each in cluster.strategies)
                    wanted.setdefault(node, {})[i] = wants
        self.groups = []
        for node, readers in wanted.items():
            at = clusters.of[node]
            held = tuple(each.specs[node] for each in self.clusters[at].strategies)
            if any(want != {spec} for spec in held for wants in readers.values() for want in wants):
                self.groups.append(Group(node, at, held, readers))
            if clusters.stored.issuperset(readers.keys() - ({at} if node in outputs else set())):
                self._in_buckets.add(node)
        self.bytes = self._bytes(_alive(order, clusters))

    def _bytes(self, living: Iterable[Node]) -> list[list[int]]:
        """What each strategy holds, and what of it is alive when most is."""
        found = [[each.held for each in cluster.strategies] for cluster in self.clusters]
        at = {node: i for i, cluster in enumerate(self.clusters) for node in cluster.nodes}
        for node in living:
            for k, each in enumerate(self.clusters[at[node]].strategies):
                size = each.specs[node].size(node.shape, self._mesh.cuts)
                found[at[node]][k] += size * node.dtype.itemsize
        return found

    def moved(self, node: Node, held: Spec, wanted: Spec) -> float:
        """The seconds of the collectives between two specs; infinite where there is no way."""
        key = node.shape, node.dtype, held, wanted, node in self._in_buckets
        if key not in self._known:
            found = exchanges(*key[:-1], self._mesh.cuts)
            is_way = set(wanted.partial) <= set(held.partial)
            self._known[key] = sum(self._seconds(each, key[-1]) for each in found) if is_way else inf
        return self._known[key]

    def _seconds(self, each: Exchange, in_buckets: bool) -> float:
        """Sums in buckets share the time that a collective takes to begin."""
        workers, apart = self._mesh.cuts[each.over], apart_on(self._mesh, each.over)
        seconds = self._links.seconds(each.name, workers, each.nbytes, apart)
        if not in_buckets or each.name != "all_reduce":
            return seconds
        return seconds - max(0.0, 1 - each.nbytes / BYTES) * self._links.seconds(each.name, workers, 0, apart)

    def seconds(self, picked: Sequence[int]) -> float:
        """Of an assignment."""
        total = sum(each.strategies[k].seconds for each, k in zip(self.clusters, picked, strict=True))
        for group in self.groups:
            held = group.held[picked[group.maker]]
            wants = frozenset().union(*(wanted[picked[i]] for i, wanted in group.wanted.items()))
            total += sum(self.moved(group.node, held, each) for each in wants)
        return total

    def used(self, picked: Sequence[int]) -> int:
        """The bytes of one worker: a bound."""
        return sum(each[k] for each, k in zip(self.bytes, picked, strict=True))

    def sharding(self, picked: Sequence[int]) -> Sharding:
        """The specs of an assignment, and the choices that lead to them."""
        made = Sharding(
            {node: whole(len(node.shape)) for node in self._free}, {node: {} for node in self._free}
        )
        for cluster, k in zip(self.clusters, picked, strict=True):
            made.specs.update(cluster.strategies[k].specs)
            made.choices.update(cluster.strategies[k].choices)
        return made

    # --- solving

    def solved(self, limit: int | None) -> list[int]:
        """The best assignment. Where not all values can be kept within the limit, one of the least memory."""
        found = self._best(limit)
        if found is None:
            found = self._best(None, least=True)
        return found or [0] * len(self.clusters)  # the first cuts nothing

    def held(self, picked: Sequence[int]) -> int:
        """The bytes of one worker between steps."""
        return sum(each.strategies[k].held for each, k in zip(self.clusters, picked, strict=True))

    def _best(self, limit: int | None, least: bool = False) -> list[int] | None:
        """By the finest program that is small enough, and solved in time. None where there is no assignment."""
        for rounds in ROUNDS:
            kinds = kinds_of(self, rounds)
            groups = _merged(self.groups, kinds)
            pairs = sum(len({*held}) * len({*wants}) for *_, held, readers in groups for _, wants in readers)
            if pairs <= LARGEST or rounds == ROUNDS[-1]:
                program = Program(self, kinds, groups, least)
                found = program.solved(limit)
                if found is not None:
                    return [found[kind] for kind in kinds]
                if program.is_infeasible:
                    break
        return None


def kinds_of(problem: Problem, rounds: int | None) -> list[int]:
    """For each cluster a number: the same where it does the same as another, and so do its neighbors."""
    if rounds is None:
        return list(range(len(problem.clusters)))
    kinds = _numbered([_content(each) for each in problem.clusters])
    for _ in range(rounds):
        near: list[list[tuple[int, int]]] = [[] for _ in kinds]
        for group in problem.groups:
            for i in group.wanted:
                near[group.maker].append((0, kinds[i]))
                near[i].append((1, kinds[group.maker]))
        kinds = _numbered([(kind, tuple(sorted(each))) for kind, each in zip(kinds, near, strict=True)])
    return kinds


def _numbered(keys: Iterable[Any]) -> list[int]:
    known: dict[Any, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def _content(cluster: Cluster) -> Any:
    """All that strategies follow from."""
    at = {node: i for i, node in enumerate(cluster.nodes)}
    nodes = tuple(
        (
            node.op,
            node.shape,
            node.dtype,
            () if node.op == "input" else tuple(sorted(node.attributes.items())),
            tuple((at.get(x, -1), x.shape, x.dtype) for x in node.inputs),
        )
        for node in cluster.nodes
    )
    return nodes, tuple(each.specs[cluster.nodes[0]] for each in cluster.strategies), len(cluster.strategies)


Columns = list[int]


class Program:
    """Rows and columns of the linear program. `kinds`: for each cluster the number of its variables; `groups`: those of
    the problem, equal ones merged. `least`: bytes are minimized instead of seconds."""

    def __init__(
        self, problem: Problem, kinds: Sequence[int], groups: Mapping[Any, Any], least: bool = False
    ) -> None:
        self.is_infeasible = False
        self._costs: list[float] = []
        self._most: list[float] = []
        self._rows: list[tuple[Columns, list[float], float, float]] = []
        self._first: list[int] = []  # the column of the first strategy of each kind
        self._weigh = problem.moved
        bytes_of: list[float] = []
        for i, kind in enumerate(kinds):
            strategies = problem.clusters[i].strategies
            if kind == len(self._first):
                self._first.append(len(self._costs))
                chosen = self._columns(len(strategies), 1.0)
                bytes_of += [0.0] * len(strategies)
                self._rows.append((chosen, [1.0] * len(chosen), 1.0, 1.0))
            for k, (each, size) in enumerate(zip(strategies, problem.bytes[i], strict=True)):
                bytes_of[self._first[kind] + k] += size
                self._costs[self._first[kind] + k] += MICRO * each.seconds
        self._bytes = bytes_of
        self._whole = len(self._costs)
        for (_, _, maker, held, readers), (node, count) in groups.items():
            self._group(node, count, maker, held, readers)
        if least:
            self._costs = [LITTLE * each for each in self._costs]
            for column, total in enumerate(bytes_of):
                self._costs[column] += total

    def _columns(self, count: int, most: float = np.inf) -> Columns:
        start = len(self._costs)
        self._costs += [0.0] * count
        self._most += [most] * count
        return list(range(start, start + count))

    def _group(
        self, node: Node, count: int, maker: int, held: Sequence[Spec], readers: Iterable[tuple[int, Wanted]]
    ) -> None:
        """The seconds of conversions, each once for all readers."""
        seconds = {
            (have, want): self._weigh(node, have, want)
            for have in dict.fromkeys(held)
            for want in dict.fromkeys(each for _, wanted in readers for wants in wanted for each in wants)
        }
        if not any(seconds.values()):
            return
        converts = [self._converts(maker, held, *reader) for reader in readers]
        for pair, cost in seconds.items():
            columns = [found for each in converts if (found := each.get(pair))]
            if cost == inf:
                for column in {column for each in columns for column in each}:
                    self._most[column] = 0.0
            elif cost and columns:
                (paid,) = columns if len(columns) == 1 else [self._any(columns)]
                for column in paid:
                    self._costs[column] += MICRO * count * cost

    def _any(self, columns: Sequence[Columns]) -> Columns:
        """A variable that is one where any of the sums is."""
        (made,) = self._columns(1)
        for each in columns:
            self._rows.append(([made, *each], [1.0] + [-1.0] * len(each), 0.0, np.inf))
        return [made]

    def _converts(
        self, maker: int, held: Sequence[Spec], reader: int, wanted: Wanted
    ) -> dict[tuple[Spec, Spec], Columns]:
        """For each pair of specs the variables whose sum says whether a reader needs this conversion."""
        found: dict[tuple[Spec, Spec], Columns] = {}
        own, other = self._first[maker], self._first[reader]
        if maker == reader:
            pairs = [((have, want), own + i) for i, have in enumerate(held) for want in wanted[i]]
        elif len(set(held)) == 1:
            pairs = [((held[0], want), other + k) for k, wants in enumerate(wanted) for want in wants]
        elif len(set(wanted)) == 1:
            pairs = [((have, want), own + i) for i, have in enumerate(held) for want in wanted[0]]
        else:
            both = self._pairs(own, held, other, wanted)
            pairs = [((have, want), column) for (have, wants), column in both.items() for want in wants]
        for pair, column in pairs:
            found.setdefault(pair, []).append(column)
        return found

    def _pairs(
        self, own: int, held: Sequence[Spec], other: int, wanted: Wanted
    ) -> dict[tuple[Spec, frozenset[Spec]], int]:
        """A variable for each pair of what is held and what is wanted; sums over one side are those of strategies."""
        rows, columns = list(dict.fromkeys(held)), list(dict.fromkeys(wanted))
        made = iter(self._columns(len(rows) * len(columns)))
        found = {(have, wants): next(made) for have in rows for wants in columns}
        for side, start, values in ((0, own, held), (1, other, wanted)):
            for value in dict.fromkeys(values):
                pairs = [column for pair, column in found.items() if pair[side] == value]
                strategies = [start + i for i, each in enumerate(values) if each == value]
                signs = [1.0] * len(pairs) + [-1.0] * len(strategies)
                self._rows.append(([*pairs, *strategies], signs, 0.0, 0.0))
        return found

    def solved(self, limit: int | None) -> list[int] | None:
        """For each kind the number of its strategy; None where there is none, or time is out."""
        if limit is not None:
            scale = 1.0 / max(1, limit)
            self._rows.append((list(range(self._whole)), [scale * each for each in self._bytes], 0.0, 1.0))
        columns, values, low, high = zip(*self._rows, strict=True)
        starts = np.cumsum([0, *map(len, columns)])
        matrix = SPARSE.csr_array(
            (np.concatenate(values), np.concatenate(columns), starts), (len(columns), len(self._costs))
        )
        integrality = np.arange(len(self._costs)) < self._whole
        made = SCIPY.milp(
            np.array(self._costs),
            constraints=SCIPY.LinearConstraint(matrix, low, high),
            integrality=integrality.astype(int),
            bounds=SCIPY.Bounds(0, self._most),
            options=SOLVER,
        )
        self.is_infeasible = made.status == 2
        if made.x is None:
            return None
        ends = [*self._first[1:], self._whole]
        return [int(made.x[start:end].argmax()) for start, end in zip(self._first, ends, strict=True)]


def _merged(groups: Sequence[Group], kinds: Sequence[int]) -> dict[Any, tuple[Node, int]]:
    """Equal groups as one, with their number."""
    found: dict[Any, tuple[Node, int]] = {}
    for group in groups:
        readers = tuple(dict.fromkeys((kinds[i], wanted) for i, wanted in group.wanted.items()))
        key = group.node.shape, group.node.dtype, kinds[group.maker], group.held, readers
        node, count = found.get(key, (group.node, 0))
        found[key] = node, count + 1
    return found


def _alive(order: Sequence[Node], clusters: Clusters) -> list[Node]:
    """The values that are alive when most bytes are."""
    last: dict[Node, int] = {}
    places = {node: i for i, node in enumerate(order)}
    for i, node in enumerate(order):
        for x in node.inputs:
            last[base_of(x)] = i
    stored = {
        node: (places[node], last.get(node, len(order) - 1))
        for node in order
        if node in clusters.of and node.inputs and not is_view(node) and node not in clusters.updates
    }
    now = int(np.argmax(alive(stored, len(order))))
    return [node for node, (start, stop) in stored.items() if start <= now <= stop]


def searched(
    outputs: Sequence[Node],
    wanted: Mapping[Node, Spec],
    given: Mapping[Node, Spec],
    variables: Sequence[Variable],
    mesh: Mesh,
    links: Links,
    memory: int | None = None,
) -> Sharding:
    """The sharding that takes the least time. `wanted`: the specs of outputs that are no updates; `given`: those of
    inputs that are no variables. `memory`: bytes of a worker, for parameters, state and values. All workers get the
    answer of the first.

    GraphError (E1047) where parameters and state do not fit. ImportError without scipy.
    """
    _require_solver()
    order, cuts = topological_order(*outputs), mesh.cuts
    fixed = {**given, **fixed_specs(order, mesh)}
    together = len(order) * WAYS ** len(cuts) <= LARGEST
    turns = [list(cuts)] if together else [[name] for name in (*cuts, *list(cuts)[:-1])]
    sharding = None
    for i, names in enumerate(turns):
        clusters = Clusters(order, fixed, variables, cuts, links.machine, sharding, names)
        problem = Problem(clusters, order, wanted, mesh, links)
        # Axes that are still whole will cut what is too large now.
        later = prod(cuts[name] for turn in turns[i + 1 : len(cuts)] for name in turn)
        # Links are measured, and time may be out, on each worker differently.
        limit = memory and memory * later
        picked = mesh.of_first(partial(problem.solved, limit), len(problem.clusters))
        sharding = problem.sharding(picked)
    held = problem.held(picked)
    if memory is not None and held > memory:
        said = f"parameters and the optimizer's state take {held} bytes of a worker, and there are {memory}"
        raise GraphError(
            "E1047", said, f"values take up to {problem.used(picked) - held} more; more workers help"
        )
    return sharding or Sharding({}, {})


def _require_solver() -> None:
    """On each worker, so that none waits for the first in vain."""
    try:
        SCIPY.milp  # noqa: B018
    except ImportError as error:
        raise ImportError("partition='auto' needs scipy: pip install 'slangrad[scipy]'") from error
