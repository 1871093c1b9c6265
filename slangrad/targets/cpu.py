"""Processors with SIMD lanes and cores as a target: flat IR to machine code.

FlatKernel  ->  Summed       which adds wait for the end of the launch
            ->  Widened      W lanes
            ->  Written      LLVM text
            ->  KernelImage  machine code
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from slangrad.backends import BACKENDS, load_object_code
from slangrad.base.source import Line
from slangrad.flatten.halves import halves_as_floats
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import NARROW_FLOATS, SMALL_FLOATS
from slangrad.ir.ops.core import Function, Program
from slangrad.ir.text import verify
from slangrad.ir.text.printer import function_lines
from slangrad.llvm import cpu
from slangrad.llvm.machine import native
from slangrad.llvm.machine.debug_lines import lines_of_listing, with_debug_lines
from slangrad.llvm.machine.target import TargetMachine
from slangrad.opt.analyses.kernel_facts import follows_memory, is_ordered
from slangrad.opt.checks.foreseen_bounds import Foreseen, foresee_bounds
from slangrad.opt.delayed.chunk_sums import chunk_sums
from slangrad.opt.delayed.delayed_adds import DelayedAdds, delay_adds
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.hoist import hoist
from slangrad.runtime.cpu import DEFAULT_GRANULARITY
from slangrad.runtime.image import DELAYED, DELAYED_GRANULARITY, DRAIN, ENTRY, SHARE, KernelImage
from slangrad.spmd.analyses.width import suitable_lanes
from slangrad.spmd.groups import run_in_groups
from slangrad.spmd.widen import WideKernel, may_be_full, widen
from slangrad.stages import Pass, PassContext, Passes, Stage
from slangrad.targets.target import BuiltKernel, Target
from slangrad.unit import FlatKernel


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """`adds`: the float adds that wait for the end of the launch; None where there are none."""

    flat: FlatKernel
    adds: DelayedAdds | None

    @property
    def program(self) -> Program:
        return Program({f.name: f for f in self.in_ir}, arguments=self.flat.arguments)

    @property
    def in_ir(self) -> list[Function]:
        adds = self.adds
        return self.flat.in_ir if adds is None else [*adds.functions, adds.kernel, adds.plan, adds.reduce]


@dataclass(frozen=True, slots=True, eq=False)
class Widened:
    summed: Summed
    machine: TargetMachine
    wide: WideKernel

    @property
    def program(self) -> Program:
        return Program({f.name: f for f in self.wide.functions}, arguments=self.summed.flat.arguments)

    @property
    def in_ir(self) -> list[Function]:
        wide = self.wide
        return [f for f in (*wide.functions, wide.full, wide.masked) if f is not None]


@dataclass(frozen=True, slots=True, eq=False)
class WithText:
    widened: Widened
    module: cpu.LlvmModule


# --- Stages -------------------------------------------------------------------------------------------


def find_delayed_adds(flat: FlatKernel) -> Summed:
    return Summed(flat, delay_adds(flat.function, flat.functions) if flat.group is None else None)


def widen_kernel(summed: Summed) -> Widened:
    flat, adds = summed.flat, summed.adds
    machine = native.target_of(flat.options)
    function = _for_machine(flat.function if adds is None else adds.kernel, machine)
    functions = [_for_machine(f, machine) for f in (flat.functions if adds is None else adds.functions)]
    lanes = _lanes_for(function, machine, flat.options.lanes)
    if flat.group is not None:
        grouped = run_in_groups(function, lanes, {f.name: f for f in functions})
        wide = widen(grouped, lanes, is_ordered(flat.program), entire=True, functions=functions)
        return Widened(summed, machine, wide)
    exclusive = adds is None and is_ordered(flat.program)
    foreseen = foresee_bounds(function) if lanes > 1 and may_be_full(function) else None
    certain = None if foreseen is None else _cleaned(foreseen, PassContext(flat.options))
    wide = widen(function, lanes, exclusive, certain=certain, functions=functions)
    return Widened(summed, machine, wide)


def _cleaned(foreseen: Foreseen, context: PassContext) -> tuple[Function, Function]:
    return FORESEEN.over(foreseen.kernel, context), FORESEEN.over(foreseen.condition, context)


def _for_machine(function: Function, machine: TargetMachine) -> Function:
    return halves_as_floats(function, SMALL_FLOATS if machine.features.half_arithmetic else NARROW_FLOATS)


def _lanes_for(function: Function, machine: TargetMachine, wanted: int) -> int:
    """A wave's, where the kernel speaks of waves; those that were asked for; else those that suit it."""
    lanes = function.wave or function.attributes.get("wanted_lanes", 0)
    if lanes or wanted:
        return lanes or machine.lanes
    features = machine.features
    return suitable_lanes(function, machine.lanes, features.register_bytes, features.registers)


def write_llvm(widened: Widened) -> WithText:
    flat, adds, machine = widened.summed.flat, widened.summed.adds, widened.machine
    kernel = _kernel_of(flat, widened.wide)
    if adds is not None:
        function, *functions = (_for_machine(f, machine) for f in (flat.function, *flat.functions))
        fallback = widen(function, function.wave or 1, exclusive=True, functions=functions)
        sums = chunk_sums(adds.accumulators, widened.wide.lanes)
        after = cpu.Delayed(adds.plan, sums, adds.reduce, _kernel_of(flat, fallback))
        kernel = replace(kernel, delayed=after)
    return WithText(widened, cpu.kernel_module(kernel, machine, flat.options))


def _kernel_of(flat: FlatKernel, wide: WideKernel) -> cpu.LaneKernel:
    forms = wide.full, wide.masked, wide.lanes
    return cpu.LaneKernel(*forms, flat.arguments, wide.condition, flat.group, functions=wide.functions)


def generate_code(written: WithText) -> tuple[WithText, KernelImage]:
    summed, machine = written.widened.summed, written.widened.machine
    flat, adds, module = summed.flat, summed.adds, written.module
    group = flat.group or (1, 1, 1)
    granularity = DEFAULT_GRANULARITY if adds is None else DELAYED_GRANULARITY
    image = KernelImage(
        name=flat.name,
        argument_size=layout_of(flat.arguments).size,
        code=native.object_code(module.text, machine, flat.options.optimize),
        functions=(ENTRY, DRAIN, SHARE) if adds is None else (ENTRY, DRAIN, SHARE, *DELAYED),
        sites=flat.sites,
        ordered=adds is None and is_ordered(flat.program),
        granularity=max(1, granularity // prod(group)),
        group=group,
        follows_memory=follows_memory(flat.program),
    )
    return written, image


def finish(written_and_image: tuple[WithText, KernelImage]) -> BuiltKernel:
    image = written_and_image[1]
    return BuiltKernel(image.kernel(load_object_code), image)


# --- Listings -----------------------------------------------------------------------------------------


def show_delayed(summed: Summed) -> list[Line]:
    """The kernel whose float adds wait for the end of the launch, with the functions before and after it; None
    without such adds."""
    if summed.adds is None:
        return [Line("// no float add waits for the end of the launch")]
    return [line for f in summed.in_ir for line in function_lines(f)]


def show_lanes(widened: Widened) -> list[Line]:
    return [line for f in widened.in_ir for line in function_lines(f)]


def show_llvm(written: WithText) -> list[Line]:
    return written.module.entry.lines_of(written.module.text)


def show_assembly(written_and_image: tuple[WithText, KernelImage]) -> list[Line]:
    widened, module = written_and_image[0].widened, written_and_image[0].module
    text, lines = with_debug_lines(module.text), module.entry.lines_of(module.text)
    listing = native.assembly(text, widened.machine, widened.summed.flat.options.optimize)
    return [Line(text, lines[n - 1].span if n else None) for text, n in lines_of_listing(listing)]


# fmt: off
FORESEEN = Passes((
    Pass("opt", hoist),
    Pass("opt", remove_dead),
))

TARGET = Target(BACKENDS["cpu"], (
    Stage("delayed", find_delayed_adds, verify.DELAYED, show_delayed),   # opt
    Stage("lanes",   widen_kernel,      verify.LANES,   show_lanes),     # spmd
    Stage("llvm",    write_llvm,        None,           show_llvm),      # llvm
    Stage("asm",     generate_code,     None,           show_assembly),  # llvm
), finish)
# fmt: on
