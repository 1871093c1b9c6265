"""How values lie in memory, for kernels and the host alike.

    float3 -> f32x3                               a scalar, by the table
    struct S { column_major float3x2 m; }    ->   form "S in memory" { m: f32x2x3t }     computed with: struct S

In: the type of values, and rules (`ir/data/forms.py`).   Out: its form in memory, which is the type itself if both
are the same. Kernels (`lower/model/type_map.py`) and the host (`marshal/protocol/type_map.py`) map checked types to
types of values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from slangrad.check.model import types as checked
from slangrad.ir.data import types
from slangrad.ir.data.forms import (
    NATURAL,
    Rules,
    array_form,
    element_form,
    matrix_form,
    number_form,
    rules_from,
    struct_form,
)
from slangrad.ir.data.layout import HEADER, layout_of, round_up

SCALARS: dict[checked.Type, types.Scalar] = dict(zip(checked.SCALARS, types.SCALARS.values(), strict=True))
assert all(
    t.bits == form.bits and t.is_float == types.is_float(form)
    for t, form in zip(checked.SCALARS, SCALARS.values())
)


def interface_words(name: str, size: int) -> types.Struct:
    """An interface value in memory: a header with the id of the type, and a value of so many bytes."""
    return types.struct(name, (("words", types.array(types.U32, (HEADER + round_up(size, 4)) // 4)),))


class MemoryForms(ABC):
    """The forms of types in memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[types.Type, Rules], types.Type] = {}
        self._of_fields: dict[types.Type, dict[int, str]] = {}
        self.words: set[types.Type] = set()  # interface values in memory, which no rules change

    @abstractmethod
    def name(self, t: types.Struct, rules: Rules) -> str:
        """The name of a struct's form."""

    def declare(self, t: types.Type, rules: dict[int, str]) -> None:
        """The attributes of memory of a struct's fields."""
        self._of_fields[t] = rules

    def declared(self, t: types.Type) -> dict[int, str] | None:
        return self._of_fields.get(t)

    def of(self, t: types.Type, rules: Rules) -> types.Type:
        """The form, which is the type itself if both are the same."""
        if (t, rules) not in self._known:
            self._known[t, rules] = self.make(t, rules)
        return self._known[t, rules]

    def behind(self, t: types.Type, rules: Rules) -> types.Type:
        """The pointee, which may have a next element."""
        return element_form(self.of(t, rules), rules)

    def open(self, name: str) -> types.OpenForm:
        """The form of a struct with pointers to itself, for these pointers."""
        return types.open_form(name)

    def close(self, opened: types.OpenForm, t: types.Struct, rules: Rules) -> None:
        """From now on the form of `t` by these rules is the opened one, which has its fields."""
        form = self.behind(t, rules)
        assert isinstance(form, types.Struct), form
        layout = layout_of(form)
        types.close_form(opened, form.fields, t, layout.size, layout.alignment, tuple(layout.offsets))
        self._known[t, rules] = opened

    def make(self, t: types.Type, rules: Rules) -> types.Type:
        if t in self.words:
            return t
        if isinstance(t, types.Struct):
            return self.make_struct(t, rules)
        if isinstance(t, types.Array):
            return array_form(self.of(t.element, rules), t.length, rules)
        if isinstance(t, types.Matrix):
            return matrix_form(t, rules)
        return number_form(t, rules) if isinstance(t, (types.Scalar, types.Vector)) else t

    def make_struct(self, t: types.Struct, rules: Rules) -> types.Type:
        of_fields = self._of_fields.get(t, {})
        parts = [self.of(part, _inside(rules, of_fields.get(i, ""))) for i, (_, part) in enumerate(t.fields)]
        if all(part is field for part, (_, field) in zip(parts, t.fields, strict=True)) and rules == Rules():
            return t
        return struct_form(t, parts, rules, self.name(t, rules))


def _inside(around: Rules, text: str) -> Rules:
    """A matrix layout outside of a struct does not hold for its fields."""
    inner = rules_from(text)
    return inner if inner.layout != NATURAL else Rules(around.layout, inner.columns)
