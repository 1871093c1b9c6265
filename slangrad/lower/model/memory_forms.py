"""The forms of types in memory: interface values as words, matrices by columns, layouts by rules.

    struct S { column_major float3x2 m; }     ->   form "S in memory" { m: f32x2x3t }     computed with: struct S

Also enters what the derivative of a form is, for variables of a function that have addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir import core, types
from slangrad.ir.forms import (
    NATURAL,
    Rules,
    array_form,
    element_form,
    matrix_form,
    number_form,
    part_of,
    rules_from,
    struct_form,
)

Words = Callable[[types.Type], "types.Type | None"]


class MemoryForms:
    """`words` gives the form of an interface value; None for other types."""

    def __init__(self, ir: core.Program, words: Words, unique: Callable[[str], str]) -> None:
        self._ir, self._words, self._unique = ir, words, unique
        self._known: dict[tuple[types.Type, Rules], types.Type] = {}
        self._of_fields: dict[types.Type, dict[int, str]] = {}
        self._with_words: set[types.Type] = set()

    def declare(self, t: types.Type, rules: dict[int, str]) -> None:
        """What fields of a struct say about themselves."""
        self._of_fields[t] = rules

    def of(self, t: types.Type, rules: Rules) -> types.Type:
        """The form; the type itself where it lies in memory as it is."""
        if (t, rules) not in self._known:
            self._known[t, rules] = self._make(t, rules)
        return self._known[t, rules]

    def behind(self, t: types.Type, rules: Rules) -> types.Type:
        """What a pointer leads to, which may have a next one."""
        return element_form(self.of(t, rules), rules)

    def holds_words(self, made: types.Type) -> bool:
        """Whether there are interface values in a form."""
        return made in self._with_words or (isinstance(made, types.Array) and self.holds_words(made.element))

    def _make(self, t: types.Type, rules: Rules) -> types.Type:
        words = self._words(t)
        if words is not None:
            self._with_words.add(words)
            return words
        if isinstance(t, types.Struct):
            return self._struct(t, rules)
        if isinstance(t, types.Array):
            return array_form(self.of(t.element, rules), t.length, rules)
        if isinstance(t, types.Matrix):
            return matrix_form(t, rules)
        return number_form(t, rules) if isinstance(t, (types.Scalar, types.Vector)) else t

    def _struct(self, t: types.Struct, rules: Rules) -> types.Type:
        own = self._of_fields.get(t, {})
        parts = [self.of(part, self._inside(rules, own.get(i, ""))) for i, (_, part) in enumerate(t.fields)]
        if all(part is field for part, (_, field) in zip(parts, t.fields, strict=True)) and rules == Rules():
            return t
        ending = " in memory" if rules.layout == NATURAL else f", {rules.layout}"
        made = struct_form(t, parts, rules, self._unique(t.name + ending))
        if any(map(self.holds_words, parts)):
            self._with_words.add(made)
        elif isinstance(made, types.Form):
            self._enter_struct(made, self._ir.differentials.get(t))
        return made

    def _inside(self, around: Rules, own: str) -> Rules:
        """What is said of matrices around a struct says nothing about those in it."""
        made = rules_from(own)
        return made if made.layout != NATURAL else Rules(around.layout, made.columns)

    # --- derivatives

    def _enter_struct(self, made: types.Form, row: core.Differential | None) -> None:
        if row is None:
            return
        parts: dict[int, tuple[str, types.Type]] = {}
        for primal, tangent in (*row.fields, *row.kept):
            parts[tangent] = (str(tangent), self._tangent(made.fields[primal][1]))
        fields = tuple(parts[i] for i in sorted(parts))
        found = types.struct(self._unique(f"{made.name}.Differential"), fields)
        places = {tangent: i for i, tangent in enumerate(sorted(parts))}
        self._ir.differentials[made] = core.Differential(
            found,
            tuple((primal, places[tangent]) for primal, tangent in row.fields),
            kept=tuple((primal, places[tangent]) for primal, tangent in row.kept),
        )

    def _tangent(self, t: types.Type) -> types.Type:
        if isinstance(t, types.Array):
            return types.array(self._tangent(t.element), t.length)
        if part_of(t) and isinstance(t, types.Struct) and t not in self._ir.differentials:
            self._ir.differentials[t] = core.Differential(t, ((0, 0),))
        row = self._ir.differentials.get(t) if isinstance(t, types.Struct) else None
        return t if row is None else row.type
