"""The code of one thread of the program in a kernel whose adds have forms of their own.

    %old = atomic %g, %x {kind="add", uniform=true}     ->   %s = wave_reduce %x {kind="add"}
                                                             if %is_first_lane { atomic %g, %s {kind="add"} }
    nine of them in one body of a loop                  ->   at its end 12 exchanges, and one atomic of nine lanes

In: the kernel. Out: its ops with the numbers of the thread as values, and atomics in the form of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.types import BOOL, F32, I64, NARROW_FLOATS, U32, Scalar, pointer
from slangrad.ir.ops.core import Op, Region, Value, without
from slangrad.opt.delayed.group_tables import GroupTable, add_to, element_of

WAVE = 32
ALL_LANES = (1 << WAVE) - 1

Ids = tuple[Value, ...]  # of a thread, along x, y and z


@dataclass(frozen=True, slots=True)
class WaveAdd:
    """An add of all lanes that are on to one address. `make` adds a sum there."""

    address: Value
    value: Value
    make: Callable[[Builder, Value], None]


class ThreadBody(Rebuild):
    """A kernel as code of one thread."""

    def __init__(
        self, ids: Ids, starts: Mapping[int, Value], planned: Sequence[Value], tables: Sequence[GroupTable]
    ) -> None:
        super().__init__(
            {
                "thread_id": lambda walk, b, op: (ids[op.attributes["axis"]],),
                "atomic": self._atomic,
                "accumulators": lambda walk, b, op: (starts[op.attributes["block"]],),
                "planned": lambda walk, b, op: (planned[op.attributes["index"]],),
            }
        )
        self._tables = tables

    def _atomic(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        number, is_uniform = op.attributes.get("table"), op.attributes.get("uniform")
        if number is None and not is_uniform:
            return copy_op(walk, b, op)
        table = None if number is None else self._tables[number]
        address, value = walk.values(op.operands)
        attributes = without(without(op.attributes, "uniform"), "table")

        def add(inner: Builder, total: Value) -> None:
            add_to(inner, table, address, total, attributes)

        if not is_uniform:
            add(b, value)
        elif table is None or not self.delay(table, WaveAdd(address, value, add)):
            _add_of_wave(b, value, element_of(address), add)
        return (b.zero(op.results[0].type),)  # the result is not used

    def delay(self, table: GroupTable, add: WaveAdd) -> bool:
        """Whether an add of all lanes to one place is made later."""
        return False


def _add_of_wave(b: Builder, value: Value, element: Scalar, add: Callable[[Builder, Value], None]) -> None:
    """One add of the wave, by its first lane that is on. None where no lane has anything to add."""
    sums = F32 if element in NARROW_FLOATS else element
    zero = b.constant(U32, 0)
    some = b.emit("wave_ballot", b.emit("not_equal", value, b.zero(element)), type=U32)

    def add_up(inner: Builder) -> None:
        wide = value if sums is element else inner.emit("convert", value, type=sums)
        total = inner.emit("wave_reduce", wide, kind="add")
        lanes = inner.emit("wave_ballot", inner.constant(BOOL, True), type=U32)
        unit = inner.constant(U32, 1)
        before = inner.emit("sub", inner.emit("shl", unit, inner.emit("wave_lane", type=U32)), unit)
        is_first = inner.emit("equal", inner.emit("and", lanes, before), zero)
        inner.guarded(is_first, lambda body: add(body, total))

    b.guarded(b.emit("not_equal", some, zero), add_up)


# --- adds of a wave, together


class LateAdds(ThreadBody):
    """The same where adds to tables may wait: those of all lanes that stand in one region are made at its end."""

    def __init__(
        self, ids: Ids, starts: Mapping[int, Value], planned: Sequence[Value], tables: Sequence[GroupTable]
    ) -> None:
        super().__init__(ids, starts, planned, tables)
        self._waiting: list[list[tuple[GroupTable, WaveAdd]]] = []

    def inline(self, b: Builder, region: Region) -> tuple[Value, ...]:
        self._waiting.append([])
        yields = super().inline(b, region)
        waiting = self._waiting.pop()
        for table in dict.fromkeys(table for table, _ in waiting):
            adds = [add for of_table, add in waiting if of_table is table]
            for first in range(0, len(adds), WAVE):
                _add_together(b, table, adds[first : first + WAVE])
        return yields

    def delay(self, table: GroupTable, add: WaveAdd) -> bool:
        self._waiting[-1].append((table, add))
        return True


def _add_together(b: Builder, table: GroupTable, adds: Sequence[WaveAdd]) -> None:
    """One exchange serves several sums where all lanes are on."""
    zero = b.zero(table.element)
    some = b.emit("not_equal", adds[0].value, zero)
    for add in adds[1:]:
        some = b.emit("or", some, b.emit("not_equal", add.value, zero))

    def apart(inner: Builder) -> None:
        for add in adds:
            _add_of_wave(inner, add.value, table.element, add.make)

    def together(inner: Builder) -> None:
        lanes = inner.emit("wave_ballot", inner.constant(BOOL, True), type=U32)
        are_on = inner.emit("equal", lanes, inner.constant(U32, ALL_LANES))
        inner.if_(are_on, lambda body: _add_by_lanes(body, table, adds), apart)

    if len(adds) == 1:
        apart(b)
        return
    are_some = b.emit("not_equal", b.emit("wave_ballot", some, type=U32), b.constant(U32, 0))
    b.guarded(are_some, together)


def _add_by_lanes(b: Builder, table: GroupTable, adds: Sequence[WaveAdd]) -> None:
    """Lane i makes the i-th add."""
    lane = b.emit("wave_lane", type=U32)
    sums = table.sums
    values = [add.value if sums is table.element else b.emit("convert", add.value, type=sums) for add in adds]
    total = _sums_by_lanes(b, values, lane)
    places = [b.emit("bitcast", add.address, type=I64) for add in adds]
    place = places[0]
    for number, other in enumerate(places[1:], 1):
        place = b.emit("select", b.emit("equal", lane, b.constant(U32, number)), other, place)

    def add(inner: Builder) -> None:
        address = inner.emit("bitcast", place, type=pointer(table.element))
        add_to(inner, table, address, total, {"kind": "add", "trusted": True})

    b.guarded(b.emit("less", lane, b.constant(U32, len(adds))), add)


def _sums_by_lanes(b: Builder, values: Sequence[Value], lane: Value) -> Value:
    """Lane i gets the sum of the i-th value over all lanes; others get some sum. In each step neighbors are joined by a
    bit of the lane, until one value is left, whose parts are then exchanged."""
    nothing, zero, row = b.zero(values[0].type), b.constant(U32, 0), list(values)
    bit = 1
    while bit < WAVE:
        partner = b.emit("xor", lane, b.constant(U32, bit))
        is_odd = b.emit("not_equal", b.emit("and", lane, b.constant(U32, bit)), zero)
        if len(row) == 1:
            row = [b.emit("add", row[0], b.emit("wave_read", row[0], partner))]
        else:
            row += [nothing] * (len(row) % 2)
            joined = []
            for low, high in zip(row[::2], row[1::2], strict=True):
                kept = b.emit("select", is_odd, high, low)
                sent = b.emit("select", is_odd, low, high)
                joined.append(b.emit("add", kept, b.emit("wave_read", sent, partner)))
            row = joined
        bit *= 2
    (total,) = row
    return total
