"""Attention: each query gets the mean of the values, weighted by the softmax of its products with the keys.

    attention(q, k, v)     products and a softmax; where scores would not stay in the caches, a node `attend`, which
    keeps none: one pass over the keys, and for the derivative the logarithm of each sum

The derivative of `attend` is two more passes; the derivative of these is that of the same written with products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from slangrad.graph.arrays.array import BOOL, Array, constant, lifted
from slangrad.graph.arrays.contractions import RECOGNIZED
from slangrad.graph.arrays.gradient import zeros
from slangrad.graph.arrays.neural import softmax
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, Shape, make
from slangrad.graph.ir.ops import Bundle, base_of, letters_in
from slangrad.graph.ir.values import Operand
from slangrad.graph.rewriting.rules import is_of_softmax, is_spread, number
from slangrad.graph.trace import pullback

CACHED = 16 << 20  # bytes of scores that are cheaper to keep than to compute again
WIDEST = 256  # numbers of a query that a thread keeps


def attention(
    q: Operand,
    k: Operand,
    v: Operand,
    *,
    mask: Operand = None,
    causal: bool = False,
    scale: float | None = None,
) -> Operand:
    """softmax(q @ k.T * scale) @ v for stacks of matrices.

    q: (..., n, d), k: (..., m, d), v: (..., m, e); the result is (..., n, e), of their common dtype.
    `scale` is 1 / sqrt(d) by default.
    `mask`, which is broadcast to (..., n, m): booleans, true where a query sees a key, or numbers that are added.
    `causal`: query i sees keys 0 to i. A query that sees no key gets NaN. GraphError (E1042) where shapes do not fit.
    """
    _check_shapes(np.shape(q), np.shape(k), np.shape(v), None if mask is None else np.shape(mask))
    scale = np.shape(q)[-1] ** -0.5 if scale is None else float(scale)
    if mask is None and any(isinstance(x, Array) for x in (q, k, v)):
        q, k, v = _alike(q, k, v)
        if _is_large(q, k, v):
            return Streamed("attend", causal, scale).of(q, k, v)[0]
    scores = (q @ np.swapaxes(k, -1, -2)) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if mask is not None:
        kind = mask.dtype if isinstance(mask, Array) else np.result_type(mask)
        scores = np.where(mask, scores, -np.inf) if kind == BOOL else scores + mask
    return softmax(scores) @ v


def _is_large(q: Array, k: Array, v: Array) -> bool:
    """Whether scores are not stored."""
    size = prod(q.shape[:-1]) * k.shape[-2] * q.dtype.itemsize
    is_float = q.dtype in (np.float32, np.float64)
    return size > CACHED and is_float and max(q.shape[-1], v.shape[-1]) <= WIDEST


def by_hand(product: Node) -> Array | None:
    """The node `attend` for a product softmax(q @ k.T * scale) @ v of large scores, written with NumPy."""
    ins, out = letters_in(product.attributes["letters"].upper())
    factors = [*zip(product.inputs, ins, strict=True)]
    if _softmax_of(factors[0][0])[0] is None:
        factors.reverse()
    (share, names), (values, rows) = factors
    scores, scale = _softmax_of(share)
    if scores is None or scores.op != "einsum":
        return None
    pair, place = letters_in(scores.attributes["letters"])
    own = dict(zip(place, names, strict=True))
    pair = ["".join(own.get(c, c) for c in letters) for letters in pair]
    *batch, n, m = list(names)
    summed, width = {*pair[0]} & {*pair[1]} - {*names}, {*rows} - {*names}
    forms = [[*batch, n, *summed], [*batch, m, *summed], [*batch, m, *width]]
    operands = [*zip(scores.inputs, pair, strict=True)]
    operands = [*(operands if n in pair[0] else operands[::-1]), (values, rows)]
    is_attention = len(summed) == len(width) == 1 and [*out] == [*batch, n, *width]
    if not is_attention or any(
        sorted(form) != sorted(letters) for form, (_, letters) in zip(forms, operands, strict=True)
    ):
        return None
    q, k, v = (
        Array(x).transpose([letters.index(c) for c in form])
        for form, (x, letters) in zip(forms, operands, strict=True)
    )
    return Streamed("attend", False, scale).of(q, k, v)[0] if _is_large(q, k, v) else None


def _softmax_of(share: Node) -> tuple[Node | None, float]:
    """The scores and the scale of softmax(scores * scale) along the last axis; None for another node."""
    if share.op != "divide" or len(share.shape) < 2:
        return None, 1
    e, total, last = share.inputs[0], base_of(share.inputs[1]), (len(share.shape) - 1,)
    is_total = total.op == "sum" and total.inputs[0] is e and total.attributes["axes"] == last
    if not is_total or not is_of_softmax(e, total) or not is_spread(share.inputs[1], last):
        return None, 1
    scores, scale = e.inputs[0].inputs[0], 1.0
    while scores.op in ("multiply", "divide"):
        k = int(scores.op == "divide" or number(scores.inputs[1]) is not None)
        factor = number(scores.inputs[k])
        if not factor or not np.isfinite(factor):
            return None, 1
        scale = scale * float(factor) if scores.op == "multiply" else scale / float(factor)
        scores = scores.inputs[1 - k]
    return (scores, scale) if scale and np.isfinite(scale) else (None, 1)


RECOGNIZED.append(by_hand)


def _check_shapes(q: Shape, k: Shape, v: Shape, mask: Shape | None) -> None:
    shapes = f"attention: q {q}, k {k}, v {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise GraphError("E1042", f"{shapes}: each is a stack of matrices (..., rows, columns)")
    if q[-1] != k[-1]:
        raise GraphError(
            "E1042", f"{shapes}: rows of q and k have other lengths", "they end in the same size"
        )
    if not q[-1]:
        raise GraphError("E1042", f"{shapes}: rows of q and k have no elements")
    if k[-2] != v[-2]:
        raise GraphError("E1042", f"{shapes}: {k[-2]} keys and {v[-2]} values", "a row of v for each of k")
    try:
        batch = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        scores = (*batch, q[-2], k[-2])
        if mask is not None and np.broadcast_shapes(scores, mask) != scores:
            raise ValueError
    except ValueError:
        last = "" if mask is None else f", mask {mask}"
        raise GraphError("E1042", f"{shapes}{last}: the axes in front do not fit") from None


def _alike(*arrays: object) -> list[Array]:
    """The arrays in one dtype, with the same axes in front."""
    xs = [lifted(array) for array in arrays]
    dtype, batch = np.result_type(*(x.dtype for x in xs)), np.broadcast_shapes(*(x.shape[:-2] for x in xs))
    return [x.astype(dtype).broadcast_to((*batch, *x.shape[-2:])) for x in xs]


@dataclass(frozen=True, slots=True)
class Streamed:
    """A pass of a node `attend`. `attend`, of q, k, v: the result, and the logarithm of the sum of exp(scores) of
    each query. `attend_by_query` is the cotangent of q, and `attend_by_key` those of k and v. Their inputs are q,
    k, v, the results of `attend`, the cotangent g of the result, and the mean of g for each query."""

    name: str
    causal: bool
    scale: float

    def __repr__(self) -> str:
        return f"<{self.name}{' causal' if self.causal else ''} scale={self.scale:g}>"

    def shapes(self, q: Array | Node, k: Array | Node, v: Array | Node) -> list[Shape]:
        """The shapes of the results."""
        if self.name == "attend":
            return [(*q.shape[:-1], v.shape[-1]), q.shape[:-1]]
        return [q.shape] if self.name == "attend_by_query" else [k.shape, v.shape]

    def flops(self, q: Node, k: Node, v: Node) -> int:
        """Operations: products with the keys and the values, with q and g for the derivatives."""
        d, e = q.shape[-1], v.shape[-1]
        per_pair = {"attend": d + e, "attend_by_query": 2 * d + e, "attend_by_key": 2 * d + 2 * e}[self.name]
        return 2 * prod(q.shape[:-1]) * k.shape[-2] * per_pair // (2 if self.causal else 1)

    def of(self, *xs: Array) -> list[Array]:
        node = make("attend", [x.node for x in xs], (0,), xs[0].dtype, streamed=self)
        shapes = enumerate(self.shapes(*xs[:3]))
        return [Array(make("result", [node], shape, xs[0].dtype, index=i)) for i, shape in shapes]

    # --- derivatives

    def cotangents(self, g: Bundle, y: Array, xs: Sequence[Array]) -> Sequence[Array | None]:
        if self.name != "attend":
            return pullback(
                lambda *xs: [self._composed(*xs)[i] for i in g], xs, range(len(xs)), [*g.values()]
            )
        (q, k, v), (result, logs) = xs, self.of(*xs)
        slope = g.get(0, zeros(result.node))
        mean = (slope * result).sum(-1) - g.get(1, constant(0, q.dtype))
        operands = q, k, v, logs, slope, mean
        by_query, by_key = (
            Streamed(f"attend_by_{name}", self.causal, self.scale) for name in ("query", "key")
        )
        return (*by_query.of(*operands), *by_key.of(*operands))

    def _composed(
        self, q: Operand, k: Operand, v: Operand, logs: Operand, g: Operand, mean: Operand
    ) -> list[Operand]:
        """The derivatives, written with products."""
        weights = np.exp((q @ k.swapaxes(-1, -2)) * self.scale - logs[..., None])
        if self.causal:
            weights = np.where(np.tri(*weights.shape[-2:], dtype=np.bool_), weights, 0)
        slopes = weights * (g @ v.swapaxes(-1, -2) - mean[..., None]) * self.scale
        if self.name == "attend_by_query":
            return [slopes @ k]
        return [slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g]
