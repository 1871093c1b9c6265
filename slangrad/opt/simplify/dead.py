"""Remove unused code: pure ops, results and carried values of control flow, memory that is only written.

    %a, %b = for %n, %x, %y : f32, f32 (...)         %b is unused, and in the loop it only makes the next %b
    %a = for %n, %x : f32 (...)

Liveness runs backwards from effects and results; a carried value that only feeds itself is never reached. An
`if` or `for` without live results and effects goes; a `while` stays, as it may not end. Nothing is reordered. Of an
element that is written and never read, the check of its index stays, unless the index surely is in range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from operator import is_

from slangrad.ir.analyses.addresses import Roots, is_step
from slangrad.ir.analyses.intervals import Ranges
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import U32, Pointer, index_extent
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.effects import ALLOCATIONS, effect_of
from slangrad.ir.ops.primitives import PRIMITIVES, WRITE

WRITES_TO_FIRST = frozenset({"store", "tape_store", "tape_add", "tape_free"})
CHECKED = frozenset({"set_index", "add_index"})
SILENT = ALLOCATIONS | {name for name, row in PRIMITIVES.items() if row.effect != WRITE} - CHECKED


def remove_dead(function: Function) -> Function:
    """The function without unused code."""
    region = _Liveness(function).left(function.region)
    return function if region is function.region else replace(function, region=region)


class _Liveness:
    """Which values and ops are needed. Both sets only grow; `_todo` holds live values not followed yet."""

    def __init__(self, function: Function) -> None:
        self.live: set[Value] = set()
        self.kept: set[Op] = set()
        self._todo: list[Value] = []
        self._makers: dict[Value, Op] = {}
        self._carried: dict[
            Value, tuple[Op, int]
        ] = {}  # a result of a control op, or a parameter of its regions
        self._around: dict[Op, Op] = {}  # the control op around such an op, or around one that acts
        self._stores: dict[Value, list[Op]] = defaultdict(list)  # into memory made here, by its address
        self._roots: list[Op] = []
        self._checks: set[Op] = set()  # writes that report an index out of range
        self._ranges = Ranges()
        self._addresses = Roots(self.made_by)
        self._scan(function.region, None)
        for op in self._roots:
            self._keep_inside(op)
        for op in self._checks:
            self._keep_around(op)
            self._need(op.operands[1:2])
        self._need(function.region.yields)
        while self._todo:
            self._follow(self._todo.pop())

    # --- all ops

    def _scan(self, region: Region, around: Op | None) -> None:
        makers = self._makers
        for op in region.ops:
            for result in op.results:
                makers[result] = op
            if op.name in SILENT:
                continue
            if around is not None:
                self._around[op] = around
            self._classify(op)
            if op.regions:
                self._scan_control(op)

    def _scan_control(self, op: Op) -> None:
        self._carried.update((r, (op, i)) for i, r in enumerate(op.results))
        first = 1 if op.name == "for" else 0
        for inner in op.regions:
            if first:
                self._ranges.counted(self, op.operands[0], inner.parameters[0])
            self._carried.update((p, (op, i - first)) for i, p in enumerate(inner.parameters))
            self._scan(inner, op)

    def _classify(self, op: Op) -> None:
        """Ops with effects are roots, but for making local memory and writing to it."""
        if op.name in WRITES_TO_FIRST and (base := self._base(op.operands[0])) is not None:
            self._stores[base].append(op)
        elif op.name in CHECKED:
            self._checks.update((op,) if self._reports(op) else ())
        elif op.name == "while" or (not op.regions and effect_of(op) == WRITE):
            self._roots.append(op)

    def _reports(self, op: Op) -> bool:
        """Whether the index may be out of range, and is to be reported."""
        extent = index_extent(op.operands[0].type)
        checked = op.attributes.get("check") and extent is not None
        return bool(checked) and not self._ranges.is_below(self, op.operands[1], extent or 0)

    def made_by(self, value: Value) -> Op | None:
        """The op that has the value as a result."""
        return self._makers.get(value)

    def _base(self, address: Value) -> Value | None:
        """The memory made in this function that an address surely points into."""
        root = self._addresses.root(address)
        op = self.made_by(root)
        return root if op is not None and op.name in ALLOCATIONS else None

    # --- needed values

    def _need(self, values: Iterable[Value]) -> None:
        """Values that are used in any way: memory behind them counts as read, too."""
        for value in values:
            self._need_address(value)
            base = self._base(value) if isinstance(value.type, Pointer) else None
            for store in self._stores.pop(base, []) if base is not None else []:
                self._keep_inside(store)

    def _need_address(self, value: Value) -> None:
        """A value that is used, but not to read memory."""
        if value not in self.live:
            self.live.add(value)
            self._todo.append(value)

    def _keep_inside(self, op: Op) -> None:
        """Keep an op with an effect, and the ops around it. Other needed ops are in its region, or within."""
        self._keep_around(op)
        self._keep(op)

    def _keep_around(self, op: Op) -> None:
        around = self._around.get(op)
        if around is not None and around not in self.kept:
            self._keep_inside(around)

    def _keep(self, op: Op) -> None:
        if op in self.kept:
            return
        self.kept.add(op)
        if op.name == "while":
            self._need(op.regions[0].yields)
        elif op.regions:
            self._need(op.operands[:1])
        elif is_step(op) or op.name in WRITES_TO_FIRST:
            self._need_address(op.operands[0])
            self._need(op.operands[1:])
        else:
            self._need(op.operands)

    def _follow(self, value: Value) -> None:
        """Mark the operands of a live value."""
        place = self._carried.get(value)
        if place is None:
            op = self._makers.get(value)
            if op is not None:
                self._keep(op)
            return
        op, i = place
        self._keep(op)
        if op.name == "if":
            self._need(region.yields[i] for region in op.regions)
        elif op.name == "for" and i >= 0:
            self._need((op.operands[1 + i], op.regions[0].yields[i]))
        elif op.name == "while":
            self._need((op.operands[i], op.regions[1].yields[i]))

    # --- the live code

    def left(self, region: Region) -> Region:
        return self._left(region, region.parameters, region.yields)

    def _left(self, region: Region, parameters: tuple[Value, ...], yields: tuple[Value, ...]) -> Region:
        """The region with other parameters and yields, and without what is not live; itself if nothing changes."""
        ops: list[Op] = []
        for op in region.ops:
            if op in self.kept:
                ops.append(self._reduced(op) if op.regions else op)
            elif op in self._checks:
                ops += _check_of(op)
        if ops == region.ops and parameters == region.parameters and yields == region.yields:
            return region
        return Region(parameters, ops, yields)

    def _reduced(self, op: Op) -> Op:
        """A branch or loop with its live results."""
        inside = {loop_value.result: loop_value.inside for loop_value in carried(op)}
        live = [not self.live.isdisjoint((r, *inside.get(r, ()))) for r in op.results]
        count = len(live) if op.name != "if" else 0
        regions = []
        for region in op.regions:
            tests = op.name == "while" and region is op.regions[0]
            yields = region.yields if tests else tuple(compress(region.yields, live))
            regions.append(self._left(region, _last(region.parameters, count, live), yields))
        if all(live) and all(map(is_, regions, op.regions)):
            return op
        operands, results = _last(op.operands, count, live), tuple(compress(op.results, live))
        return replace(op, operands=operands, results=results, regions=tuple(regions))


def _last(values: tuple[Value, ...], count: int, live: list[bool]) -> tuple[Value, ...]:
    """Of the last `count` values those that are live, and all others."""
    first = len(values) - count
    return (*values[:first], *compress(values[first:], live))


def _check_of(op: Op) -> list[Op]:
    """Of a write of an element to an array that is not read, the check."""
    b, extent = Builder(span=op.span), index_extent(op.operands[0].type)
    assert extent is not None
    b.emit("in_bounds", op.operands[1], b.constant(U32, extent))
    return b.ops
