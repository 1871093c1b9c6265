"""Types without a module: `tensor.dtype` of tensors from NumPy arrays and dtype names.

    Tensor.from_numpy(device, floats).dtype.name == "float"

Structs belong to modules; a tensor of structs shows the type that it was made with.
"""

from __future__ import annotations

from slangrad.check.model.types import EnumType, GenericArgument, ScalarType, Type, VectorType, innermost
from slangrad.ir.data import types as ir
from slangrad.marshal.host.encode import COMPONENTS
from slangrad.marshal.protocol.patterns import matches
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.type_map import Fields, HostTypeMap
from slangrad.marshal.reflection.slang_type import slang_type_of
from slangrad.tensors.elements.element_types import TypeView


class PlainTypes(ProgramTypes):
    """Scalars, vectors, matrices and arrays of them."""

    def __init__(self) -> None:
        self._map = HostTypeMap(self.fields, _no_tag, self.find, lambda _: (None, ()))

    def lower(self, t: Type) -> ir.Type | None:
        return self._map.lower(t)

    def lift(self, t: ir.Type) -> Type | None:
        return self._map.lift(t)

    def fields(self, t: Type) -> Fields:
        if isinstance(t, VectorType) and isinstance(t.count, int):
            return tuple((name, t.element) for name in COMPONENTS[: t.count])
        return ()

    def tangent(self, t: Type) -> Type | None:
        element = innermost(t)
        return t if isinstance(element, ScalarType) and element.is_float else None

    def tangent_field(self, t: Type, name: str) -> str | None:
        return name if isinstance(t, VectorType) else None

    def matches(self, pattern: Type, t: Type) -> bool:
        return matches(pattern, t)

    def standard(self, name: str, arguments: tuple[GenericArgument, ...]) -> Type:
        raise LookupError(f"{name} is a type of the standard library, which belongs to a device")


def is_plain(t: Type) -> bool:
    return isinstance(innermost(t), ScalarType) and not t.abstract


def _no_tag(t: EnumType) -> Type:
    raise LookupError(f"{t} is a type of a module")


PLAIN = PlainTypes()


def show(t: ir.Type) -> object:
    """The type as users see it; structs without their module stay types of memory."""
    lifted = PLAIN.lift(t)
    return t if lifted is None else slang_type_of(lifted, PLAIN)


TypeView.show = show
