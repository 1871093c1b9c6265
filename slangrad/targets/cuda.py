"""NVIDIA GPUs as a target: flat IR to PTX, one GPU thread for each thread of the program, or for a few neighbors.

FlatKernel  ->  GpuSummed     adds of all threads to few addresses become sums
            ->  Coarsened    several threads in one, beside the kernel itself
            ->  Written    LLVM text
            ->  Assembled  PTX

All other adds are atomics at once. The driver makes machine code of the PTX (runtime/cuda/device.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod

from slangrad.backends import backend_of
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Line
from slangrad.ir.building.rebuild import count_uses
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import is_float, pointer_of
from slangrad.ir.ops.core import Function, Program, Value, walk
from slangrad.ir.text import verify
from slangrad.ir.text.printer import function_lines
from slangrad.llvm.cuda import entries
from slangrad.llvm.cuda.groups import MOST_THREADS, SharedMemory
from slangrad.llvm.cuda.memory import overflows_stack
from slangrad.llvm.cuda.tapes import take_memory
from slangrad.llvm.machine import nvptx
from slangrad.opt.checks.foreseen_bounds import choose_at_launch, foresee_bounds_of_launch
from slangrad.opt.delayed.delayed_adds import delay_few_sums
from slangrad.opt.delayed.gpu_sums import GpuSums, sum_many_threads
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.hoist import hoist
from slangrad.runtime.cuda.image import ARENA, MEMORY, PRINTS, CudaImage
from slangrad.spmd.coarse import CoarseKernel, coarsen
from slangrad.stages import Pass, PassContext, Passes, Stage
from slangrad.targets.target import BuiltKernel, Target
from slangrad.unit import FlatKernel

DEFAULT_ARCHITECTURE = "sm_90"
COMMUTING = ("add", "min", "max", "and", "or", "xor")  # kinds of atomics on whole numbers, in any order
NEEDS = {"print": PRINTS, "is_memory": MEMORY}  # of the device, by ops


@dataclass(frozen=True, slots=True, eq=False)
class GpuSummed:
    """`sums`: the kernel that adds up, None where it is the flat one. `functions`: those that it calls."""

    flat: FlatKernel
    sums: GpuSums | None
    functions: tuple[Function, ...]

    @property
    def kernel(self) -> Function:
        return self.flat.function if self.sums is None else self.sums.kernel

    @property
    def program(self) -> Program:
        return Program({f.name: f for f in self.in_ir}, arguments=self.flat.arguments)

    @property
    def in_ir(self) -> list[Function]:
        functions = [*self.functions, self.kernel]
        return functions if self.sums is None or self.sums.finish is None else [*functions, self.sums.finish]


@dataclass(frozen=True, slots=True, eq=False)
class Coarsened:
    """`coarse`: the kernel for a few threads at a time, where there is one, beside the kernel for one."""

    summed: GpuSummed
    coarse: CoarseKernel | None

    @property
    def program(self) -> Program:
        return self.summed.program

    @property
    def in_ir(self) -> list[Function]:
        return [] if self.coarse is None else [self.coarse.wide, self.coarse.aligned]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    summed: GpuSummed
    module: entries.EntryModule

    @property
    def flat(self) -> FlatKernel:
        return self.summed.flat


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    written: Written
    ptx: str
    architecture: str


# --- Stages -------------------------------------------------------------------------------------------


def find_sums(flat: FlatKernel) -> GpuSummed:
    called = flat.functions
    few = None
    if flat.group is None and not take_memory(flat.in_ir):
        few = delay_few_sums(flat.function, called)
    if flat.options.deterministic:
        _refuse_unordered(flat.in_ir if few is None else [*few.functions, few.kernel])
    if few is None:
        return GpuSummed(_without_checks_in_loops(flat), None, called)
    called = (*called, *few.functions)
    foreseen = None if few.plan.blocks else foresee_bounds_of_launch(few.kernel)
    certain = None if foreseen is None else (foreseen.condition, foreseen.kernel)
    in_order = flat.options.deterministic
    sums = sum_many_threads(flat.function, few.kernel, called, few.plan, certain, in_order)
    if sums is not None and certain is not None and overflows_stack(sums.kernel):  # it has all arrays twice
        sums = sum_many_threads(flat.function, few.kernel, called, few.plan)
    if sums is None and in_order:
        _refuse_unordered(flat.in_ir)
    if sums is None:
        return GpuSummed(_without_checks_in_loops(flat), None, flat.functions)
    context = PassContext(flat.options)
    finish = sums.finish and TIDYING.over(sums.finish, context)
    sums = replace(sums, kernel=TIDYING.over(sums.kernel, context), finish=finish)
    return GpuSummed(flat, sums, called if sums.fallback is None else (*called, sums.fallback))


def _refuse_unordered(functions: Sequence[Function]) -> None:
    """CompileError for an atomic operation whose outcome depends on the order of threads."""
    uses = Counter[Value]()
    for function in functions:
        uses.update(count_uses(function.region))
    for op in (op for function in functions for op in walk(function.region) if op.name == "atomic"):
        is_alone = op.attributes.get("alone") or pointer_of(op.operands[0].type).space == "local"
        adds_floats = op.attributes["kind"] == "add" and is_float(op.results[0].type)
        is_ordered = op.attributes["kind"] in COMMUTING and not adds_floats and not uses[op.results[0]]
        if not is_alone and not is_ordered:
            cause = "adds floats in no fixed order" if adds_floats else "depends on the order of threads"
            message = f"this atomic operation {cause} on CUDA, and the option deterministic is on"
            note = (
                "the CPU device has a fixed order: create_device('cpu'); on a GPU at most 1,024 sums, whose indices "
                "do not depend on the thread, have one"
            )
            raise CompileError([Diagnostic("E9013", message, op.span, note)])


def _without_checks_in_loops(flat: FlatKernel) -> FlatKernel:
    """The kernel in two forms, where the launch decides checks of its loops and nothing else keeps them together."""
    kernel = flat.function
    if flat.group is not None or kernel.wave or take_memory(flat.in_ir):
        return flat
    foreseen = foresee_bounds_of_launch(kernel)
    if foreseen is None:
        return flat
    both = TIDYING.over(choose_at_launch(kernel, foreseen), PassContext(flat.options))
    return flat if overflows_stack(both) and not overflows_stack(kernel) else replace(flat, function=both)


def widen_kernel(summed: GpuSummed, architecture: str) -> Coarsened:
    flat = summed.flat
    _refuse(flat, nvptx.SHARED_BYTES[architecture])
    waits = flat.group is not None or summed.kernel.wave
    lanes = flat.options.lanes or flat.function.attributes.get("wanted_lanes", 0)
    one = waits or lanes == 1 or overflows_stack(flat.function)
    return Coarsened(summed, None if one else coarsen(flat.function))


def write_llvm(widened: Coarsened) -> Written:
    summed, coarse = widened.summed, widened.coarse
    flat, kernel = summed.flat, summed.kernel
    group = kernel.attributes["group_size"] if kernel.wave else flat.group
    wide = None if coarse is None else entries.NeighborKernel(coarse.lanes, coarse.wide, coarse.aligned)
    finish = None if summed.sums is None else summed.sums.finish
    loose = flat.options.fast_math and not any(f.attributes.get("relies_on_rounding") for f in flat.in_ir)
    functions = entries.EntryFunctions(kernel, summed.functions, flat.arguments, group, wide, finish)
    return Written(summed, entries.kernel_module(functions, flat.options, loose))


def _refuse(flat: FlatKernel, most_shared: int) -> None:
    """CompileError for kernels that are too large for the target."""
    size = layout_of(flat.arguments).size
    shared = SharedMemory.of(walk(flat.function.region)).size
    message, note = "", "the CPU device runs this kernel: create_device('cpu')"
    if flat.group is not None and prod(flat.group) > MOST_THREADS:
        message = f"a group has {prod(flat.group)} threads, and on CUDA at most {MOST_THREADS} run together"
    elif shared > most_shared:
        message = f"groupshared variables take {shared} bytes, and a group on this GPU has {most_shared}"
    elif size > entries.LARGEST_ARGUMENTS:
        message = (
            f"the arguments take {size} bytes, and a launch on CUDA has room for {entries.LARGEST_ARGUMENTS}"
        )
        note = "put large values into a tensor or a buffer"
    if message:
        raise CompileError([Diagnostic("E9003", message, flat.function.span, note)])


def generate_code(written: Written, architecture: str) -> Assembled:
    flat = written.flat
    ptx = nvptx.ptx(written.module.text, architecture, flat.options.optimize)
    return Assembled(written, ptx, architecture)


def finish(assembled: Assembled) -> BuiltKernel:
    flat, module, sums = assembled.written.flat, assembled.written.module, assembled.written.summed.sums
    image = CudaImage(
        name=flat.name,
        argument_size=layout_of(flat.arguments).size,
        code=assembled.ptx.encode(),
        architecture=assembled.architecture,
        sites=flat.sites,
        synchronous=flat.options.check,
        group=module.group,
        shared=module.shared,
        lanes=module.lanes,
        frame=module.frame,
        sums=None if sums is None else (sums.row, sums.count),
        needs=_needs(flat) | ({ARENA} if module.takes_memory else set()),
    )
    return BuiltKernel(image.kernel(), image)


def _needs(flat: FlatKernel) -> frozenset[str]:
    ops = {op.name for function in flat.in_ir for op in walk(function.region)}
    return frozenset(need for name, need in NEEDS.items() if name in ops)


# --- Listings -----------------------------------------------------------------------------------------


def show_sums(summed: GpuSummed) -> list[Line]:
    if summed.sums is None:
        return [Line("// no adds of all threads become sums")]
    return [line for f in summed.in_ir for line in function_lines(f)]


def show_lanes(widened: Coarsened) -> list[Line]:
    functions = widened.in_ir
    if not functions:
        return [Line("// a thread of the GPU for each thread of the program")]
    return [line for f in functions for line in function_lines(f)]


def show_llvm(written: Written) -> list[Line]:
    return written.module.entry.lines_of(written.module.text)


def show_ptx(assembled: Assembled) -> list[Line]:
    return list(map(Line, assembled.ptx.split("\n")))


# fmt: off
TIDYING = Passes((
    Pass("opt", hoist),
    Pass("opt", remove_dead),
))
# fmt: on


@cache
def target_of(name: str) -> Target:
    """ "cuda:sm_90" as a target; "cuda" alone is the default architecture. ValueError for one that is not known."""
    architecture = name.partition(":")[2] or DEFAULT_ARCHITECTURE
    if architecture not in nvptx.ARCHITECTURES:
        architectures = ", ".join(nvptx.ARCHITECTURES)
        raise ValueError(f"target: unknown architecture '{architecture}'; there are {architectures}")
    widen = partial(widen_kernel, architecture=architecture)
    code = partial(generate_code, architecture=architecture)
    # fmt: off
    return Target(backend_of(name), (
        Stage("delayed", find_sums,  verify.DELAYED, show_sums),   # opt
        Stage("lanes",   widen,      verify.LANES,   show_lanes),  # spmd
        Stage("llvm",    write_llvm, None,           show_llvm),   # llvm
        Stage("ptx",     code,       None,           show_ptx),    # llvm
    ), finish)
    # fmt: on


TARGET = target_of("cuda")
