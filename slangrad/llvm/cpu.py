"""A kernel of W lanes as an LLVM module for a CPU: the entry that runs the threads of a chunk, wave by wave.

    void entry(const void* arguments, Launch* launch, i64 chunk)     all threads of one chunk
    void drain(const void* arguments, Launch* launch, i64 limit)     up to `limit` chunks from shared->next

A chunk is a part of one row of x, so y, z and what depends on nothing else are computed before the loop over waves.
Full waves run `full`; the last wave, and all of them where there is no `full`, run `masked`, whose one parameter is
the mask of its lanes. This file makes text; native.py makes machine code of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slangrad.ir.core import Function, Op, Program, Value
from slangrad.ir.primitives import PRIMITIVES, PURE
from slangrad.ir.types import Pointer
from slangrad.llvm import atomics, emit, memory
from slangrad.llvm.emit import Emitter, Environment
from slangrad.llvm.launch import field_address, read_field, write_field
from slangrad.llvm.sites import Sites
from slangrad.llvm.target import Target
from slangrad.llvm.type_names import TypeNames
from slangrad.llvm.writer import Declarations, Writer, phi

RULES = emit.RULES | memory.RULES | atomics.RULES


@dataclass(frozen=True, slots=True)
class Module:
    """LLVM text with the functions `entry` and `drain`, and the ops that its site numbers stand for."""

    text: str
    sites: tuple[Op, ...]


def kernel_module(
    program: Program, full: Function | None, masked: Function | None, lanes: int, target: Target, contract: bool
) -> Module:
    """At least one of `full` and `masked` is given; with one lane there is only `full`."""
    declarations, sites = Declarations(), Sites()
    w = Writer(declarations, target.features, contract)
    _write_entry(w, program, full, masked, lanes, sites)
    entry = _function("entry", "i64 %chunk", w)
    w = Writer(declarations, target.features, contract)
    _write_drain(w)
    drain = _function("drain", "i64 %limit", w)
    parts = [entry, drain, *declarations.intrinsics.values(), "!0 = !{}", "attributes #0 = { nounwind }"]
    return Module("\n".join(parts) + "\n", tuple(sites.ops))


def _function(name: str, last: str, w: Writer) -> str:
    head = f"define dso_local void @{name}(ptr noalias %arguments, ptr noalias %launch, {last}) #0 {{\nentry:"
    return "\n".join([head, *w.entry, *w.lines, "}", ""])


def _write_entry(
    w: Writer, program: Program, full: Function | None, masked: Function | None, lanes: int, sites: Sites
) -> None:
    write_field(w, "%launch", "chunk", "%chunk")
    x, end, y, z = _chunk_range(w)
    names = TypeNames(lanes)

    def emitter() -> Emitter:
        return Emitter(w, names, Environment("%arguments", program.arguments, "%launch", ("", y, z), sites), RULES)

    if full is not None:
        x = _write_waves(w, emitter(), full, x, end, lanes)
    if masked is not None:
        _write_masked_waves(w, emitter(), masked, x, end, lanes)
    w.line("ret void")


def _chunk_range(w: Writer) -> tuple[str, str, str, str]:
    """First x, end of x, and y and z as u32."""
    ny, chunk_x, chunks_x = (read_field(w, "%launch", name) for name in ("ny", "chunk_x", "chunks_x"))
    row = w.value(f"udiv i64 %chunk, {chunks_x}")
    column = w.value(f"urem i64 %chunk, {chunks_x}")
    y = w.value(f"urem i64 {row}, {ny}")
    z = w.value(f"udiv i64 {row}, {ny}")
    start = w.value(f"mul i64 {column}, {chunk_x}")
    whole = w.value(f"add i64 {start}, {chunk_x}")
    end = w.value(f"call i64 @llvm.umin.i64(i64 {whole}, i64 {read_field(w, '%launch', 'nx')})")
    return start, end, w.value(f"trunc i64 {y} to i32"), w.value(f"trunc i64 {z} to i32")


def _write_waves(w: Writer, e: Emitter, function: Function, x: str, end: str, lanes: int) -> str:
    """A loop over whole waves; returns the x where it ends."""
    count = w.value(f"sub i64 {end}, {x}")
    whole = w.value(f"and i64 {count}, {-lanes}")
    limit = w.value(f"add i64 {x}, {whole}")
    inner = _write_invariants(e, function)
    with counted_loop(w, x, limit, lanes) as wave:
        _write_wave(e, wave, inner)
    return limit


def _write_masked_waves(w: Writer, e: Emitter, function: Function, x: str, end: str, lanes: int) -> None:
    (mask,) = function.region.parameters
    inner = _write_invariants(e, function)
    with counted_loop(w, x, end, lanes) as wave:
        rest = w.value(f"sub i64 {end}, {wave}")
        count = w.value(f"call i64 @llvm.umin.i64(i64 {rest}, i64 {lanes})")
        e.define(mask, first_lanes(e, w.value(f"trunc i64 {count} to i32")))
        _write_wave(e, wave, inner)


def _write_wave(e: Emitter, wave: str, ops: list[Op]) -> None:
    _, y, z = e.environment.thread
    e.environment.thread = e.w.value(f"trunc i64 {wave} to i32"), y, z
    for op in ops:
        e.op(op)


def _write_invariants(e: Emitter, function: Function) -> list[Op]:
    """Write the ops that are the same in all waves of a chunk; returns the others."""
    known: set[Value] = set()
    varying = []
    for op in function.region.ops:
        if _is_invariant(op) and known.issuperset(op.operands):
            known.update(op.results)
            e.op(op)
        else:
            varying.append(op)
    return varying


def _is_invariant(op: Op) -> bool:
    """On operands that are invariant."""
    if op.name == "thread_id":
        return op.attributes["axis"] != 0
    if op.name == "load":
        address = op.operands[0].type
        return isinstance(address, Pointer) and address.space == "constant"
    return op.name in PRIMITIVES and PRIMITIVES[op.name].effect == PURE


def first_lanes(e: Emitter, count: str) -> str:
    """The mask of the first `count` lanes, a number of type i32."""
    lanes = e.names.widened("i32")
    numbers = ", ".join(f"i32 {lane}" for lane in range(e.names.lanes))
    return e.w.value(f"icmp ult {lanes} <{numbers}>, {emit.splat(e, lanes, f'i32 {count}')}")


@contextmanager
def counted_loop(w: Writer, start: str, limit: str, step: int) -> Iterator[str]:
    """The code in it runs for i = start, start + step, ... below limit, all i64."""
    head, body, done = w.labels("waves", "wave", "endwaves")
    before = w.label
    w.jump(head)
    w.block(head)
    index, following = w.name(), w.name()
    line = w.reserve_line()
    w.branch(w.value(f"icmp ult i64 {index}, {limit}"), body, done)
    w.block(body)
    yield index
    w.line(f"{following} = add i64 {index}, {step}")
    w.lines[line] = phi(index, "i64", [(start, before), (following, w.label)])
    w.jump(head)
    w.block(done)


def _write_drain(w: Writer) -> None:
    """Take chunks until there are no more, `limit` were run or somebody asks to stop."""
    shared = read_field(w, "%launch", "shared")
    chunks = read_field(w, "%launch", "chunks")
    take, run, done = w.labels("take", "run", "done")
    with counted_loop(w, "0", "%limit", 1):
        stopping = w.value(f"load atomic i32, ptr {field_address(w, shared, 'stop')} monotonic, align 4")
        w.branch(w.value(f"icmp ne i32 {stopping}, 0"), done, take)
        w.block(take)
        counter = field_address(w, shared, "next")
        chunk = w.value(f"atomicrmw add ptr {counter}, i64 1 monotonic, align 8")
        w.branch(w.value(f"icmp ult i64 {chunk}, {chunks}"), run, done)
        w.block(run)
        w.line(f"call void @entry(ptr %arguments, ptr %launch, i64 {chunk})")
    w.jump(done)
    w.block(done)
    w.line("ret void")
