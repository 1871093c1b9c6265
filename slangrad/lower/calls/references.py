"""The result of a `ref` accessor: a place, which is a form at compile time and values at run time.

    ref { if (i < 0) return first; return rest[i]; }

    s[i] = v        %which, %index = call @ref %s, %i      which == 0 ? s.first = v : s.rest[index] = v

The accessor runs once; the place is then rebuilt around its object. instances/referring.py makes its function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slangrad.ir.data.types import U32, Type
from slangrad.ir.ops.core import Value
from slangrad.lower.calls.arguments import passed
from slangrad.lower.model.addresses import GuardedAddress
from slangrad.lower.model.frame import Frame, Place, Referring
from slangrad.lower.places.places import Aggregate, MemoryPlace, Temporary


def ask(f: Frame, referring: Referring, owner: Place | None, arguments: list[Temporary]) -> tuple[Value, ...]:
    """Run the accessor: the descriptor of the place."""
    signature = referring.signature
    this = [owner] if owner is not None and signature.has_this else []
    pairs = list(zip(signature.parameters, [*this, *arguments], strict=True))
    operands = tuple(passed(f, p, place) for p, place in pairs)
    types = (*signature.result_types, *referring.descriptor)
    results = f.b.call(signature.name, operands, types)
    changed = [place for p, place in pairs if p.direction != "in"]
    for place, value in zip(changed, results, strict=False):
        place.set(f, value)
    return results[len(changed) :]


def put_together(f: Frame, referring: Referring, owner: Place | None, descriptor: tuple[Value, ...]) -> Place:
    values = iter(descriptor)
    which = next(values) if len(referring.forms) > 1 else None
    places = [form.again(f, owner, values) for form in referring.forms]
    place = places[0] if which is None else OneOf(which, places)
    return ConstantPlace(place) if f.differentiable and not referring.signature.differentiable else place


@dataclass(slots=True)
class ConstantPlace(Place):
    """A place that a `ref` without a derivative gives: values read there carry none."""

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

    def address(self, f: Frame) -> GuardedAddress | None:
        memory = self.inner.address(f)
        return None if memory is None else replace(memory, cut=True)

    def for_update(self, f: Frame) -> Place:
        return ConstantPlace(self.inner.for_update(f))

    def is_own(self) -> bool:
        return self.inner.is_own()

    def for_atomics(self, f: Frame) -> Place:
        return ConstantPlace(self.inner.for_atomics(f))

    def component(self, f: Frame, index: int | Value) -> Place:
        return ConstantPlace(self.inner.component(f, index))


@dataclass(slots=True)
class OneOf(Aggregate):
    """One of several places, by its number."""

    which: Value
    places: list[Place]

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.places[0].type

    def read(self, f: Frame) -> Value:
        return self.chosen(f, lambda place: (place.get(f),))[0]

    def peek(self, f: Frame) -> Value:
        return self.chosen(f, lambda place: (place.peek(f),))[0]

    def set(self, f: Frame, value: Value) -> None:
        def store(place: Place) -> tuple[Value, ...]:
            place.set(f, value)
            return ()

        self.chosen(f, store)

    def address(self, f: Frame) -> GuardedAddress | None:
        pointers = {self._pointer_type(f, place) for place in self.places}
        if None in pointers or len(pointers) > 1:
            return None

        def at(place: Place) -> tuple[Value, ...]:
            memory = place.address(f)
            assert memory is not None
            return memory.pointer, f.true() if memory.guard is None else memory.guard

        pointer, guard = self.chosen(f, at)
        return MemoryPlace(pointer, guard)

    def for_update(self, f: Frame) -> Place:
        return OneOf(self.which, [place.for_update(f) for place in self.places])

    def is_own(self) -> bool:
        return all(place.is_own() for place in self.places)

    def for_atomics(self, f: Frame) -> Place:
        return OneOf(self.which, [place.for_atomics(f) for place in self.places])

    @staticmethod
    def _pointer_type(f: Frame, place: Place) -> Type | None:
        """The guard of its address, if it has one; ops lowered for this question are dropped."""
        types: list[Type] = []

        def look() -> None:
            memory = place.address(f)
            types.extend([] if memory is None else [memory.pointer.type])

        f.arm(look)
        return types[0] if types else None

    def chosen(
        self, f: Frame, access: Callable[[Place], tuple[Value, ...]], start: int = 0
    ) -> tuple[Value, ...]:
        """What an access to the place that it is gives."""
        place = self.places[start]
        if start == len(self.places) - 1:
            return access(place)
        is_it = f.emit("equal", self.which, f.b.constant(U32, start))
        return f.branch(is_it, lambda: access(place), lambda: self.chosen(f, access, start + 1))
