"""Pipelines: each stage runs its pieces for one micro-batch after another, and sends what others need.

    step = graph.train(loss, optimizer, mesh=graph.mesh("data", stages=4), microbatches=8)

A micro-batch is a part of the rows of a worker: an axis of the mesh that has no workers. Gradients are added to sums of
the stage in place. Messages between two stages have the order of the plan; a stage asks for those of its next turn
before it runs the one at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import slangrad as spy
from slangrad.graph.ir.devices import arena_of, host_array, on_device
from slangrad.graph.ir.errors import MemoryLimitError
from slangrad.graph.ir.node import DType, Node, Shape
from slangrad.graph.ir.types import type_of
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.lowering.choose import chooser, of_first
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import MICRO, STAGES
from slangrad.graph.workers.sharding.buckets import most_copied
from slangrad.graph.workers.sharding.partition import Partition
from slangrad.graph.workers.sharding.step_graph import StepGraph
from slangrad.graph.workers.stages.fitting import FittedStage, Planner, fitted_stage
from slangrad.graph.workers.stages.layers import Layers
from slangrad.graph.workers.stages.microbatches import Microbatched, part_of
from slangrad.graph.workers.stages.order import AHEAD
from slangrad.graph.workers.stages.pieces import AFTER, BEFORE, Key, Message, StagePieces

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.transfers import Transfer

Values: TypeAlias = "dict[Node, spy.Tensor]"


class StagePlan:
    """Runs the pieces of one stage; `run` as that of `Plan`, for the loss alone. `local`: the graph of one micro-batch,
    which `graph` is of all. `mesh`: of `local`. Of the options, `layouts` are those of the inputs of `graph`, and
    `memory` is for all that a worker holds. MemoryLimitError (E1047) where it is too little."""

    def __init__(
        self,
        local: Partition,
        graph: StepGraph,
        layers: Layers,
        mesh: Microbatched,
        device: spy.Device,
        options: PlanOptions,
    ) -> None:
        outer, choose, memory = mesh.outer, options.choose, options.memory
        at = local.inputs
        self._inputs = [at.get(node, node) for node in graph.inputs]
        self._rows = [at[node] for node in graph.batch if node in at and node.shape]
        variables = zip(graph.variables, layers.owners, strict=True)
        owned = {x: stage for variable, stage in variables for x in (variable.parameter, *variable.states)}
        stored = {at[node]: stage for node, stage in owned.items() if node in at}
        assert mesh.index is not None and outer is not None
        rows, places = {*self._rows, mesh.index}, [at[node] for node in graph.kept.values()]
        whole = StagePieces(local.outputs, places, local.origins, layers, rows, stored)
        self._whole, self.mesh, self.device = whole, mesh, device
        self._stored, self._names = stored, list(zip(graph.names, layers.owners, strict=True))
        self.link = outer.link(STAGES) if outer.stages > 1 and outer.links else None
        self.stage, self.stages = outer.stage, whole.stages
        self.microbatches = mesh.sizes[MICRO]
        of_local = {at[node]: layout for node, layout in options.layouts.items() if node in at}
        seen = {
            node: layout.with_shape(node.shape)
            for node, layout in of_local.items()
            if stored.get(node, self.stage) == self.stage
        }
        held, small = [self._held(stage) for stage in range(self.stages)], most_copied(memory)
        own_choose = of_first(choose or chooser(device, None, Plan), outer) if outer.links else choose
        planner = Planner(device, seen, own_choose, small, self.microbatches, memory, held, {})
        self._others = replace(planner, layouts={}, choose=choose, runs=False)
        self._fitted = {self.stage: fitted_stage(whole, self.stage, planner)}
        if memory is not None:
            self._refuse_too_little(memory, outer)
        fit = self._fitted[self.stage]
        assert fit.plans is not None
        self.pieces, self.program, self.graphs, self.plans = fit.pieces, fit.program, fit.graphs, fit.plans
        self._has_arena = False
        sums = [node for node in whole.sums if whole.stage_of_input(node) == self.stage]
        self._sums = {
            node: spy.Tensor.zeros(device, node.shape or (1,), type_of(node.dtype)) for node in sums
        }
        self.messages: list[tuple[Transfer, int]] | None = (
            None  # of a step that is recorded, with their bytes
        )
        numbers = (on_device(device, np.full(1, i, np.int64)) for i in range(self.microbatches))
        self._indices = [as_tensor(device, number) for number in numbers]

    def _refuse_too_little(self, memory: int, outer: Mesh) -> None:
        """MemoryLimitError (E1047) on all workers where one of the stages does not fit. Workers compute what their own
        needs; without workers, all of them are planned here."""
        stages = [self.stage] if self.link is not None else range(self.stages)
        fitted = map(self.fitted, stages)
        needed = np.array([max(0 if fit.plans is not None else fit.needed for fit in fitted)])
        if self.link is not None:
            outer.collective("all_reduce", STAGES, "max").start(None, needed).wait()
        if (least := int(needed[0])) > 0:
            count = f"{self.stages} stages do" if self.stages > 1 else f"{self.microbatches} micro-batches do"
            message = f"{count} not fit into {memory} bytes of a worker"
            raise MemoryLimitError(
                message, f"memory={least} would do; more stages or micro-batches need less", least
            )

    def fitted(self, stage: int) -> FittedStage:
        """The pieces and plans of a stage."""
        if stage not in self._fitted:
            fitted = fitted_stage(self._whole, stage, self._others)
            if (
                fitted.plans is None and self.link is not None
            ):  # its own workers use other libraries, and found room
                fitted = fitted_stage(self._whole, stage, replace(self._others, memory=None))
            self._fitted[stage] = fitted
        return self._fitted[stage]

    @property
    def plan(self) -> Plan:
        """That of the piece that takes longest; of some other stage's where this one has none."""
        plans = next(
            plans for stage in (self.stage, *range(self.stages)) if (plans := self.fitted(stage).plans)
        )
        return max(plans.values(), key=lambda plan: sum(task.seconds for task in plan.tasks))

    def parameters_of(self, stage: int) -> str:
        """The parameters of a stage, in words."""
        names = [name for name, owner in self._names if owner == stage]
        if len(names) < 2:
            return f"parameter {names[0]}" if names else "no parameter"
        return f"{len(names)} parameters {names[0]} to {names[-1]}"

    def _held(self, stage: int) -> int:
        """Bytes of a worker of a stage that are there at all times: parameters, state, sums of gradients and rows."""
        held = [node for node, owner in self._stored.items() if owner == stage]
        held += [node for node in self._whole.sums if self._whole.stage_of_input(node) == stage]
        rows = sum(node.nbytes for node in self._rows) * self.microbatches
        return sum(node.nbytes for node in held) + rows

    def _share_arena(self) -> None:
        """Pieces run one after another, so their plans have one arena, from the first step on."""
        size = self._fitted[self.stage].arena
        if size and not self._has_arena:
            memory = arena_of(self.device, size)
            for plan in self.plans.values():
                plan.share(memory)
        self._has_arena = True

    # --- running

    def run(self, arrays: Sequence[spy.Tensor], count: int | None = 1) -> list[spy.Tensor]:
        """The loss alone, for arguments in the order of inputs."""
        self._share_arena()
        for plan in self.plans.values():
            plan.refresh()
        values = dict(zip(self._inputs, arrays, strict=True)) | self._sums
        for total in self._sums.values():
            total.clear()
        rows = [
            {
                **{x: part_of(values[x], i, self.microbatches) for x in self._rows},
                self.mesh.index: self._indices[i],
            }
            for i in range(self.microbatches)
        ]
        state = _Running(self, values, rows)
        for at in range(len(self.program.turns)):
            state.turn(at)
        state.finish()
        return [state.once[self.pieces.loss]]


class _Running:
    """One step. `once`: values that are not those of one micro-batch; `held`: those of each micro-batch."""

    def __init__(self, plan: StagePlan, values: Values, rows: list[Values]) -> None:
        self._plan, self._program, self.once, self.held = plan, plan.program, values, rows
        self._link = plan.link
        self._receives: dict[int, list[tuple[Message, np.ndarray, Transfer]]] = {}
        self._sending: list[tuple[Key, Transfer]] = []

    def turn(self, at: int) -> None:
        plan, program = self._plan, self._program
        for ahead in range(at, min(at + AHEAD, len(program.turns))):
            self._ask(ahead)
        key, i = program.turns[at]
        if key.part == AFTER:
            self.finish(BEFORE)  # what is sent there is memory that updates change
        values = self.once if i is None else self.held[i]
        for message, array, pending in self._receives.pop(at):
            pending.wait()
            values[message.node] = as_tensor(plan.device, on_device(plan.device, array))
        if key in plan.plans:
            nodes = plan.graphs[key].arguments
            tensors = plan.plans[key].run([values[x] if x in values else self.once[x] for x in nodes])
            values |= dict(zip(plan.pieces.pieces[key].targets, tensors, strict=True))
        self._release()
        for message in program.sent.get(key, ()):
            array = np.ascontiguousarray(host_array(values[message.node]))
            assert self._link is not None
            transfer = self._noted(self._link.send(array, message.to, message.tag), array)
            self._sending.append((key, transfer))
        if i is not None:
            for node in [node for node in values if program.last.get(node) == key]:
                del values[node]

    def _ask(self, at: int) -> None:
        """Begin to receive what a turn waits for."""
        if at in self._receives:
            return
        self._receives[at] = []
        for message in self._program.arrivals[self._program.turns[at].key]:
            array = np.empty(message.node.shape or (1,), message.node.dtype)
            assert self._link is not None
            pending = self._noted(self._link.receive(array, message.source.stage, message.tag), array)
            self._receives[at].append((message, array, pending))

    def _noted(self, transfer: Transfer, array: np.ndarray) -> Transfer:
        if self._plan.messages is not None:
            self._plan.messages.append((transfer, array.nbytes))
        return transfer

    def _release(self) -> None:
        """Free the memory of sent values."""
        ended = [transfer for _, transfer in self._sending if transfer.has_ended]
        self._sending = [pair for pair in self._sending if pair[1] not in ended]
        for transfer in ended:
            transfer.wait()  # raises its error, if it has one

    def finish(self, part: int = AFTER) -> None:
        """Return when all is sent, of a part and those before it."""
        while self._sending and self._sending[0][0].part <= part:
            self._sending.pop(0)[1].wait()


def from_all_stages(
    mesh: Mesh,
    owners: Sequence[int],
    forms: Iterable[tuple[Shape, DType]],
    held: Mapping[int, spy.Tensor],
    device: spy.Device,
) -> list[spy.Tensor]:
    """Tensors of which each stage has some, on all. `own`: by their numbers those of this stage. Each worker asks."""
    link, sending, tensors = mesh.link(STAGES), [], []
    for i, (owner, (shape, dtype)) in enumerate(zip(owners, forms, strict=True)):
        if owner == mesh.stage:
            array = np.ascontiguousarray(host_array(held[i]))
            others = (stage for stage in range(mesh.stages) if stage != owner)
            sending += [(link.send(array, stage, i), array) for stage in others]
            tensors.append(held[i])
        else:
            array = np.empty(shape or (1,), dtype)
            link.receive(array, owner, i).wait()
            tensors.append(as_tensor(device, on_device(device, array)))
    for pending, _ in sending:
        pending.wait()
    return tensors
