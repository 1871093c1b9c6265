"""Memory of a GPU for other libraries, and memory of theirs: the CUDA array interface and DLPack.

    torch_view(runtime, region, owner)         a torch tensor over the memory
    capsule(runtime, region, owner, stream)    the same for JAX, CuPy and others
    view_on_gpu(device, source, ...)           what a tensor over their memory is made of

Each side waits for the stream of the other, and the host waits for none.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import NamedTuple

import numpy as np

from slangrad.ir.data.types import Type
from slangrad.runtime.device import Device, MemoryRegion, RegionItems
from slangrad.runtime.memory import MemoryBlock
from slangrad.tensors.buffer import BufferUsage, SharedView, runtime_of, shared_view
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.torch_types import (
    TORCH,
    dtype_of,
    is_torch_type,
    shown_tensor,
    small_float_of,
    words_of,
)
from slangrad.tensors.elements.transfer import shared_memory

GPU_KIND, HOST_KIND = 2, 1  # kDLCUDA, kDLCPU
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # by NumPy's kinds
_SMALL_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}  # by the names of dtypes
_UNUSED = b"dltensor"  # the name of a capsule that no library has taken over


class _Managed(ctypes.Structure):
    """DLManagedTensor of DLPack 0.8."""

    # fmt: off
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]
    # fmt: on


class _Kept(NamedTuple):
    """All that a capsule leads to."""

    managed: _Managed
    sizes: object
    steps: object
    owner: object


_kept: dict[int, _Kept] = {}  # by address, until the library that has it is done


def _delete(address: int) -> None:
    _kept.pop(address, None)


def _drop(capsule: int) -> None:
    """The end of a capsule; one that was taken over has another name."""
    if _is_valid(capsule, _UNUSED):
        _delete(_pointer(capsule, _UNUSED))


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DELETE, _DROP = _Callback(_delete), _Callback(_drop)

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)


def interface(region: MemoryRegion) -> dict[str, object]:
    """The CUDA array interface of memory. The stream is left out: `Device.precede` has made others wait."""
    return RegionItems(region, None).__array_interface__


class _GpuItems:
    """Memory in the form that PyTorch takes, which keeps this object."""

    def __init__(self, region: MemoryRegion, owner: object) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = interface(region)


def torch_view(runtime: Device, region: MemoryRegion, owner: object, frozen: bool) -> HostValue:
    """A torch tensor over the memory, which keeps `owner` alive; over a copy where PyTorch cannot use the memory as it
    lies. BufferError where PyTorch does not have the GPU."""
    place = runtime.place_of_torch
    if place is None:
        raise BufferError("this PyTorch does not have the GPU; use torch.from_numpy(tensor.to_numpy())")
    if frozen or min(region.strides, default=0) < 0:
        region, owner = copied(runtime, region)
    small = small_float_of(region.dtype)
    seen = region if small is None else region._replace(dtype=words_of(small))
    tensor: HostValue = TORCH.as_tensor(_GpuItems(seen, owner), device=place)
    runtime.precede(None)
    return tensor if small is None else tensor.view(dtype_of(small))


def capsule(runtime: Device, region: MemoryRegion, owner: object, stream: int | None = None) -> object:
    """A DLPack capsule, which keeps `owner` alive. `stream` is that of the library that asks, as DLPack counts: None
    and 1 are the default one, -1 asks for no order. BufferError for types that DLPack does not have."""
    if stream != -1:
        runtime.precede({None: 0, 1: 0}.get(stream, stream))
    return _capsule(region, owner, GPU_KIND, runtime.index)


def host_capsule(array: AnyArray) -> object:
    """A DLPack capsule of an array, which is kept alive, for elements that NumPy makes none of."""
    region = MemoryRegion(array.ctypes.data, array.shape, array.strides, array.dtype)
    return _capsule(region, array, HOST_KIND, 0)


def _capsule(region: MemoryRegion, owner: object, kind: int, index: int) -> object:
    dtype, size = region.dtype, region.dtype.itemsize
    code = _SMALL_CODES.get(dtype.name, _CODES.get(dtype.kind))
    if code is None:
        raise BufferError(f"DLPack has no elements of {dtype}")
    rank = len(region.shape)
    sizes = (ctypes.c_int64 * rank)(*region.shape)
    steps = (ctypes.c_int64 * rank)(*(step // size for step in region.strides))
    pointers = (ctypes.cast(array, ctypes.POINTER(ctypes.c_int64)) for array in (sizes, steps))
    about = (region.address, kind, index, rank, code, 8 * size, 1)
    managed = _Managed(*about, *pointers, 0, None, ctypes.cast(_DELETE, ctypes.c_void_p))
    address = ctypes.addressof(managed)
    _kept[address] = _Kept(managed, sizes, steps, owner)
    return _new(address, _UNUSED, ctypes.cast(_DROP, ctypes.c_void_p))


def copied(runtime: Device, region: MemoryRegion) -> tuple[MemoryRegion, MemoryBlock]:
    """The same items in new memory, one after the other."""
    size, dtype = region.dtype.itemsize, region.dtype
    block = runtime.allocate(size * prod(region.shape))
    steps = tuple(size * prod(region.shape[i + 1 :]) for i in range(len(region.shape)))
    dense = MemoryRegion(block.address, region.shape, steps, dtype)
    if region.is_dense:
        runtime.copy(block.address, region.address, size * prod(region.shape))
    else:
        runtime.put(dense, runtime.read(region))
    return dense, block


def is_on_gpu(source: HostValue) -> bool:
    """Whether another library's array says that it lies on a GPU."""
    if is_torch_type(type(source)):
        return bool(source.is_cuda)
    return not isinstance(source, np.ndarray) and hasattr(source, "__cuda_array_interface__")


def places_on_gpu(runtime: Device, source: HostValue) -> AnyArray:
    """An array over the addresses of another library's array on this GPU, which keeps that alive. It is never read.
    BufferError where the array lies on another GPU. What is launched here comes after what the library has launched."""
    kind, index = source.__dlpack_device__()
    if int(kind) != GPU_KIND or index != runtime.index:
        raise BufferError(f"source: it lies on another GPU, number {index}; copy it there first")
    owner, small = shown_tensor(source) if is_torch_type(type(source)) else (source, None)
    shown = owner.__cuda_array_interface__
    address, frozen = shown["data"]
    dtype, shape = np.dtype(shown["typestr"]), tuple(shown["shape"])
    steps, size = shown.get("strides"), dtype.itemsize
    if steps is None:
        steps = tuple(size * prod(shape[i + 1 :]) for i in range(len(shape)))
    stream = shown.get("stream")
    if stream is not None:
        runtime.follow(0 if stream == 1 else stream)
    places = np.asarray(RegionItems(MemoryRegion(address, shape, tuple(steps), dtype), owner))
    if frozen:
        places.flags.writeable = False
    return places if small is None else places.view(small)


def view_on_gpu(
    device: object, source: HostValue, element: Type | None, usage: BufferUsage, dtype: object
) -> SharedView:
    """A view of another library's array on the GPU. BufferError where elements of the type do not lie there so."""
    places = places_on_gpu(runtime_of(device), source)
    shared = shared_memory(places, element)
    if shared is None:
        raise BufferError(
            f"source: an array of {places.dtype} with shape {places.shape} and strides {places.strides} on the GPU "
            "cannot be used as it lies; copy or convert it with its library, for example by x.contiguous()"
        )
    return shared_view(device, places, shared, element, usage, dtype)
