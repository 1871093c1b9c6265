"""The forms of types in memory for kernels: interface values are words, and forms have derivatives.

Also enters the derivative type of a form, for variables of a function that have addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.abi import MemoryForms
from slangrad.ir.data import types
from slangrad.ir.data.forms import NATURAL, Rules, part_of
from slangrad.ir.ops import core

Words = Callable[[types.Type], "types.Type | None"]


class KernelMemoryForms(MemoryForms):
    """`words` gives the form of an interface value; None for other types."""

    def __init__(self, ir: core.Program, words: Words, unique: Callable[[str], str]) -> None:
        super().__init__()
        self._ir, self._words_of, self._unique = ir, words, unique
        self._with_words: set[types.Type] = set()

    def name(self, t: types.Struct, rules: Rules) -> str:
        return self._unique(t.name + (" in memory" if rules.layout == NATURAL else f", {rules.layout}"))

    def holds_words(self, form: types.Type) -> bool:
        """Whether there are interface values in a form."""
        return form in self._with_words or (isinstance(form, types.Array) and self.holds_words(form.element))

    def make(self, t: types.Type, rules: Rules) -> types.Type:
        words = self._words_of(t)
        if words is None:
            return super().make(t, rules)
        self._with_words.add(words)
        return words

    def make_struct(self, t: types.Struct, rules: Rules) -> types.Type:
        form = super().make_struct(t, rules)
        if form is t or not isinstance(form, types.Struct):
            return form
        if any(self.holds_words(part) for _, part in form.fields):
            self._with_words.add(form)
        elif isinstance(form, types.MemoryForm):
            self._enter_struct(form, self._ir.differentials.get(t))
        return form

    def close(self, opened: types.OpenForm, t: types.Struct, rules: Rules) -> None:
        super().close(opened, t, rules)
        if any(self.holds_words(part) for _, part in opened.fields):
            self._with_words.add(opened)
        else:
            self._enter_struct(opened, self._ir.differentials.get(t))

    # --- derivatives

    def _enter_struct(self, form: types.MemoryForm, row: core.Differential | None) -> None:
        if row is None:
            return
        parts: dict[int, tuple[str, types.Type]] = {}
        for primal, tangent in (*row.fields, *row.kept):
            parts[tangent] = (str(tangent), self._tangent(form.fields[primal][1]))
        fields = tuple(parts[i] for i in sorted(parts))
        tangent_type = types.struct(self._unique(f"{form.name}.Differential"), fields)
        places = {tangent: i for i, tangent in enumerate(sorted(parts))}
        self._ir.differentials[form] = core.Differential(
            tangent_type,
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
