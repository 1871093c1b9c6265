"""Assignable places: a variable, a component or element of a place, memory, something with accessors.

    a.b[i].xy = v      ->   get the old aggregates on the way down, `set` and `set_index` on the way up

A place in memory goes down by address instead (`member`, `offset`), so that only the element is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.core import Value
from slangrad.ir.types import Array, Matrix, Pointer, Struct, Type, Vector, component, components, pointer
from slangrad.lower.frame import Frame, Key


class Place:
    """Something that can be read and, unless it is a temporary, written."""

    type: Type

    def get(self, f: Frame) -> Value:
        raise AssertionError(self)

    def set(self, f: Frame, value: Value) -> None:
        raise AssertionError(self)

    def address(self, f: Frame) -> Memory | None:
        """The place as memory; None for what lives in values."""
        return None

    def field(self, f: Frame, name: str) -> Place:
        assert isinstance(self.type, Struct), self.type
        return self.component(f, self.type.index(name))

    def component(self, f: Frame, index: int) -> Place:
        return Component(self, index, component(self.type, index))

    def element(self, f: Frame, index: Value) -> Place:
        return Element(self, index, component(self.type, 0))


@dataclass(slots=True)
class Local(Place):
    """A variable of the function."""

    key: Key
    type: Type

    def get(self, f: Frame) -> Value:
        return f.variables[self.key]

    def set(self, f: Frame, value: Value) -> None:
        f.variables[self.key] = value


@dataclass(slots=True)
class Temporary(Place):
    """A value that has no home; writes change this copy only."""

    value: Value

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.value.type

    def get(self, f: Frame) -> Value:
        return self.value

    def set(self, f: Frame, value: Value) -> None:
        self.value = value


@dataclass(slots=True)
class Component(Place):
    parent: Place
    index: int
    type: Type

    def get(self, f: Frame) -> Value:
        return f.emit("get", self.parent.get(f), index=self.index)

    def set(self, f: Frame, value: Value) -> None:
        self.parent.set(f, f.emit("set", self.parent.get(f), value, index=self.index))


@dataclass(slots=True)
class Element(Place):
    """At an index known at run time; out of range reads zero, drops the write, and is reported."""

    parent: Place
    index: Value
    type: Type

    def get(self, f: Frame) -> Value:
        return f.emit("index", self.parent.get(f), self.index, check=True)

    def set(self, f: Frame, value: Value) -> None:
        self.parent.set(f, f.emit("set_index", self.parent.get(f), self.index, value, check=True))


@dataclass(slots=True)
class Swizzle(Place):
    """Scalars picked from a vector, matrix or scalar: `v.zx`, `m._m00_m11`."""

    parent: Place
    picks: tuple[tuple[int, ...], ...]
    type: Type

    def _part(self, f: Frame, pick: tuple[int, ...]) -> Place:
        place = self.parent
        if isinstance(place.type, (Vector, Matrix)):
            for index in pick:
                place = place.component(f, index)
        return place

    def get(self, f: Frame) -> Value:
        parts = [self._part(f, pick).get(f) for pick in self.picks]
        return parts[0] if len(parts) == 1 else f.emit("make", *parts, type=self.type)

    def set(self, f: Frame, value: Value) -> None:
        for i, pick in enumerate(self.picks):
            self._part(f, pick).set(f, value if len(self.picks) == 1 else f.emit("get", value, index=i))


@dataclass(slots=True)
class Memory(Place):
    """What a pointer points to. With a guard, a bool, nothing is there where it is false: reads give zero."""

    pointer: Value
    guard: Value | None = None

    @property
    def type(self) -> Type:  # type: ignore[override]
        assert isinstance(self.pointer.type, Pointer)
        return self.pointer.type.element

    def address(self, f: Frame) -> Memory:
        return self

    def get(self, f: Frame) -> Value:
        return self.guarded(f, lambda: f.emit("load", self.pointer, type=self.type), self.type)

    def set(self, f: Frame, value: Value) -> None:
        def write() -> tuple[Value, ...]:
            f.b.effect("store", self.pointer, value)
            return ()

        f.branch(f.true() if self.guard is None else self.guard, write)

    def guarded(self, f: Frame, access: Callable[[], Value], t: Type) -> Value:
        """The value of an access to the memory, zero where there is none."""
        if self.guard is None:
            return access()
        return f.branch(self.guard, lambda: (access(),), lambda: (f.b.zero(t),))[0]

    def component(self, f: Frame, index: int) -> Place:
        return Memory(f.emit("member", self.pointer, index=index), self.guard)

    def element(self, f: Frame, index: Value) -> Place:
        """An element of an array, vector or matrix, guarded by its index."""
        assert isinstance(self.pointer.type, Pointer)
        part = component(self.type, 0)
        first = f.emit("bitcast", self.pointer, type=pointer(part, self.pointer.type.space))
        inside = f.emit("in_bounds", index, f.b.constant(index.type, _extent(self.type)))
        guard = inside if self.guard is None else f.emit("and", inside, self.guard)
        return Memory(f.emit("offset", first, index), guard)


@dataclass(slots=True)
class Accessed(Place):
    """A property or subscript: reading and writing are calls; with a `ref` accessor there is memory behind it."""

    read: Callable[[], Value]
    write: Callable[[Value], None]
    refer: Callable[[], Memory] | None
    type: Type

    def address(self, f: Frame) -> Memory | None:
        return self.refer() if self.refer is not None else None

    def component(self, f: Frame, index: int) -> Place:
        memory = self.address(f)
        return super().component(f, index) if memory is None else memory.component(f, index)

    def element(self, f: Frame, index: Value) -> Place:
        memory = self.address(f)
        return super().element(f, index) if memory is None else memory.element(f, index)

    def get(self, f: Frame) -> Value:
        return self.read()

    def set(self, f: Frame, value: Value) -> None:
        self.write(value)


def _extent(t: Type) -> int:
    if isinstance(t, Array):
        assert t.length is not None
        return t.length
    return sum(1 for _ in components(t))
