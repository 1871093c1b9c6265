"""Reports of a GPU thread: failed checks in the status record of the device, printed lines in a buffer of the host.

    %ok = in_bounds %i, %n      br %inside, done, outside;  outside: call @report(site, %i, %n)
    print "x = %f", %x          call @print(site, words): { site, size; x, y; z, kernel; values .. } in the buffer

The first thread that exchanges the record's error word writes the rest. A line takes its room by one atomic add; lines
without room are counted. The host reads both when it waits.
"""

from __future__ import annotations

from slangrad.ir.ops.core import Op
from slangrad.llvm.cuda.launch import BOUNDS_ERROR, PRINT_FIELDS, PRINT_HEADER, STATUS_FIELDS, read_field
from slangrad.llvm.launch.reports import UNLIKELY, extended, is_inside, write_words
from slangrad.llvm.text.emit import RegionEmitter, Rule

_AT = STATUS_FIELDS
REPORT = f"""
define internal void @report(ptr %status, i64 %kernel, i32 %error, i32 %site, i64 %index, i64 %extent) cold noinline \
nounwind {{
  %record = addrspacecast ptr %status to ptr addrspace(1)
  %both = cmpxchg ptr addrspace(1) %record, i32 0, i32 %error monotonic monotonic
  %first = extractvalue {{ i32, i1 }} %both, 1
  br i1 %first, label %write, label %done
write:
  %site_at = getelementptr i8, ptr addrspace(1) %record, i64 {_AT["site"]}
  %index_at = getelementptr i8, ptr addrspace(1) %record, i64 {_AT["index"]}
  %extent_at = getelementptr i8, ptr addrspace(1) %record, i64 {_AT["extent"]}
  %kernel_at = getelementptr i8, ptr addrspace(1) %record, i64 {_AT["kernel"]}
  store i32 %site, ptr addrspace(1) %site_at
  store i64 %index, ptr addrspace(1) %index_at
  store i64 %extent, ptr addrspace(1) %extent_at
  store i64 %kernel, ptr addrspace(1) %kernel_at
  br label %done
done:
  ret void
}}
"""
PRINT = f"""
define internal void @print(ptr %status, i64 %kernel, i32 %site, i32 %count, ptr %values, i32 %x, i32 %y, i32 %z) cold \
noinline nounwind {{
  %prints_at = getelementptr i8, ptr %status, i64 {_AT["prints"]}
  %generic = load ptr, ptr %prints_at
  %buffer = addrspacecast ptr %generic to ptr addrspace(1)
  %room_at = getelementptr i8, ptr addrspace(1) %buffer, i64 {PRINT_FIELDS["room"]}
  %lost_at = getelementptr i8, ptr addrspace(1) %buffer, i64 {PRINT_FIELDS["lost"]}
  %words = getelementptr i8, ptr addrspace(1) %buffer, i64 {PRINT_FIELDS["words"]}
  %size = add i32 %count, {PRINT_HEADER}
  %wide_size = zext i32 %size to i64
  %at = atomicrmw add ptr addrspace(1) %buffer, i64 %wide_size syncscope("device") monotonic, align 8
  %end = add i64 %at, %wide_size
  %room = load i64, ptr addrspace(1) %room_at
  %fits = icmp ule i64 %end, %room
  br i1 %fits, label %write, label %lost
lost:
  %before = atomicrmw add ptr addrspace(1) %lost_at, i64 1 syncscope("device") monotonic, align 8
  ret void
write:
  %line = getelementptr i64, ptr addrspace(1) %words, i64 %at
  %line_y = getelementptr i64, ptr addrspace(1) %line, i64 1
  %line_z = getelementptr i64, ptr addrspace(1) %line, i64 2
  %target = getelementptr i64, ptr addrspace(1) %line, i64 {PRINT_HEADER}
  %site_low = zext i32 %site to i64
  %size_high = shl i64 %wide_size, 32
  %x_low = zext i32 %x to i64
  %y_wide = zext i32 %y to i64
  %y_high = shl i64 %y_wide, 32
  %z_low = zext i32 %z to i64
  %kernel_high = shl i64 %kernel, 32
  %first = or i64 %site_low, %size_high
  %second = or i64 %x_low, %y_high
  %third = or i64 %z_low, %kernel_high
  store i64 %first, ptr addrspace(1) %line
  store i64 %second, ptr addrspace(1) %line_y
  store i64 %third, ptr addrspace(1) %line_z
  br label %copy
copy:
  %i = phi i32 [ 0, %write ], [ %next, %word ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %word, label %done
word:
  %from = getelementptr i64, ptr %values, i32 %i
  %to = getelementptr i64, ptr addrspace(1) %target, i32 %i
  %value = load i64, ptr %from
  store i64 %value, ptr addrspace(1) %to
  %next = add i32 %i, 1
  br label %copy
done:
  ret void
}}
"""


def _in_bounds(e: RegionEmitter, op: Op) -> None:
    w, (index, extent) = e.w, op.operands
    w.declarations.add_functions(REPORT)
    inside = is_inside(e, index, extent)
    outside, done = w.labels("outside", "checked")
    w.line(f"br i1 {inside}, label %{done}, label %{outside}{UNLIKELY}")
    w.block(outside)
    record = _record(e)
    numbers = f"i64 {extended(e, index, 'i64')}, i64 {extended(e, extent, 'i64')}"
    w.line(f"call void @report({record}, i32 {BOUNDS_ERROR}, i32 {op.attributes['site']}, {numbers})")
    w.jump(done)
    w.block(done)
    e.define(op.results[0], inside)


def _record(e: RegionEmitter) -> str:
    """The status record, and the number of the kernel."""
    launch = e.environment.launch
    return f"ptr {read_field(e.w, launch, 'status')}, i64 {read_field(e.w, launch, 'kernel')}"


def _print(e: RegionEmitter, op: Op) -> None:
    w, count, (x, y, z) = e.w, len(op.operands), e.environment.thread
    w.declarations.add_functions(PRINT)
    words = write_words(e, op)
    line = f"i32 {op.attributes['site']}, i32 {count}, ptr {words}, i32 {x}, i32 {y}, i32 {z}"
    w.line(f"call void @print({_record(e)}, {line})")


RULES: dict[str, Rule] = {"in_bounds": _in_bounds, "print": _print}
