"""NumPy arrays in memory, memory as NumPy sees it, and memory that is shared with other libraries (DLPack).

    float32 (5, 3) with dtype float3    ->  5 elements of 12 bytes         float3 (5,)  ->  float32 (5, 3)
    structured (5,) with dtype Particle ->  5 structs, field by field      Particle (5,) -> uint8 (5, size)
    float32 (4, 3), strides (1, 4), of NumPy or PyTorch  ->  the same bytes as a view, in elements

Values are converted only where each survives; see conversion.py. Memory that a tensor cannot view (odd strides,
other byte orders, unaligned) has to be copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slangrad.ir.data.layout import layout_of, scalars_of
from slangrad.ir.data.types import SMALL_FLOATS, Type
from slangrad.runtime.device import MemoryRegion
from slangrad.tensors.elements.conversion import AnyArray, convert_exactly
from slangrad.tensors.elements.element_types import (
    from_numpy_type,
    holds_structs,
    numpy_layout,
    slang_name,
    structured_dtype,
)
from slangrad.tensors.elements.shape import contiguous_strides, is_contiguous
from slangrad.tensors.elements.torch_types import element_of, host_array_of, is_torch_type
from slangrad.tensors.elements.views import View, reach


class ImportedArray(NamedTuple):
    """A NumPy array as a tensor: the bytes to write, and the tensor's view of them."""

    element_type: Type
    data: AnyArray
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def region_of(t: Type, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> MemoryRegion:
    """The scalars (for structs, the bytes) of strided elements."""
    dtype, inner = numpy_layout(t)
    size = layout_of(t).size
    if not inner:
        return MemoryRegion(address, shape, tuple([step * size for step in strides]), dtype)
    inner_strides = [step * dtype.itemsize for step in contiguous_strides(inner)]
    return MemoryRegion(
        address, (*shape, *inner), (*(step * size for step in strides), *inner_strides), dtype
    )


def whole_elements(t: Type, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> MemoryRegion:
    """The elements as opaque bytes."""
    size = layout_of(t).size
    return MemoryRegion(address, shape, tuple(step * size for step in strides), np.dtype(f"V{size}"))


def import_array(array: AnyArray, target: Type | None) -> ImportedArray:
    """How `from_numpy` stores an array, as `target` if there is one."""
    if target is None:
        target = _type_of(array)
    if array.dtype.names is not None:
        return _contiguous(target, structs_of(array, target), array.shape)
    if holds_structs(target) and array.dtype != np.uint8:
        array = _bytes_of_structs(array, target)
    dtype, inner = numpy_layout(target)
    rank = array.ndim - len(inner)
    if rank < 0 or array.shape[rank:] != inner:
        raise ValueError(
            f"ndarray: shape {array.shape} does not match: elements of type {slang_name(target)} need "
            f"{inner} as the last dimensions"
        )
    data = convert_exactly(array, dtype, "ndarray")
    order = None if inner else _memory_order(data)
    if order is None:
        return _contiguous(target, np.ascontiguousarray(data), array.shape[:rank])
    strides = tuple(step // dtype.itemsize for step in data.strides)
    return ImportedArray(target, data.transpose(order), data.shape, strides)


def source_for(t: Type, count: int, source: AnyArray) -> AnyArray:
    """`source`, which has no gaps, as the bytes of exactly `count` elements."""
    if source.dtype.names is not None:
        source = structs_of(source, t)
    elif holds_structs(t):
        _check_numbers(source, t, "data")
    else:
        source = convert_exactly(source, numpy_layout(t)[0], "data")
    wanted = count * layout_of(t).size
    if source.nbytes > wanted:
        raise ValueError(f"data: Numpy array is larger than the tensor ({source.nbytes} > {wanted} bytes)")
    if source.nbytes < wanted:
        raise ValueError(
            f"data: Numpy array is smaller than the tensor ({source.nbytes} < {wanted} bytes); "
            "copy into a part of it: tensor[:n].copy_from_numpy(array)"
        )
    return source


def filled(t: Type, shape: tuple[int, ...], value: object) -> AnyArray:
    """An array of elements that are all `value`: a number, or an array of an element's shape."""
    if holds_structs(t):
        raise ValueError(f"fill_value: elements of type {slang_name(t)} have no common value; use from_numpy")
    dtype, inner = numpy_layout(t)
    element = np.asarray(value)
    if element.dtype.kind == "f" and dtype.kind == "f":
        element = element.astype(dtype)
    element = convert_exactly(element, dtype, "fill_value")
    if element.ndim > len(inner) or any(a not in (1, b) for a, b in zip(element.shape[::-1], inner[::-1])):
        raise ValueError(f"fill_value: shape {element.shape} does not fit an element of type {slang_name(t)}")
    return np.full((*shape, *inner), element, dtype)


def _contiguous(t: Type, data: AnyArray, shape: tuple[int, ...]) -> ImportedArray:
    return ImportedArray(t, data, shape, contiguous_strides(shape))


def _type_of(array: AnyArray) -> Type:
    if array.dtype.names is not None:
        raise ValueError(
            f"ndarray: Structured numpy dtype {array.dtype} has no Slang type of its own; name the struct: "
            "Tensor.from_numpy(device, array, dtype=module.Name)"
        )
    t = from_numpy_type(array.dtype)
    if t is None:
        raise ValueError(
            f"ndarray: Unsupported numpy dtype {array.dtype}; use astype(), for example np.float32"
        )
    return t


def _check_numbers(array: AnyArray, t: Type, argument: str) -> None:
    """Bytes fit all structs, numbers those that have no others."""
    parts = {scalar for _, scalar in scalars_of(t)}
    if array.dtype.itemsize != 1 and {numpy_layout(part)[0] for part in parts} != {array.dtype}:
        listed = ", ".join(sorted(map(slang_name, parts)))
        raise ValueError(
            f"{argument}: an array of {array.dtype} does not match type {slang_name(t)}, which is made of {listed}; "
            "give a structured array, or its bytes as np.uint8"
        )


def _bytes_of_structs(array: AnyArray, t: Type) -> AnyArray:
    """Structs as rows of their numbers, which all have one type: (5, 4) floats as 5 { float3, float }."""
    _check_numbers(array, t, "ndarray")
    name, size = slang_name(t), layout_of(t).size
    if array.ndim == 0 or array.shape[-1] * array.dtype.itemsize != size:
        count = size // array.dtype.itemsize
        raise ValueError(
            f"ndarray: shape {array.shape} does not match: elements of type {name} need {count} numbers in the "
            "last dimension"
        )
    return np.ascontiguousarray(array).view(np.uint8)


def structs_of(records: AnyArray, t: Type) -> AnyArray:
    """A structured array with the offsets of the Slang struct, without gaps between elements."""
    wanted = structured_dtype(t)
    if records.dtype == wanted:
        return np.ascontiguousarray(records)
    if not _same_fields(records.dtype, wanted):
        raise ValueError(
            f"ndarray: structured dtype {records.dtype} ({records.dtype.itemsize} bytes) does not match type "
            f"{slang_name(t)} ({wanted.itemsize} bytes), whose dtype is {wanted}"
        )
    moved = np.zeros(records.shape, wanted)
    moved[...] = records
    return moved


def _same_fields(a: np.dtype[np.generic], b: np.dtype[np.generic]) -> bool:
    """Whether two dtypes differ at most in where their fields lie."""
    if a.shape != b.shape or a.base.names != b.base.names:
        return False
    ours, theirs = a.base.fields, b.base.fields
    if ours is None or theirs is None:
        return a.base == b.base
    return all(_same_fields(ours[name][0], theirs[name][0]) for name in ours)


def _memory_order(data: AnyArray) -> tuple[int, ...] | None:
    """The order of dimensions in which the array fills its memory without gaps; None when it does not."""
    if data.size == 0 or min(data.strides, default=0) < 0:
        return None
    order = sorted(range(data.ndim), key=lambda i: (data.strides[i], data.shape[i]), reverse=True)
    return tuple(order) if data.transpose(order).flags.c_contiguous else None


# Kinds of memory that the host can reach, as DLPack numbers them.
HOST_KINDS = {1: "CPU", 3: "pinned by CUDA", 11: "pinned by ROCm"}


class SharedArray(NamedTuple):
    """Bytes of another library, and how a tensor sees them."""

    address: int
    size: int
    view: View


def host_array(source: object) -> AnyArray:
    """An object with a DLPack capsule as an array over the same memory."""
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
    if is_torch_type(type(source)):
        element = element_of(getattr(source, "dtype", None))
        if element is not None and element in SMALL_FLOATS:
            return host_array_of(source)
    array: AnyArray = np.from_dlpack(source)
    return array


def shared_memory(array: AnyArray, t: Type | None) -> SharedArray | None:
    """How elements of type `t` (None: the array's own) lie in an array; None where they have to be copied."""
    array_type = from_numpy_type(array.dtype)
    t = array_type if t is None else t
    if (
        t is None
        or array_type is None
        or not array.dtype.isnative
        or not array.flags.aligned
        or not array.size
    ):
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
    reached = reach(shape, strides)
    assert reached is not None, "an array with elements has a first one"
    lowest, highest = reached
    address: int = array.ctypes.data
    return SharedArray(address + lowest * size, (highest - lowest + 1) * size, View(shape, strides, -lowest))
