"""THE pass table: a kernel's text to machine code, stage by stage. Only this file knows the order of passes.

    compiled = compile_kernel(program, source, "kernel", options, "cpu")
    compiled.kernel         what a device launches
    compiled.arguments      the struct that its argument block holds
    compiled.text("lanes")  the program after a stage

To follow a program, read STAGES from top to bottom; each row names the folder that does the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter

from slangrad import listings, stages
from slangrad.autodiff.report import Explanation, Report
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.module_file import Origin
from slangrad.base.options import Options
from slangrad.base.recursion import deep_recursion
from slangrad.base.source import Line, SourceFile, source_lines, text_of
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import Program as CheckedProgram
from slangrad.check.texts.files import is_standard
from slangrad.ir import verify
from slangrad.ir.types import Struct
from slangrad.llvm import native
from slangrad.llvm.target import Features
from slangrad.runtime.device import Kernel
from slangrad.runtime.image import KernelImage
from slangrad.runtime.processors import available_processors
from slangrad.stages import Compilation, Listing, read_places, used_arguments
from slangrad.syntax import ast

CPU, INTERPRETER = "cpu", "interpreter"
BOTH = (CPU, INTERPRETER)
SIMD_FLAG = re.compile(r"s?sse|avx|fma|f16c|neon|sve|bf16|fullfp16")


@dataclass(frozen=True, slots=True)
class Stage:
    """A row of the table. `legal` is what the IR may consist of afterwards, None where there is no IR to check."""

    name: str
    run: Callable[[Compilation], None]
    targets: tuple[str, ...]
    legal: verify.Stage | None
    lines: Callable[[Compilation], list[Line]]


# fmt: off
# ruff: noqa: E501
STAGES: tuple[Stage, ...] = (
    #     name         pass                            targets         legal afterwards       shown as                      folder
    Stage("ast",       stages.check,                   BOTH,           None,                  listings.show_ast),         # syntax, check
    Stage("lowered",   stages.lower,                   BOTH,           verify.LOWERED,        listings.show_program),     # lower
    Stage("autodiff",  stages.differentiate_requests,  BOTH,           verify.DIFFERENTIATED, listings.show_derivatives), # autodiff
    Stage("inlined",   stages.inline_all,              BOTH,           verify.INLINED,        listings.show_program),     # opt
    Stage("clean",     stages.clean,                   BOTH,           verify.DIFFERENTIATED, listings.show_program),     # opt
    Stage("flat",      stages.flatten_kernel,          BOTH,           verify.FLAT,           listings.show_program),     # flatten
    Stage("math",      stages.use_math_library,        BOTH,           verify.FLAT,           listings.show_program),     # flatten, std
    Stage("interpret", stages.interpret,               (INTERPRETER,), None,                  listings.show_nothing),     # ir
    Stage("delayed",   stages.find_delayed_adds,       (CPU,),         None,                  listings.show_delayed),     # opt
    Stage("lanes",     stages.widen_kernel,            (CPU,),         None,                  listings.show_lanes),       # spmd
    Stage("llvm",      stages.write_llvm,              (CPU,),         None,                  listings.show_llvm),        # llvm
    Stage("asm",       stages.generate_code,           (CPU,),         None,                  listings.show_assembly),    # llvm
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
    `read`: at which bytes of each, None where that is not known, `parameters`: the argument of each variable that was met, `image`: the machine code, which can be kept.
    """

    kernel: Kernel
    image: KernelImage | None
    arguments: Struct
    used: frozenset[str]
    read: dict[str, tuple[int, ...] | None]
    parameters: dict[ast.Declaration, str]
    stages: tuple[str, ...]
    milliseconds: dict[str, float]
    reports: dict[str, Report]
    listings: dict[str, Listing]

    def __repr__(self) -> str:
        spent = sum(self.milliseconds.values())
        return f"CompiledKernel(stages={', '.join(self.stages)}; {spent:.0f} ms)"

    @property
    def explanation(self) -> Explanation:
        """What the reverse sweeps keep, and why."""
        return Explanation(tuple(self.reports.values()))

    def text(self, stage: str) -> str:
        """The program after a stage, as text."""
        return text_of(self.lines(stage))

    def lines(self, stage: str) -> list[Line]:
        """The same in lines that know what they were made from."""
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
    return _compile(Compilation(checked, source, entry, options, target, conformances=conformances))


def compile_entry_point(
    checked: CheckedProgram,
    entry: DeclRef,
    options: Options,
    target: str,
    conformances: tuple[Conformance, ...] = (),
) -> CompiledKernel:
    """Run all stages of a target on a function of a checked module."""
    declared: ast.Function = entry.declaration
    source = declared.span.source
    return _compile(
        Compilation(
            checked,
            source,
            declared.name,
            options,
            target,
            declared,
            entry.substitution,
            conformances,
            by_hand=True,
        )
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
        read_places(c.function),
        c.parameters,
        tuple(c.listings),
        c.milliseconds,
        c.reports,
        c.listings,
    )


def _run_stage(c: Compilation, stage: Stage) -> None:
    start = perf_counter()
    stage.run(c)
    c.milliseconds[stage.name] = 1e3 * (perf_counter() - start)
    if c.options.verify and stage.legal is not None:
        verify.verify(c.program, stage.legal)
    if stage.lines is not listings.show_nothing:
        snapshot = replace(c)
        c.listings[stage.name] = lambda: stage.lines(snapshot)
    if stage.name in c.options.dump:
        print(f"// {c.name}, after stage '{stage.name}'\n{text_of(stage.lines(c))}")


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


def origins_of(
    path: Path, include_paths: Sequence[Path], macros: dict[str, str], options: Options
) -> tuple[list[Origin], Sequence[Diagnostic]]:
    """What a file and the modules that it imports are made of, and the warnings; CompileError."""
    program = CheckedProgram(options, include_paths, macros)
    modules = [program.load_module(str(path))]
    for each in modules:  # grows while it is read
        modules += [one for one in each.imports if one not in modules]
    origins = [each.origin for each in modules if each.origin is not None]
    return [each for each in origins if not is_standard(each.path)], program.reporter.diagnostics


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
