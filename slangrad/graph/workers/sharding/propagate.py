"""A spec for each node of a graph, from those of its inputs.

    x: [data, -]   w: [-, -]      x @ w: [data, -]       the gradient x.T @ g: [-, -] sum over data

In order, each node is cut as its largest input is. A partial sum stays one through linear operators, as long as
that does not make it larger. So two gradients of one parameter are added before they are summed over workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, type_text
from slangrad.graph.ir.ops import base_of, is_view
from slangrad.graph.workers.meshes.specs import MICRO, Spec, parts, whole
from slangrad.graph.workers.sharding.index_maps import Axes, IndexMap, index_map_of


@dataclass(frozen=True, slots=True)
class Through:
    """Inputs that are partial sums, and so is the result."""

    inputs: tuple[int, ...]


Choice = Mapping[str, int | Through]  # for axes of the mesh the factor that they cut


def input_specs(index_map: IndexMap, choice: Choice) -> list[Spec]:
    """The specs in which an operator needs its inputs."""
    return [
        Spec(
            _cut(axes, choice),
            tuple((name, "sum") for name, c in choice.items() if isinstance(c, Through) and i in c.inputs),
        )
        for i, axes in enumerate(index_map.inputs)
    ]


def output_spec(index_map: IndexMap, choice: Choice) -> Spec:
    """The spec of the result. That of a loop, whose results have specs of their own, is whole."""
    how = {name: "sum" if isinstance(c, Through) else index_map.combined.get(c) for name, c in choice.items()}
    return Spec(
        _cut(index_map.output, choice),
        tuple((name, reduction) for name, reduction in how.items() if reduction),
    )


def _cut(axes: Axes, choice: Choice) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(name for name, cut in choice.items() if factor is not None and cut == factor) for factor in axes
    )


def is_legal(node: Node, index_map: IndexMap, choice: Choice, sizes: Mapping[str, int]) -> bool:
    """Whether all axes that are cut are multiples of their shards."""
    tensors = [
        *zip(index_map.inputs, (x.shape for x in node.inputs), strict=True),
        (index_map.output, node.shape),
    ]
    return all(
        n % parts(names, sizes) == 0
        for axes, shape in tensors
        for n, names in zip(shape, _cut(axes, choice), strict=True)
    )


@dataclass(frozen=True, slots=True)
class Sharding:
    """`specs` of the results of nodes, and the `choices` that lead to them."""

    specs: dict[Node, Spec]
    choices: dict[Node, Choice]

    def __str__(self) -> str:
        """A line for each tensor that is no view or number: its whole shape, and the axes of the mesh that cut it."""
        lines = []
        for node, spec in self.specs.items():
            if (node.shape or spec.used) and node.op != "constant" and not is_view(node):
                line = f"{type_text(node)} {spec} {node.attributes.get('name') or node.op}"
                lines.append(f"{line:<60}  # {node.place}" if node.place else line)
        return "\n".join(lines)


def propagate(order: Sequence[Node], fixed: Mapping[Node, Spec], sizes: Mapping[str, int]) -> Sharding:
    """Specs for nodes in topological order; `fixed`: those that are given. `sizes`: of the axes of the mesh."""
    specs: dict[Node, Spec] = {}
    choices: dict[Node, Choice] = {}
    for node in order:
        choices[node] = {}
        if node in fixed:
            specs[node] = of_one_part(node, fixed[node], [specs[x] for x in node.inputs], sizes)
        elif not node.inputs:
            specs[node] = whole(len(node.shape))
        else:
            index_map = index_map_of(node)
            choices[node] = chosen(node, index_map, specs, choices, sizes)
            specs[node] = output_spec(index_map, choices[node])
    return Sharding(specs, choices)


def of_one_part(node: Node, spec: Spec, inputs: Sequence[Spec], sizes: Mapping[str, int]) -> Spec:
    """A program says how workers cut an array; that of a micro-batch is the part that it was. GraphError (E1048) where
    this is no multiple of the workers."""
    axis = next((spec_of_input.cut[MICRO] for spec_of_input in inputs if MICRO in spec_of_input.cut), None)
    if axis is None:
        return spec
    cut = spec.with_axis(axis, (*spec.axes[axis], MICRO))
    if node.shape[axis] % parts(cut.axes[axis], sizes):
        workers, count = parts(spec.axes[axis], sizes), sizes[MICRO]
        subject = (
            f"shard {spec} of shape {node.shape}: {node.shape[axis]} is no multiple of {workers} workers"
        )
        raise GraphError("E1048", f"{subject} with {count} micro-batches", "microbatches=1", node.place)
    return cut


def chosen(
    node: Node,
    index_map: IndexMap,
    specs: Mapping[Node, Spec],
    choices: Mapping[Node, Choice],
    sizes: Mapping[str, int],
) -> Choice:
    """The cut that moves the fewest bytes, for each axis of the mesh by itself."""
    if node.op == "result":  # its loop has chosen
        return choices[node.inputs[0]]
    choice: dict[str, int | Through] = {}
    for name in sizes:
        best = _factor(node, index_map, name, choice, specs, sizes)
        through = _through(node, index_map, name, specs) if best is None else None
        if best is not None or through is not None:
            choice[name] = best if through is None else through  # type: ignore[assignment]
    return choice


def _factor(
    node: Node,
    index_map: IndexMap,
    name: str,
    choice: Choice,
    specs: Mapping[Node, Spec],
    sizes: Mapping[str, int],
) -> int | None:
    """The factor of the largest input that is cut; rather one that the result has, as no sum is partial then."""
    factors = []
    for x, axes in zip(node.inputs, index_map.inputs, strict=True):
        axis = specs[x].cut.get(name)
        factor = None if axis is None else axes[axis]
        if factor is not None and is_legal(node, index_map, {**choice, name: factor}, sizes):
            factors.append((factor in index_map.output, base_of(x).nbytes, -factor))
    return -max(factors)[2] if factors else None


def _through(node: Node, index_map: IndexMap, name: str, specs: Mapping[Node, Spec]) -> Through | None:
    held = tuple(i for i, x in enumerate(node.inputs) if (name, "sum") in specs[x].partial)
    if not held or not set(held) <= set(index_map.linear):
        return None
    if len(held) != (1 if index_map.exclusive else len(index_map.linear)):
        return None
    return Through(held) if node.nbytes <= sum(node.inputs[i].nbytes for i in held) else None
