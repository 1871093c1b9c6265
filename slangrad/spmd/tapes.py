"""Tapes for lanes: a row of lanes in each element.

    tape_store %t, %i, %v      %p = tape_address{write} %t, %i;  store %p, %v      where %t and %i are uniform
    tape_load %t, %i           %p = tape_address %t, %i;  load %p

Accesses by the number of an iteration are of that kind. Others go lane by lane.
"""

from __future__ import annotations

from slangrad.ir.builder import Builder
from slangrad.ir.core import Op, Value
from slangrad.ir.types import Pointer, Type, lanes, pointer
from slangrad.spmd.access import store_private
from slangrad.spmd.effects import in_lane_order
from slangrad.spmd.lanes import Rule, Widening


def _is_row(w: Widening, op: Op) -> bool:
    """Do all lanes use the same element of the same tape?"""
    return all(w.forms.shape(x).is_uniform for x in op.operands[:2])


def _row(w: Widening, b: Builder, op: Op, write: bool) -> Value:
    tape, index = (w.forms.scalar(x) for x in op.operands[:2])
    return _address(b, tape, index, write)


def _address(b: Builder, tape: Value, index: Value, write: bool) -> Value:
    assert isinstance(tape.type, Pointer)
    place = pointer(tape.type.element, "local")
    return b.emit("tape_address", tape, index, type=place, write=write)


def _place(b: Builder, operands: tuple[Value, ...], lane: Value, write: bool) -> Value:
    """Where one lane has its element."""
    return b.emit("offset", _address(b, operands[0], operands[1], write), lane)


def _element(tape: Value) -> Type:
    assert isinstance(tape.type, Pointer)
    return tape.type.element


def _tape_new(w: Widening, b: Builder, op: Op) -> None:
    w.forms.set(op.results[0], b.primitive("tape_new", (), op.results[0].type, op.attributes))


def _tape_copy(w: Widening, b: Builder, op: Op) -> None:
    (old,), (result,) = op.operands, op.results
    if w.forms.shape(result).is_uniform:
        w.forms.set(result, b.emit("tape_copy", w.forms.scalar(old)))
        return
    made = in_lane_order(w, b, op, lambda inner, operands, lane: inner.emit("tape_copy", operands[0]))
    if made is not None:
        w.forms.set(result, made)


def _tape_load(w: Widening, b: Builder, op: Op) -> None:
    (result,), element = op.results, _element(op.operands[0])
    made: Value | None
    if _is_row(w, op):
        made = b.primitive("load", (_row(w, b, op, False),), lanes(element), {})
    else:

        def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> Value:
            return inner.emit("load", _place(inner, operands, lane, False), type=element)

        made = in_lane_order(w, b, op, act)
    if made is not None:
        w.forms.set(result, made)


def _tape_store(w: Widening, b: Builder, op: Op) -> None:
    if _is_row(w, op):
        store_private(w, b, _row(w, b, op, True), w.lanes_of(b, op.operands[2]))
        return

    def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> None:
        inner.effect("store", _place(inner, operands, lane, True), operands[2])

    in_lane_order(w, b, op, act)


def _tape_add(w: Widening, b: Builder, op: Op) -> None:
    element = _element(op.operands[0])
    if _is_row(w, op):
        row = _row(w, b, op, True)
        old = b.primitive("load", (row,), lanes(element), {})
        store_private(w, b, row, b.emit("add", old, w.lanes_of(b, op.operands[2])))
        return

    def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> None:
        place = _place(inner, operands, lane, True)
        old = inner.emit("load", place, type=element)
        inner.effect("store", place, inner.emit("add", old, operands[2]))

    in_lane_order(w, b, op, act)


RULES: dict[str, Rule] = {
    "tape_new": _tape_new,
    "tape_copy": _tape_copy,
    "tape_load": _tape_load,
    "tape_store": _tape_store,
    "tape_add": _tape_add,
}
