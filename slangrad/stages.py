"""What each stage does to a kernel on its way; `pipeline.py` says in which order.

    c = Compilation(program, source, "kernel", options, "cpu")
    check(c); lower(c); differentiate_requests(c); ...    each replaces what it changes: c.program, c.wide, c.module

A stage puts passes of a folder together; what they do is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

from slangrad.autodiff.report import Report
from slangrad.autodiff.requests import differentiate
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.base.source import Line, SourceFile
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.modules import Program as CheckedProgram
from slangrad.flatten.halves import halves_as_floats
from slangrad.flatten.math_functions import EXPANDED, expand_math
from slangrad.ir.core import Function, Op, Program, Value, walk
from slangrad.ir.interpret import run_kernel
from slangrad.ir.layout import layout_of
from slangrad.ir.numbers import Number
from slangrad.ir.rebuild import count_uses
from slangrad.ir.types import Pointer, is_float
from slangrad.llvm import cpu, native
from slangrad.llvm.sites import shown_place
from slangrad.llvm.target import Target
from slangrad.lower.program import lower_program
from slangrad.math_library import MathLibrary, flatten
from slangrad.opt.branches import simplify_branches
from slangrad.opt.chunk_sums import chunk_sums
from slangrad.opt.dead import remove_dead
from slangrad.opt.delayed_adds import DelayedAdds, delay_adds
from slangrad.opt.escapes import refuse_escapes
from slangrad.opt.finite_checks import check_finite
from slangrad.opt.foreseen_bounds import foresee_bounds
from slangrad.opt.forwarding import forward_loads
from slangrad.opt.hoist import hoist
from slangrad.opt.hoist_checks import hoist_checks
from slangrad.opt.inline import inline_into
from slangrad.opt.null_checks import check_null
from slangrad.opt.pointer_checks import check_pointers
from slangrad.opt.products import settle_products
from slangrad.opt.statics import begin_statics, settle_statics
from slangrad.opt.unroll import unroll
from slangrad.opt.unroll_steps import unroll_steps
from slangrad.opt.variables import inline_settled, settle_variables
from slangrad.runtime.cpu import DEFAULT_GRANULARITY
from slangrad.runtime.device import Grid, Kernel, PythonKernel
from slangrad.runtime.image import DELAYED, DELAYED_GRANULARITY, DRAIN, ENTRY, KernelImage
from slangrad.runtime.known_memory import KnownMemory
from slangrad.runtime.object_code import Loaded, load_code
from slangrad.runtime.reports import BOUNDS, Reports, Site
from slangrad.spmd.group_values import check_barriers, group_size, runs_in_groups
from slangrad.spmd.groups import run_in_groups
from slangrad.spmd.widen import WideKernel, may_be_full, widen
from slangrad.spmd.width import suitable_lanes
from slangrad.syntax import ast

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
    conformances: tuple[Conformance, ...] = ()
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
    by_hand: bool = False  # an entry point of the user's own
    listings: dict[str, Listing] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def function(self) -> Function:
        return self.program.functions[self.name]

    def replace(self, function: Function) -> None:
        """A program with the one function that is left."""
        self.program = Program({self.name: function}, self.program.differentials, self.program.arguments)


# --- Stages, in their order ---------------------------------------------------------------------------


def check(c: Compilation) -> None:
    if c.declared is not None:
        return
    module = c.checked.add_source(c.source.name, c.source.text, is_page=c.source.is_page)
    c.declared = find_function(module.declaration, c.entry)
    if c.declared is None:
        raise CompileError([Diagnostic("E0301", f"'{c.source.name}' has no function '{c.entry}'")])
    c.source = module.declaration.source  # the one that places name


def lower(c: Compilation) -> None:
    assert c.declared is not None
    reference = DeclRef(c.declared, c.substitution)
    c.program, c.name, c.parameters = lower_program(c.checked, reference, c.options, c.conformances)
    refuse_escapes(c.program.functions.values())


def differentiate_requests(c: Compilation) -> None:
    made = differentiate(c.program, inline_settled, c.options.segment_trips, c.options.residuals)
    c.program, c.reports = made.program, made.reports


def inline_all(c: Compilation) -> None:
    begun = begin_statics(c.program, c.function)
    inlined = inline_into(c.program, begun, lambda _: False, c.options.limits)
    c.replace(settle_products(settle_variables(settle_statics(inlined))))
    refuse_escapes([c.function])
    if c.options.check:
        c.replace(check_finite(check_pointers(c.program, c.function, c.by_hand)))


def clean(c: Compilation) -> None:
    function = unroll(remove_dead(simplify_branches(c.function)), c.options.limits)
    c.replace(check_null(remove_dead(hoist(simplify_branches(unroll_steps(function))))))


def flatten_kernel(c: Compilation) -> None:
    flat = flatten(c.function, c.options)
    c.replace(remove_dead(hoist_checks(hoist(simplify_branches(forward_loads(flat))))))


def use_math_library(c: Compilation) -> None:
    if any(op.name in EXPANDED for op in walk(c.function.region)):
        library = MathLibrary(c.checked, c.options)
        c.replace(remove_dead(hoist(expand_math(c.function, library))))
    check_barriers(c.function)


def find_delayed_adds(c: Compilation) -> None:
    c.delayed = None if runs_in_groups(c.function) else delay_adds(c.function)


def widen_kernel(c: Compilation) -> None:
    c.machine = native.target_of(c.options)
    function = _for_machine(c.function if c.delayed is None else c.delayed.kernel, c.machine)
    lanes = _lanes_for(function, c.machine, c.options)
    if runs_in_groups(function):
        whole = widen(run_in_groups(function, lanes), lanes, exclusive=is_ordered(function), entire=True)
        c.wide = whole
        return
    exclusive = c.delayed is None and is_ordered(function)
    foreseen = foresee_bounds(function) if lanes > 1 and may_be_full(function) else None
    certain = None if foreseen is None else (foreseen.kernel, foreseen.condition)
    c.wide = widen(function, lanes, exclusive, certain=certain)


def _for_machine(function: Function, machine: Target) -> Function:
    return function if machine.features.half_arithmetic else halves_as_floats(function)


def _lanes_for(function: Function, machine: Target, options: Options) -> int:
    """A wave's, where the kernel speaks of waves; those that were asked for; else those that suit it."""
    if function.wave or options.lanes:
        return function.wave or machine.lanes
    features = machine.features
    return suitable_lanes(function, machine.lanes, features.register_bytes, features.registers)


def write_llvm(c: Compilation) -> None:
    assert c.wide is not None and c.machine is not None
    kernel = _kernel_of(c, c.wide)
    if c.delayed is not None:
        literal = widen(_for_machine(c.function, c.machine), c.function.wave or 1, exclusive=True)
        sums = chunk_sums(c.delayed.accumulators, c.wide.lanes)
        after = cpu.Delayed(c.delayed.plan, sums, c.delayed.finish, _kernel_of(c, literal))
        kernel = replace(kernel, delayed=after)
    c.module = cpu.kernel_module(kernel, c.machine, c.options)


def _kernel_of(c: Compilation, wide: WideKernel) -> cpu.Kernel:
    group = group_size(c.function) if runs_in_groups(c.function) else None
    return cpu.Kernel(wide.full, wide.masked, wide.lanes, c.program.arguments, wide.condition, group)


def generate_code(c: Compilation) -> None:
    assert c.module is not None and c.machine is not None
    group = group_size(c.function) if runs_in_groups(c.function) else (1, 1, 1)
    granularity = DEFAULT_GRANULARITY if c.delayed is None else DELAYED_GRANULARITY
    c.image = KernelImage(
        name=c.name,
        argument_size=argument_size(c.program),
        code=native.object_code(c.module.text, c.machine, c.options.optimize),
        functions=(ENTRY, DRAIN) if c.delayed is None else (ENTRY, DRAIN, *DELAYED),
        sites=tuple(map(site_of, c.module.sites)),
        ordered=c.delayed is None and is_ordered(c.function),
        granularity=max(1, granularity // prod(group)),
        group=group,
        follows_memory=follows_memory(c.function),
    )
    c.kernel = c.image.kernel(partial(load_code, other=load_with_llvm))


def load_with_llvm(code: bytes, names: Sequence[str]) -> Loaded:
    loaded = native.load(code, names)
    return Loaded(loaded.addresses, loaded.code)


def interpret(c: Compilation) -> None:
    program, name = c.program, c.name
    ops = [op for op in walk(c.function.region) if op.name in ("in_bounds", "print")]
    numbers = {op: i for i, op in enumerate(ops)}

    def run(arguments: int, grid: Grid, reports: Reports) -> None:
        is_memory = KnownMemory().holds if follows_memory(program.functions[name]) else None
        run_kernel(program, name, arguments, grid, OracleReports(numbers, reports), is_memory)

    c.kernel = PythonKernel(
        name=name, argument_size=argument_size(program), sites=tuple(map(site_of, ops)), function=run
    )


# --- What a kernel is to the run time -----------------------------------------------------------------


def used_arguments(function: Function) -> frozenset[str]:
    """What a kernel reads of its arguments once all is inlined and cleaned."""
    return frozenset(str(op.attributes["name"]) for op in walk(function.region) if op.name == "parameter")


def follows_memory(function: Function) -> bool:
    """Whether a kernel asks which memory there is."""
    return any(op.name == "is_memory" for op in walk(function.region))


def read_places(function: Function) -> dict[str, tuple[int, ...] | None]:
    """At which bytes of each argument it reads; None where that is known when running only."""
    found: dict[str, set[int] | None] = {}
    places: dict[Value, tuple[str, int]] = {}
    known: dict[Value, int] = {}
    for op in walk(function.region):
        if op.name == "const" and isinstance(op.attributes["value"], int):
            known[op.results[0]] = op.attributes["value"]
        if op.name == "parameter":
            places[op.results[0]] = str(op.attributes["name"]), 0
            found.setdefault(str(op.attributes["name"]), set())
            continue
        for operand in op.operands:
            if operand not in places:
                continue
            name, at = places[operand]
            read = found[name]
            if op.name == "member" and isinstance(operand.type, Pointer):
                offsets = layout_of(operand.type.element).offsets
                places[op.results[0]] = name, at + offsets[int(op.attributes["index"])]  # type: ignore[arg-type]
            elif op.name == "offset" and isinstance(operand.type, Pointer) and op.operands[1] in known:
                places[op.results[0]] = (
                    name,
                    at + known[op.operands[1]] * layout_of(operand.type.element).size,
                )
            elif op.name == "bitcast":  # an array as its elements
                places[op.results[0]] = name, at
            elif op.name == "load" and read is not None:
                read.add(at)
            else:
                found[name] = None
        for value in (each for region in op.regions for each in region.yields if each in places):
            found[places[value][0]] = None
    return {name: None if read is None else tuple(sorted(read)) for name, read in found.items()}


def argument_size(program: Program) -> int:
    assert program.arguments is not None
    return layout_of(program.arguments).size


def site_of(op: Op) -> Site:
    """What a run-time report of the op shows."""
    text = str(op.attributes.get("format", op.attributes.get("text", "")))
    return Site.at(shown_place(op), text)


def is_ordered(function: Function) -> bool:
    """Whether chunks must run one after the other for the results to be the same in each run: the kernel prints, adds
    floats to memory that threads share, or uses what an atomic operation gives."""
    uses = count_uses(function.region)
    return any(
        op.name == "print"
        or (op.name == "atomic" and not _is_shared(op) and (uses[op.results[0]] > 0 or not _commutes(op)))
        for op in walk(function.region)
    )


def _is_shared(op: Op) -> bool:
    """On memory of a group, whose threads take turns anyway."""
    address = op.operands[0].type
    return isinstance(address, Pointer) and address.space == "shared"


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


def find_function(module: ast.Module, name: str) -> ast.Function | None:
    found = (m for m in module.members if isinstance(m, ast.Function) and m.name == name)
    return next(found, None)
