"""Arguments that are made in the kernel: the call's index, grids, random numbers.

    f(grid((4, 3)), t)        the index of the call, which also gives the call its shape
    f(rand_float(0, 1), t)    a number for each thread, the same in every run

The numbers are those of `wang_hash_numpy` on any device and in any order of the threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.shape import as_integers

DEFAULT_SEED = 2640457667
_MASK = 0xFFFFFFFF
_NUMBERS = (int, float, np.number)


class GridArg:
    """`offset + index * stride` of the call; sizes of -1 come from the other arguments."""

    __slots__ = ("offset", "shape", "stride")

    def __init__(self, shape: tuple[int, ...], offset: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self.shape = shape
        self.offset = offset
        self.stride = stride

    def __repr__(self) -> str:
        return f"grid({self.shape}, offset={self.offset}, stride={self.stride})"


def grid(shape: object, offset: HostValue = 0, stride: HostValue = 1) -> GridArg:
    """The index of each call, as a number or vector of whole numbers; the call has this shape. A vector has x along
    the last dimension, an array is in the order of the dimensions. A size of -1 is left to other arguments; a number
    in place of the shape means so many sizes of -1. `offset` and `stride`, a number or one for each dimension: index
    * stride + offset. CallError (E1005) for sizes below -1.
    """
    if isinstance(shape, int):
        shape = (-1,) * shape
    sizes = as_integers(shape, "grid: shape")
    if any(size < -1 for size in sizes):
        raise CallError("E1005", f"grid: {sizes} has a size below -1")
    return GridArg(sizes, _each(offset, len(sizes), "offset"), _each(stride, len(sizes), "stride"))


def _each(value: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * count
    values = as_integers(value, f"grid: {name}")
    if len(values) != count:
        raise CallError("E1005", f"grid: {name} {values} needs {count} entries")
    return values


class CallIdArg:
    """The index of the call, for any shape."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "call_id()"


_CALL_ID = CallIdArg()


def call_id(shape: object = None) -> CallIdArg | GridArg:
    """The index of the call; with a shape, or a number of dimensions, it is a grid."""
    return _CALL_ID if shape is None or shape == -1 else grid(shape)


class ThreadIdArg:
    """The number of the thread: the flat index of the call. `dim`: how many components."""

    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return f"thread_id({self.dim})"


def thread_id(dim: int = -1) -> ThreadIdArg:
    """The number of the thread; further components are zero, -1 takes as many as the parameter has."""
    return ThreadIdArg(dim)


class WangHashArg:
    """Hashed thread numbers, as integers or vectors of them. `hash_seed`: seeds are hashed first, so that numbers
    of consecutive seeds are unrelated.
    """

    __slots__ = ("dims", "hash_seed", "seed", "warmup")

    def __init__(self, dims: int = -1, seed: int = 0, warmup: int = 0, hash_seed: bool = True) -> None:
        if warmup < 0:
            raise CallError("E1010", f"warmup must not be negative, it is {warmup}")
        self.dims = int(dims)
        self.seed = int(seed)
        self.warmup = int(warmup)
        self.hash_seed = bool(hash_seed)

    @property
    def word(self) -> int:
        """The word that is combined with the thread's."""
        return calc_wang_hash(self.seed & _MASK) if self.hash_seed else self.seed & _MASK

    @property
    def slangpy_signature(self) -> str:
        """The part of the value that a kernel depends on."""
        return f"[{self.dims},{self.warmup}]"

    def __repr__(self) -> str:
        return f"wang_hash({self._common()})"

    def _common(self) -> str:
        more = "" if self.hash_seed else ", hash_seed=False"
        return f"dim={self.dims}, seed={self.seed}, warmup={self.warmup}{more}"


class RandFloatArg(WangHashArg):
    """Uniform floats in [min, max), made from the same hash."""

    __slots__ = ("max", "min")

    def __init__(
        self,
        min: float = 0.0,
        max: float = 1.0,
        dim: int = -1,
        seed: int = 0,
        warmup: int = 0,
        hash_seed: bool = True,
    ) -> None:
        super().__init__(dim, seed, warmup, hash_seed)
        if not (isinstance(min, _NUMBERS) and isinstance(max, _NUMBERS)):
            raise CallError("E1010", f"rand_float: {min!r} to {max!r} are no numbers")
        self.min = float(min)
        self.max = float(max)

    def __repr__(self) -> str:
        return f"rand_float({self.min}, {self.max}, {self._common()})"


def wang_hash(
    dim: int = -1, seed: int = DEFAULT_SEED, warmup: int = 0, hash_seed: bool = True
) -> WangHashArg:
    """Random whole numbers, 32 bits, for each thread, the same ones in each run with the same `seed`. `dim` is the
    number of components, -1 as many as the parameter has; `warmup` is how often numbers are hashed before."""
    return WangHashArg(dim, seed, warmup, hash_seed)


def rand_float(
    min: float = 0.0,
    max: float = 1.0,
    dim: int = -1,
    seed: int = DEFAULT_SEED,
    warmup: int = 0,
    hash_seed: bool = True,
) -> RandFloatArg:
    """Uniform floats in [min, max) for each thread, the same ones in each run with the same `seed`. `dim` is the
    number of components, -1 as many as the parameter has; `warmup` is how often numbers are hashed before."""
    return RandFloatArg(min, max, dim, seed, warmup, hash_seed)


def calc_wang_hash(word: int) -> int:
    """Wang's hash of 32 bits."""
    word = (word ^ 61) ^ (word >> 16)
    word = word * 9 & _MASK
    word ^= word >> 4
    word = word * 0x27D4EB2D & _MASK
    return word ^ (word >> 15)


def wang_hash_numpy(
    threads: int, dim: int = 1, seed: int = DEFAULT_SEED, warmup: int = 0, hash_seed: bool = True
) -> npt.NDArray[np.uint32]:
    """The numbers of `wang_hash` for `threads` threads, one column a component."""
    words = np.arange(threads, dtype=np.uint32) * np.uint32(dim)
    for _ in range(warmup):
        words = calc_wang_hash_numpy(words)
    words = words ^ np.uint32(WangHashArg(dim, seed, warmup, hash_seed).word)
    columns = []
    for _ in range(dim):
        words = calc_wang_hash_numpy(words)
        columns.append(words)
    return np.stack(columns, axis=1)


def calc_wang_hash_numpy(seed: np.ndarray) -> npt.NDArray[np.uint32]:
    """Wang's hash of each element."""
    words: npt.NDArray[np.uint32] = seed.astype(np.uint32)
    words = (words ^ np.uint32(61)) ^ (words >> np.uint32(16))
    words = words * np.uint32(9)
    words = words ^ (words >> np.uint32(4))
    words = words * np.uint32(0x27D4EB2D)
    return words ^ (words >> np.uint32(15))
