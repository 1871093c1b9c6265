"""Tensors as arguments, with the memories of their gradients.

x of (n,) floats with gradients, in `bwds`  ->  ContiguousElements<float, 1> x, x_grad
"""

from __future__ import annotations

from slangrad.marshal.containers import ContainerMarshal, role_with
from slangrad.marshal.elements import make_elements
from slangrad.marshal.marshal import Node, Spot, Way
from slangrad.marshal.memory import TENSOR_ACCESS, Contents
from slangrad.marshal.patterns import consumed
from slangrad.tensors.element_types import slang_name
from slangrad.tensors.tensor import Tensor


class TensorMarshal(ContainerMarshal):
    """A Tensor, perhaps with gradients."""

    access = TENSOR_ACCESS

    def __init__(self, tensor: Tensor) -> None:
        has_in, has_out = tensor.grad_in is not None, tensor.grad_out is not None
        shared = has_in and tensor.grad_in is tensor.grad_out
        rank = len(tensor.shape)
        self.contents = Contents(
            tensor.element_type, rank, tensor.writable, has_in, has_out, shared, tensor.shape
        )
        plural = "s" if rank != 1 else ""
        self.described = f"Tensor of {slang_name(tensor.element_type)} with {rank} dimension{plural}"

    def bind_elements(self, way: Way, spot: Spot) -> Node:
        role = role_with(self.contents, spot, self.described)
        own = self.element_for(way.type, spot.types)
        trailing = None if own is None else consumed(way.type, own)
        return make_elements(way, spot, role, self.described, TENSOR_ACCESS, trailing or ())
