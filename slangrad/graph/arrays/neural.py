"""Functions that NumPy lacks: `softmax`, `log_softmax`, `layer_norm`, `batch_norm`, `stop_gradient`.

They are written in NumPy, so they take NumPy's own arrays, too.
"""

from __future__ import annotations

import numpy as np

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import make
from slangrad.graph.ir.values import Operand


def stop_gradient(x: Operand) -> Operand:
    """The same array, of x's shape and dtype. Derivatives take it as a constant."""
    return Array(make("stop_gradient", [x.node], x.shape, x.dtype)) if isinstance(x, Array) else x


def softmax(x: Operand, axis: int = -1) -> Operand:
    """exp(x) / sum(exp(x)) along an axis, which does not overflow. The result has x's shape and dtype, float64 for
    integers. GraphError (E1042), or NumPy's AxisError of its own arrays, where x has no such axis."""
    e = np.exp(x - stop_gradient(np.max(x, axis, keepdims=True)))
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(x: Operand, axis: int = -1) -> Operand:
    """The logarithm of `softmax`, with its shape, dtype and errors."""
    x = x - stop_gradient(np.max(x, axis, keepdims=True))
    return x - np.log(np.sum(np.exp(x), axis, keepdims=True))


def _widened(x: Operand) -> Operand:
    """The same; of halves in float, because their squares overflow from 256 on."""
    return x.astype(np.float32) if getattr(x, "dtype", None) == np.float16 else x


def layer_norm(
    x: Operand, gamma: Operand = None, beta: Operand = None, axis: Operand = -1, epsilon: float = 1e-5
) -> Operand:
    """(x - mean) / sqrt(variance + epsilon) over axes, times `gamma`, plus `beta`: arrays that are broadcast to x. The
    variance divides by n. The result has x's shape and the common dtype. GraphError (E1042), or NumPy's own errors of
    its own arrays, where shapes do not fit."""
    wide = _widened(x)
    off = wide - np.mean(wide, axis, keepdims=True)
    result = off / np.sqrt(np.mean(off * off, axis, keepdims=True) + epsilon)
    result = result if wide is x else result.astype(x.dtype)
    result = result if gamma is None else result * gamma
    return result if beta is None else result + beta


def batch_norm(
    x: Operand,
    mean: Operand,
    variance: Operand,
    gamma: Operand = None,
    beta: Operand = None,
    epsilon: float = 1e-5,
    *,
    training: bool = False,
    momentum: float = 0.1,
) -> Operand:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, where axis 1 of x are channels.

    With `training` mean and variance are those of x over all other axes. The result is then a tuple: y, and the new
    running mean and variance. These are (1 - momentum) times the given ones plus momentum times those of x; this
    variance divides by n - 1. No derivative goes through these two. All other arrays have the shape (channels,),
    and y that of x; its dtype is the common one. GraphError (E1042) where shapes do not fit, and in training for
    channels of one value, which have no variance.
    """
    shapes = [np.shape(operand) for operand in (mean, variance, gamma, beta) if operand is not None]
    if np.ndim(x) < 2 or {*shapes} - {(), np.shape(x)[1:2]}:
        shape_texts = ", ".join(map(str, shapes))
        raise GraphError(
            "E1042", f"batch_norm: x {np.shape(x)} and {shape_texts}", "one number for each channel"
        )
    shape, axes = (1, -1) + (1,) * (np.ndim(x) - 2), (0, *range(2, np.ndim(x)))
    if not training:
        scale = 1 / np.sqrt(variance + epsilon) if gamma is None else gamma / np.sqrt(variance + epsilon)
        shift = -mean * scale if beta is None else beta - mean * scale
        return x * np.reshape(scale, shape) + np.reshape(shift, shape)
    wide = _widened(x)
    center = np.mean(wide, axes)
    off = wide - np.reshape(center, shape)
    spread = np.mean(off * off, axes)
    count = np.size(x) // max(1, np.shape(x)[1])
    if count < 2:
        raise GraphError("E1042", f"batch_norm: x {np.shape(x)} has one value a channel, and no variance")
    scale = np.reshape(1 / np.sqrt(spread + epsilon), shape)
    result = off * (scale if gamma is None else scale * np.reshape(gamma, shape))
    if wide is not x:
        to = x.dtype if gamma is None else np.result_type(x, gamma)
        result, center, spread = result.astype(to), center.astype(x.dtype), spread.astype(x.dtype)
    kept, added = 1 - momentum, momentum * count / (count - 1)
    running = (
        kept * mean + momentum * stop_gradient(center),
        kept * variance + added * stop_gradient(spread),
    )
    return (result if beta is None else result + np.reshape(beta, shape), *running)
