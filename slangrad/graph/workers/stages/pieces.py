"""Pieces: the graph of a step with stages, cut where a value goes to another stage, or from one micro-batch to all.

    before    once              values of parameters alone, and parameters that go to another stage
    micro     each micro-batch  forward and backward sweep of each stage; gradients are added to sums
    after     once              updates, from the sums over micro-batches

    stage 0   forward, level 0                          backward, level 4
    stage 1      forward, level 1             backward, level 3
    stage 2         forward and backward, level 2

A piece reads values of earlier pieces, and nothing of later ones. Views, numbers, and maps of the batch alone are not
passed on: each piece makes them anew. So does the backward sweep of a stage with cheap maps of values that it reads,
and with other values where these take too much memory (`keeping`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from operator import attrgetter

from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.gradient import add_all
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, new_input, rebuilt, topological_order, with_inputs
from slangrad.graph.ir.ops import OPS, base_of, behind_views, is_view, kind_of
from slangrad.graph.workers.meshes.specs import MICRO
from slangrad.graph.workers.stages.layers import Layers, depending, free_nodes

BEFORE, MICROBATCH, AFTER = range(3)
CHEAP = 4  # operations for each element of a value that is computed again rather than kept
GIVEN = -1  # the level of values that are there before the first piece


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The place of a piece: `part` is BEFORE, MICROBATCH or AFTER; pieces of a part run in the order of levels."""

    part: int
    level: int
    stage: int


@dataclass(slots=True)
class StagePiece:
    """`targets` are computed from `boundary`: inputs, and targets of other pieces. `places`: targets that go to the
    memory of an input."""

    targets: dict[Node, None] = field(default_factory=dict)
    boundary: list[Node] = field(default_factory=list)
    places: dict[Node, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A value that one stage sends another one, once for each micro-batch where its piece runs for each."""

    node: Node
    source: Key
    to: int
    tag: int = 0


def boundary_of(targets: Iterable[Node], is_outside: Callable[[Node], bool]) -> list[Node]:
    """The nodes outside that targets are computed from."""
    outside: dict[Node, None] = {}
    stack = list(targets)
    seen = set(stack)
    while stack:
        node = stack.pop()
        if is_outside(node):
            outside[node] = None
        else:
            stack += [x for x in node.inputs if x not in seen]
            seen.update(node.inputs)
    return list(outside)


class StagePieces:
    """Of all stages. `outputs`: of the local graph of a micro-batch: the loss, and updates, which take the memory of
    `places`. `origins`: the nodes of the whole graph that local ones stand for, whose `layers` are known. `rows`: local
    inputs that each micro-batch has others of; `stored`: local inputs that one stage has, and which.

    GraphError (E1048) where a value of all rows is needed within a micro-batch."""

    def __init__(
        self,
        outputs: Sequence[Node],
        places: Sequence[Node],
        origins: Mapping[Node, Node],
        layers: Layers,
        rows: set[Node],
        stored: Mapping[Node, int],
    ) -> None:
        self.stages = layers.stages
        order = topological_order(*outputs)
        _check(order, origins, layers)
        self._stage: dict[Node, int] = dict(stored)
        self._backward: set[Node] = set()
        self._attribute_updates(outputs[1:], places, origins, layers)
        self._attribute(order, origins, layers)
        self.sums: dict[Node, Node] = {}  # inputs for sums over micro-batches, and what is added to them
        self.loss, *updates = self._summed(outputs)
        micro = topological_order(*self.sums.values())
        after = topological_order(self.loss, *updates)
        self._free = free_nodes([*micro, *after], {*stored, *self.sums})
        varying = depending(micro, rows)
        self._at: dict[Node, Key] = {node: Key(BEFORE, GIVEN, stage) for node, stage in stored.items()}
        self._at |= {node: Key(AFTER, GIVEN, self._stage[node]) for node in self.sums}
        self._place(micro, lambda node: MICROBATCH if node in varying else BEFORE)
        self._place(after, lambda node: AFTER)
        self._updates = dict(zip(updates, places, strict=True))
        self._added = {total: (Array(total) + Array(term)).node for total, term in self.sums.items()}
        for total, added in self._added.items():
            first = Key(MICROBATCH, 0, self._stage[total])
            self._at[added] = max(self._at.get(self.sums[total], first), first)
        self._kept: Mapping[int, Collection[Node]] = {}
        self._collect()

    def keeping(self, kept: Mapping[int, Collection[Node]]) -> StagePieces:
        """The same pieces, but that the backward sweeps of some stages read of their own forward sweeps these values
        alone. They compute others again. Messages are the same."""
        pieces = copy(self)
        pieces._kept = kept
        pieces._collect()
        return pieces

    # --- stages of local nodes

    def _attribute_updates(
        self, updates: Sequence[Node], places: Sequence[Node], origins: Mapping[Node, Node], layers: Layers
    ) -> None:
        """Those of their memory. Gradients of a later plan may be those of layers of another stage."""
        for update, place in zip(updates, places, strict=True):
            stack = [update]
            while stack:
                node = stack.pop()
                if node.inputs and node not in self._stage and origins.get(node) not in layers.stage_of:
                    self._stage[node] = self._stage[place]
                    stack += node.inputs

    def _attribute(self, order: Sequence[Node], origins: Mapping[Node, Node], layers: Layers) -> None:
        """That of the node it stands for; of moves between workers that of what is moved."""
        for node in order:
            whole = origins.get(node)
            if node.op == "result" or whole not in layers.stage_of:
                attributed = [x for x in node.inputs if x in self._stage]
                if attributed and node not in self._stage:
                    self._stage[node] = max(self._stage[x] for x in attributed)
                    self._backward.update([node] if not self._backward.isdisjoint(attributed) else [])
            else:
                assert whole is not None
                self._stage[node] = layers.stage_of[whole]
                self._backward.update([node] if whole in layers.backward else [])

    def _summed(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs with inputs in place of sums over micro-batches."""

        def change(node: Node, inputs: tuple[Node, ...]) -> Node:
            if is_sum(node):
                new = add_all([Array(self._input_for(term)) for term in self._terms(node.inputs[0])]).node
            else:
                new = with_inputs(node, inputs)
            if node in self._stage:
                self._stage.setdefault(new, self._stage[node])
            return new

        return rebuilt(outputs, change)

    def _terms(self, node: Node) -> list[Node]:
        """The parts of a gradient that several stages compute: each adds its own over micro-batches."""
        base, views = behind_views(node)
        if base.op != "add" or len({self._stage.get(base_of(x)) for x in base.inputs}) == 1:
            return [node]
        terms = []
        for part in (term for x in base.inputs for term in self._terms(x)):
            term = part
            for view in views:
                term = with_inputs(view, (term,))
            terms.append(term)
        return terms

    def _input_for(self, term: Node) -> Node:
        total = new_input(term.shape, term.dtype, "sum")
        self._stage[total] = self._stage.get(base_of(term), self.stages - 1)
        self.sums[total] = term
        return total

    def stage_of_input(self, node: Node) -> int:
        """The stage that has a parameter, its state or a sum."""
        return self._stage[node]

    # --- pieces of nodes

    def passes(self, node: Node) -> bool:
        """Whether readers in other pieces make a node anew."""
        return node in self._free or (is_view(node) and node.nbytes >= node.inputs[0].nbytes)

    def _place(self, order: Sequence[Node], part_of: Callable[[Node], int]) -> None:
        """The piece of each node. One that reads another stage is behind it; a loop and its results are together."""
        for node in order:
            if node in self._at or node in self._free or not node.inputs:
                continue
            sources = [self._at[x] for x in node.inputs if x in self._at]
            if sources and (node.op == "result" or self.passes(node)):
                self._at[node] = sources[0]
                continue
            part, stage = part_of(node), self._stage.get(node, 0)
            level = 0
            if part == MICROBATCH:
                level = 2 * (self.stages - 1) - stage if node in self._backward else stage
            near = [source.level + (source.stage != stage) for source in sources if source.part == part]
            self._at[node] = Key(part, max([level, *near]), stage)

    def _collect(self) -> None:
        """Targets and boundaries, the last pieces first, as what they read are targets of others."""
        self.pieces: dict[Key, StagePiece] = {}
        self.messages: dict[tuple[Node, int], Message] = {}
        for node, place in self._updates.items():
            self._target(node).places[node] = place
        self._target(self.loss)
        for total, added in self._added.items():
            self._target(added).places[added] = total
        done: set[Key] = set()
        while left := self.pieces.keys() - done:
            key = max(left)
            done.add(key)
            piece = self.pieces[key]
            piece.boundary = self._boundary(key)
            for node in piece.boundary:
                if node in self._at:
                    self._read(node, key.stage)
        for stage in range(self.stages):
            self._read(self.loss, stage)
        in_order = sorted(self.messages.values(), key=lambda x: (x.source, x.node.number, x.to))
        self.messages = {(x.node, x.to): replace(x, tag=tag) for tag, x in enumerate(in_order)}

    def _boundary(self, key: Key) -> list[Node]:
        """What a piece reads. Of the values of its own forward sweep, cheap ones are computed again from others that it
        reads, too: they need not wait."""
        targets, kept = self.pieces[key].targets, self._kept.get(key.stage)
        if kept is not None and key.part == MICROBATCH:
            return boundary_of(
                targets,
                lambda node: self._is_outside(node, key) and (node in kept or not self.is_own(node, key)),
            )

        def is_outside(node: Node) -> bool:
            return self._is_outside(node, key) and node not in again

        again: set[Node] = set()
        boundary = set(boundary_of(targets, is_outside))
        for node in sorted(boundary, key=attrgetter("number"), reverse=True):
            if self.is_own(node, key) and kind_of(node) == "map" and OPS[node.op].flops <= CHEAP:
                reads = (self._shown(x) for x in node.inputs)
                if all(x in self._free or x.op == "input" or x in boundary for x in reads):
                    again.add(node)
        return boundary_of(targets, is_outside)

    def is_own(self, node: Node, key: Key) -> bool:
        """Whether a node is computed by a piece of the same stage for the same micro-batch."""
        at = self._at.get(node)
        return at is not None and node.op != "input" and (at.part, at.stage) == (key.part, key.stage)

    def is_fixed(self, node: Node) -> bool:
        """Whether a node that pieces of micro-batches read has one value for all of them."""
        return node in self._at and self._at[node].part == BEFORE

    def waits(self, node: Node) -> bool:
        """Whether each micro-batch has a value of its own of a node, which another piece computes."""
        return node in self._at and self._at[node].part == MICROBATCH

    def _shown(self, node: Node) -> Node:
        """What views show that are made anew."""
        while node not in self._free and is_view(node) and self.passes(node):
            node = node.inputs[0]
        return node

    def _target(self, node: Node) -> StagePiece:
        piece = self.pieces.setdefault(self._at[node], StagePiece())
        piece.targets[node] = None
        return piece

    def _is_outside(self, node: Node, key: Key) -> bool:
        return node.op == "input" or (node in self._at and not self.passes(node) and self._at[node] != key)

    def _read(self, node: Node, stage: int) -> None:
        """A piece of a stage reads a value of another piece."""
        source = self._at[node]
        if node.op != "input":
            self._target(node)
        if source.stage != stage:
            self.messages[node, stage] = Message(node, source, stage)


def is_sum(node: Node) -> bool:
    """Whether a node is a sum over micro-batches."""
    return "collective" in node.attributes and node.attributes["collective"].over == MICRO


def _check(order: Sequence[Node], origins: Mapping[Node, Node], layers: Layers) -> None:
    """GraphError (E1048) where micro-batches need more of each other than sums at the end."""
    first: dict[Node, Node] = {}  # for nodes behind a sum the sum
    for node in order:
        behind = next((first[x] for x in node.inputs if x in first), None)
        if is_sum(node):
            if node.op != "all_reduce" and node.attributes["collective"].how == "sum":
                reader = _reader(node, order, origins, layers)
                note = NOTES.get(reader.op if reader else "", OTHER_ROWS)
                raise _refused(node, reader, "rows of other micro-batches, which are read", note)
            if behind is not None or node.op != "all_reduce":
                culprit = _forward((behind or node).inputs[0], origins, layers)
                raise _refused(node, culprit, "a value of all rows, which is needed", NO_SUM)
            first[node] = node
        elif behind is not None:
            first[node] = behind


NO_SUM = "microbatches=1, or a sum or a mean over rows as the loss; pass what divides it, such as w.sum(), as a number"
OTHER_ROWS = "microbatches=1, or rows that are picked before the step, as in step(x[:n], y[:n])"
NOTES = {
    "reshape": (  # rows are joined with other axes, as for indices of both
        "microbatches=1, or operators of each row: np.take_along_axis(x, ids[:, None], 1)[:, 0] "
        "for x[np.arange(n), ids]"
    ),
    "scan": "microbatches=1, as graph.scan runs whole; or a loop of Python",
}


def _refused(node: Node, culprit: Node | None, message: str, note: str) -> GraphError:
    whole_message = f"microbatches={node.attributes['collective'].count}: {message} within each micro-batch"
    return GraphError("E1048", whole_message, note, culprit.place if culprit else None)


def _forward(node: Node, origins: Mapping[Node, Node], layers: Layers) -> Node | None:
    """The node of the loss function that a value follows from: itself, or the nearest that its gradient reads."""
    near = [node]
    for value in near:
        forward = origins.get(value)
        if forward is not None and forward.inputs and forward not in layers.backward:
            return forward
        near += [x for x in value.inputs if x not in near]
    return None


def _reader(gather: Node, order: Sequence[Node], origins: Mapping[Node, Node], layers: Layers) -> Node | None:
    """The first node of the loss function that reads what is gathered."""
    behind, gathered = {gather}, origins.get(base_of(gather.inputs[0]))
    for node in order:
        if not behind.isdisjoint(node.inputs):
            behind.add(node)
            forward = origins.get(node)
            if forward is not None and forward is not gathered and forward not in layers.backward:
                return forward
    return _forward(gather.inputs[0], origins, layers)
