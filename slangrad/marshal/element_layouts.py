"""How a type lies in memory, in the words of reflection: `Particle.buffer_layout`, `cursor.element_type_layout`.

    layout.kind, layout.size, layout.stride, layout.alignment
    layout.fields["mass"].offset      layout.element_type_layout      layout.type.col_count

Reflection of programs (`api/reflection/`) knows declarations as well; this is made of the type in memory alone.
"""

from __future__ import annotations

from typing import Any

from slangrad.base.late import Late
from slangrad.ir import types as ir
from slangrad.ir.layout import layout_of
from slangrad.marshal.plain import is_form_of_numbers
from slangrad.tensors.element_types import slang_name

KINDS = Late("slangrad.marshal.type_kinds")

# fmt: off
_KINDS: dict[type, str] = {
    ir.Scalar: "scalar", ir.Vector: "vector", ir.Matrix: "matrix", ir.Array: "array", ir.Struct: "struct",
    ir.Pointer: "pointer",
}
_SCALARS: dict[ir.Scalar, str] = {
    ir.BOOL: "bool", ir.I8: "int8", ir.I16: "int16", ir.I32: "int32", ir.I64: "int64", ir.U8: "uint8", ir.U16: "uint16",
    ir.U32: "uint32", ir.U64: "uint64", ir.F16: "float16", ir.F32: "float32", ir.F64: "float64",
}
# fmt: on


class ElementLayout:
    """A type and how it lies in memory; of a field also where."""

    __slots__ = ("ir_type", "name", "offset")

    def __init__(self, t: ir.Type, name: str = "", offset: int = 0) -> None:
        self.ir_type = t
        self.name = name or slang_name(t)
        self.offset = offset

    def __repr__(self) -> str:
        return f"ElementLayout({self.name}, size={self.size}, alignment={self.alignment})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ElementLayout):
            return NotImplemented
        return (self.ir_type, self.name, self.offset) == (other.ir_type, other.name, other.offset)

    def __hash__(self) -> int:
        return hash((self.ir_type, self.name, self.offset))

    @property
    def reflection(self) -> ElementLayout:
        return self

    @property
    def type(self) -> ElementLayout:
        return self

    type_layout = type

    @property
    def full_name(self) -> str:
        return slang_name(self.ir_type)

    @property
    def kind(self) -> Any:
        return KINDS.TypeKind[_KINDS[ir.value_of(self.ir_type).__class__]]

    @property
    def size(self) -> int:
        return layout_of(self.ir_type).size

    @property
    def stride(self) -> int:
        """The distance of elements of an array."""
        return self.size

    @property
    def alignment(self) -> int:
        return layout_of(self.ir_type).alignment

    @property
    def fields(self) -> dict[str, ElementLayout]:
        """The fields of a struct."""
        t = self.ir_type
        if not isinstance(t, ir.Struct) or is_form_of_numbers(t):
            return {}
        rows = zip(t.fields, layout_of(t).offsets)
        return {name: ElementLayout(part, name, offset) for (name, part), offset in rows}

    @property
    def element_type_layout(self) -> ElementLayout | None:
        """What an index gives, or a pointer leads to."""
        t = ir.value_of(self.ir_type)
        if isinstance(t, (ir.Vector, ir.Array, ir.Pointer)):
            return ElementLayout(t.element)
        return ElementLayout(ir.vector(t.element, t.columns)) if isinstance(t, ir.Matrix) else None

    @property
    def element_count(self) -> int:
        """Elements of an array, components of a vector; zero for all else."""
        t = ir.value_of(self.ir_type)
        return (t.length or 0) if isinstance(t, (ir.Array, ir.Vector)) else 0

    @property
    def scalar_type(self) -> Any:
        """The type of the numbers that a scalar, vector or matrix is made of."""
        found = ir.scalar_of(ir.value_of(self.ir_type))
        return KINDS.ScalarKind["none" if found is None else _SCALARS[found]]

    @property
    def row_count(self) -> int:
        t = ir.value_of(self.ir_type)
        return t.rows if isinstance(t, ir.Matrix) else int(ir.scalar_of(t) is not None)

    @property
    def col_count(self) -> int:
        t = ir.value_of(self.ir_type)
        if isinstance(t, ir.Matrix):
            return t.columns
        return t.length if isinstance(t, ir.Vector) else int(ir.scalar_of(t) is not None)
