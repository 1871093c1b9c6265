"""Copies of arrays that kernels cannot read or give as they lie: views without strides, results that are views.

In: the nodes of a graph.   Out: nodes that compute the same, with copies among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slangrad.graph.ir.layout import StridedLayout, dense
from slangrad.graph.ir.node import Node, make, rebuilt, with_inputs
from slangrad.graph.ir.ops import base_of, is_view, kind_of


def own_layout(node: Node, layouts: Mapping[Node, StridedLayout]) -> StridedLayout:
    if node.op == "count":
        return StridedLayout(
            node.shape, tuple(int(i == node.attributes["axis"]) for i in range(len(node.shape)))
        )
    return layouts.get(node) or dense(node.shape)


def with_copies(
    outputs: Sequence[Node], layouts: dict[Node, StridedLayout], dense_scans: bool = False
) -> list[Node]:
    """The graph with copies of views without strides, of outputs that are no result of their own kernel, and of
    numbers that are read as arrays. `dense_scans`: loops get arrays without gaps."""
    seen: dict[Node, StridedLayout] = {}

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if kind_of(node) in ("contract", "gather", "loop", "exchange"):
            inputs = tuple(copied(x) if base_of(x).op == "constant" else x for x in inputs)
        if node.op == "scan" and dense_scans:
            inputs = tuple(x if x not in seen or seen[x].is_dense else copied(x) for x in inputs)
        new = with_inputs(node, inputs)
        if is_view(new):
            at = seen[new.inputs[0]].seen_by(new)
            if at is None:
                copy = copied(new.inputs[0])
                new, at = with_inputs(new, (copy,)), dense(copy.shape).seen_by(new)
            assert at is not None
            seen[new] = at
        else:
            seen[new] = own_layout(new, layouts)
        return new

    nodes = rebuilt(outputs, change)
    return [
        copied(node) if is_view(node) or kind_of(node) == "source" or node.op == "count" else node
        for node in nodes
    ]


def copied(node: Node) -> Node:
    return make("positive", [node], node.shape, node.dtype)
