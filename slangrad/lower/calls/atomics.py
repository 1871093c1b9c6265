"""Atomics: on memory component by component; a local variable, which no other thread reaches, is simply changed.

InterlockedAdd(p[0], 1, old)     %old = atomic %p, 1 {kind="add"}
"""

from __future__ import annotations

from slangrad.ir.data.types import (
    U32,
    Array,
    Pointer,
    Scalar,
    Struct,
    Type,
    components,
    is_long,
    pointer,
    pointer_of,
    value_of,
)
from slangrad.ir.ops.core import Value
from slangrad.ir.ops.primitives import ATOMIC_KINDS
from slangrad.lower.calls.references import OneOf
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import MemoryPlace, RowPlace, in_memory, no_place

OPERANDS = {"load": 0, "increment": 0, "decrement": 0, "compare_exchange": 2, "compare_exchange_bits": 2}
STEPS = {"increment": "add", "decrement": "sub"}


def apply(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value | None:
    """The value before, or ("add.after") the one after; a place after the operands receives it."""
    kind, _, after = kind.partition(".")
    count = OPERANDS.get(kind, 1)
    target, operands = places[0], [place.get(f) for place in places[1 : 1 + count]]
    if isinstance(target.type, Pointer) and (
        not operands or operands[-1].type is value_of(target.type.element)
    ):
        target = MemoryPlace(target.get(f))
    old = _on_any(f, kind, target if kind == "load" else target.for_atomics(f), operands)
    for original in places[1 + count :]:
        original.set(f, old)
    value = _unwrapped(f, old, t)
    return value if value is None or not after else _changed(f, kind, value, operands)


def _changed(f: Frame, kind: str, before: Value, operands: list[Value]) -> Value:
    if kind in STEPS:
        assert isinstance(before.type, Scalar)
        return f.emit(STEPS[kind], before, f.b.constant(before.type, 1))
    return f.emit(ON_VALUES[kind], before, operands[0])


def _unwrapped(f: Frame, old: Value, t: Type | None) -> Value | None:
    """The old value of an Atomic<T> as a T."""
    if t is None or old.type is t:
        return old if t is not None else None
    return f.emit("get", old, index=0)


def _on_any(f: Frame, kind: str, target: Place, operands: list[Value]) -> Value:
    missing = no_place(target)
    if missing is not None:
        missing.report(f)
        return target.get(f)
    memory = in_memory(f, target)
    if memory is not None:
        place = MemoryPlace(memory.pointer)
        return memory.guarded(f, lambda: _on_place(f, kind, place, operands), memory.type)
    if kind == "load":
        return target.get(f)
    if isinstance(target, OneOf):
        return target.chosen(f, lambda choice: (_on_any(f, kind, choice, operands),))[0]
    if isinstance(target, RowPlace):
        return _on_place(f, kind, target, operands)
    assert target.is_own(), target
    return _on_own(f, kind, target, operands)


def _on_place(f: Frame, kind: str, place: Place, operands: list[Value]) -> Value:
    if isinstance(place, MemoryPlace) and isinstance(place.form, Scalar):
        return _on_scalar(f, kind, place.pointer, operands)
    if isinstance(place.type, Array) and is_long(place.type):
        return _on_elements(f, kind, place, operands)
    parts = []
    for i, part in enumerate(components(place.type)):
        same = all(x.type is place.type for x in operands)
        parts_of_operands = [f.emit("get", x, index=i) for x in operands] if same else operands
        assert same or all(x.type is part for x in operands), (place.type, operands)
        parts.append(_on_place(f, kind, place.component(f, i), parts_of_operands))
    return f.emit("make", *parts, type=place.type)


def _on_elements(f: Frame, kind: str, place: Place, operands: list[Value]) -> Value:
    t = place.type
    assert isinstance(place, MemoryPlace) and isinstance(t, Array)

    def on_element(index: Value) -> Value:
        elements = [f.emit("index", x, index) for x in operands]
        return _on_place(f, kind, place.element_inside(f, index), elements)

    return f.elementwise(t, on_element)


def _on_scalar(f: Frame, kind: str, address: Value, operands: list[Value]) -> Value:
    element = pointer_of(address.type).element
    if kind == "load":
        return f.emit("load", address, type=element, **f.access)
    if kind == "store":
        kind = "exchange"
    if kind == "compare_exchange_bits":
        return _on_bits(f, address, operands)
    if kind in STEPS:
        kind, operands = STEPS[kind], [f.b.constant(element, 1)]
    if kind == "sub":
        kind, operands = "add", [f.emit("neg", operands[0])]
    assert kind in ATOMIC_KINDS, kind
    return f.b.primitive("atomic", (address, *operands), element, {**f.access, "kind": kind})


def _on_bits(f: Frame, address: Value, operands: list[Value]) -> Value:
    """A float compared as the number that its bits are."""
    whole = f.emit("bitcast", address, type=pointer(U32, pointer_of(address.type).space))
    bits = (f.emit("bitcast", x, type=U32) for x in operands)
    old = f.b.primitive("atomic", (whole, *bits), U32, {**f.access, "kind": "compare_exchange"})
    return f.emit("bitcast", old, type=pointer_of(address.type).element)


ON_VALUES = {"add": "add", "sub": "sub", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def _on_own(f: Frame, kind: str, target: Place, operands: list[Value]) -> Value:
    """A place that no other thread reaches is simply changed."""
    old = target.get(f)
    place = target.component(f, 0) if isinstance(target.type, Struct) else target
    before = place.get(f)
    if kind.startswith("compare_exchange"):
        seen = [before, operands[0]]
        if kind == "compare_exchange_bits":
            seen = [f.emit("bitcast", x, type=U32) for x in seen]
        new = f.emit("select", f.emit("equal", *seen), operands[1], before)
    elif kind in STEPS:
        assert isinstance(before.type, Scalar)
        new = f.emit(STEPS[kind], before, f.b.constant(before.type, 1))
    else:
        new = f.emit(ON_VALUES[kind], before, operands[0]) if kind in ON_VALUES else operands[0]
    place.set(f, new)
    return old
