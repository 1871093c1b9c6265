"""A kernel after each stage as lines of text, which know the lines of the program that they were made from.

show_llvm(c)     ->   [Line("  %v12 = fmul contract <16 x float> %v8, %v8", span of `x * x`), ...]
"""

from __future__ import annotations

from slangrad.base.source import Line
from slangrad.check.model import checked as forms
from slangrad.check.model.declref import DeclRef
from slangrad.ir.text import function_lines, program_lines
from slangrad.llvm import native
from slangrad.llvm.debug_lines import lines_of_listing, with_debug_lines
from slangrad.stages import Compilation
from slangrad.syntax import ast
from slangrad.syntax.print import node_lines
from slangrad.syntax.walk import walk as walk_tree


def show_ast(c: Compilation) -> list[Line]:
    assert c.declared is not None
    first, *others = user_functions(c.declared)
    return [*node_lines(first), *(line for each in others for line in (Line(""), *node_lines(each)))]


def show_program(c: Compilation) -> list[Line]:
    return program_lines(c.program)


def show_derivatives(c: Compilation) -> list[Line]:
    """The program, and before it what is stored for each reverse sweep and what is computed again."""
    lines = []
    for each in c.reports.values():
        lines += str(each).splitlines()
    return [*(Line(f"// {line}") for line in lines), Line(""), *program_lines(c.program)]


def show_delayed(c: Compilation) -> list[Line]:
    """The kernel whose float adds wait for the end of the launch, what runs before and after; none if none may wait."""
    if c.delayed is None:
        return [Line("// no float add waits for the end of the launch")]
    functions = (c.delayed.kernel, c.delayed.plan, c.delayed.finish)
    return [line for f in functions for line in function_lines(f)]


def show_lanes(c: Compilation) -> list[Line]:
    assert c.wide is not None
    return [line for f in (c.wide.full, c.wide.masked) if f is not None for line in function_lines(f)]


def show_llvm(c: Compilation) -> list[Line]:
    assert c.module is not None
    return c.module.lines()


def show_assembly(c: Compilation) -> list[Line]:
    assert c.module is not None and c.machine is not None
    text, lines = with_debug_lines(c.module.text), c.module.lines()
    listing = native.assembly(text, c.machine, c.options.optimize)
    return [Line(text, lines[n - 1].span if n else None) for text, n in lines_of_listing(listing)]


def show_nothing(c: Compilation) -> list[Line]:
    return []


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
    return declared.span.source.is_library
