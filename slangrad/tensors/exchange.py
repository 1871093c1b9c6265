"""Memory of other libraries as tensors, and the other way round: DLPack.

    float32 (4, 3), strides (1, 4), of NumPy or PyTorch  ->  the same bytes as a view, in elements
    with dtype float3, (5, 3) without gaps               ->  5 elements of 12 bytes

What a tensor cannot show as it lies (odd strides, other byte orders, unaligned) has to be copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slangrad.ir.layout import layout_of
from slangrad.ir.types import Type
from slangrad.tensors.conversion import AnyArray
from slangrad.tensors.element_types import from_numpy_type, numpy_layout
from slangrad.tensors.shape import is_contiguous
from slangrad.tensors.views import View, reach

# Kinds of memory that the host can reach, as DLPack numbers them.
HOST_KINDS = {1: "CPU", 3: "pinned by CUDA", 11: "pinned by ROCm"}


class Shared(NamedTuple):
    """Bytes of another library, and how a tensor sees them."""

    address: int
    size: int
    view: View


def host_array(source: Any) -> AnyArray:
    """What has a DLPack capsule as an array over the same memory."""
    if isinstance(source, np.ndarray):
        return source
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(
            f"source: {type(source).__name__} has no __dlpack__; NumPy arrays and tensors of other libraries have"
        )
    kind, _ = source.__dlpack_device__()
    if int(kind) not in HOST_KINDS:
        raise BufferError(
            f"source: its memory is of DLPack's kind {int(kind)}, which the host cannot reach; copy it to the "
            "host first, for example by source.cpu()"
        )
    found: AnyArray = np.from_dlpack(source)
    return found


def shared_memory(array: AnyArray, t: Type | None) -> Shared | None:
    """How elements of type `t` (None: the array's own) lie in an array; None where they have to be copied."""
    own = from_numpy_type(array.dtype)
    t = own if t is None else t
    if t is None or own is None or not array.dtype.isnative or not array.flags.aligned or not array.size:
        return None
    dtype, inner = numpy_layout(t)
    rank = array.ndim - len(inner)
    size = layout_of(t).size
    if dtype != array.dtype or rank < 0 or array.shape[rank:] != inner:
        return None
    steps = [step // dtype.itemsize for step in array.strides[rank:]]
    if not is_contiguous(inner, steps) or any(step % size for step in array.strides[:rank]):
        return None
    strides = tuple(step // size for step in array.strides[:rank])
    shape = array.shape[:rank]
    found = reach(shape, strides)
    assert found is not None, "an array with elements has a first one"
    lowest, highest = found
    address: int = array.ctypes.data
    return Shared(address + lowest * size, (highest - lowest + 1) * size, View(shape, strides, -lowest))
