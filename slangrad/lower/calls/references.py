"""What a `ref` accessor returns: a place, which is a form known when compiling and values known when running.

    ref { if (i < 0) return first; return rest[i]; }

    func @ref(%this, %i) -> (which, index)          which `return` was met, and what says where its place is
    s[i] = v        which == 0 ? s.first = v : s.rest[index] = v

The accessor runs once; the place is put together again around the object that it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slangrad.check.model.declref import DeclRef
from slangrad.ir.core import Function, Parameter, Region, Value
from slangrad.ir.types import U32, Type
from slangrad.lower.bodies import expressions
from slangrad.lower.calls import accessors, any_places, calls
from slangrad.lower.instances import functions
from slangrad.lower.model.frame import THIS, Frame, Key
from slangrad.lower.model.signatures import Signature
from slangrad.lower.places.places import Component, Element, Local, Memory, Place, Swizzle, Temporary
from slangrad.lower.places.statics import Static
from slangrad.lower.places.variables import held
from slangrad.lower.values import dispatch
from slangrad.syntax import ast

if TYPE_CHECKING:
    from slangrad.lower.instances.instances import Lowering

Again = Callable[[Frame, Place | None, Iterator[Value]], Place]  # puts a place together, around an object
WHICH = "which"


@dataclass(frozen=True, slots=True)
class Form:
    """A place of a `return`: the types of its values, and how it is put together of them."""

    types: tuple[Type, ...]
    again: Again


@dataclass(frozen=True, slots=True)
class Referring:
    """The function that a `ref` accessor became."""

    signature: Signature
    forms: tuple[Form, ...]

    @property
    def told(self) -> tuple[Type, ...]:
        """What it gives besides what it changed: which form, if there are several, and the values of each."""
        which = (U32,) if len(self.forms) > 1 else ()
        return (*which, *(t for form in self.forms for t in form.types))


# --- Asking ---------------------------------------------------------------------------------------------


def place(f: Frame, reference: DeclRef, owner: Place | None, arguments: list[Temporary]) -> Place:
    """The place that a `ref` accessor returns for an object."""
    resolved = f.resolve(reference)
    if dispatch.dispatched(f.lowering, resolved) is not None:
        return any_places.place(f, resolved, owner, arguments)
    referring = f.lowering.referring(resolved)
    return put_together(f, referring, owner, ask(f, referring, owner, arguments))


def ask(f: Frame, referring: Referring, owner: Place | None, arguments: list[Temporary]) -> tuple[Value, ...]:
    """Run the accessor: what tells the place."""
    signature = referring.signature
    this = [owner] if owner is not None and signature.has_this else []
    given = list(zip(signature.parameters, [*this, *arguments], strict=True))
    operands = tuple(calls.passed(f, p, each) for p, each in given)
    types = (*signature.result_types, *referring.told)
    results = f.b.control("call", operands, types, (), {"callee": signature.name})
    changed = [each for p, each in given if p.direction != "in"]
    for each, value in zip(changed, results, strict=False):
        each.set(f, value)
    return results[len(changed) :]


def put_together(f: Frame, referring: Referring, owner: Place | None, told: tuple[Value, ...]) -> Place:
    values = iter(told)
    which = next(values) if len(referring.forms) > 1 else None
    places = [form.again(f, owner, values) for form in referring.forms]
    found = places[0] if which is None else OneOf(which, places)
    return Constant(found) if f.differentiable and not referring.signature.differentiable else found


# --- Making ---------------------------------------------------------------------------------------------


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
        self.f = Frame(
            lowering, signature.name, reference.declaration, reference.substitution, signature.differentiable
        )
        self.f.refers = self.returned
        self.forms: list[Form] = []

    def lower(self) -> Function:
        f, signature = self.f, self.signature
        keys, inputs = functions.enter(f, signature, self.reference)
        self._open()
        functions.lower_body(f, self.reference.declaration)
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
            return expressions.place_of(f, node)
        f.variables[THIS] = held(f, THIS)
        found = expressions.place_of(f, node)
        Memory(f.homes[THIS]).set(f, f.variables.pop(THIS))
        return found


# --- Taking apart and putting together -------------------------------------------------------------------


def _apart(f: Frame, place: Place) -> tuple[list[Value], Again]:
    """The values that say where a place is, and how it is put together of others."""
    if isinstance(place, accessors.Accessed):
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


def _accessed(f: Frame, place: accessors.Accessed) -> tuple[list[Value], Again]:
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


@dataclass(slots=True)
class Constant(Place):
    """A place that a `ref` without a derivative gives: what is read there carries none."""

    inner: Place

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.inner.type

    def read(self, f: Frame) -> Value:
        return self.inner.read(f)

    def is_cut(self, f: Frame) -> bool:
        return True

    def peek(self, f: Frame) -> Value:
        return self.inner.peek(f)

    def set(self, f: Frame, value: Value) -> None:
        self.inner.set(f, value)

    def address(self, f: Frame) -> Memory | None:
        memory = self.inner.address(f)
        return None if memory is None else replace(memory, cut=True)

    def for_update(self, f: Frame) -> Place:
        return Constant(self.inner.for_update(f))

    def component(self, f: Frame, index: int) -> Place:
        return Constant(self.inner.component(f, index))

    def element(self, f: Frame, index: Value) -> Place:
        return Constant(self.inner.element(f, index))


@dataclass(slots=True)
class OneOf(Place):
    """One of several places, by its number."""

    which: Value
    places: list[Place]

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.places[0].type

    def read(self, f: Frame) -> Value:
        return self._chosen(f, lambda each: (each.get(f),))[0]

    def peek(self, f: Frame) -> Value:
        return self._chosen(f, lambda each: (each.peek(f),))[0]

    def set(self, f: Frame, value: Value) -> None:
        def store(each: Place) -> tuple[Value, ...]:
            each.set(f, value)
            return ()

        self._chosen(f, store)

    def address(self, f: Frame) -> Memory | None:
        pointers = {self._pointer_type(f, each) for each in self.places}
        if None in pointers or len(pointers) > 1:
            return None

        def at(each: Place) -> tuple[Value, ...]:
            memory = each.address(f)
            assert memory is not None
            return memory.pointer, f.true() if memory.guard is None else memory.guard

        pointer, guard = self._chosen(f, at)
        return Memory(pointer, guard)

    def for_update(self, f: Frame) -> Place:
        return OneOf(self.which, [each.for_update(f) for each in self.places])

    @staticmethod
    def _pointer_type(f: Frame, each: Place) -> Type | None:
        """Of its address, if it has one; what is lowered to find that is dropped."""
        found: list[Type] = []

        def look() -> tuple[Value, ...]:
            memory = each.address(f)
            found.extend([] if memory is None else [memory.pointer.type])
            return ()

        f.arm(look)
        return found[0] if found else None

    def _chosen(
        self, f: Frame, access: Callable[[Place], tuple[Value, ...]], start: int = 0
    ) -> tuple[Value, ...]:
        each = self.places[start]
        if start == len(self.places) - 1:
            return access(each)
        is_it = f.emit("equal", self.which, f.b.constant(U32, start))
        return f.branch(is_it, lambda: access(each), lambda: self._chosen(f, access, start + 1))


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
