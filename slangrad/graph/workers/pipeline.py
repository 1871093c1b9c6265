"""Pipelines: each stage runs its pieces for one micro-batch after another, and sends what others need.

    step = graph.train(loss, optimizer, mesh=graph.mesh("data", stages=4), microbatches=8)

A micro-batch is a part of the rows of a worker: an axis of the mesh that has no workers. Gradients are added to sums of
the stage in place. Messages between two stages have the order of the plan; a stage asks for those of its next turn
before it runs the one at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import slangrad as spy
from slangrad.graph.array import Array
from slangrad.graph.choose import Choose
from slangrad.graph.errors import GraphError
from slangrad.graph.layout import Layout
from slangrad.graph.node import DType, Node, Shape, new_input, substituted
from slangrad.graph.plan import Plan
from slangrad.graph.types import type_of
from slangrad.graph.values import as_tensor
from slangrad.graph.workers.buckets import chained, in_buckets
from slangrad.graph.workers.costs import Links, apart_on
from slangrad.graph.workers.mesh import Mesh
from slangrad.graph.workers.order import one_forward_one_backward
from slangrad.graph.workers.partition import Partition
from slangrad.graph.workers.pieces import AFTER, BEFORE, GIVEN, MICROBATCH, Key, Message, Pieces
from slangrad.graph.workers.specs import MICRO, STAGES, parts
from slangrad.graph.workers.stages import Layers, Sizes
from slangrad.graph.workers.strategies import Variable

if TYPE_CHECKING:
    from slangrad.graph.workers.parameters import Parameters

AHEAD = 2  # turns whose messages are asked for before they run


@dataclass(frozen=True, eq=False, repr=False)
class Microbatched(Mesh):
    """The workers of one stage, and an axis of micro-batches, of which `index` says which one it is."""

    index: Node | None = None

    def place(self, names: tuple[str, ...]) -> Any:
        at: Any = 0
        for name in names:
            at = at * self.sizes[name] + (Array(self.index) if name == MICRO else self.coordinates[name])  # type: ignore[arg-type]
        return at


def checked_microbatches(count: int | None, mesh: Mesh, consistent: str | None) -> int | None:
    """GraphError (E1048) for a number that is none, ValueError for settings that do not go with it."""
    if count is not None and (
        isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1
    ):
        raise GraphError("E1048", f"microbatches={count!r} is no integer from 1 on")
    if consistent is not None and (mesh.stages > 1 or (count or 1) > 1):
        raise ValueError(f"consistent={consistent!r} has neither stages nor micro-batches")
    return count


def sizes_of(
    mesh: Mesh, microbatches: int | None, held: Parameters, links: Links, arrays: Sequence[Any]
) -> Sizes:
    """GraphError (E1048) where rows cannot be cut into micro-batches, ValueError for partition="auto"."""
    count = microbatches or (4 * mesh.stages if mesh.stages > 1 else 1)
    if held.is_found and (mesh.stages > 1 or count > 1):
        raise ValueError(
            "partition='auto' has neither stages nor micro-batches: None, 'states' or 'parameters'"
        )
    for each in arrays:
        if len(each.shape) and each.shape[0] % count:
            fits = [n for n in range(1, each.shape[0] + 1) if each.shape[0] % n == 0]
            said = f"microbatches={count}: {each.shape[0]} rows of a worker are no multiple"
            raise GraphError("E1048", said, f"microbatches={min(fits, key=lambda n: abs(n - count))}")
    apart = apart_on(mesh, STAGES) if mesh.stages > 1 else 1
    return Sizes(
        mesh.stages,
        count,
        count * parts(mesh.batch_cuts, mesh.cuts),
        held.held_bytes(),
        lambda nbytes: links.seconds("send", 2, int(nbytes), apart),
        links.machine,
    )


def microbatched(mesh: Mesh, microbatches: int) -> Microbatched:
    """The mesh of a stage. Micro-batches are parts of the rows of a worker, so they are its fastest axis."""
    sizes = {name: n for name, n in mesh.sizes.items() if name != STAGES}
    rank = mesh.place(tuple(sizes)) * microbatches
    index = new_input((), np.dtype(np.int64), MICRO)
    return Microbatched(
        {**sizes, MICRO: microbatches}, rank, (*mesh.batch, MICRO), mesh.links, mesh.watch, index=index
    )


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The graph of a step of all workers: the loss and the updates. `kept`: for each update the input whose memory it
    takes. The last of `inputs` are the settings."""

    outputs: list[Node]
    inputs: list[Node]
    batch: list[Node]
    kept: dict[Node, Node]
    variables: list[Variable]


class Turn(NamedTuple):
    """A piece that a stage runs, for a micro-batch or once. A piece that is no piece, at the end of a part, waits for
    the messages that later parts read."""

    key: Key
    microbatch: int | None


def turns_of(pieces: Pieces, stage: int, microbatches: int) -> list[Turn]:
    """All turns of a stage in a step, in order."""
    keys = sorted({key for key in pieces.pieces if key.stage == stage} | _given(pieces, stage))

    def of_part(part: int) -> list[Key]:
        return [key for key in keys if key.part == part]

    ends = [Key(part, 3 * pieces.stages + len(keys), stage) for part in range(3)]
    made = [Turn(key, None) for key in (*of_part(BEFORE), ends[BEFORE])]
    for is_backward, i in one_forward_one_backward(stage, pieces.stages, microbatches):
        found = (key for key in of_part(MICROBATCH) if is_backward == (key.level >= pieces.stages))
        made += [Turn(key, i) for key in found]
    return [*made, *(Turn(key, None) for key in (*of_part(AFTER), ends[AFTER]))]


def _given(pieces: Pieces, stage: int) -> set[Key]:
    """Where values begin that other stages read, without a piece that computes them."""
    return {
        each.source
        for each in pieces.messages.values()
        if each.source.stage == stage and each.source.level == GIVEN
    }


def arrivals_of(pieces: Pieces, turns: Sequence[Turn], stage: int) -> list[list[Message]]:
    """For each turn the messages that the stage waits for first there."""
    left = {each.node: each for each in pieces.messages.values() if each.to == stage}
    found: list[list[Message]] = []
    known: dict[tuple[Key, int | None], list[Message]] = {}
    for turn in turns:
        if (turn.key, None) in known or (turn.key, turn.microbatch) in known:
            found.append(known[turn.key, None])
            continue
        piece = pieces.pieces.get(turn.key)
        if piece is not None:
            own = [left[x] for x in piece.boundary if x in left and left[x].source.part == turn.key.part]
        else:  # of the end of a part: all that came by then
            own = [each for each in left.values() if each.source.part == turn.key.part]
        for each in own:
            del left[each.node]
        own.sort(key=lambda each: each.tag)
        known[turn.key, None] = own
        found.append(own)
    return found


class StagePlan:
    """Runs the pieces of one stage; `run` as that of `Plan`, for the loss alone. `local`: the graph of one micro-batch,
    which `graph` is of all; `layouts`: of the inputs of that. `mesh`: of `local`, `outer` with stages."""

    def __init__(
        self,
        local: Partition,
        graph: StepGraph,
        layers: Layers,
        mesh: Microbatched,
        outer: Mesh,
        device: Any,
        layouts: Mapping[Node, Layout],
        choose: Choose | None,
    ) -> None:
        at = local.inputs
        self._inputs = [at.get(node, node) for node in graph.inputs]
        self._rows = [at[node] for node in graph.batch if node in at and node.shape]
        variables = zip(graph.variables, layers.owners, strict=True)
        owned = {x: stage for each, stage in variables for x in (each.parameter, *each.states)}
        stored = {at[node]: stage for node, stage in owned.items() if node in at}
        assert mesh.index is not None
        rows, places = {*self._rows, mesh.index}, [at[node] for node in graph.kept.values()]
        pieces = Pieces(local.outputs, places, local.origins, layers, rows, stored)
        self._pieces, self._mesh, self._outer, self._device = pieces, mesh, outer, device
        self.stage = outer.stage
        self._count = mesh.sizes[MICRO]
        self.turns = turns_of(pieces, self.stage, self._count)
        self._arrivals = arrivals_of(pieces, self.turns, self.stage)
        own = {at[node]: each for node, each in layouts.items() if node in at}
        made = {
            node: Layout(node.shape, each.strides)
            for node, each in own.items()
            if stored.get(node, self.stage) == self.stage
        }
        self.plans: dict[Key, Plan] = {}
        self._arguments: dict[Key, list[Node]] = {}
        for key in pieces.pieces:
            if key.stage == self.stage:
                self._arguments[key], self.plans[key] = planned(pieces, key, device, made, choose)
        sums = [node for node in pieces.sums if pieces.stage_of_input(node) == self.stage]
        self._sums = {
            node: spy.Tensor.zeros(device, node.shape or (1,), type_of(node.dtype)) for node in sums
        }
        self._indices = [as_tensor(device, np.full(1, i, np.int64)) for i in range(self._count)]
        self._sent: dict[Key, list[Message]] = {}
        for each in sorted(pieces.messages.values(), key=lambda each: each.tag):
            self._sent.setdefault(each.source, []).append(each)
        self._last = self._last_readers()

    @property
    def plan(self) -> Plan:
        """That of the piece that takes longest."""
        return max(self.plans.values(), key=lambda plan: sum(task.seconds for task in plan.tasks))

    def _last_readers(self) -> dict[Node, Key]:
        """The last piece of this stage that reads a value of a micro-batch."""
        found: dict[Node, Key] = {}
        for key in sorted(key for key in self.plans if key.part == MICROBATCH):
            piece = self._pieces.pieces[key]
            found |= dict.fromkeys((*piece.targets, *piece.boundary), key)
        return found

    # --- running

    def run(self, arguments: Sequence[Any], count: int | None = 1) -> list[Any]:
        """The loss alone, for arguments in the order of inputs."""
        given = dict(zip(self._inputs, arguments, strict=True)) | self._sums
        for each in self._sums.values():
            each.clear()
        rows = [
            {**{x: part_of(given[x], i, self._count) for x in self._rows}, self._mesh.index: self._indices[i]}
            for i in range(self._count)
        ]
        state = _Running(self, given, rows)
        for at in range(len(self.turns)):
            state.turn(at)
        state.finish()
        return [state.once[self._pieces.loss]]


class _Running:
    """One step. `once`: values that are not those of one micro-batch; `held`: those of each micro-batch."""

    def __init__(self, plan: StagePlan, given: dict[Any, Any], rows: list[dict[Any, Any]]) -> None:
        self._plan, self.once, self.held = plan, given, rows
        self._link = plan._outer.link(STAGES) if plan._pieces.stages > 1 else None
        self._asked: dict[int, list[tuple[Message, Any, Any]]] = {}
        self._sending: list[tuple[Any, Any]] = []

    def turn(self, at: int) -> None:
        plan = self._plan
        for ahead in range(at, min(at + AHEAD, len(plan.turns))):
            self._ask(ahead)
        key, i = plan.turns[at]
        values = self.once if i is None else self.held[i]
        for message, array, pending in self._asked.pop(at):
            pending.wait()
            values[message.node] = as_tensor(plan._device, array)
        if key in plan.plans:
            nodes = plan._arguments[key]
            tensors = plan.plans[key].run([values[x] if x in values else self.once[x] for x in nodes])
            values |= dict(zip(plan._pieces.pieces[key].targets, tensors, strict=True))
        for message in plan._sent.get(key, ()):
            self._send(message, values[message.node])
        if i is not None:
            for node in [node for node in values if plan._last.get(node) == key]:
                del values[node]

    def _ask(self, at: int) -> None:
        """Begin to receive what a turn waits for."""
        if at in self._asked:
            return
        self._asked[at] = []
        for message in self._plan._arrivals[at]:
            array = np.empty(message.node.shape or (1,), message.node.dtype)
            pending = self._link.receive(array, message.source.stage, message.tag)  # type: ignore[union-attr]
            self._asked[at].append((message, array, pending))

    def _send(self, message: Message, tensor: Any) -> None:
        array = np.ascontiguousarray(tensor.host_view())
        self._sending.append((self._link.send(array, message.to, message.tag), array))  # type: ignore[union-attr]

    def finish(self) -> None:
        for pending, _ in self._sending:
            pending.wait()


def planned(
    pieces: Pieces, key: Key, device: Any, layouts: Mapping[Node, Layout], choose: Choose | None
) -> tuple[list[Node], Plan]:
    """A plan of a piece, and the nodes that are its arguments."""
    piece = pieces.pieces[key]
    unread = [node for node in piece.places.values() if node not in piece.boundary]
    arguments = [*piece.boundary, *unread]
    names = {node: new_input(node.shape, node.dtype) for node in piece.boundary if node.op != "input"}
    made = chained(in_buckets(substituted(list(piece.targets), names)))
    inputs = [names.get(node, node) for node in arguments]
    own = {node: at for node, at in layouts.items() if node in inputs}
    place = {made[i]: piece.places[node] for i, node in enumerate(piece.targets) if node in piece.places}
    return arguments, Plan(made, inputs, device, own, in_place=place, choose=choose)


def part_of(rows: Any, i: int, count: int) -> Any:
    """The rows of a micro-batch."""
    size = rows.shape[0] // count
    shape, steps = (size, *tuple(rows.shape)[1:]), tuple(rows.strides)
    return rows.view(shape, steps, i * size * steps[0])


def from_all_stages(
    mesh: Mesh,
    owners: Sequence[int],
    forms: Iterable[tuple[Shape, DType]],
    own: Mapping[int, Any],
    device: Any,
) -> list[Any]:
    """Tensors of which each stage has some, on all. `own`: by their numbers those of this stage. Each worker asks."""
    link, sending, made = mesh.link(STAGES), [], []
    for i, (owner, (shape, dtype)) in enumerate(zip(owners, forms, strict=True)):
        if owner == mesh.stage:
            array = np.ascontiguousarray(own[i].host_view())
            others = (stage for stage in range(mesh.stages) if stage != owner)
            sending += [(link.send(array, stage, i), array) for stage in others]
            made.append(own[i])
        else:
            array = np.empty(shape or (1,), dtype)
            link.receive(array, owner, i).wait()
            made.append(as_tensor(device, array))
    for pending, _ in sending:
        pending.wait()
    return made
