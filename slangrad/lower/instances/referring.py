"""The functions of `ref` accessors: a place is split into a descriptor of values and a recipe to rebuild it.

ref { if (i < 0) return first; return rest[i]; }

func @ref(%this, %i) -> (which, index)          which `return` ran, and the values that identify its place
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

from slangrad.check.model.declref import DeclRef
from slangrad.ir.data.types import U32, Type
from slangrad.ir.ops.core import Function, Parameter, Region, Value
from slangrad.lower.bodies.body import FunctionBody
from slangrad.lower.calls.accessors import Accessed
from slangrad.lower.instances.functions import enter, lower_body
from slangrad.lower.model.flow import THIS, Key
from slangrad.lower.model.frame import Again, Frame, Lowering, Place, Referring, ReturnedPlace
from slangrad.lower.model.signatures import Signature
from slangrad.lower.places.places import Component, LocalPlace, MemoryPlace
from slangrad.lower.places.variables import held
from slangrad.syntax import ast

WHICH = "which"


def lower_referring(lowering: Lowering, signature: Signature, reference: DeclRef) -> Referring:
    """The function of a `ref` accessor, which returns the descriptor of the place instead of reading it."""
    first = _Returns(lowering, signature, reference, None)  # a first time for the types of the results
    first.lower()
    second = _Returns(lowering, signature, reference, first.forms)
    lowering.ir.add(second.lower())
    return Referring(signature, tuple(second.forms))


class _Returns:
    """The body of an accessor being lowered, and the places that it returns. Once these are known, a variable holds
    each of their values, so that any branch may give them."""

    def __init__(
        self,
        lowering: Lowering,
        signature: Signature,
        reference: DeclRef,
        known_forms: list[ReturnedPlace] | None,
    ) -> None:
        self.signature, self.reference, self.known = signature, reference, known_forms
        self.f = FunctionBody(
            lowering, signature.name, reference.declaration, reference.substitution, signature.differentiable
        )
        self.f.refers = self.returned
        self.forms: list[ReturnedPlace] = []

    def lower(self) -> Function:
        f, signature = self.f, self.signature
        keys, inputs = enter(f, signature, self.reference)
        self._open()
        lower_body(f, self.reference.declaration)
        pairs = zip(keys, signature.parameters, strict=True)
        changed = [held(f, key) for key, p in pairs if p.direction != "in"]
        descriptor = [f.variables[key] for key in f.descriptor]
        named = [Parameter(f"where{i}", value.type, "out") for i, value in enumerate(descriptor)]
        region = Region(inputs, f.b.ops, (*changed, *descriptor))
        parameters = (*signature.ir_parameters(), *named)
        span = self.reference.declaration.span
        return Function(signature.name, parameters, None, region, False, span=span)

    def _open(self) -> None:
        """Variables for the descriptor of the place."""
        if self.known is None:
            return
        keys: list[Key] = [WHICH] if len(self.known) > 1 else []
        types: list[Type] = [U32 for _ in keys]
        for i, form in enumerate(self.known):
            keys += [(i, j) for j in range(len(form.types))]
            types += form.types
        self.f.descriptor = keys
        self.f.variables.update({key: self.f.b.zero(t) for key, t in zip(keys, types, strict=True)})

    def returned(self, node: ast.Expression) -> None:
        """`return PLACE;`."""
        number = len(self.forms)
        values, again = _apart(self.f, self._place(node))
        self.forms.append(ReturnedPlace(tuple(value.type for value in values), again))
        if self.known is None:
            return
        if len(self.known) > 1:
            self.f.variables[WHICH] = self.f.b.constant(U32, number)
        for i, value in enumerate(values):
            self.f.variables[number, i] = value

    def _place(self, node: ast.Expression) -> Place:
        """The place, as a part of the value of `this` where `this` has an address."""
        f = self.f
        if THIS not in f.homes:
            return f.place(node)
        f.variables[THIS] = held(f, THIS)
        place = f.place(node)
        MemoryPlace(f.homes[THIS]).set(f, f.variables.pop(THIS))
        return place


# --- Taking apart and putting together ------------------------------------------------------------------


def _apart(f: Frame, place: Place) -> tuple[list[Value], Again]:
    """The values that identify a place, and the recipe that rebuilds it from other values."""
    if isinstance(place, Accessed):
        place = place.at_hand(f)
    if isinstance(place, LocalPlace):
        assert place.key == THIS, place  # the checker lets nothing else out
        return [], _object
    assert is_dataclass(place), place
    parts = [_part(f, getattr(place, field.name)) for field in fields(place)]

    def again(f: Frame, this: Place | None, values: Iterator[Value]) -> Place:
        arguments = [part(f, this, values) for _, part in parts]
        return (
            arguments[0].component(f, arguments[1]) if type(place) is Component else type(place)(*arguments)
        )

    return [value for part_values, _ in parts for value in part_values], again


def _object(f: Frame, this: Place | None, values: Iterator[Value]) -> Place:
    assert this is not None
    return this


def _part(f: Frame, part: object) -> tuple[list[Value], Callable[..., object]]:
    """The same of a field of a place."""
    if isinstance(part, Value):
        return [part], lambda f, this, values: next(values)
    if isinstance(part, Place):
        return _apart(f, part)
    if not isinstance(part, list):
        return [], lambda f, this, values: part
    parts = [_part(f, item) for item in part]
    again = lambda f, this, values: [rebuild(f, this, values) for _, rebuild in parts]
    return [value for item_values, _ in parts for value in item_values], again
