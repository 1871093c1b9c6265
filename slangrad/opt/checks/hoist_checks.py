"""Checks of pointers run once and leave the loops that repeat them, together with the loads that they need.

    for %n (%i: u32) {                           %w, %ok = if %n > 0 {
      %w = load %field                             %w = load %field   %ok = in_bounds (%w - 4096), ..
      %ok = in_bounds (%w - 4096), ..              yield %w, %ok } { yield 0, false }
      %x = if %ok { load (offset %w, %i) } ..    for %n (%i: u32) { %x = if %ok { load (offset %w, %i) } .. }

Only ops that every iteration runs are moved, so loads and reports stay the same; loads only if the loop writes no
memory. The `if` is left out if the loop certainly runs. Checks of pointers that the loop does not load are decided
for a chunk before its waves run (foreseen_bounds.py); they stay if they would need an `if`.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.base.options import POINTER
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op, defined_in, forgetting, free_values
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import effect_of, may_run_early
from slangrad.ir.ops.primitives import WRITE

DEEPEST = 8  # loops that a check leaves, one in each walk


def hoist_checks(function: Function) -> Function:
    """The function with checks for null as far out as they can be."""
    for _ in range(DEEPEST if any(map(_is_check, walk(function.region))) else 0):
        walked = _HoistChecks()
        function = walked.function(function)
        if not walked.moved:
            break
    return function


class _HoistChecks(Rebuild):
    def __init__(self) -> None:
        super().__init__({"for": self._for, "in_bounds": self._in_bounds})
        self.moved: set[Op] = set()
        self._emitted: dict[tuple[Value, ...], Value] = {}  # in this region or one around it

    def region(self, b: Builder, region: Region) -> Region:
        with forgetting(self._emitted):
            return super().region(b, region)

    def op(self, b: Builder, op: Op) -> None:
        if op not in self.moved:
            super().op(b, op)

    def _in_bounds(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        if not _is_check(op):
            return copy_op(self, b, op)
        operands = self.values(op.operands)
        if operands not in self._emitted:
            (self._emitted[operands],) = copy_op(self, b, op)
        return (self._emitted[operands],)

    def _for(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        (body,), count = op.regions, self.value(op.operands[0])
        number = b.constant_of(count)
        leaving = _leaving(body)
        if number is not None and number > 0:
            self._emit(b, leaving)
        elif number is None and any(map(_loads, leaving)):
            self._guard(b, count, leaving, body)
        return copy_op(self, b, op)

    def _emit(self, b: Builder, leaving: Sequence[Op]) -> None:
        for op in leaving:
            self.op(b, op)
        self.moved.update(leaving)

    def _guard(self, b: Builder, count: Value, leaving: Sequence[Op], body: Region) -> None:
        leaving_values = {value: None for op in leaving for value in op.results}
        rest = Region((), [op for op in body.ops if op not in leaving], body.yields)
        used = [value for value in free_values(rest) if value in leaving_values]
        turns = b.emit("less", b.zero(count.type), count)

        def leave(inner: Builder) -> tuple[Value, ...]:
            with forgetting(self._emitted):
                self._emit(inner, leaving)
            return self.values(used)

        self.new.update(zip(used, b.guarded(turns, leave), strict=True))


def _leaving(body: Region) -> list[Op]:
    """Checks that are the same in all iterations, and their operands."""
    writes = any(op.name != "in_bounds" and effect_of(op) == WRITE for op in walk(body))
    stays, able = defined_in(body), list[Op]()
    for op in body.ops:
        if _may_leave(op, writes) and stays.isdisjoint((*op.operands, *free_values(*op.regions))):
            able.append(op)
            stays.difference_update(op.results)
    wanted: set[Value] = set()
    leaving = []
    for op in reversed(able):
        if _is_check(op) or not wanted.isdisjoint(op.results):
            leaving.append(op)
            wanted.update((*op.operands, *free_values(*op.regions)))
    return leaving[::-1]


def _may_leave(op: Op, writes: bool) -> bool:
    if op.name == "if":
        return (
            not writes
            and all(map(_is_silent, walk(op.regions[0])))
            and all(map(_is_silent, walk(op.regions[1])))
        )
    return _is_check(op) or (_is_silent(op) and not (writes and op.name == "load"))


def _is_silent(op: Op) -> bool:
    return op.name == "load" or may_run_early(op)


def _is_check(op: Op) -> bool:
    return op.name == "in_bounds" and op.attributes.get("text") == POINTER


def _loads(op: Op) -> bool:
    return op.name in ("load", "if")
