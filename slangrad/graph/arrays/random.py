"""Random numbers from explicit keys: a key and a place in the result determine each number, on any device.

    k = random.key(0)
    noise, dropped = random.split(k)          random.normal(noise, (3, 4)), random.dropout(dropped, x, 0.1)

Bits are Threefry-2x32 of 20 rounds (Salmon and others, 2011) of the key and a count. NumPy's arrays get the same bits
as traced ones: each operation is rounded in one way, and no product is added to anything before it is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod
from operator import index

import numpy as np
from numpy.typing import DTypeLike

from slangrad.graph.arrays.array import Array, lifted, mapped
from slangrad.graph.ir.errors import GraphError, explained
from slangrad.graph.ir.node import make
from slangrad.graph.ir.values import Operand

U32, U64, F64 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.float64)
TURNS = (13, 15, 26, 6, 17, 29, 16, 24)
OF_KEYS = 1 << 63  # counts of new keys, which no array reaches
Sizes = int | Sequence[int]


@explained("random.key")
def key(seed: Operand) -> Operand:
    """A key, one uint64: of an integer of any type, traced or not, modulo 2^64. GraphError (E1042) for other
    values."""
    if not isinstance(seed, Array):
        return np.uint64(index(seed) % (1 << 64))
    if seed.shape or seed.dtype.kind not in "biu":
        raise TypeError(f"{seed.dtype} of shape {seed.shape} is no integer")
    return seed.astype(U64)


def split(key: Operand, count: int = 2) -> Operand:
    """`count` new keys, uint64 of shape (count,). A key must not be used again after a split. GraphError (E1043)
    for a key that is not one uint64, here and in all functions below."""
    return _bits(key, (count,), OF_KEYS)


def uniform(
    key: Operand, shape: Sizes = (), dtype: DTypeLike = np.float32, low: Operand = 0.0, high: Operand = 1.0
) -> Operand:
    """Numbers from `low` to `high`, which is reached by rounding only: steps of 2^-24, 2^-53 of doubles, 2^-11 of
    halves. GraphError (E1043) where `dtype` is no float of up to 64 bits."""
    to = _float(dtype)
    digits = np.finfo(to).nmant + 1
    numbers = (_bits(key, shape) // (1 << 64 - digits)).astype(to) * to.type(2.0**-digits)
    if type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1):
        return numbers
    low, high = (x.astype(to) if isinstance(x, Array) else np.asarray(x, to)[()] for x in (low, high))
    return (low + _product(numbers, high - low)).astype(to)


def normal(key: Operand, shape: Sizes = (), dtype: DTypeLike = np.float32) -> Operand:
    """Numbers of mean 0 and variance 1, by Box and Muller's method in doubles: at most 6.8 in size."""
    bits = _bits(key, shape)
    numbers = mapped("gaussian", [bits], F64) if isinstance(bits, Array) else _gaussian(bits)
    return numbers.astype(_float(dtype))


def bernoulli(key: Operand, p: Operand = 0.5, shape: Sizes | None = None) -> Operand:
    """Booleans, true with probability `p`; a shape that is not given is that of `p`."""
    return uniform(key, np.shape(p) if shape is None else shape) < p


@explained("random.randint")
def randint(key: Operand, shape: Sizes, low: int, high: int, dtype: DTypeLike = np.int64) -> Operand:
    """Integers from `low` to `high` - 1, which are equally likely up to (high - low) / 2^64. GraphError (E1042) where
    there are none."""
    to, low, high = np.dtype(dtype), index(low), index(high)
    if to.kind not in "iu" or not np.iinfo(to).min <= low < high <= np.iinfo(to).max + 1:
        raise GraphError("E1042", f"randint: {to} has no integers from {low} to {high} - 1")
    bits, count = _bits(key, shape), high - low
    with np.errstate(over="ignore"):  # sums are modulo 2^64, as in kernels
        return (bits if count == 1 << 64 else bits % count).astype(to) + to.type(low)


def dropout(key: Operand, x: Operand, rate: float) -> Operand:
    """Zero with probability `rate`, x / (1 - rate) otherwise, of the shape of x. GraphError (E1042) where the rate is
    not from 0 to less than 1."""
    if not 0 <= rate < 1:
        raise GraphError("E1042", f"dropout: rate is {rate}", "from 0 to less than 1")
    x = x if isinstance(x, Array) else np.asarray(x)
    return np.where(bernoulli(key, 1 - rate, x.shape), x / (1 - rate), np.zeros_like(x))


# --- bits


@explained("random: shape")
def _bits(key: Operand, shape: Operand, start: int = 0) -> Operand:
    """64 bits for each element."""
    if np.shape(key) != () or getattr(key, "dtype", None) != U64:
        raise GraphError("E1043", "a key is one uint64", "graph.random.key(seed)")
    sizes = tuple(map(index, (shape,) if np.ndim(shape) == 0 else shape))
    if min(sizes, default=0) < 0:
        raise GraphError("E1042", f"random: shape {sizes} has a size below 0")
    if not isinstance(key, Array):
        return _threefry(int(key), np.arange(start, start + prod(sizes), dtype=U64)).reshape(sizes)
    count = Array(make("count", [], (prod(sizes),), U64, axis=0)) + start
    return mapped("threefry", [key, count], U64).reshape(sizes)


def _threefry(key: int, counter: Operand) -> Operand:
    """`threefry` of graph_prelude.slang."""
    words = [key >> 32, key & 0xFFFFFFFF]
    keys = [np.full(1, word, U32) for word in (*words, words[0] ^ words[1] ^ 0x1BD11BDA)]
    a, b = (counter >> 32).astype(U32) + keys[0], counter.astype(U32) + keys[1]
    for i in range(20):
        turn = TURNS[i % 8]
        a = a + b
        b = (b << turn | b >> 32 - turn) ^ a
        if i % 4 == 3:
            j = i // 4 + 1
            a, b = a + keys[j % 3], b + keys[(j + 1) % 3] + np.full(1, j, U32)
    return a.astype(U64) << 32 | b


def _gaussian(bits: Operand) -> Operand:
    """`gaussian` of graph_prelude.slang: a radius of the upper 32 bits, a sign, an angle of the others."""
    part, exponent = np.frexp(((bits >> 32).astype(F64) + 0.5) * 2.0**-32)
    s = (part - 1) / (part + 1)
    y, log = s * s, np.zeros_like(s)
    for n in range(35, 0, -2):
        log = log * y + 1.0 / n
    radius = np.sqrt(-2 * (exponent * np.log(2.0) + 2 * (log * s)))
    angle = ((bits & 0x7FFFFFFF).astype(F64) + 0.5) * (2.0**-32 * pi)
    y, sine = angle * angle, np.ones_like(angle)
    for n in range(20, 0, -2):
        sine = 1 - sine * (y * (1.0 / (n * (n + 1))))
    return np.where(bits & 0x80000000 != 0, -1.0, 1.0) * (radius * (sine * angle))


def _product(a: Operand, b: Operand) -> Operand:
    """A product that is rounded before an addition."""
    if not isinstance(a, Array) and not isinstance(b, Array):
        return a * b
    a, b = lifted(a), lifted(b)
    return mapped("product", [a, b.astype(a.dtype)], a.dtype)


def _float(dtype: DTypeLike) -> Operand:
    to = np.dtype(dtype)
    if to.kind != "f" or to.itemsize > 8:
        raise GraphError("E1043", f"random numbers are floats, not {to}", "graph.random.randint")
    return to
