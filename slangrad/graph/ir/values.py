"""Arrays from outside, NumPy's, torch's and Tensors: how they lie in memory, and that memory as a tensor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import numpy as np

import slangrad as spy
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import StridedLayout, normal
from slangrad.graph.ir.node import DType, Shape

if TYPE_CHECKING:
    import torch

ArrayValue: TypeAlias = "np.ndarray | np.generic | spy.Tensor | torch.Tensor"
# Traced or NumPy's own. NumPy's functions take and give both, and its annotations know the latter only.
Operand = Any


def is_array(value: object) -> TypeGuard[ArrayValue]:
    """Whether a value is traced: a Tensor, a torch tensor, an array or a number of NumPy's."""
    kind = type(value)
    return kind is np.ndarray or issubclass(kind, (np.ndarray, np.generic, spy.Tensor)) or is_torch(value)


def is_torch(value: object) -> TypeGuard[torch.Tensor]:
    """Whether a value is a tensor of torch."""
    if type(value) is np.ndarray:  # most are
        return False
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def resolved(value: ArrayValue) -> ArrayValue:
    """The array, or a copy where its memory is no tensor.

    torch's arrays may have signs that are still to be changed. NumPy's may be in another order of bytes, or lie at
    places between elements."""
    if isinstance(value, np.ndarray):
        is_even = value.flags.c_contiguous or not any(step % value.itemsize for step in value.strides)
        is_tensor = is_even and value.flags.aligned and value.dtype.isnative
        return value if is_tensor else np.array(value, value.dtype.newbyteorder("="), order="C", subok=True)
    return value.resolve_neg() if is_torch(value) else value


def shape_of(value: ArrayValue) -> Shape:
    return tuple(int(n) for n in value.shape)


def strides_of(value: ArrayValue) -> Shape:
    """The strides in elements."""
    if isinstance(value, np.ndarray | np.generic):
        return tuple(step // value.itemsize for step in value.strides)
    return tuple(value.strides) if isinstance(value, spy.Tensor) else tuple(value.stride())


def layout_of(value: ArrayValue) -> StridedLayout:
    return normal(StridedLayout(shape_of(value), strides_of(value)))


def seen_as(value: ArrayValue) -> tuple[object, ...]:
    """The type, shape, strides, dtype and device of an array: the properties that a plan depends on."""
    if type(value) is np.ndarray:
        return np.ndarray, value.shape, value.strides, value.dtype
    if isinstance(value, spy.Tensor):
        return type(value), value.element_type, value.layout  # which has the device
    return type(value), shape_of(value), strides_of(value), str(value.dtype)


def numpy_type(value: Operand) -> DType:
    """The dtype of the elements of a NumPy array, a Tensor or a torch tensor."""
    dtype = value.dtype
    if isinstance(value, np.ma.MaskedArray | np.matrix):
        raise GraphError("E1043", f"a {type(value).__name__} cannot be traced", "np.asarray(x) is an array")
    if isinstance(dtype, np.dtype):
        return dtype
    if type(value).__module__.partition(".")[0] == "torch":
        if value.device.type not in ("cpu", "cuda"):
            raise GraphError(
                "E1043", f"a torch tensor on {value.device}", "graphs run on CPUs and GPUs: x.cpu()"
            )
        if str(value.layout) != "torch.strided":
            raise GraphError("E1043", f"a torch tensor of layout {value.layout}", "x.to_dense()")
        try:
            return np.dtype(str(dtype).removeprefix("torch."))
        except TypeError:
            raise GraphError("E1043", f"elements of {dtype} cannot be traced") from None
    # Without elements, because the host may not reach them.
    none = value.view((0,), (1,)).to_numpy() if hasattr(value, "host_view") else None
    if none is None or none.shape != (0,):
        raise GraphError("E1043", f"elements of {dtype} cannot be traced", "graphs take tensors of numbers")
    elements: DType = none.dtype
    return elements


def as_tensor(device: spy.Device, value: ArrayValue) -> spy.Tensor:
    """The memory of an array as a tensor, without a copy. GraphError (E1022) for a Tensor of another device."""
    if isinstance(value, spy.Tensor):
        if device_of(value).runtime is not device.runtime:
            message = f"a Tensor of shape {shape_of(value)} lies on another device than the graph runs on"
            raise GraphError("E1022", message, "Tensor.from_numpy(device, x.to_numpy()) copies it")
        return value
    if is_torch(value) and value.is_cuda and device.runtime.reaches_host:
        message = f"a torch tensor lies on {value.device}, and the graph runs on the CPU"
        raise GraphError("E1022", message, "graph.jit(f, device=spy.create_torch_device())")
    if isinstance(value, np.ndarray | np.generic) and not value.ndim:
        value = np.asarray(value).reshape(1)
    return spy.Tensor.from_dlpack(device, value.detach() if is_torch(value) else value)


def copied(tensor: spy.Tensor) -> spy.Tensor:
    """A copy without gaps."""
    return spy.Tensor.from_numpy(tensor.device, tensor.to_numpy())


def device_of(tensor: spy.Tensor) -> spy.Device:
    return cast("spy.Device", tensor.device)


def address_of(value: ArrayValue) -> int:
    """The address of the first element."""
    if isinstance(value, spy.Tensor):
        return value.address
    if type(value) is np.ndarray:
        return value.ctypes.data  # twice as fast as the interface
    return value.data_ptr() if is_torch(value) else int(value.__array_interface__["data"][0])
