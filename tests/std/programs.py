"""Slang text to IR that the oracle runs: what the tests of the library are written with.

program = lowered("double f(double x) { return sin(x); }")
call(program, "f", 0.5)                        -> 0.479...
"""

from __future__ import annotations

from functools import cache
from itertools import count

from slangrad.autodiff.requests import differentiate
from slangrad.base.options import Options
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import Program
from slangrad.ir.oracle.interpret import Recorded, evaluate
from slangrad.ir.oracle.memory import Datum
from slangrad.lower.program import lower_functions
from slangrad.opt.calls.inline import inline_into
from slangrad.syntax import ast

OPTIONS = Options()
_numbers = count()


@cache
def library() -> CheckedProgram:
    return CheckedProgram(OPTIONS)


def lowered(text: str) -> Program:
    """The functions of a text that are not generic, under their own names, and all they call."""
    checked = library()
    module = checked.add_source(f"test{next(_numbers)}", text)
    functions = [
        m for m in module.declaration.members if isinstance(m, ast.FunctionDeclaration) and not m.generics
    ]
    program, names = lower_functions(checked, [DeclRef(each, {}) for each in functions], OPTIONS)
    assert names == [each.name for each in functions]
    return program


def differentiated(text: str) -> Program:
    """The same for a text that calls `fwd_diff` and `bwd_diff`."""
    return differentiate(lowered(text), inline_into).program


def call(program: Program, name: str, *inputs: Datum, reports: Recorded | None = None) -> Datum:
    """The one result of a function, or the tuple of its results."""
    results = evaluate(program, name, inputs, 0, reports)
    return results[0] if len(results) == 1 else results
