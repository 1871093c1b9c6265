"""Views: from shape and strides to other ones, without touching memory.

    (4, 3) strides (3, 1)   [1]           ->  (3,) strides (1,), 3 elements further
                            [:, None]     ->  (4, 1, 3) strides (3, 0, 1)
                            [::-1]        ->  (4, 3) strides (-3, 1), 9 elements further
                            broadcast_to((2, 4, 3))  ->  (2, 4, 3) strides (0, 3, 1)

Strides and offsets count elements. A negative stride goes backwards from the first element.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from slangrad.tensors.elements.shape import contiguous_strides

Sizes = tuple[int, ...]


class View(NamedTuple):
    """`offset` is relative to what the view was made from."""

    shape: Sizes
    strides: Sizes
    offset: int


def indexed(shape: Sizes, strides: Sizes, index: object) -> View:
    """The view of `tensor[index]`; a full index gives one element of rank 1."""
    entries = _expand(index if isinstance(index, tuple) else (index,), len(shape))
    new_shape: list[int] = []
    new_strides: list[int] = []
    offset = dimension = 0
    for entry in entries:
        if entry is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        size, stride = shape[dimension], strides[dimension]
        if isinstance(entry, slice):
            start, length, step = _slice(entry, size)
            new_shape.append(length)
            new_strides.append(step * stride)
        else:
            start = _position(entry, size, dimension)
        offset += start * stride
        dimension += 1
    if not new_shape:
        return View((1,), (1,), offset)
    return View(tuple(new_shape), tuple(new_strides), offset)


def broadcast(shape: Sizes, strides: Sizes, target: Sizes) -> View:
    """Aligned at the last dimension; what is repeated gets stride 0."""
    extra = len(target) - len(shape)
    if extra < 0:
        raise ValueError(f"shape: Broadcast shape must be larger than tensor shape, not {target} for {shape}")
    for i, (size, wanted) in enumerate(zip(shape, target[extra:])):
        if size not in (1, wanted):
            raise ValueError(
                f"shape: Current dimension {size} at index {i} must be equal to new dimension {wanted} or 1"
            )
    repeated = [0 if size == 1 else stride for size, stride in zip(shape, strides)]
    return View(target, (0,) * extra + tuple(repeated), 0)


def transposed(shape: Sizes, strides: Sizes, axes: Sizes) -> View:
    """Dimension i of the view is dimension axes[i]; no axes: all in reverse."""
    rank = len(shape)
    order = tuple(axis + rank if axis < 0 else axis for axis in axes) or tuple(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise ValueError(f"axes: {axes} do not name each of the {rank} dimensions once")
    return View(tuple(shape[i] for i in order), tuple(strides[i] for i in order), 0)


def reshaped(shape: Sizes, strides: Sizes, target: Sizes) -> View | None:
    """The same elements in the same order with other dimensions; None where no strides show them.

    From the last dimension on, dimensions that lie without gaps in each other are one run, and each new dimension
    takes its part of a run.
    """
    if 0 in target:
        return View(target, contiguous_strides(target), 0)
    runs = _runs(shape, strides)
    left, step = runs.pop() if runs else (1, 1)
    steps: list[int] = []
    for size in reversed(target):
        if left == 1 and size != 1:
            left, step = runs.pop()
        if left % size:
            return None
        steps.append(step)
        left, step = left // size, step * size
    return View(target, tuple(reversed(steps)), 0)


def _runs(shape: Sizes, strides: Sizes) -> list[tuple[int, int]]:
    """Elements and stride of each run, the last one last."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    return runs[::-1]


def complete_shape(count: int, target: Sizes) -> Sizes:
    """A shape for `count` elements, in which one size may be -1: what is left for it."""
    unknown = [i for i, size in enumerate(target) if size == -1]
    product = prod(size for size in target if size != -1)
    if unknown and product > 0:
        target = (*target[: unknown[0]], count // product, *target[unknown[0] + 1 :])
    if len(unknown) > 1 or min(target, default=1) < 0 or prod(target) != count:
        raise ValueError(f"shape: {count} elements do not fill shape {target}")
    return target


def reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """How far the elements are from the first one: the least and the most; None when there are no elements."""
    if 0 in shape:
        return None
    spans = [(size - 1) * stride for size, stride in zip(shape, strides)]
    return sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)


def retyped(view: View, old_size: int, new_size: int) -> View:
    """The same memory with elements of another size: the last dimension grows or shrinks."""
    if old_size == new_size:
        return view
    shape, strides, offset = view
    if not shape or (shape[-1] != 1 and strides[-1] != 1):
        raise ValueError(
            f"dtype: elements of {new_size} bytes in place of {old_size} need a last dimension without gaps; "
            "give the shape and strides as well"
        )
    bytes_of = [step * old_size for step in (*strides[:-1], offset, shape[-1])]
    if any(count % new_size for count in bytes_of):
        raise ValueError(
            f"dtype: elements of {new_size} bytes do not fit shape {shape}, strides {strides} and "
            f"offset {offset} of elements of {old_size} bytes"
        )
    *outer, start, last = [count // new_size for count in bytes_of]
    return View((*shape[:-1], last), (*outer, 1), start)


def _expand(index: tuple[object, ...], rank: int) -> list[object]:
    """The index with one entry for each dimension, besides the entries None."""
    for position, entry in enumerate(index):
        _check_entry(entry, position)
    used = sum(entry is not None and entry is not Ellipsis for entry in index)
    if used > rank:
        raise IndexError(f"Too many indices for tensor of dimension {rank}: {used} were given")
    dots = [i for i, entry in enumerate(index) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError("only one '...' may stand in an index")
    at = dots[0] if dots else len(index)
    everything: list[object] = [slice(None)] * (rank - used)
    return [*index[:at], *everything, *index[at + 1 :]]


def _check_entry(entry: object, position: int) -> None:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return
    if isinstance(entry, bool) or not hasattr(entry, "__index__") or getattr(entry, "ndim", 0) != 0:
        raise TypeError(
            f"Illegal argument at dimension {position}: Allowed are int, slice, ..., or None; "
            f"found {type(entry).__name__} instead; tensor.host_view() takes masks and arrays of indices, as NumPy does"
        )


def _slice(entry: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = entry.indices(size)
    length = len(range(start, stop, step))
    return start if length else 0, length, step


def _position(entry: object, size: int, dimension: int) -> int:
    i = operator.index(entry)  # type: ignore[arg-type]
    if not -size <= i < size:
        raise IndexError(f"index {i} is out of range for dimension {dimension} of size {size}")
    return i + size if i < 0 else i
