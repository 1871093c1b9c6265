"""NumPy's functions of traced arrays that are written in NumPy and need no operator.

np.tile(x, 2)        reshape, broadcast, reshape
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np
from numpy.typing import ArrayLike

from slangrad.graph.arrays.array import (
    Array,
    ToDType,
    along,
    axes_of,
    axis_of,
    constant,
    implements,
    lifted,
    matmul,
)
from slangrad.graph.arrays.functions import (
    concatenate,
    diagonal,
    expand_dims,
    flip,
    mean,
    moveaxis,
    split,
    tensordot,
    where,
)
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.values import Operand

# --- parts


@implements(np.array_split)
def array_split(ary: object, indices_or_sections: Operand, axis: int = 0) -> list[Array]:
    x = lifted(ary)
    if np.ndim(indices_or_sections):
        return split(x, indices_or_sections, axis)
    n, count = x.shape[axis_of(axis, x.ndim)], index(indices_or_sections)
    if count < 1:
        raise GraphError("E1042", f"array_split: {n} elements in {count} parts")
    sizes = [n // count + (i < n % count) for i in range(count - 1)]
    return split(x, np.cumsum(sizes, dtype=int).tolist(), axis)


@implements(np.hsplit)
def hsplit(ary: object, indices_or_sections: Operand) -> list[Array]:
    return split(ary, indices_or_sections, int(lifted(ary).ndim > 1))


@implements(np.vsplit)
def vsplit(ary: object, indices_or_sections: Operand) -> list[Array]:
    axis_of(1, lifted(ary).ndim)  # refuses vectors
    return split(ary, indices_or_sections, 0)


implements(np.dsplit)(lambda ary, indices_or_sections: split(ary, indices_or_sections, 2))


def _at_least(x: Array, ndim: int) -> Array:
    """With axes of one element: before the others, and for three of them behind a matrix, as NumPy has it."""
    behind = int(ndim == 3 and x.ndim in (1, 2))
    return x.reshape((1,) * (ndim - behind - x.ndim) + x.shape + (1,) * behind) if x.ndim < ndim else x


def _enter_at_least(ndim: int) -> None:
    @implements((np.atleast_1d, np.atleast_2d, np.atleast_3d)[ndim - 1])
    def at_least(*arys: object) -> Array | tuple[Array, ...]:
        arrays = tuple(_at_least(lifted(array), ndim) for array in arys)
        return arrays[0] if len(arrays) == 1 else arrays


for _ndim in (1, 2, 3):
    _enter_at_least(_ndim)


@implements(np.dstack)
def dstack(tup: Sequence[object]) -> Array:
    return concatenate([_at_least(lifted(array), 3) for array in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[object]) -> Array:
    return concatenate([x if x.ndim > 1 else x.reshape(-1, 1) for x in map(lifted, tup)], 1)


@implements(np.append)
def append(arr: object, values: object, axis: object = None) -> Array:
    return concatenate([arr, values], axis)


@implements(np.tile)
def tile(A: object, reps: ArrayLike) -> Array:
    x, counts = lifted(A), tuple(map(index, np.atleast_1d(reps)))
    rank = max(x.ndim, len(counts))
    shape, counts = (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - len(counts)) + counts
    pairs = list(zip(counts, shape, strict=True))
    wide = x.reshape([n for size in shape for n in (1, size)]).broadcast_to(
        [n for pair in pairs for n in pair]
    )
    return wide.reshape([count * size for count, size in pairs])


implements(np.flipud)(lambda m: flip(m, 0))
implements(np.fliplr)(lambda m: flip(m, 1))


@implements(np.rot90)
def rot90(m: object, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    x, turns = lifted(m), index(k) % 4
    first, second = (axis_of(axis, x.ndim) for axis in axes)
    axes_of([first, second], x.ndim)  # refuses one that is there twice
    x = flip(
        x, [axis for axis, is_turned in ((first, turns in (2, 3)), (second, turns in (1, 2))) if is_turned]
    )
    return x.swapaxes(first, second) if turns % 2 else x


@implements(np.diag)
def diag(v: object, k: int = 0) -> Array:
    x, k = lifted(v), index(k)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise GraphError("E1042", f"diag: an array of shape {x.shape}, and not of 1 or 2 axes")
    longer = concatenate([x, constant(0, x.dtype).broadcast_to((abs(k),))])
    values = longer.reshape(-1, 1) if k >= 0 else longer.reshape(1, -1)
    return where(np.eye(longer.size, k=k, dtype=bool), values, x.dtype.type(0))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: object, subok: bool = False) -> tuple[Array, ...]:
    arrays = list(map(lifted, args))
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return tuple(array.broadcast_to(shape) for array in arrays)


@implements(np.select)
def select(condlist: Sequence[object], choicelist: Sequence[Operand], default: Operand = 0) -> Array:
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = where(condition, choice, result)
    return lifted(result)


# --- products


@implements(np.inner)
def inner(a: object, b: object, /) -> Array:
    a, b = lifted(a), lifted(b)
    return tensordot(a, b, (-1, -1)) if a.ndim and b.ndim else lifted(a * b)


@implements(np.vdot)
def vdot(a: object, b: object, /) -> Array:
    return matmul(lifted(a).reshape(-1), lifted(b).reshape(-1))


@implements(np.kron)
def kron(a: object, b: object) -> Array:
    a, b = lifted(a), lifted(b)
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (a, b))
    odd, even = tuple(range(1, 2 * rank, 2)), tuple(range(0, 2 * rank, 2))
    products = lifted(expand_dims(a, odd) * expand_dims(b, even))
    return products.reshape(tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


# --- sums


@implements(np.ptp)
def ptp(a: object, axis: object = None, out: None = None, keepdims: bool = False) -> Array:
    x = lifted(a)
    return lifted(np.subtract(x.max(axis, out, keepdims), x.min(axis, out, keepdims)))


@implements(np.count_nonzero)
def count_nonzero(a: object, axis: object = None, *, keepdims: bool = False) -> Array:
    return lifted(lifted(lifted(a) != 0).sum(axis, keepdims=keepdims))


@implements(np.average)
def average(
    a: object,
    axis: Operand = None,
    weights: Operand = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Array:
    x = lifted(a)
    if returned:
        raise GraphError(
            "E1040", "np.average: returned= cannot be traced", "weights.sum() is the other result"
        )
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    w = lifted(weights)
    if w.shape != x.shape:
        if w.ndim != 1 or axis is None or np.ndim(axis):
            raise GraphError(
                "E1042", f"average: weights {w.shape} of an array {x.shape}", "one for each element"
            )
        w = expand_dims(w, tuple(range(1, x.ndim - axis_of(axis, x.ndim))))
    dtype = np.result_type(x.dtype, w.dtype, *([] if x.dtype.kind == w.dtype.kind == "f" else [float]))
    x, w = x.astype(dtype), w.astype(dtype).broadcast_to(x.shape)
    return lifted((x * w).sum(axis, keepdims=keepdims) / w.sum(axis, keepdims=keepdims))


@implements(getattr(np, "trapezoid", None) or getattr(np, "trapz"))  # noqa: B009
def trapezoid(y: object, x: Operand = None, dx: Operand = 1.0, axis: int = -1) -> Array:
    values = lifted(y)
    before = (slice(None),) * axis_of(axis, values.ndim)
    width = dx if x is None else np.diff(lifted(x), axis=axis if np.ndim(x) > 1 else -1)
    if x is not None and np.ndim(x) == 1:
        width = expand_dims(width, tuple(range(1, values.ndim - len(before))))
    both = values[(*before, slice(1, None))] + values[(*before, slice(None, -1))]
    return lifted((width * both / 2.0).sum(axis))


# --- NaN


def _without_nan(a: object, value: float) -> tuple[Array, Array]:
    """With a value in place of each NaN, and where these were."""
    x = lifted(a)
    missing = lifted(np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool))
    return (where(missing, x.dtype.type(value), x) if x.dtype.kind == "f" else x), missing


@implements(np.nansum)
def nansum(
    a: object, axis: object = None, dtype: ToDType = None, *, keepdims: bool = False, **_: object
) -> Array:
    return lifted(_without_nan(a, 0)[0].sum(axis, dtype, keepdims=keepdims))


@implements(np.nanmean)
def nanmean(a: object, axis: object = None, *, keepdims: bool = False, **_: object) -> Array:
    x, missing = _without_nan(a, 0)
    if x.dtype.kind != "f":
        return mean(x, axis, keepdims=keepdims)
    total, count = x.sum(axis, keepdims=keepdims), lifted(~missing).sum(axis, keepdims=keepdims)
    return lifted(total / count.astype(total.dtype))


def _enter_extremum(name: str, start: float) -> None:
    @implements(getattr(np, f"nan{name}"))
    def extremum(a: object, axis: object = None, *, keepdims: bool = False, **_: object) -> Array:
        x, missing = _without_nan(a, start)
        extreme = getattr(x, name)(axis, keepdims=keepdims)
        if x.dtype.kind != "f":
            return lifted(extreme)
        return where(missing.all(axis, keepdims=keepdims), x.dtype.type(np.nan), extreme)


_enter_extremum("max", -np.inf)
_enter_extremum("min", np.inf)


@implements(np.nan_to_num)
def nan_to_num(
    x: object, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    a = lifted(x)
    if a.dtype.kind != "f":
        return a
    most = np.finfo(a.dtype).max
    to = a.dtype.type
    a = where(np.isnan(a), to(nan), a)
    a = where(a == np.inf, to(most if posinf is None else posinf), a)
    return where(a == -np.inf, to(-most if neginf is None else neginf), a)


@implements(np.array_equal)
def array_equal(a1: object, a2: object) -> Array:
    a, b = lifted(a1), lifted(a2)
    return lifted(a == b).all() if a.shape == b.shape else constant(False)


if hasattr(np, "unstack"):  # names of the Array API, from NumPy 2.1 on

    @implements(np.unstack)
    def unstack(x: object, /, *, axis: int = 0) -> tuple[Array, ...]:
        return tuple(moveaxis(x, axis, 0))

    @implements(np.astype)
    def astype(x: object, dtype: ToDType, /, *, copy: bool = True) -> Array:
        return lifted(x).astype(dtype)

    @implements(np.cumulative_sum)
    def cumulative_sum(x: object, /, *, axis: object = None, dtype: ToDType = None, **_: object) -> Array:
        a = lifted(x)
        if axis is None and a.ndim > 1:
            raise GraphError("E1042", f"cumulative_sum: an axis of shape {a.shape} is to be named")
        return lifted(np.cumsum(*along(a, axis), dtype=dtype))

    implements(np.matrix_transpose, np.linalg.matrix_transpose)(lambda x, /: lifted(x).mT)
    implements(np.linalg.matmul)(lambda x1, x2, /: lifted(np.matmul(lifted(x1), x2)))
    implements(np.linalg.tensordot)(lambda x1, x2, /, *, axes=2: tensordot(x1, x2, axes))

    @implements(np.linalg.outer)
    def outer(x1: object, x2: object, /) -> Array:
        a, b = lifted(x1), lifted(x2)
        if a.ndim != 1 or b.ndim != 1:
            raise GraphError("E1042", f"linalg.outer: {a.shape} and {b.shape} are no vectors", "np.outer")
        return lifted(np.outer(a, b))
