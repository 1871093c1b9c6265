"""The immutable values that stages take and return.

Request      a function of a text or of a checked module, and its settings
Unit         its IR: the kernel and the functions that it needs
FlatKernel   the end of the common stages: functions of scalars, pointers and memory
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from slangrad.autodiff.checkpointing.report import Report
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.base.traits import Traits
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.modules import CheckedProgram
from slangrad.ir.analyses.calls import callees_first
from slangrad.ir.data.types import Struct
from slangrad.ir.ops.core import Function, Program
from slangrad.runtime.reports import Site
from slangrad.syntax import ast


@runtime_checkable
class InIR(Protocol):
    """A value of a stage that is IR: its functions, and the program whose functions they call."""

    @property
    def program(self) -> Program: ...

    @property
    def in_ir(self) -> list[Function]: ...


@dataclass(frozen=True, slots=True, eq=False)
class CompileRequest:
    """Without `declared`, `source` is a text that becomes a module of the program. `by_hand`: an entry point that the
    user wrote, whose pointers are the user's own."""

    checked: CheckedProgram
    source: SourceFile
    entry: str
    options: Options
    traits: Traits
    declared: ast.FunctionDeclaration | None = None
    substitution: Substitution = field(default_factory=dict)
    conformances: tuple[Conformance, ...] = ()
    by_hand: bool = False

    @property
    def reference(self) -> DeclRef:
        assert self.declared is not None
        return DeclRef(self.declared, self.substitution)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """`parameters`: the argument of each variable outside of functions. `reports`: the values that reverse sweeps
    keep."""

    request: CompileRequest
    program: Program
    name: str
    parameters: Mapping[ast.Declaration, str]
    reports: Mapping[str, Report] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        return self.request.options

    @property
    def function(self) -> Function:
        return self.program.functions[self.name]

    @property
    def in_ir(self) -> list[Function]:
        return list(self.program.functions.values())

    def changed(self, change: Callable[[Function, Program], Function]) -> Unit:
        """The kernel and the functions that stay, each by a change, callees first. Only these are left."""
        program = self.program
        for function in callees_first(program, [self.name]):
            if function.name == self.name or function.attributes.get("kept"):
                changed = change(function, program)
                program = replace(program, functions={**program.functions, function.name: changed})
        left = {f.name: f for f in callees_first(program, [self.name])}
        return replace(self, program=replace(program, functions=left))


@dataclass(frozen=True, slots=True, eq=False)
class FlatKernel:
    """`functions`: those that it calls, callees first. `arguments`: the struct that the argument block holds. `group`:
    how many threads run together, None where they need not. `sites`: the places that report, by the numbers that ops
    have (sites.py)."""

    name: str
    function: Function
    functions: tuple[Function, ...]
    arguments: Struct
    group: tuple[int, int, int] | None
    sites: tuple[Site, ...]
    options: Options

    @property
    def in_ir(self) -> list[Function]:
        return [*self.functions, self.function]

    @property
    def program(self) -> Program:
        """The kernel and what it calls."""
        return Program({f.name: f for f in self.in_ir}, arguments=self.arguments)
