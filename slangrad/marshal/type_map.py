"""Checked types and the concrete types of memory, both ways.

    float3 <-> f32x3        Particle <-> struct "Particle"        float[4] <-> [4 x f32]

Structs need the program, which knows their fields; a struct is found back by its name. Types that have no
place in memory give None.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.model import types as checked
from slangrad.ir import types as ir
from slangrad.ir.forms import (
    Rules,
    array_form,
    element_form,
    matrix_form,
    number_form,
    rules_from,
    struct_form,
)
from slangrad.ir.layout import HEADER, any_value_layout, round_up

SCALARS: dict[checked.Type, ir.Scalar] = {
    checked.BOOL: ir.BOOL,
    checked.INT8: ir.I8,
    checked.INT16: ir.I16,
    checked.INT: ir.I32,
    checked.INT64: ir.I64,
    checked.UINT8: ir.U8,
    checked.UINT16: ir.U16,
    checked.UINT: ir.U32,
    checked.UINT64: ir.U64,
    checked.HALF: ir.F16,
    checked.FLOAT: ir.F32,
    checked.DOUBLE: ir.F64,
}
_CHECKED_SCALARS: dict[ir.Scalar, checked.Type] = {lowered: t for t, lowered in SCALARS.items()}

Fields = tuple[tuple[str, checked.Type], ...]


class TypeMap:
    """`fields` gives the fields of a struct, with their rules for memory, `tag` the integer type of an enum, `find` the
    type of a name, `behind` how large values of an interface type are, if that is said, which types they can have."""

    def __init__(
        self,
        fields: Callable[[checked.Type], Fields],
        tag: Callable[[checked.EnumType], checked.Type],
        find: Callable[[str], checked.Type | None],
        behind: Callable[[checked.InterfaceType], tuple[int | None, tuple[checked.Type, ...]]],
    ) -> None:
        self._fields = fields
        self._tag = tag
        self._find = find
        self._behind = behind
        self._known: dict[tuple[checked.Type, Rules], ir.Type | None] = {}

    def lower(self, t: checked.Type) -> ir.Type | None:
        """The type in memory; with rules for that what a pointer leads to, or a buffer has elements of."""
        rules = rules_from(checked.rules_of(t))
        made = self._form(checked.unstored(t), rules)
        return made if made is None or not isinstance(t, checked.Stored) else element_form(made, rules)

    def _form(self, t: checked.Type, rules: Rules) -> ir.Type | None:
        if (t, rules) not in self._known:
            self._known[t, rules] = None  # for a pointer in it to its own type
            self._known[t, rules] = None if t.abstract else self._make(t, rules)
        return self._known[t, rules]

    def _make(self, t: checked.Type, rules: Rules) -> ir.Type | None:
        if t in SCALARS:
            return number_form(SCALARS[t], rules)
        if isinstance(t, checked.Vector):
            if not _plain(t.element, t.count):
                return None
            return number_form(ir.vector(SCALARS[t.element], t.count), rules)  # type: ignore[arg-type]
        if isinstance(t, checked.Matrix):
            made = _matrix(t)
            return None if made is None else matrix_form(made, rules)
        if isinstance(t, checked.Array):
            element = self._form(t.element, rules)
            known = element is not None and isinstance(t.count, int)
            return array_form(element, t.count, rules) if known else None  # type: ignore[arg-type]
        if isinstance(t, checked.Pointer):
            return ir.pointer(self.lower(t.element) or ir.U8)
        if isinstance(t, checked.EnumType):
            return self._form(self._tag(t), rules)
        if isinstance(t, checked.InterfaceType):
            return self._interface(t)
        return self._struct(t, rules) if isinstance(t, checked.StructType) else None

    def _interface(self, t: checked.InterfaceType) -> ir.Type | None:
        """Words: a header with the id of the type, and the value."""
        size, conforming = self._behind(t)
        if size is None:
            parts = [self.lower(each) for each in conforming]
            if not parts or None in parts:
                return None
            size = max(any_value_layout(each).size for each in parts if each is not None)
        return ir.struct(f"{t} in memory", (("words", ir.array(ir.U32, (HEADER + round_up(size, 4)) // 4)),))

    def _struct(self, t: checked.StructType, rules: Rules) -> ir.Type | None:
        values, parts = [], []
        for name, field in self._fields(t):
            inside = rules_from(checked.join_rules(checked.rules_of(field), rules.layout))
            part = self._form(checked.unstored(field), inside)
            if part is None:
                return None
            parts.append(part)
            values.append((name, ir.value_of(part)))
        return struct_form(ir.struct(str(t), tuple(values)), parts, rules, str(t))

    def lift(self, t: ir.Type) -> checked.Type | None:
        """The checked type that has this type in memory; a struct must be one that this program knows."""
        if isinstance(t, ir.Scalar):
            return _CHECKED_SCALARS[t]
        if isinstance(t, ir.Vector):
            return checked.vector(_CHECKED_SCALARS[t.element], t.length)
        if isinstance(t, ir.Matrix):
            return None if t.transposed else checked.matrix(_CHECKED_SCALARS[t.element], t.rows, t.columns)
        if isinstance(t, ir.Array):
            element = self.lift(t.element)
            return None if element is None else checked.array(element, t.length)
        if isinstance(t, ir.Pointer):
            element = self.lift(t.element)
            return None if element is None else checked.pointer(element)
        found = self._find(t.name) if isinstance(t, ir.Struct) else None
        return found if found is not None and self.lower(found) is t else None


def _matrix(t: checked.Matrix) -> ir.Matrix | None:
    if t.element not in SCALARS or not isinstance(t.rows, int) or not isinstance(t.columns, int):
        return None
    return ir.matrix(SCALARS[t.element], t.rows, t.columns)


def _plain(element: checked.Type, count: object) -> bool:
    return element in SCALARS and isinstance(count, int)
