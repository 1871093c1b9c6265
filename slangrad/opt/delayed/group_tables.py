"""Sums of threads that a group of a GPU adds up in its shared memory, and then adds to memory once for each element.

    %old = atomic %p, %x {kind="add", table=0}    ->   %i = (%p - %base) / 4 + %first
                                                       atomic (offset %rows, %i), %x {kind="add"}      in shared memory
    at the end of the group                            barrier; atomic %base + 4 * %j, the sum of element j of all rows

A small table has several rows, each of its own lanes, so that lanes wait less for each other. Rows have an odd length,
so that an element lies in another bank in each. The plan has the address of a table and its size in this launch, which
is 0 where adds go to memory at once. Sums of several groups are added in no fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import I64, U32, Scalar, array, pointer, pointer_of, scalar_of
from slangrad.ir.ops.core import Attributes, Value
from slangrad.opt.delayed.delayed_sums import SumPlan, elements_of_group

MOST_ROWS = 32  # of a table: one for each lane

Trips = Callable[[Builder, Value, Value, Value], Value]  # of a loop from a first number to an end, in steps


@dataclass(frozen=True, slots=True)
class GroupTable:
    """`start`: of all rows, in shared memory. `base`: the address of the first element. `count`: elements, `length`:
    numbers of a row. `first`: of the row of this thread, `rows`: how many there are. `is_used`: in this launch.
    `may_wait`: no other access reaches its elements, so that adds may be made later."""

    element: Scalar
    sums: Scalar
    start: Value
    base: Value
    count: Value
    length: Value
    first: Value
    rows: Value
    is_used: Value
    may_wait: Value


def begin_tables(b: Builder, plan: SumPlan, planned: Sequence[Value], lane: Value) -> list[GroupTable]:
    """Shared memory is zero when a group begins."""
    return [_begin(b, plan, number, planned, lane) for number in range(len(plan.tables))]


def _begin(b: Builder, plan: SumPlan, number: int, planned: Sequence[Value], lane: Value) -> GroupTable:
    table, index = plan.tables[number], plan.table_index(number)
    room = elements_of_group(table.sums, len(plan.tables)) + 1
    memory = b.emit("shared", type=pointer(array(table.sums, room), "shared"), name=f"table {number}")
    start = b.emit("bitcast", memory, type=pointer(table.sums, "shared"))
    count = b.emit("convert", planned[index + 1], type=U32)
    length = b.emit("or", count, b.constant(U32, 1))
    rows = b.emit("min", b.emit("div", b.constant(U32, room), length), b.constant(U32, MOST_ROWS))
    first = b.emit("mul", b.emit("rem", lane, rows), length)
    is_used = b.emit("less", b.constant(I64, 0), planned[index + 1])
    place = start, planned[index], count, length, first, rows
    return GroupTable(table.element, table.sums, *place, is_used, planned[index + 2])


def add_to(
    b: Builder, table: GroupTable | None, address: Value, value: Value, attributes: Attributes
) -> None:
    """One add: to the row of the thread where the table is used, else to memory."""

    def at_once(inner: Builder) -> None:
        element = element_of(address)
        inner.primitive("atomic", (address, _converted(inner, value, element)), element, attributes)

    def in_group(inner: Builder) -> None:
        assert table is not None
        distance = inner.emit("sub", inner.emit("bitcast", address, type=I64), table.base)
        shift = inner.constant(I64, table.element.size.bit_length() - 1)
        index = inner.emit("convert", inner.emit("shr", distance, shift), type=U32)
        place = inner.emit("offset", table.start, inner.emit("add", index, table.first))
        inner.primitive("atomic", (place, _converted(inner, value, table.sums)), table.sums, {"kind": "add"})

    if table is None:
        at_once(b)
    else:
        b.if_(table.is_used, in_group, at_once)


def element_of(address: Value) -> Scalar:
    element = scalar_of(pointer_of(address.type).element)
    assert element is not None, "sums are of scalars"
    return element


def _converted(b: Builder, value: Value, scalar: Scalar) -> Value:
    return value if value.type is scalar else b.emit("convert", value, type=scalar)


def end_tables(b: Builder, tables: Sequence[GroupTable], member: Value, threads: int, trips: Trips) -> None:
    """All threads of the group together: each adds up some elements. `member`: the number of a thread in its group."""
    if not tables:
        return
    b.effect("barrier")
    step = b.constant(U32, threads)
    for table in tables:
        is_needed = b.emit("less", member, table.count)
        count = trips(b, b.emit("select", is_needed, member, table.count), table.count, step)

        def add_one(inner: Builder, number: Value, table: GroupTable = table) -> tuple[Value, ...]:
            return _add_up(inner, table, inner.emit("add", member, inner.emit("mul", number, step)))

        b.for_(count, (), add_one, hint="part")


def _add_up(b: Builder, table: GroupTable, element: Value) -> tuple[Value, ...]:
    """All rows in their order; elements to which nothing was added stay as they are."""

    def add_row(inner: Builder, row: Value, total: Value) -> tuple[Value, ...]:
        place = inner.emit("add", element, inner.emit("mul", row, table.length))
        part = inner.emit("load", inner.emit("offset", table.start, place), type=table.sums)
        return (inner.emit("add", total, part),)

    (total,) = b.for_(table.rows, (b.zero(table.sums),), add_row, hint="row")

    def add(inner: Builder) -> None:
        wide = inner.emit("convert", element, type=I64)
        distance = inner.emit("mul", wide, inner.constant(I64, table.element.size))
        place = inner.emit("add", table.base, distance)
        address = inner.emit("bitcast", place, type=pointer(table.element))
        add_to(inner, None, address, total, {"kind": "add", "trusted": True})

    return b.guarded(b.emit("not_equal", total, b.zero(table.sums)), add)
