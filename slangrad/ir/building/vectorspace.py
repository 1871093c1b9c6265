"""Tangent types, their zeros and sums.

    tangent(f32x3) = f32x3     tangent([8 x Ray]) = [8 x Ray.Differential]     tangent(i32) = None

A derivative known to be zero is `None`, so no code is made for it; `zero` makes a value of it if one is needed. A
struct is differentiable when `Program.differentials` says so. A tangent type without a row there is its own tangent
type, as `T.Differential.Differential` is `T.Differential`. The zero of a tape is bits of zero, whatever the user's
`dzero` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import (
    BOOL,
    Array,
    Struct,
    Type,
    array,
    component,
    components,
    scalar_of,
    struct,
)
from slangrad.ir.ops.core import Differential, Value

UNROLLED = 8  # longer arrays are added and zeroed by a loop


class VectorSpace:
    """The tangent types of one program."""

    def __init__(self, differentials: Mapping[Struct, Differential]) -> None:
        self._differentials = dict(differentials)
        self._tangents = {d.type for d in differentials.values()}

    def tangent(self, t: Type) -> Type | None:
        """The type of a derivative of a value of type `t`; None when it has none."""
        scalar = scalar_of(t)
        if scalar is not None:
            return t if scalar.kind == "float" else None
        if isinstance(t, Array):
            element = self.tangent(t.element)
            return None if element is None else array(element, t.length)
        d = self._differential(t) if isinstance(t, Struct) else None
        return None if d is None else d.type

    def tangent_of(self, primal: Type) -> Type:
        tangent = self.tangent(primal)
        assert tangent is not None, primal
        return tangent

    def add_struct(self, t: Struct) -> None:
        """One of the compiler's own: its derivative has that of each field."""
        differential = by_fields(t, [self.tangent(field) for _, field in t.fields], f"{t.name}.Differential")
        if differential is not None:
            self._differentials[t] = differential
            self._tangents.add(differential.type)

    def field(self, t: Type, index: int) -> int | None:
        """The component of the tangent that belongs to component `index` of a `t`."""
        if not isinstance(t, Struct):
            return index
        d = self._differential(t)
        return None if d is None else dict(d.fields).get(index)

    def zero(self, b: Builder, primal: Type) -> Value:
        """The zero of the tangents of a type. Types that share a tangent type may differ in their zeros."""
        tangent, user = self.tangent_of(primal), self._functions(primal)
        if user is not None and user.zero is not None:
            return b.call(user.zero, (), (tangent,))[0]
        if not self._has_functions(primal):
            return b.zero(tangent)
        if isinstance(primal, Array):
            return self._zero_array(b, primal, tangent)
        assert isinstance(primal, Struct) and isinstance(tangent, Struct), primal
        parts = self._parts(primal, tangent)
        fields = (
            b.zero(t) if part is None else self.zero(b, part) for part, (_, t) in zip(parts, tangent.fields)
        )
        return b.emit("make", *fields, type=tangent)

    def add(self, b: Builder, primal: Type, x: Value, y: Value) -> Value:
        """The sum of two tangents of a type."""
        t, user = x.type, self._functions(primal)
        assert t is y.type and t is self.tangent(primal), (primal, t, y.type)
        if user is not None and user.add is not None:
            return b.call(user.add, (x, y), (t,))[0]
        if _is_zero(b, x):
            return y
        if _is_zero(b, y):
            return x
        if scalar_of(t) is not None:
            return b.emit("add", x, y)
        if isinstance(primal, Array):
            return self._add_arrays(b, primal, x, y)
        assert isinstance(primal, Struct) and isinstance(t, Struct), primal
        assert user is not None
        either = {position for _, position in user.kept}  # whether there is a value in an optional
        fields = (
            b.emit("or", *(b.emit("get", operand, index=i) for operand in (x, y)))
            if i in either
            else self._add_component(b, part, x, y, i)
            for i, part in enumerate(self._parts(primal, t))
        )
        return b.emit("make", *fields, type=t)

    def add_at(self, b: Builder, primal: Type, x: Value, index: Value, y: Value) -> Value:
        """`x`, a tangent of an array of `primal`s, with `y` added to the element at a run-time index; nothing where
        the index is out of range.
        """
        maker = b.made_by(x)
        if maker is not None and maker.name == "set_index" and maker.operands[1] is index:
            return b.emit("set_index", maker.operands[0], index, self.add(b, primal, maker.operands[2], y))
        if not self._has_functions(primal):
            return b.emit("add_index", x, index, y)
        return b.emit("set_index", x, index, self.add(b, primal, b.emit("index", x, index), y))

    # --- fields of a tangent that are copied from its primal

    def settled(self, b: Builder, primal: Type, tangent: Value, value: Value | None = None) -> Value:
        """A tangent for the user: with the fields that are copied from its primal value. Without a primal,
        optionals count as present.
        """
        if not self._keeps(primal):
            return tangent
        if isinstance(primal, Array) and (primal.length is None or primal.length > UNROLLED):
            return self._settled_array(b, primal, tangent, value)
        for field, position in self._rows(primal):
            part = None if value is None else b.emit("get", value, index=field)
            inner = self.settled(b, component(primal, field), b.emit("get", tangent, index=position), part)
            tangent = b.emit("set", tangent, inner, index=position)
        row = self._functions(primal)
        for field, position in () if row is None else row.kept:
            copied = b.constant(BOOL, True) if value is None else b.emit("get", value, index=field)
            tangent = b.emit("set", tangent, copied, index=position)
        return tangent

    def _rows(self, primal: Type) -> Iterable[tuple[int, int]]:
        row = self._functions(primal)
        if row is not None:
            return row.fields
        assert isinstance(primal, Array)
        return ((i, i) for i in range(primal.length or 0))

    def _settled_array(self, b: Builder, primal: Array, tangent: Value, value: Value | None) -> Value:
        if primal.length is None:
            return tangent

        def element(nb: Builder, whole: Value, i: Value) -> Value:
            part = None if value is None else nb.emit("index", value, i)
            return self.settled(nb, primal.element, nb.emit("index", whole, i), part)

        return b.with_elements(tangent, element)

    def _keeps(self, primal: Type) -> bool:
        if isinstance(primal, Array):
            return self._keeps(primal.element)
        if not isinstance(primal, Struct) or self.tangent(primal) is None:
            return False
        row = self._differential(primal)
        assert row is not None
        return bool(row.kept) or any(self._keeps(primal.fields[field][1]) for field, _ in row.fields)

    def _functions(self, primal: Type) -> Differential | None:
        return self._differential(primal) if isinstance(primal, Struct) else None

    def _parts(self, primal: Struct, tangent: Struct) -> list[Type | None]:
        """For each field of the tangent the type of the field that it belongs to."""
        row = self._differential(primal)
        assert row is not None, primal
        types: list[Type | None] = [None] * len(tangent.fields)
        for field, position in row.fields:
            types[position] = primal.fields[field][1]
        return types

    def _zero_array(self, b: Builder, primal: Array, tangent: Type) -> Value:
        if primal.length is None or primal.length == 0:
            return b.zero(tangent)
        if primal.length > UNROLLED:
            return b.with_elements(b.zero(tangent), lambda nb, _, i: self.zero(nb, primal.element))
        parts = (self.zero(b, primal.element) for _ in range(primal.length))
        return b.emit("make", *parts, type=tangent)

    def _add_component(self, b: Builder, primal: Type | None, x: Value, y: Value, index: int) -> Value:
        """A user's own tangent type may have fields that belong to no field of the primal. These are added by their
        own type; without a sum the first operand's field is taken."""
        first = b.emit("get", x, index=index)
        primal = first.type if primal is None else primal
        if self.tangent(primal) is not first.type:
            return first
        return self.add(b, primal, first, b.emit("get", y, index=index))

    def _add_arrays(self, b: Builder, primal: Array, x: Value, y: Value) -> Value:
        if primal.length is None:
            raise CompileError([_sum_of_tapes(b.span)])
        element = primal.element
        if primal.length > UNROLLED:

            def total(nb: Builder, whole: Value, i: Value) -> Value:
                return self.add(nb, element, nb.emit("index", whole, i), nb.emit("index", y, i))

            return b.with_elements(x, total)
        parts = (self._add_component(b, element, x, y, i) for i in range(primal.length))
        return b.emit("make", *parts, type=x.type)

    def _has_functions(self, primal: Type) -> bool:
        """Whether the user's own zero or addition is somewhere in a type."""
        if scalar_of(primal) is not None or self.tangent(primal) is None:
            return False
        user = self._functions(primal)
        if user is not None and (user.zero is not None or user.add is not None):
            return True
        if isinstance(primal, Array):
            return self._has_functions(primal.element)
        assert isinstance(primal, Struct) and user is not None, primal
        return any(self._has_functions(primal.fields[field][1]) for field, _ in user.fields)

    def _differential(self, t: Struct) -> Differential | None:
        differential = self._differentials.get(t)
        if differential is None:
            differential = self._own_tangent(t) if t in self._tangents else self._of_pair(t)
            if differential is not None:
                self._differentials[t] = differential
        return differential

    def _own_tangent(self, t: Struct) -> Differential:
        """A tangent type as a vector space of its own."""
        return Differential(t, tuple((i, i) for i, c in enumerate(components(t)) if self.tangent(c) is c))

    def _of_pair(self, t: Struct) -> Differential | None:
        """A differential pair that the program does not list: both of its halves carry derivatives."""
        if tuple(name for name, _ in t.fields) != ("p", "d"):
            return None
        primal, derivative = (field for _, field in t.fields)
        if self.tangent(primal) is not derivative:
            return None
        second = self.tangent(derivative)
        assert second is not None
        same = derivative is primal and second is derivative
        tangent = t if same else struct(f"{t.name}.Differential", (("p", derivative), ("d", second)))
        return Differential(tangent, ((0, 0), (1, 1)))


def by_fields(t: Struct, tangents: Sequence[Type | None], name: str) -> Differential | None:
    """The derivative of a struct that has those of its fields, if any field has one."""
    rows = [(i, t_of_tangent) for i, t_of_tangent in enumerate(tangents) if t_of_tangent is not None]
    if not rows:
        return None
    tangent = struct(name, tuple((t.fields[i][0], t_of_tangent) for i, t_of_tangent in rows))
    return Differential(tangent, tuple((i, k) for k, (i, _) in enumerate(rows)))


def _sum_of_tapes(span: Span | None) -> Diagnostic:
    """A tape has no end, so only its elements are added, where they are read."""
    message = "this derivative of a derivative would have to add what two loops of unknown length have kept"
    return Diagnostic("E9008", message, span, "give one of the loops a bound that is known when compiling")


def _is_zero(b: Builder, x: Value) -> bool:
    """Whether a tangent is known to be zero; adding to such a one changes at most the sign of a zero."""
    op = b.made_by(x)
    return op is not None and (op.name == "zero" or (op.name == "const" and op.attributes["value"] == 0))
