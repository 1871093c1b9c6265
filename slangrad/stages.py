"""Rows of the pass table, and the first stages: from a text to IR.

    Pass("opt", hoist)                          one pass over a function
    Pass("opt", check_null, when=...)           only for some kernels
    Stage("clean", Passes(...), legal, lines)   passes that have one name for people: `slangrad dump --after clean`

A stage takes a value and gives a value (unit.py). `pipeline.py` and `targets/` have the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from slangrad.autodiff.requests import differentiate as answer_requests
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Limits, Options
from slangrad.base.source import Line
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import Function, Program
from slangrad.ir.text import verify
from slangrad.lower.program import lower_program
from slangrad.opt.calls.inline import Keep, inline_into
from slangrad.opt.calls.kept_calls import keep_calls
from slangrad.opt.checks.escapes import refuse_escapes
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.variables import settle_variables
from slangrad.syntax import ast
from slangrad.unit import CompileRequest, Unit

# --- Rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PassContext:
    """The context of a pass: its input besides the function."""

    options: Options
    program: Program = field(default_factory=Program)
    checked: CheckedProgram | None = None
    by_hand: bool = False


Run = Callable[..., Function]


@dataclass(frozen=True, slots=True)
class Pass:
    """A row: the folder that does the work, and the function. `asks`: it takes the context, too. `when`: a
    condition of function and context. `after_change`: only if the last pass without this mark gave another function
    than it took. `needs`: names of passes that come before it, which is checked when the table is made."""

    folder: str
    run: Run
    asks: bool = False
    when: Callable[[Function, PassContext], bool] | None = None
    after_change: bool = False
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.run.__name__

    def __call__(self, function: Function, context: PassContext) -> Function:
        if self.when is not None and not self.when(function, context):
            return function
        return self.run(function, context) if self.asks else self.run(function)


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes over the kernel and the functions that it calls, one after the other."""

    rows: tuple[Pass, ...]

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            unmet = set(row.needs) - {row.name for row in self.rows[:i]}
            assert not unmet, f"{row.name} needs {', '.join(unmet)}"

    def __add__(self, others: Passes) -> Passes:
        return Passes(self.rows + others.rows)

    def over(self, function: Function, context: PassContext) -> Function:
        changed, idle = True, set[object]()  # `idle`: passes that left this very function unchanged
        for row in self.rows:
            if (row.run, row.when) in idle or (row.after_change and not changed):
                continue
            result = row(function, context)
            changed = row.after_change or result is not function
            idle = {*idle, (row.run, row.when)} if result is function else set()
            function = result
        return function

    def __call__(self, unit: Unit) -> Unit:
        request = unit.request

        def over(function: Function, program: Program) -> Function:
            return self.over(
                function, PassContext(request.options, program, request.checked, request.by_hand)
            )

        return unit.changed(over)


StageValue = Any  # of the class that the stage before returns: the order of stages is a table


@dataclass(frozen=True, slots=True)
class Stage:
    """`legal`: the ops and types that the IR may have afterwards, None where there is no IR to check. `lines` shows
    the value; None if it cannot be shown."""

    name: str
    run: Callable[[StageValue], StageValue]
    legal: verify.LegalIR | None
    lines: Callable[[StageValue], list[Line]] | None


# --- From a text to IR --------------------------------------------------------------------------------


def check(request: CompileRequest) -> CompileRequest:
    """Request to request: the text becomes a module, and the function is found."""
    if request.declared is not None:
        return request
    source = request.source
    module = request.checked.add_source(source.name, source.text, is_page=source.is_page)
    declared = find_function(module.declaration, request.entry)
    if declared is None:
        raise CompileError([Diagnostic("E0301", f"'{source.name}' has no function '{request.entry}'")])
    return replace(request, declared=declared, source=module.declaration.source)  # the one that places name


def find_function(module: ast.ModuleDeclaration, name: str) -> ast.FunctionDeclaration | None:
    functions = (m for m in module.members if isinstance(m, ast.FunctionDeclaration) and m.name == name)
    return next(functions, None)


def lower(request: CompileRequest) -> Unit:
    lowered = lower_program(request.checked, request.reference, request.options, request.conformances)
    program, name, parameters = lowered
    refuse_escapes(program.functions.values())
    return Unit(request, program, name, parameters)


def differentiate(unit: Unit) -> Unit:
    """Requests for derivatives become functions, and each function stays or is inlined."""
    options = unit.options
    program = keep_calls(unit.program, unit.name, options, differentiates=True)
    inline = partial(inline_settled, limits=options.limits)
    settings = options.segment_trips, options.residuals, unit.request.traits
    differentiated = answer_requests(program, inline, *settings)
    return replace(
        unit, program=keep_calls(differentiated.program, unit.name, options), reports=differentiated.reports
    )


def inline_settled(
    program: Program, function: Function, keep: Keep, limits: Limits | None = None
) -> Function:
    """Inlining for autodiff: derivatives pass through pointers whose pointee is known."""
    inlined = inline_into(program, function, keep, limits)
    settled = settle_variables(inlined)
    return settled if settled is inlined else remove_dead(settled)
