"""Variables of calls that call themselves: memory that grows with the depth and never moves.

    variable %depth        piece k, for depths 2^k - 1 to 2^(k + 1) - 2, is reserved when a call first comes so deep

A table of pieces belongs to each such op, and begins empty with each wave. Without memory (reported by
`reserve`, which also stops the launch) all depths share one row.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.core import Op
from slangrad.ir.layout import layout_of
from slangrad.llvm.emit import Emitter, Rule
from slangrad.llvm.memory import allocate, pointee
from slangrad.llvm.reports import extended
from slangrad.llvm.tapes import TAKE

PIECES = 32  # a depth has at most 31 bits

FRAME = f"""{TAKE}
define internal ptr @frame(ptr %launch, ptr %table, ptr %spare, i64 %depth, i64 %row) noinline nounwind {{
  %number = add i64 %depth, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %number, i1 true)
  %k = sub i64 63, %zeros
  %piece_at = getelementptr ptr, ptr %table, i64 %k
  %first = shl i64 1, %k
  %index = sub i64 %number, %first
  %distance = mul i64 %index, %row
  %known = load ptr, ptr %piece_at
  %none = icmp eq ptr %known, null
  br i1 %none, label %new, label %old
old:
  %found = getelementptr i8, ptr %known, i64 %distance
  ret ptr %found
new:
  %exact = mul i64 %first, %row
  %some = call i64 @llvm.umax.i64(i64 %exact, i64 64)
  %below = sub i64 %some, 1
  %leading = call i64 @llvm.ctlz.i64(i64 %below, i1 true)
  %bits = sub i64 64, %leading
  %bytes = shl i64 1, %bits
  %made = call ptr @take(ptr %launch, i64 %bytes)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %keep
keep:
  store ptr %made, ptr %piece_at
  %place = getelementptr i8, ptr %made, i64 %distance
  ret ptr %place
nothing:
  ret ptr %spare
}}
"""


def begin_wave(e: Emitter, ops: Iterable[Op]) -> None:
    """The pieces of the wave before belong to others now."""
    for op in ops:
        if op.name == "variable" and op.operands:
            table = e.environment.tables[op] = e.w.slot("ptr", PIECES, 8)
            e.w.line(f"store [{PIECES} x ptr] zeroinitializer, ptr {table}, align 8")


def _variable(e: Emitter, op: Op) -> None:
    if not op.operands:  # of the one lane
        allocate(e, op)
        return
    w, (depth,), (result,) = e.w, op.operands, op.results
    w.declarations.add_functions(FRAME)
    row = layout_of(pointee(result)).size * e.names.lanes
    table, spare = e.environment.tables[op], w.slot("i8", max(row, 1), 64)
    position = extended(e, depth, "i64")
    arguments = f"ptr {e.environment.launch}, ptr {table}, ptr {spare}, i64 {position}, i64 {row}"
    e.define(result, w.value(f"call ptr @frame({arguments})"))


RULES: dict[str, Rule] = {"variable": _variable}
