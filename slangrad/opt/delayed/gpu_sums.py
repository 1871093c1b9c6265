"""Sums of many threads on a GPU, in the form that suits each.

Adds that wait for the end of the launch: a thread adds up its own part in registers, a block its threads, a second
kernel all.

    %old = atomic %g, %x {kind="add"}     ->   %sums = alloc {count=32, zero=true}
                                               for %rounds { ... atomic %sums, %x {kind="add", alone=true} ... }
                                               wave_read, shared, barrier: one number of the block for each sum
                                               store %partials, ...
    finish:  a wave for each sum: the numbers of all blocks, in their order, are added to memory

Other adds are those of a wave, of a table of the group (group_tables.py), or atomics (thread_bodies.py).

In: a kernel, and its form whose adds have accumulators (delayed_adds.py). Out: a kernel of few groups, each of which
runs many threads of the program, and its `finish`. Each thread evaluates the plan; if adds may not wait, it runs the
kernel as it was. No two threads add to the same of the sums in registers at a time, so they have the same bits in every
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import I64, U32, Scalar, array, pointer
from slangrad.ir.ops.core import Function, FunctionAttributes, Region, Value, walk
from slangrad.opt.delayed.delayed_sums import SumPlan, launch_field
from slangrad.opt.delayed.group_tables import begin_tables, end_tables
from slangrad.opt.delayed.sum_reduction import add_total, address_of
from slangrad.opt.delayed.thread_bodies import WAVE, Ids, LateAdds, ThreadBody

GROUP = 128  # threads of a group, of kernels with sums in registers
# Of kernels with tables: more threads of a group mean fewer groups, whose tables are added up in the end.
GROUP_OF_TABLES, GROUP_OF_SHORT = 256, 512
SHORT_OPS = 128  # of a kernel without loops and calls, which runs `TOGETHER` threads of the program at a time
TOGETHER = 4
LEVELS = 5  # of a tree over the lanes of a wave


@dataclass(frozen=True, slots=True)
class GpuSums:
    """`fallback`: one thread of the kernel as it was, which the kernel calls where adds may not wait. `row`: bytes of
    partial sums that a group stores. `count`: the sums; `finish` runs in as many groups. Without sums that wait, there
    is neither of the two functions."""

    kernel: Function
    fallback: Function | None
    finish: Function | None
    row: int
    count: int


@dataclass(frozen=True, slots=True)
class _Accumulators:
    """The accumulators of one type. `starts`: where those of each block begin, by its number; `count`: of all, and
    `place`: bytes of a row before them."""

    sums: Scalar
    starts: Mapping[int, int]
    count: int
    place: int

    @property
    def padded(self) -> int:
        return self.count + -self.count % WAVE


def sum_many_threads(
    kernel: Function,
    delaying: Function,
    called: Sequence[Function],
    plan: SumPlan,
    certain: tuple[Function, Function] | None = None,
    in_order: bool = False,
) -> GpuSums | None:
    """`called`: all functions that the kernels call. `certain`: a condition of the launch, and the form of `delaying`
    that runs where it holds; it is for kernels without sums in registers. `in_order`: where adds may not wait, one
    thread makes them in the order of the program's threads. None where the kernel works with waves or prints, or where
    one of these reads the number of its thread, which is another one here."""
    of_threads = any(op.name in ("thread_id", "print") for f in called for op in walk(f.region))
    if kernel.wave or of_threads or any(op.name == "print" for op in walk(kernel.region)):
        return None
    tables = _tables(plan)
    fallback = _fallback(kernel) if tables else None
    is_short = not tables and _is_short(delaying)
    group = GROUP if tables or not plan.tables else (GROUP_OF_SHORT if is_short else GROUP_OF_TABLES)
    b = Builder(span=kernel.span)
    planned = Rebuild().inline(b, plan.function.region)
    thread = b.emit("thread_id", type=U32, axis=0)
    of_group = begin_tables(b, plan, planned, b.emit("wave_lane", type=U32)) if plan.tables else []
    starts, sums = {}, []
    for table in tables:
        start = b.emit("alloc", type=pointer(table.sums, "local"), count=table.padded, zero=True)
        sums.append(start)
        for number, first in table.starts.items():
            starts[number] = b.emit("offset", start, b.constant(I64, first))
    rounds = _Rounds(b, thread, group)

    def delay(inner: Builder, threads: Sequence[Ids]) -> None:
        bodies = [ThreadBody(ids, starts, planned, of_group) for ids in threads]
        for op in delaying.region.ops:  # side by side, as threads do not wait for each other
            for body in bodies:
                body.op(inner, op)

    together = TOGETHER if is_short else 1
    if fallback is None and certain is not None:
        condition, form = certain
        (holds,) = Rebuild().inline(b, condition.region)

        def run_unchecked(inner: Builder, threads: Sequence[Ids]) -> None:
            for ids in threads:
                LateAdds(ids, starts, planned, of_group).inline(inner, form.region)

        b.if_(
            b.all([holds, *(table.may_wait for table in of_group)]),
            lambda inner: rounds.run(inner, run_unchecked),
            lambda inner: rounds.run(inner, delay, together),
        )
    elif fallback is None:
        rounds.run(b, delay, together)
    else:
        name = fallback.name

        def call_fallback(inner: Builder, threads: Sequence[Ids]) -> None:
            inner.call(name, threads[0], ())

        b.if_(
            b.emit("less_equal", b.constant(I64, 0), planned[0]),
            lambda inner: rounds.run(inner, delay),
            lambda inner: (rounds.run_in_order if in_order else rounds.run)(inner, call_fallback),
        )
    for table, start in zip(tables, sums, strict=True):
        _add_up_group(b, table, start, thread)
    end_tables(b, of_group, b.emit("and", thread, b.constant(U32, group - 1)), group, _trips)
    about: FunctionAttributes = {"kernel": True, "group_size": (group, 1, 1), "wave": WAVE, "stays": True}
    summing = Function(kernel.name, (), None, Region((), b.ops, ()), attributes=about, span=kernel.span)
    row = sum(table.count * table.sums.size for table in tables)
    finish = _finish(kernel, plan, tables) if tables else None
    return GpuSums(summing, fallback, finish, row, sum(table.count for table in tables))


def _is_short(kernel: Function) -> bool:
    """Whether threads of the program can run side by side in one of the GPU: they fit, and no lane waits for others."""
    ops = list(walk(kernel.region))
    if len(ops) > SHORT_OPS or any(op.name in ("for", "while", "call", "alloc", "variable") for op in ops):
        return False
    return not any(op.name == "atomic" and op.attributes.get("uniform") for op in ops)


def _tables(plan: SumPlan) -> list[_Accumulators]:
    """The largest numbers first, so that all are aligned."""
    blocks_of: dict[Scalar, dict[int, int]] = {}
    ends: dict[Scalar, int] = {}
    for number, block in enumerate(plan.blocks):
        end = ends.setdefault(block.sums, 0)
        blocks_of.setdefault(block.sums, {})[number] = end
        ends[block.sums] = end + block.accumulators
    tables, place = [], 0
    for sums in sorted(ends, key=lambda sums: -sums.size):
        tables.append(_Accumulators(sums, blocks_of[sums], ends[sums], place))
        place += ends[sums] * sums.size
    return tables


# --- threads of the program


def _fallback(kernel: Function) -> Function:
    """A function of the numbers of a thread."""
    ids = tuple([Value(U32, axis) for axis in "xyz"])
    b = Builder(span=kernel.span)
    ThreadBody(ids, {}, (), ()).inline(b, kernel.region)
    return Function(f"{kernel.name}.fallback", (), None, Region((), [], ()), span=kernel.span).on(
        Region(ids, b.ops, ())
    )


class _Rounds:
    """The threads of the program that a thread of the GPU runs: each is as many further as there are of the GPU."""

    def __init__(self, b: Builder, thread: Value, group: int) -> None:
        self._nx, self._ny = launch_field(b, "nx"), launch_field(b, "ny")
        self._rows = b.emit("mul", self._ny, launch_field(b, "nz"))
        self._first = b.emit("convert", thread, type=I64)
        self._step = b.emit("mul", launch_field(b, "rows"), b.constant(I64, group))
        self._total = b.emit("mul", self._nx, self._rows)

    def run(self, b: Builder, run: Callable[[Builder, Sequence[Ids]], None], together: int = 1) -> None:
        """A loop around the code of `together` threads, and one around that of one for the rest."""
        trips = _trips(b, self._first, self._total, self._step)
        if together == 1:
            b.for_(trips, (), lambda inner, number: run(inner, [self._thread(inner, number)]), hint="round")
            return
        size = b.constant(I64, together)
        whole = b.emit("div", trips, size)

        def run_some(inner: Builder, number: Value) -> None:
            first = inner.emit("mul", number, size)
            rounds = [inner.emit("add", first, inner.constant(I64, i)) for i in range(together)]
            run(inner, [self._thread(inner, number) for number in rounds])

        b.for_(whole, (), run_some, hint="rounds")
        before = b.emit("mul", whole, size)

        def run_one(inner: Builder, number: Value) -> None:
            run(inner, [self._thread(inner, inner.emit("add", before, number))])

        b.for_(b.emit("sub", trips, before), (), run_one, hint="round")

    def run_in_order(self, b: Builder, run: Callable[[Builder, Sequence[Ids]], None]) -> None:
        """All threads of the program one after the other, on the first one of the GPU."""
        is_first = b.emit("equal", self._first, b.constant(I64, 0))
        count = b.emit("select", is_first, self._total, b.constant(I64, 0))
        b.for_(count, (), lambda inner, number: run(inner, [self._ids(inner, number)]), hint="thread")

    def _thread(self, b: Builder, number: Value) -> Ids:
        """That of a round."""
        return self._ids(b, b.emit("add", self._first, b.emit("mul", number, self._step)))

    def _ids(self, b: Builder, index: Value) -> Ids:
        """Along x, y and z; a launch of one row needs no division."""

        def of_a_row(inner: Builder) -> Ids:
            x = inner.emit("convert", index, type=U32)
            return x, inner.constant(U32, 0), inner.constant(U32, 0)

        def of_rows(inner: Builder) -> Ids:
            row = inner.emit("div", index, self._nx)
            ids = (
                inner.emit("rem", index, self._nx),
                inner.emit("rem", row, self._ny),
                inner.emit("div", row, self._ny),
            )
            return tuple([inner.emit("convert", value, type=U32) for value in ids])

        is_row = b.emit("equal", self._rows, b.constant(I64, 1))
        return b.if_(is_row, of_a_row, of_rows)


def _trips(b: Builder, first: Value, end: Value, step: Value) -> Value:
    """How many of `first`, `first + step`, .. lie before an end."""
    rest = b.emit("sub", b.emit("add", b.emit("sub", end, first), step), b.constant(first.type, 1))
    return b.emit("max", b.emit("div", rest, step), b.constant(first.type, 0))


# --- the end of a group


def _add_up_group(b: Builder, table: _Accumulators, start: Value, thread: Value) -> None:
    """Waves by exchanges, then the waves of the group in shared memory, then a number of the group for each sum."""
    waves = GROUP // WAVE
    room = pointer(array(table.sums, waves * table.padded), "shared")
    rows = b.emit("shared", type=room, name=f"sums of {table.sums.name}")
    rows = b.emit("bitcast", rows, type=pointer(table.sums, "shared"))
    lane = b.emit("wave_lane", type=U32)
    member = b.emit("and", thread, b.constant(U32, GROUP - 1))
    wave = b.emit("shr", member, b.constant(U32, LEVELS))
    row = b.emit("add", b.emit("mul", wave, b.constant(U32, table.padded)), lane)

    def add_up(inner: Builder, part: Value) -> None:
        first = inner.emit("mul", part, inner.constant(U32, WAVE))
        at = [inner.emit("add", first, inner.constant(U32, i)) for i in range(WAVE)]
        values = [inner.emit("load", inner.emit("offset", start, i), type=table.sums) for i in at]
        total = _butterfly(inner, values, lane)
        inner.effect("store", inner.emit("offset", rows, inner.emit("add", row, first)), total)

    b.for_(b.constant(U32, table.padded // WAVE), (), add_up, hint="part")
    b.effect("barrier")
    group = b.emit("convert", b.emit("shr", thread, b.constant(U32, GROUP.bit_length() - 1)), type=I64)

    def store_one(inner: Builder, number: Value) -> None:
        element = inner.emit("add", member, inner.emit("mul", number, inner.constant(U32, GROUP)))
        total = inner.zero(table.sums)
        for i in range(waves):
            at = inner.emit("add", element, inner.constant(U32, i * table.padded))
            part = inner.emit("load", inner.emit("offset", rows, at), type=table.sums)
            total = inner.emit("add", total, part)
        element = inner.emit("convert", element, type=I64)
        inner.effect("store", inner.emit("offset", _partials(inner, table, element), group), total)

    count = b.constant(U32, table.count)
    is_used = b.emit("less", member, count)
    trips = _trips(b, b.emit("select", is_used, member, count), count, b.constant(U32, GROUP))
    b.for_(trips, (), store_one, hint="part")


def _butterfly(b: Builder, values: list[Value], lane: Value) -> Value:
    """Of a value for each lane: lane l gets the sum of the l-th over the wave. Neighbors are joined as soon as both are
    there, so that few live at once; 31 exchanges in all."""
    zero = b.constant(U32, 0)
    bits = [b.constant(U32, 1 << level) for level in range(LEVELS)]
    is_odd = [b.emit("not_equal", b.emit("and", lane, bit), zero) for bit in bits]
    partner = [b.emit("xor", lane, bit) for bit in bits]
    pending: list[tuple[int, Value]] = []
    for value in values:
        level = 0
        while pending and pending[-1][0] == level:
            _, low = pending.pop()
            kept = b.emit("select", is_odd[level], value, low)
            sent = b.emit("select", is_odd[level], low, value)
            value = b.emit("add", kept, b.emit("wave_read", sent, partner[level]))
            level += 1
        pending.append((level, value))
    ((_, total),) = pending
    return total


def _partials(b: Builder, table: _Accumulators, element: Value) -> Value:
    """Where the numbers of all groups for an element lie, one after the other."""
    groups = launch_field(b, "rows")
    bytes = b.emit("mul", element, b.constant(I64, table.sums.size))
    distance = b.emit("mul", b.emit("add", bytes, b.constant(I64, table.place)), groups)
    first = b.emit("add", launch_field(b, "partials"), distance)
    return b.emit("bitcast", first, type=pointer(table.sums))


# --- all groups


def _finish(kernel: Function, plan: SumPlan, tables: Sequence[_Accumulators]) -> Function:
    """Groups of one wave, each for one sum. Begins with the plan, whose numbers it needs."""
    b, first = Builder(), 0
    thread = b.emit("thread_id", type=U32, axis=0)
    number = b.emit("convert", b.emit("shr", thread, b.constant(U32, LEVELS)), type=I64)
    lane = b.emit("convert", b.emit("wave_lane", type=U32), type=I64)
    for table in tables:
        for block, start in table.starts.items():
            element = b.emit("sub", number, b.constant(I64, first + start))
            is_before = b.emit("less", element, b.constant(I64, 0))
            is_after = b.emit("less_equal", b.constant(I64, plan.blocks[block].accumulators), element)
            is_here = b.emit("not", b.emit("or", is_before, is_after))
            add = partial(_add_up_all, plan=plan, table=table, block=block, element=element, lane=lane)
            b.guarded(is_here, add)
        first += table.count
    about: FunctionAttributes = {"kernel": True, "group_size": (WAVE, 1, 1), "wave": WAVE, "stays": True}
    region = Region((), [*plan.function.region.ops, *b.ops], ())
    return Function(f"{kernel.name}.finish", (), None, region, attributes=about)


def _add_up_all(
    b: Builder, plan: SumPlan, table: _Accumulators, block: int, element: Value, lane: Value
) -> None:
    """Lanes add the numbers of groups that are a wave apart, the first one adds all to memory."""
    place = b.emit("add", element, b.constant(I64, table.starts[block]))
    partials = _partials(b, table, place)
    step = b.constant(I64, WAVE)

    def add_one(inner: Builder, number: Value, total: Value) -> tuple[Value, ...]:
        at = inner.emit("add", lane, inner.emit("mul", number, step))
        part = inner.emit("load", inner.emit("offset", partials, at), type=table.sums)
        return (inner.emit("add", total, part),)

    trips = _trips(b, lane, launch_field(b, "rows"), step)
    (own,) = b.for_(trips, (b.zero(table.sums),), add_one, hint="part")
    total = b.emit("wave_reduce", own, kind="add")

    def add(inner: Builder) -> None:
        of_block = plan.blocks[block]
        address = address_of(inner, plan.bases[block], element, of_block)
        add_total(inner, inner.emit("bitcast", address, type=pointer(of_block.element)), total, of_block)

    is_first = b.emit("equal", lane, b.constant(I64, 0))
    b.guarded(b.emit("and", is_first, b.emit("not_equal", total, b.zero(table.sums))), add)
