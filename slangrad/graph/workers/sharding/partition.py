"""The graph of one worker: nodes of local shapes, and collectives where specs change.

    global                                  worker 1 of data=2
    %2: f32[8,4] = einsum %0 %1             %2: f32[4,4] = einsum %0 %1
    %3: f32[4] = sum %2                     %3: f32[4] = sum %2
                                            %4: f32[4] = all_reduce %3

A value that all workers have is computed in shards where only a shard of it is read: it moves no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slangrad.graph.arrays.array import Array, constant, reduced
from slangrad.graph.arrays.indexing import take
from slangrad.graph.ir.node import Node, Shape, make, new_input, topological_order, with_inputs
from slangrad.graph.ir.values import Operand
from slangrad.graph.workers.meshes.collectives import all_gather, all_reduce, all_to_all, own_part
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import MICRO, SHARD, Spec, parts, spec_of
from slangrad.graph.workers.sharding.index_maps import index_map_of
from slangrad.graph.workers.sharding.moves import Move, is_added, moves
from slangrad.graph.workers.sharding.propagate import (
    Choice,
    Sharding,
    input_specs,
    is_legal,
    output_spec,
    propagate,
)


@dataclass(slots=True)
class Partition:
    """`outputs`: those of the graph, of one worker; `inputs`: for each input of the graph the local one. `sharding`: of
    the whole graph. `origins`: the node of the graph that a local one stands for."""

    outputs: list[Node]
    inputs: dict[Node, Node]
    sharding: Sharding
    origins: dict[Node, Node]


def fixed_specs(order: Sequence[Node], mesh: Mesh) -> dict[Node, Spec]:
    """The specs that the program gives by `graph.shard`."""
    return {node: spec_of(node, mesh.sizes) for node in order if node.op == SHARD}


def partitioned(
    outputs: Sequence[Node],
    specs: Mapping[Node, Spec],
    wanted: Sequence[Spec],
    mesh: Mesh,
    inputs: dict[Node, Node] | None = None,
    sharding: Sharding | None = None,
) -> Partition:
    """The graph of this worker. `specs`: those of inputs, copies by default; `wanted`: those of the outputs. `inputs`:
    local ones that are there already; others are added. `sharding`: of all nodes, by default as specs propagate."""
    order = topological_order(*outputs)
    sharding = sharding or propagate(order, {**specs, **fixed_specs(order, mesh)}, mesh.cuts)
    local = _Local(mesh, sharding, _free(order, sharding), {} if inputs is None else inputs)
    shards = [local.of(node, spec) for node, spec in zip(outputs, wanted, strict=True)]
    return Partition(shards, local.inputs, sharding, local.origins)


def _free(order: Sequence[Node], sharding: Sharding) -> set[Node]:
    """The nodes that each worker computes in full from what it has: no collective comes before them."""
    free: set[Node] = set()
    for node in order:
        if not sharding.specs[node].used and not sharding.choices[node] and free.issuperset(node.inputs):
            free.add(node)
    return free


@dataclass(slots=True)
class _Local:
    mesh: Mesh
    sharding: Sharding
    free: set[Node]
    inputs: dict[Node, Node]
    origins: dict[Node, Node] = field(default_factory=dict)
    _moved_nodes: dict[tuple[Node, Spec], Node] = field(default_factory=dict)

    def of(self, node: Node, spec: Spec) -> Node:
        """The shard of a node. Without recursion along chains of nodes that keep their specs."""
        left = [(node, spec)]
        while left:
            key = left[-1]
            if key in self._moved_nodes:
                left.pop()
                continue
            needs = [need for need in self._needs(*key) if need not in self._moved_nodes]
            if needs:
                left += needs[::-1]
            else:
                shard = self._moved_nodes[key] = self._build(*key)
                self.origins.setdefault(shard, key[0])
                left.pop()
        return self._moved_nodes[node, spec]

    def _choice(self, node: Node, spec: Spec) -> Choice | None:
        """How an operator gives its result in a spec by itself; None where it has to be converted."""
        if spec == self.sharding.specs[node]:
            return self.sharding.choices[node]
        if node not in self.free or not node.inputs or spec.partial or node.op in (SHARD, "result", "scan"):
            return None
        index_map = index_map_of(node)
        choice = {}
        for name in self.mesh.cuts:
            factor = index_map.output[spec.cut[name]] if name in spec.cut else None
            if factor is not None:
                choice[name] = factor
        fits = is_legal(node, index_map, choice, self.mesh.cuts) and output_spec(index_map, choice) == spec
        return choice if fits else None

    def _needs(self, node: Node, spec: Spec) -> list[tuple[Node, Spec]]:
        choice = self._choice(node, spec)
        if choice is None:
            return [] if node.op == "count" else [(node, self.sharding.specs[node])]
        if node.op == SHARD:
            return [(node.inputs[0], spec)]
        return (
            list(zip(node.inputs, input_specs(index_map_of(node), choice), strict=True))
            if node.inputs
            else []
        )

    def _build(self, node: Node, spec: Spec) -> Node:
        shape = spec.local(node.shape, self.mesh.cuts)
        if node.op == "count":
            return self._count(node, spec, shape)
        choice = self._choice(node, spec)
        if choice is None:
            held = self.sharding.specs[node]
            return converted(self._moved_nodes[node, held], held, spec, self.mesh)
        if node in self.inputs:
            return self.inputs[node]
        if node.op == "input":
            local = new_input(shape, node.dtype, node.attributes["name"])
            local.place = node.place
            self.inputs[node] = local
            return local
        inputs = tuple(self._moved_nodes[key] for key in self._needs(node, spec))
        if node.op == SHARD:
            return inputs[0]
        if not node.inputs or shape == node.shape:
            return with_inputs(node, inputs)
        local = make(node.op, inputs, shape, node.dtype, **node.attributes)
        local.place = node.place
        return local

    def _count(self, node: Node, spec: Spec, shape: Shape) -> Node:
        """0, 1, 2, ... from the first element of the shard on."""
        axis = node.attributes["axis"]
        names = spec.axes[axis]
        counted = make("count", [], shape, node.dtype, axis=axis, over=names)
        # An array, where names are those of micro-batches.
        start: Operand = self.mesh.place(names) * shape[axis]
        start = start.astype(node.dtype) if isinstance(start, Array) else constant(start, node.dtype)
        return (Array(counted) + start).node if names else counted


def converted(x: Node, held: Spec, wanted: Spec, mesh: Mesh) -> Node:
    """A shard of another spec."""
    for move in moves(held, wanted):
        x = _MOVED[move.kind](x, move, mesh)
    return x


def _combined(x: Node, move: Move, mesh: Mesh) -> Node:
    """Of partial values those of all workers."""
    name = move.names[0]
    if not x.size:
        return x
    if is_added(move.how, x.dtype):
        return all_reduce(x, mesh.collective("all_reduce", name, move.how))
    flat = Array(x).reshape(-1).node
    every = Array(all_gather(flat, mesh.collective("all_gather", name, move.how)))
    return reduced(move.how, every, (0,), x.dtype).reshape(x.shape).node


def _gathered(x: Node, move: Move, mesh: Mesh) -> Node:
    name, axis = move.names[0], move.axis
    shape = tuple(n * mesh.cuts[name] if i == axis else n for i, n in enumerate(x.shape))
    if not x.size:
        return _empty(shape, x)
    stacked = Array(all_gather(x, mesh.collective("all_gather", name)))
    return stacked.transpose([*range(1, axis + 1), 0, *range(axis + 1, stacked.ndim)]).reshape(shape).node


def _empty(shape: Shape, x: Node) -> Node:
    """An array without elements, of the type of x."""
    return constant(0, x.dtype).broadcast_to(shape).node


def _stacked(x: Node, axis: int, count: int) -> Array:
    """The parts along an axis along a new axis in front."""
    split = Array(x).reshape((*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :]))
    return split.transpose([axis, *range(axis), *range(axis + 1, len(x.shape) + 1)])


def _scattered(x: Node, move: Move, mesh: Mesh) -> Node:
    """Of partial values those of this worker's part, combined in the order of workers."""
    name = move.names[0]
    stacked = _stacked(x, move.axis, mesh.cuts[name])
    if not x.size:
        return _empty(stacked.shape[1:], x)
    received = all_to_all(stacked.node, mesh.collective("all_to_all", name))
    return reduced(move.how, Array(received), (0,), x.dtype).node


def _exchanged(x: Node, move: Move, mesh: Mesh) -> Node:
    """Cut along `to` instead of `axis`."""
    name, axis = move.names[0], move.axis
    shape = [n // mesh.cuts[name] if i == move.to else n for i, n in enumerate(x.shape)]
    shape[axis] *= mesh.cuts[name]
    if not x.size:
        return _empty(tuple(shape), x)
    sent = _stacked(x, move.to, mesh.cuts[name])
    received = Array(all_to_all(sent.node, mesh.collective("all_to_all", name)))
    moved = received.transpose([*range(1, axis + 1), 0, *range(axis + 1, received.ndim)])
    return moved.reshape(tuple(shape)).node


def _sliced(x: Node, move: Move, mesh: Mesh) -> Node:
    """The part of this worker."""
    axis = move.axis
    size = x.shape[axis] // parts(move.names, mesh.cuts)
    if MICRO in move.names:
        return take(Array(x), mesh.place(move.names) * size + Array(_numbers(size)), axis).node
    starts = tuple(mesh.place(move.names) * size if i == axis else 0 for i in range(len(x.shape)))
    shape = tuple(size if i == axis else n for i, n in enumerate(x.shape))
    return own_part(x, shape, starts, move.names)


def _numbers(count: int) -> Node:
    return make("count", [], (count,), np.dtype(np.int64), axis=0)


_MOVED = {
    "combine": _combined, "gather": _gathered, "scatter": _scattered, "exchange": _exchanged, "slice": _sliced,
}  # fmt: skip
