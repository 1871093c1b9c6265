"""Variables of calls that call themselves: memory that grows with the depth and never moves.

    variable %depth        piece k, for depths 2^k - 1 to 2^(k + 1) - 2, is reserved when a call first comes so deep

A table of pieces belongs to each such op, and begins empty with each wave. Without memory (reported by
`reserve`, which also stops the launch) all depths share one row. Kernels of check mode look through the tables.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.data.layout import element_size
from slangrad.ir.ops.core import Op
from slangrad.llvm.launch.reports import extended
from slangrad.llvm.memory.memory import allocate
from slangrad.llvm.memory.tapes import TAKE
from slangrad.llvm.text.emit import RegionEmitter, Rule

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


HOLDS = """
define internal i1 @frames_hold(ptr %table, i64 %row, i64 %address, i64 %bytes) noinline nounwind {
  %last = add i64 %address, %bytes
  br label %look
look:
  %k = phi i64 [ 0, %0 ], [ %next, %look ]
  %known = phi i1 [ false, %0 ], [ %either, %look ]
  %piece_at = getelementptr ptr, ptr %table, i64 %k
  %piece = load ptr, ptr %piece_at
  %start = ptrtoint ptr %piece to i64
  %size = shl i64 %row, %k
  %end = add i64 %start, %size
  %made = icmp ne ptr %piece, null
  %after = icmp ule i64 %start, %address
  %before = icmp ule i64 %last, %end
  %between = and i1 %after, %before
  %inside = and i1 %made, %between
  %either = or i1 %known, %inside
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, 32
  br i1 %more, label %look, label %done
done:
  ret i1 %either
}
"""


def begin_wave(e: RegionEmitter, ops: Iterable[Op]) -> None:
    """Clear the table: the pieces of the wave before are in use by others."""
    for op in ops:
        if op.name == "variable" and op.operands:
            table = e.environment.tables[op] = e.w.slot("ptr", PIECES, 8)
            e.w.line(f"store [{PIECES} x ptr] zeroinitializer, ptr {table}, align 8")


def _variable(e: RegionEmitter, op: Op) -> None:
    if not op.operands:  # of the one lane
        allocate(e, op)
        return
    w, (depth,), (result,) = e.w, op.operands, op.results
    w.declarations.add_functions(FRAME)
    row = _row(e, op)
    table, spare = e.environment.tables[op], w.slot("i8", max(row, 1), 64)
    position = extended(e, depth, "i64")
    arguments = f"ptr {e.environment.memory}, ptr {table}, ptr {spare}, i64 {position}, i64 {row}"
    e.define(result, w.value(f"call ptr @frame({arguments})"))


def frames_hold(e: RegionEmitter, address: str, size: object) -> list[str]:
    """For check mode: for each such variable, whether some depth of it has so many bytes at an address."""
    if e.environment.tables:
        e.w.declarations.add_functions(HOLDS)
    return [
        e.w.value(f"call i1 @frames_hold(ptr {table}, i64 {_row(e, op)}, i64 {address}, i64 {size})")
        for op, table in e.environment.tables.items()
    ]


def _row(e: RegionEmitter, op: Op) -> int:
    """The bytes of a depth: a variable for each lane."""
    size: int = element_size(op.results[0].type) * e.names.lanes
    return size


RULES: dict[str, Rule] = {"variable": _variable}
