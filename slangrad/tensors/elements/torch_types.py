"""PyTorch's dtypes and tensors without importing PyTorch: a program that passes a torch tensor has imported it.

element_of(torch.float32)  ->  f32      element_of(torch.complex64)  ->  None     dtype_of(f32)  ->  torch.float32
home_of_torch(x)           ->  "cuda:0" on that GPU, None on the CPU
is_torch_type(type(x))     ->  whether x is a torch tensor, of a subclass too
host_array_of(x)           ->  its memory as an array; torch_tensor_of(array)  ->  a tensor over the array's memory

torch.compile breaks its graph at a call and traces nothing of slangrad (`leave_out_of_graphs`).
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Protocol, Self

import numpy as np

from slangrad.base.lazy import LazyModule, loaded_torch
from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.ir.data.types import SMALL_FLOATS, Scalar
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import NUMPY_TYPES, SCALARS_BY_NAME, numpy_layout

TORCH = LazyModule("torch")
PREFIX = "torch."

_elements: dict[object, Scalar | None] = {}
_dtypes: dict[Scalar, object] = {}


class TorchTensor(Protocol):
    """The attributes of torch tensors that are used here. Their class is missing before PyTorch is loaded."""

    dtype: object
    device: object
    layout: object
    is_cpu: bool
    is_cuda: bool
    shape: tuple[int, ...]

    def data_ptr(self) -> int: ...
    def stride(self) -> tuple[int, ...]: ...
    def numel(self) -> int: ...
    def element_size(self) -> int: ...
    def is_neg(self) -> bool: ...
    def is_contiguous(self) -> bool: ...
    def detach(self) -> Self: ...
    def resolve_neg(self) -> Self: ...
    def contiguous(self) -> Self: ...
    def copy_(self, source: Self) -> Self: ...
    def numpy(self) -> AnyArray: ...
    def view(self, dtype: object) -> Self: ...


def is_torch_type(kind: type) -> bool:
    """Whether objects of a type are torch tensors. None are before PyTorch is loaded."""
    torch = sys.modules.get("torch")
    base = getattr(torch, "Tensor", None)  # absent while PyTorch is being loaded
    return isinstance(base, type) and issubclass(kind, base)


def element_of(dtype: object) -> Scalar | None:
    """The type of elements of a dtype; None where Slang has none."""
    try:
        return _elements[dtype]
    except KeyError:
        element = _elements[dtype] = SCALARS_BY_NAME.get(str(dtype).removeprefix(PREFIX))
        return element


def dtype_of(scalar: Scalar) -> object:
    """The dtype of a scalar; AttributeError where this PyTorch has none (uint16 and wider came with 2.3)."""
    dtype = _dtypes.get(scalar)
    if dtype is None:
        dtype = _dtypes[scalar] = getattr(TORCH, numpy_layout(scalar)[0].name)
    return dtype


def home_of_torch(tensor: TorchTensor) -> str | None:
    """The GPU that the memory is on, by PyTorch's name; None for memory of the host."""
    return None if tensor.is_cpu else str(tensor.device)


def has_gpu() -> bool:
    """Whether PyTorch is loaded and has a GPU."""
    torch = loaded_torch()
    return torch is not None and bool(torch.cuda.is_available())


_lock = kept_at_fork(Lock(), BRIEF)
_warned: list[bool] = []


def leave_out_of_graphs() -> None:
    """Register with torch.compile once, if it has been loaded."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None or _warned:
        return
    with _lock:
        if not _warned:
            rules.add("slangrad")
            _warned.append(True)


def host_array_of(tensor: HostValue, argument: str = "tensor") -> AnyArray:
    """The memory of a torch tensor as an array, without a record in autograd."""
    if not is_torch_type(type(tensor)):
        raise TypeError(f"{argument}: expected a torch tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise ValueError(f"{argument}: it lies on the device '{tensor.device}'; pass {argument}.cpu()")
    if element_of(tensor.dtype) is None:
        raise ValueError(
            f"{argument}: {tensor.dtype} has no Slang type here; pass {argument}.to(torch.float32)"
        )
    plain, small = shown_tensor(tensor)
    array: AnyArray = plain.numpy()
    return array if small is None else array.view(small)


def shown_tensor(tensor: HostValue) -> tuple[HostValue, np.dtype[np.generic] | None]:
    """A tensor over the same memory that interfaces of arrays show, without a record in autograd. The dtype is that of
    elements which they do not have: such a tensor has words of their size."""
    plain = tensor.detach().resolve_neg()
    element = element_of(plain.dtype)
    if element is None or element not in SMALL_FLOATS:
        return plain, None
    return plain.view(TORCH.int16 if element.bits == 16 else TORCH.uint8), NUMPY_TYPES[element]


def torch_tensor_of(array: AnyArray) -> HostValue:
    """A torch tensor over the array's memory; over a copy where PyTorch cannot use that as it lies."""
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    small = small_float_of(array.dtype)
    if small is not None:
        return TORCH.from_numpy(array.view(words_of(small))).view(dtype_of(small))
    return TORCH.from_numpy(array)


def small_float_of(dtype: np.dtype[np.generic]) -> Scalar | None:
    """The type of elements that PyTorch takes from no interface of arrays."""
    element = SCALARS_BY_NAME.get(dtype.name)
    return element if element in SMALL_FLOATS else None


def words_of(small: Scalar) -> np.dtype[np.generic]:
    """Integers of the size of a small float, which PyTorch has."""
    return np.dtype(np.int16 if small.bits == 16 else np.uint8)
