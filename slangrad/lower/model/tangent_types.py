"""Types of derivatives: of which types there are any, and what of a struct is in them.

struct S : IDifferentiable { float x; int n; }     ->     struct S.Differential { f32 x }, its field 0 is that of S

Enters the derivative type of each struct that has one into `Program.differentials`, the other halves of pointers
into `Program.duals`.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import Program as CheckedProgram
from slangrad.ir import core, types
from slangrad.lower.model.alternatives import is_tangent
from slangrad.lower.model.unlowerable import Unlowerable

TypeOf = Callable[[checked.Type], types.Type]


class TangentTypes:
    """`map` gives IR types, `of` the same and reports where there is none; `function` makes a function instance and
    gives its name."""

    def __init__(
        self,
        program: CheckedProgram,
        ir: core.Program,
        map: TypeOf,
        of: TypeOf,
        unique: Callable[[str], str],
        function: Callable[[DeclRef], str],
    ) -> None:
        self._program, self._ir = program, ir
        self._map, self._of, self._unique, self._function = map, of, unique, function
        self._contexts: set[checked.Type] = set()

    def has_tangent(self, t: checked.Type) -> bool:
        """Whether values of a type carry derivatives; those of a lambda do where a captured variable does."""
        if isinstance(t, checked.LambdaType) or t in self._contexts:
            return self._map(t) in self._ir.differentials
        return self._program.differential(t) is not None

    def dual(self, t: checked.Type) -> types.Type | None:
        """The type of the other half of a pointer that is differentiated."""
        if isinstance(t, checked.LambdaType) or t is checked.VOID:
            return None
        found = self._program.pointer_differential(t)
        return None if found is None else self._of(found)

    def tangent(self, t: checked.Type) -> types.Type:
        """The type of the derivative of a type that has one."""
        if isinstance(t, checked.LambdaType) or t in self._contexts:
            lowered = self._map(t)
            assert isinstance(lowered, types.Struct)
            return self._ir.differentials[lowered].type
        info = self._program.differential(t)
        assert info is not None, t
        return self._of(info.type)

    def row(self, primal: types.Type | None) -> core.Differential | None:
        """What the derivative of a struct is; None for other types."""
        return self._ir.differentials.get(primal) if isinstance(primal, types.Struct) else None

    def tangent_of(self, primal: types.Type) -> types.Type:
        """The type of the derivative of an IR type that has one."""
        if isinstance(primal, types.Array):
            return types.array(self.tangent_of(primal.element), primal.length)
        row = self.row(primal)
        return primal if row is None else row.type

    def cuts_field(self, t: types.Type, index: object) -> bool:
        """Whether a field's derivative is lost in its struct."""
        if not isinstance(t, types.Struct):
            return False
        row = self._ir.differentials.get(t)
        return row is None or all(primal != index for primal, _ in row.fields)

    def enter(self, t: checked.Type, lowered: types.Struct) -> None:
        """A struct was made: its derivative type, if it has one."""
        if isinstance(t, checked.StructType):
            self._enter_struct(t, lowered)
        elif isinstance(t, checked.Tuple):
            self._enter_tuple(t, lowered)
        elif isinstance(t, checked.LambdaType):
            self._enter_lambda(t, lowered)
        elif checked.is_dynamic(t) and not is_tangent(t):
            self._enter_dynamic(t, lowered)

    def _enter_struct(self, t: checked.StructType, lowered: types.Struct) -> None:
        info = self._program.differential(t)
        if info is None:
            dual = self._program.pointer_differential(t)
            if dual is not None:
                self._ir.duals[lowered] = self._map(dual)
            return
        tangent = self._map(info.type)
        has_own = info.zero is not None or info.add is not None
        if has_own and not isinstance(tangent, types.Struct):
            raise Unlowerable(
                f"the Differential of '{t}' has its own dzero or dadd, so it must be a struct", "E9008"
            )
        fields = tuple(
            (lowered.index(primal.declaration.name), tangent.index(own.declaration.name))
            for primal, own in info.fields
            if own is not None and isinstance(tangent, types.Struct)
        )
        zero, add = (None if each is None else self._function(each) for each in (info.zero, info.add))
        kept: tuple[tuple[int, int], ...] = ()
        if t.declaration is self._program.standard("Optional"):
            fields, kept = fields[:1], fields[1:]  # the value, and whether there is one
        self._ir.differentials[lowered] = core.Differential(tangent, fields, zero, add, kept)

    def _enter_tuple(self, t: checked.Tuple, lowered: types.Struct) -> None:
        info = self._program.differential(t)
        if info is not None:
            fields = tuple((i, i) for i in range(len(lowered.fields)))
            self._ir.differentials[lowered] = core.Differential(self._map(info.type), fields)

    def _enter_dynamic(self, t: checked.Type, lowered: types.Struct) -> None:
        info = self._program.differential(t)
        if info is not None:
            fields = tuple((i + 1, i) for i in range(len(lowered.fields) - 1))
            self._ir.differentials[lowered] = core.Differential(self._map(info.type), fields)

    def _enter_lambda(self, t: checked.LambdaType, lowered: types.Struct) -> None:
        captured = [
            (i, kind) for i, kind in enumerate(captured_types(self._program, t)) if self.has_tangent(kind)
        ]
        if captured:
            parts = tuple((lowered.fields[i][0], self.tangent(kind)) for i, kind in captured)
            tangent = types.struct(self._unique(f"{lowered.name}.Differential"), parts)
            fields = tuple((i, own) for own, (i, _) in enumerate(captured))
            self._ir.differentials[lowered] = core.Differential(tangent, fields)

    def enter_context(self, result: checked.Type, context: checked.Type) -> None:
        """Let derivatives through the context of a forward pass of the user's own, which need not conform to
        IDifferentiable: derivatives of the derivative go through it.
        """
        for made in (context, result):
            t = self._of(made)
            if not isinstance(t, types.Struct) or t in self._ir.differentials:
                continue
            self._contexts.add(made)
            carrying = [
                (i, own) for i, (_, field) in enumerate(t.fields) if (own := self._derived(field)) is not None
            ]
            if carrying:
                parts = tuple((t.fields[i][0], own) for i, own in carrying)
                tangent = types.struct(self._unique(f"{t.name}.Differential"), parts)
                fields = tuple((i, own) for own, (i, _) in enumerate(carrying))
                self._ir.differentials[t] = core.Differential(tangent, fields)

    def _derived(self, t: types.Type) -> types.Type | None:
        """The type of the derivative of an IR type, if it has one."""
        scalar = types.scalar_of(t)
        if scalar is not None:
            return t if scalar.kind == "float" else None
        if isinstance(t, types.Array):
            element = self._derived(t.element)
            return None if element is None else types.array(element, t.length)
        row = self.row(t)
        return None if row is None else row.type


def captured_types(program: CheckedProgram, t: checked.LambdaType) -> list[checked.Type]:
    """The types of the variables that a lambda captures."""
    seen = program.call_operator(t).substitution
    captures = program.info(t.declaration).captures
    return [program.substitute(program.info(each).type, seen) for each in captures]
