"""THE pass table: a kernel's text to machine code, stage by stage. Only this file knows the order of passes.

    compiled = compile_kernel(program, source, "kernel", options, "cpu")
    compiled.kernel         what a device launches
    compiled.arguments      the struct that its argument block holds
    compiled.text("lanes")  the program after a stage

To follow a program, read COMMON from top to bottom, then the tail of a target (targets/cpu.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from slangrad import listings
from slangrad.autodiff.checkpointing.report import Report
from slangrad.backends import BACKENDS
from slangrad.base.compiling import compiling
from slangrad.base.options import Options
from slangrad.base.progress import Progress, shown
from slangrad.base.source import Line, SourceFile, source_lines, text_of
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.explanation import Explanation, StageCost, cost_of
from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.math_functions import expand_math, kept_maths
from slangrad.flatten.small_arrays import split_small_arrays
from slangrad.ir.data.types import Array, Struct
from slangrad.ir.ops.core import Function, walk
from slangrad.ir.ops.primitives import INEXACT
from slangrad.ir.text import verify
from slangrad.math_library import MathLibrary
from slangrad.opt.analyses.kernel_facts import read_places, used_arguments
from slangrad.opt.calls.inline import inline_into
from slangrad.opt.checks.escapes import refuse_escapes
from slangrad.opt.checks.finite_checks import check_finite
from slangrad.opt.checks.hoist_checks import hoist_checks
from slangrad.opt.checks.null_checks import check_null
from slangrad.opt.checks.pointer_checks import check_pointers
from slangrad.opt.simplify.branches import simplify_branches
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.forwarding import forward_loads
from slangrad.opt.simplify.hoist import hoist
from slangrad.opt.simplify.products import settle_products
from slangrad.opt.simplify.statics import begin_statics, settle_statics
from slangrad.opt.simplify.unroll import unroll
from slangrad.opt.simplify.unroll_steps import has_steps, unroll_steps
from slangrad.opt.simplify.variables import settle_variables
from slangrad.runtime.device import Kernel
from slangrad.runtime.image import Image
from slangrad.sites import number_sites
from slangrad.spmd.analyses.group_values import check_barriers, runs_in_groups
from slangrad.spmd.ended_threads import pass_ended_threads
from slangrad.stages import Pass, PassContext, Passes, Stage, StageValue, check, differentiate, lower
from slangrad.syntax import ast
from slangrad.targets import c_text, cpu, cuda, interpreter
from slangrad.targets.target import Target
from slangrad.unit import CompileRequest, FlatKernel, InIR, Unit

Listing = Callable[[], list[Line]]


def is_kept(function: Function) -> bool:
    return bool(function.attributes.get("kept"))


# --- Passes that need more than their function -----------------------------------------------------------


def begin(function: Function, context: PassContext) -> Function:
    return begin_statics(context.program, function)


def is_kernel(function: Function, context: PassContext) -> bool:
    return bool(function.attributes.get("kernel"))


def inline(function: Function, context: PassContext) -> Function:
    return inline_into(context.program, function, is_kept, context.options.limits)


def guards(function: Function, context: PassContext) -> Function:
    """Checks around accesses that the library does not guarantee: of any pointer in check mode, else of null."""
    if context.options.check:
        return check_pointers(context.program, function, context.by_hand)
    return check_null(context.program, function)


def write_out(function: Function, context: PassContext) -> Function:
    return unroll(function, context.options.limits)


def no_escapes(function: Function) -> Function:
    refuse_escapes([function])
    return function


def scalars(function: Function, context: PassContext) -> Function:
    return flatten_aggregates(function, context.options.bounds_checks)


def maths(function: Function, context: PassContext) -> Function:
    return expand_math(function, math_library(context), context.program.functions, approximated(context))


def approximated(context: PassContext) -> frozenset[str]:
    """Maths of floats that stays as it is, because the target has instructions for it."""
    assert context.checked is not None
    return context.checked.traits.approximates if context.options.fast_math else frozenset()


def math_library(context: PassContext) -> MathLibrary:
    assert context.checked is not None
    return MathLibrary(context.checked, context.options, partial(FLATTENING.over, context=context))


def without_maths(unit: Unit) -> Unit:
    """Maths functions with many uses join the program, all others are inlined."""
    context = PassContext(unit.options, unit.program, unit.request.checked)
    library, functions = math_library(context), unit.program.functions.values()
    kept = {f.name: f for f in kept_maths(functions, library, approximated(context))}
    return MATHS(replace(unit, program=replace(unit.program, functions=kept | unit.program.functions)))


def even_barriers(function: Function, context: PassContext) -> Function:
    if context.by_hand:  # in a call, values of the threads outside of its shape are missing: an error
        function = pass_ended_threads(function, context.program.functions)
    check_barriers(function, context.program.functions)
    return function


def in_check_mode(function: Function, context: PassContext) -> bool:
    return context.options.check


def has_maths(function: Function, context: PassContext) -> bool:
    return any(op.name in INEXACT for op in walk(function.region))


def has_arrays(function: Function, context: PassContext) -> bool:
    results = (r for op in walk(function.region) for r in op.results)
    return any(isinstance(v.type, Array) for v in (*function.region.parameters, *results))


def has_branches(function: Function, context: PassContext) -> bool:
    return any(op.regions for op in function.region.ops)


def has_steps_to_write_out(function: Function, context: PassContext) -> bool:
    return has_steps(function)


# --- The table ----------------------------------------------------------------------------------------
# fmt: off

INLINING = Passes((
    #    folder     pass                        when, and which passes must come before it
    Pass("opt",     begin,             asks=True, when=is_kernel),
    Pass("opt",     inline,            asks=True,                                  needs=("begin",)),
    Pass("opt",     settle_statics,                                                needs=("inline",)),
    Pass("opt",     settle_variables,                                              needs=("inline",)),
    Pass("opt",     remove_dead,       after_change=True),
    Pass("opt",     settle_products,                                               needs=("settle_variables",)),
    Pass("opt",     no_escapes,                                                    needs=("settle_variables",)),
    Pass("opt",     check_finite,      when=in_check_mode),
))

CLEANING = Passes((
    Pass("opt",     simplify_branches, when=has_branches),
    Pass("opt",     remove_dead),
    Pass("opt",     write_out,         asks=True),
    Pass("opt",     remove_dead,       when=has_steps_to_write_out),
    Pass("opt",     unroll_steps,      when=has_steps_to_write_out,                needs=("remove_dead",)),
    Pass("opt",     simplify_branches, when=has_branches),
    Pass("opt",     hoist,             when=has_branches),
    Pass("opt",     remove_dead),
    Pass("opt",     guards,            asks=True,                                  needs=("hoist",)),
))

FLATTENING = Passes((
    Pass("flatten", scalars,           asks=True),
    Pass("opt",     remove_dead),
    Pass("flatten", split_small_arrays, when=has_arrays,                           needs=("scalars",)),
    Pass("flatten", flatten_arrays,    when=has_arrays,                            needs=("scalars",)),
))

TIDYING = Passes((
    Pass("opt",     forward_loads),
    Pass("opt",     simplify_branches, when=has_branches),
    Pass("opt",     hoist,             when=has_branches),
    Pass("opt",     hoist_checks),
    Pass("opt",     remove_dead),
))

MATHS = Passes((
    Pass("flatten", maths,             asks=True, when=has_maths),
    Pass("opt",     hoist,             after_change=True, when=has_branches),
    Pass("opt",     remove_dead,       after_change=True),
    Pass("spmd",    even_barriers,     asks=True),
))

# Of every target. What a target does with the flat kernel is in targets/.
COMMON: tuple[Stage, ...] = (
    #     name        passes                     legal afterwards        shown as                       folder
    Stage("ast",      check,                     None,                   listings.show_ast),          # syntax, check
    Stage("lowered",  lower,                     verify.LOWERED,         listings.show_program),      # lower
    Stage("autodiff", differentiate,             verify.DIFFERENTIATED,  listings.show_derivatives),  # autodiff
    Stage("inlined",  INLINING,                  verify.INLINED,         listings.show_program),
    Stage("clean",    CLEANING,                  verify.INLINED,         listings.show_program),
    Stage("flat",     FLATTENING + TIDYING,      verify.FLAT,            listings.show_program),
    Stage("math",     without_maths,             verify.FLAT,            listings.show_program),      # MATHS
)
# fmt: on

TARGETS = {target.name: target for target in (cpu.TARGET, cuda.TARGET, interpreter.TARGET, c_text.TARGET)}
assert TARGETS.keys() >= BACKENDS.keys(), BACKENDS.keys() - TARGETS.keys()


def target_of(name: str) -> Target:
    """A target by its name, which may end with an architecture: "cuda:sm_90"."""
    return TARGETS.get(name) or cuda.target_of(name)


# --- Compiling ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """The kernel of a device, and the struct in its argument block. `image`: the machine code, if it can be kept.
    `used`: the arguments that are read; `read`: at which bytes of each, None if unknown. `parameters`: the argument
    of each variable outside of functions. `functions`: the functions after each stage that gives IR.
    """

    kernel: Kernel | None
    image: Image | None
    arguments: Struct
    used: frozenset[str]
    read: dict[str, tuple[int, ...] | None]
    parameters: Mapping[ast.Declaration, str]
    stages: tuple[str, ...]
    milliseconds: Mapping[str, float]
    functions: Mapping[str, Sequence[Function]]
    reports: Mapping[str, Report]
    listings: dict[str, Listing]

    def __repr__(self) -> str:
        spent = sum(self.milliseconds.values())
        return f"CompiledKernel(stages={', '.join(self.stages)}; {spent:.0f} ms)"

    @property
    def costs(self) -> dict[str, StageCost]:
        """The time of each stage, and the size of the program after it, which is counted now."""
        return {name: cost_of(time, self.functions.get(name)) for name, time in self.milliseconds.items()}

    @property
    def explanation(self) -> Explanation:
        """The values that reverse sweeps keep, with reasons; the time of each stage."""
        return Explanation(tuple(self.reports.values()), self.costs)

    def text(self, stage: str) -> str:
        """The program after a stage, as text."""
        return text_of(self.lines(stage))

    def lines(self, stage: str) -> list[Line]:
        """The same in lines with the spans that they come from."""
        return self.listings[stage]()


def compile_kernel(
    checked: CheckedProgram,
    source: SourceFile,
    entry: str,
    options: Options,
    target: str,
    conformances: tuple[Conformance, ...] = (),
) -> CompiledKernel:
    """Run all stages of a target on a function of a text. The text becomes a module of the program and may import
    its others."""
    traits = target_of(target).backend.traits
    return _compile(CompileRequest(checked, source, entry, options, traits, conformances=conformances))


def compile_entry_point(
    checked: CheckedProgram,
    entry: DeclRef,
    options: Options,
    target: str,
    conformances: tuple[Conformance, ...] = (),
) -> CompiledKernel:
    """Run all stages of a target on a function of a checked module."""
    declared: ast.FunctionDeclaration = entry.declaration
    source, traits = declared.span.source, target_of(target).backend.traits
    settings = (declared.name, options, traits, declared, entry.substitution, conformances)
    return _compile(CompileRequest(checked, source, *settings, by_hand=True))


def _compile(request: CompileRequest) -> CompiledKernel:
    target, options = target_of(request.traits.name), request.options
    # A chain of two thousand `else if`s is as deep in the IR.
    with shown(_title(request), options.progress and not options.dump) as progress, compiling():
        run = _StageRun(request, progress, len(COMMON) + len(target.tail))
        unit = run.through(COMMON, request)
        flat = flat_kernel(unit)
        product = target.finish(run.through(target.tail, flat))
    run.listings["kernel"] = partial(source_lines, unit.request.source)  # the one that places name
    return CompiledKernel(
        product.kernel,
        product.image,
        flat.arguments,
        used_arguments(flat.program),
        read_places(flat.program),
        unit.parameters,
        tuple(run.listings),
        run.milliseconds,
        run.functions,
        unit.reports,
        run.listings,
    )


def flat_kernel(unit: Unit) -> FlatKernel:
    """The kernel with which every target begins."""
    assert unit.program.arguments is not None
    group = unit.function.attributes["group_size"] if runs_in_groups(unit.function) else None
    (*functions, kernel), sites = number_sites(unit.in_ir)
    options = unit.options
    if unit.function.attributes.get("precise"):
        options = replace(options, contraction=False, fast_math=False)
    return FlatKernel(unit.name, kernel, tuple(functions), unit.program.arguments, group, sites, options)


def _title(request: CompileRequest) -> str:
    """A page is named after its call."""
    return request.source.name if request.source.is_page else f"kernel {request.entry}"


class _StageRun:
    """A run of the stages: the value of each that can be shown, and its time. `count`: the number of all stages."""

    def __init__(self, request: CompileRequest, progress: Progress, count: int) -> None:
        self.progress = progress
        self.count = count
        self.options = request.options
        self.name = request.entry
        self.milliseconds: dict[str, float] = {}
        self.functions: dict[str, Sequence[Function]] = {}
        self.listings: dict[str, Listing] = {"kernel": lambda: source_lines(request.source)}

    def through(self, stages: Sequence[Stage], value: object) -> StageValue:
        for stage in stages:
            value = self._stage(stage, value)
        return value

    def _stage(self, stage: Stage, value: object) -> object:
        number = len(self.milliseconds) + 1
        self.progress.detail = f"stage {number} of {self.count}, {stage.name}"
        start = perf_counter()
        result = stage.run(value)
        self.milliseconds[stage.name] = 1e3 * (perf_counter() - start)
        if isinstance(result, InIR):
            self.functions[stage.name] = result.in_ir
            if self.options.verify and stage.legal is not None:
                verify.verify(result.program, stage.legal, result.in_ir)
        if stage.lines is not None:
            show = partial(stage.lines, result)
            self.listings[stage.name] = show
            if stage.name in self.options.dump:
                print(f"// {self.name}, after stage '{stage.name}'\n{text_of(show())}")
        return result
