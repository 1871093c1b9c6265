"""Slang text to IR, for tests.

In: a text.   Out: the program that its function `f` needs; or printed functions, without what is not used.
"""

from __future__ import annotations

from textwrap import dedent

from slangrad.base.options import Options
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops import core
from slangrad.ir.text import verify
from slangrad.ir.text.printer import print_function
from slangrad.lower.program import lower_functions
from slangrad.opt.simplify.dead import remove_dead
from slangrad.syntax import ast


def lower(text: str) -> core.Program:
    """The verified IR of the function `f`, and of all that it calls."""
    program = CheckedProgram(Options())
    module = program.add_source("test", lines(text))
    wanted = next(
        m for m in module.declaration.members if isinstance(m, ast.FunctionDeclaration) and m.name == "f"
    )
    lowered, _ = lower_functions(program, [DeclRef(wanted, {})], program.options)
    verify.verify(lowered, verify.LOWERED)
    return lowered


def printed(text: str, *names: str) -> str:
    """The functions of these names, or `f`; constants that nothing uses are left out."""
    program = lower(text)
    return "\n".join(print_function(remove_dead(program.functions[name])).strip() for name in names or ("f",))


def lines(text: str) -> str:
    """An expected text without its indentation."""
    return dedent(text).strip()
