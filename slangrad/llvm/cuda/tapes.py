"""Memory that a GPU thread takes while it runs: tapes, and variables of calls that call themselves.

    tape_store %t, %i, %x      store %x, where element %i of the tape is, after growing

Each thread has a pool, a record in its local memory: chunks of 512 bytes, 2 KB, 8 KB .. from the arena of the launch.
It takes each by one atomic add when it first needs it. A thread that runs another thread of the program begins at its
first chunk again, so memory follows the threads that the GPU runs at a time. The tapes are those of the CPU
(llvm/memory/tapes.py): `released` and `lists` lie in a pool as in a launch record. Without memory, which is reported
once, writes go to a row that is never read.

    struct Arena { i64 used, size; bytes }      `used` and `size` count from its beginning
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.ops.core import Function, Op, walk
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.cuda.launch import ARENA_FIELDS, OUT_OF_MEMORY, read_field
from slangrad.llvm.cuda.reports import REPORT
from slangrad.llvm.launch.launch import LAUNCH_FIELDS
from slangrad.llvm.launch.reports import extended
from slangrad.llvm.memory import tapes, variables
from slangrad.llvm.text.emit import RegionEmitter, Rule, primitive
from slangrad.llvm.text.type_names import memory_name
from slangrad.llvm.text.writer import Writer

FIRST_CHUNK, CHUNKS = 512, 12  # bytes of the first one, and how many there may be, each four times as large
LARGEST = FIRST_CHUNK << 2 * (CHUNKS - 1)
_CLASSES = LARGEST.bit_length()  # of free memory, by powers of two
POOL = {"status": 0, "kernel": 8, "arena": 16, "position": 24, "limit": 32, "chunk": 40, "chunks": 48}
POOL_SIZE = LAUNCH_FIELDS["lists"][0] + 8 * _CLASSES
assert POOL["chunks"] + 8 * CHUNKS <= LAUNCH_FIELDS["released"][0]

RESERVE = f"""
define internal ptr @reserve(ptr %launch, i64 %bytes) noinline nounwind {{
  %status_at = getelementptr i8, ptr %launch, i64 {POOL["status"]}
  %kernel_at = getelementptr i8, ptr %launch, i64 {POOL["kernel"]}
  %arena_at = getelementptr i8, ptr %launch, i64 {POOL["arena"]}
  %position_at = getelementptr i8, ptr %launch, i64 {POOL["position"]}
  %limit_at = getelementptr i8, ptr %launch, i64 {POOL["limit"]}
  %chunk_at = getelementptr i8, ptr %launch, i64 {POOL["chunk"]}
  %chunks = getelementptr i8, ptr %launch, i64 {POOL["chunks"]}
  %status = load ptr, ptr %status_at
  %arena = load ptr, ptr %arena_at
  %memory = addrspacecast ptr %arena to ptr addrspace(1)
  br label %try
try:
  %position = load i64, ptr %position_at
  %limit = load i64, ptr %limit_at
  %bumped = add i64 %position, 63
  %start = and i64 %bumped, -64
  %end = add i64 %start, %bytes
  %fits = icmp ule i64 %end, %limit
  br i1 %fits, label %here, label %next
here:
  store i64 %end, ptr %position_at
  %found = inttoptr i64 %start to ptr
  ret ptr %found
next:
  %before = load i64, ptr %chunk_at
  %number = add i64 %before, 1
  %too_many = icmp uge i64 %number, {CHUNKS}
  br i1 %too_many, label %none, label %choose
choose:
  store i64 %number, ptr %chunk_at
  %twice = shl i64 %number, 1
  %size = shl i64 {FIRST_CHUNK}, %twice
  %holds = icmp ule i64 %bytes, %size
  br i1 %holds, label %use, label %next
use:
  %slot = getelementptr ptr, ptr %chunks, i64 %number
  %known = load ptr, ptr %slot
  %missing = icmp eq ptr %known, null
  br i1 %missing, label %take, label %begin
take:
  %at = atomicrmw add ptr addrspace(1) %memory, i64 %size syncscope("device") monotonic, align 8
  %after = add i64 %at, %size
  %size_at = getelementptr i8, ptr addrspace(1) %memory, i64 {ARENA_FIELDS["size"]}
  %room = load i64, ptr addrspace(1) %size_at
  %there = icmp ule i64 %after, %room
  br i1 %there, label %keep, label %none
keep:
  %made = getelementptr i8, ptr %arena, i64 %at
  store ptr %made, ptr %slot
  br label %begin
begin:
  %chunk = phi ptr [ %known, %use ], [ %made, %keep ]
  %first = ptrtoint ptr %chunk to i64
  %last = add i64 %first, %size
  store i64 %first, ptr %position_at
  store i64 %last, ptr %limit_at
  br label %try
none:
  %kernel = load i64, ptr %kernel_at
  call void @report(ptr %status, i64 %kernel, i32 {OUT_OF_MEMORY}, i32 -1, i64 0, i64 0)
  ret ptr null
}}
"""


def take_memory(functions: Iterable[Function]) -> bool:
    """Whether threads take memory while they run."""
    return any(_takes(op) for function in functions for op in walk(function.region))


def _takes(op: Op) -> bool:
    return op.name in RULES or (op.name == "variable" and bool(op.operands))


def write_pool(w: Writer) -> str:
    """An empty pool, at the start of the entry."""
    w.declarations.add_functions(REPORT)
    w.declarations.add_functions(RESERVE)
    pool = w.slot("i8", POOL_SIZE, 8)
    for name, kind in (("status", "ptr"), ("kernel", "i64"), ("arena", "ptr")):
        value = read_field(w, "%launch", name)
        w.line(f"store {kind} {value}, ptr {_at(w, pool, POOL[name])}")
    chunks = _at(w, pool, POOL["chunks"])
    w.line(f"call void @llvm.memset.inline.p0.i64(ptr {chunks}, i8 0, i64 {8 * CHUNKS}, i1 false)")
    return pool


def begin_thread(e: RegionEmitter, pool: str, function: Function) -> None:
    """All chunks are free, and no variable has memory."""
    places = (POOL["position"], POOL["limit"], POOL["chunk"], LAUNCH_FIELDS["released"][0])
    for place, value in zip(places, (0, 0, -1, 0), strict=True):
        e.w.line(f"store i64 {value}, ptr {_at(e.w, pool, place)}")
    variables.begin_wave(e, walk(function.region))


def _at(w: Writer, pool: str, distance: int) -> str:
    return w.value(f"getelementptr i8, ptr {pool}, i64 {distance}")


# --- elements


def _load(e: RegionEmitter, op: Op) -> None:
    (tape, index), (result,) = op.operands, op.results
    register = e.type(result)
    name = memory_name(register)
    place = tapes.place_to_read(e, tape, extended(e, index, "i64"))
    value = e.w.value(f"load {name}, ptr {place}")
    if name != register:
        value = e.w.value(f"icmp ne {name} {value}, zeroinitializer")
    e.define(result, value)


def _store(e: RegionEmitter, op: Op) -> None:
    tape, index, value = op.operands
    register, text = e.type(value), e.operand(value)
    name = memory_name(register)
    if name != register:
        text = e.w.value(f"zext {register} {text} to {name}")
    place = tapes.place_to_write(e, tape, extended(e, index, "i64"))
    e.w.line(f"store {name} {text}, ptr {place}")


def _add(e: RegionEmitter, op: Op) -> None:
    tape, index, value = op.operands
    name = e.type(value)
    place = tapes.place_to_write(e, tape, extended(e, index, "i64"))
    old = e.w.value(f"load {name}, ptr {place}")
    total = primitive(e.w, "add", scalar_type(value), name, [old, e.operand(value)])
    e.w.line(f"store {name} {total}, ptr {place}")


RULES: dict[str, Rule] = {
    **{name: tapes.RULES[name] for name in ("tape_new", "tape_copy", "tape_free")},
    "tape_load": _load,
    "tape_store": _store,
    "tape_add": _add,
}
