"""A flat kernel as an LLVM module for an NVIDIA GPU, with one entry.

    void kernel(arguments by value, launch block by value)
    void finish(the same)                                       of kernels whose sums are added up afterwards

A thread of the GPU runs one thread of the program. The grid covers x; along y and z a thread goes on with the next row
that no other thread has, because a grid has at most 65,535 blocks there. Threads of kernels that take memory go on
along x as well, with the memory that they have. So do threads whose local arrays do not fit on their stack. Kernels of
groups or waves have a block for each group, in one row of blocks. This file makes text; machine/nvptx.py makes PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

from slangrad.base.options import Options
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Struct
from slangrad.ir.ops.core import Function, walk
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.ir.text.verify import FLAT_OPS
from slangrad.llvm import functions
from slangrad.llvm.cuda import approximations, atomics, groups, launch, memory, reports, tapes, waves
from slangrad.llvm.cuda.launch import ARENA_HEADER, LAUNCH_SIZE, read_field
from slangrad.llvm.cuda.unrolling import loops_of_arrays
from slangrad.llvm.machine.target import Features
from slangrad.llvm.memory.memory import Locals
from slangrad.llvm.text import emit
from slangrad.llvm.text.emit import Environment, RegionEmitter, Rule
from slangrad.llvm.text.type_names import TypeNames
from slangrad.llvm.text.writer import Declarations, Writer, counted_loop

RULES: Mapping[str, Rule] = {
    name: rule
    for rules in (emit, functions, memory, atomics, reports, launch, groups, waves, tapes, approximations)
    for name, rule in rules.RULES.items()
}
_WITHOUT_RULE = FLAT_OPS - RULES.keys()
assert all(PRIMITIVES[name].primal is not None for name in _WITHOUT_RULE), _WITHOUT_RULE

Thread = tuple[str, str, str]  # its ids along x, y and z
Grid = tuple[int, int, int]
ENTRY, FINISH = "kernel", "finish"
THREADS = 256  # of a block, at most
FEATURES = Features(
    half=True, fma=True, masked_loads=False, masked_stores=False, mask_registers=False, half_arithmetic=True
)
_FIRST_LOOP = 5  # the number of the metadata of loops
MANY_BYTES = (
    128  # of arrays in registers, from which a thread gets no more than lets three blocks run at a time
)
_UNLIMITED = 1 << 62  # bytes of a stack, where no local array goes to the arena
LARGEST_ARGUMENTS = 32_764 - LAUNCH_SIZE  # bytes of parameters that an entry may have

_FOOTER = """!0 = !{}
!1 = !{!"branch_weights", i32 2000, i32 1}
!2 = distinct !{!2, !3}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = !{!"llvm.loop.unroll.full"}
attributes #0 = { nounwind }"""


@dataclass(frozen=True, slots=True)
class NeighborKernel:
    """A kernel for `lanes` neighboring threads at a time. It runs where `aligned` yields true for the first of them."""

    lanes: int
    function: Function
    aligned: Function


@dataclass(frozen=True, slots=True)
class EntryModule:
    """LLVM text with the entry. `group`: the threads of a block, where the kernel is compiled for one size. `shared`:
    the bytes of shared memory that a launch has to state. `lanes`: the threads of the program for one of the GPU.
    `takes_memory`: threads take memory of an arena; without groups, a few threads may run the whole grid. `frame`: the
    bytes of local arrays that each thread has there from the start."""

    text: str
    entry: Writer
    group: Grid | None = None
    shared: int = 0
    lanes: int = 1
    takes_memory: bool = False
    frame: int = 0


@dataclass(frozen=True, slots=True)
class EntryFunctions:
    """The functions of a module. `arguments`: the argument block. `group`: the size of groups whose threads run
    together. `wide`: the kernel for several threads. `finish`: runs after the kernel, in groups without shared
    memory."""

    kernel: Function
    called: tuple[Function, ...]
    arguments: Struct
    group: Grid | None
    wide: NeighborKernel | None = None
    finish: Function | None = None


def kernel_module(entered: EntryFunctions, options: Options, reassociates: bool = False) -> EntryModule:
    """`reassociates`: sums may be added in another order."""
    kernel, called, arguments, group = entered.kernel, entered.called, entered.arguments, entered.group
    wide, finish = entered.wide, entered.finish
    declarations = Declarations()
    mixed = memory.has_variables((kernel, *called))
    shared = groups.SharedMemory.of(walk(kernel.region))
    goes_on = kernel.attributes.get("stays", group is None)
    frame = Locals(memory.stack_bytes(kernel)) if goes_on and memory.overflows_stack(kernel) else None
    deep = goes_on and any(memory.overflows_stack(function, is_called=True) for function in called)
    has_pool = deep or tapes.take_memory((kernel, *called))
    takes_memory = has_pool or frame is not None
    written_out, in_registers = loops_of_arrays(kernel)
    numbers = {
        op: n for n, op in enumerate((op for op in walk(kernel.region) if op in written_out), _FIRST_LOOP)
    }
    loops = {op: f", !llvm.loop !{n}" for op, n in numbers.items()}

    def environment(thread: Thread, pool: str, local: Locals) -> Environment:
        """Nothing on a GPU looks whether to stop: in place of a budget, functions get the pool."""
        around = Environment("%arguments", arguments, "%launch", thread, local)
        around.mixed_spaces, around.shared = mixed, shared.addresses
        around.budget, around.pool = pool or "null", pool
        around.loops = loops
        return around

    def writer() -> Writer:
        w = Writer(declarations, FEATURES, options.contraction)
        w.approximate = " arcp afn" if options.fast_math else ""
        w.contract += " reassoc nsz" if reassociates else ""
        return w

    entry = writer()
    pool = tapes.write_pool(entry) if has_pool else ""
    around_thread = partial(environment, pool=pool, local=frame or Locals(_UNLIMITED))
    line = 0 if frame is None else _begin_frame(entry)
    if wide is not None:
        _write_wide_map(entry, kernel, wide, around_thread)
    elif group is None:
        _write_map(entry, kernel, around_thread, takes_memory)
    else:
        _write_group(entry, kernel, around_thread, group, shared)
    if frame is not None:
        entry.lines[line] += str(frame.arena_size)
    parts = [shared.text] if shared.size else []
    parts.append(_entry_text(ENTRY, entry, arguments, 1))
    if finish is not None:
        last, size = writer(), finish.attributes["group_size"]
        around_last = partial(environment, pool="", local=Locals(_UNLIMITED))
        _write_group(last, finish, around_last, size, groups.SharedMemory())
        parts.append(_entry_text(FINISH, last, arguments, 2))
    for function in called:
        local = Locals(memory.stack_bytes(function, is_called=True) if deep else _UNLIMITED)
        around = environment(("%x", "%y", "%z"), "%budget" if has_pool else "", local)
        parts.append(functions.write_function(writer(), function, around, 1, RULES))
    parts += [*declarations.functions.values(), *declarations.intrinsics.values(), _FOOTER]
    parts += [f"!{n} = distinct !{{!{n}, !4}}" for n in numbers.values()]
    parts.append(f"attributes #1 = {{ {_limits(group, in_registers)} }}")
    if finish is not None:
        parts.append(f"attributes #2 = {{ {_limits(finish.attributes['group_size'], 0)} }}")
    return EntryModule(
        text="\n".join(parts) + "\n",
        entry=entry,
        group=group,
        shared=shared.dynamic_size,
        lanes=1 if wide is None else wide.lanes,
        takes_memory=takes_memory,
        frame=frame.arena_size if frame else 0,
    )


def _limits(group: Grid | None, in_registers: int) -> str:
    """Attributes of the entry. Threads that wait for each other must not be led apart by the compiler. The assembler
    keeps what could be computed again, so where arrays take registers it gets a limit."""
    if group is None:
        blocks = ' "nvvm.minctasm"="3"' if in_registers >= MANY_BYTES else ""
        return f'nounwind "nvvm.maxntid"="{THREADS}"{blocks}'
    return f'convergent nounwind "nvvm.reqntid"="{",".join(map(str, group))}"'


def _entry_text(name: str, w: Writer, arguments: Struct, attributes: int) -> str:
    blocks = [f"[{max(layout_of(arguments).size, 1)} x i8]", f"[{LAUNCH_SIZE} x i8]"]
    parameters = [f'ptr byval({t}) align 16 "nvvm.grid_constant" noalias' for t in blocks]
    signature = f"@{name}({parameters[0]} %arguments, {parameters[1]} %launch)"
    head = f"define ptx_kernel void {signature} #{attributes} {{\nbegin:"
    return "\n".join([head, *w.entry, "  br label %entry", "entry:", *w.lines, "}", ""])


# --- maps


def _write_map(
    w: Writer, kernel: Function, environment: Callable[[Thread], Environment], stays: bool
) -> None:
    if stays:
        with _rows(w, "z") as z, _rows(w, "y") as y, _rows(w, "x") as x:
            _write_thread(RegionEmitter(w, TypeNames(1), environment((x, y, z)), RULES), kernel)
        w.line("ret void")
        return
    x = _first(w, "x")
    inside, done = w.labels("inside", "done")
    w.branch(w.value(f"icmp ult i64 {_wide(w, x)}, {read_field(w, '%launch', 'nx')}"), inside, done)
    w.block(inside)
    with _rows(w, "z") as z, _rows(w, "y") as y:
        _write_thread(RegionEmitter(w, TypeNames(1), environment((x, y, z)), RULES), kernel)
    w.jump(done)
    w.block(done)
    w.line("ret void")


def _begin_frame(w: Writer) -> int:
    """`%locals`, the place of this thread in the arena. Gives the number of a line that lacks the size of a frame.
    Blocks have one layer of threads."""
    block = _register(w, "ctaid.z")
    for axis in "yx":
        rows = w.value(f"mul i32 {block}, {_register(w, f'nctaid.{axis}')}")
        block = w.value(f"add i32 {rows}, {_register(w, f'ctaid.{axis}')}")
    row = w.value(f"mul i32 {block}, {_register(w, 'ntid.y')}")
    row = w.value(f"add i32 {row}, {_register(w, 'tid.y')}")
    row = w.value(f"mul i32 {row}, {_register(w, 'ntid.x')}")
    thread = _wide(w, w.value(f"add i32 {row}, {_register(w, 'tid.x')}"))
    number = w.reserve_line()
    w.lines[number] = f"  %frames_before = mul i64 {thread}, "
    start = w.value(f"getelementptr i8, ptr {read_field(w, '%launch', 'arena')}, i64 {ARENA_HEADER}")
    w.line(f"%locals = getelementptr i8, ptr {start}, i64 %frames_before")
    return number


def _write_thread(e: RegionEmitter, kernel: Function) -> None:
    if e.environment.pool:
        tapes.begin_thread(e, e.environment.pool, kernel)
    e.region(kernel.region)


def _write_wide_map(
    w: Writer, kernel: Function, wide: NeighborKernel, environment: Callable[[Thread], Environment]
) -> None:
    """A block has a piece of a row, of `lanes` times its size. A thread runs neighbors in it; where the row ends within
    the piece, or memory is not aligned, it runs one after the other, a block's size apart."""
    size, thread = _register(w, "ntid.x"), _register(w, "tid.x")
    piece = _wide(w, w.value(f"mul i32 {size}, {wide.lanes}"))
    start = w.value(f"mul i64 {_wide(w, _register(w, 'ctaid.x'))}, {piece}")
    end, count = w.value(f"add i64 {start}, {piece}"), read_field(w, "%launch", "nx")
    is_whole = w.value(f"icmp ule i64 {end}, {count}")
    place = w.value(f"mul i32 {thread}, {wide.lanes}")
    first = w.value(f"add i32 {w.value(f'trunc i64 {start} to i32')}, {place}")
    alone, step = w.value(f"add i64 {start}, {_wide(w, thread)}"), _wide(w, size)
    last = w.value(f"call i64 @llvm.umin.i64(i64 {end}, i64 {count})")
    with _rows(w, "z") as z, _rows(w, "y") as y:
        together, apart, done = w.labels("together", "apart", "done")
        around = environment((first, y, z))
        (is_aligned,) = RegionEmitter(w, TypeNames(1), around, RULES).region(wide.aligned.region)
        w.branch(w.value(f"and i1 {is_whole}, {is_aligned}"), together, apart)
        w.block(together)
        RegionEmitter(w, TypeNames(wide.lanes), around, RULES).region(wide.function.region)
        w.jump(done)
        w.block(apart)
        with counted_loop(w, alone, last, step, hint=", !llvm.loop !2") as x:
            narrow = w.value(f"trunc i64 {x} to i32")
            RegionEmitter(w, TypeNames(1), environment((narrow, y, z)), RULES).region(kernel.region)
        w.jump(done)
        w.block(done)
    w.line("ret void")


def _register(w: Writer, name: str) -> str:
    return w.value(f"call i32 @llvm.nvvm.read.ptx.sreg.{name}()")


def _wide(w: Writer, number: str) -> str:
    return w.value(f"zext i32 {number} to i64")


def _first(w: Writer, axis: str) -> str:
    """The number of this thread along an axis of the grid, u32."""
    block, size, thread = (_register(w, f"{name}.{axis}") for name in ("ctaid", "ntid", "tid"))
    return w.value(f"add i32 {w.value(f'mul i32 {block}, {size}')}, {thread}")


@contextmanager
def _rows(w: Writer, axis: str) -> Iterator[str]:
    """The code in it runs for each number along an axis that this thread has."""
    start = _wide(w, _first(w, axis))
    size, blocks = _register(w, f"ntid.{axis}"), _register(w, f"nctaid.{axis}")
    step, limit = _wide(w, w.value(f"mul i32 {blocks}, {size}")), read_field(w, "%launch", f"n{axis}")
    with counted_loop(w, start, limit, step) as index:
        yield w.value(f"trunc i64 {index} to i32")


# --- groups and waves


def _write_group(
    w: Writer,
    kernel: Function,
    environment: Callable[[Thread], Environment],
    group: Grid,
    shared: groups.SharedMemory,
) -> None:
    """Threads outside of the grid end once the shared memory is clear; a kernel that stays has none of these."""
    own = [_register(w, f"tid.{axis}") for axis in "xyz"]
    number = _number_in_group(w, own, group) if shared.size or kernel.wave else ""
    if shared.size:
        groups.clear(w, shared, number, prod(group))
    stays = kernel.attributes.get("stays", False)
    thread, is_inside = ((_first(w, "x"), "0", "0"), "true") if stays else _place(w, own, group)
    around, lanes = environment(thread), None
    if kernel.wave:
        mask = waves.ALL if stays else waves.ballot(w, waves.ALL, is_inside)
        lanes = waves.ThreadWave(waves.lane_number(w, number), mask, kernel.wave)
    inside, done = w.labels("inside", "done")
    w.branch(is_inside, inside, done)
    w.block(inside)
    if lanes is None:
        _write_thread(RegionEmitter(w, TypeNames(1), around, RULES), kernel)
    else:
        makers = kernel.region.makers
        _write_thread(waves.WaveEmitter(w, TypeNames(1), around, RULES, lanes, makers), kernel)
    w.jump(done)
    w.block(done)
    w.line("ret void")


def _number_in_group(w: Writer, own: Sequence[str], group: Grid) -> str:
    """x runs fastest, then y. A warp has consecutive numbers."""
    if group[1] == group[2] == 1:
        return own[0]
    row = own[1]
    if group[2] > 1:
        row = w.value(f"add i32 {w.value(f'mul i32 {own[2]}, {group[1]}')}, {row}")
    return w.value(f"add i32 {w.value(f'mul i32 {row}, {group[0]}')}, {own[0]}")


def _place(w: Writer, own: Sequence[str], group: Grid) -> tuple[Thread, str]:
    """The ids of a thread by the number of its block and its place there, and whether it is in the grid."""
    left, ids, is_inside = _wide(w, _register(w, "ctaid.x")), list[str](), "true"
    for axis, place, size in zip("xyz", own, group, strict=True):
        extent = read_field(w, "%launch", f"n{axis}")
        number = left
        if axis != "z":
            count = w.value(f"udiv i64 {w.value(f'add i64 {extent}, {size - 1}')}, {size}")
            left = w.value(f"udiv i64 {number}, {count}")
            number = w.value(f"sub i64 {number}, {w.value(f'mul i64 {left}, {count}')}")
        index = w.value(f"add i64 {w.value(f'mul i64 {number}, {size}')}, {_wide(w, place)}")
        ids.append(w.value(f"trunc i64 {index} to i32"))
        is_inside = w.value(f"and i1 {is_inside}, {w.value(f'icmp ult i64 {index}, {extent}')}")
    return (ids[0], ids[1], ids[2]), is_inside
