"""Types of derivatives: which types have one, and which fields of a struct it has.

struct S : IDifferentiable { float x; int n; }     ->     struct S.Differential { f32 x }, its field 0 is that of S

Enters the derivative type of each struct that has one into `Program.differentials`, the other halves of pointers
into `Program.duals`.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.generics.substitution import own_substitution
from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.building.vectorspace import VectorSpace, by_fields
from slangrad.ir.data import types
from slangrad.ir.ops import core
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
        dual = self._program.pointer_differential(t)
        return None if dual is None else self._of(dual)

    def tangent(self, t: checked.Type) -> types.Type:
        """The type of the derivative of a type that has one."""
        if isinstance(t, checked.LambdaType) or t in self._contexts:
            lowered = self._map(t)
            assert isinstance(lowered, types.Struct)
            return self._ir.differentials[lowered].type
        info = self._program.differential(t)
        assert info is not None, t
        return self._of(info.type)

    @property
    def space(self) -> VectorSpace:
        """Zeros and sums of the types that are known so far."""
        return VectorSpace(self._ir.differentials)

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
            self._enter_parts(t, lowered, 0)
        elif isinstance(t, checked.LambdaType):
            self._enter_lambda(t, lowered)
        elif checked.is_dynamic(t) and not is_tangent(t):
            self._enter_parts(t, lowered, 1)

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
            (lowered.index(primal.declaration.name), tangent.index(field.declaration.name))
            for primal, field in info.fields
            if field is not None and isinstance(tangent, types.Struct)
        )
        zero, add = (
            None if function is None else self._function(function) for function in (info.zero, info.add)
        )
        kept: tuple[tuple[int, int], ...] = ()
        if t.declaration is self._program.standard("Optional"):
            fields, kept = fields[:1], fields[1:]  # the value, and whether there is one
        self._ir.differentials[lowered] = core.Differential(tangent, fields, zero, add, kept)

    def _enter_parts(self, t: checked.Type, lowered: types.Struct, first: int) -> None:
        """Of fields from the first on, each of which has a derivative."""
        info = self._program.differential(t)
        if info is not None:
            fields = tuple((i + first, i) for i in range(len(lowered.fields) - first))
            self._ir.differentials[lowered] = core.Differential(self._map(info.type), fields)

    def _enter_lambda(self, t: checked.LambdaType, lowered: types.Struct) -> None:
        captured = captured_types(self._program, t)
        self._enter_fields(
            lowered, [self.tangent(kind) if self.has_tangent(kind) else None for kind in captured]
        )

    def _enter_fields(self, lowered: types.Struct, tangents: list[types.Type | None]) -> None:
        if any(tangents):
            row = by_fields(lowered, tangents, self._unique(f"{lowered.name}.Differential"))
            assert row is not None
            self._ir.differentials[lowered] = row

    def enter_context(self, result: checked.Type, context: checked.Type) -> None:
        """Let derivatives through the context of a forward pass of the user's own, which need not conform to
        IDifferentiable: derivatives of the derivative go through it.
        """
        for kind in (context, result):
            t = self._of(kind)
            if not isinstance(t, types.Struct) or t in self._ir.differentials:
                continue
            self._contexts.add(kind)
            self._enter_fields(t, [self.space.tangent(field) for _, field in t.fields])


def captured_types(program: CheckedProgram, t: checked.LambdaType) -> list[checked.Type]:
    """The types of the variables that a lambda captures."""
    seen = own_substitution(t)
    captures = program.info(t.declaration).captures
    return [program.substitute(program.info(captured).type, seen) for captured in captures]
