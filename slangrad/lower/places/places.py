"""Assignable places: a variable, a component or element of a place, memory.

    a.b[i].xy = v      ->   get the old aggregates on the way down, `set` and `set_index` on the way up

A place in memory goes down by address instead (`member`, `offset`), so that only the element is touched. Properties
and subscripts are in calls/accessors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from slangrad.ir.data.forms import WORDS, lies_by_columns, part_of, word_form
from slangrad.ir.data.types import (
    Matrix,
    Struct,
    Type,
    Vector,
    component,
    component_count,
    pointer,
    pointer_of,
    value_of,
)
from slangrad.ir.ops.core import Attributes, Value
from slangrad.lower.model.addresses import GuardedAddress
from slangrad.lower.model.flow import Key
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.values import any_values


class Aggregate(Place):
    """A place that is read and written as a whole: parts of it are parts of its value."""

    def is_own(self) -> bool:
        return True

    def component(self, f: Frame, index: int | Value) -> Place:
        return Component(self, index, component(self.type, index if isinstance(index, int) else 0))


@dataclass(slots=True)
class LocalPlace(Aggregate):
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
class Temporary(Aggregate):
    """A value without a place; writes change this copy only."""

    value: Value

    @property
    def type(self) -> Type:  # type: ignore[override]
        return self.value.type

    def read(self, f: Frame) -> Value:
        return self.value

    def set(self, f: Frame, value: Value) -> None:
        self.value = value


@dataclass(slots=True)
class Converted(Place):
    """A place of numbers, seen with another number type. A read converts to this type, and a write converts back."""

    parent: Place
    type: Type

    def read(self, f: Frame) -> Value:
        return f.emit("convert", self.parent.read(f), type=self.type)

    def set(self, f: Frame, value: Value) -> None:
        self.parent.set(f, f.emit("convert", value, type=self.parent.type))

    def component(self, f: Frame, index: int | Value) -> Place:
        part = component(self.type, index if isinstance(index, int) else 0)
        return Converted(self.parent.component(f, index), part)


@dataclass(slots=True)
class Component(Aggregate):
    """At an index known at run time: out of range it reads zero, drops the write, and that is reported."""

    parent: Place
    index: int | Value
    type: Type
    check_reads: bool = True

    def read(self, f: Frame) -> Value:
        return self._of(f, self.parent.read(f), check=True) if self.check_reads else self.peek(f)

    def _of(self, f: Frame, whole: Value, **check: Unpack[Attributes]) -> Value:
        if isinstance(self.index, int):
            return f.emit("get", whole, index=self.index)
        return f.emit("index", whole, self.index, **check)

    def is_cut(self, f: Frame) -> bool:
        return self.parent.is_cut(f) or f.lowering.tangents.cuts_field(self.parent.type, self.index)

    def peek(self, f: Frame) -> Value:
        return self._of(f, self.parent.peek(f))

    def set(self, f: Frame, value: Value) -> None:
        whole = self.parent.peek(f)
        if isinstance(self.index, int):
            self.parent.set(f, f.emit("set", whole, value, index=self.index))
        else:
            self.parent.set(f, f.emit("set_index", whole, self.index, value, check=True))

    def for_update(self, f: Frame) -> Place:
        return Component(self.parent.for_update(f), self.index, self.type, check_reads=False)

    def is_own(self) -> bool:
        return self.parent.is_own()

    def for_atomics(self, f: Frame) -> Place:
        parent = self.parent.for_atomics(f)
        return self if parent is self.parent else parent.component(f, self.index)


@dataclass(slots=True)
class SwizzlePlace(Aggregate):
    """Scalars picked from a vector, matrix or scalar, elements of a tuple: `v.zx`, `m._m00_m11`, `t._1_0`."""

    parent: Place
    picks: tuple[tuple[int, ...], ...]
    type: Type

    def address(self, f: Frame) -> GuardedAddress | None:
        memory = in_memory(f, self.parent) if len(self.picks) == 1 else None
        return None if memory is None else _part(f, memory, self.picks[0]).address(f)

    def read(self, f: Frame) -> Value:
        return self._picked(f, in_memory(f, self.parent) or Temporary(self.parent.read(f)))

    def is_cut(self, f: Frame) -> bool:
        cut = isinstance(self.parent.type, Struct) and any(
            f.lowering.tangents.cuts_field(self.parent.type, pick[0]) for pick in self.picks
        )
        return cut or self.parent.is_cut(f)

    def peek(self, f: Frame) -> Value:
        return self._picked(f, Temporary(self.parent.peek(f)))

    def _picked(self, f: Frame, whole: Place) -> Value:
        parts = [_part(f, whole, pick).read(f) for pick in self.picks]
        return parts[0] if len(parts) == 1 else f.emit("make", *parts, type=self.type)

    def set(self, f: Frame, value: Value) -> None:
        whole = in_memory(f, self.parent) or Temporary(self.parent.peek(f))
        for i, pick in enumerate(self.picks):
            part = value if len(self.picks) == 1 else f.emit("get", value, index=i)
            _part(f, whole, pick).set(f, part)
        if isinstance(whole, Temporary):
            self.parent.set(f, whole.value)

    def for_update(self, f: Frame) -> Place:
        return SwizzlePlace(self.parent.for_update(f), self.picks, self.type)

    def is_own(self) -> bool:
        return self.parent.is_own()

    def for_atomics(self, f: Frame) -> Place:
        parent = self.parent.for_atomics(f)
        if len(self.picks) == 1:
            return _part(f, parent, self.picks[0])
        if parent.is_own():
            return self
        note = "name one component for each operation"
        return NoPlace(f.b.zero(self.type), "several components are not one place", note)


@dataclass(slots=True)
class NoPlace(Temporary):
    """A place that no atomic operation can act on, with the reason and the cure, which an operation on it
    reports."""

    reason: str
    note: str

    def is_own(self) -> bool:
        return False

    def report(self, f: Frame) -> None:
        f.error("E0718", f"{self.reason}: no operation on it is atomic", f.b.span, self.note)


def no_place(place: Place) -> NoPlace | None:
    """The part of a place that has no place."""
    while isinstance(place, (Component, SwizzlePlace)):
        place = place.parent
    return place if isinstance(place, NoPlace) else None


def _part(f: Frame, whole: Place, pick: tuple[int, ...]) -> Place:
    """A scalar counts as a vector of one."""
    for index in pick if isinstance(whole.type, (Vector, Matrix, Struct)) else ():
        whole = whole.component(f, index)
    return whole


@dataclass(slots=True)
class MemoryPlace(GuardedAddress, Place):
    """The pointee of a pointer. Memory may have another form than values: `type` is that of values."""

    @property
    def type(self) -> Type:  # type: ignore[override]
        return value_of(self.form)

    def address(self, f: Frame) -> MemoryPlace:
        return self

    def get(self, f: Frame) -> Value:
        value = self.read(f)
        return f.detached(value) if self.cut else value

    def read(self, f: Frame) -> Value:
        loaded = self.guarded(f, lambda: f.emit("load", self.pointer, type=self.form, **f.access), self.form)
        return any_values.from_memory(f, loaded)

    def set(self, f: Frame, value: Value) -> None:
        stored = any_values.to_memory(f, value, self.form)

        def write() -> None:
            f.b.effect("store", self.pointer, stored, **f.access)

        f.branch(f.true() if self.guard is None else self.guard, write)

    def component(self, f: Frame, index: int | Value) -> Place:
        return RowPlace(self, index) if lies_by_columns(self.form) else self.part(f, index)

    def part(self, f: Frame, index: int | Value) -> MemoryPlace:
        """A component of the form: of a matrix by columns one of these. One at an index is guarded by it."""
        if not isinstance(index, int):
            first = self._first(f)
            inside = f.emit("in_bounds", index, f.b.constant(index.type, component_count(self.inner(f).form)))
            guard = inside if self.guard is None else f.emit("and", inside, self.guard)
            return MemoryPlace(self._as_word(f, f.emit("offset", first, index)), guard, self.cut)
        whole = self.inner(f)
        part = f.emit("member", whole.pointer, index=index)
        cut = f.differentiable and f.lowering.tangents.cuts_field(self.type, index)
        return MemoryPlace(self._as_word(f, part), self.guard, self.cut or cut)

    def element_inside(self, f: Frame, index: Value) -> MemoryPlace:
        """An element of an array, at an index that is surely inside."""
        return MemoryPlace(self._as_word(f, f.emit("offset", self._first(f), index)), self.guard, self.cut)

    def _first(self, f: Frame) -> Value:
        """The address of the first element."""
        whole = self.inner(f)
        first = pointer(component(whole.form, 0), pointer_of(whole.pointer.type).space)
        return f.emit("bitcast", whole.pointer, type=first)

    def inner(self, f: Frame) -> MemoryPlace:
        """The address of the parts, inside of a form."""
        if not part_of(self.form):
            return self
        return MemoryPlace(f.emit("member", self.pointer, index=0), self.guard, self.cut).inner(f)

    def _as_word(self, f: Frame, part: Value) -> Value:
        """A component of a vector of truth values, each of which is a word."""
        if part_of(self.form) != WORDS:
            return part
        return f.emit("bitcast", part, type=pointer(word_form(), pointer_of(part.type).space))


@dataclass(slots=True)
class RowPlace(Place):
    """A row of a matrix that lies by columns, in as many places."""

    matrix: MemoryPlace
    index: int | Value

    @property
    def type(self) -> Type:  # type: ignore[override]
        return component(self.matrix.type, 0)

    def read(self, f: Frame) -> Value:
        return f.emit("make", *(cell.read(f) for cell in self._cells(f)), type=self.type)

    def set(self, f: Frame, value: Value) -> None:
        for i, cell in enumerate(self._cells(f)):
            cell.set(f, f.emit("get", value, index=i))

    def is_cut(self, f: Frame) -> bool:
        return self.matrix.cut

    def component(self, f: Frame, index: int | Value) -> Place:
        constant = index if isinstance(index, int) else f.b.constant_of(index)
        if isinstance(constant, int) and 0 <= constant < component_count(self.type):
            index = constant  # an address that is followed further
        return self.matrix.part(f, index).component(f, self.index)

    def _cells(self, f: Frame) -> list[Place]:
        return [self.component(f, i) for i in range(component_count(self.type))]


def in_memory(f: Frame, place: Place) -> MemoryPlace | None:
    """The same place by its address, if it has one."""
    address = place.address(f)
    return None if address is None else MemoryPlace(address.pointer, address.guard, address.cut)


def behind_pointer(f: Frame, address: Value) -> MemoryPlace:
    """Values read there in a function without a derivative are constants, for any pointer."""
    return MemoryPlace(address, cut=not f.differentiable and not f.declared.span.source.is_library)
