"""THE pass table: a kernel's text to machine code, stage by stage. Only this file knows the order of passes.

    compiled = compile_kernel(program, source, "kernel", options, "cpu")
    compiled.kernel         what a device launches
    compiled.arguments      the struct that its argument block holds
    compiled.text("lanes")  the program after a stage

To follow a program, read STAGES from top to bottom; each row names the folder that does the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import ClassVar

from slangrad.autodiff.report import Report
from slangrad.autodiff.requests import differentiate
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.base.recursion import deep_recursion
from slangrad.base.source import Line, SourceFile, source_lines, text_of
from slangrad.check import checked as forms
from slangrad.check.declref import DeclRef, Substitution
from slangrad.check.files import STD
from slangrad.check.modules import Program as CheckedProgram
from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.math_functions import expand_math
from slangrad.flatten.small_arrays import split_small_arrays
from slangrad.ir import verify
from slangrad.ir.core import Function, Op, Program, walk
from slangrad.ir.interpret import run_kernel
from slangrad.ir.layout import layout_of
from slangrad.ir.numbers import Number
from slangrad.ir.rebuild import count_uses
from slangrad.ir.text import function_lines, program_lines
from slangrad.ir.types import Scalar, Struct, is_float
from slangrad.llvm import cpu, native
from slangrad.llvm.debug_lines import lines_of_listing, with_debug_lines
from slangrad.llvm.target import Features, Target
from slangrad.lower.instances import lower_functions, lower_program
from slangrad.lower.type_map import SCALARS
from slangrad.opt.branches import simplify_branches
from slangrad.opt.chunk_sums import chunk_sums
from slangrad.opt.dead import remove_dead
from slangrad.opt.delayed_adds import DelayedAdds, delay_adds
from slangrad.opt.forwarding import forward_loads
from slangrad.opt.hoist import hoist
from slangrad.opt.inline import inline, inline_into
from slangrad.opt.unroll import unroll
from slangrad.runtime.cpu import DEFAULT_GRANULARITY
from slangrad.runtime.device import Grid, Kernel, PythonKernel
from slangrad.runtime.image import DELAYED, DELAYED_GRANULARITY, DRAIN, ENTRY, KernelImage
from slangrad.runtime.object_code import Loaded, load_object
from slangrad.runtime.processors import available_processors
from slangrad.runtime.relocations import Unloadable
from slangrad.runtime.reports import BOUNDS, Reports, Site
from slangrad.spmd.widen import WideKernel, widen
from slangrad.spmd.width import suitable_lanes
from slangrad.syntax import ast
from slangrad.syntax.print import node_lines
from slangrad.syntax.walk import walk as walk_tree

CPU, INTERPRETER = "cpu", "interpreter"
SIMD_FLAG = re.compile(r"s?sse|avx|fma|f16c|neon|sve|bf16|fullfp16")
BOTH = (CPU, INTERPRETER)
Listing = Callable[[], list[Line]]


@dataclass(slots=True, eq=False)
class Compilation:
    """A kernel on its way: each stage replaces what it changes."""

    checked: CheckedProgram
    source: SourceFile
    entry: str
    options: Options
    target: str
    declared: ast.Function | None = None
    substitution: Substitution = field(default_factory=dict)
    parameters: dict[ast.Declaration, str] = field(default_factory=dict)
    program: Program = field(default_factory=Program)
    name: str = ""
    reports: dict[str, Report] = field(default_factory=dict)
    delayed: DelayedAdds | None = None
    wide: WideKernel | None = None
    machine: Target | None = None
    module: cpu.Module | None = None
    image: KernelImage | None = None
    kernel: Kernel | None = None
    listings: dict[str, Listing] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def function(self) -> Function:
        return self.program.functions[self.name]

    def replace(self, function: Function) -> None:
        """A program with the one function that is left."""
        self.program = Program({self.name: function}, self.program.differentials, self.program.arguments)


# --- Stages -------------------------------------------------------------------------------------------


def _check(c: Compilation) -> None:
    if c.declared is not None:
        return
    module = c.checked.add_source(c.source.name, c.source.text)
    c.declared = find_function(module.declaration, c.entry)
    if c.declared is None:
        raise CompileError([Diagnostic("E0301", f"'{c.source.name}' has no function '{c.entry}'")])
    c.source = module.declaration.source  # the one that places name


def _lower(c: Compilation) -> None:
    assert c.declared is not None
    reference = DeclRef(c.declared, c.substitution)
    c.program, c.name, c.parameters = lower_program(c.checked, reference, c.options)


def _differentiate(c: Compilation) -> None:
    made = differentiate(c.program, inline_into)
    c.program, c.reports = made.program, made.reports


def _inline(c: Compilation) -> None:
    c.replace(inline_into(c.program, c.function, lambda _: False, c.options.limits))


def _clean(c: Compilation) -> None:
    function = unroll(remove_dead(simplify_branches(c.function)), c.options.limits)
    c.replace(remove_dead(hoist(simplify_branches(function))))


def _flatten(c: Compilation) -> None:
    flat = flatten(c.function, c.options)
    c.replace(remove_dead(hoist(simplify_branches(forward_loads(flat)))))


def flatten(function: Function, options: Options) -> Function:
    """Scalars, pointers and memory only."""
    scalars = remove_dead(flatten_aggregates(function, options.bounds_checks))
    return flatten_arrays(split_small_arrays(scalars))


def _expand_math(c: Compilation) -> None:
    library = MathLibrary(c.checked, c.options)
    c.replace(remove_dead(hoist(expand_math(c.function, library))))


def _delay_adds(c: Compilation) -> None:
    c.delayed = delay_adds(c.function)


def _widen(c: Compilation) -> None:
    c.machine = native.target_of(c.options)
    function = c.function if c.delayed is None else c.delayed.kernel
    lanes = _lanes_for(function, c.machine, c.options)
    c.wide = widen(function, lanes, exclusive=c.delayed is None and is_ordered(function))


def _lanes_for(function: Function, machine: Target, options: Options) -> int:
    """A wave's, where the kernel speaks of waves; those that were asked for; else those that suit it."""
    if function.wave or options.lanes:
        return function.wave or machine.lanes
    features = machine.features
    return suitable_lanes(function, machine.lanes, features.register_bytes, features.registers)


def _write_llvm(c: Compilation) -> None:
    assert c.wide is not None and c.machine is not None
    kernel = _kernel_of(c, c.wide)
    if c.delayed is not None:
        literal = widen(c.function, c.function.wave or 1, exclusive=True)
        sums = chunk_sums(c.delayed.accumulators, c.wide.lanes)
        after = cpu.Delayed(c.delayed.plan, sums, c.delayed.finish, _kernel_of(c, literal))
        kernel = replace(kernel, delayed=after)
    c.module = cpu.kernel_module(kernel, c.machine, c.options)


def _kernel_of(c: Compilation, wide: WideKernel) -> cpu.Kernel:
    return cpu.Kernel(wide.full, wide.masked, wide.lanes, c.program.arguments)


def _generate_code(c: Compilation) -> None:
    assert c.module is not None and c.machine is not None
    c.image = KernelImage(
        name=c.name,
        argument_size=argument_size(c.program),
        code=native.object_code(c.module.text, c.machine, c.options.optimize),
        functions=(ENTRY, DRAIN) if c.delayed is None else (ENTRY, DRAIN, *DELAYED),
        sites=tuple(map(site_of, c.module.sites)),
        ordered=c.delayed is None and is_ordered(c.function),
        granularity=DEFAULT_GRANULARITY if c.delayed is None else DELAYED_GRANULARITY,
    )
    c.kernel = c.image.kernel(load_code)


def load_code(code: bytes, names: Sequence[str]) -> Loaded:
    """Machine code in memory; LLVM's loader serves where our own does not."""
    try:
        return load_object(code, names)
    except Unloadable:
        loaded = native.load(code, names)
        return Loaded(loaded.addresses, loaded.code)


def _interpret(c: Compilation) -> None:
    program, name = c.program, c.name
    ops = [op for op in walk(c.function.region) if op.name in ("in_bounds", "print")]
    numbers = {op: i for i, op in enumerate(ops)}

    def run(arguments: int, grid: Grid, reports: Reports) -> None:
        run_kernel(program, name, arguments, grid, OracleReports(numbers, reports))

    c.kernel = PythonKernel(
        name=name, argument_size=argument_size(program), sites=tuple(map(site_of, ops)), function=run
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """A row of the table. `legal` is what the IR may consist of afterwards, None where there is no IR to check."""

    name: str
    run: Callable[[Compilation], None]
    targets: tuple[str, ...]
    legal: verify.Stage | None
    lines: Callable[[Compilation], list[Line]]


def _ast_lines(c: Compilation) -> list[Line]:
    assert c.declared is not None
    first, *others = user_functions(c.declared)
    return [*node_lines(first), *(line for each in others for line in (Line(""), *node_lines(each)))]


def _program_lines(c: Compilation) -> list[Line]:
    return program_lines(c.program)


def _vjp_lines(c: Compilation) -> list[Line]:
    """The program, and before it what is stored for each reverse sweep and what is computed again."""
    lines = []
    for each in c.reports.values():
        kept = each.stored or each.recomputed
        lines += (
            str(each).splitlines() if kept else [f"@{each.function}: nothing to store or to compute again"]
        )
    return [*(Line(f"// {line}") for line in lines), Line(""), *program_lines(c.program)]


def _delayed_lines(c: Compilation) -> list[Line]:
    """The kernel whose float adds wait for the end of the launch, what runs before and after; none if none may wait."""
    if c.delayed is None:
        return [Line("// no float add waits for the end of the launch")]
    functions = (c.delayed.kernel, c.delayed.plan, c.delayed.finish)
    return [line for f in functions for line in function_lines(f)]


def _lanes_lines(c: Compilation) -> list[Line]:
    assert c.wide is not None
    return [line for f in (c.wide.full, c.wide.masked) if f is not None for line in function_lines(f)]


def _llvm_lines(c: Compilation) -> list[Line]:
    assert c.module is not None
    return c.module.lines()


def _assembly_lines(c: Compilation) -> list[Line]:
    assert c.module is not None and c.machine is not None
    text, lines = with_debug_lines(c.module.text), c.module.lines()
    listing = native.assembly(text, c.machine, c.options.optimize)
    return [Line(text, lines[n - 1].span if n else None) for text, n in lines_of_listing(listing)]


def _no_lines(c: Compilation) -> list[Line]:
    return []


# fmt: off
STAGES: tuple[Stage, ...] = (
    #     name         pass             targets         legal afterwards       shown as        folder
    Stage("ast",       _check,          BOTH,           None,                  _ast_lines),       # syntax, check
    Stage("lowered",   _lower,          BOTH,           verify.LOWERED,        _program_lines),   # lower
    Stage("autodiff",  _differentiate,  BOTH,           verify.DIFFERENTIATED, _vjp_lines),       # autodiff
    Stage("inlined",   _inline,         BOTH,           verify.DIFFERENTIATED, _program_lines),   # opt
    Stage("clean",     _clean,          BOTH,           verify.DIFFERENTIATED, _program_lines),   # opt
    Stage("flat",      _flatten,        BOTH,           verify.FLAT,           _program_lines),   # flatten
    Stage("math",      _expand_math,    BOTH,           verify.FLAT,           _program_lines),   # flatten, std
    Stage("interpret", _interpret,      (INTERPRETER,), None,                  _no_lines),        # ir
    Stage("delayed",   _delay_adds,     (CPU,),         None,                  _delayed_lines),   # opt
    Stage("lanes",     _widen,          (CPU,),         None,                  _lanes_lines),     # spmd
    Stage("llvm",      _write_llvm,     (CPU,),         None,                  _llvm_lines),      # llvm
    Stage("asm",       _generate_code,  (CPU,),         None,                  _assembly_lines),  # llvm
)

# (first, second, why): checked when this file is imported.
BEFORE = (
    ("lowered",  "autodiff", "requests for derivatives are IR"),
    ("autodiff", "inlined",  "functions with custom derivatives stay calls until then"),
    ("inlined",  "flat",     "only the kernel is flattened"),
    ("flat",     "math",     "library functions are flat IR"),
    ("flat",     "lanes",    "lanes hold scalars and pointers"),
    ("math",     "lanes",    "maths vectorizes with the rest"),
    ("flat",     "delayed",  "addresses are pointers and offsets"),
    ("delayed",  "lanes",    "each lane has accumulators of its own"),
)
# fmt: on

STAGE_NAMES = tuple(stage.name for stage in STAGES)
assert all(STAGE_NAMES.index(first) < STAGE_NAMES.index(second) for first, second, _ in BEFORE)


# --- Compiling ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """What a device launches, and the struct that its argument block holds; `used`: the arguments that are read,
    `parameters`: the argument of each variable that was met, `image`: the machine code, which can be kept.
    """

    kernel: Kernel
    image: KernelImage | None
    arguments: Struct
    used: frozenset[str]
    parameters: dict[ast.Declaration, str]
    stages: tuple[str, ...]
    milliseconds: dict[str, float]
    reports: dict[str, Report]
    listings: dict[str, Listing]

    def text(self, stage: str) -> str:
        """The program after a stage, as text."""
        return text_of(self.lines(stage))

    def lines(self, stage: str) -> list[Line]:
        """The same in lines that know what they were made from."""
        return self.listings[stage]()


def compile_kernel(
    checked: CheckedProgram, source: SourceFile, entry: str, options: Options, target: str
) -> CompiledKernel:
    """Run all stages of a target on a function of a text. The text becomes a module of the program and may import
    its others."""
    return _compile(Compilation(checked, source, entry, options, target))


def compile_entry_point(
    checked: CheckedProgram, entry: DeclRef, options: Options, target: str
) -> CompiledKernel:
    """Run all stages of a target on a function of a checked module."""
    declared: ast.Function = entry.declaration
    source = declared.span.source
    return _compile(
        Compilation(checked, source, declared.name, options, target, declared, entry.substitution)
    )


def _compile(c: Compilation) -> CompiledKernel:
    c.listings["kernel"] = lambda: source_lines(c.source)
    with deep_recursion():  # a chain of two thousand `else if`s is as deep in the IR
        for stage in STAGES:
            if c.target in stage.targets:
                _run_stage(c, stage)
    assert c.kernel is not None and c.program.arguments is not None
    return CompiledKernel(
        c.kernel,
        c.image,
        c.program.arguments,
        used_arguments(c.function),
        c.parameters,
        tuple(c.listings),
        c.milliseconds,
        c.reports,
        c.listings,
    )


def used_arguments(function: Function) -> frozenset[str]:
    """What a kernel reads of its arguments once all is inlined and cleaned."""
    return frozenset(str(op.attributes["name"]) for op in walk(function.region) if op.name == "parameter")


def _run_stage(c: Compilation, stage: Stage) -> None:
    start = perf_counter()
    stage.run(c)
    c.milliseconds[stage.name] = 1e3 * (perf_counter() - start)
    if c.options.verify and stage.legal is not None:
        verify.verify(c.program, stage.legal)
    if stage.lines is not _no_lines:
        snapshot = replace(c)
        c.listings[stage.name] = lambda: stage.lines(snapshot)
    if stage.name in c.options.dump:
        print(f"// {c.name}, after stage '{stage.name}'\n{text_of(stage.lines(c))}")


def find_function(module: ast.Module, name: str) -> ast.Function | None:
    found = (m for m in module.members if isinstance(m, ast.Function) and m.name == name)
    return next(found, None)


def user_functions(function: ast.Function) -> list[ast.Function]:
    """The function and those that it calls, functions of the library left out."""
    found = [function]
    for each in found:  # grows while it is read
        called = (_called(node) for node in walk_tree(each))
        found += [f for f in dict.fromkeys(called) if f is not None and f not in found and not in_library(f)]
    return found


def _called(node: ast.Node) -> ast.Function | None:
    form = getattr(node, "ref", None)
    while isinstance(form, (forms.Call, forms.FunctionValue, forms.Derivative)):
        form = form.function
    declared = form.declaration if isinstance(form, DeclRef) else None
    return declared if isinstance(declared, ast.Function) else None


def in_library(declared: ast.Declaration) -> bool:
    return is_library(declared.span.source)


def is_library(source: SourceFile) -> bool:
    return source.name.startswith("std/")


def check_files(
    paths: Sequence[Path], include_paths: Sequence[Path], options: Options
) -> tuple[Diagnostic, ...]:
    """The errors and warnings of files and of what they import, each once."""
    programs: dict[Path, CheckedProgram] = {}  # files of a folder mean the same modules by the same names
    found: dict[str, Diagnostic] = {}
    for path in paths:
        if path.parent not in programs:
            programs[path.parent] = CheckedProgram(options, include_paths)
        found |= {str(each): each for each in _check_file(programs[path.parent], path)}
    return tuple(found.values())


def _check_file(program: CheckedProgram, path: Path) -> Sequence[Diagnostic]:
    try:
        program.load_module(str(path))
    except CompileError as error:
        return error.diagnostics
    return program.reporter.diagnostics


# --- The machine --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is made for, as far as users can tell the difference."""

    llvm: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    lanes: int
    threads: int


def describe_machine(options: Options) -> Machine:
    target = native.target_of(options)
    known = [flag[1:] for flag in target.flags.split(",") if flag.startswith("+")]
    abilities = [
        each.name.replace("_", " ") for each in fields(Features) if getattr(target.features, each.name)
    ]
    return Machine(
        llvm=native.llvm_version(),
        triple=target.triple,
        cpu=target.cpu,
        features=tuple(dict.fromkeys([*filter(SIMD_FLAG.match, known), *abilities])),
        lanes=target.lanes,
        threads=options.threads or available_processors(),
    )


# --- Maths functions ----------------------------------------------------------------------------------


class MathLibrary(Mapping[tuple[str, Scalar], Function]):
    """(name of a primitive, f32 or f64) to a flat function of scalars, made from std when it is first asked for."""

    _made: ClassVar[dict[tuple[str, Scalar], Function]] = {}  # the same for all programs

    def __init__(self, checked: CheckedProgram, options: Options) -> None:
        self._checked, self._options = checked, options

    @cached_property
    def _declared(self) -> dict[tuple[str, Scalar], ast.Function]:
        found: dict[tuple[str, Scalar], ast.Function] = {}
        for name in ("math_functions", "math_functions_double"):
            members = self._checked.load_module(str(STD / f"{name}.slang")).declaration.members
            for member in (each for each in members if isinstance(each, ast.Function)):
                info = self._checked.info(member)
                if info.math_function is not None:
                    found[info.math_function, SCALARS[info.result]] = member
        return found

    def __getitem__(self, key: tuple[str, Scalar]) -> Function:
        if key not in self._made:
            reference = DeclRef(self._declared[key], {})
            program, (name,) = lower_functions(self._checked, [reference], self._options)
            function = inline(program, everything=True).functions[name]
            self._made[key] = remove_dead(flatten(function, self._options))
        return self._made[key]

    def __iter__(self) -> Iterator[tuple[str, Scalar]]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


# --- Kernels ------------------------------------------------------------------------------------------


def argument_size(program: Program) -> int:
    assert program.arguments is not None
    return layout_of(program.arguments).size


def site_of(op: Op) -> Site:
    """What a run-time report of the op shows."""
    return Site.at(op.span, str(op.attributes.get("format", "")))


def is_ordered(function: Function) -> bool:
    """Whether chunks must run one after the other for the results to be the same in each run: the kernel prints, adds
    floats to memory that threads share, or uses what an atomic operation gives."""
    uses = count_uses(function.region)
    return any(
        op.name == "print" or (op.name == "atomic" and (uses[op.results[0]] > 0 or not _commutes(op)))
        for op in walk(function.region)
    )


def _commutes(op: Op) -> bool:
    """Whether atomics of this kind give the same memory in any order."""
    if op.attributes["kind"] in ("exchange", "compare_exchange"):
        return False
    return op.attributes["kind"] != "add" or not is_float(op.results[0].type)


@dataclass(frozen=True, slots=True)
class OracleReports:
    """The interpreter's reports, which name ops, as reports of a launch, which name sites."""

    numbers: dict[Op, int]
    launch: Reports

    def out_of_bounds(self, op: Op, index: int, extent: int) -> None:
        self.launch.fail(BOUNDS, self.numbers[op], index, extent)

    def print(self, op: Op, values: Sequence[Number]) -> None:
        self.launch.print(self.numbers[op], values)
