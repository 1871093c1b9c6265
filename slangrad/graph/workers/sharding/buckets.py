"""Sums over workers in buckets: several arrays in one buffer, in the order in which they are ready.

all_reduce dw2, all_reduce db2, all_reduce dw1        one of dw2 and db2 while dw1 is computed, then one of dw1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import Node, in_order, topological_order, with_inputs
from slangrad.graph.workers.meshes.collectives import behind, merged

# A bucket is full with as many bytes. By simulation, steps of several networks on 2 to 1,024 workers take then at most
# 1 % more than with the best size for each.
BYTES = 4 << 20


def in_buckets(outputs: Sequence[Node]) -> list[Node]:
    """The graph with sums over the same workers made together."""
    bucket_of = {node: bucket for bucket in _buckets(outputs) for node in bucket}

    def members(node: Node) -> list[Node]:
        return bucket_of.get(node, [node])

    new: dict[Node, Node] = {}
    for node in in_order(outputs, lambda node: [x for each in members(node) for x in each.inputs]):
        bucket = members(node)
        if len(bucket) == 1:
            new[node] = with_inputs(node, tuple(new[x] for x in node.inputs))
        else:
            whole = merged([new[x] for each in bucket for x in each.inputs], node.attributes["collective"])
            start = sum(each.size for each in bucket[: bucket.index(node)])
            new[node] = Array(whole).sliced((node.size,), (start,), (1,)).node
    return [new[each] for each in outputs]


def _buckets(outputs: Sequence[Node]) -> Iterator[list[Node]]:
    """Sums that do not depend on each other, the first ready first."""
    level: dict[Node, int] = {}  # sums on the way to a node
    depth = _depths(outputs)
    found: dict[object, list[Node]] = {}
    for node in topological_order(*outputs):
        is_sum = node.op == "all_reduce"
        before = max((level[x] for x in node.inputs), default=0)
        level[node] = before + is_sum
        if is_sum:
            found.setdefault((node.attributes["collective"], node.dtype, before), []).append(node)
    for nodes in found.values():
        bucket: list[Node] = []
        for node in sorted(nodes, key=depth.__getitem__):
            bucket.append(node)
            if sum(each.nbytes for each in bucket) >= BYTES:
                yield bucket
                bucket = []
        if bucket:
            yield bucket


def chained(outputs: Sequence[Node]) -> list[Node]:
    """The graph with each collective behind the one before it: those first whose inputs are ready first."""
    depth = _depths(outputs)
    found = [node for node in depth if "collective" in node.attributes]
    found.sort(key=depth.__getitem__)
    before, new = dict(zip(found[1:], found, strict=False)), dict[Node, Node]()

    def needs(node: Node) -> list[Node]:
        return [*node.inputs, *([before[node]] if node in before else ())]

    for node in in_order(outputs, needs):
        new[node] = with_inputs(node, tuple(new[x] for x in node.inputs))
        if node in before:
            new[node] = behind(new[node], new[before[node]])
    return [new[each] for each in outputs]


def _depths(outputs: Sequence[Node]) -> dict[Node, int]:
    """The number of operators on the longest way to each node."""
    depth: dict[Node, int] = {}
    for node in topological_order(*outputs):
        depth[node] = 1 + max((depth[x] for x in node.inputs), default=0)
    return depth
