"""NumPy arrays, Tensors and torch tensors as arguments: the kernel uses their memory directly.

    x of (n,) float32, strides (8,)             ->  uniform StridedElements<float, 1> x
    x of (n,) floats with gradients, in `bwds`  ->  ContiguousElements<float, 1> x, x_grad
    diff_pair(x, gradient) of torch tensors     ->  the same

An array of another dtype is converted if every value survives; one with gaps inside of elements is copied.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slangrad.check.model.types import Type, VectorType, vector
from slangrad.ir.data import types as ir
from slangrad.marshal.containers import whole
from slangrad.marshal.containers.containers import CONVERTED, ContainerMarshal, role_with
from slangrad.marshal.containers.elements import make_elements
from slangrad.marshal.containers.memory import (
    ARRAY_ACCESS,
    TENSOR_ACCESS,
    TORCH_ACCESS,
    TORCH_CURVE_ACCESS,
    TORCH_PAIR_ACCESS,
    Access,
    Contents,
    TorchCurve,
)
from slangrad.marshal.containers.values import DiffPair
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.host.footprint import Shape
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Leaf
from slangrad.marshal.protocol.patterns import consumed, from_elements, scalar_inside
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.simple.enums import enum_inside
from slangrad.tensors.elements.conversion import AnyArray, convert_exactly
from slangrad.tensors.elements.element_types import (
    from_numpy_type,
    numpy_layout,
    slang_name,
    structured_dtype,
)
from slangrad.tensors.elements.torch_types import TorchTensor, element_of, home_of_torch
from slangrad.tensors.tensor import Tensor


class ArrayMarshal(ContainerMarshal):
    """A NumPy array of a dtype and a number of dimensions."""

    access = ARRAY_ACCESS

    def __init__(self, dtype: np.dtype, shape: Shape, writable: bool) -> None:
        self.dtype = dtype
        rank = len(shape)
        element = from_numpy_type(dtype) if dtype.isnative else None
        self.contents = Contents(element, rank, writable, sizes=shape)
        self.described = f"numpy {dtype} array of {rank} dimension{'s' if rank != 1 else ''}"

    def element_for(self, wanted: Type, types: ProgramTypes) -> Type | None:
        if self.dtype.names is None:
            return super().element_for(wanted, types)
        lowered = types.lower(wanted)
        return wanted if lowered is not None and structured_dtype(lowered) == self.dtype else None

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        ways = list(super().ways(wanted, types, mode))
        return ways or self._converted(wanted)

    def _converted(self, wanted: Type) -> Iterable[Way]:
        """To the scalar of the parameter, if that is known."""
        scalar = scalar_inside(wanted)
        enum = enum_inside(wanted) if self.dtype.kind in "iu" else None
        if enum is not None:
            return (replace(way, cost=3) for way in self.as_elements(wanted, enum, CONVERTED))
        if scalar is None or self.dtype.kind not in "biuf" or self.dtype.itemsize > 8:
            return []
        return self.as_elements(wanted, scalar, CONVERTED)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if not self.dtype.isnative:
            return f"{self.described} is not in this machine's byte order: use astype()"
        return super().reason(wanted, types)

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if spot.role.writes and way.how == CONVERTED:
            message = f"argument '{spot.label}': {self.described} cannot receive values of type '{way.type}'"
            raise CallError("E1011", message, (), "its dtype must be that of the parameter")
        return super().bind(way, spot)

    def bind_elements(self, way: Way, spot: Spot) -> BoundNode:
        role = role_with(self.contents, spot, self.described)
        element = spot.types.lower(way.type)
        assert element is not None
        trailing = () if isinstance(element, ir.Struct) else numpy_layout(element)[1]
        leaf = make_elements(way, spot, role, self.described, ARRAY_ACCESS, trailing)
        if way.how == CONVERTED:
            leaf.prepare = Converter(numpy_layout(element)[0], spot.label)
        return leaf


@dataclass(frozen=True, slots=True)
class Converter:
    """Makes arrays of another dtype, if every value survives."""

    dtype: np.dtype
    label: str

    def __call__(self, array: AnyArray) -> AnyArray:
        try:
            return convert_exactly(array, self.dtype, f"argument '{self.label}'")
        except ValueError as error:
            raise CallError("E1010", str(error)) from None


def converted_to(leaf: Leaf | None) -> np.dtype | None:
    """The dtype of arrays that a leaf makes of arrays, if it does."""
    prepare = None if leaf is None else leaf.prepare
    return prepare.dtype if isinstance(prepare, Converter) else None


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
        """Another type of numbers is named with its conversion."""
        reason = super().reason(wanted, types)
        element = self.element_for(wanted, types)
        target = whole.element_of(wanted, types) or wanted
        scalar = scalar_inside(target)
        if element is None or target.abstract or scalar is None or scalar_inside(element) in (None, scalar):
            return reason
        note = f"{reason}: make it with dtype='{scalar}'"
        return (
            note
            if target is not wanted
            else f"{note}, or convert in the call with map(...='{_as_seen(target, element)}')"
        )


def _as_seen(wanted: Type, element: Type) -> Type:
    """The parameter's type with numbers of another type."""
    scalar = scalar_inside(element)
    assert scalar is not None
    return vector(scalar, wanted.count) if isinstance(wanted, VectorType) else scalar


SHOWN_SIZES = (2, 3, 4)
Sizes = tuple[int, int]


def key_of_torch(tensor: TorchTensor) -> Hashable:
    shape = tensor.shape
    return TorchTensor, element_of(tensor.dtype), len(shape), _sizes(shape), home_of_torch(tensor)


def _sizes(shape: Sequence[int]) -> Sizes:
    """The sizes of the last two dimensions as far as vectors can have them; zero for others."""
    rank = len(shape)
    last = shape[-1] if rank else 0
    before = shape[-2] if rank > 1 else 0
    return before if 1 < before < 5 else 0, last if 1 < last < 5 else 0


class TorchMarshal(ContainerMarshal):
    """A torch tensor by itself, or with a gradient: then `access` is that of pairs."""

    def __init__(self, tensor: TorchTensor, access: Access = TORCH_ACCESS) -> None:
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

    def as_elements(self, wanted: Type, element: Type, how: str) -> Iterable[Way]:
        for way in super().as_elements(wanted, element, how):
            if self._fits(way.type, element):
                yield way

    def _fits(self, t: Type, element: Type) -> bool:
        """Whether the last sizes can make a `t`, as far as they are known."""
        wanted = consumed(t, element) or ()
        rows = zip(reversed(wanted), reversed(self._sizes))
        return all(own_size == (size if size in SHOWN_SIZES else 0) for size, own_size in rows)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        element = self.element_for(wanted, types)
        fitting = [] if element is None else list(from_elements(wanted, element))
        for t in fitting:
            sizes = consumed(t, element) if element is not None else None
            if sizes and len(sizes) <= self.contents.rank:
                return f"{self.described}: its shape does not match slang type '{t}', whose sizes {sizes} come last"
        scalar = _scalar_of(types.lower(wanted)) if not wanted.abstract else None
        if not fitting and scalar is not None and scalar is not self.contents.element:
            name = numpy_layout(scalar)[0].name
            return f"{super().reason(wanted, types)}: pass .to(torch.{name}) where that is meant"
        return super().reason(wanted, types)


def _scalar_of(t: ir.Type | None) -> ir.Scalar | None:
    return None if t is None else ir.scalar_of(ir.innermost(t))


def _refusal(tensor: TorchTensor) -> tuple[str, str] | None:
    """Why a tensor can be no argument, and the cure."""
    if not (tensor.is_cpu or tensor.is_cuda):
        message = (
            f"a torch tensor on the device '{tensor.device}' cannot be used: calls run on the CPU or a GPU"
        )
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
    if grad.device != primal.device:
        message = f"diff_pair: a gradient on the device '{grad.device}' for a tensor on '{primal.device}'"
        raise BoundVariableException("E1007", message, (), "torch.zeros_like(x) makes one that fits")
    return TorchMarshal(primal, TORCH_PAIR_ACCESS)
