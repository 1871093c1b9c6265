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

from slangrad.graph.array import Array, constant, reduced
from slangrad.graph.node import Node, Shape, make, new_input, topological_order, with_inputs
from slangrad.graph.workers.buckets import in_buckets
from slangrad.graph.workers.collectives import all_gather, all_reduce, all_to_all, own_part
from slangrad.graph.workers.mesh import Mesh
from slangrad.graph.workers.propagate import Choice, Sharding, input_specs, is_legal, output_spec, propagate
from slangrad.graph.workers.rules import rule_of
from slangrad.graph.workers.specs import SHARD, Spec, parts, spec_of


@dataclass(slots=True)
class Partition:
    """`outputs`: those of the graph, of one worker; `inputs`: for each input of the graph the local one. `sharding`: of
    the whole graph."""

    outputs: list[Node]
    inputs: dict[Node, Node]
    sharding: Sharding


def partitioned(
    outputs: Sequence[Node],
    given: Mapping[Node, Spec],
    wanted: Sequence[Spec],
    mesh: Mesh,
    inputs: dict[Node, Node] | None = None,
) -> Partition:
    """The graph of this worker. `given`: specs of inputs, copies by default; `wanted`: those of the outputs. `inputs`:
    local ones that are there already; others are added."""
    order = topological_order(*outputs)
    fixed = {**given, **{node: spec_of(node, mesh.sizes) for node in order if node.op == SHARD}}
    sharding = propagate(order, fixed, mesh.cuts)
    local = _Local(mesh, sharding, _free(order, sharding), {} if inputs is None else inputs)
    made = [local.of(node, spec) for node, spec in zip(outputs, wanted, strict=True)]
    return Partition(in_buckets(made), local.inputs, sharding)


def _free(order: Sequence[Node], sharding: Sharding) -> set[Node]:
    """The nodes that each worker computes in full from what it has: no collective comes before them."""
    found: set[Node] = set()
    for node in order:
        if not sharding.specs[node].used and not sharding.choices[node] and found.issuperset(node.inputs):
            found.add(node)
    return found


@dataclass(slots=True)
class _Local:
    mesh: Mesh
    sharding: Sharding
    free: set[Node]
    inputs: dict[Node, Node]
    _made: dict[tuple[Node, Spec], Node] = field(default_factory=dict)

    def of(self, node: Node, spec: Spec) -> Node:
        """The shard of a node. Without recursion along chains of nodes that keep their specs."""
        left = [(node, spec)]
        while left:
            key = left[-1]
            if key in self._made:
                left.pop()
                continue
            needs = [each for each in self._needs(*key) if each not in self._made]
            if needs:
                left += needs[::-1]
            else:
                self._made[key] = self._build(*key)
                left.pop()
        return self._made[node, spec]

    def _choice(self, node: Node, spec: Spec) -> Choice | None:
        """How an operator gives its result in a spec by itself; None where it has to be converted."""
        if spec == self.sharding.specs[node]:
            return self.sharding.choices[node]
        if node not in self.free or not node.inputs or spec.partial or node.op in (SHARD, "result", "scan"):
            return None
        rule = rule_of(node)
        made = {}
        for name in self.mesh.cuts:
            factor = rule.output[spec.cut[name]] if name in spec.cut else None
            if factor is not None:
                made[name] = factor
        fits = is_legal(node, rule, made, self.mesh.cuts) and output_spec(rule, made) == spec
        return made if fits else None

    def _needs(self, node: Node, spec: Spec) -> list[tuple[Node, Spec]]:
        choice = self._choice(node, spec)
        if choice is None:
            return [] if self._is_counted(node) else [(node, self.sharding.specs[node])]
        if node.op == SHARD:
            return [(node.inputs[0], spec)]
        return list(zip(node.inputs, input_specs(rule_of(node), choice), strict=True)) if node.inputs else []

    def _is_counted(self, node: Node) -> bool:
        return node.op == "count"

    def _build(self, node: Node, spec: Spec) -> Node:
        shape = spec.local(node.shape, self.mesh.cuts)
        if self._is_counted(node):
            return self._count(node, spec, shape)
        choice = self._choice(node, spec)
        if choice is None:
            held = self.sharding.specs[node]
            return converted(self._made[node, held], node.shape, held, spec, self.mesh)
        if node in self.inputs:
            return self.inputs[node]
        if node.op == "input":
            made = new_input(shape, node.dtype, node.attributes["name"])
            made.place = node.place
            self.inputs[node] = made
            return made
        inputs = tuple(self._made[key] for key in self._needs(node, spec))
        if node.op == SHARD:
            return inputs[0]
        if not node.inputs or shape == node.shape:
            return with_inputs(node, inputs)
        made = make(node.op, inputs, shape, node.dtype, **node.attributes)
        made.place = node.place
        return made

    def _count(self, node: Node, spec: Spec, shape: Shape) -> Node:
        """0, 1, 2, ... from the first element of the shard on."""
        axis = node.attributes["axis"]
        names = spec.axes[axis]
        own = make("count", [], shape, node.dtype, axis=axis, over=names)
        start = self.mesh.place(names) * shape[axis]
        return (Array(own) + constant(start, node.dtype)).node if names else own


def converted(x: Node, shape: Shape, held: Spec, wanted: Spec, mesh: Mesh) -> Node:
    """A shard of another spec, of a tensor of a shape. Partial values that are wanted are held."""
    for name, how in held.partial:
        if (name, how) in wanted.partial:
            continue
        axis = wanted.cut.get(name)
        if axis is not None and wanted.axes[axis] == (*held.axes[axis], name):
            x, held = _scattered(x, axis, name, how, mesh), held.with_axis(axis, wanted.axes[axis])
        else:
            x = _combined(x, name, how, mesh)
        held = held.without_partial(name)
    assert set(held.partial) == set(wanted.partial)
    for name, axis in list(held.cut.items()):
        to = wanted.cut.get(name, axis)
        moves = to != axis and held.axes[axis][-1] == name
        if moves and wanted.axes[to] == (*held.axes[to], name) and wanted.axes[axis] == held.axes[axis][:-1]:
            x = _exchanged(x, axis, to, name, mesh)
            held = held.with_axis(axis, held.axes[axis][:-1]).with_axis(to, wanted.axes[to])
    x, held = _narrowed(x, held, wanted, mesh)  # fewer bytes are gathered then
    for axis, want in enumerate(wanted.axes):
        while held.axes[axis] != want[: len(held.axes[axis])]:
            x = _gathered(x, axis, held.axes[axis][-1], mesh)
            held = held.with_axis(axis, held.axes[axis][:-1])
    x, held = _narrowed(x, held, wanted, mesh)
    return x


def _narrowed(x: Node, held: Spec, wanted: Spec, mesh: Mesh) -> tuple[Node, Spec]:
    """This worker's part along axes of the mesh along which all workers have the same; the others keep their cuts."""
    for axis, want in enumerate(wanted.axes):
        count = len(held.axes[axis])
        if want[:count] == held.axes[axis] and held.used.isdisjoint(want[count:]) and want[count:]:
            x, held = _sliced(x, axis, want[count:], mesh), held.with_axis(axis, want)
    return x, held


def _combined(x: Node, name: str, how: str, mesh: Mesh) -> Node:
    """Of partial values those of all workers. Sums are made on the way; a largest value is NaN where one is, which no
    library promises, so it is found here."""
    if not x.size:
        return x
    if how == "sum" and x.dtype not in (np.int16, np.uint16):  # which libraries do not add
        return all_reduce(x, mesh.collective("all_reduce", name, how))
    flat = Array(x).reshape(-1).node
    every = Array(all_gather(flat, mesh.collective("all_gather", name)))
    return reduced(how, every, (0,), x.dtype).reshape(x.shape).node


def _gathered(x: Node, axis: int, name: str, mesh: Mesh) -> Node:
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


def _scattered(x: Node, axis: int, name: str, how: str, mesh: Mesh) -> Node:
    """Of partial values those of this worker's part, combined in the order of workers."""
    stacked = _stacked(x, axis, mesh.cuts[name])
    if not x.size:
        return _empty(stacked.shape[1:], x)
    got = all_to_all(stacked.node, mesh.collective("all_to_all", name))
    return reduced(how, Array(got), (0,), x.dtype).node


def _exchanged(x: Node, axis: int, to: int, name: str, mesh: Mesh) -> Node:
    """Cut along `to` instead of `axis`."""
    shape = [n // mesh.cuts[name] if i == to else n for i, n in enumerate(x.shape)]
    shape[axis] *= mesh.cuts[name]
    if not x.size:
        return _empty(tuple(shape), x)
    sent = _stacked(x, to, mesh.cuts[name])
    got = Array(all_to_all(sent.node, mesh.collective("all_to_all", name)))
    moved = got.transpose([*range(1, axis + 1), 0, *range(axis + 1, got.ndim)])
    return moved.reshape(tuple(shape)).node


def _sliced(x: Node, axis: int, names: tuple[str, ...], mesh: Mesh) -> Node:
    """The part of this worker."""
    size = x.shape[axis] // parts(names, mesh.cuts)
    starts = tuple(mesh.place(names) * size if i == axis else 0 for i in range(len(x.shape)))
    shape = tuple(size if i == axis else n for i, n in enumerate(x.shape))
    return own_part(x, shape, starts, names)
