"""Whether an address leads to a block of the host's table, in kernels of check mode.

    is_memory{bytes=4} %p     the last range of the launch's table that begins at or before %p holds 4 bytes from there

The table is the run time's: { i64 count; { i64 start, end; } ranges[count] }, in order. Variables of calls that call
themselves lie in memory that the launch takes while it runs: their own tables are looked through as well.
"""

from __future__ import annotations

from slangrad.ir.ops.core import Op
from slangrad.llvm.launch.launch import field_at
from slangrad.llvm.memory.variables import frames_hold
from slangrad.llvm.text.emit import RegionEmitter, Rule


def search_in(table_at: str) -> str:
    """The function, from the instruction that finds the table's address by the record."""
    return f"""
define internal i1 @is_memory(ptr %launch, i64 %address, i64 %bytes) noinline nounwind {{
  %table_at = {table_at}
  %table = load ptr, ptr %table_at
  %count = load i64, ptr %table
  br label %head
head:
  %low = phi i64 [ 0, %0 ], [ %next_low, %look ]
  %high = phi i64 [ %count, %0 ], [ %next_high, %look ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %look, label %found
look:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %twice = shl i64 %middle, 1
  %start_index = add i64 %twice, 1
  %start_at = getelementptr i64, ptr %table, i64 %start_index
  %start = load i64, ptr %start_at
  %before = icmp ule i64 %start, %address
  %after_middle = add i64 %middle, 1
  %next_low = select i1 %before, i64 %after_middle, i64 %low
  %next_high = select i1 %before, i64 %high, i64 %middle
  br label %head
found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %no, label %compare
compare:
  %end_index = shl i64 %low, 1
  %end_at = getelementptr i64, ptr %table, i64 %end_index
  %end = load i64, ptr %end_at
  %last = add i64 %address, %bytes
  %inside = icmp ule i64 %last, %end
  ret i1 %inside
no:
  ret i1 false
}}
"""


IS_MEMORY = search_in(field_at("%launch", "memory"))


def _is_memory(e: RegionEmitter, op: Op) -> None:
    e.w.declarations.add_functions(IS_MEMORY)
    look_up(e, op, e.environment.launch)


def look_up(e: RegionEmitter, op: Op, record: str) -> None:
    """In the table that a record leads to, and in variables of calls that call themselves."""
    address = e.w.value(f"ptrtoint {e.typed(op.operands[0])} to i64")
    arguments = f"ptr {record}, i64 {address}, i64 {op.attributes['bytes']}"
    is_known = e.w.value(f"call i1 @is_memory({arguments})")
    for held in frames_hold(e, address, op.attributes["bytes"]):
        is_known = e.w.value(f"or i1 {is_known}, {held}")
    e.define(op.results[0], is_known)


RULES: dict[str, Rule] = {"is_memory": _is_memory}
