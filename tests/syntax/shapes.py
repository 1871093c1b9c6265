"""Expressions and types as text in which every grouping is visible.

In: an Expression.   Out: a line: `a + b * c` is "(a + (b * c))", `T*` is "pointer(T)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile, text_of
from slangrad.syntax import ast
from slangrad.syntax.parser import parse_module
from slangrad.syntax.print import node_lines


def shape(node: ast.Expression | None) -> str:
    return "-" if node is None else _SHAPES[type(node)](node)


def listed(nodes: Iterable[ast.Expression]) -> str:
    return ", ".join(shape(node) for node in nodes)


def print_node(node: ast.SyntaxNode) -> str:
    """The node and all below it, as `slangrad dump` shows them."""
    return text_of(node_lines(node))


def parse(text: str) -> ast.ModuleDeclaration:
    """A module from a text that has no errors."""
    reporter = Reporter()
    module = parse_module(SourceFile("test.slang", text), reporter)
    assert not reporter.diagnostics, "\n".join(str(each) for each in reporter.diagnostics)
    return module


def errors(text: str) -> list[str]:
    """Code, line and message of everything reported about a text."""
    reporter = Reporter()
    parse_module(SourceFile("test.slang", text), reporter)
    lines = [each.span.line if each.span else 0 for each in reporter.diagnostics]
    return [f"{each.code} {line}: {each.message}" for each, line in zip(reporter.diagnostics, lines)]


def expression(text: str) -> ast.Expression:
    """The expression of a statement, with `struct S {}` known as a type."""
    function = parse(f"struct S {{}} void test() {{ result = {text}; }}").members[1]
    assert isinstance(function, ast.FunctionDeclaration) and function.body is not None
    statement = function.body.statements[0]
    assert isinstance(statement, ast.ExpressionStatement) and isinstance(statement.expression, ast.Assign)
    return statement.expression.value


def statements(text: str) -> list[ast.Statement]:
    function = parse(f"void test() {{ {text} }}").members[0]
    assert isinstance(function, ast.FunctionDeclaration) and function.body is not None
    return function.body.statements


# fmt: off
_SHAPES: dict[type, Callable[..., str]] = {
    ast.IntLiteral:             lambda e: f"{e.value}{e.suffix}",
    ast.FloatLiteral:           lambda e: f"{e.value!r}{e.suffix}",
    ast.BoolLiteral:            lambda e: str(e.value).lower(),
    ast.CharLiteral:            lambda e: f"char {e.value}",
    ast.StringLiteral:          lambda e: repr(e.value),
    ast.NullLiteral:            lambda e: "nullptr",
    ast.NoneLiteral:            lambda e: "none",
    ast.Name:                   lambda e: f"::{e.name}" if e.from_root else e.name,
    ast.This:                   lambda e: "this",
    ast.Super:                  lambda e: "super",
    ast.ThisType:               lambda e: "This",
    ast.Paren:                  lambda e: f"[{shape(e.inner)}]",
    ast.Member:                 lambda e: f"{shape(e.base)}{e.separator}{e.name}",
    ast.Index:                  lambda e: f"{shape(e.base)}[{listed(e.arguments)}]",
    ast.Call:                   lambda e: f"{shape(e.callee)}({listed(e.arguments)})",
    ast.NamedArgument:          lambda e: f"{e.name}: {shape(e.value)}",
    ast.GenericApplication:     lambda e: f"{shape(e.base)}<{listed(e.arguments)}>",
    ast.Unary:                  lambda e: f"({e.operator}{shape(e.operand)})",
    ast.Postfix:                lambda e: f"({shape(e.operand)}{e.operator})",
    ast.Binary:                 lambda e: f"({shape(e.left)} {e.operator} {shape(e.right)})",
    ast.Assign:                 lambda e: f"({shape(e.target)} {e.operator} {shape(e.value)})",
    ast.Conditional:            lambda e: f"({shape(e.condition)} ? {shape(e.then)} : {shape(e.otherwise)})",
    ast.Comma:                  lambda e: f"({shape(e.left)}, {shape(e.right)})",
    ast.Cast:                   lambda e: f"cast({shape(e.target)}, {shape(e.operand)})",
    ast.As:                     lambda e: f"({shape(e.operand)} as {shape(e.target)})",
    ast.Is:                     lambda e: f"({shape(e.operand)} is {shape(e.target)})",
    ast.InitializerList:        lambda e: f"{{{listed(e.elements)}}}",
    ast.NoDiff:                 lambda e: f"no_diff({shape(e.operand)})",
    ast.Differentiate:          lambda e: f"{e.mode}({shape(e.function)})",
    ast.SizeOf:                 lambda e: f"{e.query}({shape(e.operand)})",
    ast.New:                    lambda e: f"new {shape(e.target)}({listed(e.arguments)})",
    ast.Try:                    lambda e: f"try({shape(e.operand)})",
    ast.Expand:                 lambda e: f"expand({shape(e.pattern)})",
    ast.Each:                   lambda e: f"each({shape(e.pack)})",
    ast.AssemblyBlock:          lambda e: f"assembly {e.text!r}",
    ast.PointerTypeExpression:  lambda e: f"pointer({shape(e.element)})",
    ast.ArrayTypeExpression:    lambda e: f"array({shape(e.element)}, {shape(e.count)})",
    ast.OptionalTypeExpression: lambda e: f"optional({shape(e.element)})",
    ast.ConjunctionExpression:  lambda e: f"({shape(e.left)} & {shape(e.right)})",
    ast.TupleExpression:        lambda e: f"tuple({listed(e.elements)})",
    ast.FunctionTypeExpression: lambda e: f"function({listed(e.parameters)}) -> {shape(e.result)}",
    ast.ModifiedType:           lambda e: f"{e.modifier} {shape(e.element)}",
}
# fmt: on
