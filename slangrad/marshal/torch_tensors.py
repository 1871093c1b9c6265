"""Torch tensors as arguments: zero-copy, with their strides.

x of (n, 3) float32 to a float3         ->  ContiguousElements<float3, 1> x, one call dimension
diff_pair(x, gradient), in `bwds`       ->  ContiguousElements<float, 1> x, x_grad: the gradient is added to

Sizes of 2 to 4 of the last two dimensions are part of the key: they tell overloads for vectors and matrices apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from slangrad.check.model.types import Type
from slangrad.ir import types as ir
from slangrad.marshal.containers import ContainerMarshal
from slangrad.marshal.errors import BoundVariableException
from slangrad.marshal.marshal import Marshal, ProgramTypes, Way
from slangrad.marshal.memory import Access, Contents
from slangrad.marshal.patterns import consumed, from_elements
from slangrad.marshal.torch_memory import TORCH_ACCESS, TORCH_CURVE_ACCESS, TORCH_PAIR_ACCESS, TorchCurve
from slangrad.marshal.values import DiffPair
from slangrad.tensors.element_types import numpy_layout
from slangrad.tensors.torch_types import element_of

SHOWN_SIZES = (2, 3, 4)
Sizes = tuple[int, int]


class TorchTensor:
    """Stands for torch tensors in the keys of calls."""


def key_of_torch(tensor: Any) -> Hashable:
    shape = tensor.shape
    return TorchTensor, element_of(tensor.dtype), len(shape), _sizes(shape), tensor.is_cpu


def _sizes(shape: Any) -> Sizes:
    """The sizes of the last two dimensions as far as vectors can have them; zero for others."""
    rank = len(shape)
    last = shape[-1] if rank else 0
    before = shape[-2] if rank > 1 else 0
    return before if 1 < before < 5 else 0, last if 1 < last < 5 else 0


class TorchMarshal(ContainerMarshal):
    """A torch tensor by itself, or with a gradient: then `access` is that of pairs."""

    def __init__(self, tensor: Any, access: Access = TORCH_ACCESS) -> None:
        rank, paired, shared = len(tensor.shape), access is not TORCH_ACCESS, access is TORCH_PAIR_ACCESS
        self.access = access
        self.contents = Contents(
            element_of(tensor.dtype), rank, True, paired, paired, shared, tensor.shape, not paired
        )
        self._sizes = _sizes(tensor.shape)
        self._refusal = _refusal(tensor)
        self.described = f"{tensor.dtype} tensor of {rank} dimension{'s' if rank != 1 else ''}"

    is_torch = True

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        if self._refusal is not None:
            raise BoundVariableException("E1001", self._refusal[0], (), self._refusal[1])
        return super().ways(wanted, types, mode)

    def as_elements(self, wanted: Type, own: Type, how: str) -> Iterable[Way]:
        for way in super().as_elements(wanted, own, how):
            if self._fits(way.type, own):
                yield way

    def _fits(self, t: Type, own: Type) -> bool:
        """Whether the last sizes can make a `t`, as far as they are known."""
        wanted = consumed(t, own) or ()
        rows = zip(reversed(wanted), reversed(self._sizes))
        return all(own_size == (size if size in SHOWN_SIZES else 0) for size, own_size in rows)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        own = self.element_for(wanted, types)
        fitting = [] if own is None else list(from_elements(wanted, own))
        for t in fitting:
            sizes = consumed(t, own) if own is not None else None
            if sizes and len(sizes) <= self.contents.rank:
                return f"{self.described}: its shape does not match slang type '{t}', whose sizes {sizes} come last"
        scalar = _scalar_of(types.lower(wanted)) if not wanted.abstract else None
        if not fitting and scalar is not None and scalar is not self.contents.element:
            name = numpy_layout(scalar)[0].name
            return f"{super().reason(wanted, types)}: pass .to(torch.{name}) where that is meant"
        return super().reason(wanted, types)


def _scalar_of(t: ir.Type | None) -> ir.Scalar | None:
    while isinstance(t, (ir.Vector, ir.Matrix, ir.Array)):
        t = t.element
    return t if isinstance(t, ir.Scalar) else None


def _refusal(tensor: Any) -> tuple[str, str] | None:
    """Why a tensor cannot be an argument at all, and what to do."""
    if not tensor.is_cpu:
        message = f"a torch tensor on the device '{tensor.device}' cannot be used: calls run on the CPU"
        return message, "pass x.cpu(); the result's .to(device) brings it back, and both carry gradients"
    if element_of(tensor.dtype) is None:
        note = "pass x.to(torch.float32), or torch.view_as_real(x) for a complex x"
        return f"tensors of dtype {tensor.dtype} have no Slang type here", note
    if str(tensor.layout) != "torch.strided":
        return f"a torch tensor of layout {tensor.layout} has no strides", "pass x.to_dense()"
    return None


def curve_marshal(curve: TorchCurve) -> Marshal:
    return TorchMarshal(curve.primal, TORCH_CURVE_ACCESS)


def pair_marshal(pair: DiffPair) -> Marshal:
    """A `diff_pair` of torch tensors."""
    grad, primal = pair.grad, pair.primal
    if not hasattr(grad, "data_ptr"):
        raise BoundVariableException("E1001", f"the gradient of a torch tensor is a {type(grad).__name__}")
    if grad.shape != primal.shape or grad.dtype != primal.dtype:
        message = f"diff_pair: a gradient of {grad.dtype} {tuple(grad.shape)}"
        message += f" for a tensor of {primal.dtype} {tuple(primal.shape)}"
        raise BoundVariableException("E1007", message, (), "torch.zeros_like(x) makes one that fits")
    if not grad.is_cpu:
        return TorchMarshal(grad)
    return TorchMarshal(primal, TORCH_PAIR_ACCESS)
