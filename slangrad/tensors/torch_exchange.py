"""Torch tensors as arrays over the same memory, and back; PyTorch is loaded only where a tensor of it is made."""

from __future__ import annotations

from typing import Any

from slangrad.tensors.conversion import AnyArray
from slangrad.tensors.torch_types import TORCH, element_of, is_torch_type


def host_array_of(tensor: Any, argument: str = "tensor") -> AnyArray:
    """The memory of a torch tensor as an array; autograd does not see it."""
    if not is_torch_type(type(tensor)):
        raise TypeError(f"{argument}: expected a torch tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise ValueError(f"{argument}: it lies on the device '{tensor.device}'; pass {argument}.cpu()")
    if element_of(tensor.dtype) is None:
        raise ValueError(
            f"{argument}: {tensor.dtype} has no Slang type here; pass {argument}.to(torch.float32)"
        )
    found: AnyArray = tensor.detach().resolve_neg().numpy()
    return found


def torch_tensor_of(array: AnyArray) -> Any:
    """A torch tensor over the array's memory; over a copy where PyTorch cannot use that as it lies."""
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    return TORCH.from_numpy(array)
