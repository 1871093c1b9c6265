"""What stages take and give: values that are not changed.

Request      a function of a text or of a checked module, and how it is to be compiled
Unit         its IR: the kernel and the functions that it needs
FlatKernel   the end of the common stages: one function of scalars, pointers and memory
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slangrad.autodiff.report import Report
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.base.traits import Traits
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.modules import Program as CheckedProgram
from slangrad.ir.core import Function, Program
from slangrad.ir.types import Struct
from slangrad.syntax import ast


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Without `declared`, `source` is a text that becomes a module of the program. `by_hand`: an entry point that the
    user wrote, whose pointers are the user's own."""

    checked: CheckedProgram
    source: SourceFile
    entry: str
    options: Options
    traits: Traits
    declared: ast.Function | None = None
    substitution: Substitution = field(default_factory=dict)
    conformances: tuple[Conformance, ...] = ()
    by_hand: bool = False

    @property
    def reference(self) -> DeclRef:
        assert self.declared is not None
        return DeclRef(self.declared, self.substitution)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """`parameters`: the argument of each variable that was met. `reports`: what reverse sweeps keep."""

    request: Request
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

    def with_kernel(self, function: Function) -> Unit:
        """The kernel is the one function that is left."""
        return replace(self, program=replace(self.program, functions={self.name: function}))


@dataclass(frozen=True, slots=True, eq=False)
class FlatKernel:
    """`arguments`: the struct that the argument block holds. `group`: how many threads run together, None where they
    need not."""

    name: str
    function: Function
    arguments: Struct
    group: tuple[int, int, int] | None
    options: Options

    @property
    def program(self) -> Program:
        """The kernel alone, as a program."""
        return Program({self.name: self.function}, arguments=self.arguments)
