"""Arrays on devices: which memory host and kernels share, and copies where they do not.

on_device(device, array)     the array, or a Tensor on a GPU with the same numbers
lent(device, array)          its memory as a tensor that does not keep it alive
host_array(tensor)           its memory as an array, or a copy where the host does not reach it
loop_array(tensor, shape)    its memory as rows that a loop copies, on any device
"""

from __future__ import annotations

from math import prod
from types import EllipsisType
from typing import Any, Protocol, cast

import numpy as np

import slangrad as spy
from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import DType, Shape
from slangrad.graph.ir.values import ArrayValue, as_tensor, device_of, is_torch, shape_of


def is_on_host(device: spy.Device) -> bool:
    """Whether host and kernels reach the same memory."""
    return device.runtime.reaches_host


def on_device(device: spy.Device, value: ArrayValue) -> ArrayValue:
    """The array itself, or a copy where kernels do not reach its memory."""
    if isinstance(value, spy.Tensor) or is_on_host(device) or (is_torch(value) and value.is_cuda):
        return value
    array = value.detach().numpy() if is_torch(value) else np.asarray(value)
    return spy.Tensor.from_numpy(device, array.reshape(array.shape or (1,)))


def host_array(tensor: spy.Tensor) -> np.ndarray:
    """The memory as an array, or a copy where the host does not reach it."""
    return tensor.host_view() if is_on_host(device_of(tensor)) else tensor.to_numpy()


def overwrite(target: spy.Tensor, source: spy.Tensor, shape: Shape) -> None:
    """Copy numbers without gaps into memory of this shape, (1,) for a number; by the host, even on a GPU."""
    put(target, host_array(source).reshape(shape or (1,)))


def put(target: spy.Tensor, numbers: np.ndarray) -> None:
    """Copy an array of the host into memory of its shape and dtype."""
    if is_on_host(device_of(target)):
        target.host_view()[...] = numbers
    else:
        target.copy_from_numpy(numbers)


def array_of(tensor: spy.Tensor, layout: StridedLayout | None = None) -> np.ndarray:
    """The memory as an array, for libraries and exchanges of the host. BufferError where the host has none."""
    array = tensor.host_view()
    return array if layout is None or layout.shape else array.reshape(())


class LoopArray(Protocol):
    """An array of NumPy, or one on a GPU: `x[t]` is a row of it, and an assignment copies numbers of its shape."""

    def __getitem__(self, at: int, /) -> Any: ...  # both kinds give their own

    def __setitem__(self, at: Any, source: Any, /) -> None: ...  # and take their own


class GpuArray:
    """Numbers without gaps in memory of a GPU. An assignment copies them there, in the order of launches."""

    def __init__(self, device: spy.Device, address: int, shape: Shape, itemsize: int) -> None:
        self.device, self.address, self.shape, self.itemsize = device, address, shape, itemsize

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize

    def __getitem__(self, at: int) -> GpuArray:
        row = GpuArray(self.device, self.address, self.shape[1:], self.itemsize)
        row.address += at * row.nbytes
        return row

    def __setitem__(self, at: int | EllipsisType, source: GpuArray) -> None:
        target = self if isinstance(at, EllipsisType) else self[at]
        assert target.nbytes == source.nbytes, (target.shape, source.shape)
        self.device.runtime.copy(target.address, source.address, target.nbytes)


def loop_array(tensor: spy.Tensor, shape: Shape) -> LoopArray:
    """The memory of an array of this shape, for a loop that copies its rows. On a GPU it has no gaps."""
    device = device_of(tensor)
    if not is_on_host(device):
        assert tensor.is_contiguous(), "loops get copies of views"
        return GpuArray(device, tensor.address, shape, tensor.element_size)
    array = tensor.host_view()
    return array if array.shape == shape else array[: prod(shape)].reshape(shape)


def arena_of(device: spy.Device, nbytes: int) -> spy.Tensor:
    """Memory of the widest numbers: a tensor has less than 2^31 elements."""
    return spy.Tensor.zeros(device, (-(-nbytes // 8),), "uint64_t")


def places_of(tensor: spy.Tensor, dtype: DType) -> np.ndarray:
    """An array over the addresses of numbers, which is never read."""
    return np.asarray(_Places(tensor, dtype))


class _Places:
    def __init__(self, tensor: spy.Tensor, dtype: DType) -> None:
        strides = tuple(step * dtype.itemsize for step in tensor.strides)
        about = {"shape": tuple(tensor.shape), "strides": strides, "typestr": dtype.str, "version": 3}
        self.__array_interface__ = {"data": (tensor.address, False), **about}


class _LentOnGpu:
    """The memory of a Tensor on a GPU, without its owner."""

    def __init__(self, tensor: spy.Tensor) -> None:
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__
        self._device = tensor.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class _Lent:
    """The memory of an array for NumPy, without its owner."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__


def lent(device: spy.Device, value: ArrayValue) -> spy.Tensor:
    """The memory of an array as a tensor that does not keep it alive. GraphError (E1022) as of `as_tensor`."""
    if not is_on_host(device):
        if 0 in shape_of(value):
            return as_tensor(device, value)
        return spy.Tensor.from_dlpack(device, cast("np.ndarray", _LentOnGpu(as_tensor(device, value))))
    array = value if isinstance(value, np.ndarray) else as_tensor(device, value).host_view()
    return as_tensor(device, np.asarray(_Lent(array)))
