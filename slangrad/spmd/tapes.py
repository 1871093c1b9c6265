"""Tapes for lanes: a row of lanes in each element.

    tape_store %t, %i, %v      where %t and %i are uniform: tape_address{write} %t, %i; store a row
                               where only %t is: tape_reserve up to the largest %i; scatter

Accesses by the number of an iteration are of the first kind. Lanes that have tapes of their own take turns.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.building.rebuild import Rule as RebuildRule
from slangrad.ir.data.types import I64, U64, lanes, pointer, pointer_of
from slangrad.ir.ops.core import Op, Value
from slangrad.spmd.access import store_private
from slangrad.spmd.effects import in_lane_order, lane_by_lane
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import Mask


def _has_row(w: Widening, op: Op) -> bool:
    """Do all lanes use the same element of the same tape?"""
    return all(w.forms.shape(x).is_uniform for x in op.operands[:2])


def _has_tape(w: Widening, op: Op) -> bool:
    return w.forms.shape(op.operands[0]).is_uniform


def _row(w: Widening, b: Builder, op: Op, write: bool) -> Value:
    tape, index = (w.forms.scalar(x) for x in op.operands[:2])
    return _address(b, tape, index, write)


def _address(b: Builder, tape: Value, index: Value, write: bool) -> Value:
    return b.emit(
        "tape_address", tape, index, type=pointer(pointer_of(tape.type).element, "local"), write=write
    )


def _place(b: Builder, operands: tuple[Value, ...], lane: Value, write: bool) -> Value:
    """Where one lane has its element."""
    return b.emit("offset", _address(b, operands[0], operands[1], write), lane)


def _places(w: Widening, b: Builder, op: Op, write: bool) -> tuple[Value, Mask]:
    """The elements that lanes have in one tape, and the lanes for which they exist."""
    tape, index = w.forms.scalar(op.operands[0]), w.lanes_of(b, op.operands[1])
    index = b.emit("convert", index, type=lanes(I64))
    if write:
        wanted = index
        if w.mask.value is not None:
            wanted = b.emit("select", w.mask.value, index, b.zero(index.type))
        b.effect("tape_reserve", tape, b.emit("lane_reduce", wanted, type=I64, kind="max"))
    capacity = b.emit("splat", b.emit("tape_capacity", tape, type=U64), type=lanes(U64))
    exists = b.emit("less", b.emit("convert", index, type=lanes(U64)), capacity)
    elements = b.emit("tape_elements", tape, type=pointer(pointer_of(tape.type).element, "local"))
    row = b.emit("mul", index, b.constant(index.type, w.count))
    element = b.emit("add", row, b.emit("lane_index", type=index.type))
    places = b.emit("offset", b.emit("splat", elements, type=lanes(elements.type)), element)
    return places, w.mask.narrowed(b, exists)


def _tape_new(w: Widening, b: Builder, op: Op) -> None:
    w.forms.set(op.results[0], b.primitive("tape_new", (), op.results[0].type, op.attributes))


def _tape_copy(w: Widening, b: Builder, op: Op) -> None:
    (old,), (result,) = op.operands, op.results
    if w.forms.shape(result).is_uniform:
        w.forms.set(result, b.emit("tape_copy", w.forms.scalar(old)))
        return
    lane_by_lane(w, b, op, lambda inner, operands, lane: inner.emit("tape_copy", operands[0]))


def _tape_free(w: Widening, b: Builder, op: Op) -> None:
    if _has_tape(w, op):
        b.effect("tape_free", w.forms.scalar(op.operands[0]))
    else:
        in_lane_order(w, b, op, lambda inner, operands, lane: inner.effect("tape_free", operands[0]))


def _tape_load(w: Widening, b: Builder, op: Op) -> None:
    (result,), element = op.results, pointer_of(op.operands[0].type).element
    if _has_row(w, op):
        w.forms.set(result, b.primitive("load", (_row(w, b, op, False),), lanes(element), {}))
    elif _has_tape(w, op):
        places, mask = _places(w, b, op, False)
        w.forms.set(result, b.primitive("load", (places, *mask.operands()), lanes(element), {}))
    else:

        def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> Value:
            return inner.emit("load", _place(inner, operands, lane, False), type=element)

        lane_by_lane(w, b, op, act)


def _tape_store(w: Widening, b: Builder, op: Op) -> None:
    _write(w, b, op, lambda inner, old, new: new)


def _tape_add(w: Widening, b: Builder, op: Op) -> None:
    _write(w, b, op, lambda inner, old, new: inner.emit("add", old(), new))


Combine = Callable[[Builder, Callable[[], Value], Value], Value]


def _write(w: Widening, b: Builder, op: Op, combine: Combine) -> None:
    """Replace elements by `combine(old element, operand)`; `combine` may ignore the old element."""
    element, value = pointer_of(op.operands[0].type).element, op.operands[2]
    if _has_row(w, op):
        row = _row(w, b, op, True)
        old = lambda: b.primitive("load", (row,), lanes(element), {})
        store_private(w, b, row, combine(b, old, w.lanes_of(b, value)))
    elif _has_tape(w, op):
        places, mask = _places(w, b, op, True)
        old = lambda: b.primitive("load", (places, *mask.operands()), lanes(element), {})
        b.effect("store", places, combine(b, old, w.lanes_of(b, value)), *mask.operands())
    else:

        def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> None:
            place = _place(inner, operands, lane, True)
            old = lambda: inner.emit("load", place, type=element)
            inner.effect("store", place, combine(inner, old, operands[2]))

        in_lane_order(w, b, op, act)


RULES: dict[str, Rule] = {
    "tape_new": _tape_new,
    "tape_copy": _tape_copy,
    "tape_free": _tape_free,
    "tape_load": _tape_load,
    "tape_store": _tape_store,
    "tape_add": _tape_add,
}

# --- Rows of one lane


def _one_load(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    tape, index = rebuild.values(op.operands)
    return (b.emit("load", _address(b, tape, index, False), type=op.results[0].type),)


def _one_store(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    tape, index, value = rebuild.values(op.operands)
    b.effect("store", _address(b, tape, index, True), value)
    return ()


def _one_add(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    tape, index, value = rebuild.values(op.operands)
    place = _address(b, tape, index, True)
    b.effect("store", place, b.emit("add", b.emit("load", place, type=value.type), value))
    return ()


ALONE: dict[str, RebuildRule] = {"tape_load": _one_load, "tape_store": _one_store, "tape_add": _one_add}
