"""`__return_val`, the result of a function as a variable.

In: a function whose body speaks of `__return_val`.   Out: nothing; the body declares the variable and returns it.

    S f() { __return_val.x = 1; }    ->    S f() { S __return_val; __return_val.x = 1; return __return_val; }
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.syntax import ast
from slangrad.syntax.copies import duplicate
from slangrad.syntax.walk import children

RESULT = "__return_val"


def declare_result(function: ast.Function) -> None:
    """Functions without a result have no such variable, so the name stays unknown there."""
    body, result = function.body, function.result
    if body is None or result is None or (isinstance(result, ast.Name) and result.name == "void"):
        return
    span = function.name_span
    variable = ast.Variable(span, RESULT, span, "", duplicate(result), None, [], None)
    variable.parent = function
    for each in _returns(body):
        if each.value is None:
            each.value = ast.Name(each.span, RESULT)
    last = ast.Return(span, ast.Name(span, RESULT))
    function.body = ast.Block(body.span, [ast.DeclarationStatement(span, [variable]), *body.statements, last])


def _returns(node: ast.Node) -> Iterator[ast.Return]:
    """Those of the function itself."""
    if isinstance(node, ast.Return):
        yield node
    elif not isinstance(node, (ast.Lambda, ast.Function)):
        for child in children(node):
            yield from _returns(child)
