"""Assignable places: a variable, a component or element of a place, memory, something with accessors.

    a.b[i].xy = v      ->   get the old aggregates on the way down, `set` and `set_index` on the way up

A place in memory goes down by address instead (`member`, `offset`), so that only the element is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.core import Value
from slangrad.ir.types import (
    Array,
    Matrix,
    Pointer,
    Struct,
    Type,
    Vector,
    component,
    components,
    is_aggregate,
    is_float,
    pointer,
)
from slangrad.lower import any_values
from slangrad.lower.frame import Frame, Key


class Place:
    """Something that can be read and, unless it is a temporary, written."""

    type: Type

    def get(self, f: Frame) -> Value:
        """Its value; without derivative where the place is declared to carry none."""
        value = self.read(f)
        return detached(f, value) if f.differentiable and self.is_cut(f) else value

    def read(self, f: Frame) -> Value:
        raise AssertionError(self)

    def set(self, f: Frame, value: Value) -> None:
        raise AssertionError(self)

    def is_cut(self, f: Frame) -> bool:
        """A `no_diff` variable or field, a part of a struct that is not differentiable, or what is in one."""
        return False

    def address(self, f: Frame) -> Memory | None:
        """The place as memory; None for what lives in values."""
        return None

    def peek(self, f: Frame) -> Value:
        """What is there now, where writing it back reports an index out of range anyway."""
        return self.read(f)

    def for_update(self, f: Frame) -> Place:
        """The place for reading it and then writing it: what says where it is runs and is checked once."""
        return self

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
    no_diff: bool = False

    def read(self, f: Frame) -> Value:
        return f.variables[self.key]

    def is_cut(self, f: Frame) -> bool:
        return self.no_diff

    def set(self, f: Frame, value: Value) -> None:
        f.variables[self.key] = value


@dataclass(slots=True)
class Temporary(Place):
    """A value that has no home; writes change this copy only."""

    value: Value

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.value.type

    def read(self, f: Frame) -> Value:
        return self.value

    def set(self, f: Frame, value: Value) -> None:
        self.value = value


@dataclass(slots=True)
class Component(Place):
    parent: Place
    index: int
    type: Type

    def read(self, f: Frame) -> Value:
        return f.emit("get", self.parent.read(f), index=self.index)

    def is_cut(self, f: Frame) -> bool:
        return self.parent.is_cut(f) or f.lowering.types.cuts_field(self.parent.type, self.index)

    def peek(self, f: Frame) -> Value:
        return f.emit("get", self.parent.peek(f), index=self.index)

    def set(self, f: Frame, value: Value) -> None:
        self.parent.set(f, f.emit("set", self.parent.peek(f), value, index=self.index))

    def for_update(self, f: Frame) -> Place:
        return Component(self.parent.for_update(f), self.index, self.type)


@dataclass(slots=True)
class Element(Place):
    """At an index known at run time; out of range reads zero, drops the write, and is reported."""

    parent: Place
    index: Value
    type: Type
    check_reads: bool = True

    def read(self, f: Frame) -> Value:
        if not self.check_reads:
            return self.peek(f)
        return f.emit("index", self.parent.read(f), self.index, check=True)

    def is_cut(self, f: Frame) -> bool:
        return self.parent.is_cut(f)

    def peek(self, f: Frame) -> Value:
        return f.emit("index", self.parent.peek(f), self.index)

    def set(self, f: Frame, value: Value) -> None:
        self.parent.set(f, f.emit("set_index", self.parent.peek(f), self.index, value, check=True))

    def for_update(self, f: Frame) -> Place:
        return Element(self.parent.for_update(f), self.index, self.type, check_reads=False)


@dataclass(slots=True)
class Swizzle(Place):
    """Scalars picked from a vector, matrix or scalar, elements of a tuple: `v.zx`, `m._m00_m11`, `t._1_0`."""

    parent: Place
    picks: tuple[tuple[int, ...], ...]
    type: Type

    def address(self, f: Frame) -> Memory | None:
        memory = self.parent.address(f) if len(self.picks) == 1 else None
        return None if memory is None else _part(f, memory, self.picks[0]).address(f)

    def read(self, f: Frame) -> Value:
        return self._picked(f, self.parent.address(f) or Temporary(self.parent.read(f)))

    def is_cut(self, f: Frame) -> bool:
        cut = isinstance(self.parent.type, Struct) and any(
            f.lowering.types.cuts_field(self.parent.type, pick[0]) for pick in self.picks
        )
        return cut or self.parent.is_cut(f)

    def peek(self, f: Frame) -> Value:
        return self._picked(f, Temporary(self.parent.peek(f)))

    def _picked(self, f: Frame, whole: Place) -> Value:
        parts = [_part(f, whole, pick).read(f) for pick in self.picks]
        return parts[0] if len(parts) == 1 else f.emit("make", *parts, type=self.type)

    def set(self, f: Frame, value: Value) -> None:
        whole = self.parent.address(f) or Temporary(self.parent.peek(f))
        for i, pick in enumerate(self.picks):
            part = value if len(self.picks) == 1 else f.emit("get", value, index=i)
            _part(f, whole, pick).set(f, part)
        if isinstance(whole, Temporary):
            self.parent.set(f, whole.value)

    def for_update(self, f: Frame) -> Place:
        return Swizzle(self.parent.for_update(f), self.picks, self.type)


def _part(f: Frame, whole: Place, pick: tuple[int, ...]) -> Place:
    """A scalar counts as a vector of one."""
    for index in pick if isinstance(whole.type, (Vector, Matrix, Struct)) else ():
        whole = whole.component(f, index)
    return whole


@dataclass(slots=True)
class Memory(Place):
    """What a pointer points to. With a guard, a bool, nothing is there where it is false: reads give zero. With `cut`
    what is read is a constant."""

    pointer: Value
    guard: Value | None = None
    cut: bool = False

    @property
    def type(self) -> Type:  # type: ignore[override]
        assert isinstance(self.pointer.type, Pointer)
        return self.pointer.type.element

    def address(self, f: Frame) -> Memory:
        return self

    def get(self, f: Frame) -> Value:
        value = self.read(f)
        return detached(f, value) if self.cut else value

    def read(self, f: Frame) -> Value:
        loaded = self.guarded(f, lambda: f.emit("load", self.pointer, type=self.type), self.type)
        return any_values.from_memory(f, loaded)

    def set(self, f: Frame, value: Value) -> None:
        stored = any_values.to_memory(f, value)

        def write() -> tuple[Value, ...]:
            f.b.effect("store", self.pointer, stored)
            return ()

        f.branch(f.true() if self.guard is None else self.guard, write)

    def guarded(self, f: Frame, access: Callable[[], Value], t: Type) -> Value:
        """The value of an access to the memory, zero where there is none."""
        if self.guard is None:
            return access()
        return f.branch(self.guard, lambda: (access(),), lambda: (f.b.zero(t),))[0]

    def component(self, f: Frame, index: int) -> Place:
        part = f.emit("member", self.pointer, index=index)
        cut = f.differentiable and f.lowering.types.cuts_field(self.type, index)
        return Memory(part, self.guard, self.cut or cut)

    def element(self, f: Frame, index: Value) -> Place:
        """An element of an array, vector or matrix, guarded by its index."""
        assert isinstance(self.pointer.type, Pointer)
        part = component(self.type, 0)
        first = f.emit("bitcast", self.pointer, type=pointer(part, self.pointer.type.space))
        inside = f.emit("in_bounds", index, f.b.constant(index.type, _extent(self.type)))
        guard = inside if self.guard is None else f.emit("and", inside, self.guard)
        return Memory(f.emit("offset", first, index), guard, self.cut)


def behind_pointer(f: Frame, address: Value) -> Memory:
    """What is read there in a function without a derivative is a constant, whatever the pointer leads to."""
    return Memory(address, cut=not f.differentiable and not f.declared.span.source.is_library)


@dataclass(slots=True)
class Accessed(Place):
    """A property or subscript: reading and writing are calls; a `ref` accessor gives the memory behind it."""

    type: Type
    getter: Callable[[], Value] | None
    setter: Callable[[Value], None] | None
    refer: Callable[[], Memory] | None

    def read(self, f: Frame) -> Value:
        return self._memory().get(f) if self.getter is None else self.getter()

    def set(self, f: Frame, value: Value) -> None:
        if self.setter is None:
            self._memory().set(f, value)
        else:
            self.setter(value)

    def _memory(self) -> Memory:
        assert self.refer is not None
        return self.refer()

    def address(self, f: Frame) -> Memory | None:
        return None if self.refer is None else self.refer()

    def for_update(self, f: Frame) -> Place:
        return self if self.setter is not None else self._memory()

    def component(self, f: Frame, index: int) -> Place:
        memory = self.address(f)
        if memory is not None:
            return memory.component(f, index)
        return Component(self, index, component(self.type, index))

    def element(self, f: Frame, index: Value) -> Place:
        memory = self.address(f)
        if memory is not None:
            return memory.element(f, index)
        return Element(self, index, component(self.type, 0))


def _extent(t: Type) -> int:
    if isinstance(t, Array):
        assert t.length is not None
        return t.length
    return sum(1 for _ in components(t))


def detached(f: Frame, value: Value) -> Value:
    """Without derivative; only floats and what is made of them can carry one."""
    return f.emit("detach", value) if _may_carry(value.type) else value


def _may_carry(t: Type) -> bool:
    if isinstance(t, Array):
        return _may_carry(t.element)
    return is_float(t) or (is_aggregate(t) and any(_may_carry(part) for part in components(t)))
