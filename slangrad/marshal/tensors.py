"""Tensors as arguments, with the memories of their gradients.

x of (n,) floats with gradients, in `bwds`  ->  ContiguousElements<float, 1> x, x_grad
"""

from __future__ import annotations

from slangrad.check.model.types import Type, Vector, vector
from slangrad.marshal import whole
from slangrad.marshal.containers import ContainerMarshal
from slangrad.marshal.marshal import ProgramTypes
from slangrad.marshal.memory import TENSOR_ACCESS, Contents
from slangrad.marshal.patterns import scalar_inside
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

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        """Another type of numbers is named with what converts them."""
        said = super().reason(wanted, types)
        own = self.element_for(wanted, types)
        asked = whole.element_of(wanted, types) or wanted
        scalar = scalar_inside(asked)
        if own is None or asked.abstract or scalar is None or scalar_inside(own) in (None, scalar):
            return said
        note = f"{said}: make it with dtype='{scalar}'"
        return (
            note
            if asked is not wanted
            else f"{note}, or convert in the call with map(...='{_as_seen(asked, own)}')"
        )


def _as_seen(wanted: Type, own: Type) -> Type:
    """The parameter's type with numbers of another type."""
    scalar = scalar_inside(own)
    assert scalar is not None
    return vector(scalar, wanted.count) if isinstance(wanted, Vector) else scalar
