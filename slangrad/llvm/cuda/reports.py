"""Failed checks of a GPU thread, in the status record of the device.

    %ok = in_bounds %i, %n      br %inside, done, outside;  outside: call @report(site, %i, %n)

The first thread that exchanges the record's error word writes the rest. The host reads it when it waits.
"""

from __future__ import annotations

from slangrad.ir.ops.core import Op
from slangrad.llvm.cuda.launch import BOUNDS_ERROR, STATUS_FIELDS, read_field
from slangrad.llvm.launch.reports import UNLIKELY, extended, is_inside
from slangrad.llvm.text.emit import RegionEmitter, Rule

_AT = STATUS_FIELDS
REPORT = f"""
define internal void @report(ptr %status, i64 %kernel, i32 %site, i64 %index, i64 %extent) cold noinline nounwind {{
  %record = addrspacecast ptr %status to ptr addrspace(1)
  %both = cmpxchg ptr addrspace(1) %record, i32 0, i32 {BOUNDS_ERROR} monotonic monotonic
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


def _in_bounds(e: RegionEmitter, op: Op) -> None:
    w, (index, extent), launch = e.w, op.operands, e.environment.launch
    w.declarations.add_functions(REPORT)
    inside = is_inside(e, index, extent)
    outside, done = w.labels("outside", "checked")
    w.line(f"br i1 {inside}, label %{done}, label %{outside}{UNLIKELY}")
    w.block(outside)
    record = f"ptr {read_field(w, launch, 'status')}, i64 {read_field(w, launch, 'kernel')}"
    numbers = f"i64 {extended(e, index, 'i64')}, i64 {extended(e, extent, 'i64')}"
    w.line(f"call void @report({record}, i32 {op.attributes['site']}, {numbers})")
    w.jump(done)
    w.block(done)
    e.define(op.results[0], inside)


RULES: dict[str, Rule] = {"in_bounds": _in_bounds}
