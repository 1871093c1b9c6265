"""Can the end of a function be reached?

In: the body of a function.   Out: whether control may leave it without a `return`.

Conditions count as unknown, but for the literal `true`; a loop that never ends and has no `break` is
never left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.syntax import ast
from slangrad.syntax.walk import children, walk


def falls_through(node: ast.Statement) -> bool:
    """Whether what stands after a statement can run."""
    rule = _RULES.get(type(node))
    return True if rule is None else rule(node)


def _sequence(statements: list[ast.Statement]) -> bool:
    return all(falls_through(each) for each in statements)


def _if(node: ast.If | ast.IfLet) -> bool:
    return node.otherwise is None or falls_through(node.then) or falls_through(node.otherwise)


def _switch(node: ast.Switch) -> bool:
    if not any(each.is_default for each in node.cases):
        return True
    if any(_breaks(statement) for case in node.cases for statement in case.body):
        return True
    return bool(node.cases) and _sequence(node.cases[-1].body)


def _breaks(node: ast.Node) -> bool:
    """Whether a `break` in here leaves the statement around it."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, _TAKING_BREAKS):
        return any(isinstance(each, ast.Break) and each.label is not None for each in walk(node))
    return not isinstance(node, (ast.Expression, ast.Defer, ast.TargetSwitch)) and any(
        map(_breaks, children(node))
    )


_TAKING_BREAKS = (ast.For, ast.While, ast.DoWhile, ast.CompileTimeFor, ast.Switch)


def _endless(condition: ast.Expression | None) -> bool:
    return condition is None or (isinstance(condition, ast.BoolLiteral) and condition.value)


def _loop(node: ast.For | ast.While) -> bool:
    return not _endless(node.condition) or _breaks(node.body)


def _do_while(node: ast.DoWhile) -> bool:
    if _breaks(node.body):
        return True
    continues = any(isinstance(each, ast.Continue) for each in walk(node.body))
    return not _endless(node.condition) and (falls_through(node.body) or continues)


_RULES: dict[type[ast.Statement], Callable[[Any], bool]] = {
    ast.Return: lambda node: False,
    ast.Discard: lambda node: False,
    ast.Throw: lambda node: False,
    ast.Break: lambda node: False,
    ast.Continue: lambda node: False,
    ast.Block: lambda node: _sequence(node.statements),
    ast.If: _if,
    ast.IfLet: _if,
    ast.DoCatch: lambda node: any(falls_through(each.body) for each in (node, *node.handlers)),
    ast.Switch: _switch,
    ast.For: _loop,
    ast.While: _loop,
    ast.DoWhile: _do_while,
    ast.Labeled: lambda node: falls_through(node.statement),
    ast.TargetSwitch: lambda node: any(
        _sequence(case.body) for case in ([node.chosen] if node.chosen else node.cases)
    ),
    ast.TargetAssembly: lambda node: False,
}
