"""A kernel of W lanes as an LLVM module for a CPU: the entry that runs the threads of a chunk, wave by wave.

    void entry(const void* arguments, Launch* launch, i64 chunk)     all threads of one chunk
    void drain(const void* arguments, Launch* launch, i64 limit)     up to `limit` batches of chunks from shared->next
    void share(Team* team)                                           the same by one thread of OpenMP's, its part
    void plan(const void* arguments, Launch* launch, i64 0)          before: launch->partial_size, or -1: `fallback`
                                                                     runs; launch->batch: chunks that share sums
    void reduce(const void* arguments, Launch* launch, i64 0)        after: adds the partial sums to memory

Kernels with delayed adds have the last two, `fallback` and `fallback_drain`. A chunk is a part of one row of x, so
y, z and values of these alone are computed before the loop over waves. Full waves run `full`; the last wave, and
all of them where there is no `full`, run `masked`, whose one parameter is the mask of its lanes. Of kernels that
run whole groups (spmd/groups.py) a chunk is a row of groups. This file makes text; native.py makes machine code of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slangrad.base.options import Options
from slangrad.ir.data.types import Pointer, Struct
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.effects import is_arithmetic
from slangrad.llvm import functions
from slangrad.llvm.launch import polling, reports
from slangrad.llvm.launch.launch import field_address, field_at, read_field, write_field
from slangrad.llvm.machine.target import FUNCTION_ATTRIBUTES, TargetMachine
from slangrad.llvm.memory import atomics, delayed, known_memory, memory, tapes, variables
from slangrad.llvm.memory.memory import Locals
from slangrad.llvm.memory.streaming import write_conditions, write_fence
from slangrad.llvm.memory.tapes import RESERVE
from slangrad.llvm.text import emit
from slangrad.llvm.text.emit import Environment, RegionEmitter
from slangrad.llvm.text.type_names import TypeNames
from slangrad.llvm.text.writer import Declarations, Writer, counted_loop

RULES = {
    name: rule
    for rules in (emit, functions, memory, atomics, tapes, variables, reports, known_memory, delayed)
    for name, rule in rules.RULES.items()
}

ARENA_OPS = frozenset(tapes.RULES | variables.RULES)

_BEGIN = ["  br label %entry"]
# runtime/team.py has the struct: the function that gives the thread's number, how many threads take part, the argument
# block, the limit, and the launch of each thread.
SHARE = """define dso_local void @share(ptr %team) #0 {
  %number = load ptr, ptr %team
  %thread = call i32 %number()
  %i = sext i32 %thread to i64
  %members_at = getelementptr i64, ptr %team, i64 1
  %members = load i64, ptr %members_at
  %is_member = icmp slt i64 %i, %members
  br i1 %is_member, label %work, label %done
work:
  %arguments_at = getelementptr i64, ptr %team, i64 2
  %arguments = load ptr, ptr %arguments_at
  %limit_at = getelementptr i64, ptr %team, i64 3
  %limit = load i64, ptr %limit_at
  %launches = getelementptr i64, ptr %team, i64 4
  %launch_at = getelementptr ptr, ptr %launches, i64 %i
  %launch = load ptr, ptr %launch_at
  call void @drain(ptr %arguments, ptr %launch, i64 %limit)
  br label %done
done:
  ret void
}
"""
_FOOTER = f"""!0 = !{{}}
!1 = !{{!"branch_weights", i32 2000, i32 1}}
!2 = !{{i32 1}}
{FUNCTION_ATTRIBUTES}"""


@dataclass(frozen=True, slots=True)
class LlvmModule:
    """LLVM text with the functions `entry` and `drain`."""

    text: str
    entry: Writer


@dataclass(frozen=True, slots=True)
class LaneKernel:
    """At some number of lanes. At least one of `full` and `masked` is there; at one lane only `full`. Of chunks whose
    `condition` is false `masked` runs all waves."""

    full: Function | None
    masked: Function | None
    lanes: int
    arguments: Struct | None  # the layout of the argument block
    condition: Function | None = None
    group: tuple[int, int, int] | None = None  # the kernel runs a whole group of so many threads
    delayed: Delayed | None = None
    functions: tuple[Function, ...] = ()  # that it calls

    @property
    def uses_arena(self) -> bool:
        """Whether a wave takes memory of the arena, which the next one may use again."""
        functions = (self.full, self.masked, *self.functions)
        return any(op.name in ARENA_OPS for f in functions if f is not None for op in walk(f.region))


@dataclass(frozen=True, slots=True)
class Delayed:
    """For a kernel whose adds are delayed. `sums` runs at the end of a chunk, `fallback` where adds may not wait."""

    plan: Function
    sums: Function
    reduce: Function
    fallback: LaneKernel


def kernel_module(kernel: LaneKernel, target: TargetMachine, options: Options) -> LlvmModule:
    declarations = Declarations()

    def writer() -> Writer:
        return Writer(declarations, target.features, options.contraction)

    def entry_and_drain(kernel: LaneKernel, name: str, drain_name: str) -> tuple[list[str], Writer]:
        entry, drain, local = writer(), writer(), Locals(options.limits.local_bytes * kernel.lanes)
        _write_entry(entry, kernel, local, target.triple)
        _write_drain(drain, name)
        text = _function(name, "i64 %chunk", _begin(entry, local), entry)
        return [text, _function(drain_name, "i64 %limit", _BEGIN, drain)], entry

    parts, entry = entry_and_drain(kernel, "entry", "drain")
    parts += [SHARE, *_functions(kernel, writer, options.limits.local_bytes)]
    if kernel.delayed is not None:
        fallback = kernel.delayed.fallback
        parts += entry_and_drain(fallback, "fallback", "fallback_drain")[0]
        parts += _functions(fallback, writer, options.limits.local_bytes)
        parts += _plan_and_reduction(kernel, kernel.delayed, writer(), writer())
    parts += [*declarations.functions.values(), *declarations.intrinsics.values(), _FOOTER]
    return LlvmModule("\n".join(parts) + "\n", entry)


def _functions(kernel: LaneKernel, writer: Callable[[], Writer], stack_bytes: int) -> list[str]:
    texts = []
    for function in kernel.functions:
        thread, local = ("%x", "%y", "%z"), Locals(stack_bytes)
        around = Environment("%arguments", kernel.arguments, "%launch", thread, local)
        around.budget, around.leave, around.rounds = "%budget", functions.LEAVE, polling.rounds
        texts.append(functions.write_function(writer(), function, around, kernel.lanes, RULES))
    return texts


def _plan_and_reduction(kernel: LaneKernel, delayed: Delayed, plan: Writer, reduce: Writer) -> list[str]:
    size, batch, *_ = _emitter_of_one(plan, kernel).region(delayed.plan.region)
    write_field(plan, "%launch", "partial_size", size)
    write_field(plan, "%launch", "batch", batch)
    _emitter_of_one(reduce, kernel).region(delayed.reduce.region)
    parts = []
    for name, w in (("plan", plan), ("reduce", reduce)):
        w.line("ret void")
        parts.append(_function(name, "i64 %nothing", _BEGIN, w))
    return parts


def _emitter_of_one(w: Writer, kernel: LaneKernel) -> RegionEmitter:
    """For code that runs once a launch."""
    around = Environment("%arguments", kernel.arguments, "%launch", ("", "", ""), Locals(0))
    return RegionEmitter(w, TypeNames(1), around, RULES)


def _function(name: str, last: str, begin: list[str], w: Writer) -> str:
    head = f"define dso_local void @{name}(ptr noalias %arguments, ptr noalias %launch, {last}) #0 {{\nbegin:"
    return "\n".join([head, *w.entry, *begin, "entry:", *w.lines, "}", ""])


def _begin(w: Writer, local: Locals) -> list[str]:
    """The code before the first block: memory for large locals, for all waves of the chunk."""
    clear = [f"  %used_at = {field_at('%launch', 'arena_used')}", "  store i64 0, ptr %used_at"]
    clear += [f"  %released_at = {field_at('%launch', 'released')}", "  store i64 0, ptr %released_at"]
    if not local.arena_size:
        return [*clear, "  br label %entry"]
    w.declarations.add_functions(RESERVE)
    return [
        *clear,
        f"  %locals = call ptr @reserve(ptr %launch, i64 {local.arena_size})",
        "  %no_memory = icmp eq ptr %locals, null",
        "  br i1 %no_memory, label %nothing, label %entry",
        "nothing:",
        "  ret void",
    ]


def _write_entry(w: Writer, kernel: LaneKernel, local: Locals, triple: str) -> None:
    write_field(w, "%launch", "chunk", "%chunk")
    w.line(f"%arena_start = load i64, ptr {field_address(w, '%launch', 'arena_used')}")
    x, end, y, z = _chunk_range(w, kernel.group)
    names, accumulators = TypeNames(kernel.lanes), dict[int, str]()
    done, budget = "leave", polling.start_budget(w)
    planned: list[str] = []
    if kernel.delayed is not None and _uses_plan(kernel):
        planned = _emitter_of_one(w, kernel).region(kernel.delayed.plan.region)

    def emitter() -> RegionEmitter:
        thread = ("", y, z)
        around = Environment("%arguments", kernel.arguments, "%launch", thread, local)
        around.planned, around.accumulators, around.uses_arena = planned, accumulators, kernel.uses_arena
        around.budget, around.leave, around.rounds = budget, done, polling.rounds
        return RegionEmitter(w, names, around, RULES)

    whole: str | None = None
    if kernel.condition is not None:
        once = _emitter_of_one(w, kernel)
        once.environment.thread, once.environment.chunk = ("", y, z), (x, end)
        once.environment.planned = planned
        (whole,) = once.region(kernel.condition.region)
    full = emitter()
    if kernel.group is not None and kernel.full is not None:
        _write_groups(full, kernel.full, x, end, done)
    elif kernel.full is not None:
        x = _write_waves(full, kernel.full, x, end, done, whole)
    if kernel.masked is not None:
        _write_masked_waves(emitter(), kernel.masked, x, end, done)
    if kernel.delayed is not None:
        emitter().region(kernel.delayed.sums.region)
    w.jump(done)
    w.block(done)
    if full.environment.large:
        write_fence(w, triple)
    w.line("ret void")


def _uses_plan(kernel: LaneKernel) -> bool:
    functions = [f for f in (kernel.full, kernel.masked) if f is not None]
    return any(op.name == "planned" for f in functions for op in walk(f.region))


def _chunk_range(w: Writer, group: tuple[int, int, int] | None) -> tuple[str, str, str, str]:
    """First x, end of x, and y and z as u32; of groups, where the kernel runs groups."""
    nx, ny, chunk_x, chunks_x = (
        read_field(w, "%launch", name) for name in ("nx", "ny", "chunk_x", "chunks_x")
    )
    if group is not None:
        nx, ny = (_groups(w, count, size) for count, size in zip((nx, ny), group, strict=False))
    row = w.value(f"udiv i64 %chunk, {chunks_x}")
    column = w.value(f"urem i64 %chunk, {chunks_x}")
    y = w.value(f"urem i64 {row}, {ny}")
    z = w.value(f"udiv i64 {row}, {ny}")
    start = w.value(f"mul i64 {column}, {chunk_x}")
    whole = w.value(f"add i64 {start}, {chunk_x}")
    end = w.value(f"call i64 @llvm.umin.i64(i64 {whole}, i64 {nx})")
    return start, end, w.value(f"trunc i64 {y} to i32"), w.value(f"trunc i64 {z} to i32")


def _groups(w: Writer, count: str, size: int) -> str:
    """How many groups have some of so many threads."""
    return w.value(f"udiv i64 {w.value(f'add i64 {count}, {size - 1}')}, {size}")


def _write_groups(e: RegionEmitter, function: Function, x: str, end: str, leave: str) -> None:
    """A loop over groups."""
    inner = _write_invariants(e, function)
    with counted_loop(e.w, x, end, 1) as group:
        _write_wave(e, group, inner, leave)


def _write_waves(
    e: RegionEmitter, function: Function, x: str, end: str, leave: str, condition: str | None
) -> str:
    """A loop over whole waves, if the condition is true; returns the x where it ends."""
    w, lanes = e.w, e.names.lanes
    count = w.value(f"sub i64 {end}, {x}")
    whole = w.value(f"and i64 {count}, {-lanes}")
    if condition is not None:
        whole = w.value(f"select i1 {condition}, i64 {whole}, i64 0")
    limit = w.value(f"add i64 {x}, {whole}")
    inner = _write_invariants(e, function)
    e.environment.large = write_conditions(w, function)
    with counted_loop(w, x, limit, lanes) as wave:
        _write_wave(e, wave, inner, leave)
    return limit


def _write_masked_waves(e: RegionEmitter, function: Function, x: str, end: str, leave: str) -> None:
    w, lanes = e.w, e.names.lanes
    (mask,) = function.region.parameters
    inner = _write_invariants(e, function)
    with counted_loop(w, x, end, lanes) as wave:
        rest = w.value(f"sub i64 {end}, {wave}")
        count = w.value(f"call i64 @llvm.umin.i64(i64 {rest}, i64 {lanes})")
        e.define(mask, first_lanes(e, w.value(f"trunc i64 {count} to i32")))
        _write_wave(e, wave, inner, leave)


def _write_wave(e: RegionEmitter, wave: str, ops: list[Op], leave: str) -> None:
    _, y, z = e.environment.thread
    e.environment.thread = e.w.value(f"trunc i64 {wave} to i32"), y, z
    variables.begin_wave(e, [inner for op in ops for inner in (op, *_within(op))])
    for op in ops:
        e.op(op)
    if e.environment.uses_arena:
        _write_end_of_tapes(e, leave)


def _within(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)


def _write_end_of_tapes(e: RegionEmitter, leave: str) -> None:
    """The next wave may use their memory; there is none where the launch ran out of it."""
    w, launch = e.w, e.environment.launch
    write_field(w, launch, "arena_used", "%arena_start")
    write_field(w, launch, "released", "0")
    (following,) = w.labels("following")
    shared = read_field(w, launch, "shared")
    stop = w.value(f"load atomic i32, ptr {field_address(w, shared, 'stop')} monotonic, align 4")
    w.branch(w.value(f"icmp ne i32 {stop}, 0"), leave, following)
    w.block(following)


def _write_invariants(e: RegionEmitter, function: Function) -> list[Op]:
    """Write the ops that are the same in all waves of a chunk; returns the others."""
    invariant: set[Value] = set()
    varying = []
    for op in function.region.ops:
        if _is_invariant(op) and invariant.issuperset(op.operands):
            invariant.update(op.results)
            e.op(op)
        else:
            varying.append(op)
    return varying


def _is_invariant(op: Op) -> bool:
    """On operands that are invariant."""
    if op.name in ("thread_id", "group_id"):
        return op.attributes["axis"] != 0
    if op.name == "load":
        address = op.operands[0].type
        return isinstance(address, Pointer) and address.space == "constant"
    return is_arithmetic(op)


def first_lanes(e: RegionEmitter, count: str) -> str:
    """The mask of the first `count` lanes, a number of type i32."""
    lanes = e.names.widened("i32")
    numbers = ", ".join(f"i32 {lane}" for lane in range(e.names.lanes))
    return e.w.value(f"icmp ult {lanes} <{numbers}>, {emit.splat(e, lanes, f'i32 {count}')}")


def _write_drain(w: Writer, entry: str) -> None:
    """Take batches until none is left, `limit` were run, or the launch is to stop."""
    shared, chunks, batch = (read_field(w, "%launch", name) for name in ("shared", "chunks", "batch"))
    take, done = w.labels("take", "done")
    with counted_loop(w, "0", "%limit", 1):
        counter = field_address(w, shared, "next")
        first = w.value(f"atomicrmw add ptr {counter}, i64 {batch} monotonic, align 8")
        w.branch(w.value(f"icmp ult i64 {first}, {chunks}"), take, done)
        w.block(take)
        whole = w.value(f"add i64 {first}, {batch}")
        end = w.value(f"call i64 @llvm.umin.i64(i64 {whole}, i64 {chunks})")
        with counted_loop(w, first, end, 1) as chunk:
            (run,) = w.labels("run")
            stopping = w.value(f"load atomic i32, ptr {field_address(w, shared, 'stop')} monotonic, align 4")
            w.branch(w.value(f"icmp ne i32 {stopping}, 0"), done, run)
            w.block(run)
            w.line(f"call void @{entry}(ptr %arguments, ptr %launch, i64 {chunk})")
    w.jump(done)
    w.block(done)
    w.line("ret void")
