"""Leaves and results as JSON data, and back: the stored part of a call besides its kernels.

    ElementsLeaf(name="x", type=FLOAT, access=TENSOR_ACCESS, ...)  ->  ["ElementsLeaf", {"name": "x", ...}]

Only objects in the tables here can be made from data: classes, functions and other objects by name. Structs come
back as `SavedType`, which has a name and a form in memory. An object without a row raises `Unsaved`: its plan is
made anew in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np

from slangrad.base.disk.store import Json
from slangrad.base.lazy import LazyModule
from slangrad.check.model import types as checked
from slangrad.ir.data import types as ir
from slangrad.ir.data.type_data import type_data, type_from
from slangrad.marshal.composed import results, scalars, structs
from slangrad.marshal.containers import arrays, values
from slangrad.marshal.containers.buffers import BufferLeaf
from slangrad.marshal.containers.elements import ElementsLeaf
from slangrad.marshal.containers.memory import (
    ARRAY_ACCESS,
    TENSOR_ACCESS,
    TEXTURE_ACCESS,
    TORCH_ACCESS,
    TORCH_CURVE_ACCESS,
    TORCH_PAIR_ACCESS,
)
from slangrad.marshal.containers.tensor_views import ViewFamily, ViewTensor
from slangrad.marshal.containers.whole import Family, WholeTensor
from slangrad.marshal.protocol.nodes import StreamSpec
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import Role
from slangrad.marshal.protocol.spelling import spell
from slangrad.marshal.reflection.model import SavedType
from slangrad.marshal.reflection.slang_type import SlangType, slang_type_of
from slangrad.marshal.simple import indices
from slangrad.marshal.simple.plain import Uniform
from slangrad.tensors.elements.element_types import dtype_from, dtype_text

Data = Json
SAME = "same"
MOST_DERIVATIVES = 3


class Unsaved(Exception):
    """An object without a form on disk."""


_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Role, StreamSpec, Family, ViewFamily, ElementsLeaf, WholeTensor, ViewTensor, BufferLeaf, Uniform,
        values.Cell, values.CellPart,
        indices.GridIndex, indices.RangeIndex, indices.CallIndex, indices.FlatIndex, indices.HashIndex,
        arrays.Converter, structs.ListPacker,
        results.CreatedResult, results.TensorMaker, results.ArrayMaker, results.TorchMaker, results.TextureMaker,
    )
}  # fmt: skip

_LATE_CLASSES = {"TextureLeaf": LazyModule("slangrad.marshal.containers.textures")}

# fmt: off
_NAMED: dict[str, object] = {
    "tensor access": TENSOR_ACCESS,
    "array access":  ARRAY_ACCESS,
    "texture access": TEXTURE_ACCESS,
    "torch access":  TORCH_ACCESS,
    "torch pairs":   TORCH_PAIR_ACCESS,
    "torch curves":  TORCH_CURVE_ACCESS,
    "data":          scalars.data_of,
    "get value":     values.get_value,
    "set value":     values.set_value,
    "get primal":    values.get_primal,
    "set primal":    values.set_primal,
    "get grad":      values.get_grad,
    "set grad":      values.set_grad,
    "make pair":     results.make_pair,
    "give itself":   results.give_itself,
}
# fmt: on
_NAMES = {id(value): name for name, value in _NAMED.items()}


# --- To data ------------------------------------------------------------------------------------------


def saved(value: object, types: ProgramTypes) -> Data:
    """Numbers and texts are themselves; all other data is a list that begins with its kind."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if id(value) in _NAMES:
        return ["named", _NAMES[id(value)]]
    if isinstance(value, tuple):
        return ["tuple", *(saved(part, types) for part in value)]
    if isinstance(value, ir.Type):
        return ["memory", type_data(value)]
    if isinstance(value, checked.Type):
        return ["type", saved_type(value, types)]
    if isinstance(value, SlangType):
        return ["shown", saved_type(value.checked, types)]
    if isinstance(value, np.dtype) and value.names is None:
        return ["dtype", dtype_text(value)]
    name = type(value).__name__
    if _class_of(name) is not type(value) or not is_dataclass(value):
        raise Unsaved(f"{value!r} has no form on disk")
    return [
        name,
        {field.name: saved(getattr(value, field.name), types) for field in fields(value) if field.init},
    ]


def _class_of(name: str) -> type | None:
    late = _LATE_CLASSES.get(name)
    return _CLASSES.get(name) if late is None else getattr(late, name)


def saved_type(t: checked.Type, types: ProgramTypes) -> Data:
    """A type without generic parameters as data."""
    if isinstance(t, checked.ScalarType):
        return t.name
    if isinstance(t, checked.VectorType):
        return ["vector", saved_type(t.element, types), _number(t.count)]
    if isinstance(t, checked.MatrixType):
        return ["matrix", saved_type(t.element, types), _number(t.rows), _number(t.columns)]
    if isinstance(t, checked.ArrayType):
        return ["array", saved_type(t.element, types), _number(t.count)]
    if isinstance(t, checked.PointerType):
        return ["pointer", saved_type(t.element, types)]
    if t.abstract or isinstance(t, checked.Stored):
        raise Unsaved(f"{t} is not known yet, or has a place in memory only")
    return _declared(t, types, MOST_DERIVATIVES)


def _declared(t: checked.Type, types: ProgramTypes, depth: int) -> Data:
    """A struct with its derivative, which is usually its own derivative."""
    if isinstance(t, SavedType) or depth == 0:
        raise Unsaved(f"{t} was saved already" if depth else f"{t} has too many derivatives")
    lowered, tangent = types.lower(t), types.tangent(t)
    derivative: Data = None
    if tangent is not None:
        plain = not isinstance(tangent, checked.Nominal)
        derivative = saved_type(tangent, types) if plain else SAME
        if not plain and tangent is not t:
            derivative = _declared(tangent, types, depth - 1)
    return ["declared", str(t), spell(t), None if lowered is None else type_data(lowered), derivative]


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise Unsaved(f"{value!r} is not known yet")
    return value


# --- From data ----------------------------------------------------------------------------------------


def restored(data: Data, types: ProgramTypes) -> Data:
    """The object that `saved` was called with. `types` has the types that are shown to the user."""
    if not isinstance(data, list):
        return data
    kind, rest = data[0], data[1:]
    if kind == "tuple":
        return tuple(restored(part, types) for part in rest)
    if kind in _READERS:
        return _READERS[kind](rest[0])
    if kind == "shown":
        return slang_type_of(restored_type(rest[0]), types)
    made_of_fields = _class_of(kind)
    assert made_of_fields is not None, kind
    return made_of_fields(**{name: restored(value, types) for name, value in rest[0].items()})


def restored_type(data: Data) -> checked.Type:
    if isinstance(data, str):
        return checked.SCALAR_NAMES[data]
    return _TYPES[data[0]](*data[1:])


# fmt: off
_READERS: dict[str, Callable[[Data], object]] = {
    "named":  lambda name: _NAMED[name],
    "memory": type_from,
    "type":   restored_type,
    "dtype":  dtype_from,
}
_TYPES: dict[str, Callable[..., checked.Type]] = {
    "vector":   lambda element, count: checked.vector(restored_type(element), count),
    "matrix":   lambda element, rows, columns: checked.matrix(restored_type(element), rows, columns),
    "array":    lambda element, count: checked.array(restored_type(element), count),
    "pointer":  lambda element: checked.pointer(restored_type(element)),
    "declared": lambda *parts: _restored_declared(*parts),
}
# fmt: on


def _restored_declared(text: str, spelled: str, lowered: Data, derivative: Data) -> SavedType:
    restored_struct = SavedType(text, spelled, None if lowered is None else type_from(lowered))
    if derivative is not None:
        restored_struct.tangent = restored_struct if derivative == SAME else restored_type(derivative)
    return restored_struct
