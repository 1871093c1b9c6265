"""The parameters of a training step, and the parts of them that a worker holds.

    partition       parameters    state of the optimizer    in a step
    None            whole         whole                     gradients: all_reduce
    "states"        whole         cut                       gradients: all_to_all, sum; parameters: all_gather
    "parameters"    cut           cut                       parameters: all_gather; gradients: all_to_all, sum
    "auto"          each as search.py finds it

`graph.shard` of a parameter in the loss cuts it, too; a partition cuts it further. Parameters are cut when
the first plan is made, and state takes memory when the first step is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import prod
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import numpy as np

import slangrad as spy
from slangrad.graph.arrays.array import Array, checked_type
from slangrad.graph.arrays.trees import PyTree, leaves, tree_map
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, Shape, new_input, topological_order, type_text
from slangrad.graph.ir.values import ArrayValue, as_tensor, copied, device_of, is_array, layout_of, numpy_type
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.comparison import SAME_LAYOUT, SAME_SETTINGS, SAME_START, digest_of
from slangrad.graph.workers.connections.costs import Links
from slangrad.graph.workers.connections.differences import PlanPart
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import SHARD, Spec, parts, shard, spec_of, whole
from slangrad.graph.workers.search.search import SearchSpace, searched
from slangrad.graph.workers.sharding.partition import converted
from slangrad.graph.workers.sharding.propagate import Sharding
from slangrad.graph.workers.sharding.step_graph import TrainedVariable
from slangrad.graph.workers.stages.layers import Layers
from slangrad.graph.workers.stages.pipeline import from_all_stages

if TYPE_CHECKING:
    from slangrad.optim.optimizers import ParameterUpdate

Updates: TypeAlias = "Sequence[tuple[object, ParameterUpdate]]"
AUTO = "auto"
MODES = (None, "states", "parameters", AUTO)


class WorkerParameters:
    """`tensors`: the memory that the plan takes, and its `specs`; `cuts`: those of the optimizer's state. `first`: the
    numbers that workers begin with, as digests, and how they lie in memory; none of one worker. `owners`: the stages
    that have them, once that is decided. `number`: that of the step function, from its first plan on."""

    def __init__(self, optimizer: spy.optim.Optimizer, mesh: Mesh, partition: str | None) -> None:
        if partition not in MODES:
            raise ValueError(f"partition must be one of {', '.join(map(repr, MODES))}, not {partition!r}")
        parts = optimizer.advance(is_planned=True)
        self.tensors = [part.numbers for part, _ in parts]
        if len(leaves(optimizer.tree, is_array)) != len(optimizer.parameters):
            advice = "dicts, lists, tuples and dataclasses of arrays"
            raise GraphError("E1043", f"train: parameters in a {type(optimizer.tree).__name__}", advice)
        if len(parts) != len(optimizer.parameters):
            raise GraphError(
                "E1043", "train: parameters are tensors of numbers", "take structs apart into several tensors"
            )
        self.shapes: list[Shape] = [tuple(map(int, tensor.shape)) for tensor in self.tensors]
        self.specs = [whole(len(shape)) for shape in self.shapes]
        self.cuts = self.specs
        self._optimizer, self._mesh, self.partition = optimizer, mesh, partition
        self._is_cut = False
        self.first: list[PlanPart] = []
        self.owners: list[int] | None = None
        self.number = 0

    def planned_for(self, mesh: Mesh) -> WorkerParameters:
        """The same parameters, before they are cut, for another mesh."""
        others = copy(self)
        others._mesh, others._is_cut, others.owners = mesh, False, None
        others.specs = others.cuts = [whole(len(shape)) for shape in self.shapes]
        return others

    def inputs(self) -> list[Node]:
        """An input for each, of its whole shape."""
        return [
            new_input(shape, checked_type(numpy_type(tensor)), f"parameter{i}")
            for i, (shape, tensor) in enumerate(zip(self.shapes, self.tensors, strict=True))
        ]

    def seen(self, parameter: Array) -> Array:
        """A parameter as the loss function gets it: whole, where only its storage is cut."""
        return shard(parameter) if self.partition == "parameters" else parameter

    def cut(
        self, parameters: Sequence[Node], outputs: Sequence[Node], owners: list[int] | None = None
    ) -> None:
        """Decide, when the first plan is made, which parts this worker holds, and go on with these."""
        if self._is_cut or not self._mesh.several:
            return
        self.owners = owners
        if self._mesh.watch:
            self.first = self._first_parts()
        if self.partition == AUTO and self._mesh.cuts:
            return
        by_hand = _by_hand(parameters, outputs, self._mesh)
        specs = [by_hand.get(node, spec) for node, spec in zip(parameters, self.specs, strict=True)]
        rows = [self._in_rows(spec, shape) for spec, shape in zip(specs, self.shapes, strict=True)]
        self._hold(rows if self.partition == "parameters" else specs, rows if self.partition else specs)

    def parts(self) -> list[PlanPart]:
        """Those that all workers have in common: how parameters and state are cut, and their first numbers."""
        rows = list(zip(self._optimizer.names, self.specs, self.cuts, strict=True))
        cuts = [PlanPart(f"the cut of parameter {name}", str(spec), SAME_SETTINGS) for name, spec, _ in rows]
        cuts += [
            PlanPart(f"the cut of the state of parameter {name}", str(cut), SAME_SETTINGS)
            for name, _, cut in rows
        ]
        return [*cuts, *self.first]

    def _first_parts(self) -> list[PlanPart]:
        steps = PlanPart(
            "the number of steps that the optimizer has made", str(self._optimizer.steps), SAME_START
        )
        rows = list(zip(self._optimizer.names, self.tensors, strict=True))
        numbers = [
            PlanPart(f"parameter {name}", digest_of(x), SAME_START, is_shown=False) for name, x in rows
        ]
        layouts = [
            PlanPart(f"the layout of parameter {name}", str(layout_of(x)), SAME_LAYOUT) for name, x in rows
        ]
        return [steps, *numbers, *layouts]

    def _hold(self, specs: Sequence[Spec], cuts: Sequence[Spec]) -> None:
        """Go on with these parts."""
        self.specs, self.cuts, self._is_cut = list(specs), list(cuts), True
        if self._mesh.is_planned or not (self.is_staged or any(spec.used for spec in cuts)):
            return
        none = [whole(len(shape)) for shape in self.shapes]
        for i, spec in enumerate(self.specs):
            if spec.used or not self.owns(i):
                self.tensors[i] = copied(self._part(i, self.tensors[i], none[i], spec))
        rows = zip(self.tensors, self.specs, self.cuts, strict=True)
        parts = [self._part(i, *row) for i, row in enumerate(rows)]
        self._optimizer.cut(parts, lambda i, state: copied(self._part(i, state, none[i], self.cuts[i])))

    @property
    def is_staged(self) -> bool:
        """Whether each stage has some of them."""
        return self.owners is not None and self._mesh.stages > 1

    def owns(self, i: int) -> bool:
        """Whether the stage of this worker has a parameter."""
        return self.owners is None or self.owners[i] == self._mesh.stage

    def held_bytes(self) -> list[int]:
        """Of a worker, for each parameter with the sum of its gradients and its state; the least that is possible
        where partitions are to be found."""
        count, sums = parts(self._mesh.batch_cuts, self._mesh.cuts), 1
        if self.partition == AUTO:
            count, sums = prod(self._mesh.cuts.values()), prod(self._mesh.cuts.values()) // count
        numbers = count if self.partition in ("parameters", AUTO) else 1
        states = count if self.partition else 1
        counts = []
        for shape, tensor, (_, update) in zip(
            self.shapes, self.tensors, self._optimizer.advance(is_planned=True), strict=True
        ):
            size = prod(shape) * numpy_type(tensor).itemsize
            kept = prod(shape) * sum(numpy_type(state).itemsize for state in update.state)
            counts.append(size // numbers + size // sums + kept // states)
        return counts

    def cut_alike(self, gradients: Sequence[Node]) -> list[Node]:
        """The gradients, cut as the optimizer's state is."""
        if self.partition == AUTO or not self._mesh.cuts:
            return list(gradients)
        return [shard(Array(x), *spec.axes).node for x, spec in zip(gradients, self.cuts, strict=True)]

    def specs_of(
        self, parameters: Sequence[Node], states: Sequence[Node], updates: Updates
    ) -> dict[Node, Spec]:
        """The specs of inputs: of the parameters, and of the state of each."""
        cuts = (spec for spec, (_, update) in zip(self.cuts, updates, strict=True) for _ in update.state)
        return dict(zip([*parameters, *states], [*self.specs, *cuts], strict=True))

    def sharding_for(
        self,
        outputs: Sequence[Node],
        variables: Sequence[TrainedVariable],
        batch_specs: Mapping[Node, Spec],
        links: Links,
        memory: int | None,
        layers: Layers,
    ) -> Sharding | None:
        """The sharding of all nodes, None where it is not searched for. From now on the worker holds these parts.
        `outputs`: the loss and the updates; `batch_specs`: those of a batch, or of a micro-batch."""
        if self.partition != AUTO or not self._mesh.cuts:
            return None
        by_hand = _by_hand([variable.parameter for variable in variables], outputs, self._mesh)
        for i, variable in enumerate(variables):
            spec = by_hand.get(variable.parameter)
            if self._is_cut:
                variable.specs, variable.cuts = [self.specs[i]], [self.cuts[i]]
            elif spec is not None:
                variable.specs, variable.cuts = [spec], [spec, self._in_rows(spec, self.shapes[i])]
        space = SearchSpace(self._mesh, links, memory, layers)
        sharding = searched(outputs, batch_specs, variables, space)
        if not self._is_cut:
            specs = [sharding.specs[variable.parameter] for variable in variables]
            self._hold(specs, [sharding.specs[variable.as_cut] for variable in variables])
        return sharding

    @property
    def counted(self) -> int:
        """The bytes of parameters and state that a limit of memory is for, too."""
        if self.partition != AUTO:
            return 0
        sizes, count, updates = self._mesh.cuts, 0, self._optimizer.advance(is_planned=True)
        rows = zip(self.shapes, self.tensors, self.specs, self.cuts, updates, strict=True)
        for shape, tensor, spec, cut, (_, update) in rows:
            count += spec.size(shape, sizes) * numpy_type(tensor).itemsize
            count += sum(cut.size(shape, sizes) * numpy_type(state).itemsize for state in update.state)
        return count

    def _part(self, i: int, tensor: spy.Tensor, held: Spec, wanted: Spec) -> spy.Tensor:
        """A view of the part of one spec in that of another, of a parameter or its state. Nothing where another stage
        has it."""
        if not self.owns(i):
            return spy.Tensor.empty(tensor.device, (0,), tensor.element_type)
        shape, mesh = self.shapes[i], self._mesh
        starts = zip(starts_of(wanted, shape, mesh), starts_of(held, shape, mesh), strict=True)
        offset = sum((at - start) * step for (at, start), step in zip(starts, tensor.strides, strict=True))
        return tensor.view(wanted.local(shape, mesh.cuts) or (1,), tuple(tensor.strides), offset)

    def gathered(self) -> PyTree:
        """All parameters, in the form in which the optimizer got them."""
        tree, device = self._optimizer.tree, device_of(self.tensors[0])
        is_cut = any(spec.used for spec in self.specs)
        if (is_cut or self.is_staged) and self._mesh.watch is not None:
            self._mesh.watch.meet(f"parameters of step function {self.number}")
        held = [i for i in range(len(self.shapes)) if self.owns(i)]
        tensors = {i: self.tensors[i] for i in held}
        if is_cut:
            tensors = dict(zip(held, self._whole(held), strict=True))
        elif not self.is_staged:
            return tree
        wholes = list(tensors.values())
        if self.is_staged:
            forms = [
                (shape, numpy_type(tensor)) for shape, tensor in zip(self.shapes, self.tensors, strict=True)
            ]
            wholes = from_all_stages(self._mesh, self.owners or [], forms, tensors, device)
        arrays = iter(wholes)
        return tree_map(lambda leaf: _in_form_of(leaf, next(arrays)), tree)

    def _whole(self, held: Sequence[int]) -> list[spy.Tensor]:
        """Some parameters, gathered from the workers of this stage."""
        rows = [(self.shapes[i], self.specs[i], self.tensors[i]) for i in held]
        inputs = [
            new_input(spec.local(shape, self._mesh.cuts), checked_type(numpy_type(tensor)))
            for shape, spec, tensor in rows
        ]
        pairs = zip(inputs, rows, strict=True)
        wholes = [converted(x, spec, whole(len(x.shape)), self._mesh) for x, (_, spec, _) in pairs]
        if not held:
            return []
        tensors = Plan(wholes, inputs, device_of(self.tensors[0])).run([tensor for *_, tensor in rows])
        self._mesh.settle()
        return tensors

    def _in_rows(self, spec: Spec, shape: Shape) -> Spec:
        """Cut further among the workers that have other rows of a batch, along the first axis that these divide."""
        names = tuple(name for name in self._mesh.batch_cuts if name not in spec.used)
        count = parts(names, self._mesh.cuts)
        local = spec.local(shape, self._mesh.cuts)
        axis = next((i for i, n in enumerate(local) if n and n % count == 0), None)
        return spec if axis is None else spec.with_axis(axis, (*spec.axes[axis], *names))


def _in_form_of(leaf: object, tensor: spy.Tensor) -> object:
    """The numbers of a parameter. If `leaf` is a NumPy array, they are one, too."""
    return tensor.to_numpy().reshape(leaf.shape) if isinstance(leaf, np.ndarray) else tensor


def starts_of(spec: Spec, shape: Shape, mesh: Mesh) -> tuple[int, ...]:
    """Where this worker's shard of a tensor begins."""
    local = spec.local(shape, mesh.cuts)
    return tuple(mesh.place(names) * n for names, n in zip(spec.axes, local, strict=True))


def _by_hand(parameters: Sequence[Node], outputs: Sequence[Node], mesh: Mesh) -> dict[Node, Spec]:
    """The specs that the loss function gives to parameters by `graph.shard`."""
    specs: dict[Node, Spec] = {}
    for node in topological_order(*outputs):
        if node.op == SHARD and node.inputs[0].op == "input" and (spec := spec_of(node, mesh.sizes)).used:
            specs.setdefault(node.inputs[0], spec)
    return {node: specs[node] for node in parameters if node in specs}


def rows_of(arrays: Sequence[ArrayValue], mesh: Mesh) -> list[Node]:
    """Inputs for a batch of which each worker has some rows."""
    count, inputs = parts(mesh.batch_cuts, mesh.cuts), []
    for i, array in enumerate(arrays):
        shape = tuple(map(int, array.shape))
        shape = (shape[0] * count, *shape[1:]) if shape else shape
        inputs.append(new_input(shape, checked_type(numpy_type(array)), f"batch{i}"))
    return inputs


def batch_text(arrays: Sequence[ArrayValue]) -> str:
    """The types of the rows of this worker."""
    types = ((tuple(map(int, array.shape)), checked_type(numpy_type(array))) for array in arrays)
    return ", ".join(type_text(new_input(shape, dtype)) for shape, dtype in types)


def check_copies(arrays: Sequence[ArrayValue], mesh: Mesh, device: spy.Device) -> None:
    """GraphError (E1048) on all workers where some that are to pass the same rows pass others: those along axes that
    do not cut the batch. All workers call this together."""
    copies = [name for name in mesh.several if name not in mesh.batch_cuts]
    if not mesh.links or not copies:
        return
    sums = [crc32(np.ascontiguousarray(as_tensor(device, array).to_numpy()).data) for array in arrays]
    bounds = np.array([[x, -x] for x in sums], np.int64)
    for over in copies:
        mesh.collective("all_reduce", over, "max").start(None, bounds).wait()
    differs = (bounds.sum(1) != 0).astype(np.int64)
    for over in mesh.batch_cuts:
        mesh.collective("all_reduce", over, "max").start(None, differs).wait()
    if differs.any():
        along = " and ".join(copies)
        message = f"array {differs.argmax()} of the batch is not the same on workers along {along}"
        alike = (
            f"workers with the same place on {', '.join(mesh.batch_cuts)}"
            if mesh.batch_cuts
            else "all workers"
        )
        raise GraphError(
            "E1048", message, f"{alike} pass the same rows, unless graph.mesh has other axes in batch="
        )


def rows_specs(nodes: Sequence[Node], mesh: Mesh) -> dict[Node, Spec]:
    """Cut along the first axis; numbers are copies."""
    specs = ((node, whole(len(node.shape))) for node in nodes)
    return {node: spec.with_axis(0, mesh.batch_cuts) if node.shape else spec for node, spec in specs}
