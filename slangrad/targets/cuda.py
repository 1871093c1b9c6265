"""NVIDIA GPUs as a target: flat IR to PTX, one GPU thread for each thread of the program, or for a few neighbors.

FlatKernel  ->  Widened    several threads in one, beside the kernel itself
            ->  Written    LLVM text
            ->  Assembled  PTX

Adds are atomics at once. Tapes and variables of functions that call themselves are refused (E9003). The driver
makes machine code of the PTX (runtime/cuda/device.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from math import prod

from slangrad.backends import backend_of
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Line
from slangrad.ir.data.layout import layout_of
from slangrad.ir.ops.core import Function, Program, walk
from slangrad.ir.text import verify
from slangrad.ir.text.printer import function_lines
from slangrad.llvm.cuda import entries
from slangrad.llvm.cuda.groups import MOST_THREADS, SharedMemory
from slangrad.llvm.machine import nvptx
from slangrad.runtime.cuda.image import ARENA, MEMORY, PRINTS, CudaImage
from slangrad.spmd.coarse import CoarseKernel, coarsen
from slangrad.stages import Stage
from slangrad.targets.target import BuiltKernel, Target
from slangrad.unit import FlatKernel

DEFAULT_ARCHITECTURE = "sm_90"
NEEDS = {"print": PRINTS, "is_memory": MEMORY}  # of the device, by ops


@dataclass(frozen=True, slots=True, eq=False)
class Widened:
    """`coarse`: the kernel for a few threads at a time, where there is one, beside the kernel for one."""

    flat: FlatKernel
    coarse: CoarseKernel | None

    @property
    def program(self) -> Program:
        return self.flat.program

    @property
    def in_ir(self) -> list[Function]:
        return [] if self.coarse is None else [self.coarse.wide, self.coarse.aligned]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    flat: FlatKernel
    module: entries.EntryModule


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    written: Written
    ptx: str
    architecture: str


# --- Stages -------------------------------------------------------------------------------------------


def widen_kernel(flat: FlatKernel, architecture: str) -> Widened:
    _refuse(flat, nvptx.SHARED_BYTES[architecture])
    waits = flat.group is not None or flat.function.wave
    asked = flat.options.lanes or flat.function.attributes.get("wanted_lanes", 0)
    return Widened(flat, None if waits or asked == 1 else coarsen(flat.function))


def write_llvm(widened: Widened) -> Written:
    flat, coarse = widened.flat, widened.coarse
    group = flat.group
    if flat.function.wave:
        group = flat.function.attributes["group_size"]
    wide = None if coarse is None else entries.WideKernel(coarse.lanes, coarse.wide, coarse.aligned)
    called, arguments = flat.functions, flat.arguments
    module = entries.kernel_module(flat.function, called, arguments, flat.options, group, wide)
    return Written(flat, module)


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
    flat, module = assembled.written.flat, assembled.written.module
    image = CudaImage(
        name=flat.name,
        argument_size=max(layout_of(flat.arguments).size, 1),
        code=assembled.ptx.encode(),
        architecture=assembled.architecture,
        sites=flat.sites,
        synchronous=flat.options.check,
        group=module.group,
        shared=module.shared,
        lanes=module.lanes,
        needs=_needs(flat) | ({ARENA} if module.takes_memory else set()),
    )
    return BuiltKernel(image.kernel(), image)


def _needs(flat: FlatKernel) -> frozenset[str]:
    ops = {op.name for function in flat.in_ir for op in walk(function.region)}
    return frozenset(need for name, need in NEEDS.items() if name in ops)


# --- Listings -----------------------------------------------------------------------------------------


def show_lanes(widened: Widened) -> list[Line]:
    functions = widened.in_ir
    if not functions:
        return [Line("// a thread of the GPU for each thread of the program")]
    return [line for f in functions for line in function_lines(f)]


def show_llvm(written: Written) -> list[Line]:
    return written.module.lines()


def show_ptx(assembled: Assembled) -> list[Line]:
    return list(map(Line, assembled.ptx.split("\n")))


@cache
def target_of(name: str) -> Target:
    """ "cuda:sm_90" as a target; "cuda" alone is the default architecture. ValueError for one that is not known."""
    architecture = name.partition(":")[2] or DEFAULT_ARCHITECTURE
    if architecture not in nvptx.ARCHITECTURES:
        known = ", ".join(nvptx.ARCHITECTURES)
        raise ValueError(f"target: unknown architecture '{architecture}'; there are {known}")
    widen = partial(widen_kernel, architecture=architecture)
    code = partial(generate_code, architecture=architecture)
    # fmt: off
    return Target(backend_of(name), (
        Stage("lanes", widen,      verify.LANES, show_lanes),  # spmd
        Stage("llvm",  write_llvm, None,         show_llvm),   # llvm
        Stage("ptx",   code,       None,         show_ptx),    # llvm
    ), finish)
    # fmt: on


TARGET = target_of("cuda")
