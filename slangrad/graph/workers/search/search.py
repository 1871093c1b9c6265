"""`partition="auto"`: the strategies of all clusters of a graph that take the least time together, within memory.

    minimize    seconds of each strategy + seconds of the collectives between a node and those who read it
    so that     each cluster has one strategy, and what a worker holds fits

It is a linear program in whole numbers, solved by HiGHS. There is one variable for each strategy of a cluster, and
for each edge one for each pair of a held and a wanted spec. A node that is converted to one spec for several
readers counts once. In a large program, clusters with equal neighborhoods, such as those of equal layers,
share their variables. The axes of the mesh are then decided one after another, and all but the last once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import inf, prod

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import DType, Node, Shape, key_of, topological_order
from slangrad.graph.ir.ops import base_of, is_view
from slangrad.graph.planning.memory import alive
from slangrad.graph.workers.connections.costs import Links, apart_on
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import MICRO, Spec, whole
from slangrad.graph.workers.search.strategies import CutAxes, NodeCluster, NodeClusters
from slangrad.graph.workers.sharding.buckets import BYTES
from slangrad.graph.workers.sharding.moves import CollectiveSize, exchanges
from slangrad.graph.workers.sharding.partition import fixed_specs
from slangrad.graph.workers.sharding.propagate import Sharding, of_one_part, propagate
from slangrad.graph.workers.sharding.step_graph import TrainedVariable
from slangrad.graph.workers.stages.layers import ONE_STAGE, Layers

SCIPY = LazyModule("scipy.optimize")
SPARSE = LazyModule("scipy.sparse")
SOLVER = {"time_limit": 8.0, "mip_rel_gap": 1e-4}
ROUNDS = (None, 6, 3, 1, 0)  # of neighbors that make clusters different; None: no two are one
LARGEST = 20000  # pairs in a program
WAYS = 6  # to cut an operator along one axis of the mesh
LITTLE = 1e-3  # bytes that a microsecond is worth where bytes are minimized
PER_SECOND = 1e6  # the program counts microseconds
Wanted = tuple[frozenset[Spec], ...]  # by one strategy after another


@dataclass(frozen=True, slots=True)
class Resharding:
    """A node, the cluster that makes it and those that read it: `held` and, for each, `wanted` by each strategy."""

    node: Node
    maker: int
    held: tuple[Spec, ...]
    wanted: Mapping[int, Wanted]


Readers = tuple[tuple[int, Wanted], ...]  # the kinds of clusters, and the specs that they want
Merged = dict[tuple[Shape, DType, int, int, tuple[Spec, ...], Readers], tuple[Node, int]]


class Problem:
    """The costs of all assignments: of a strategy, by its number, to each cluster."""

    def __init__(
        self,
        clusters: NodeClusters,
        order: Sequence[Node],
        outputs: Mapping[Node, Spec],
        mesh: Mesh,
        links: Links,
        layers: Layers = ONE_STAGE,
    ) -> None:
        self.clusters, self._free, self._sizes = clusters.clusters, clusters.free, clusters.sizes
        self._mesh, self._links = mesh, links
        for node, spec in outputs.items():
            for strategy in self.clusters[clusters.of[node]].strategies if node in clusters.of else ():
                strategy.wants[node] = strategy.wants.get(node, frozenset()) | {spec}
        self._known: dict[object, float] = {}
        self._in_buckets: set[Node] = set()  # gradients and results
        wanted: dict[Node, dict[int, Wanted]] = {}
        for i, cluster in enumerate(self.clusters):
            for node in cluster.strategies[0].wants:
                if node in clusters.of:
                    wants = tuple(strategy.wants[node] for strategy in cluster.strategies)
                    wanted.setdefault(node, {})[i] = wants
        self.groups = []
        for node, readers in wanted.items():
            at = clusters.of[node]
            held = tuple(strategy.specs[node] for strategy in self.clusters[at].strategies)
            if any(want != {spec} for spec in held for wants in readers.values() for want in wants):
                self.groups.append(Resharding(node, at, held, readers))
            if clusters.stored.issuperset(readers.keys() - ({at} if node in outputs else set())):
                self._in_buckets.add(node)
        self.stages = [layers.stage_of.get(cluster.nodes[0], 0) for cluster in self.clusters]
        self.bytes = self._bytes(_alive(order, clusters, self.stages), clusters.of, layers)

    def _bytes(self, living: Mapping[Node, bool], at: Mapping[Node, int], layers: Layers) -> list[list[int]]:
        """The bytes that each strategy holds, and those alive at the peak. A stage has the values of as many
        micro-batches as there are stages from it on."""
        counts = [[strategy.held for strategy in cluster.strategies] for cluster in self.clusters]
        # A gradient of a micro-batch, before it is added.
        self.added = [0] * (max(self.stages, default=0) + 1)
        for node, is_sum in living.items():
            i = at[node]
            if is_sum:
                self.added[self.stages[i]] = max(self.added[self.stages[i]], node.nbytes)
            waits = 1 if is_sum else min(layers.microbatches, layers.stages - self.stages[i])
            for k, strategy in enumerate(self.clusters[i].strategies):
                size = strategy.specs[node].size(node.shape, self._sizes)
                counts[i][k] += waits * size * node.dtype.itemsize
        return counts

    def moved(self, node: Node, held: Spec, wanted: Spec) -> float:
        """The seconds of the collectives between two specs, for all micro-batches; infinite where there is no way."""
        key = node.shape, node.dtype, held, wanted, node in self._in_buckets
        if key not in self._known:
            collectives = exchanges(*key[:-1], self._sizes)
            is_way = set(wanted.partial) <= set(held.partial)
            times = self._sizes[MICRO] if MICRO in held.used & wanted.used else 1
            seconds = sum(self._seconds(size, key[-1]) for size in collectives) if is_way else inf
            self._known[key] = times * seconds
        return self._known[key]

    def _seconds(self, size: CollectiveSize, in_buckets: bool) -> float:
        """Sums in buckets share the time to begin one. A gather or an all-to-all is counted alone, since it may be the
        only one of its bucket. Micro-batches are added where they are."""
        if size.over == MICRO:
            return 0.0 if size.name == "all_reduce" else inf
        workers, apart = self._mesh.cuts[size.over], apart_on(self._mesh, size.over)
        seconds = self._links.seconds(size.name, workers, size.nbytes, apart)
        if not in_buckets or size.name != "all_reduce":
            return seconds
        return seconds - max(0.0, 1 - size.nbytes / BYTES) * self._links.seconds(size.name, workers, 0, apart)

    def seconds(self, picked: Sequence[int]) -> float:
        """The seconds of an assignment."""
        total = sum(cluster.strategies[k].seconds for cluster, k in zip(self.clusters, picked, strict=True))
        for group in self.groups:
            held = group.held[picked[group.maker]]
            total += sum(self.moved(group.node, held, want) for want in self._converted(group, picked))
        return total

    def _converted(self, group: Resharding, picked: Sequence[int]) -> frozenset[Spec]:
        """The specs in which the readers of a node want it."""
        return frozenset().union(*(wanted[picked[i]] for i, wanted in group.wanted.items()))

    def used(self, picked: Sequence[int]) -> list[int]:
        """The bytes of a worker of each stage: a bound."""
        counts = self._of_stages(sizes[k] for sizes, k in zip(self.bytes, picked, strict=True))
        for group in self.groups:
            for want in self._converted(group, picked):
                counts[self.stages[group.maker]] += self.kept(
                    group.node, group.held[picked[group.maker]], want
                )
        return counts

    def kept(self, node: Node, held: Spec, wanted: Spec) -> int:
        """The bytes of values that are converted once for all micro-batches: they stay while these run. Parts that
        are no rows are put in order by a copy."""
        if MICRO not in self._sizes or held == wanted or MICRO in held.used & wanted.used:
            return 0
        copies = 2 if any((*held.axes[1:], *wanted.axes[1:])) else 1
        return copies * wanted.size(node.shape, self._sizes) * node.dtype.itemsize

    def sharding(self, picked: Sequence[int]) -> Sharding:
        """The specs of an assignment, and the choices that lead to them."""
        sharding = Sharding(
            {node: whole(len(node.shape)) for node in self._free}, {node: {} for node in self._free}
        )
        for cluster, k in zip(self.clusters, picked, strict=True):
            sharding.specs.update(cluster.strategies[k].specs)
            sharding.choices.update(cluster.strategies[k].choices)
        return sharding

    # --- solving

    def solved(self, limit: int | None) -> list[int]:
        """The best assignment. Where not all values can be kept within the limit, one of the least memory."""
        picked = self._best(limit)
        if picked is None:
            picked = self._best(None, least=True)
        return picked or [0] * len(self.clusters)  # the first cuts nothing

    def held(self, picked: Sequence[int]) -> list[int]:
        """The bytes of a worker of each stage between steps."""
        return self._of_stages(
            cluster.strategies[k].held for cluster, k in zip(self.clusters, picked, strict=True)
        )

    def _of_stages(self, counts: Iterable[int]) -> list[int]:
        totals = [0] * (max(self.stages, default=0) + 1)
        for stage, count in zip(self.stages, counts, strict=True):
            totals[stage] += count
        return totals

    def _best(self, limit: int | None, least: bool = False) -> list[int] | None:
        """The assignment by the finest program that is small enough and solved in time. None where there is none."""
        for rounds in ROUNDS:
            kinds = kinds_of(self, rounds)
            groups = _merged(self.groups, kinds, self.stages)
            pairs = sum(len({*held}) * len({*wants}) for *_, held, readers in groups for _, wants in readers)
            if pairs <= LARGEST or rounds == ROUNDS[-1]:
                program = LinearProgram(self, kinds, groups, least)
                solution = program.solved(limit)
                if solution is not None:
                    return [solution[kind] for kind in kinds]
                if program.is_infeasible:
                    break
        return None


def kinds_of(problem: Problem, rounds: int | None) -> list[int]:
    """A number for each cluster. Clusters have the same number where they and their neighbors do the same."""
    if rounds is None:
        return list(range(len(problem.clusters)))
    kinds = _numbered([_content(cluster) for cluster in problem.clusters])
    for _ in range(rounds):
        near: list[list[tuple[int, int]]] = [[] for _ in kinds]
        for group in problem.groups:
            for i in group.wanted:
                near[group.maker].append((0, kinds[i]))
                near[i].append((1, kinds[group.maker]))
        kinds = _numbered([(kind, tuple(sorted(around))) for kind, around in zip(kinds, near, strict=True)])
    return kinds


def _numbered(keys: Iterable[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _content(cluster: NodeCluster) -> object:
    """The key of a cluster's strategies."""
    at = {node: i for i, node in enumerate(cluster.nodes)}
    nodes = tuple(
        (
            node.op,
            node.shape,
            node.dtype,
            () if node.op == "input" else key_of(node.attributes),
            tuple((at.get(x, -1), x.shape, x.dtype) for x in node.inputs),
        )
        for node in cluster.nodes
    )
    return nodes, tuple(s.specs[cluster.nodes[0]] for s in cluster.strategies), len(cluster.strategies)


Columns = list[int]


class LinearProgram:
    """Rows and columns of the linear program. `kinds`: for each cluster the number of its variables; `groups`:
    those of the problem, equal ones merged. `least`: bytes are minimized instead of seconds."""

    def __init__(self, problem: Problem, kinds: Sequence[int], groups: Merged, least: bool = False) -> None:
        self.is_infeasible = False
        self._costs: list[float] = []
        self._most: list[float] = []
        self._rows: list[tuple[Columns, list[float], float, float]] = []
        self._first: list[int] = []  # the column of the first strategy of each kind
        self._weigh, self._size, self._added = problem.moved, problem.kept, problem.added
        # For each stage the columns that take memory of a worker.
        self._bytes = [defaultdict[int, float](float) for _ in range(max(problem.stages, default=0) + 1)]
        for i, kind in enumerate(kinds):
            strategies = problem.clusters[i].strategies
            if kind == len(self._first):
                self._first.append(len(self._costs))
                chosen = self._columns(len(strategies), 1.0)
                self._rows.append((chosen, [1.0] * len(chosen), 1.0, 1.0))
            for k, (strategy, size) in enumerate(zip(strategies, problem.bytes[i], strict=True)):
                self._bytes[problem.stages[i]][self._first[kind] + k] += size
                self._costs[self._first[kind] + k] += PER_SECOND * strategy.seconds
        self._whole = len(self._costs)
        for (_, _, stage, maker, held, readers), (node, count) in groups.items():
            self._group(node, count, stage, maker, held, readers)
        if least:
            self._costs = [LITTLE * cost for cost in self._costs]
            for column, total in (entry for sizes in self._bytes for entry in sizes.items()):
                self._costs[column] += total

    def _columns(self, count: int, most: float = np.inf) -> Columns:
        start = len(self._costs)
        self._costs += [0.0] * count
        self._most += [most] * count
        return list(range(start, start + count))

    def _group(
        self,
        node: Node,
        count: int,
        stage: int,
        maker: int,
        held: Sequence[Spec],
        readers: Iterable[tuple[int, Wanted]],
    ) -> None:
        """The seconds and bytes of conversions, each once for all readers."""
        seconds = {
            (have, want): self._weigh(node, have, want)
            for have in dict.fromkeys(held)
            for want in dict.fromkeys(want for _, wanted in readers for wants in wanted for want in wants)
        }
        if not any(seconds.values()):
            return
        converts = [self._converts(maker, held, *reader) for reader in readers]
        for pair, cost in seconds.items():
            columns = [chosen for reader in converts if (chosen := reader.get(pair))]
            if cost == inf:
                for column in {column for group in columns for column in group}:
                    self._most[column] = 0.0
            elif cost and columns:
                (paid,) = columns if len(columns) == 1 else [self._any(columns)]
                for column in paid:
                    self._costs[column] += PER_SECOND * count * cost
                    self._bytes[stage][column] += count * self._size(node, *pair)

    def _any(self, columns: Sequence[Columns]) -> Columns:
        """A variable that is 1 where any of the sums is 1."""
        (flag,) = self._columns(1)
        for summed in columns:
            self._rows.append(([flag, *summed], [1.0] + [-1.0] * len(summed), 0.0, np.inf))
        return [flag]

    def _converts(
        self, maker: int, held: Sequence[Spec], reader: int, wanted: Wanted
    ) -> dict[tuple[Spec, Spec], Columns]:
        """For each pair of specs the variables whose sum says whether a reader needs this conversion."""
        by_pair: dict[tuple[Spec, Spec], Columns] = {}
        first, other = self._first[maker], self._first[reader]
        if maker == reader:
            pairs = [((have, want), first + i) for i, have in enumerate(held) for want in wanted[i]]
        elif len(set(held)) == 1:
            pairs = [((held[0], want), other + k) for k, wants in enumerate(wanted) for want in wants]
        elif len(set(wanted)) == 1:
            pairs = [((have, want), first + i) for i, have in enumerate(held) for want in wanted[0]]
        else:
            both = self._pairs(first, held, other, wanted)
            pairs = [((have, want), column) for (have, wants), column in both.items() for want in wants]
        for pair, column in pairs:
            by_pair.setdefault(pair, []).append(column)
        return by_pair

    def _pairs(
        self, first: int, held: Sequence[Spec], other: int, wanted: Wanted
    ) -> dict[tuple[Spec, frozenset[Spec]], int]:
        """A variable for each pair of what is held and what is wanted; sums over one side are those of strategies."""
        rows, columns = list(dict.fromkeys(held)), list(dict.fromkeys(wanted))
        fresh = iter(self._columns(len(rows) * len(columns)))
        by_pair = {(have, wants): next(fresh) for have in rows for wants in columns}
        for side, start, values in ((0, first, held), (1, other, wanted)):
            for value in dict.fromkeys(values):
                pairs = [column for pair, column in by_pair.items() if pair[side] == value]
                strategies = [start + i for i, spec in enumerate(values) if spec == value]
                signs = [1.0] * len(pairs) + [-1.0] * len(strategies)
                self._rows.append(([*pairs, *strategies], signs, 0.0, 0.0))
        return by_pair

    def solved(self, limit: int | None) -> list[int] | None:
        """For each kind the number of its strategy; None where there is none, or time is out."""
        if limit is not None:
            for sizes, added in zip(self._bytes, self._added, strict=True):
                scale = 1.0 / max(1, limit - added)
                if sizes:
                    self._rows.append(([*sizes], [scale * size for size in sizes.values()], 0.0, 1.0))
        columns, values, low, high = zip(*self._rows, strict=True)
        starts = np.cumsum([0, *map(len, columns)])
        matrix = SPARSE.csr_array(
            (np.concatenate(values), np.concatenate(columns), starts), (len(columns), len(self._costs))
        )
        integrality = np.arange(len(self._costs)) < self._whole
        result = SCIPY.milp(
            np.array(self._costs),
            constraints=SCIPY.LinearConstraint(matrix, low, high),
            integrality=integrality.astype(int),
            bounds=SCIPY.Bounds(0, self._most),
            options=SOLVER,
        )
        self.is_infeasible = result.status == 2
        if result.x is None:
            return None
        ends = [*self._first[1:], self._whole]
        return [int(result.x[start:end].argmax()) for start, end in zip(self._first, ends, strict=True)]


def _merged(groups: Sequence[Resharding], kinds: Sequence[int], stages: Sequence[int]) -> Merged:
    """One of each set of equal groups, with their number."""
    merged: Merged = {}
    for group in groups:
        readers = tuple(dict.fromkeys((kinds[i], wanted) for i, wanted in group.wanted.items()))
        maker = group.maker
        key = group.node.shape, group.node.dtype, stages[maker], kinds[maker], group.held, readers
        node, count = merged.get(key, (group.node, 0))
        merged[key] = node, count + 1
    return merged


def _alive(order: Sequence[Node], clusters: NodeClusters, stages: Sequence[int]) -> dict[Node, bool]:
    """The values of each stage that are alive at its peak, and whether they are added over micro-batches."""
    last: dict[Node, int] = {}
    places = {node: i for i, node in enumerate(order)}
    sums = set[Node]()
    for i, node in enumerate(order):
        for x in node.inputs:
            last[base_of(x)] = i
            if clusters.is_micro(x) and not clusters.is_micro(node):
                sums.add(base_of(x))
    living: dict[Node, bool] = {}
    for stage in set(stages):
        stored = {
            node: (0, len(order) - 1) if node in sums else (places[node], last.get(node, len(order) - 1))
            for node in order
            if node in clusters.of and stages[clusters.of[node]] == stage
            if node.inputs and not is_view(node) and node not in clusters.updates
        }
        now = int(np.argmax(alive(stored, len(order))))
        living |= {node: node in sums for node, (start, stop) in stored.items() if start <= now <= stop}
    return living


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The workers that a graph is cut for. `memory`: bytes of a worker, for parameters, state and values."""

    mesh: Mesh
    links: Links
    memory: int | None
    layers: Layers


def searched(
    outputs: Sequence[Node],
    input_specs: Mapping[Node, Spec],
    variables: Sequence[TrainedVariable],
    space: SearchSpace,
) -> Sharding:
    """The sharding that takes the least time, that of all stages together. `outputs`: the loss, which all workers get,
    and the updates; `input_specs`: those of inputs that are no variables. Micro-batches cut each node as specs
    propagate. All workers get the answer of the first.

    GraphError (E1047) where parameters and state do not fit. ImportError without scipy.
    """
    _require_solver()
    mesh, links, memory, layers = space.mesh, space.links, space.memory, space.layers
    order, cuts, sizes = topological_order(*outputs), mesh.cuts, dict(mesh.cuts)
    fixed = {**input_specs, **fixed_specs(order, mesh)}
    sharding, rows = None, 0
    if layers.microbatches > 1:
        sizes[MICRO] = layers.microbatches
        rows = sum(
            spec.without(MICRO).size(x.shape, cuts) * x.dtype.itemsize for x, spec in input_specs.items()
        )
        sharding = _of_microbatches(order, fixed, sizes)
    together = len(order) * WAYS ** len(cuts) <= LARGEST
    turns = [list(cuts)] if together else [[name] for name in (*cuts, *list(cuts)[:-1])]
    for i, names in enumerate(turns):
        axes = CutAxes(sizes, names, sharding)
        clusters = NodeClusters(order, fixed, variables, axes, links.machine)
        problem = Problem(clusters, order, {outputs[0]: whole(0)}, mesh, links, layers)
        # Axes that are still whole will cut what is too large now.
        later = prod(cuts[name] for turn in turns[i + 1 : len(cuts)] for name in turn)
        # Links are measured, and time may be out, on each worker differently.
        limit = None if memory is None else (memory - rows) * later
        picked = mesh.of_first(partial(problem.solved, limit), len(problem.clusters))
        sharding = problem.sharding(picked)
    held, used = max(zip(problem.held(picked), problem.used(picked), strict=True))
    if memory is not None and held > memory:
        message = (
            f"parameters and the optimizer's state take {held} bytes of a worker, and there are {memory}"
        )
        raise GraphError("E1047", message, f"values take up to {used - held} more; more workers help")
    return sharding or Sharding({}, {})


def _of_microbatches(order: Sequence[Node], fixed: dict[Node, Spec], sizes: Mapping[str, int]) -> Sharding:
    """How micro-batches cut each node; they cut those in `fixed`, too, that the program cuts."""
    names = sizes.keys() - {MICRO}
    micro = {node: reduce(Spec.without, names, spec) for node, spec in fixed.items()}
    sharding = propagate(order, micro, {MICRO: sizes[MICRO]})
    for node, spec in fixed.items():
        fixed[node] = of_one_part(node, spec, [sharding.specs[x] for x in node.inputs], sizes)
    return sharding


def _require_solver() -> None:
    """ImportError on each worker, so that none waits for the first in vain."""
    try:
        SCIPY.milp  # noqa: B018
    except ImportError as error:
        raise ImportError("partition='auto' needs scipy: pip install 'slangrad[scipy]'") from error
