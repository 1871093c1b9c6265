"""Reports of a running kernel: an index out of range, a printed line.

    %ok = in_bounds %i, %n      the first failure of a launch is written into the launch record
    print "x = %f", %x          calls the record's function with the site and the values as 64-bit words

In: scalar ops; `spmd` has picked the lanes that report. The run time makes exceptions and text of it.
"""

from __future__ import annotations

from slangrad.ir.data.types import F64, Pointer
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.launch.launch import BOUNDS_ERROR, read_field, write_field
from slangrad.llvm.text.conversions import convert
from slangrad.llvm.text.emit import RegionEmitter, Rule

UNLIKELY = ", !prof !1"


def _in_bounds(e: RegionEmitter, op: Op) -> None:
    w, (index, extent), launch = e.w, op.operands, e.environment.launch
    inside = is_inside(e, index, extent)
    report, first, done = w.labels("outside", "record", "checked")
    w.line(f"br i1 {inside}, label %{done}, label %{report}{UNLIKELY}")
    w.block(report)
    error = read_field(w, launch, "error")
    w.branch(w.value(f"icmp eq i32 {error}, 0"), first, done)
    w.block(first)
    write_field(w, launch, "error", str(BOUNDS_ERROR))
    write_field(w, launch, "site", str(op.attributes["site"]))
    write_field(w, launch, "index", extended(e, index, "i64"))
    write_field(w, launch, "extent", extended(e, extent, "i64"))
    write_field(w, launch, "error_chunk", read_field(w, launch, "chunk"))
    w.jump(done)
    w.block(done)
    e.define(op.results[0], inside)


def is_inside(e: RegionEmitter, index: Value, extent: Value) -> str:
    """As mathematical numbers: of two types, 65 bits hold both."""
    same = index.type is extent.type
    wide = e.type(index) if same else "i65"
    i, n = ((e.operand(v) if same else extended(e, v, wide)) for v in (index, extent))
    if same and scalar_type(index).kind == "unsigned":
        return e.w.value(f"icmp ult {wide} {i}, {n}")
    below = e.w.value(f"icmp slt {wide} {i}, {n}")
    not_negative = e.w.value(f"icmp sge {wide} {i}, 0")
    return e.w.value(f"and i1 {below}, {not_negative}")


def extended(e: RegionEmitter, value: Value, wide: str) -> str:
    """A number in a wider integer type."""
    scalar = scalar_type(value)
    if f"i{scalar.bits}" == wide:
        return e.operand(value)
    return e.w.value(f"{'sext' if scalar.kind == 'signed' else 'zext'} {e.typed(value)} to {wide}")


def _print(e: RegionEmitter, op: Op) -> None:
    w, launch, words = e.w, e.environment.launch, write_words(e, op)
    function = read_field(w, launch, "print")
    w.line(f"call void {function}(ptr {launch}, i32 {op.attributes['site']}, ptr {words})")


def write_words(e: RegionEmitter, op: Op) -> str:
    """The address of the operands of a print, as words."""
    words = e.w.slot("i64", max(1, len(op.operands)), 8)
    for position, value in enumerate(op.operands):
        place = e.w.value(f"getelementptr i64, ptr {words}, i64 {position}")
        e.w.line(f"store i64 {_word(e, value)}, ptr {place}")
    return words


def _word(e: RegionEmitter, value: Value) -> str:
    """Integers as they are, floats as the bits of a double."""
    if isinstance(value.type, Pointer):
        return e.w.value(f"ptrtoint {e.typed(value)} to i64")
    scalar = scalar_type(value)
    if scalar.kind != "float":
        return extended(e, value, "i64")
    double = convert(e.w, scalar, F64, e.type(value), "double", e.operand(value))
    return e.w.value(f"bitcast double {double} to i64")


RULES: dict[str, Rule] = {"in_bounds": _in_bounds, "print": _print}
