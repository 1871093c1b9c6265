"""Types as plain data that JSON can hold, and back.

    f32  <->  "f32"        struct P { f32x3 v }  <->  ["struct", "P", [["v", ["vector", "f32", 3]]]]

Tapes, pointers and lanes are included: all types of types.py are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from slangrad.ir.data import types as ir

Data: TypeAlias = "str | int | list[Data] | None"


def type_data(t: ir.Type, inside: bool = False) -> Data:
    """`inside` a form with pointers to itself: these lead to bytes, as the data would have no end."""
    return _DATA[type(t)](t, lambda part: type_data(part, inside or isinstance(t, ir.OpenForm)), inside)


def type_from(data: Data) -> ir.Type:
    """The type of the data; ValueError when it describes none."""
    if isinstance(data, str) and data in ir.SCALARS:
        return ir.SCALARS[data]
    if not isinstance(data, list) or not data or data[0] not in _TYPES:
        raise ValueError(f"no type: {data!r}")
    try:
        return _TYPES[str(data[0])](*data[1:])
    except TypeError as problem:
        raise ValueError(f"no type: {data!r}: {problem}") from None


# fmt: off
_DATA: dict[type, Callable[..., Data]] = {
    ir.Scalar:  lambda t, data, inside: str(t),
    ir.Vector:  lambda t, data, inside: ["vector", data(t.element), t.length],
    ir.Matrix:  lambda t, data, inside: ["matrix", data(t.element), t.rows, t.columns, t.transposed],
    ir.Array:   lambda t, data, inside: ["array", data(t.element), t.length],
    ir.Struct:  lambda t, data, inside: ["struct", t.name, _fields_data(t, data)],
    **dict.fromkeys((ir.MemoryForm, ir.OpenForm), lambda t, data, inside: [
        "form", t.name, _fields_data(t, data), data(t.value), t.size, t.alignment, list(t.offsets)
    ]),
    ir.Pointer: lambda t, data, inside: [
        "pointer", "u8" if inside and isinstance(t.element, ir.OpenForm) else data(t.element), t.space
    ],
    ir.Lanes:   lambda t, data, inside: ["lanes", data(t.element)],
}
_TYPES: dict[str, Callable[..., ir.Type]] = {
    "vector":  lambda element, length: ir.vector(_scalar(element), length),
    "matrix":  lambda element, *sizes: ir.matrix(_scalar(element), *sizes),
    "array":   lambda element, length: ir.array(type_from(element), length),
    "struct":  lambda name, fields: ir.struct(name, _fields_from(fields)),
    "form":    lambda name, fields, value, size, alignment, offsets: ir.form(
        name, _fields_from(fields), type_from(value), size, alignment, tuple(offsets)
    ),
    "pointer": lambda element, space: ir.pointer(type_from(element), space),
    "lanes":   lambda element: ir.lanes(type_from(element)),
}
# fmt: on


def _fields_data(t: ir.Struct, data: Callable[[ir.Type], Data]) -> Data:
    return [[name, data(field)] for name, field in t.fields]


def _fields_from(fields: list[tuple[str, Data]]) -> tuple[tuple[str, ir.Type], ...]:
    return tuple((name, type_from(data)) for name, data in fields)


def _scalar(data: Data) -> ir.Scalar:
    t = type_from(data)
    if not isinstance(t, ir.Scalar):
        raise ValueError(f"{t} is no scalar")
    return t
