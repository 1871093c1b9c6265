"""Stages: the layers of a loss function in order, cut into parts of which each group of workers has one.

    x @ w1, tanh | @ w2, tanh | @ w3, tanh | @ w4, loss            stages=4

Workers of a stage keep its parameters. A batch passes the stages in micro-batches, so the slowest stage decides how
long a step takes: with n micro-batches the sum of the seconds of all stages, and n times those of the slowest.
Messages go while stages compute, so they count in the sum, and where they alone are slowest. The cuts for which this is
least are found by dynamic programming over places before products, within the memory.
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
FREE = (
    "source",
    "map",
    "view",
    "gather",
)  # kinds of operators that each stage computes anew from numbers and the batch


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """The layers, cut at all places: piece i is between places i and i + 1. `seconds` of a piece for one micro-batch,
    both sweeps; `held`: bytes of its parameters, their gradients and state; `kept`: bytes of the values that wait for
    the backward sweep of one micro-batch; `crossing`: seconds in which the values of one micro-batch, and their
    gradients, go over the place before a piece."""

    seconds: np.ndarray
    held: np.ndarray
    kept: np.ndarray
    crossing: np.ndarray

    def __len__(self) -> int:
        return len(self.seconds)


def divided(
    line: LayerCosts, stages: int, microbatches: int, memory: float = inf
) -> tuple[float, list[int]] | None:
    """The seconds of a step by the model, and the first piece of each stage; None where stages do not fit into the
    memory, or there are fewer pieces than stages."""
    n = len(line)
    if n < stages:
        return None
    seconds = np.concatenate([[0], np.cumsum(line.seconds)])
    computes = seconds[None, :] - seconds[:, None]  # of pieces i .. j - 1
    sends = np.append(line.crossing, 0)[:, None]
    whole, busy = computes + sends, np.maximum(computes, sends)  # messages go while a stage computes
    is_piece = np.arange(n + 1)[:, None] < np.arange(n + 1)
    fits = [is_piece & (used <= memory) for used in memory_of_stages(line, stages, microbatches)]
    best: tuple[float, list[int]] | None = None
    slowest = np.unique(busy[is_piece])
    first = bisect_left(slowest, True, key=lambda most: _within(whole, fits, busy <= most) is not None)
    for most in slowest[first:]:
        if best is not None and whole[0, n] + microbatches * most >= best[0]:
            break
        total, starts = _within(whole, fits, busy <= most) or (inf, [])
        total += microbatches * most
        if best is None or total < best[0]:
            best = float(total), starts
    return best


def memory_of_stages(line: LayerCosts, stages: int, microbatches: int) -> list[np.ndarray]:
    """For each stage the bytes of a worker, if it has the pieces from one place to another; infinite without pieces."""
    held, kept = (np.concatenate([[0], np.cumsum(column)]) for column in (line.held, line.kept))
    is_piece = np.arange(len(held))[:, None] < np.arange(len(held))
    waits = [min(microbatches, stages - stage) for stage in range(stages)]
    of_all = ((held[None, :] - held[:, None]) + wait * (kept[None, :] - kept[:, None]) for wait in waits)
    return [np.where(is_piece, used, inf) for used in of_all]


def least_memory(line: LayerCosts, stages: int, microbatches: int) -> float:
    """The bytes of a worker with which stages fit; infinite where there are fewer pieces."""
    reached = np.full(len(line) + 1, inf)
    reached[0] = 0.0
    for used in memory_of_stages(line, stages, microbatches):
        reached = np.maximum(reached[:, None], used).min(0)
    return float(reached[-1])


def _within(
    whole: np.ndarray, fits: Sequence[np.ndarray], is_fast: np.ndarray
) -> tuple[float, list[int]] | None:
    """The cuts with the least sum, of stages that are fast enough."""
    n = len(whole) - 1
    reached = np.full(n + 1, inf)
    reached[0] = 0.0
    before = []
    for fit in fits:
        costs = reached[:, None] + np.where(fit & is_fast, whole, inf)
        before.append(costs.argmin(0))
        reached = costs.min(0)
    if reached[n] == inf:
        return None
    starts, at = list[int](), n
    for each in reversed(before):
        at = int(each[at])
        starts.append(at)
    return float(reached[n]), starts[::-1]


# --- layers of a graph


@dataclass(slots=True)
class Layers:
    """Of a loss function. `stage_of`: nodes of both sweeps that depend on the batch or on parameters; `backward`: those
    of the backward sweep. `owners`: the stage that keeps each parameter."""

    stages: int
    microbatches: int
    stage_of: dict[Node, int]
    backward: set[Node]
    owners: list[int]

    @property
    def said(self) -> tuple[int, ...]:
        """What workers must have alike."""
        return self.stages, self.microbatches, *self.owners


ONE_STAGE = Layers(1, 1, {}, set(), [])


def free_nodes(order: Sequence[Node], stored: set[Node]) -> set[Node]:
    """Nodes that each stage has without others: sources but those that are stored, and maps and views of them."""
    found: set[Node] = set()
    for node in order:
        if node not in stored and kind_of(node) in FREE and found.issuperset(node.inputs):
            found.add(node)
    return found


def depending(order: Sequence[Node], sources: set[Node]) -> set[Node]:
    """The nodes that depend on some sources, and these."""
    found = set(sources)
    for node in order:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """`stages` and `microbatches` of a step. `parts`: by how much a batch is larger than one micro-batch of one worker;
    `held`: bytes of a worker for each parameter, its gradient and state; `send`: the seconds that bytes take from one
    stage to the next."""

    stages: int
    microbatches: int
    parts: int
    held: Sequence[int]
    send: Callable[[float], float]
    machine: MachineRates


def layers_of(
    loss: Node,
    parameters: Sequence[Node],
    batch: Sequence[Node],
    origin: Mapping[Node, Node],
    sizes: Sizes,
    memory: int | None = None,
    owners: Sequence[int] | None = None,
) -> Layers:
    """The stage of each node. `origin`: the forward node of each node of the backward sweep; `owners`: the stages that
    have the parameters, where that is decided.

    GraphError (E1048) where there are not so many layers, (E1047) where stages do not fit into the memory.
    """
    made = Layers(sizes.stages, sizes.microbatches, {}, set(), [0 for _ in parameters])
    if sizes.stages == sizes.microbatches == 1:
        return made
    order = sorted(topological_order(loss), key=attrgetter("number"))
    free = free_nodes(order, set(parameters))
    varying = depending(order, set(batch))
    line = [node for node in order if node in varying and node not in free]
    if owners is not None:
        made.stage_of = _by_owners(order, line, parameters, owners)
    else:
        starts = _starts(order, line, parameters, origin, sizes, memory)
        made.stage_of = {node: sum(i >= start for start in starts[1:]) for i, node in enumerate(line)}
    _complete(made, order, free, parameters, origin)
    return made


def _starts(
    order: Sequence[Node],
    line: Sequence[Node],
    parameters: Sequence[Node],
    origin: Mapping[Node, Node],
    sizes: Sizes,
    memory: int | None,
) -> list[int]:
    """The places on the line where stages begin."""
    stages = sizes.stages
    if stages == 1:
        return [0]
    places = [0, *_places(line, stages)]
    if len(places) < stages:
        said = f"{stages} stages: this loss function can be cut at {len(places) - 1} places"
        raise GraphError("E1048", said, f"a stage begins with an operator: up to {len(places)} stages")
    measured = _Measure(order, line, places, parameters, origin, sizes)
    found = divided(measured.line, stages, sizes.microbatches, inf if memory is None else memory)
    if found is None:
        said = f"{stages} stages do not fit into {memory} bytes of a worker"
        least = least_memory(measured.line, stages, sizes.microbatches)
        note = f"memory={least:.0f} at least; more stages or smaller micro-batches need less"
        raise GraphError("E1047", said, note)
    return [places[i] for i in found[1]]


def _by_owners(
    order: Sequence[Node], line: Sequence[Node], parameters: Sequence[Node], owners: Sequence[int]
) -> dict[Node, int]:
    """A stage begins where one of its parameters is read first."""
    first = _first_readers(order, {node: i for i, node in enumerate(line)})
    begins = {first[each]: owner for each, owner in zip(parameters, owners, strict=True) if each in first}
    made, stage = dict[Node, int](), 0
    for i, node in enumerate(line):
        stage = made[node] = max(stage, begins.get(i, 0))
    return made | dict(zip(parameters, owners, strict=True))


def _places(line: Sequence[Node], stages: int) -> list[int]:
    """Where a stage may begin: before operators that lead others, else before any; the narrowest of many."""
    found = [i for i in range(1, len(line)) if kind_of(line[i]) in LEADERS]
    if len(found) + 1 < stages:
        found = [i for i in range(1, len(line)) if kind_of(line[i]) != "result" and not is_view(line[i])]
    crossing = _crossing(line)
    narrow = sorted(found, key=lambda i: (crossing[i], i))[:MOST_PLACES]
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
    """What the pieces of a line take."""

    def __init__(
        self,
        order: Sequence[Node],
        line: Sequence[Node],
        starts: Sequence[int],
        parameters: Sequence[Node],
        origin: Mapping[Node, Node],
        sizes: Sizes,
    ) -> None:
        self._sizes = sizes
        at = {node: i for i, node in enumerate(line)}
        seconds, held, kept = (np.zeros(len(line)) for _ in range(3))
        for node, i in at.items():
            seconds[i] += self._seconds(node)
        waiting: set[Node] = set()
        for node, forward in origin.items():
            if forward in at:
                seconds[at[forward]] += self._seconds(node)
            waiting.update(base for x in node.inputs if (base := base_of(x)) in at)
        for node in waiting:
            kept[at[node]] += node.nbytes / sizes.parts
        first = _first_readers(order, at)
        for parameter, size in zip(parameters, sizes.held, strict=True):
            held[first.get(parameter, 0)] += size
        crossing = _crossing(line)
        begin = sizes.send(0)
        sent = [0.0, *(2 * (sizes.send(crossing[i] / sizes.parts) - begin) for i in starts[1:])]
        made, memory, waits = (np.add.reduceat(each, starts) for each in (seconds, held, kept))
        self.line = LayerCosts(made, memory, waits, np.array(sent))

    def _seconds(self, node: Node) -> float:
        """Of one micro-batch of one worker. Maps are computed where they are read: they move no bytes of their own."""
        if is_view(node) or kind_of(node) in ("result", "source"):
            return 0.0
        moved = 0 if kind_of(node) == "map" else sum(each.nbytes for each in (node, *node.inputs))
        machine = self._sizes.machine
        return max(flops_of(node) / machine.rate, moved / machine.bandwidth) / self._sizes.parts


def _first_readers(order: Sequence[Node], at: Mapping[Node, int]) -> dict[Node, int]:
    """For nodes that do not stand on the line the first place on it that needs them."""
    found: dict[Node, int] = {}
    for node in reversed(order):
        place = at.get(node, found.get(node))
        for x in node.inputs:
            if x not in at and place is not None:
                found[x] = min(place, found.get(x, place))
    return found


def _complete(
    layers: Layers,
    order: Sequence[Node],
    free: set[Node],
    parameters: Sequence[Node],
    origin: Mapping[Node, Node],
) -> None:
    """The stages of all other nodes: of values that parameters alone decide where they are read first, and of gradients
    those of the layer that they are of. Gradients are added where they are, before they go to another stage."""
    stage_of = layers.stage_of
    for node, first in _first_readers(order, stage_of).items():
        if node not in free:
            stage_of[node] = first
    layers.owners = [stage_of.setdefault(each, 0) for each in parameters]
    for node, forward in origin.items():  # inputs first
        if forward not in stage_of:
            continue
        stage = stage_of[forward]
        if node.op == "add":
            stage = max(stage, min(stage_of.get(x, stage) for x in node.inputs))
        stage_of[node] = stage
        layers.backward.add(node)
