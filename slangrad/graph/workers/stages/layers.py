"""Stages: the layers of a loss function in order, cut into parts of which each group of workers has one.

    x @ w1, tanh | @ w2, tanh | @ w3, tanh | @ w4, loss            stages=4

Workers of a stage keep its parameters. A batch passes the stages in micro-batches. With n of them a step
takes the seconds of all stages, and n times those of the slowest. Messages go while stages compute, so they count in
the sum, and where they alone are slowest. Dynamic programming over places before products finds the fastest cuts within
the memory. A stage whose values do not fit computes some of them again in its backward sweep, which takes up to the
seconds of its forward sweep more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

import numpy as np

from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, topological_order
from slangrad.graph.ir.ops import base_of, is_view, kind_of
from slangrad.graph.rewriting.fuse import flops_of

LEADERS = ("contract", "gather", "loop")  # kinds of operators before which a stage may begin
MOST_PLACES = 256
WORKING = (
    3  # values of the size of the largest while a piece computes: one, its gradient, a copy in another order
)
MOVING = 2  # micro-batches more than those that wait: their values are on their way to a stage or from it
FREE = (
    "source",
    "map",
    "view",
    "gather",
)  # kinds of operators that each stage computes anew from numbers and the batch


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """The layers, cut at all places: piece i is between places i and i + 1. Costs are of one micro-batch, except
    `held`."""

    seconds: np.ndarray  # of both sweeps of a piece
    held: np.ndarray  # bytes of its parameters, their gradients and state
    kept: np.ndarray  # bytes of the values that wait for the backward sweep
    crossing: np.ndarray  # seconds in which values and their gradients go over the place before a piece
    forward: np.ndarray  # seconds of the forward sweep, part of `seconds`
    enters: np.ndarray  # bytes of the values that go over the place before a piece
    largest: np.ndarray  # bytes of the largest value
    rows: float  # bytes of a worker's whole batch

    def __len__(self) -> int:
        return len(self.seconds)


def divided(
    line: LayerCosts, stages: int, microbatches: int, memory: float = inf
) -> tuple[float, list[int]] | None:
    """The seconds of a step by the model, and the first piece of each stage. None where stages do not fit into the
    memory, and where there are fewer pieces than stages."""
    n = len(line)
    if n < stages:
        return None
    sends = np.append(line.crossing, 0)[:, None]
    computes = _seconds_of_stages(line, stages, microbatches, memory)
    whole = [seconds + sends for seconds in computes]
    busy = [np.maximum(seconds, sends) for seconds in computes]  # messages go while a stage computes
    best: tuple[float, list[int]] | None = None
    slowest = np.unique(busy)
    slowest = slowest[slowest < inf]

    def within(most: float) -> tuple[float, list[int]] | None:
        costs = [np.where(slow <= most, seconds, inf) for seconds, slow in zip(whole, busy, strict=True)]
        total, starts = _cheapest(costs, np.add)
        return None if total == inf else (total, starts)

    first = bisect_left(slowest, True, key=lambda most: within(most) is not None)
    least = float(line.seconds.sum())
    for most in slowest[first:]:
        if best is not None and least + microbatches * most >= best[0]:
            break
        total, starts = within(most) or (inf, [])
        total += microbatches * most
        if best is None or total < best[0]:
            best = float(total), starts
    return best


def memory_of_stages(line: LayerCosts, stages: int, microbatches: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The bytes of a worker of each stage, for the pieces from one place to another; infinite without pieces. First
    with all values that wait. Then where only values that enter the stage wait, and the others are computed again, for
    one micro-batch at a time."""
    held, kept = (_between(column) for column in (line.held, line.kept))
    enters, n = np.append(line.enters, 0), len(line)
    working = np.zeros((n + 1, n + 1))
    for i in range(n):
        working[i, i + 1 :] = WORKING * np.maximum.accumulate(line.largest[i:])
    pairs = []
    for stage in range(stages):
        waits = min(microbatches, stages - stage)
        moving = (waits + MOVING) * (enters[:, None] + enters[None, :])
        always = np.where(_are_pieces(n), held + moving + working + line.rows, inf)
        whole = always + waits * kept
        pairs.append((whole, np.minimum(whole, always + waits * enters[:, None] + kept)))
    return pairs


def least_memory(line: LayerCosts, stages: int, microbatches: int) -> tuple[float, list[int]]:
    """The bytes of a worker with which stages fit, and the first piece of each stage then; infinite where there are
    fewer pieces."""
    return _cheapest([least for _, least in memory_of_stages(line, stages, microbatches)], np.maximum)


def _between(column: np.ndarray) -> np.ndarray:
    """The sums from one place to another."""
    sums = np.concatenate([[0], np.cumsum(column)])
    return np.asarray(sums[None, :] - sums[:, None])


def _are_pieces(count: int) -> np.ndarray:
    """Whether there are pieces from one place to another."""
    return np.asarray(np.arange(count + 1)[:, None] < np.arange(count + 1))


def _seconds_of_stages(line: LayerCosts, stages: int, microbatches: int, memory: float) -> list[np.ndarray]:
    """The seconds in which each stage computes one micro-batch, from one place to another; infinite where that does
    not fit."""
    computes, forward, seconds = _between(line.seconds), _between(line.forward), []
    for whole, least in memory_of_stages(line, stages, microbatches):
        is_short = (whole > memory) & (least <= memory)
        missing = np.where(is_short, whole, 1) - np.where(is_short, memory, 1)
        saved = np.where(is_short, whole, 2) - np.where(is_short, least, 1)
        fits = (least < inf) & (least <= memory)
        seconds.append(np.where(fits, computes + forward * (missing / saved), inf))
    return seconds


def _cheapest(
    costs: Sequence[np.ndarray], add: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[float, list[int]]:
    """The cuts with the least costs of all stages together. `costs`: of each stage, from one place to another."""
    n = len(costs[0]) - 1
    reached = np.full(n + 1, inf)
    reached[0] = 0.0
    before = []
    for cost in costs:
        sums = add(reached[:, None], cost)
        before.append(sums.argmin(0))
        reached = sums.min(0)
    starts, at = list[int](), n
    for previous in reversed(before):
        at = int(previous[at])
        starts.append(at)
    return float(reached[n]), starts[::-1]


# --- layers of a graph


@dataclass(slots=True)
class Layers:
    """The layers of a loss function. `stage_of`: nodes of both sweeps that depend on the batch or on parameters;
    `backward`: those of the backward sweep. `owners`: the stage that keeps each parameter."""

    stages: int
    microbatches: int
    stage_of: dict[Node, int]
    backward: set[Node]
    owners: list[int]

    @property
    def numbers(self) -> dict[str, object]:
        """The numbers that must be equal on all workers, by their names."""
        numbers = {"number of stages": self.stages, "number of micro-batches": self.microbatches}
        return numbers | {"stages of the parameters": self.owners}


ONE_STAGE = Layers(1, 1, {}, set(), [])


def free_nodes(order: Sequence[Node], stored: set[Node]) -> set[Node]:
    """Nodes that each stage computes by itself: sources that are not stored, and maps and views of them."""
    free: set[Node] = set()
    for node in order:
        if node not in stored and kind_of(node) in FREE and free.issuperset(node.inputs):
            free.add(node)
    return free


def depending(order: Sequence[Node], sources: set[Node]) -> set[Node]:
    """The nodes that depend on some sources, and these."""
    dependents = set(sources)
    for node in order:
        if not dependents.isdisjoint(node.inputs):
            dependents.add(node)
    return dependents


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a step."""

    stages: int
    microbatches: int
    parts: int  # times that a batch is larger than one micro-batch of one worker
    held: Sequence[int]  # bytes of a worker for each parameter, its gradient and state
    send: Callable[[float], float]  # the seconds that bytes take from one stage to the next
    machine: MachineRates


@dataclass(frozen=True, slots=True)
class LossGraph:
    """A loss function and its gradient. `origin`: the forward node of each node of the backward sweep."""

    loss: Node
    parameters: Sequence[Node]
    batch: Sequence[Node]
    origin: Mapping[Node, Node]


def layers_of(
    graph: LossGraph, sizes: Sizes, memory: int | None = None, owners: Sequence[int] | None = None
) -> Layers:
    """The stage of each node. `owners`: the stages that have the parameters, where that is decided.

    GraphError (E1048) where there are not so many layers. Where stages do not fit into the memory by the model, the
    cuts are those with the smallest largest stage, because their plans compute the exact need.
    """
    parameters = graph.parameters
    layers = Layers(sizes.stages, sizes.microbatches, {}, set(), [0 for _ in parameters])
    if sizes.stages == sizes.microbatches == 1:
        return layers
    order = sorted(topological_order(graph.loss), key=attrgetter("number"))
    free = free_nodes(order, set(parameters))
    varying = depending(order, set(graph.batch))
    line = [node for node in order if node in varying and node not in free]
    if owners is not None:
        layers.stage_of = _by_owners(order, line, parameters, owners)
    else:
        starts = _starts(graph, order, line, sizes, memory)
        layers.stage_of = {node: sum(i >= start for start in starts[1:]) for i, node in enumerate(line)}
    _complete(layers, order, free, parameters, graph.origin)
    return layers


def _starts(
    graph: LossGraph, order: Sequence[Node], line: Sequence[Node], sizes: Sizes, memory: int | None
) -> list[int]:
    """The places on the line where stages begin."""
    stages = sizes.stages
    if stages == 1:
        return [0]
    places = [0, *_places(line, stages)]
    if len(places) < stages:
        subject = f"{stages} stages: this loss function can be cut at {len(places) - 1} places"
        raise GraphError("E1048", subject, f"a stage begins with an operator: up to {len(places)} stages")
    measured = _Measure(graph, order, line, places, sizes)
    cuts = divided(measured.line, stages, sizes.microbatches, inf if memory is None else memory)
    _, starts = cuts or least_memory(measured.line, stages, sizes.microbatches)
    return [places[i] for i in starts]


def _by_owners(
    order: Sequence[Node], line: Sequence[Node], parameters: Sequence[Node], owners: Sequence[int]
) -> dict[Node, int]:
    """A stage begins where one of its parameters is read first."""
    first = _first_readers(order, {node: i for i, node in enumerate(line)})
    begins = {first[p]: owner for p, owner in zip(parameters, owners, strict=True) if p in first}
    stage_of, stage = dict[Node, int](), 0
    for i, node in enumerate(line):
        stage = stage_of[node] = max(stage, begins.get(i, 0))
    return stage_of | dict(zip(parameters, owners, strict=True))


def _places(line: Sequence[Node], stages: int) -> list[int]:
    """Where a stage may begin: before operators that lead others, else before any; the narrowest of many."""
    places = [i for i in range(1, len(line)) if kind_of(line[i]) in LEADERS]
    if len(places) + 1 < stages:
        places = [i for i in range(1, len(line)) if kind_of(line[i]) != "result" and not is_view(line[i])]
    crossing = _crossing(line)
    narrow = sorted(places, key=lambda i: (crossing[i], i))[:MOST_PLACES]
    return sorted(narrow)


def _crossing(line: Sequence[Node]) -> list[int]:
    """For each place the bytes of the values before it that are read behind it."""
    at = {node: i for i, node in enumerate(line)}
    last: dict[Node, int] = {}
    for i, node in enumerate(line):
        for x in node.inputs:
            base = base_of(x)
            if base in at:
                last[base] = i
    change = [0] * (len(line) + 1)
    for node, end in last.items():
        change[at[node] + 1] += node.nbytes
        change[end + 1] -= node.nbytes
    return list(np.cumsum(change))[: len(line)]


class _Measure:
    """Measures the costs of the pieces of a line."""

    def __init__(
        self,
        graph: LossGraph,
        order: Sequence[Node],
        line: Sequence[Node],
        starts: Sequence[int],
        sizes: Sizes,
    ) -> None:
        self._sizes = sizes
        at = {node: i for i, node in enumerate(line)}
        seconds, forward, held, kept = (np.zeros(len(line)) for _ in range(4))
        for node, i in at.items():
            forward[i] = seconds[i] = self._seconds(node)
        waiting: set[Node] = set()
        for node, source in graph.origin.items():
            if source in at:
                seconds[at[source]] += self._seconds(node)
            waiting.update(base for x in node.inputs if (base := base_of(x)) in at)
        for node in waiting:
            kept[at[node]] += node.nbytes / sizes.parts
        first = _first_readers(order, at)
        for parameter, size in zip(graph.parameters, sizes.held, strict=True):
            held[first.get(parameter, 0)] += size
        crossing = _crossing(line)
        begin = sizes.send(0)
        sent = [0.0, *(2 * (sizes.send(crossing[i] / sizes.parts) - begin) for i in starts[1:])]
        both_sweeps, memory, waits, first_sweep = (
            np.add.reduceat(column, starts) for column in (seconds, held, kept, forward)
        )
        enters = np.array([0.0, *(crossing[i] / sizes.parts for i in starts[1:])])
        rows = sum(node.nbytes for node in graph.batch) * sizes.microbatches / sizes.parts
        largest = np.maximum.reduceat([node.nbytes / sizes.parts for node in line], starts)
        self.line = LayerCosts(both_sweeps, memory, waits, np.array(sent), first_sweep, enters, largest, rows)

    def _seconds(self, node: Node) -> float:
        """The seconds of a node for one micro-batch of one worker."""
        return seconds_of(node, self._sizes.machine) / self._sizes.parts


def seconds_of(node: Node, machine: MachineRates) -> float:
    """The seconds of a node. Maps are computed where they are read: they move no bytes."""
    if is_view(node) or kind_of(node) in ("result", "source"):
        return 0.0
    moved = 0 if kind_of(node) == "map" else sum(x.nbytes for x in (node, *node.inputs))
    return max(flops_of(node) / machine.rate, moved / machine.bandwidth)


def _first_readers(order: Sequence[Node], at: Mapping[Node, int]) -> dict[Node, int]:
    """The first place on the line that needs each node beside it."""
    first: dict[Node, int] = {}
    for node in reversed(order):
        place = at.get(node, first.get(node))
        for x in node.inputs:
            if x not in at and place is not None:
                first[x] = min(place, first.get(x, place))
    return first


def _complete(
    layers: Layers,
    order: Sequence[Node],
    free: set[Node],
    parameters: Sequence[Node],
    origin: Mapping[Node, Node],
) -> None:
    """The stages of all other nodes. A value of parameters alone is in the stage that reads it first, and a gradient in
    the stage of its layer. Gradients are added where they are, before they go to another stage."""
    stage_of = layers.stage_of
    for node, first in _first_readers(order, stage_of).items():
        if node not in free:
            stage_of[node] = first
    layers.owners = [stage_of.setdefault(parameter, 0) for parameter in parameters]
    for node, forward in origin.items():  # inputs first
        if forward not in stage_of:
            continue
        stage = stage_of[forward]
        if node.op == "add":
            stage = max(stage, min(stage_of.get(x, stage) for x in node.inputs))
        stage_of[node] = stage
        layers.backward.add(node)
