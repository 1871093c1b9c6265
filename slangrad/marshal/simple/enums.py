"""Values of Slang's enums: numbers with names.

    m.Color.Green   ->   EnumValue 5, shown as Color.Green          m.Color(7)   ->   Color(7), which has no name

As arguments they fit parameters of their enum, and of numbers. Python's whole numbers fit every enum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slangrad.check.model.types import ArrayType, EnumType, PointerType, StructType, Type
from slangrad.ir.data import types as ir
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.spelling import spell
from slangrad.tensors.elements.conversion import HostValue

Part = Any  # a text, a number or Names
Names = tuple[Part, ...]  # the places of enums in a value: plain data, which is stored with a call


class EnumValue(int):
    """A value of an enum of Slang: a whole number with the `name` of its enumerator, None where no enumerator has it.
    `enum` is the name of its type."""

    enum: str
    name: str | None

    def __new__(cls, value: int, enum: str, name: str | None = None) -> EnumValue:
        number = super().__new__(cls, value)
        number.enum, number.name = enum, name
        return number

    def __repr__(self) -> str:
        return f"{self.enum}({int(self)})" if self.name is None else f"{self.enum}.{self.name}"

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return format(int(self), form) if form else repr(self)

    def __reduce__(self) -> tuple[type, tuple[int, str, str | None]]:
        return EnumValue, (int(self), self.enum, self.name)


def enum_inside(t: Type) -> EnumType | None:
    """The enum that arrays, buffers and pointers of a type are made of."""
    while not isinstance(t, EnumType):
        if isinstance(t, (ArrayType, PointerType)):
            t = t.element
        elif isinstance(t, StructType) and t.arguments and isinstance(t.arguments[0], Type):
            t = t.arguments[0]
        else:
            return None
    return t


# --- Names of results ---------------------------------------------------------------------------------


def names_in(t: Type, types: ProgramTypes) -> Names:
    """The places of enum values in values of a type; empty if there are none."""
    if isinstance(t, EnumType):
        return "enum", spell(t), *(part for pair in types.enumerators(t) for part in pair)
    if isinstance(t, ArrayType):
        inner = names_in(t.element, types)
        return ("each", inner) if inner else ()
    fields = (
        [(name, names_in(field_type, types)) for name, field_type in types.fields(t)]
        if isinstance(t, StructType)
        else []
    )
    named = tuple(part for name, inner in fields if inner for part in (name, inner))
    return ("fields", *named) if named else ()


def named(names: Names, value: HostValue) -> HostValue:
    """The value with named enums."""
    kind, *rest = names
    if kind == "enum":
        enum, *listed = rest
        return EnumValue(
            value, enum, next((name for name, number in _pairs(listed) if number == value), None)
        )
    if kind == "each":
        return [named(rest[0], part) for part in value]
    inner = dict(_pairs(rest))
    return {name: named(inner[name], part) if name in inner else part for name, part in value.items()}


def _pairs(listed: Sequence[Part]) -> Iterator[tuple[str, Part]]:
    return zip(listed[::2], listed[1::2])


def holds(t: ir.Type | None, value: int) -> bool:
    """Whether the type in memory of an enum has room for a number."""
    if not isinstance(t, ir.Scalar):
        return False
    return 0 <= value < 1 << t.bits if t.kind == "unsigned" else -1 << t.bits - 1 <= value < 1 << t.bits - 1
