"""Collectives in buckets: several arrays in one buffer, in the order in which they are ready.

all_reduce dw2, all_reduce db2, all_reduce dw1        one of dw2 and db2 while dw1 is computed, then one of dw1
all_gather b1, all_gather b2, all_gather w1           one of b1 and b2, and one of w1

An array is written into its part of a sum. Gathers and all-to-alls have a row for each worker, so an array is copied
into its columns: only small ones share a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import Node, in_order, make, topological_order, with_inputs
from slangrad.graph.ir.ops import is_view
from slangrad.graph.workers.meshes.collectives import all_gather, all_to_all, behind, merged

# A bucket is full with as many bytes. By simulation, steps of several networks on 2 to 1,024 workers take then at most
# 1 % more than with the best size for each.
BYTES = 4 << 20
# Bytes of an array that is copied into a bucket and out of it in less time than a collective takes to begin.
SMALL = 128 << 10


def most_copied(memory: int | None) -> int:
    """Bytes of the largest array that is copied into a bucket. None is under a limit of memory: copies take memory."""
    return SMALL if memory is None else 0


def in_buckets(outputs: Sequence[Node], small: int = SMALL) -> list[Node]:
    """The graph with collectives among the same workers made together. `small`: bytes of the largest array that is
    copied into a bucket."""
    bucket_of = {node: bucket for bucket in _buckets(outputs, small) for node in bucket}

    def members(node: Node) -> list[Node]:
        return bucket_of.get(node, [node])

    new: dict[Node, Node] = {}
    for node in in_order(outputs, lambda node: [x for member in members(node) for x in member.inputs]):
        if node in new:
            continue
        bucket = members(node)
        if len(bucket) == 1:
            new[node] = with_inputs(node, tuple(new[x] for x in node.inputs))
        else:
            inputs = [new[x] for member in bucket for x in member.inputs]
            new |= zip(bucket, _TOGETHER[node.op](bucket, inputs), strict=True)
    return [new[node] for node in outputs]


def _sums(bucket: Sequence[Node], inputs: Sequence[Node]) -> Iterator[Node]:
    whole, start = Array(merged(inputs, bucket[0].attributes["collective"])), 0
    for node in bucket:
        yield whole.sliced((node.size,), (start,), (1,)).node
        start += node.size


def _gathers(bucket: Sequence[Node], inputs: Sequence[Node]) -> Iterator[Node]:
    sent = _joined([Array(x).reshape(-1) for x in inputs], 0)
    return _columns(all_gather(sent, bucket[0].attributes["collective"]), bucket)


def _all_to_alls(bucket: Sequence[Node], inputs: Sequence[Node]) -> Iterator[Node]:
    sent = _joined([Array(x).reshape((x.shape[0], -1)) for x in inputs], 1)
    return _columns(all_to_all(sent, bucket[0].attributes["collective"]), bucket)


def _joined(arrays: Sequence[Array], axis: int) -> Node:
    shape = (*arrays[0].shape[:axis], sum(array.shape[axis] for array in arrays))
    return make("concatenate", [array.node for array in arrays], shape, arrays[0].dtype, axis=axis)


def _columns(rows: Node, bucket: Sequence[Node]) -> Iterator[Node]:
    """The parts of all arrays in each worker's row."""
    count, start = rows.shape[0], 0
    for node in bucket:
        size = node.size // count
        yield Array(rows).sliced((count, size), (0, start), (1, 1)).reshape(node.shape).node
        start += size


_TOGETHER = {"all_reduce": _sums, "all_gather": _gathers, "all_to_all": _all_to_alls}


def is_shared(name: str, nbytes: int, small: int = SMALL) -> bool:
    """Whether an array goes into a bucket with others. `name`: of the collective; `nbytes`: of its result."""
    return name == "all_reduce" or nbytes <= small


def _buckets(outputs: Sequence[Node], small: int) -> Iterator[list[Node]]:
    """Collectives that do not depend on each other, the first ready first, and of these the smallest."""
    level: dict[Node, int] = {}  # collectives on the way to a node
    depth = _depths(outputs)
    alike: dict[object, list[Node]] = {}
    for node in topological_order(*outputs):
        before = max((level[x] for x in node.inputs), default=0)
        level[node] = before + (node.op in _TOGETHER)
        if node.op in _TOGETHER and is_shared(node.op, node.nbytes, small):
            alike.setdefault((node.attributes["collective"], node.dtype, before), []).append(node)
    for nodes in alike.values():
        bucket: list[Node] = []
        for node in sorted(nodes, key=lambda node: (depth[node], node.nbytes)):
            bucket.append(node)
            if sum(member.nbytes for member in bucket) >= BYTES:
                yield bucket
                bucket = []
        if bucket:
            yield bucket


def chained(outputs: Sequence[Node]) -> list[Node]:
    """The graph with each collective behind the one before it: those first whose inputs are ready first."""
    depth = _depths(outputs)
    collectives = [node for node in depth if "collective" in node.attributes]
    collectives.sort(key=depth.__getitem__)
    before, new = dict(zip(collectives[1:], collectives, strict=False)), dict[Node, Node]()

    def needs(node: Node) -> list[Node]:
        return [*node.inputs, *([before[node]] if node in before else ())]

    for node in in_order(outputs, needs):
        new[node] = with_inputs(node, tuple(new[x] for x in node.inputs))
        if node in before:
            new[node] = behind(new[node], new[before[node]])
    return [new[output] for output in outputs]


def _depths(outputs: Sequence[Node]) -> dict[Node, int]:
    """The number of operators on the longest way to each node; views and parts of a bucket take no time."""
    depth: dict[Node, int] = {}
    for node in topological_order(*outputs):
        is_step = not is_view(node) and node.op != "concatenate"
        depth[node] = is_step + max((depth[x] for x in node.inputs), default=0)
    return depth
