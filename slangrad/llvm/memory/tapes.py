"""Tapes: growable arrays in the launch's arena, with a place for each lane in each element.

    %t = tape_new : ptr<f32, tape>       a header { ptr elements, i64 capacity, i64 flags }, capacity zero
    tape_address{write} %t, %i           elements + i * lanes * 4, after growing to more than i
    tape_address %t, %i                  ... where i is below the capacity, else a row of zeros
    tape_free %t                         header and elements go to the launch's lists of free memory

Elements begin as zero, so unwritten elements read zero, unless the tape is `written_first`. The handle 0 has no
header and reads zero. Memory for tapes comes in powers of two; free memory of a size is taken first. Without memory
(reported by `reserve`, which also stops the launch) writes go to a row that is never read.
"""

from __future__ import annotations

from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Pointer, Scalar
from slangrad.ir.ops.core import Op, Value
from slangrad.llvm.launch.launch import field_at
from slangrad.llvm.launch.reports import UNLIKELY, extended
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.writer import phi

LARGEST_ELEMENT = 8
LONGEST_TAPE = 1 << 40  # elements; so sizes in bytes do not overflow


HEADER = 64  # bytes
UNREAD, ON_STACK = 1, 2  # flags: no element is read before it is written; the header is not of the arena

# Memory at a multiple of 64 bytes, or null.
RESERVE = f"""
define internal ptr @reserve(ptr %launch, i64 %bytes) noinline nounwind {{
  %used_at = {field_at("%launch", "arena_used")}
  %size_at = {field_at("%launch", "arena_size")}
  %arena_at = {field_at("%launch", "arena")}
  %reserve_at = {field_at("%launch", "reserve")}
  %shared_at = {field_at("%launch", "shared")}
  %used = load i64, ptr %used_at
  %size = load i64, ptr %size_at
  %bumped = add i64 %used, 63
  %start = and i64 %bumped, -64
  %end = add i64 %start, %bytes
  %fits = icmp ule i64 %end, %size
  br i1 %fits, label %here, label %ask
here:
  store i64 %end, ptr %used_at
  %arena = load ptr, ptr %arena_at
  %found = getelementptr i8, ptr %arena, i64 %start
  ret ptr %found
ask:
  %shared = load ptr, ptr %shared_at
  %stop_at = {field_at("%shared", "stop")}
  %stop = load atomic i32, ptr %stop_at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %none, label %call
call:
  %function = load ptr, ptr %reserve_at
  %more = call ptr %function(ptr %launch, i64 %bytes)
  ret ptr %more
none:
  ret ptr null
}}
"""
# Memory of 2^k bytes, k at least 6, which `give` takes back. A free piece begins with the address of the next one.
TAKE = f"""{RESERVE}
define internal ptr @take(ptr %launch, i64 %bytes) noinline nounwind {{
  %released_at = {field_at("%launch", "released")}
  %lists = {field_at("%launch", "lists")}
  %released = load i64, ptr %released_at
  %known = and i64 %released, %bytes
  %none = icmp eq i64 %known, 0
  br i1 %none, label %new, label %again
again:
  %class = call i64 @llvm.cttz.i64(i64 %bytes, i1 true)
  %list = getelementptr ptr, ptr %lists, i64 %class
  %found = load ptr, ptr %list
  %next = load ptr, ptr %found
  store ptr %next, ptr %list
  %last = icmp eq ptr %next, null
  %without = xor i64 %released, %bytes
  %left = select i1 %last, i64 %without, i64 %released
  store i64 %left, ptr %released_at
  ret ptr %found
new:
  %made = call ptr @reserve(ptr %launch, i64 %bytes)
  ret ptr %made
}}
define internal void @give(ptr %launch, ptr %memory, i64 %bytes) noinline nounwind {{
  %released_at = {field_at("%launch", "released")}
  %lists = {field_at("%launch", "lists")}
  %released = load i64, ptr %released_at
  %class = call i64 @llvm.cttz.i64(i64 %bytes, i1 true)
  %list = getelementptr ptr, ptr %lists, i64 %class
  %known = and i64 %released, %bytes
  %none = icmp eq i64 %known, 0
  %first = load ptr, ptr %list
  %next = select i1 %none, ptr null, ptr %first
  store ptr %next, ptr %memory
  store ptr %memory, ptr %list
  %more = or i64 %released, %bytes
  store i64 %more, ptr %released_at
  ret void
}}
"""
# Makes room for element %index and returns whether there is; memory is copied and cleared in blocks of 64 bytes. Old
# elements are freed where the tape has them for itself.
GROW = f"""
define internal i1 @grow(ptr %launch, ptr %tape, i64 %index, i64 %row, i1 %own) noinline nounwind {{
  %capacity_at = getelementptr i8, ptr %tape, i64 8
  %flags_at = getelementptr i8, ptr %tape, i64 16
  %capacity = load i64, ptr %capacity_at
  %flags = load i64, ptr %flags_at
  %old = load ptr, ptr %tape
  %needed = add i64 %index, 1
  %least = call i64 @llvm.umax.i64(i64 %needed, i64 32)
  %doubled = shl i64 %capacity, 1
  %wanted = call i64 @llvm.umax.i64(i64 %least, i64 %doubled)
  %limited = call i64 @llvm.umin.i64(i64 %wanted, i64 {LONGEST_TAPE})
  %enough = icmp ugt i64 %limited, %index
  %exact = mul i64 %limited, %row
  %some = call i64 @llvm.umax.i64(i64 %exact, i64 64)
  %below = sub i64 %some, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %below, i1 true)
  %bits = sub i64 64, %zeros
  %rounded = shl i64 1, %bits
  %bytes = select i1 %enough, i64 %rounded, i64 {1 << 62}
  %new = call ptr @take(ptr %launch, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no, label %fill
no:
  ret i1 false
fill:
  %kept = mul i64 %capacity, %row
  %unread = and i64 %flags, {UNREAD}
  %clears = icmp eq i64 %unread, 0
  %end = select i1 %clears, i64 %bytes, i64 %kept
  br label %copy
copy:
  %i = phi i64 [ 0, %fill ], [ %i_next, %copy_block ]
  %copying = icmp ult i64 %i, %kept
  br i1 %copying, label %copy_block, label %clear
copy_block:
  %from = getelementptr i8, ptr %old, i64 %i
  %to = getelementptr i8, ptr %new, i64 %i
  %block = load <8 x i64>, ptr %from, align 8
  store <8 x i64> %block, ptr %to, align 8
  %i_next = add i64 %i, 64
  br label %copy
clear:
  %j = phi i64 [ %kept, %copy ], [ %j_next, %clear_block ]
  %clearing = icmp ult i64 %j, %end
  br i1 %clearing, label %clear_block, label %filled
clear_block:
  %at = getelementptr i8, ptr %new, i64 %j
  store <8 x i64> zeroinitializer, ptr %at, align 8
  %j_next = add i64 %j, 64
  br label %clear
filled:
  %room = udiv i64 %bytes, %row
  store ptr %new, ptr %tape
  store i64 %room, ptr %capacity_at
  %had = icmp ne i64 %capacity, 0
  %frees = and i1 %had, %own
  br i1 %frees, label %free, label %done
free:
  call void @give(ptr %launch, ptr %old, i64 %kept)
  br label %done
done:
  ret i1 true
}}
"""
FREE = f"""
define internal void @free_tape(ptr %launch, ptr %tape, i64 %row) noinline nounwind {{
  %capacity_at = getelementptr i8, ptr %tape, i64 8
  %flags_at = getelementptr i8, ptr %tape, i64 16
  %elements = load ptr, ptr %tape
  %capacity = load i64, ptr %capacity_at
  %flags = load i64, ptr %flags_at
  %none = icmp eq i64 %capacity, 0
  br i1 %none, label %header, label %some
some:
  %bytes = mul i64 %capacity, %row
  call void @give(ptr %launch, ptr %elements, i64 %bytes)
  br label %header
header:
  %spare = and i64 %flags, {ON_STACK}
  %here = icmp eq i64 %spare, 0
  br i1 %here, label %arena, label %stack
arena:
  call void @give(ptr %launch, ptr %tape, i64 {HEADER})
  br label %done
stack:
  store i64 0, ptr %capacity_at
  br label %done
done:
  ret void
}}
"""


def element_of(value: Value) -> Scalar | Pointer:
    assert isinstance(value.type, Pointer) and isinstance(value.type.element, (Scalar, Pointer)), value.type
    return value.type.element


def _row(e: RegionEmitter, value: Value) -> int:
    """Bytes of one element of all lanes."""
    return layout_of(element_of(value)).size * e.names.lanes


def _tape_new(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], _new_tape(e, UNREAD if op.attributes.get("written_first") else 0))


def _new_tape(e: RegionEmitter, flags: int) -> str:
    """Without memory a header on the stack: it serves for the rest of a launch that has failed."""
    w = e.w
    w.declarations.add_functions(TAKE)
    spare = w.slot("[3 x i64]", 1, 8)
    memory = w.value(f"call ptr @take(ptr {e.environment.memory}, i64 {HEADER})")
    failed = w.value(f"icmp eq ptr {memory}, null")
    tape = w.value(f"select i1 {failed}, ptr {spare}, ptr {memory}")
    w.line(f"store <2 x i64> zeroinitializer, ptr {tape}, align 8")
    place = w.value(f"getelementptr i8, ptr {tape}, i64 16")
    w.line(f"store i64 {w.value(f'select i1 {failed}, i64 {flags | ON_STACK}, i64 {flags}')}, ptr {place}")
    return tape


def _tape_free(e: RegionEmitter, op: Op) -> None:
    (tape,) = op.operands
    e.w.declarations.add_functions(TAKE + FREE)
    e.w.line(f"call void @free_tape(ptr {e.environment.memory}, {e.typed(tape)}, i64 {_row(e, tape)})")


def _tape_copy(e: RegionEmitter, op: Op) -> None:
    """`grow` moves elements to new memory; here it begins with a header that has the old ones."""
    w, (old,), row = e.w, op.operands, _row(e, op.operands[0])
    w.declarations.add_functions(TAKE + GROW)
    tape = _new_tape(e, 0)
    copying, full, failed, done = w.labels("some", "full", "failed", "copied")
    w.branch(w.value(f"icmp eq {e.typed(old)}, null"), done, copying)
    w.block(copying)
    elements, capacity = _header(e, e.operand(old))
    w.branch(w.value(f"icmp eq i64 {capacity}, 0"), done, full)
    w.block(full)
    w.line(f"store ptr {elements}, ptr {tape}")
    place = w.value(f"getelementptr i8, ptr {tape}, i64 8")
    w.line(f"store i64 {capacity}, ptr {place}")
    last = w.value(f"sub i64 {capacity}, 1")
    arguments = f"ptr {e.environment.memory}, ptr {tape}, i64 {last}, i64 {row}, i1 false"
    copied = w.value(f"call i1 @grow({arguments})")
    w.branch(copied, done, failed)
    w.block(failed)
    w.line(f"store <2 x i64> zeroinitializer, ptr {tape}, align 8")
    w.jump(done)
    w.block(done)
    e.define(op.results[0], tape)


def _header(e: RegionEmitter, tape: str) -> tuple[str, str]:
    """Elements and capacity."""
    place = e.w.value(f"getelementptr i8, ptr {tape}, i64 8")
    return e.w.value(f"load ptr, ptr {tape}"), e.w.value(f"load i64, ptr {place}")


def _tape_address(e: RegionEmitter, op: Op) -> None:
    """Where lane 0 has an element; the other lanes follow."""
    tape, index = op.operands
    find = place_to_write if op.attributes.get("write") else place_to_read
    e.define(op.results[0], find(e, tape, extended(e, index, "i64")))


def place_to_write(e: RegionEmitter, tape: Value, index: str) -> str:
    w, row = e.w, _row(e, tape)
    w.declarations.add_functions(TAKE + GROW)
    grow, good, bad, done = w.labels("grow", "room", "noroom", "element")
    sink = w.slot("i8", LARGEST_ELEMENT * e.names.lanes, 64)
    _, capacity = _header(e, e.operand(tape))
    fits = w.value(f"icmp ult i64 {index}, {capacity}")
    w.line(f"br i1 {fits}, label %{good}, label %{grow}{UNLIKELY}")
    w.block(grow)
    grown = w.value(_growing(e, tape, index))
    w.branch(grown, good, bad)
    w.block(bad)
    w.jump(done)
    w.block(good)
    elements = w.value(f"load ptr, {e.typed(tape)}")
    place = _element(e, elements, index, row)
    w.jump(done)
    w.block(done)
    result = w.name()
    w.lines.append(phi(result, "ptr", [(place, good), (sink, bad)]))
    return result


def _growing(e: RegionEmitter, tape: Value, index: str) -> str:
    arguments = f"ptr {e.environment.memory}, {e.typed(tape)}, i64 {index}, i64 {_row(e, tape)}, i1 true"
    return f"call i1 @grow({arguments})"


def _element(e: RegionEmitter, elements: str, index: str, row: int) -> str:
    return e.w.value(f"getelementptr [{row} x i8], ptr {elements}, i64 {index}")


def place_to_read(e: RegionEmitter, tape: Value, index: str) -> str:
    """Negative indices are large ones here."""
    w, row = e.w, _row(e, tape)
    size = LARGEST_ELEMENT * e.names.lanes
    w.declarations.add_functions(
        f"@zeros{size} = internal constant [{size} x i8] zeroinitializer, align 64\n"
    )
    nonempty, done = w.labels("tape", "element")
    before = w.label
    w.branch(w.value(f"icmp eq {e.typed(tape)}, null"), done, nonempty)
    w.block(nonempty)
    elements, capacity = _header(e, e.operand(tape))
    place = _element(e, elements, index, row)
    inside = w.value(f"icmp ult i64 {index}, {capacity}")
    chosen = w.value(f"select i1 {inside}, ptr {place}, ptr @zeros{size}")
    w.jump(done)
    w.block(done)
    result = w.name()
    w.lines.append(phi(result, "ptr", [(f"@zeros{size}", before), (chosen, nonempty)]))
    return result


# --- for lanes with indices of their own


def _tape_reserve(e: RegionEmitter, op: Op) -> None:
    """Without memory the capacity stays what it was."""
    tape, last = op.operands
    e.w.declarations.add_functions(TAKE + GROW)
    grow, done = e.w.labels("grow", "room")
    position = extended(e, last, "i64")
    _, capacity = _header(e, e.operand(tape))
    fits = e.w.value(f"icmp ult i64 {position}, {capacity}")
    e.w.line(f"br i1 {fits}, label %{done}, label %{grow}{UNLIKELY}")
    e.w.block(grow)
    e.w.line(_growing(e, tape, position))
    e.w.jump(done)
    e.w.block(done)


def _tape_capacity(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], _header(e, _some_header(e, op.operands[0]))[1])


def _tape_elements(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], _header(e, _some_header(e, op.operands[0]))[0])


def _some_header(e: RegionEmitter, tape: Value) -> str:
    e.w.declarations.add_functions("@no_tape = internal constant [2 x i64] zeroinitializer, align 8\n")
    none = e.w.value(f"icmp eq {e.typed(tape)}, null")
    return e.w.value(f"select i1 {none}, ptr @no_tape, {e.typed(tape)}")


RULES: dict[str, Rule] = {
    "tape_new": _tape_new,
    "tape_copy": _tape_copy,
    "tape_free": _tape_free,
    "tape_address": _tape_address,
    "tape_reserve": _tape_reserve,
    "tape_capacity": _tape_capacity,
    "tape_elements": _tape_elements,
}
