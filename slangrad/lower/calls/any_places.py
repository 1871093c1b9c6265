"""The place that a `ref` accessor returns for an object whose type is known at run time only: one for each type.

    interface ICells { __subscript(int i) -> float { ref; } }
    cells[i] = v        cells is a Row ? row.cells[i] = v : grid.first = v

The accessor of the type that the object has runs, once. A property that is required may be a field.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.names.places import gives_address
from slangrad.ir.data.types import Type
from slangrad.ir.ops.core import Value
from slangrad.lower.calls import references
from slangrad.lower.model.frame import Frame, Place, Referring
from slangrad.lower.places.places import Aggregate, Temporary
from slangrad.lower.values.interface_values import narrow, over_types, widen
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast


def place(f: Frame, resolved: DeclRef, owner: Place | None, arguments: list[Temporary]) -> Place:
    """The place that a required `ref` gives."""
    key = dispatched(f.lowering, resolved)
    element = f.program.substitute(f.program.info(resolved.declaration).result, resolved.substitution)
    if not isinstance(key, ast.Interface) or owner is None or checked.is_dynamic(element):
        f.error("E9007", f"'ref' cannot give a '{element}' whose type is known at run time only", f.b.span)
        return Temporary(f.b.zero(f.lowering.types.of(element)))
    wide = resolved.type_for(key)
    kinds = [
        _Kind(f, DeclRef(resolved.declaration.parent, {**resolved.substitution, key: t}), t, i, owner, wide)
        for i, t in enumerate(f.lowering.types.alternatives(wide))
    ]
    if not kinds:
        f.lowering.alternatives.lacks(wide, f.b.span)
        return Temporary(f.b.zero(f.lowering.types.of(element)))
    object_ = owner.get(f)
    for kind in kinds:
        kind.open()
    over_types(f, object_, wide, lambda i, t: kinds[i].ask(arguments))
    number = f.emit("get", object_, index=0)
    return references.OneOf(number, [kind.close() for kind in kinds])


class _Kind:
    """One type that the object can have: variables hold the descriptor of the place in it."""

    def __init__(
        self, f: Frame, reference: DeclRef, t: checked.Type, number: int, owner: Place, wide: checked.Type
    ) -> None:
        self.f, self.number = f, number
        self.owner = Narrowed(owner, f.lowering.types.of(t), wide, t, number)
        member = f.resolve(reference)
        self.field = member.declaration.name if isinstance(member.declaration, ast.Variable) else None
        self.referring = None if self.field is not None else self._referring(member)

    def _referring(self, member: DeclRef) -> Referring:
        accessor = next(candidate for candidate in member.declaration.accessors if candidate.name == "ref")
        if gives_address(accessor):
            self.f.error("E9007", "a buffer behind an interface has no elements to refer to", self.f.b.span)
            self.f.lowering.reporter.raise_if_errors()
        return self.f.lowering.referring(DeclRef(accessor, member.substitution))

    @property
    def _keys(self) -> list[tuple[object, int]]:
        return [] if self.referring is None else [(self, i) for i in range(len(self.referring.descriptor))]

    def open(self) -> None:
        if self.referring is not None:
            zeros = map(self.f.b.zero, self.referring.descriptor)
            self.f.variables.update(zip(self._keys, zeros, strict=True))

    def ask(self, arguments: list[Temporary]) -> None:
        if self.referring is not None:
            descriptor = references.ask(self.f, self.referring, self.owner, arguments)
            self.f.variables.update(zip(self._keys, descriptor, strict=True))

    def close(self) -> Place:
        if self.referring is None:
            assert self.field is not None
            return self.owner.field(self.f, self.field)
        descriptor = tuple(self.f.variables.pop(key) for key in self._keys)
        return references.put_together(self.f, self.referring, self.owner, descriptor)


@dataclass(slots=True)
class Narrowed(Aggregate):
    """An object as one of the types that it can have."""

    whole: Place
    type: Type
    wide: checked.Type
    own: checked.Type
    number: int

    def read(self, f: Frame) -> Value:
        return narrow(f, self.whole.get(f), self.wide, self.own, self.number)

    def set(self, f: Frame, value: Value) -> None:
        self.whole.set(f, widen(f, value, self.own, self.wide, self.number))

    def is_own(self) -> bool:
        return self.whole.is_own()
