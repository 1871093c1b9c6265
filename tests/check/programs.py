"""Checking small texts: the module, its errors, and the expression that a piece of text became."""

from functools import cache
from itertools import count

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.check.checked_module import CheckedModule
from slangrad.check.model.checked import Conversion
from slangrad.check.modules import CheckedProgram
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

_number = count()


@cache
def program() -> CheckedProgram:
    return CheckedProgram()


def check(text: str) -> CheckedModule:
    return program().add_source(f"text{next(_number)}.slang", text)


def problems(text: str) -> list[Diagnostic]:
    """The errors of a text; a text without errors gives its warnings."""
    try:
        check(text)
    except CompileError as error:
        return list(error.diagnostics)
    return list(program().reporter.diagnostics)


def codes(text: str) -> list[str]:
    return [each.code for each in problems(text)]


def problem(text: str) -> str:
    """The only error, as users read it, without the excerpt."""
    (found,) = problems(text)
    return f"{found.code}: {found.message}" + (f" ({found.note})" if found.note else "")


def expression(module: CheckedModule, text: str) -> ast.Expression:
    """The first expression that is written like this."""
    for node in walk(module.declaration):
        if isinstance(node, ast.Expression) and node.span.text == text and node.type is not None:
            return node
    raise AssertionError(f"no expression '{text}'")


def type_of(module: CheckedModule, text: str) -> str:
    return str(expression(module, text).type)


def conversion_of(module: CheckedModule, text: str) -> str | None:
    """`splat float3`, or None."""
    made: Conversion | None = expression(module, text).conversion
    return None if made is None else f"{made.kind} {made.target}"


def function(module: CheckedModule, name: str) -> ast.FunctionDeclaration:
    found = [
        m for m in module.declaration.members if isinstance(m, ast.FunctionDeclaration) and m.name == name
    ]
    return found[0]
