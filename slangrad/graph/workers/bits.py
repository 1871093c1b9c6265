"""The same bits for 1, 2, 4 and 8 workers: the rows of a batch are always cut into eight shards.

    8 shards on 2 workers        worker 0: shards 0 1 2 3, one after another      worker 1: shards 4 5 6 7
    sum over all                 ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))        one tree for any number of workers

Each shard is a worker of a mesh of eight. Its plans have the same shapes, and so the same kernels, whatever the number
of workers. A phase is the part of its graph between two collectives. A worker runs a phase for all its shards, then
combines their results with those of the other workers. The last phase, the update, is the same for all shards, and
runs once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

import slangrad as spy
from slangrad.graph.ir.devices import host_array, on_device
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import (
    Node,
    key_of,
    new_input,
    rebuilt,
    substituted,
    topological_order,
    with_inputs,
)
from slangrad.graph.ir.ops import is_view, kind_of
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.planning.options import PlanOptions, Settings
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import SHARD, Spec, spec_of, whole
from slangrad.graph.workers.sharding.buckets import in_buckets
from slangrad.graph.workers.sharding.partition import partitioned
from slangrad.graph.workers.sharding.step_graph import StepGraph
from slangrad.graph.workers.stages.microbatches import part_of
from slangrad.graph.workers.stages.pieces import boundary_of

SHARDS = 8
ROWS = "rows"  # the axis of the mesh of shards
COMBINED = ("all_reduce", "all_gather")  # collectives whose result all shards have
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Tree:
    """Arrays combined along one binary tree, in the order in which they come; at most log2 of them are kept."""

    def __init__(self, how: str) -> None:
        self._combine = COMBINE[how]
        self._kept: list[tuple[int, np.ndarray]] = []  # heights and arrays

    def add(self, array: np.ndarray) -> None:
        height = 0
        while self._kept and self._kept[-1][0] == height:
            array = self._combine(self._kept.pop()[1], array)
            height += 1
        self._kept.append((height, array))

    @property
    def result(self) -> np.ndarray:
        """The combination of all arrays; their number is a power of two."""
        ((_, array),) = self._kept
        return array


Joined = Tree | list[np.ndarray]  # of the shards of a worker: their sum, or one behind another


def is_collective(node: Node) -> bool:
    return node.op == "all_reduce" or kind_of(node) == "exchange"


@dataclass(slots=True)
class ShardPhase:
    """`plan` computes `targets` from `boundary`: inputs, results of collectives, and results of earlier phases.
    `ends`: the collectives after it."""

    targets: list[Node]
    boundary: list[Node]
    ends: list[Node]
    plan: Plan


class ConsistentPlan:
    """Runs the shards of this worker, by `run` as in `Plan`. `graph` and `layouts` of its inputs: of all rows."""

    def __init__(
        self,
        graph: StepGraph,
        mesh: Mesh,
        device: spy.Device,
        layouts: Mapping[Node, StridedLayout],
        **settings: Unpack[Settings],
    ) -> None:
        self._mesh, self._device = mesh, device
        self._own = SHARDS // mesh.workers
        self._batch = graph.batch
        _check(graph.outputs, graph.batch, mesh)
        bare = _without_shards(graph.outputs)
        local: dict[Node, Node] = {}
        graphs = [self._graph(bare, rank, local) for rank in self._ranks]
        other = self._graph(bare, (self._ranks[0] + 1) % SHARDS, local)
        self._inputs = [local.get(node, node) for node in graph.inputs]
        self._rows = [local[node] for node in graph.batch if node in local and node.shape]
        seen = {local[node]: at for node, at in layouts.items() if node in local}
        self._layouts = {node: at.with_shape(node.shape) for node, at in seen.items()}
        overwritten = {k: local[node] for k, node in enumerate(graph.kept.values(), 1)}
        placed = _placed(graphs[0], other)
        self._shards: list[list[ShardPhase]] = []
        for shard in graphs:
            if placed or not self._shards:
                differing = placed and _placed(shard, other if shard is graphs[0] else graphs[0])
                self._shards.append(self._phases(shard, set(differing or ()), overwritten, settings))
        self._shards *= self._own // len(self._shards)

    @property
    def plan(self) -> Plan:
        """The plan of the first phase: the loss and its gradient, of one shard."""
        return self._shards[0][0].plan

    @property
    def _ranks(self) -> range:
        start = self._mesh.rank * self._own
        return range(start, start + self._own)

    def _graph(self, outputs: Sequence[Node], rank: int, local: dict[Node, Node]) -> list[Node]:
        """The graph of one shard. `local`: its inputs, which all shards share."""
        mesh = Mesh({ROWS: SHARDS}, rank, (ROWS,))
        specs = {node: Spec(((ROWS,), *((),) * (len(node.shape) - 1))) for node in self._batch if node.shape}
        wanted = [whole(len(node.shape)) for node in outputs]
        return in_buckets(partitioned(outputs, specs, wanted, mesh, local).outputs)

    def _phases(
        self, outputs: list[Node], placed: set[Node], overwritten: Mapping[int, Node], settings: Settings
    ) -> list[ShardPhase]:
        order = topological_order(*outputs)
        level: dict[Node, int] = {}
        varies: dict[Node, bool] = {}  # whether shards have other values
        for node in order:
            level[node] = max((level[x] for x in node.inputs), default=0) + is_collective(node)
            varies[node] = node in placed or node in self._rows or any(varies[x] for x in node.inputs)
            varies[node] &= node.op not in COMBINED
        last = max(level[node] for node in outputs)
        ends = [[node for node in order if is_collective(node) and level[node] == p + 1] for p in range(last)]
        targets = [dict.fromkeys(x for node in nodes for x in node.inputs) for nodes in ends]
        targets.append(dict.fromkeys(outputs))
        phases: list[ShardPhase] = []
        for p in reversed(range(last + 1)):

            def is_given(node: Node) -> bool:
                return node.op == "input" or is_collective(node)

            def is_outside(node: Node, p: int = p) -> bool:
                return is_given(node) or (varies[node] and level[node] < p and not is_view(node))

            boundary = boundary_of(targets[p], is_outside)
            for node in boundary:
                if not is_given(node):
                    targets[level[node]][node] = None
            phases.append(
                self._phase(list(targets[p]), boundary, ends[p] if p < last else [], overwritten, settings)
            )
        return phases[::-1]

    def _phase(
        self,
        targets: list[Node],
        boundary: list[Node],
        ends: list[Node],
        overwritten: Mapping[int, Node],
        settings: Settings,
    ) -> ShardPhase:
        names = {node: new_input(node.shape, node.dtype) for node in boundary if node.op != "input"}
        outputs = substituted(targets, names)
        inputs = [names.get(node, node) for node in boundary]
        in_place = {} if ends else {outputs[i]: node for i, node in overwritten.items()}
        unread = [node for node in in_place.values() if node not in inputs]
        boundary, inputs = [*boundary, *unread], [*inputs, *unread]
        layouts = {node: at for node, at in self._layouts.items() if node in inputs}
        plan = Plan(outputs, inputs, self._device, PlanOptions(layouts, in_place=in_place, **settings))
        return ShardPhase(targets, boundary, ends, plan)

    # --- running

    def run(self, arrays: Sequence[spy.Tensor], count: int | None = None) -> list[spy.Tensor]:
        """The results, or the first `count` of them, for arguments in the order of `inputs`."""
        inputs = dict(zip(self._inputs, arrays, strict=True))
        held = [inputs | {x: part_of(inputs[x], i, self._own) for x in self._rows} for i in range(self._own)]
        for p in range(len(self._shards[0]) - 1):
            ends = self._shards[0][p].ends
            parts: list[Joined] = [
                Tree(x.attributes["collective"].how) if x.op == "all_reduce" else [] for x in ends
            ]
            for phases, values in zip(self._shards, held, strict=True):
                phase = phases[p]
                tensors = phase.plan.run([values[x] for x in phase.boundary])
                values |= dict(zip(phase.targets, tensors, strict=True))
                for node, part in zip(phase.ends, parts, strict=True):
                    _join(node, part, [host_array(values[x]) for x in node.inputs])
            for i, node in enumerate(ends):
                self._combine(p, i, node, parts[i], held)
        phase = self._shards[0][-1]
        return phase.plan.run([held[0][x] for x in phase.boundary], count)

    def _combine(self, p: int, i: int, node: Node, part: Joined, held: list[dict[Node, spy.Tensor]]) -> None:
        """The result of a collective, from the values of the shards of this worker."""
        how = node.attributes["collective"].how
        total = self._total(part.result, how) if isinstance(part, Tree) else self._all(np.stack(part))
        common = self._tensor(total.reshape(node.shape or (1,))) if node.op != "all_to_all" else None
        for phases, values, rank in zip(self._shards, held, self._ranks, strict=True):
            x = self._tensor(np.ascontiguousarray(total[:, rank])) if common is None else common
            values[phases[p].ends[i]] = x

    def _tensor(self, array: np.ndarray) -> spy.Tensor:
        return as_tensor(self._device, on_device(self._device, array))

    def _total(self, array: np.ndarray, how: str) -> np.ndarray:
        """The tree over workers: each combines a piece of the array, then gathers all pieces."""
        for name, n in reversed(self._mesh.cuts.items()):
            size = -(-array.size // n)
            sent = np.zeros((n, size), array.dtype)
            sent.reshape(-1)[: array.size] = array
            received, tree = np.empty_like(sent), Tree(how)
            self._exchanged("all_to_all", name, sent, received)
            for piece in received:
                tree.add(piece)
            self._exchanged("all_gather", name, tree.result, received)
            array = received.reshape(-1)[: array.size]
        return array

    def _all(self, arrays: np.ndarray) -> np.ndarray:
        """The arrays of the shards of all workers."""
        for name, n in reversed(self._mesh.cuts.items()):
            received = np.empty((n, *arrays.shape), arrays.dtype)
            self._exchanged("all_gather", name, arrays, received)
            arrays = received.reshape(-1, *arrays.shape[1:])
        return arrays

    def _exchanged(self, name: str, over: str, sent: np.ndarray, result: np.ndarray) -> None:
        self._mesh.link(over).start(self._mesh.collective(name, over), sent, result).wait()


def _join(node: Node, part: Joined, arrays: list[np.ndarray]) -> None:
    """Add the arrays of one more shard."""
    if isinstance(part, Tree):
        part.add(np.concatenate([array.reshape(-1) for array in arrays]))
    else:
        part.append(arrays[0].reshape(node.inputs[0].shape).copy())


def _check(outputs: Sequence[Node], batch: Sequence[Node], mesh: Mesh) -> None:
    """GraphError (E1048) where eight shards of rows do not fit."""
    subject = f"consistent='bits' on {mesh!r}"
    if SHARDS % mesh.workers:
        raise GraphError(
            "E1048", f"{subject}: the number of workers divides {SHARDS}", "1, 2, 4 or 8 workers"
        )
    cut = set(mesh.cuts) - set(mesh.batch)
    for node in topological_order(*outputs):
        cut |= spec_of(node, mesh.sizes).used if node.op == SHARD else set()
    if cut:
        raise GraphError(
            "E1048", f"{subject}: rows of the batch are cut, and nothing else", "graph.mesh('data')"
        )
    for node in batch:
        if node.shape and node.shape[0] % SHARDS:
            message = f"{subject}: {node.shape[0]} rows of all workers are no multiple of {SHARDS}"
            raise GraphError("E1048", message)


def _without_shards(outputs: Sequence[Node]) -> list[Node]:
    """The graph without `graph.shard`."""
    return rebuilt(outputs, lambda node, inputs: inputs[0] if node.op == SHARD else with_inputs(node, inputs))


def _placed(outputs: Sequence[Node], others: Sequence[Node]) -> list[Node]:
    """The nodes that depend on the number of the shard: the graph of another shard does not have them. Rules may fold
    them in one graph alone, as an offset of 0. Both graphs have the same collectives, in the same order."""
    numbers: dict[object, int] = {}
    theirs = {number for _, number in _numbered(others, numbers)}
    return [node for node, number in _numbered(outputs, numbers) if number not in theirs]


def _numbered(outputs: Sequence[Node], numbers: dict[object, int]) -> list[tuple[Node, int]]:
    """All nodes with their numbers, which are equal for nodes of one content. `numbers`: those of contents so far."""
    number_of: dict[Node, int] = {}
    combined = 0
    for node in topological_order(*outputs):
        content: object = node
        if node.op in COMBINED:  # equal on all shards, whatever it is of
            content, combined = (node.op, combined), combined + 1
        elif node.inputs:
            attributes = tuple(pair for pair in key_of(node.attributes) if pair[0] != "collective")
            inputs = tuple(number_of[x] for x in node.inputs)
            content = node.op, inputs, attributes, node.shape, node.dtype
        number_of[node] = numbers.setdefault(content, len(numbers))
    return list(number_of.items())
