"""Tangent types, their zeros and sums.

    tangent(f32x3) = f32x3     tangent([8 x Ray]) = [8 x Ray.Differential]     tangent(i32) = None

A derivative known to be zero is no value at all (`None`), so no code is made for it; `zero` makes it a
value where one is needed. A struct is differentiable when `Program.differentials` says so. A tangent type
without a row there is its own tangent type, as `T.Differential.Differential` is `T.Differential`. The
zero of a tape is bits of zero, whatever the user's `dzero` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slangrad.ir.builder import Builder
from slangrad.ir.core import Differential, Region, Value
from slangrad.ir.types import (
    U32,
    Array,
    Struct,
    Type,
    array,
    components,
    is_aggregate,
    scalar_of,
    struct,
)

UNROLLED = 8  # longer arrays are added and zeroed by a loop
ElementMaker = Callable[[Builder, Value], Value]


class VectorSpace:
    """The tangent types of one program."""

    def __init__(self, differentials: Mapping[Struct, Differential]) -> None:
        self._differentials = dict(differentials)
        self._by_tangent: dict[Type, Differential] = {}
        for d in differentials.values():
            self._by_tangent.setdefault(d.type, d)

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

    def field(self, t: Type, index: int) -> int | None:
        """The component of the tangent that belongs to component `index` of a `t`."""
        if not isinstance(t, Struct):
            return index
        d = self._differential(t)
        return None if d is None else dict(d.fields).get(index)

    def zero(self, b: Builder, tangent: Type) -> Value:
        """The zero of a tangent type."""
        user = self._by_tangent.get(tangent)
        if user is not None and user.zero is not None:
            return b.control("call", (), (tangent,), (), {"callee": user.zero})[0]
        if not self._has_functions(tangent):
            return b.zero(tangent)
        if isinstance(tangent, Array) and tangent.length is None:
            return b.zero(tangent)
        if isinstance(tangent, Array) and (tangent.length or 0) > UNROLLED:
            return self._loop(b, tangent, b.zero(tangent), lambda nb, i: self.zero(nb, tangent.element))
        return b.emit("make", *(self.zero(b, c) for c in components(tangent)), type=tangent)

    def add(self, b: Builder, x: Value, y: Value) -> Value:
        """The sum of two tangents of one type."""
        t = x.type
        assert t is y.type, (t, y.type)
        user = self._by_tangent.get(t)
        if user is not None and user.add is not None:
            return b.control("call", (x, y), (t,), (), {"callee": user.add})[0]
        if _is_zero(b, x):
            return y
        if scalar_of(t) is not None:
            return b.emit("add", x, y)
        if isinstance(t, Array):
            return self._add_arrays(b, t, x, y)
        assert isinstance(t, Struct), t
        return b.emit("make", *(self._add_component(b, x, y, i) for i in range(len(t.fields))), type=t)

    def add_at(self, b: Builder, x: Value, index: Value, y: Value) -> Value:
        """`x` with `y` added to the element at a run-time index; nothing where the index is out of range."""
        made = b.made_by(x)
        if made is not None and made.name == "set_index" and made.operands[1] is index:
            return b.emit("set_index", made.operands[0], index, self.add(b, made.operands[2], y))
        if not self._has_functions(y.type):
            return b.emit("add_index", x, index, y)
        return b.emit("set_index", x, index, self.add(b, b.emit("index", x, index), y))

    def _add_component(self, b: Builder, x: Value, y: Value, index: int) -> Value:
        """Fields without a derivative (a user's own tangent type may have some) are the first operand's."""
        first = b.emit("get", x, index=index)
        if self.tangent(first.type) is not first.type:
            return first
        return self.add(b, first, b.emit("get", y, index=index))

    def _add_arrays(self, b: Builder, t: Array, x: Value, y: Value) -> Value:
        assert t.length is not None, "the cotangents of a tape are added by element"
        if t.length > UNROLLED:
            return self._loop(
                b, t, x, lambda nb, i: self.add(nb, nb.emit("index", x, i), nb.emit("index", y, i))
            )
        return b.emit("make", *(self._add_component(b, x, y, i) for i in range(t.length)), type=t)

    def _loop(self, b: Builder, t: Array, start: Value, element: ElementMaker) -> Value:
        """`start` with each element replaced by `element(builder, i)`."""
        index, whole, nb = Value(U32, "i"), Value(t), b.nested()
        changed = nb.emit("set_index", whole, index, element(nb, index))
        count = b.constant(U32, t.length or 0)
        return b.control("for", (count, start), (t,), (Region((index, whole), nb.ops, (changed,)),))[0]

    def _has_functions(self, tangent: Type) -> bool:
        """Whether the user's own zero or addition is somewhere in the type."""
        user = self._by_tangent.get(tangent)
        if user is not None and (user.zero is not None or user.add is not None):
            return True
        if scalar_of(tangent) is not None or not is_aggregate(tangent):
            return False
        if isinstance(tangent, Array):
            return self._has_functions(tangent.element)
        return any(self._has_functions(c) for c in components(tangent))

    def _differential(self, t: Struct) -> Differential | None:
        found = self._differentials.get(t)
        if found is None:
            found = self._own_tangent(t) if t in self._by_tangent else self._of_pair(t)
            if found is not None:
                self._differentials[t] = found
        return found

    def _own_tangent(self, t: Struct) -> Differential:
        """A tangent type as a vector space of its own."""
        user, types = self._by_tangent[t], enumerate(components(t))
        return Differential(t, tuple((i, i) for i, c in types if self.tangent(c) is c), user.zero, user.add)

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


def _is_zero(b: Builder, x: Value) -> bool:
    """Whether a tangent is known to be zero; adding to such a one changes at most the sign of a zero."""
    op = b.made_by(x)
    return op is not None and (op.name == "zero" or (op.name == "const" and op.attributes["value"] == 0))
