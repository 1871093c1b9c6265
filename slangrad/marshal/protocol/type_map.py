"""Checked types and the concrete types of memory, both ways.

    float3 <-> f32x3        Particle <-> struct "Particle"        float[4] <-> [4 x f32]

Structs need the program, which has their fields; the inverse finds a struct by its name. Types without a form in
memory give None.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.abi import SCALARS, MemoryForms, interface_words
from slangrad.check.model import types as checked
from slangrad.ir.data import types as ir
from slangrad.ir.data.forms import Rules, rules_from
from slangrad.ir.data.layout import OPEN_SIZE, any_value_layout

_CHECKED_SCALARS: dict[ir.Scalar, checked.Type] = {lowered: t for t, lowered in SCALARS.items()}

Fields = tuple[tuple[str, checked.Type], ...]


class HostTypeMap(MemoryForms):
    """`fields` returns the fields of a struct, with their rules for memory. `tag` returns the integer type of an
    enum, `find` the type of a name. `behind` returns the declared size of an interface's values and their possible
    types."""

    def __init__(
        self,
        fields: Callable[[checked.Type], Fields],
        tag: Callable[[checked.EnumType], checked.Type],
        find: Callable[[str], checked.Type | None],
        behind: Callable[[checked.InterfaceType], tuple[int | None, tuple[checked.Type, ...]]],
    ) -> None:
        super().__init__()
        self._fields = fields
        self._tag = tag
        self._find = find
        self._alternatives = behind
        self._values: dict[checked.Type, ir.Type | None] = {}

    def name(self, t: ir.Struct, rules: Rules) -> str:
        return t.name

    def lower(self, t: checked.Type) -> ir.Type | None:
        """The type in memory; a pointee, or an element of a buffer, may have rules for that."""
        value = self._value(checked.unstored(t))
        if value is None or not isinstance(t, checked.Stored):
            return value and self.of(value, Rules())
        return self.behind(value, rules_from(t.rules))

    def _value(self, t: checked.Type) -> ir.Type | None:
        if t not in self._values:
            self._values[t] = None  # for a pointer in it to its own type
            self._values[t] = None if t.abstract else self._make_value(t)
        return self._values[t]

    def _make_value(self, t: checked.Type) -> ir.Type | None:
        if t in SCALARS:
            return SCALARS[t]
        if isinstance(t, checked.VectorType):
            is_known = t.element in SCALARS and isinstance(t.count, int)
            return ir.vector(SCALARS[t.element], t.count) if is_known else None  # type: ignore[arg-type]
        if isinstance(t, checked.MatrixType):
            is_known = t.element in SCALARS and isinstance(t.rows, int) and isinstance(t.columns, int)
            return ir.matrix(SCALARS[t.element], t.rows, t.columns) if is_known else None  # type: ignore[arg-type]
        if isinstance(t, checked.ArrayType):
            element = self._value(t.element)
            return ir.array(element, t.count) if element is not None and isinstance(t.count, int) else None
        if isinstance(t, checked.PointerType):
            return ir.pointer(self.lower(t.element) or ir.U8)
        if isinstance(t, checked.EnumType):
            return self._value(self._tag(t))
        if isinstance(t, checked.InterfaceType):
            return self._interface(t)
        if isinstance(t, checked.Tuple) and t.elements:
            return self._struct(t, tuple((f"_{i}", element) for i, element in enumerate(t.elements)))
        return self._struct(t, self._fields(t)) if isinstance(t, checked.StructType) else None

    def _interface(self, t: checked.InterfaceType) -> ir.Type | None:
        size, conforming = self._alternatives(t)
        if size is None:
            parts = [self.lower(part) for part in conforming]
            if None in parts:
                return None
            sizes = (any_value_layout(part).size for part in parts if part is not None)
            size = max(sizes, default=OPEN_SIZE)
        words = interface_words(f"{t} in memory", size)
        self.words.add(words)
        return words

    def _struct(self, t: checked.StructType | checked.Tuple, fields: Fields) -> ir.Type | None:
        values = tuple((name, self._value(checked.unstored(field))) for name, field in fields)
        lowered = tuple((name, value) for name, value in values if value is not None)
        if len(lowered) < len(values):
            return None
        rules = {i: row for i, (_, field) in enumerate(fields) if (row := checked.rules_of(field))}
        struct = ir.struct(str(t), lowered)
        if self.declared(struct) not in (
            None,
            rules,
        ):  # a struct of this name and these fields in another namespace
            struct = ir.struct(f"{t}#{len(self._values)}", lowered)
        self.declare(struct, rules)
        return struct

    def lift(self, t: ir.Type) -> checked.Type | None:
        """The checked type that has this type in memory; a struct must be one that this program knows."""
        return lifted(t, self._struct_of)

    def _struct_of(self, t: ir.Struct) -> checked.Type | None:
        declared = self._find(t.name)
        return declared if declared is not None and self.lower(declared) is t else None


def lifted(t: ir.Type, declared: Callable[[ir.Struct], checked.Type | None]) -> checked.Type | None:
    """The checked type that has this type in memory; `declared` gives that of a struct."""
    if isinstance(t, ir.Scalar):
        return _CHECKED_SCALARS[t]
    if isinstance(t, ir.Vector):
        return checked.vector(_CHECKED_SCALARS[t.element], t.length)
    if isinstance(t, ir.Matrix):
        return None if t.transposed else checked.matrix(_CHECKED_SCALARS[t.element], t.rows, t.columns)
    if isinstance(t, (ir.Array, ir.Pointer)):
        element = lifted(t.element, declared)
        if element is None:
            return None
        return checked.pointer(element) if isinstance(t, ir.Pointer) else checked.array(element, t.length)
    return declared(t) if isinstance(t, ir.Struct) else None
