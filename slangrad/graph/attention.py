"""Attention: each query gets the mean of the values, weighted by the softmax of its products with the keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from slangrad.graph.array import BOOL, Array
from slangrad.graph.errors import GraphError
from slangrad.graph.functions import softmax
from slangrad.graph.node import Shape


def attention(
    q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """softmax(q @ k.T * scale) @ v for stacks of matrices.

    q: (..., n, d), k: (..., m, d), v: (..., m, e); the result is (..., n, e). `scale` is 1 / sqrt(d) by default.
    `mask`, which is broadcast to (..., n, m): booleans, true where a query sees a key, or numbers that are added.
    `causal`: query i sees keys 0 to i. A query that sees no key gets NaN. GraphError (E1042) where shapes do not fit.
    """
    _check_shapes(np.shape(q), np.shape(k), np.shape(v), None if mask is None else np.shape(mask))
    scale = np.shape(q)[-1] ** -0.5 if scale is None else float(scale)
    scores = (q @ np.swapaxes(k, -1, -2)) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if mask is not None:
        kind = mask.dtype if isinstance(mask, Array) else np.result_type(mask)
        scores = np.where(mask, scores, -np.inf) if kind == BOOL else scores + mask
    return softmax(scores) @ v


def _check_shapes(q: Shape, k: Shape, v: Shape, mask: Shape | None) -> None:
    said = f"attention: q {q}, k {k}, v {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise GraphError("E1042", f"{said}: each is a stack of matrices (..., rows, columns)")
    if q[-1] != k[-1]:
        raise GraphError(
            "E1042", f"{said}: rows of q and k have other lengths", "q and k end in the same size"
        )
    if k[-2] != v[-2]:
        raise GraphError(
            "E1042", f"{said}: there are {k[-2]} keys and {v[-2]} values", "a row of v for each of k"
        )
    try:
        batch = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        scores = (*batch, q[-2], k[-2])
        if mask is not None and np.broadcast_shapes(scores, mask) != scores:
            raise ValueError
    except ValueError:
        last = "" if mask is None else f", mask {mask}"
        raise GraphError("E1042", f"{said}{last}: the axes in front do not fit") from None
