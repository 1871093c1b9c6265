"""NumPy's functions of traced arrays, in terms of operators; FUNCTIONS and METHODS list all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import index

import numpy as np
from numpy.typing import ArrayLike

from slangrad.graph.arrays.array import (
    METHODS,
    Array,
    Casting,
    ToDType,
    along,
    axes_of,
    axis_of,
    constant,
    implements,
    is_beyond,
    lifted,
    mapped,
    matmul,
    reduced,
)  # fmt: skip
from slangrad.graph.arrays.contractions import einsum
from slangrad.graph.arrays.indexing import take
from slangrad.graph.arrays.keywords import refuse
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import DType, make
from slangrad.graph.ir.values import Operand


def _total(name: str) -> Callable[..., Array]:
    def total(
        a: object,
        axis: object = None,
        dtype: ToDType = None,
        out: object = None,
        keepdims: bool = False,
        **rest: object,
    ) -> Array:
        return reduced(name, a, axis, dtype, out, keepdims, **rest)

    return total


def _in_type(name: str, dtype: ToDType) -> Callable[..., Array]:
    """A reduction of one type, None for that of the array."""

    def total(
        a: object, axis: object = None, out: object = None, keepdims: bool = False, **rest: object
    ) -> Array:
        x = lifted(a) if dtype is None else lifted(a).astype(dtype)
        return reduced(name, x, axis, dtype, out, keepdims, **rest)

    return total


for _name in ("sum", "prod", "max", "min"):
    _functions = [getattr(np, spelling) for spelling in (_name, f"a{_name}") if hasattr(np, spelling)]
    implements(*_functions, method=_name)(
        _total(_name) if _name in ("sum", "prod") else _in_type(_name, None)
    )
implements(np.any, method="any")(_in_type("sum", bool))
implements(np.all, method="all")(_in_type("prod", bool))


# --- sums


def _floats(x: Array, dtype: ToDType) -> tuple[DType, DType]:
    """The type of a mean, and the one that sums are computed in."""
    to = np.dtype(dtype) if dtype is not None else x.dtype if x.dtype.kind == "f" else np.dtype(float)
    return to, np.dtype(np.float32) if to == np.float16 else to


@implements(np.mean, method="mean")
def mean(
    a: object,
    axis: object = None,
    dtype: ToDType = None,
    out: object = None,
    keepdims: bool = False,
    **rest: object,
) -> Array:
    refuse("mean", out=out, **rest)
    x = lifted(a)
    to, wide = _floats(x, dtype)
    count = int(np.prod([x.shape[i] for i in axes_of(axis, x.ndim)]))
    return lifted(reduced("sum", x.astype(wide), axis, keepdims=keepdims) / count).astype(to)


@implements(np.var, method="var")
def var(
    a: object,
    axis: object = None,
    dtype: ToDType = None,
    out: object = None,
    ddof: int = 0,
    keepdims: bool = False,
    correction: Operand = np._NoValue,
    **rest: object,
) -> Array:
    refuse("var", out=out, **rest)
    x = lifted(a)
    to, wide = _floats(x, dtype)
    if to.kind != "f" or (correction is not np._NoValue and ddof):
        raise GraphError("E1042", "var: dtype is one of floats, and either ddof or correction is given")
    x = x.astype(wide)
    off = x - mean(x, axis, keepdims=True)
    less = ddof if correction is np._NoValue else correction
    count = max(0, int(np.prod([x.shape[i] for i in axes_of(axis, x.ndim)])) - less)
    return lifted(reduced("sum", off * off, axis, keepdims=keepdims) / count).astype(to)


@implements(np.std, method="std")
def std(*args: Operand, **kwargs: Operand) -> Array:
    return lifted(np.sqrt(var(*args, **kwargs)))


@implements(np.cumsum, method="cumsum")
def cumsum(a: object, axis: object = None, dtype: ToDType = None, **_: object) -> Array:
    x, axis = along(lifted(a), axis)
    x = x.astype(np.cumsum(np.zeros(1, x.dtype), dtype=dtype).dtype)
    if x.dtype == bool:
        raise GraphError("E1040", "np.cumsum: dtype=bool cannot be traced")
    return Array(make("cumsum", [x.node], x.shape, x.dtype, axes=(axis,)))


def _place_of(name: str) -> Callable[..., Array]:
    def place(a: object, axis: object = None, *, keepdims: bool = False, **_: object) -> Array:
        rank = lifted(a).ndim
        x, at = along(lifted(a), axis)
        if not x.shape[at]:
            raise GraphError("E1042", f"np.{name}: there is no {name} of no elements, in shape {x.shape}")
        shape = x.shape[:at] + x.shape[at + 1 :]
        places = Array(make(name, [x.node], shape, np.dtype(np.int64), axes=(at,)))
        if keepdims in (False, np._NoValue):
            return places
        return places.reshape((1,) * rank if axis is None else (*shape[:at], 1, *shape[at:]))

    return place


for _function in (np.argmax, np.argmin):
    implements(_function, method=_function.__name__)(_place_of(_function.__name__))


def _different(axes: ArrayLike, ndim: int) -> list[int]:
    """Axes counted from the front, in the given order."""
    counted = [axis_of(i, ndim) for i in np.atleast_1d(axes)]
    axes_of(counted, ndim)  # refuses one that is there twice
    return counted


@implements(np.dot, method="dot")
def dot(a: object, b: object, **_: object) -> Array:
    a, b = lifted(a), lifted(b)
    if not a.ndim or not b.ndim:
        return lifted(a * b)
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, (-1, -2))


@implements(np.tensordot)
def tensordot(a: object, b: object, axes: Operand = 2) -> Array:
    a, b = lifted(a), lifted(b)
    if np.ndim(axes) == 0:
        axes = list(range(a.ndim - index(axes), a.ndim)), list(range(axes))
    first, second = (_different(wanted, x.ndim) for x, wanted in zip((a, b), axes, strict=True))
    if [a.shape[i] for i in first] != [b.shape[j] for j in second]:
        raise GraphError("E1042", f"shapes {a.shape} and {b.shape} do not fit over axes {first} and {second}")
    left = [chr(97 + i) for i in range(a.ndim)]
    right = [chr(65 + i) for i in range(b.ndim)]
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    out = [n for i, n in enumerate(left) if i not in first] + [
        n for j, n in enumerate(right) if j not in second
    ]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b)


@implements(np.linalg.norm)
def norm(x: object, ord: object = None, axis: Operand = None, keepdims: bool = False) -> Array:
    a = lifted(x)
    a, count = (a if a.dtype.kind == "f" else a.astype(float)), len(axes_of(axis, a.ndim))
    if axis is not None and count not in (1, 2):
        raise GraphError("E1042", f"np.linalg.norm: over {count} axes", "over 1 or 2")
    if ord is None or (count, ord) in ((1, 2), (2, "fro")):
        return lifted(np.sqrt((a * a).sum(axis, keepdims=keepdims)))
    if count != 1 or ord not in (1, np.inf, -np.inf):
        message = f"np.linalg.norm: ord={ord!r} over {count} axes cannot be traced"
        raise GraphError("E1040", message, "vectors have 1, 2 and inf, matrices None and 'fro'")
    sizes = np.abs(a)
    reduction = sizes.sum if ord == 1 else sizes.max if ord > 0 else sizes.min
    return lifted(reduction(axis, keepdims=keepdims))


@implements(np.isclose)
def isclose(
    a: object, b: object, rtol: Operand = 1e-5, atol: Operand = 1e-8, equal_nan: bool = False
) -> Array:
    a, b = lifted(a), lifted(b)
    b = b if b.dtype.kind == "f" else b.astype(float)
    is_near = ((np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)) | (a == b)
    return lifted(is_near | (np.isnan(a) & np.isnan(b)) if equal_nan else is_near)


@implements(np.allclose)
def allclose(*args: Operand, **kwargs: Operand) -> Array:
    return reduced("prod", isclose(*args, **kwargs), dtype=bool)


@implements(np.outer)
def outer(a: object, b: object, **_: object) -> Array:
    return lifted(lifted(a).reshape(-1, 1) * lifted(b).reshape(1, -1))


# --- views and parts


@implements(np.reshape)
def reshape(a: object, /, shape: object = None, order: str = "C", **rest: object) -> Array:
    shape = rest.pop("newshape", None) if shape is None else shape
    refuse("reshape", **rest)
    return lifted(a).reshape(shape, order=order)


@implements(np.ravel, method="ravel")
def ravel(a: object, order: str = "C") -> Array:
    return lifted(a).reshape(-1, order=order)


METHODS["flatten"] = ravel
implements(np.transpose, np.permute_dims if hasattr(np, "permute_dims") else np.transpose)(
    lambda a, axes=None: lifted(a).transpose(axes)
)
implements(np.swapaxes)(lambda a, axis1, axis2: lifted(a).swapaxes(axis1, axis2))
implements(np.broadcast_to)(
    lambda array, shape, subok=False: lifted(array).broadcast_to(
        np.atleast_1d(shape).tolist() if not isinstance(shape, tuple) else shape
    )
)


@implements(np.moveaxis)
def moveaxis(a: object, source: ArrayLike, destination: ArrayLike) -> Array:
    x = lifted(a)
    old, new = (_different(places, x.ndim) for places in (source, destination))
    order = [i for i in range(x.ndim) if i not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return x.transpose(order)


@implements(np.expand_dims)
def expand_dims(a: object, axis: ArrayLike) -> Array:
    x = lifted(a)
    places = axes_of(axis, x.ndim + np.size(axis))
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if i in places else next(sizes) for i in range(x.ndim + len(places))))


@implements(np.squeeze, method="squeeze")
def squeeze(a: object, axis: object = None) -> Array:
    x = lifted(a)
    gone = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else axes_of(axis, x.ndim)
    if any(x.shape[i] != 1 for i in gone):
        raise GraphError("E1042", f"squeeze: axis {axis} of shape {x.shape} has not the size 1")
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in gone))


@implements(np.flip)
def flip(m: object, axis: object = None) -> Array:
    x = lifted(m)
    turned = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if i in turned else slice(None) for i in range(x.ndim))]


@implements(np.roll)
def roll(a: object, shift: ArrayLike, axis: ArrayLike | None = None) -> Array:
    x = lifted(a)
    if axis is None:
        return roll(x.reshape(-1), shift, 0).reshape(x.shape)
    for by, place in np.broadcast(shift, axis):
        i = axis_of(place, x.ndim)
        before, at = (slice(None),) * i, -index(by) % max(1, x.shape[i])
        x = concatenate([x[(*before, slice(at, None))], x[(*before, slice(None, at))]], i)
    return x


@implements(np.concatenate)
def concatenate(
    arrays: Sequence[object],
    axis: object = 0,
    out: object = None,
    dtype: ToDType = None,
    casting: Casting = "same_kind",
) -> Array:
    refuse("concatenate", out=out)
    xs = [lifted(array) for array in arrays]
    xs = xs if dtype is None else [x.astype(dtype, casting) for x in xs]
    xs = [x.reshape(-1) for x in xs] if axis is None else xs
    axis = axis_of(0 if axis is None else axis, xs[0].ndim)
    dtype = np.result_type(*[x.dtype for x in xs]) if dtype is None else np.dtype(dtype)
    others = {x.shape[:axis] + x.shape[axis + 1 :] for x in xs}
    if len(others) != 1:
        shapes = ", ".join(str(x.shape) for x in xs)
        raise GraphError("E1042", f"concatenate: shapes {shapes} differ beside axis {axis}")
    xs = [x.astype(dtype) for x in xs if x.shape[axis]] or [xs[0].astype(dtype)]
    if len(xs) == 1:
        return xs[0]
    shape = (*xs[0].shape[:axis], sum(x.shape[axis] for x in xs), *xs[0].shape[axis + 1 :])
    return Array(make("concatenate", [x.node for x in xs], shape, dtype, axis=axis))


@implements(np.stack)
def stack(arrays: Sequence[object], axis: int = 0, out: object = None, **types: Operand) -> Array:
    shapes = {lifted(array).shape for array in arrays}
    if len(shapes) != 1:
        raise GraphError("E1042", f"stack: shapes {', '.join(map(str, sorted(shapes)))} differ")
    return concatenate([expand_dims(array, axis) for array in arrays], axis, out, **types)


@implements(np.vstack)
def vstack(tup: Sequence[object], *, dtype: ToDType = None, casting: Casting = "same_kind") -> Array:
    rows = [x if x.ndim > 1 else x.reshape(1, -1) for x in map(lifted, tup)]
    return concatenate(rows, 0, None, dtype, casting)


@implements(np.hstack)
def hstack(tup: Sequence[object], *, dtype: ToDType = None, casting: Casting = "same_kind") -> Array:
    xs = [x if x.ndim else x.reshape(1) for x in map(lifted, tup)]
    return concatenate(xs, int(xs[0].ndim > 1), None, dtype, casting)


@implements(np.diff)
def diff(a: object, n: int = 1, axis: int = -1, **_: object) -> Array:
    x = lifted(a)
    before = (slice(None),) * axis_of(axis, x.ndim)
    if index(n) < 0:
        raise GraphError("E1042", f"diff: n is {n}")
    for _turn in range(n):
        parts = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = lifted(np.not_equal(*parts) if x.dtype == bool else np.subtract(*parts))
    return x


@implements(np.diagonal, method="diagonal")
def diagonal(a: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    x = moveaxis(lifted(a), (axis1, axis2), (-2, -1))
    x = x[..., max(0, -index(offset)) :, max(0, index(offset)) :]
    n = min(x.shape[-2:])
    return x[..., :n, :n].reshape((*x.shape[:-2], n * n))[..., :: n + 1]


@implements(np.trace, method="trace")
def trace(
    a: object, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: ToDType = None, **_: object
) -> Array:
    return reduced("sum", diagonal(a, offset, axis1, axis2), -1, dtype)


@implements(np.split)
def split(ary: object, indices_or_sections: Operand, axis: int = 0) -> list[Array]:
    x = lifted(ary)
    axis, n = axis_of(axis, x.ndim), x.shape[axis]
    if np.ndim(indices_or_sections) == 0:
        count = index(indices_or_sections)
        if count < 1 or n % count:
            raise GraphError("E1042", f"split: {n} elements are no {count} equal parts")
        indices_or_sections = [n // count * i for i in range(1, count)]
    ends = [0, *indices_or_sections, n]
    return [x[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(ends)]


@implements(np.pad)
def pad(array: object, pad_width: Operand, mode: str = "constant", constant_values: Operand = 0) -> Array:
    x = lifted(array)
    if mode != "constant" or np.ndim(constant_values):
        raise GraphError("E1040", f"np.pad: mode {mode!r} cannot be traced")
    pads = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    if pads.dtype.kind not in "iu" or (pads < 0).any():
        raise GraphError("E1042", f"pad: widths {pad_width} are not integers from 0 on")
    widths = pads.tolist()
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    starts, steps = tuple(a for a, _ in widths), (1,) * x.ndim
    padded = x.placed(shape, starts, steps)
    if constant_values == 0:
        return padded
    inside = constant(True).broadcast_to(x.shape).astype(np.uint8).placed(shape, starts, steps) != 0
    return where(inside, padded, x.dtype.type(constant_values))


@implements(np.repeat, method="repeat")
def repeat(a: object, repeats: ArrayLike, axis: object = None) -> Array:
    (x, axis), counts = along(lifted(a), axis), np.asarray(repeats)
    if counts.size != 1:
        return take(x, np.repeat(np.arange(x.shape[axis]), counts), axis)
    n = index(counts.item())
    wide = expand_dims(x, axis + 1).broadcast_to((*x.shape[: axis + 1], n, *x.shape[axis + 1 :]))
    return wide.reshape((*x.shape[:axis], x.shape[axis] * n, *x.shape[axis + 1 :]))


# --- choices


@implements(np.where)
def where(condition: object, x: Operand = None, y: Operand = None) -> Array:
    if x is None or y is None:
        message = "np.where(condition) gives a shape that is not known yet"
        raise GraphError("E1041", message, "give it two values")
    operands = [value if type(value) in (bool, int, float) else lifted(value) for value in (x, y)]
    dtype = np.result_type(*(z.dtype if isinstance(z, Array) else z for z in operands))
    values = (z.astype(dtype) if isinstance(z, Array) else constant(z, dtype) for z in operands)
    return mapped("where", [lifted(condition).astype(bool), *values], dtype)


@implements(np.clip, method="clip")
def clip(
    a: object,
    a_min: Operand = None,
    a_max: Operand = None,
    *,
    min: Operand = None,
    max: Operand = None,
    **_: object,
) -> Array:
    clipped = lifted(a)
    low, high = a_min if min is None else min, a_max if max is None else max
    # Integers that no element can reach, as NumPy has it.
    low, high = (None if is_beyond(x, clipped.dtype) and (x < 0) == (x is low) else x for x in (low, high))
    clipped = clipped if low is None else lifted(np.maximum(clipped, low))
    return clipped if high is None else lifted(np.minimum(clipped, high))


def _below(x: Array, k: int) -> np.ndarray:
    """The places of a triangle, over the last two axes. A vector is each row of a square matrix."""
    rows, columns = (x.shape * 2)[-2:]
    return np.tri(rows, columns, k, bool)


@implements(np.tril)
def tril(m: object, k: int = 0) -> Array:
    x = lifted(m)
    return where(_below(x, k), x, x.dtype.type(0))


@implements(np.triu)
def triu(m: object, k: int = 0) -> Array:
    x = lifted(m)
    return where(_below(x, k - 1), x.dtype.type(0), x)


@implements(np.full_like)
def full_like(
    a: object,
    fill_value: Operand,
    dtype: ToDType = None,
    order: str = "K",
    subok: bool = True,
    shape: Operand = None,
    *,
    device: object = None,
) -> Array:
    refuse("full_like", order=order, subok=subok, device=device)
    x = lifted(a)
    to = np.dtype(dtype) if dtype is not None else x.dtype
    filler = constant(fill_value, to) if np.isscalar(fill_value) else lifted(fill_value).astype(to)
    return filler.broadcast_to(x.shape if shape is None else np.atleast_1d(shape).astype(int).tolist())


implements(np.zeros_like, np.empty_like)(lambda a, *rest, **named: full_like(a, 0, *rest, **named))
implements(np.ones_like)(lambda a, *rest, **named: full_like(a, 1, *rest, **named))
implements(np.shape)(lambda a: a.shape)
implements(np.ndim)(lambda a: a.ndim)
implements(np.size)(lambda a, axis=None: a.size if axis is None else a.shape[axis])
implements(np.copy, method="copy")(lambda a, order="K", subok=False: lifted(a))
implements(np.result_type)(lambda *xs: np.result_type(*[x.dtype if isinstance(x, Array) else x for x in xs]))


@implements(np.round, np.around, method="round")
def rounded(a: object, decimals: int = 0, **_: object) -> Array:
    x, decimals = lifted(a), index(decimals)
    if decimals == 0 or (x.dtype.kind in "iu" and decimals > 0):
        return x if x.dtype.kind in "iu" else lifted(np.rint(x))
    scale = 10.0 ** abs(decimals)
    nearest = lifted(np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale)
    return nearest.astype(x.dtype) if x.dtype.kind in "iu" else nearest
