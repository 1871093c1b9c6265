"""A kernel after each common stage as lines of text, with the spans of the program that they come from.

show_program(unit)     ->   [Line("  %y = mul %x, %x", span of `x * x`), ...]
"""

from __future__ import annotations

from slangrad.base.source import Line
from slangrad.check.model import checked as forms
from slangrad.check.model.declref import DeclRef
from slangrad.ir.text.printer import program_lines
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk as walk_tree
from slangrad.syntax.print import node_lines
from slangrad.unit import CompileRequest, FlatKernel, Unit


def show_ast(request: CompileRequest) -> list[Line]:
    assert request.declared is not None
    first, *others = user_functions(request.declared)
    return [*node_lines(first), *(line for function in others for line in (Line(""), *node_lines(function)))]


def show_program(stage_value: Unit | FlatKernel) -> list[Line]:
    return program_lines(stage_value.program)


def show_derivatives(unit: Unit) -> list[Line]:
    """The program, and before it the values that each reverse sweep stores and computes again."""
    lines = []
    for report in unit.reports.values():
        lines += str(report).splitlines()
    return [*(Line(f"// {line}") for line in lines), Line(""), *program_lines(unit.program)]


def user_functions(function: ast.FunctionDeclaration) -> list[ast.FunctionDeclaration]:
    """The function and those that it calls, functions of the library left out."""
    functions = [function]
    for current in functions:  # grows while it is read
        called = (_called(node) for node in walk_tree(current))
        functions += [
            f
            for f in dict.fromkeys(called)
            if f is not None and f not in functions and not f.span.source.is_library
        ]
    return functions


def _called(node: ast.SyntaxNode) -> ast.FunctionDeclaration | None:
    form = getattr(node, "ref", None)
    while isinstance(form, (forms.FunctionCall, forms.Derivative)):
        form = form.function
    declared = form.declaration if isinstance(form, DeclRef) else None
    return declared if isinstance(declared, ast.FunctionDeclaration) else None
