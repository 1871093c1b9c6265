"""Gradients: the loop of the textbooks, over a graph.

Each node adds to the gradients of its inputs; a node is reached when all that read it have been. The results are
nodes of the same table, so the gradient of a gradient is the same function called twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.graph.array import Array, constant
from slangrad.graph.errors import GraphError
from slangrad.graph.node import Node, new_input, substituted, topological_order
from slangrad.graph.ops import OPS


def compute_gradient(output: Node, wrt: Sequence[Node], seed: Node | None = None) -> list[Node]:
    """The derivatives of `output`, times `seed` (1), with respect to other nodes; zeros where it does not depend."""
    order = topological_order(output)
    active = depending_on(wrt, order)
    node_to_grad = {output: [Array(seed) if seed is not None else ones(output)]}
    for node in reversed(order):
        if node not in node_to_grad or node not in active or not node.inputs:
            continue
        total_grad = add_all(node_to_grad[node])
        for input_node, local_grad in zip(node.inputs, local_gradients(node, total_grad), strict=True):
            if local_grad is not None and input_node in active:
                node_to_grad.setdefault(input_node, []).append(local_grad)
    return [
        add_all(node_to_grad[w]).node if w in node_to_grad and w in active else zeros(w).node for w in wrt
    ]


def local_gradients(node: Node, total_grad: Array) -> tuple[Array | None, ...]:
    """The chain rule at one node: its row of the table."""
    vjp = OPS[node.op].vjp
    if vjp is None:
        raise GraphError("E1044", f"'{node.op}' has no derivative", "graph.stop_gradient(x)", node.place)
    found = vjp(total_grad, Array(node), *map(Array, node.inputs))
    return tuple(None if x.dtype.kind != "f" else each for x, each in zip(node.inputs, found, strict=True))


def depending_on(wrt: Sequence[Node], order: Sequence[Node]) -> set[Node]:
    """Of nodes in order those that depend on some, by values that have derivatives."""
    found = set(wrt)
    for node in order:
        if node.dtype.kind == "f" and not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def add_all(parts: Sequence[Array]) -> Array:
    """Accumulation."""
    total, *rest = parts
    for each in rest:
        total = total + each
    return total


def ones(node: Node) -> Array:
    return constant(1, node.dtype).broadcast_to(node.shape)


def zeros(node: Node) -> Array:
    return constant(0, node.dtype).broadcast_to(node.shape)


def compute_tangent(output: Node, wrt: Sequence[Node], tangents: Sequence[Node]) -> Node:
    """The derivative of `output` along tangents of other nodes: forward mode. A gradient is linear in its seed, so its
    own gradient with respect to the seed is the transpose of the transpose, at any seed."""
    seed = new_input(output.shape, output.dtype, "seed")
    gradients = compute_gradient(output, wrt, seed)
    pairs = zip(gradients, tangents, strict=True)
    parts = [Array(compute_gradient(gradient, [seed], tangent)[0]) for gradient, tangent in pairs]
    total = add_all(parts) if parts else zeros(output)
    return substituted([total.node], {seed: ones(seed).node})[0]
