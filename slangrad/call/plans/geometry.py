"""From a call shape to loops: which dimension runs over the lanes, and how each value moves along them.

In: the call shape, and for each *stream* (the memory of an argument, or an index) its stride in each call
dimension.   Out: extents of the kernel's loops, strides a loop, and how a stream moves along the lanes.

    shape (4, 3), strides (12, 4)                 ->  loops (1, 12), strides (0, 4), contiguous
    shape (100000, 3), strides (12, 4), (0, 4)    ->  loops (3, 100000): the long one is over the lanes

Dimensions merge where every stream permits it. Indices are streams as well, so arguments that use the call's index
need no special case here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from slangrad.marshal.host.footprint import Shape

LANES = 16
MOST_THREADS = (1 << 32) - 1

# How a stream moves from one lane to the next; the letter is part of the key of a kernel.
CONTIGUOUS, STRIDED, REPEATED = "c", "s", "r"


@dataclass(slots=True, frozen=True)
class StreamStrides:
    """Strides of one address or index along the call dimensions; `unit` is the stride of neighbors.

    A stream whose argument has no dimensions is `fixed`: it repeats whatever the sizes are.
    """

    strides: Shape
    unit: int
    fixed: bool = False


@dataclass(slots=True, frozen=True)
class Loops:
    """`extents` has one entry for each loop of the kernel, the last one over the lanes."""

    extents: Shape
    strides: tuple[Shape, ...]
    classes: str
    grid: tuple[int, int, int]


def plan_loops(shape: Shape, streams: Sequence[StreamStrides], in_order: bool = False) -> Loops:
    """Merge and order the dimensions of a call; a call without dimensions has one loop of one round. `in_order`: the
    number of a thread is that of its call."""
    rank = max(len(shape), 1)
    dims = [
        (size, tuple(stream.strides[dim] for stream in streams))
        for dim, size in enumerate(shape)
        if size != 1
    ]
    dims = _merged(dims) if in_order else _with_lanes_last(_merged(dims))
    still = tuple(0 for _ in streams)
    dims = [(1, still)] * (rank - len(dims)) + dims
    extents = tuple(size for size, _ in dims)
    by_stream = tuple(tuple(strides[i] for _, strides in dims) for i in range(len(streams)))
    classes = "".join(
        _class_of(stream, strides[-1], extents[-1]) for stream, strides in zip(streams, by_stream)
    )
    return Loops(extents, by_stream, classes, _grid(extents))


def keep_loops(shape: Shape, streams: Sequence[StreamStrides], group: Shape) -> Loops:
    """The dimensions of a call as loops, in their order; in whole groups, if there is a group."""
    extents = shape or (1,)
    by_stream = tuple(stream.strides or (0,) for stream in streams)
    classes = "".join(
        _class_of(stream, strides[-1], extents[-1]) for stream, strides in zip(streams, by_stream)
    )
    if not group:
        return Loops(extents, by_stream, classes, _grid(extents))
    threads = prod(group) * prod(-(-size // part) for size, part in zip(extents, group))
    return Loops(extents, by_stream, classes, (threads, 1, 1))


Dim = tuple[int, Shape]


def _merged(dims: list[Dim]) -> list[Dim]:
    """Join neighbors wherever all streams go on evenly from one to the next."""
    result: list[Dim] = []
    for size, strides in dims:
        if result and all(outer == size * inner for outer, inner in zip(result[-1][1], strides)):
            result[-1] = (result[-1][0] * size, strides)
        else:
            result.append((size, strides))
    return result


def _with_lanes_last(dims: list[Dim]) -> list[Dim]:
    """Put the longest dimension over the lanes when the last one would leave most of them idle."""
    if len(dims) < 2 or dims[-1][0] >= LANES:
        return dims
    longest = max(range(len(dims)), key=lambda i: dims[i][0])
    if dims[longest][0] <= dims[-1][0]:
        return dims
    others = _merged(dims[:longest] + dims[longest + 1 :])
    return [*others, dims[longest]]


def _class_of(stream: StreamStrides, stride: int, extent: int) -> str:
    if stream.fixed or (stride == 0 and extent != 1):
        return REPEATED
    return CONTIGUOUS if stride == stream.unit or extent == 1 else STRIDED


def _grid(extents: Shape) -> tuple[int, int, int]:
    """Threads along x, y, z; loops further out share z, and the kernel takes them apart."""
    padded = (1, 1, *extents)
    outer = 1
    for size in padded[:-2]:
        outer *= size
    return padded[-1], padded[-2], outer
