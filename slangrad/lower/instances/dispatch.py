"""The bodies of requirements that are called on values of interface types: a call of the implementation of each
type.

shape.area()      if %type == 0 { call @Circle.area %is0 } else { call @Square.area %is1 }

A requirement that is called on such a value is a function with that body, so later stages have structs, branches
and calls only.
"""

from __future__ import annotations

from slangrad.check.generics.signatures import signature_of
from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef, GenericKey
from slangrad.ir.ops.core import Value
from slangrad.lower.calls.accessors import call_accessor
from slangrad.lower.calls.calls import call_function
from slangrad.lower.model.flow import RESULT, THIS, Key
from slangrad.lower.model.frame import Frame
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.places.places import Temporary
from slangrad.lower.values.interface_values import narrow, over_types, require_kind, widen
from slangrad.lower.values.runtime_types import declared_types, is_static
from slangrad.syntax import ast


def lower_dispatch(
    f: Frame, signature: Signature, reference: DeclRef, keys: list[Key], key: GenericKey
) -> None:
    """The body of a function that depends on the type of a value: a call of the implementation of each type."""
    assert not isinstance(key, ast.ValueParameter)
    wide = reference.type_for(key)
    this = checked.parameter_type(key)
    kinds = dict(declared_types(f, reference.declaration))
    subject = (
        THIS
        if isinstance(key, ast.Interface)
        else next(candidate for candidate in keys if kinds.get(candidate) is this)
    )
    if not f.lowering.types.alternatives(wide):
        f.lowering.alternatives.lacks(wide, f.lowering.asked_at.get(f.name) or f.b.span)
        return
    call = _Call(f, signature, reference, key, keys, subject)
    over_types(f, f.variables[subject], wide, call.arm)


class _Call:
    """A function called for a type that replaces `key`."""

    def __init__(
        self,
        f: Frame,
        signature: Signature,
        reference: DeclRef,
        key: GenericKey,
        keys: list[Key],
        subject: Key,
    ) -> None:
        self.f, self.signature, self.reference, self.key, self.keys = f, signature, reference, key, keys
        self.subject = subject
        self.has_this = keys[:1] == [THIS]

    def arm(self, number: int, t: checked.Type) -> None:
        f, seen = self.f, {**self.reference.substitution, self.key: t, **self._arguments(number)}
        reference = DeclRef(self.reference.declaration, seen)
        signature = signature_of(f.program, reference)
        kinds = [
            *([self._this(reference, t)] if self.has_this else []),
            *(parameter.type for parameter in signature.parameters),
            *self._thrown(reference),
        ]
        rows = list(zip(self.keys, self.signature.parameters, kinds, strict=True))
        places = [self._narrowed(key, p, kind, number) for key, p, kind in rows]
        result = self._call(reference, places)
        for (key, p, kind), place in zip(rows, places, strict=True):
            if p.direction != "in":
                f.variables[key] = widen(f, place.value, kind, p.checked, number)
        if result is not None:
            f.variables[RESULT] = widen(f, result, signature.result, self.signature.result, number)

    def _arguments(self, number: int) -> dict[GenericKey, checked.Type]:
        """The argument in `IFoo<object.Item>`, for one type of the object."""
        seen = self.reference.substitution
        wide = self.reference.type_for(self.key)
        kinds = ((generic, seen.get(generic)) for generic in getattr(self.key, "generics", ()))
        return {
            key: self.f.lowering.types.alternatives(kind)[number]
            for key, kind in kinds
            if isinstance(kind, checked.Projection)
            and checked.is_dynamic(kind)
            and checked.projection_root(kind) is checked.projection_root(wide)
        }

    def _narrowed(self, key: Key, p: SignatureParameter, kind: checked.Type, number: int) -> Temporary:
        value = self.f.variables[key]
        if key is not self.subject and p.direction != "out":
            require_kind(self.f, value, p.checked, kind, number)
        return Temporary(narrow(self.f, value, p.checked, kind, number))

    def _this(self, reference: DeclRef, t: checked.Type) -> checked.Type:
        declared: checked.Type | None = self.f.program.info(reference.declaration).this_type
        return t if declared is None else self.f.program.substitute(declared, reference.substitution)

    def _thrown(self, reference: DeclRef) -> list[checked.Type]:
        declared: checked.Type | None = getattr(self.f.program.info(reference.declaration), "throws", None)
        if declared is None:
            return []
        return [checked.BOOL, self.f.program.substitute(declared, reference.substitution)]

    def _call(self, reference: DeclRef, places: list[Temporary]) -> Value | None:
        f, declared = self.f, reference.declaration
        if isinstance(declared, ast.Accessor) and isinstance(self.key, ast.Interface):
            owner = f.resolve(DeclRef(declared.parent, reference.substitution))
            return call_accessor(f, owner, declared.name, places)
        without_object = self.has_this and is_static(f, declared)
        return call_function(f, reference, list(places[1:] if without_object else places))
