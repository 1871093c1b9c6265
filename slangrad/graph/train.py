"""`train`: a loss and an optimizer as one plan: value, gradients and update.

step = graph.train(loss, spy.optim.Adam(p, lr=1e-3))
for x, y in batches: print(step(x, y))          loss(p, x, y), and p is moved
step = graph.train(loss, optimizer, mesh=graph.mesh("data"))        many workers, each with its rows of x and y
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

import slangrad as spy
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.gradient import compute_gradient
from slangrad.graph.arrays.traces import tracing
from slangrad.graph.arrays.trees import PyTree, filled, tree_map
from slangrad.graph.calls import results_of
from slangrad.graph.ir.devices import host_array, on_device, put
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import Node, new_input, topological_order
from slangrad.graph.ir.values import ArrayValue, as_tensor, copied, device_of, layout_of
from slangrad.graph.lowering.choose import Choose, by_slang, chooser, of_first
from slangrad.graph.output.explain import PlanExplanation
from slangrad.graph.planning.options import PlanOptions, Settings
from slangrad.graph.planning.plan import Plan
from slangrad.graph.trace import (
    CallArguments,
    Function,
    Plans,
    inputs_of,
    is_result,
    layouts_of,
    loss_of,
    name_of,
    nodes_in,
    renewed,
    settings_of,
    wrap_of,
)
from slangrad.graph.workers.bits import ConsistentPlan
from slangrad.graph.workers.comparison import (
    captured_parts,
    compared_step,
    digest_of_array,
    digest_of_sample,
    graph_parts,
    input_parts,
    number_parts,
    setting_parts,
)
from slangrad.graph.workers.connections.costs import Links, links_of
from slangrad.graph.workers.connections.differences import (
    SAME_ROWS,
    STEP,
    PlanPart,
    call_part,
    digest_of_parts,
)
from slangrad.graph.workers.meshes.mesh import ONE, Mesh, checked_mesh
from slangrad.graph.workers.meshes.specs import parts, whole
from slangrad.graph.workers.parameters import (
    Updates,
    WorkerParameters,
    batch_text,
    check_copies,
    rows_of,
    rows_specs,
)
from slangrad.graph.workers.sharding.buckets import chained, in_buckets, most_copied
from slangrad.graph.workers.sharding.partition import Partition, partitioned
from slangrad.graph.workers.sharding.propagate import Sharding
from slangrad.graph.workers.sharding.step_graph import StepGraph, TrainedVariable
from slangrad.graph.workers.simulation.recorded import StepRecorder
from slangrad.graph.workers.simulation.simulate import Cluster, simulated
from slangrad.graph.workers.simulation.stage_times import simulated_stages
from slangrad.graph.workers.simulation.timeline import Timeline
from slangrad.graph.workers.stages.layers import Layers, LossGraph, layers_of
from slangrad.graph.workers.stages.microbatches import checked_microbatches, microbatched, sizes_of
from slangrad.graph.workers.stages.pipeline import StagePlan

if TYPE_CHECKING:
    from slangrad.graph.workers.checkpoints.checkpoint import Checkpoints
    from slangrad.graph.workers.connections.transfers import Transfer
    from slangrad.optim.optimizers import ParameterUpdate


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers share a step, as `train` takes it."""

    mesh: Mesh
    partition: str | None
    links: Links | str | Path | None
    microbatches: int | None


class Step:
    """`step(*batch)` makes one step and returns the loss before it, a NumPy number, with `has_aux` (loss, aux);
    `step.explain(*batch)` shows its plan."""

    def __init__(
        self,
        loss: Function,
        optimizer: spy.optim.Optimizer,
        settings: Settings,
        workers: WorkerSettings,
        has_aux: bool = False,
    ) -> None:
        self.loss = loss
        self.has_aux = has_aux
        self.settings = settings
        self.links = links_of(workers.links)
        self.optimizer = optimizer
        self.mesh = mesh = checked_mesh(workers.mesh, "train")
        self.is_cut_into_shards = settings["consistent"] == "bits" and bool(mesh.sizes)
        if self.is_cut_into_shards and workers.partition is not None:
            raise ValueError("consistent='bits' leaves parameters and state whole: partition=None")
        self.microbatches = checked_microbatches(workers.microbatches, mesh, settings["consistent"])
        self._held = WorkerParameters(optimizer, mesh, workers.partition)
        self._plans = Plans[_Planned](name_of(loss))
        self._last: _Planned | None = None  # of the last step
        self.checkpoints: Checkpoints | None = None
        self._lock = kept_at_fork(RLock(), WORK)

    def __repr__(self) -> str:
        return f"graph.train({name_of(self.loss)}, {self.optimizer!r})"

    def __call__(self, *batch: object) -> PyTree:
        with self._lock:  # steps of several threads follow each other
            return self._stepped(CallArguments(*batch))

    def _stepped(self, call: CallArguments, recording: StepRecorder | None = None) -> PyTree:
        checkpoints, watch = self.checkpoints, self.mesh.watch
        if checkpoints is not None:
            checkpoints.raise_failure()
        with self._before_step():
            updates = self.optimizer.advance(is_planned=self._last is None)
            planned = self._planned(call, updates)
            samples = "".join(part.value for part in planned.sample_parts())
            numbers = self.numbers_of(call) + samples
        if watch is not None:
            watch.begin(planned.digest, numbers, planned.batch_text)
        if planned is not self._last:  # a plan that is new may have cut the state
            self._last, updates = planned, self.optimizer.advance()
        try:
            begun = None if recording is None else recording.compared
            failed = 0 if checkpoints is None else checkpoints.failed_step
            step_parts = partial(self._step_parts, call, planned)
            with compared_step(self.mesh, step_parts, failed, begun) as comparison:
                loss = planned.run(call, updates)
        except BaseException as error:
            if watch is not None:
                watch.fail(error)
            raise
        self.optimizer.count()
        if checkpoints is not None:
            checkpoints.agreed = comparison.failed_save
            checkpoints.save_if_due()
        return loss

    @contextmanager
    def _before_step(self) -> Iterator[None]:
        """Around work before a step: workers that leave it by an error made no other step than those that go on."""
        try:
            yield
        except BaseException as error:
            if self.mesh.watch is not None:
                self.mesh.watch.leave_before(error)
            raise

    def named_numbers(self, call: CallArguments) -> list[tuple[str, str]]:
        """The numbers of the optimizer and the batch that all workers pass alike, with five digits. Workers may compute
        them by different libraries."""
        settings = [(name, getattr(self.optimizer, name)) for name in self.optimizer.settings]
        arrays = enumerate(call.arrays)
        numbers = [
            (f"array {i} of the batch", x.item())
            for i, x in arrays
            if not len(x.shape) and hasattr(x, "item")
        ]
        return [(name, f"{x:.5g}" if isinstance(x, float) else str(x)) for name, x in (*settings, *numbers)]

    def _step_parts(self, call: CallArguments, planned: _Planned) -> Iterator[PlanPart]:
        """Those of a step whose plan all workers have agreed on."""
        number = {"number of the step function": self._held.number}
        yield from setting_parts(number)
        yield PlanPart("the batch of a worker", planned.batch_text, SAME_ROWS)
        yield from number_parts(self.named_numbers(call))
        yield from planned.sample_parts()

    def numbers_of(self, call: CallArguments) -> str:
        return " ".join(number for _, number in self.named_numbers(call))

    @property
    def common_settings(self) -> dict[str, object]:
        """Those that all workers pass alike."""
        return {
            **self.settings,
            "optimizer": type(self.optimizer).__name__,
            "partition": self._held.partition,
            "microbatches": self.microbatches,
            "has_aux": self.has_aux,
        }

    def wait(self) -> None:
        """Return when the last checkpoint is on the disk. GraphError (E1049) where it could not be written."""
        if self.checkpoints is not None:
            self.checkpoints.wait()

    def explain(
        self, *batch: object, dot: bool = False, links: Links | str | Path | None = None
    ) -> Any:  # with `dot` a text
        """The plan of such a batch, as of `jit`; no step is made. With many workers there are, too, the seconds of all
        exchanges and the critical path, by the cost model, and how each tensor is cut. `links`: the costs of
        exchanges, by default those of the cluster, of `train`, or of a common host. All workers make a plan
        together, so each worker calls this, unless a step with such a batch was made before."""
        planned = self._planned(CallArguments(*batch), self.optimizer.advance(is_planned=True))
        costs = getattr(self.mesh, "costs", self.links) if links is None else links_of(links)
        explanation = PlanExplanation(planned.plan, planned.workers_text(costs))
        return explanation.dot if dot else explanation

    def timeline(self, *batch: object) -> Timeline:
        """Make a step as a call does, and return its times on this worker, measured: `print` shows a table,
        `save("step.json")` writes a trace for chrome://tracing and Perfetto, `save("step.svg")` a picture. The first
        step of a batch compiles kernels, too. Each worker calls this, as it is a step. ValueError for
        consistent="bits". Other errors are those of a step."""
        if self.is_cut_into_shards:
            raise ValueError("consistent='bits' has no timeline: its shards run one after another")
        with self._lock:
            call = CallArguments(*batch)
            with self._before_step():
                planned = self._planned(call, self.optimizer.advance(is_planned=self._last is None))
            with planned.recorded() as recording:
                self._stepped(call, recording)
        return recording.timeline(self.mesh, planned.peak)

    @property
    def parameters(self) -> PyTree:
        """In the form in which the optimizer got them, gathered from all workers where they are cut. All workers read
        this property together."""
        return self._held.gathered()

    def planned_for(self, mesh: Mesh, *batch: object, by_cost: bool = True) -> _Planned:
        """The plan of one worker of another mesh, whose workers each pass such a batch. `by_cost`: libraries for
        products are not tried on this machine. ValueError for consistent="bits": there the shards run one after
        another, and each has a plan of its own."""
        if self.is_cut_into_shards:
            raise ValueError("consistent='bits' has no plan for other meshes")
        return _Planned(self, CallArguments(*batch), self._held.planned_for(mesh), mesh, by_cost)

    def _planned(self, call: CallArguments, updates: Updates) -> _Planned:
        flags = tuple(flag for _, update in updates for flag in update.settings if isinstance(flag, bool))
        key = call.key, flags, len(updates[0][1].settings)
        return self._plans.of(key, lambda: _Planned(self, call, self._held, self.mesh))


class _Planned:
    """The inputs of the plan: parameters, the batch, state, numbers among the settings."""

    def __init__(
        self, step: Step, call: CallArguments, held: WorkerParameters, mesh: Mesh, by_cost: bool = False
    ) -> None:
        parameters, batch = held.inputs(), rows_of(call.arrays, mesh)
        try:
            with tracing() as trace:
                wrt = map(Array, parameters)
                model = tree_map(lambda leaf: held.seen(next(wrt)), step.optimizer.tree)
                loss = step.loss(model, *call.of(batch))
        except GraphError as error:
            count = parts(mesh.batch_cuts, mesh.cuts)
            if count > 1 and error.code == "E1042":
                shapes = ", ".join(str(node.shape) for node in batch)
                error.add_note(f"note: the batch has the rows of {count} workers: {shapes}")
            raise
        (output, tree), origin = loss_of(loss, step.loss, step.has_aux), dict[Node, Node]()
        self._has_aux, self._aux, self._returned = step.has_aux, renewed(tree), nodes_in(tree)
        del model, loss, tree
        trace.refuse_kept()
        aux = self._returned
        gradients = compute_gradient(output, parameters, origin=origin)
        links = mesh.costs if isinstance(mesh, Cluster) else step.links
        sizes = sizes_of(mesh, step.microbatches, held.held_bytes(), links, call.arrays)
        loss_graph = LossGraph(output, parameters, batch, origin)
        layers = layers_of(loss_graph, sizes, step.settings["memory"], held.owners)
        if step.has_aux and (step.is_cut_into_shards or layers.microbatches > 1 or mesh.stages > 1):
            raise ValueError(
                "has_aux has neither stages nor micro-batches, nor a mesh with consistent='bits'"
            )
        held.cut(parameters, [output, *aux, *gradients], layers.owners)
        gradients = held.cut_alike(gradients)
        updates = step.optimizer.advance(is_planned=True)
        settings = new_input((len(updates[0][1].settings),), np.dtype(np.float64), "settings")
        variables = _variables(updates, parameters, gradients, settings)
        states = [state for variable in variables for state in variable.states]
        kept = {new: old for variable in variables for old, new in variable.updates.items()}
        outputs, inputs = [output, *aux, *kept], [*parameters, *batch, *states, settings]
        self._device = device_of(held.tensors[0])
        self.digest, self.batch_text = "", batch_text(call.arrays)
        self._captured: list[Node] = []  # compared among workers
        if mesh.watch:  # workers agree before they wait for each other to make the plan
            self._captured = [node for node in topological_order(*outputs) if node.op == "captured"]
            held.number = held.number or mesh.watch.number("step function")
            which = {
                "mesh": mesh.name,
                "batch of the mesh": mesh.batch,
                "number of the step function": held.number,
            }
            settings_parts = setting_parts({**which, **step.common_settings})
            numbers = [*number_parts(step.named_numbers(call))]
            common = [
                *settings_parts,
                *input_parts(batch, parameters, step.optimizer.names),
                *graph_parts(outputs),
                *captured_parts(self._captured, self._device, digest_of_array),
                *held.parts(),
                *setting_parts(layers.numbers),
            ]
            self.digest = digest_of_parts(common)
            mesh.watch.call = STEP + self.batch_text
            mesh.watch.agree(
                self.digest, step.numbers_of(call), lambda: [call_part("a step"), *numbers, *common]
            )
        check_copies(call.arrays, mesh, self._device)
        self.sharding: Sharding | None = None
        self._staged: StagePlan | None = None
        self._mesh = mesh
        self._choose: Choose | None = by_slang if by_cost else None
        graph = StepGraph(outputs, inputs, batch, kept, variables, step.optimizer.names)
        self._is_dense = bool(mesh.links) or step.is_cut_into_shards
        if step.is_cut_into_shards:
            self._by_shards(step, call, held, graph)
        elif layers.microbatches > 1 or mesh.stages > 1:
            self._by_stages(step, call, held, graph, layers, links)
        else:
            self._by_parts(step, call, held, graph, layers, links)
        self._parameters = held.tensors
        self._settings = as_tensor(self._device, on_device(self._device, np.zeros(settings.shape)))

    def _by_shards(self, step: Step, call: CallArguments, held: WorkerParameters, graph: StepGraph) -> None:
        layouts = self._layouts(step, call, held, graph)
        runs = ConsistentPlan(graph, self._mesh, self._device, layouts, **step.settings)
        self.plan, self._run = runs.plan, runs.run

    def _by_stages(
        self,
        step: Step,
        call: CallArguments,
        held: WorkerParameters,
        graph: StepGraph,
        layers: Layers,
        links: Links,
    ) -> None:
        mesh = microbatched(self._mesh, layers.microbatches)
        sharding = self._sharding(step, held, graph, mesh, layers, links)
        local = self._local(step, held, graph, mesh, sharding)
        layouts, limit = self._layouts(step, call, held, graph), step.settings["memory"]
        options = PlanOptions(layouts, memory=limit, choose=self._choose)
        staged = StagePlan(local, graph, layers, mesh, self._device, options)
        self.plan, self._run, self._staged = staged.plan, staged.run, staged

    def _by_parts(
        self,
        step: Step,
        call: CallArguments,
        held: WorkerParameters,
        graph: StepGraph,
        layers: Layers,
        links: Links,
    ) -> None:
        choose = self._choose
        if self._mesh.links:
            choose = of_first(chooser(self._device, None, Plan), self._mesh)
        sharding = self._sharding(step, held, graph, self._mesh, layers, links)
        local = self._local(step, held, graph, self._mesh, sharding)
        outputs = chained(in_buckets(local.outputs, most_copied(step.settings["memory"])))
        updated = outputs[len(outputs) - len(graph.kept) :]
        place = dict(zip(updated, (local.inputs[node] for node in graph.kept.values()), strict=True))
        layouts = self._layouts(step, call, held, graph)
        inputs = [local.inputs.get(node, node) for node in graph.inputs]
        layouts = {local.inputs.get(node, node): at for node, at in layouts.items()}
        options = PlanOptions(layouts, in_place=place, choose=choose, held=held.counted, **step.settings)
        self.plan = Plan(outputs, inputs, self._device, options)
        self._run = self.plan.run

    def _sharding(
        self, step: Step, held: WorkerParameters, graph: StepGraph, mesh: Mesh, layers: Layers, links: Links
    ) -> Sharding | None:
        """The sharding of all nodes on a mesh, if it has to be searched for."""
        rows = rows_specs(graph.batch, mesh)
        return held.sharding_for(graph.outputs, graph.variables, rows, links, step.settings["memory"], layers)

    def _local(
        self,
        step: Step,
        held: WorkerParameters,
        graph: StepGraph,
        mesh: Mesh,
        sharding: Sharding | None,
    ) -> Partition:
        """The graph of one worker of a mesh."""
        parameters = [variable.parameter for variable in graph.variables]
        states = [state for variable in graph.variables for state in variable.states]
        specs = held.specs_of(parameters, states, step.optimizer.advance(is_planned=True)) | rows_specs(
            graph.batch, mesh
        )
        returned = graph.outputs[: len(graph.outputs) - len(graph.kept)]
        wanted = [
            *(whole(len(node.shape)) for node in returned),
            *map(specs.__getitem__, graph.kept.values()),
        ]
        local = partitioned(graph.outputs, specs, wanted, mesh, sharding=sharding)
        self.sharding = local.sharding
        return local

    def _layouts(
        self, step: Step, call: CallArguments, held: WorkerParameters, graph: StepGraph
    ) -> dict[Node, StridedLayout]:
        """How arguments lie in memory. The plans of any number of workers have the same kernels, so rows of `bits` and
        of several workers have no gaps."""
        if self._mesh.is_planned:
            return {}
        layouts = layouts_of(graph.inputs[:-1], _tensors(step, call, held))
        return {node: at for node, at in layouts.items() if not self._is_dense or node not in graph.batch}

    def sample_parts(self) -> Iterator[PlanPart]:
        """Of captured arrays, as they are now."""
        return captured_parts(self._captured, self._device, digest_of_sample)

    def workers_text(self, links: Links) -> str:
        """A table of a step of all workers, and the shards of tensors; nothing of one worker."""
        if self.sharding is None or not (self._mesh.several or self._staged):
            return ""
        return f"{self.simulated(links)}\n\n{self.sharding}"

    def simulated(self, links: Links, measured: bool = False, slowest: float = 1.0) -> Timeline:
        """A step of all workers, by these costs."""
        if self._staged is not None:
            return simulated_stages(self._staged, self._mesh, links, measured, slowest)
        return simulated(self.plan, self._mesh, links, measured, slowest)

    @property
    def peak(self) -> int:
        """Bytes of memory of this worker."""
        return self.plan.memory if self._staged is None else self._staged.fitted(self._mesh.stage).needed

    @contextmanager
    def recorded(self) -> Iterator[StepRecorder]:
        """Records the steps that run meanwhile."""
        recording, staged = StepRecorder(self._mesh.rank), self._staged
        plans = [self.plan] if staged is None else [*staged.plans.values()]
        messages: list[tuple[Transfer, int]] = []
        for plan in plans:
            plan.recorder = recording.of_plan(plan)
        if staged is not None:
            staged.messages = messages
        try:
            yield recording
        finally:
            for plan in plans:
                plan.recorder = iter
            if staged is not None:
                staged.messages = None
        for message, nbytes in messages:
            recording.exchange(message.name, nbytes, message.start, message.stop)

    def run(self, call: CallArguments, updates: Updates) -> PyTree:
        settings = np.asarray(updates[0][1].settings, np.float64)
        put(self._settings, settings)  # memory that stays, so no call is bound anew
        batch = (as_tensor(self._device, on_device(self._device, array)) for array in call.arrays)
        if self._is_dense:
            batch = (x if layout_of(x).is_dense else copied(x) for x in batch)
        arrays = *batch, *_state_of(updates), self._settings
        value, *aux = self._run([*self._parameters, *arrays], 1 + len(self._returned))
        self._mesh.settle()
        loss = host_array(value)[0]
        if not self._has_aux:
            return loss
        returned = map(wrap_of(call.arrays), aux, self._returned)
        return loss, filled(self._aux, returned, is_result)


def _tensors(step: Step, call: CallArguments, held: WorkerParameters) -> list[ArrayValue]:
    """The arguments but the settings, as this worker holds them now."""
    return [*held.tensors, *call.arrays, *_state_of(step.optimizer.advance())]


def _state_of(updates: Updates) -> list[spy.Tensor]:
    return [tensor for _, update in updates for tensor in update.state]


def _variables(
    updates: Updates, parameters: Sequence[Node], gradients: Sequence[Node], settings: Node
) -> list[TrainedVariable]:
    """The parameters, inputs for their state, and the updates."""
    count, variables = 0, []
    for (_, update), parameter, gradient in zip(updates, parameters, gradients, strict=True):
        states = [
            new_input(parameter.shape, x.dtype, f"state{count + i}")
            for i, x in enumerate(inputs_of(update.state))
        ]
        count += len(states)
        values = _updated(update, parameter, gradient, states, Array(settings))
        variables.append(TrainedVariable(parameter, states, values))
    return variables


def _updated(
    update: ParameterUpdate, parameter: Node, gradient: Node, state: Sequence[Node], settings: Array
) -> dict[Node, Node]:
    """New values of the parameter and its state: the optimizer's own function, as an operator. They are written to
    the memory of the old values."""
    declared = [p.type.name for p in update.function.parameters][2 + len(state) :]
    values = [
        value
        if isinstance(value, bool)
        else settings[k].astype(np.float32 if kind == "float" else np.float64)
        for k, (value, kind) in enumerate(zip(update.settings, declared, strict=True))
    ]
    results = results_of(update.function, [*map(Array, [parameter, gradient, *state]), *values])
    return {node: results[i].node for i, node in zip(sorted(results), [parameter, *state], strict=True)}


def train(
    loss: Function,
    optimizer: spy.optim.Optimizer,
    memory: str | int | None = None,
    *,
    consistent: str | None = None,
    mesh: Mesh = ONE,
    partition: str | None = None,
    links: Links | str | Path | None = None,
    microbatches: int | None = None,
    has_aux: bool = False,
) -> Step:
    """A function that makes one step of an optimizer: `loss(parameters, *batch)`, its gradient and the update are one
    plan. `parameters` have the form in which the optimizer got them; they are changed in place.
    `memory` and `consistent`: as in `jit`. `has_aux`: the loss function returns a pair, the number and a tree of
    arrays such as running statistics, and so does the step. With a mesh all workers get these arrays whole.

    With a mesh, `consistent="bits"` cuts the rows of a batch, a multiple of 8, into eight shards for any number of
    workers. Results have the same bits for 1, 2, 4 and 8 workers.

    `mesh`: many workers make each step together. Each passes its rows of the batch: arrays are cut along their
    first axis, numbers are the same for all. Each gets the loss over all rows, because the loss function is one of
    all rows. Workers begin with the same parameters. `partition`: "states" cuts the optimizer's state, "parameters"
    also the parameters, so that each worker holds a part. Then `step.parameters` gathers them, and the arrays that
    the optimizer got keep their first values. "auto" cuts all tensors in the fastest way, by the costs of `links`
    or of their file, by default those of a common host. `memory` is then the limit of a worker for parameters,
    state and values together.

    An axis `stages` of the mesh puts other layers on each of its workers, which hold the parameters and state of these
    alone. `microbatches`: the parts of a worker's rows that pass the stages one after another, by default up to 4 for
    each stage; without stages, gradients of the parts are summed. With either, `memory` is for all that a worker
    holds.

    GraphError where the loss is not one number (E1045), without an optimizer and for parameters of structs (E1043),
    and where memory is too small (E1047). The code is E1048 without a mesh, where shapes do not fit it or the
    micro-batches, or if a micro-batch needs a value of all rows. ValueError for another value of `consistent` or
    `partition`, for stages and micro-batches with "bits" or `has_aux`, and for `has_aux` with a mesh and "bits".
    WorkerLost where another worker is gone, hangs, or runs another program. ImportError for "auto" without scipy.
    """
    if not isinstance(optimizer, spy.optim.Optimizer):
        message = f"train: an optimizer, not a {type(optimizer).__name__}, moves the parameters"
        raise GraphError("E1043", message, "graph.train(loss, spy.optim.Adam(parameters, lr=1e-3))")
    workers = WorkerSettings(mesh, partition, links, microbatches)
    return Step(loss, optimizer, settings_of(memory, consistent), workers, has_aux)
