"""The plans of a stage within its memory: values of forward sweeps that do not fit are computed again.

    forward 0   h1 h2 h3 h4        kept for the backward sweep: h2, h4
    backward 0  h1 and h3 again, dh4 dh3 dh2 dh1

A stage keeps the values of several micro-batches, and works on one of them. So the cheapest values for their bytes are
left out first, for all micro-batches. All pieces have one arena for values between their kernels. Where it is too
large, the plan of a piece computes values again as that of one worker does (`planning/recompute.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import slangrad as spy
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.errors import MemoryLimitError
from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import Node, content, new_input, substituted, topological_order
from slangrad.graph.lowering.choose import Choose
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.sharding.buckets import chained, in_buckets
from slangrad.graph.workers.stages.layers import seconds_of
from slangrad.graph.workers.stages.order import StageSchedule
from slangrad.graph.workers.stages.pieces import MICROBATCH, Key, StagePieces

NAMES = re.compile(r" name=\w+")  # of inputs, which equal pieces may have others of
PieceText = tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]
PARTS = 4  # of the values that are left out, all of which are tried


class PieceGraph:
    """The graph of a piece by itself. `arguments`: the nodes whose values it takes, as `inputs`. `small`: as of
    `in_buckets`."""

    def __init__(self, pieces: StagePieces, key: Key, small: int) -> None:
        piece = pieces.pieces[key]
        unread = [node for node in piece.places.values() if node not in piece.boundary]
        self.arguments = [*piece.boundary, *unread]
        names = {node: new_input(node.shape, node.dtype) for node in piece.boundary if node.op != "input"}
        self.outputs = chained(in_buckets(substituted(list(piece.targets), names), small))
        self.inputs = [names.get(node, node) for node in self.arguments]
        pairs = zip(self.outputs, piece.targets, strict=True)
        self.places = {output: piece.places[node] for output, node in pairs if node in piece.places}
        is_repeated = key.part == MICROBATCH
        fixed = zip(self.arguments, self.inputs, strict=True)
        self.fixed = [x for node, x in fixed if is_repeated and pieces.is_fixed(node)]

    @cached_property
    def text(self) -> str:
        """The same for equal pieces."""
        return NAMES.sub("", content(*self.outputs))

    @cached_property
    def key(self) -> PieceText:
        """The same for pieces that one plan could serve: of equal text, fixed inputs and places."""
        order = topological_order(*self.outputs)
        at = {node: i for i, node in enumerate(order)}
        fixed = tuple(i for i, node in enumerate(order) if node in self.fixed)
        return self.text, fixed, tuple((at[output], at.get(x, -1)) for output, x in self.places.items())


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans of pieces. `layouts`: how inputs lie in memory; `small`: as of `PieceGraph`. `memory`: bytes of a
    worker, and `held` those of them that are there at all times, by stages. `plans`: those that are made, by
    their graphs and memory. `runs`: plans are run, so that each piece has one of its own."""

    device: spy.Device
    layouts: Mapping[Node, StridedLayout]
    choose: Choose | None
    small: int
    microbatches: int
    memory: int | None
    held: Sequence[int]
    plans: dict[tuple[PieceText, int | None, int], Plan]
    runs: bool = True

    def plan(self, graph: PieceGraph, memory: int | None = None, held: int = 0) -> Plan:
        """`memory`: bytes of the plan, and those that are `held` anyway."""
        key = graph.key, memory, held
        if self.runs or key not in self.plans:
            self.plans[key] = self._made(graph, memory, held)
        return self.plans[key]

    def _made(self, graph: PieceGraph, memory: int | None, held: int) -> Plan:
        layouts = {node: at for node, at in self.layouts.items() if node in graph.inputs}
        fixed = graph.fixed if memory is None else ()
        options = PlanOptions(
            layouts, in_place=graph.places, fixed=fixed, memory=memory, held=held, choose=self.choose
        )
        return Plan(graph.outputs, graph.inputs, self.device, options)


@dataclass(frozen=True, slots=True)
class FittedStage:
    """The `pieces` of all stages, in which this one reads what it keeps, its turns and plans. `needed`: bytes of a
    worker. Where these are too many, `plans` is None, and `needed` would be enough."""

    pieces: StagePieces
    program: StageSchedule
    graphs: dict[Key, PieceGraph]
    plans: dict[Key, Plan] | None
    needed: int

    @property
    def arena(self) -> int:
        """Bytes for the arena of all plans."""
        return max((plan.arena_bytes for plan in (self.plans or {}).values()), default=0)


def fitted_stage(pieces: StagePieces, stage: int, planner: Planner) -> FittedStage:
    """The stage with all values, where they fit into the memory. Else with the fewest values computed again that fit,
    of the numbers that are tried."""
    whole = _planned(pieces, stage, planner)
    if planner.memory is None or whole.needed <= planner.memory:
        return whole
    keys = [key for key in whole.program.keys if key.part == MICROBATCH]
    order = _Drops(pieces, keys).order
    kept = [frozenset(order[count:]) for count in range(len(order) + 1)]

    def waiting(count: int) -> int:
        """Bytes beside the arena."""
        keeping = pieces.keeping({stage: kept[count]})
        return planner.held[stage] + StageSchedule(keeping, stage, planner.microbatches).most_alive()

    enough = planner.memory - whole.arena
    first = bisect_left(range(len(order)), True, key=lambda count: waiting(count) <= enough)
    parts = [len(order) * part // PARTS for part in range(PARTS + 1)]
    tried = []
    for count in sorted({first, *parts}):
        fitted = _planned(pieces.keeping({stage: kept[count]}), stage, planner, planner.memory)
        if fitted.plans is not None:
            return fitted
        tried += [fitted] if count in parts else []  # those that are tried with any limit
    return replace(min(whole, *tried, key=lambda fitted: fitted.needed), plans=None)


def _planned(pieces: StagePieces, stage: int, planner: Planner, memory: int | None = None) -> FittedStage:
    """`memory`: bytes of a worker."""
    program = StageSchedule(pieces, stage, planner.microbatches)
    beside = planner.held[stage] + program.most_alive()
    graphs = {key: PieceGraph(pieces, key, planner.small) for key in program.keys}
    free = None if memory is None else max(0, memory - beside)
    plans, apart, least = _planned_together(graphs, planner, free)
    arena = max((plan.arena_bytes for plan in plans.values()), default=0)
    needed = beside + max(least, arena + apart)
    is_short = memory is not None and needed > memory
    return FittedStage(pieces, program, graphs, None if is_short else plans, needed)


def _planned_together(
    graphs: Mapping[Key, PieceGraph], planner: Planner, memory: int | None
) -> tuple[dict[Key, Plan], int, int]:
    """Plans that share an arena, as far as they fit into `memory` bytes; those that they hold `apart` of it; the least
    bytes for those that do not fit.

    A plan does not fit beside what others hold apart, such as the bodies of their loops. Plans say how much that is.
    So where there is some, all are made once more."""
    apart = dict.fromkeys(graphs, 0)
    while True:
        plans, least, total, before = dict[Key, Plan](), 0, sum(apart.values()), dict(apart)
        for key, graph in graphs.items():
            others = total - before[key]
            try:
                plans[key] = planner.plan(graph, memory, others)
                apart[key] = plans[key].peak - plans[key].arena_bytes
            except MemoryLimitError as error:
                apart[key] = error.held - others
                least = max(least, error.least)
        if memory is None or apart == before:
            return plans, sum(apart.values()), least


class _Drops:
    """The values that pieces of a stage read of its earlier ones, in the order in which they are best computed again:
    with few seconds for their bytes. A value is computed from the nearest values that are there."""

    def __init__(self, pieces: StagePieces, keys: Sequence[Key]) -> None:
        self._pieces, self._keys, self._machine = pieces, keys, MachineRates()
        reads = {key: pieces.pieces[key].boundary for key in keys}
        self._kept = {node: None for key in keys for node in reads[key] if pieces.is_own(node, key)}
        self._waiting = {node for key in keys if key.level >= pieces.stages for node in reads[key]}
        self._again: set[Node] = set()

    @property
    def order(self) -> list[Node]:
        order: list[Node] = []
        heap = [(self._cost(node), node.number, node) for node in self._kept]
        heapify(heap)
        while heap:
            _, number, node = heappop(heap)
            cost = self._cost(node)  # more than before, where values that it is computed from are gone
            if heap and cost > heap[0][0]:
                heappush(heap, (cost, number, node))
                continue
            order.append(node)
            del self._kept[node]
            again, entering = self._from(node)
            self._again.update(again)
            self._waiting.update(entering)
        return order

    def _cost(self, node: Node) -> float:
        """Seconds for each byte that is saved."""
        again, entering = self._from(node)
        seconds = sum(seconds_of(x, self._machine) for x in again if x not in self._again)
        saved = node.nbytes - sum(x.nbytes for x in entering if x not in self._waiting)
        return (seconds + self._machine.launch) / max(saved, 1 / (1 + node.nbytes))

    def _from(self, node: Node) -> tuple[list[Node], list[Node]]:
        """The nodes that are computed again for a value, and those that enter the stage and have to wait for it."""
        again, entering, stack, seen = list[Node](), list[Node](), [node], {node}
        while stack:
            x = stack.pop()
            if x is node or self._is_between(x):
                again.append(x)
                stack += [y for y in x.inputs if y not in seen]
                seen.update(x.inputs)
            elif x not in self._kept and self._pieces.waits(x):
                entering.append(x)
        return again, entering

    def _is_between(self, node: Node) -> bool:
        if node.op == "input" or node in self._kept:
            return False
        return self._pieces.passes(node) or self._pieces.is_own(node, self._keys[0])
