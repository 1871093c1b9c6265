"""Copies of arrays that kernels cannot read or give as they lie: views without strides, results that are views.

In: the nodes of a graph.   Out: nodes that compute the same, with copies among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul

from slangrad.graph.ir.layout import StridedLayout, dense
from slangrad.graph.ir.node import Node, make, rebuilt, with_inputs
from slangrad.graph.ir.ops import base_of, behind_views, is_view, kind_of


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


def seen_in_base(node: Node) -> tuple[Node, StridedLayout | None]:
    """The node behind views, and how they show its dense memory; None where no strides do."""
    base, views = behind_views(node)
    at: StridedLayout | None = dense(base.shape)
    for view in views:
        at = at and at.seen_by(view)
    return base, at


def stored_results(outputs: Sequence[Node]) -> list[tuple[Node, StridedLayout | None]]:
    """For each output of a function the node that is stored, and how the output lies there, None for the node itself.
    An output that is a node with its axes in another order or shape has the node's memory, if no other output does."""
    uses = Counter(map(base_of, outputs))
    results: list[tuple[Node, StridedLayout | None]] = []
    for node in outputs:
        base, at = seen_in_base(node)
        is_own = uses[base] == 1 and kind_of(base) != "source" and base.op != "count"
        is_view_of_all = base is not node and is_own and at is not None and _is_permuted(at, base.size)
        results.append((base, at) if is_view_of_all else (node, None))
    return results


def _is_permuted(at: StridedLayout, size: int) -> bool:
    """Whether a layout shows each element of dense memory once."""
    axes = sorted((step, n) for step, n in zip(at.strides, at.shape, strict=True) if n != 1)
    steps = accumulate((n for _, n in axes), mul, initial=1)
    return prod(at.shape) == size and not at.offset and all(a == b for (a, _), b in zip(axes, steps))


def copied(node: Node) -> Node:
    return make("positive", [node], node.shape, node.dtype)
