"""What a `ref` accessor returns: a place, which is a form known when compiling and values known when running.

    ref { if (i < 0) return first; return rest[i]; }

    s[i] = v        %which, %index = call @ref %s, %i      which == 0 ? s.first = v : s.rest[index] = v

The accessor runs once; the place is put together again around the object that it was asked for. Its function is made
in instances/referring.py.
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
    """Run the accessor: what tells the place."""
    signature = referring.signature
    this = [owner] if owner is not None and signature.has_this else []
    given = list(zip(signature.parameters, [*this, *arguments], strict=True))
    operands = tuple(passed(f, p, each) for p, each in given)
    types = (*signature.result_types, *referring.told)
    results = f.b.call(signature.name, operands, types)
    changed = [each for p, each in given if p.direction != "in"]
    for each, value in zip(changed, results, strict=False):
        each.set(f, value)
    return results[len(changed) :]


def put_together(f: Frame, referring: Referring, owner: Place | None, told: tuple[Value, ...]) -> Place:
    values = iter(told)
    which = next(values) if len(referring.forms) > 1 else None
    places = [form.again(f, owner, values) for form in referring.forms]
    found = places[0] if which is None else OneOf(which, places)
    return ConstantPlace(found) if f.differentiable and not referring.signature.differentiable else found


@dataclass(slots=True)
class ConstantPlace(Place):
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
        return self.chosen(f, lambda each: (each.get(f),))[0]

    def peek(self, f: Frame) -> Value:
        return self.chosen(f, lambda each: (each.peek(f),))[0]

    def set(self, f: Frame, value: Value) -> None:
        def store(each: Place) -> tuple[Value, ...]:
            each.set(f, value)
            return ()

        self.chosen(f, store)

    def address(self, f: Frame) -> GuardedAddress | None:
        pointers = {self._pointer_type(f, each) for each in self.places}
        if None in pointers or len(pointers) > 1:
            return None

        def at(each: Place) -> tuple[Value, ...]:
            memory = each.address(f)
            assert memory is not None
            return memory.pointer, f.true() if memory.guard is None else memory.guard

        pointer, guard = self.chosen(f, at)
        return MemoryPlace(pointer, guard)

    def for_update(self, f: Frame) -> Place:
        return OneOf(self.which, [each.for_update(f) for each in self.places])

    def is_own(self) -> bool:
        return all(each.is_own() for each in self.places)

    def for_atomics(self, f: Frame) -> Place:
        return OneOf(self.which, [each.for_atomics(f) for each in self.places])

    @staticmethod
    def _pointer_type(f: Frame, each: Place) -> Type | None:
        """Of its address, if it has one; what is lowered to find that is dropped."""
        found: list[Type] = []

        def look() -> None:
            memory = each.address(f)
            found.extend([] if memory is None else [memory.pointer.type])

        f.arm(look)
        return found[0] if found else None

    def chosen(
        self, f: Frame, access: Callable[[Place], tuple[Value, ...]], start: int = 0
    ) -> tuple[Value, ...]:
        """What an access to the place that it is gives."""
        each = self.places[start]
        if start == len(self.places) - 1:
            return access(each)
        is_it = f.emit("equal", self.which, f.b.constant(U32, start))
        return f.branch(is_it, lambda: access(each), lambda: self.chosen(f, access, start + 1))
