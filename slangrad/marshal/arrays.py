"""NumPy arrays and Tensors as arguments: their memory is used as it lies.

    x of (n,) float32, strides (8,)             ->  uniform StridedElements<float, 1> x
    x of (n,) floats with gradients, in `bwds`  ->  ContiguousElements<float, 1> x, x_grad

An array of another dtype is converted where every value survives; one with gaps in what makes up an element
is copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slangrad.check.model.types import Type, Vector, vector
from slangrad.ir import types as ir
from slangrad.marshal import whole
from slangrad.marshal.containers import CONVERTED, ContainerMarshal, role_with
from slangrad.marshal.elements import make_elements
from slangrad.marshal.enums import enum_inside
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Node, ProgramTypes, Shape, Spot, Way
from slangrad.marshal.memory import ARRAY_ACCESS, TENSOR_ACCESS, Contents
from slangrad.marshal.patterns import scalar_inside
from slangrad.tensors.conversion import convert_exactly
from slangrad.tensors.element_types import from_numpy_type, numpy_layout, slang_name, structured_dtype
from slangrad.tensors.tensor import Tensor


class ArrayMarshal(ContainerMarshal):
    """A NumPy array of a dtype and a number of dimensions."""

    access = ARRAY_ACCESS

    def __init__(self, dtype: np.dtype[Any], shape: Shape, writable: bool) -> None:
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
        found = list(super().ways(wanted, types, mode))
        return found or self._converted(wanted)

    def _converted(self, wanted: Type) -> Iterable[Way]:
        """To the scalar of the parameter, where that is known."""
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

    def bind(self, way: Way, spot: Spot) -> Node:
        if spot.role.writes and way.how == CONVERTED:
            message = f"argument '{spot.label}': {self.described} cannot receive values of type '{way.type}'"
            raise CallError("E1011", message, (), "its dtype must be that of the parameter")
        return super().bind(way, spot)

    def bind_elements(self, way: Way, spot: Spot) -> Node:
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

    dtype: np.dtype[Any]
    label: str

    def __call__(self, array: Any) -> Any:
        try:
            return convert_exactly(array, self.dtype, f"argument '{self.label}'")
        except ValueError as error:
            raise CallError("E1010", str(error)) from None


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
