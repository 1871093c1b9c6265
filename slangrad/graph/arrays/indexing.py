"""`x[...]` of traced arrays: views for integers and slices, a gather for arrays of integers."""

from __future__ import annotations

from math import prod

import numpy as np

from slangrad.graph.arrays.array import Array, along, constant, implements, lifted, mapped
from slangrad.graph.arrays.captured import is_assumed_to_count
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import make
from slangrad.graph.ir.values import Operand


@implements(method="__getitem__")
def indexed(x: Array, index: object) -> Array:
    """NumPy's meaning of `x[index]`. GraphError (E1042) where it does not fit."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if used > x.ndim:
        raise GraphError("E1042", f"{used} indices for an array of shape {x.shape}")
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    apart = _are_apart(parts)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (x.ndim - used)
    view, gathers = _view(x, parts)
    picked = _gathered(view, gathers)
    if not gathers or not apart:
        return picked
    # NumPy puts the axes of indices that are not neighbors in front. An integer is such an index beside an array.
    first, count = gathers[0][0], np.broadcast(*(np.empty(index.shape, bool) for _, index in gathers)).ndim
    return picked.transpose([*range(first, first + count), *range(first), *range(first + count, picked.ndim)])


def _are_apart(parts: list[object]) -> bool:
    """Whether another index stands between those that are integers and arrays."""
    between = (type(None), type(Ellipsis), slice)
    advanced = [i for i, part in enumerate(parts) if not isinstance(part, between)]
    return bool(advanced) and advanced[-1] - advanced[0] >= len(advanced)


def _view(x: Array, parts: list[object]) -> tuple[Array, list[tuple[int, Array]]]:
    """Slices and integers taken, and which axes of that are indexed by arrays."""
    shape, starts, steps, kept = [], [], [], []
    gathers: list[tuple[int, Array]] = []
    axis = 0
    for part in parts:
        if part is None:
            kept.append(1)
            continue
        n = x.shape[axis]
        axis += 1
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            count = len(range(start, stop, step))
            start = start if count else 0
        elif isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_):
            if not -n <= part < n:
                message = f"index {part} is out of range for axis {axis - 1} of shape {x.shape}"
                raise GraphError("E1042", message)
            start, count, step = int(part) % n, 1, 1
        else:
            gathers.append((len(kept), _integers(part)))
            start, count, step = 0, n, 1
        shape.append(count)
        starts.append(start)
        steps.append(step)
        if not isinstance(part, int | np.integer):
            kept.append(count)
    view = x.sliced(tuple(shape), tuple(starts), tuple(steps))
    return view.reshape(tuple(kept)), gathers


def _integers(part: object) -> Array:
    index = lifted(part)
    if index.dtype == bool:
        message = "an index of truth values gives a shape that is not known yet"
        raise GraphError("E1041", message, "np.where(condition, x, 0) keeps the shape")
    if index.dtype.kind not in "iu":
        raise GraphError("E1042", f"an index has integers, not {index.dtype}")
    return index


@implements(method="index_in")
def index_in(index: Array, count: int) -> Array:
    """Indices from 0 on, int64; negative ones count from the end. A kernel reports those that are out of range."""
    return mapped("index_in", [index, constant(count, np.dtype(np.int64))], np.dtype(np.int64))


def _gathered(x: Array, gathers: list[tuple[int, Array]]) -> Array:
    if not gathers:
        return x
    if len(gathers) == 1:
        ((axis, index),) = gathers
        return take(x, index, axis)
    axes = [axis for axis, _ in gathers]
    together = list(range(axes[0], axes[0] + len(axes)))
    if axes != together:
        others = [i for i in range(x.ndim) if i not in axes]
        x, axes = x.transpose([*others[: axes[0]], *axes, *others[axes[0] :]]), together
    if len(axes) == 2 and _counts_rows(gathers[0][1], gathers[1][1], x.shape[axes[0]]):
        return _of_each_row(x, gathers[1][1], axes[0])
    # Neighboring axes are one axis, whose index is computed.
    sizes = [x.shape[axis] for axis in axes]
    flat: Operand = 0
    for (_, index), n in zip(gathers, sizes, strict=True):
        flat = flat * n + index.index_in(n)
    merged = x.reshape((*x.shape[: axes[0]], prod(sizes), *x.shape[axes[-1] + 1 :]))
    return take(merged, flat, axes[0])


def _counts_rows(rows: Array, index: Array, count: int) -> bool:
    """Whether `index` has one element for each of `count` rows, as y of x[np.arange(len(x)), y]."""
    captured = rows.node.attributes.get("captured")
    return index.shape == (count,) and captured is not None and is_assumed_to_count(captured.value, count)


def _of_each_row(x: Array, index: Array, axis: int) -> Array:
    """An element of each row, whose number is along `axis`; the place in the row is along the next one."""
    before, count, after = x.shape[:axis], x.shape[axis], x.shape[axis + 2 :]
    at = index.reshape((1,) * axis + (count, 1) + (1,) * len(after)).broadcast_to((*before, count, 1, *after))
    return take_along_axis(x, at, axis + 1).reshape((*before, count, *after))


@implements(np.take, method="take")
def take(a: object, indices: object, axis: object = None, **_: object) -> Array:
    """np.take: elements along an axis, or of the flat array."""
    (x, axis), index = along(lifted(a), axis), _integers(indices)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    at = index.reshape((1,) * len(before) + (index.size,) + (1,) * len(after))
    return take_along_axis(x, at.broadcast_to((*before, index.size, *after)), axis).reshape(
        before + index.shape + after
    )


@implements(np.take_along_axis)
def take_along_axis(arr: object, indices: object, axis: object = -1) -> Array:
    """np.take_along_axis."""
    (x, axis), index = along(lifted(arr), axis), _integers(indices)
    if index.ndim != x.ndim:
        message = f"take_along_axis: shapes {x.shape} and {index.shape} have other numbers of axes"
        raise GraphError("E1042", message)
    rest = np.broadcast_shapes(*[(*array.shape[:axis], 1, *array.shape[axis + 1 :]) for array in (x, index)])
    x = x.broadcast_to((*rest[:axis], x.shape[axis], *rest[axis + 1 :]))
    index = index.broadcast_to((*rest[:axis], index.shape[axis], *rest[axis + 1 :]))
    return Array(make("take_along", [x.node, index.node], index.shape, x.dtype, axis=axis))
