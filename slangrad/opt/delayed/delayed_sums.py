"""Before a launch whose adds are delayed: the plan. The reduction after it is in `sum_reduction.py`.

    plan:    may the adds wait?  ->  bytes of partial sums for each batch, or -1; how many chunks a batch has; then for
             each block the address of its first element, and where the block lies in the partial sums

Adds may wait under three conditions. No other access of the kernel reaches their memory; no block overlaps one of
another type; the kernel does not write memory that the plan has loaded. Partial sums may not take more memory or
time than the launch itself. So the larger they are, the fewer batches there are, each of more chunks. If one batch
is too large, adds do not wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import I64, Scalar
from slangrad.ir.ops.control import LOOPS, constant_trips
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.opt.analyses.intervals import Bounds
from slangrad.opt.analyses.launch_values import LaunchValues
from slangrad.opt.analyses.reach import Access, Survey

CHEAP_BYTES = 1 << 20  # of partial sums, for any launch
BYTES_OF_AN_ADD = 8  # more for each add to partial sums; to make and add up a byte takes about a nanosecond
UNKNOWN_TRIPS = 8  # of a loop, where adds are counted
MOST_ADDS = 128  # that count: loops may be shorter, and branches not taken
MOST_BYTES = 1 << 28
MOST_BATCHES = 64  # more are for no processors, and each is one more number for every sum
MOST_SEPARATE = 32  # ranges of sums that are compared with each other, on a GPU
MOST_JOINED = 8  # blocks that are compared with each other
LANES = 32  # of a wave of a GPU
MOST_ADDS_OF_TABLE = 1 << 16  # of a thread, that count
GROUP_BYTES = (
    32 << 10
)  # of a GPU's shared memory that all tables of a group take; more leaves room for few groups
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class SumBlock:
    """Elements that adds of one type reach from one root. `accumulators`: how many elements there are where each has
    an accumulator for each lane; 0 where the batch has one number for each element."""

    adds: tuple[Access, ...]
    root: Value  # a number in the plan
    reach: Bounds  # bytes from the root to where an element begins
    element: Scalar
    sums: Scalar  # what is summed up: f32 for f16
    accumulators: int
    first: int = 0  # where `accumulators`: the low end of `reach`
    own: Value | None = None  # in the plan: no two threads add to the same element
    places: tuple[
        Value, ...
    ] = ()  # in the plan: addresses of the accumulators' elements, if they do not follow each other
    numbers: Mapping[Access, int] = field(
        default_factory=dict
    )  # with `places`: the number of the place of an add


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Of one block: how many elements there are, and where their sums go in the partial sums of the batch."""

    block: int
    count: int
    sums: Scalar
    offset: int


@dataclass(frozen=True, slots=True)
class SumPlan:
    """`bases`, `counts` and `offsets` of the blocks are values of the function; blocks with accumulators come
    first. `tables`: blocks that a group of a GPU adds up in memory of its own, in launches where they fit there."""

    function: Function
    blocks: list[SumBlock]
    bases: list[Value]
    counts: list[Value]
    offsets: list[Value]
    tables: list[SumBlock] = field(default_factory=list)

    def accumulators(self) -> tuple[Accumulators, ...]:
        rows, end = [], 0
        for number, block in enumerate(self.blocks):
            if block.accumulators:
                rows.append(Accumulators(number, block.accumulators, block.sums, end))
                end += block.accumulators * block.sums.size
                end += -end % ALIGNMENT
        return tuple(rows)

    @staticmethod
    def base_index(block: int) -> int:
        """Which result of the plan is the address of a block's first element."""
        return 2 + 2 * block

    @staticmethod
    def offset_index(block: int) -> int:
        return 3 + 2 * block

    def table_index(self, table: int) -> int:
        """Which result of the plan is the address of a table's first element. The next one is how many elements there
        are, none where its adds go to memory at once; then whether they may wait, because no other access reaches them.
        """
        return 2 + 2 * len(self.blocks) + 3 * table


Joined = tuple[Value, int]  # a condition, and the number of the block that is joined where it is true


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Bytes in memory, from `low` up to but not including `high`."""

    low: Value
    high: Value


def plan_of(survey: Survey, launch: LaunchValues, blocks: list[SumBlock], adds: int) -> SumPlan | None:
    """None where some access cannot be followed. `adds`: how many a thread makes."""
    b = launch.plan
    conditions: list[Value] = []
    delayed = [
        (_range(b, block.root, block.reach, block.element.size, conditions), block) for block in blocks
    ]
    others = _others(survey, {add for block in blocks for add in block.adds}, conditions)
    if others is None:
        return None
    reads, writes = others
    for span, block in delayed:
        conditions += [_apart(b, span, other) for other in (*reads, *writes)]
        conditions += [_apart(b, span, other) for other, o in delayed if o.element is not block.element]
    for address in launch.loads:
        loaded = _loaded_range(b, address)
        conditions += [_apart(b, loaded, other) for other in writes]  # it is among the reads, too
    owns = [_own(b, i, delayed) for i in range(len(delayed))]
    ranges, joined = _joined(b, delayed)
    bases = [span.low for span in ranges]
    counts = [_count(b, *row) for row in zip(blocks, ranges, owns, joined, strict=True)]
    offsets, size = _offsets(b, blocks, counts)
    offsets, size = _marked(b, owns, offsets, size)
    offsets = [
        _choice(b, offset, [(meet, offsets[i]) for meet, i in joins])
        for offset, joins in zip(offsets, joined)
    ]
    room = _room(b, adds)
    allowed = b.emit("and", b.all(conditions), b.emit("less_equal", size, room))
    result = b.emit("select", allowed, size, b.constant(I64, -1))
    yields = (result, _batch(b, size, room), *(v for pair in zip(bases, offsets, strict=True) for v in pair))
    return SumPlan(function_of("plan", Region((), b.ops, yields)), blocks, bases, counts, offsets)


def plan_of_few(
    survey: Survey, launch: LaunchValues, blocks: list[SumBlock], others: set[Access]
) -> SumPlan | None:
    """For blocks with accumulators that share no element, so that each can be added up by itself. `others`: adds that
    do not wait and may reach a block. None where some access cannot be followed."""
    if not blocks:
        return None
    b = launch.plan
    conditions: list[Value] = []
    ranges = [_range(b, block.root, block.reach, block.element.size, conditions) for block in blocks]
    waiting = {add for block in blocks for add in block.adds}
    accesses = _others(survey, waiting | others, conditions)
    additions = _others(survey, {a for a in survey.accesses if a not in others}, conditions)
    if accesses is None or (additions is None and launch.loads):
        return None
    reads, writes = accesses
    conditions += [_apart(b, span, other) for span in ranges for other in (*reads, *writes)]
    for address in launch.loads:
        loaded = _loaded_range(b, address)
        written = [*writes, *ranges, *(additions or ([], []))[1]]
        conditions += [_apart(b, loaded, other) for other in written]
    separate = [span for pair in zip(blocks, ranges, strict=True) for span in _pieces(b, *pair)]
    if len(separate) > MOST_SEPARATE:
        return None
    conditions += [_apart(b, x, y) for x, y in combinations(separate, 2)]
    zero = b.constant(I64, 0)
    result = b.emit("select", b.all(conditions), zero, b.constant(I64, -1))
    bases = [span.low for span in ranges]
    yields = (result, zero, *(v for base in bases for v in (base, zero)))
    counts = [b.constant(I64, block.accumulators) for block in blocks]
    return SumPlan(
        function_of("plan", Region((), b.ops, yields)), blocks, bases, counts, [zero] * len(blocks)
    )


def plan_of_nothing(b: Builder) -> SumPlan:
    """For kernels without blocks. `b`: the plan so far."""
    zero = b.constant(I64, 0)
    return SumPlan(function_of("plan", Region((), b.ops, (zero, zero))), [], [], [], [])


def with_tables(
    plan: SumPlan, survey: Survey, launch: LaunchValues, tables: Sequence[SumBlock], adds: Collection[Access]
) -> SumPlan:
    """The plan with those tables whose adds may wait until a group has run. `adds`: all float adds whose results are
    not used, which may meet in memory."""
    b = launch.plan
    scratch: list[Value] = []
    everything = _others(survey, set(), scratch)
    kept, yields = [], list(plan.function.region.yields)
    for table in tables:
        conditions: list[Value] = []
        span = _range(b, table.root, table.reach, table.element.size, conditions)
        others = _others(survey, {a for a in adds if a.op.results[0].type is table.element}, conditions)
        if others is None or (everything is None and launch.loads):
            continue
        conditions += [_apart(b, span, other) for both in others for other in both]
        if everything is not None:
            loaded = [_loaded_range(b, address) for address in launch.loads]
            conditions += [_apart(b, x, other) for x in loaded for other in everything[1]]
        adds_of_thread = _adds_that_meet(survey, table)
        may_wait = b.all(conditions)
        count = _count_in_group(b, table, span, may_wait, len(tables), adds_of_thread)
        yields += [span.low, count, may_wait]
        kept.append(table)
    function = function_of("plan", Region((), b.ops, tuple(yields)))
    return replace(plan, function=function, tables=kept)


def _count_in_group(
    b: Builder, table: SumBlock, span: _Bytes, may_wait: Value, tables: int, adds: int
) -> Value:
    """How many elements a table of a group has; none where they do not fit, or where groups would have more elements to
    add up than there are adds. `adds`: of a thread."""
    count = b.emit("max", _elements(b, span, table.element), b.constant(I64, 0))
    groups, all_adds = launch_field(b, "rows"), b.constant(I64, adds)
    for axis in ("nx", "ny", "nz"):
        all_adds = b.emit("mul", all_adds, launch_field(b, axis))
    room = b.constant(I64, elements_of_group(table.sums, tables))
    fits = b.emit("less_equal", count, room)
    few = b.emit("min", count, room)  # so that the product does not wrap
    pays = b.emit("less_equal", b.emit("mul", few, groups), all_adds)
    holds = b.all([may_wait, fits, pays])
    return b.emit("select", holds, count, b.constant(I64, 0))


def _adds_that_meet(survey: Survey, table: SumBlock) -> int:
    """About how many adds to memory a thread makes, of those of a table. Threads of a wave share those to one place."""
    shared = {add for add in table.adds if not survey.varies(add)}
    own = {*table.adds} - shared
    counted = _adds(survey, own, {}) + _adds(survey, shared, {}) // LANES
    return min(max(counted, 1), MOST_ADDS_OF_TABLE)


def elements_of_group(sums: Scalar, tables: int) -> int:
    """How many numbers a table has room for in the shared memory of a group. One is lost, as rows are odd."""
    return GROUP_BYTES // tables // sums.size - 1


def _elements(b: Builder, span: _Bytes, element: Scalar) -> Value:
    bytes = b.emit("sub", span.high, span.low)
    return b.emit("shr", bytes, b.constant(I64, element.size.bit_length() - 1))


def _pieces(b: Builder, block: SumBlock, span: _Bytes) -> list[_Bytes]:
    """The memory of a block: one range, or one for each place."""
    size = b.constant(I64, block.element.size)
    return [_Bytes(place, b.emit("add", place, size)) for place in block.places] or [span]


def launch_field(b: Builder, name: str) -> Value:
    """A number of the launch record."""
    return b.emit("launch", type=I64, field=name)


def function_of(name: str, region: Region) -> Function:
    return Function(name, (), None, region).on(region)


def _range(b: Builder, root: Value, reach: Bounds, size: int, conditions: list[Value]) -> _Bytes:
    conditions += reach.conditions
    high = b.emit("add", b.emit("add", root, reach.high), b.constant(I64, size))
    return _Bytes(b.emit("add", root, reach.low), high)


def _others(
    survey: Survey, delayed: set[Access], conditions: list[Value]
) -> tuple[list[_Bytes], list[_Bytes]] | None:
    """The memory of all other accesses, one range for each root."""
    v = survey.intervals
    reaches: dict[tuple[Value, bool], Bounds] = {}
    for access in survey.accesses:
        if access in delayed:
            continue
        root, reach = access.survey.root(access), access.survey.distances(access)
        if root is None or reach is None:
            return None
        end = v.sum(reach, v.number(0, access.size))  # from where the first begins to where the last ends
        key = root, access.writes
        reaches[key] = v.hull(reaches[key], end) if key in reaches else end
    spans: tuple[list[_Bytes], list[_Bytes]] = ([], [])
    for (root, writes), reach in reaches.items():
        spans[writes].append(_range(v.plan, root, reach, 0, conditions))
    return spans


def _loaded_range(b: Builder, address: Value) -> _Bytes:
    low = b.emit("bitcast", address, type=I64)
    return _Bytes(low, b.emit("add", low, b.constant(I64, element_size(address.type))))


def _apart(b: Builder, x: _Bytes, y: _Bytes) -> Value:
    before, after = b.emit("less_equal", x.high, y.low), b.emit("less_equal", y.high, x.low)
    return b.emit("or", before, after)


def _own(b: Builder, number: int, delayed: list[tuple[_Bytes, SumBlock]]) -> Value | None:
    """Whether a block's elements belong to one thread each, and no other block meets them."""
    own_range, block = delayed[number]
    apart_condition = block.own
    for i, (other, _) in enumerate(delayed):
        if apart_condition is not None and i != number:
            apart_condition = b.emit("and", apart_condition, _apart(b, own_range, other))
    return apart_condition


def _marked(
    b: Builder, owns: list[Value | None], offsets: list[Value], size: Value
) -> tuple[list[Value], Value]:
    """Blocks that lie in memory itself have the offset -1; where there is one, the size is no multiple of
    ALIGNMENT."""
    nowhere, marked = b.constant(I64, -1), []
    any_own: Value | None = None
    for condition, offset in zip(owns, offsets, strict=True):
        marked.append(offset if condition is None else b.emit("select", condition, nowhere, offset))
        if condition is not None:
            any_own = condition if any_own is None else b.emit("or", any_own, condition)
    if any_own is not None:
        more = b.emit("add", size, b.constant(I64, ALIGNMENT // 2))
        size = b.emit("select", any_own, more, size)
    return marked, size


def _count(
    b: Builder, block: SumBlock, reached: _Bytes, own_condition: Value | None, joined: list[Joined]
) -> Value:
    """How many partial sums a chunk has for a block; none for one that joined another or has its own elements."""
    if block.accumulators:
        return b.constant(I64, block.accumulators)
    count, zero = _elements(b, reached, block.element), b.constant(I64, 0)
    others = [*joined, *([] if own_condition is None else [(own_condition, 0)])]
    return _choice(b, b.emit("max", count, zero), [(condition, zero) for condition, _ in others])


def _choice(b: Builder, value: Value, others: list[tuple[Value, Value]]) -> Value:
    """The value, or the one whose condition is true."""
    for condition, other in others:
        value = b.emit("select", condition, other, value)
    return value


def _joined(b: Builder, delayed: list[tuple[_Bytes, SumBlock]]) -> tuple[list[_Bytes], list[list[Joined]]]:
    """If memory of two blocks overlaps, the second joins the first, and they share partial sums. Gives for each
    block the range of its partial sums, and the block that it joins if a condition is true."""
    ranges, joined = [span for span, _ in delayed], list[list[Joined]]([[] for _ in delayed])
    rows = [i for i, (_, block) in enumerate(delayed) if not block.accumulators][:MOST_JOINED]
    for j in rows:
        for i in (row for row in rows if row < j):
            block = delayed[j][1]
            if delayed[i][1].element is not block.element:
                continue
            meet = b.emit("not", _apart(b, ranges[i], ranges[j]))
            bits = b.emit("sub", ranges[i].low, ranges[j].low)
            rest = b.emit("and", bits, b.constant(I64, block.element.size - 1))
            meet = b.emit("and", meet, b.emit("equal", rest, b.constant(I64, 0)))
            for other, _ in (*joined[i], *joined[j]):  # to one block, which has not joined another itself
                meet = b.emit("and", meet, b.emit("not", other))
            joined[j].append((meet, i))
            ranges[i] = _Bytes(
                b.emit("select", meet, b.emit("min", ranges[i].low, ranges[j].low), ranges[i].low),
                b.emit("select", meet, b.emit("max", ranges[i].high, ranges[j].high), ranges[i].high),
            )
    lows = [
        _choice(b, span.low, [(meet, ranges[i].low) for meet, i in joins])
        for span, joins in zip(ranges, joined, strict=True)
    ]
    return [_Bytes(low, span.high) for low, span in zip(lows, ranges, strict=True)], joined


def _offsets(b: Builder, blocks: list[SumBlock], counts: list[Value]) -> tuple[list[Value], Value]:
    """The offset of each block in the partial sums of a batch, and the bytes of these."""
    end, offsets = b.constant(I64, 0), []
    for block, count in zip(blocks, counts, strict=True):
        offsets.append(end)
        end = b.emit("add", end, b.emit("mul", count, b.constant(I64, block.sums.size)))
        padded = b.emit("add", end, b.constant(I64, ALIGNMENT - 1))
        end = b.emit("and", padded, b.constant(I64, -ALIGNMENT))
    return offsets, end


def adds_of_a_thread(survey: Survey, blocks: list[SumBlock]) -> int:
    """About how many adds into blocks without accumulators a thread makes."""
    added = {add for block in blocks if not block.accumulators for add in block.adds}
    return _adds(survey, added, {})


def _adds(survey: Survey, added: set[Access], counts: dict[Survey, int]) -> int:
    """Those of a function that is called many times are counted once, in `known`."""
    region = survey.function.region

    def count(region: Region) -> int:
        return sum(trips(op) * (sum(map(count, op.regions)) + within(op)) for op in region.ops)

    def within(op: Op) -> int:
        callee = survey.called.get(op)
        if callee is not None and callee not in counts:
            counts[callee] = _adds(callee, added, counts)
        return (survey.own.get(op) in added) if callee is None else counts[callee]

    def trips(op: Op) -> int:
        if op.name not in LOOPS:
            return 1
        count = constant_trips(op, region.makers)
        return UNKNOWN_TRIPS if count is None else count

    return count(region)


def _room(b: Builder, adds: int) -> Value:
    """How many bytes the partial sums of all batches may have, so that they take no longer than the launch."""
    rows = b.emit("mul", launch_field(b, "ny"), launch_field(b, "nz"))
    threads = b.emit("min", b.emit("mul", launch_field(b, "nx"), rows), b.constant(I64, MOST_BYTES))
    of_threads = b.emit("mul", threads, b.constant(I64, BYTES_OF_AN_ADD * min(adds, MOST_ADDS)))
    return b.emit("min", b.emit("add", of_threads, b.constant(I64, CHEAP_BYTES)), b.constant(I64, MOST_BYTES))


def _batch(b: Builder, size: Value, room: Value) -> Value:
    """How many chunks share partial sums, so that these have room."""
    unit, chunks = b.constant(I64, 1), launch_field(b, "chunks")
    batches = b.emit("max", b.emit("div", room, b.emit("max", size, unit)), unit)
    batches = b.emit("min", batches, b.constant(I64, MOST_BATCHES))
    return b.emit("div", b.emit("sub", b.emit("add", chunks, batches), unit), batches)


def partials_of_batch(b: Builder) -> Value:
    """Where the partial sums of a chunk's batch begin."""
    batch = b.emit("div", launch_field(b, "chunk"), launch_field(b, "batch"))
    return b.emit("add", launch_field(b, "partials"), b.emit("mul", batch, launch_field(b, "partial_size")))
