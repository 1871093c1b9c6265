"""Waves: exchange between the lanes that are on.

    %s = wave_reduce{add} %x      lane_reduce{add} (select %mask, %x, -0.0)     : f32, the same in all lanes
    %b = wave_ballot %c           lane_bits (and %mask, %c)                     : u32
    %v = wave_read %x, %l         lane_get %x, %l; zero where lane %l is off

A wave is as wide as the kernel's lanes. At one lane the rules `ALONE` apply, and there are no lanes.
"""

from __future__ import annotations

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.building.rebuild import Rule as RebuildRule
from slangrad.ir.data.numbers import first_of_scan
from slangrad.ir.data.types import U32, U64
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.spmd.effects import lane_by_lane, reduced
from slangrad.spmd.forms import Strided
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import each_lane


def _reduce(w: Widening, b: Builder, op: Op) -> None:
    kind = op.attributes["kind"]
    w.forms.set(op.results[0], reduced(w, b, kind, op.operands[0]))


def _scan(w: Widening, b: Builder, op: Op) -> None:
    """Lane after lane, so that the order of additions is plain."""
    (x,), (r,), kind = op.operands, op.results, op.attributes["kind"]
    values = w.lanes_of(b, x)

    def body(inner: Builder, lane: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        lanes_so_far, before = carried
        term = inner.emit("lane_get", values, lane, type=x.type)
        return inner.emit("lane_set", lanes_so_far, lane, before), inner.emit(kind, before, term)

    start = b.zero(values.type), _first(b, x, kind)
    w.forms.set(r, each_lane(b, w.mask.bits(b, w.count), start, body)[0])


def _first(b: Builder, x: Value, kind: str) -> Value:
    """What a scan gives its first lane."""
    return b.constant(scalar_type(x), first_of_scan(kind, scalar_type(x)))


def _ballot(w: Widening, b: Builder, op: Op) -> None:
    chosen = w.mask.narrowed(b, w.lanes_of(b, op.operands[0]))
    w.forms.set(op.results[0], b.emit("convert", chosen.bits(b, w.count), type=U32))


def _read(w: Widening, b: Builder, op: Op) -> None:
    (x, lane), (r,) = op.operands, op.results
    values, bits = w.lanes_of(b, x), w.mask.bits(b, w.count)

    def value_of(inner: Builder, number: Value) -> Value:
        wide = inner.emit("convert", number, type=U64)
        last = inner.constant(U64, w.count - 1)
        on = inner.emit("and", inner.emit("shr", bits, wide), inner.constant(U64, 1))
        is_active = inner.emit(
            "and", inner.emit("less_equal", wide, last), inner.emit("not_equal", on, inner.zero(U64))
        )
        value = inner.emit("lane_get", values, inner.emit("and", wide, last), type=x.type)
        return inner.emit("select", is_active, value, inner.zero(x.type))

    if w.forms.shape(lane).is_uniform:
        w.forms.set(r, value_of(b, w.forms.scalar(lane)))
        return
    lane_by_lane(w, b, op, lambda inner, picked, _: value_of(inner, picked[1]))


def _lane(w: Widening, b: Builder, op: Op) -> None:
    w.forms.set(op.results[0], Strided(b.constant(U32, 0), b.constant(U32, 1)))


RULES: dict[str, Rule] = {
    "wave_reduce": _reduce,
    "wave_scan": _scan,
    "wave_ballot": _ballot,
    "wave_read": _read,
    "wave_lane": _lane,
}

# --- A wave of one lane


def _same(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (rebuild.value(op.operands[0]),)


def _first_of_all(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (_first(b, op.results[0], op.attributes["kind"]),)


def _own_bit(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (b.emit("convert", rebuild.value(op.operands[0]), type=U32),)


def _own_value(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    x, lane = rebuild.values(op.operands)
    return (b.emit("select", b.emit("equal", lane, b.zero(lane.type)), x, b.zero(x.type)),)


def _zero(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (b.constant(U32, 0),)


ALONE: dict[str, RebuildRule] = {
    "wave_reduce": _same,
    "wave_scan": _first_of_all,
    "wave_ballot": _own_bit,
    "wave_read": _own_value,
    "wave_lane": _zero,
}
