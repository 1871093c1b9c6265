"""The functions of `ref` accessors: what tells a place is taken apart from it, and how it is put together is kept.

ref { if (i < 0) return first; return rest[i]; }

func @ref(%this, %i) -> (which, index)          which `return` was met, and what says where its place is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slangrad.check.model.declref import DeclRef
from slangrad.ir.core import Function, Parameter, Region, Value
from slangrad.ir.types import U32, Type
from slangrad.lower.bodies.body import Body
from slangrad.lower.calls.accessors import Accessed
from slangrad.lower.calls.references import Constant, OneOf
from slangrad.lower.instances.functions import enter, lower_body
from slangrad.lower.model.flow import THIS, Key
from slangrad.lower.model.frame import Again, Form, Frame, Lowering, Place, Referring
from slangrad.lower.model.signatures import Signature
from slangrad.lower.places.places import Component, Element, Local, Memory, Swizzle, Temporary
from slangrad.lower.places.statics import Static
from slangrad.lower.places.variables import held
from slangrad.syntax import ast

WHICH = "which"


def lower_referring(lowering: Lowering, signature: Signature, reference: DeclRef) -> Referring:
    """The function of a `ref` accessor, which tells the place instead of reading it."""
    found = _Returns(lowering, signature, reference, None)  # a first time for the types of what is returned
    found.lower()
    made = _Returns(lowering, signature, reference, found.forms)
    lowering.ir.add(made.lower())
    return Referring(signature, tuple(made.forms))


class _Returns:
    """The body of an accessor being lowered, and the places that it returns. Once these are known, a variable holds
    each of their values, so that any branch may give them."""

    def __init__(
        self, lowering: Lowering, signature: Signature, reference: DeclRef, known: list[Form] | None
    ) -> None:
        self.signature, self.reference, self.known = signature, reference, known
        self.f = Body(
            lowering, signature.name, reference.declaration, reference.substitution, signature.differentiable
        )
        self.f.refers = self.returned
        self.forms: list[Form] = []

    def lower(self) -> Function:
        f, signature = self.f, self.signature
        keys, inputs = enter(f, signature, self.reference)
        self._open()
        lower_body(f, self.reference.declaration)
        pairs = zip(keys, signature.parameters, strict=True)
        changed = [held(f, key) for key, p in pairs if p.direction != "in"]
        told = [f.variables[key] for key in f.told]
        named = [Parameter(f"where{i}", each.type, "out") for i, each in enumerate(told)]
        region = Region(inputs, f.b.ops, (*changed, *told))
        parameters = (*signature.ir_parameters(), *named)
        span = self.reference.declaration.span
        return Function(signature.name, parameters, None, region, False, span=span)

    def _open(self) -> None:
        """Variables for what is told."""
        if self.known is None:
            return
        keys: list[Key] = [WHICH] if len(self.known) > 1 else []
        types: list[Type] = [U32 for _ in keys]
        for i, form in enumerate(self.known):
            keys += [(i, j) for j in range(len(form.types))]
            types += form.types
        self.f.told = keys
        self.f.variables.update({key: self.f.b.zero(t) for key, t in zip(keys, types, strict=True)})

    def returned(self, node: ast.Expression) -> None:
        """`return PLACE;`."""
        number = len(self.forms)
        values, again = _apart(self.f, self._place(node))
        self.forms.append(Form(tuple(value.type for value in values), again))
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
        found = f.place(node)
        Memory(f.homes[THIS]).set(f, f.variables.pop(THIS))
        return found


# --- Taking apart and putting together ------------------------------------------------------------------


def _apart(f: Frame, place: Place) -> tuple[list[Value], Again]:
    """The values that say where a place is, and how it is put together of others."""
    if isinstance(place, Accessed):
        return _accessed(f, place)
    return _RULES[type(place)](f, place)


def _local(f: Frame, place: Local) -> tuple[list[Value], Again]:
    assert place.key == THIS, place  # the checker lets nothing else out

    def again(f: Frame, this: Place | None, values: Iterator[Value]) -> Place:
        assert this is not None
        return this

    return [], again


def _static(f: Frame, place: Static) -> tuple[list[Value], Again]:
    return [], lambda f, this, values: place


def _temporary(f: Frame, place: Temporary) -> tuple[list[Value], Again]:
    return [place.value], lambda f, this, values: Temporary(next(values))


def _memory(f: Frame, place: Memory) -> tuple[list[Value], Again]:
    guards = [] if place.guard is None else [place.guard]

    def again(f: Frame, this: Place | None, values: Iterator[Value]) -> Place:
        return Memory(next(values), next(values) if guards else None, place.cut)

    return [place.pointer, *guards], again


def _component(f: Frame, place: Component) -> tuple[list[Value], Again]:
    values, parent = _apart(f, place.parent)
    return values, lambda f, this, given: parent(f, this, given).component(f, place.index)


def _element(f: Frame, place: Element) -> tuple[list[Value], Again]:
    values, parent = _apart(f, place.parent)
    return [*values, place.index], lambda f, this, given: parent(f, this, given).element(f, next(given))


def _swizzle(f: Frame, place: Swizzle) -> tuple[list[Value], Again]:
    values, parent = _apart(f, place.parent)
    return values, lambda f, this, given: Swizzle(parent(f, this, given), place.picks, place.type)


def _accessed(f: Frame, place: Accessed) -> tuple[list[Value], Again]:
    at_hand = place.at_hand(f)
    if at_hand is not place:
        return _apart(f, at_hand)
    arguments = [each.value for each in place.arguments]
    owned: list[Value] = []
    owner: Again | None = None
    if place.owner is not None:
        owned, owner = _apart(f, place.owner)

    def again(f: Frame, this: Place | None, values: Iterator[Value]) -> Place:
        of = None if owner is None else owner(f, this, values)
        return place.moved(of, [Temporary(next(values)) for _ in arguments])

    return [*owned, *arguments], again


def _constant(f: Frame, place: Constant) -> tuple[list[Value], Again]:
    values, inner = _apart(f, place.inner)
    return values, lambda f, this, given: Constant(inner(f, this, given))


def _one_of(f: Frame, place: OneOf) -> tuple[list[Value], Again]:
    parts = [_apart(f, each) for each in place.places]
    values = [value for own, _ in parts for value in own]

    def again(f: Frame, this: Place | None, given: Iterator[Value]) -> Place:
        which = next(given)
        return OneOf(which, [each(f, this, given) for _, each in parts])

    return [place.which, *values], again


_RULES: dict[type[Place], Callable[[Frame, Any], tuple[list[Value], Again]]] = {
    Local: _local,
    Static: _static,
    Temporary: _temporary,
    Memory: _memory,
    Component: _component,
    Element: _element,
    Swizzle: _swizzle,
    Constant: _constant,
    OneOf: _one_of,
}
