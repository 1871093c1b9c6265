"""Gradients: the loop of the textbooks, over a graph.

Each node adds to the gradients of its inputs, after all of its readers. The results are nodes of the same table, so
the gradient of a gradient is the same function called twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slangrad.graph.arrays.array import Array, constant
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, in_order, new_input, substituted, topological_order
from slangrad.graph.ir.ops import OPS, Bundle


def compute_gradient(
    output: Node, wrt: Sequence[Node], seed: Node | None = None, origin: dict[Node, Node] | None = None
) -> list[Node]:
    """The derivatives of `output`, times `seed` (1), with respect to other nodes; zeros where it does not depend.
    `origin` gets, for each node that is made, the node whose gradient it is part of, inputs first."""
    order = topological_order(output)
    active, before = depending_on(wrt, order), set(order)
    node_to_grad = {output: [Array(seed) if seed is not None else ones(output)]}
    for node in reversed(order):
        if node not in node_to_grad or node not in active or not node.inputs:
            continue
        total_grad = add_all(node_to_grad[node])
        local_grads = local_gradients(node, total_grad)
        if origin is not None:
            enter_origins(origin, node, [total_grad, *local_grads], before)
        for input_node, local_grad in zip(node.inputs, local_grads, strict=True):
            if local_grad is not None and input_node in active:
                node_to_grad.setdefault(input_node, []).append(local_grad)
    totals = [add_all(node_to_grad[w]) if w in node_to_grad and w in active else zeros(w) for w in wrt]
    for w, total_grad in zip(wrt, totals, strict=True):
        if origin is not None:
            enter_origins(origin, w, [total_grad], before)
    return [total_grad.node for total_grad in totals]


def enter_origins(
    origin: dict[Node, Node], node: Node, cotangents: Iterable[Array | Bundle | None], before: set[Node]
) -> None:
    """Nodes that are new belong to the gradient of `node`. A loop has a cotangent for each of its results."""
    arrays = [x for ct in cotangents for x in (ct.values() if isinstance(ct, dict) else [ct])]

    def fresh(nodes: Iterable[Node]) -> list[Node]:
        return [x for x in nodes if x not in before and x not in origin]

    for new in in_order(fresh(x.node for x in arrays if x is not None), lambda new: fresh(new.inputs)):
        origin[new] = node


def local_gradients(node: Node, total_grad: Array) -> tuple[Array | None, ...]:
    """The chain rule at one node: its row of the table."""
    vjp = OPS[node.op].vjp
    if vjp is None:
        raise GraphError("E1044", f"'{node.op}' has no derivative", "graph.stop_gradient(x)", node.place)
    cotangents = vjp(total_grad, Array(node), *map(Array, node.inputs))
    return tuple(None if x.dtype.kind != "f" else ct for x, ct in zip(node.inputs, cotangents, strict=True))


def depending_on(wrt: Sequence[Node], order: Sequence[Node]) -> set[Node]:
    """The nodes of `order` that depend on `wrt` through values that have derivatives."""
    dependents = set(wrt)
    for node in order:
        if node.dtype.kind == "f" and not dependents.isdisjoint(node.inputs):
            dependents.add(node)
    return dependents


def add_all(parts: Sequence[Array]) -> Array:
    """Accumulation."""
    total, *rest = parts
    for part in rest:
        total = total + part
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
