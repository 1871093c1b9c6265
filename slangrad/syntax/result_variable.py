"""`__return_val`, the result of a function as a variable.

In: a function whose body speaks of `__return_val`.   Out: nothing; the body declares the variable and returns it.

    S f() { __return_val.x = 1; }    ->    S f() { S __return_val; __return_val.x = 1; return __return_val; }
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.syntax.ast import Block, DeclarationStatement, Function, Lambda, Name, Node, Return, Variable
from slangrad.syntax.copies import duplicate
from slangrad.syntax.walk import children

RESULT = "__return_val"


def declare_result(function: Function) -> None:
    """Functions without a result have no such variable, so the name stays unknown there."""
    body, result = function.body, function.result
    if body is None or result is None or (isinstance(result, Name) and result.name == "void"):
        return
    span = function.name_span
    variable = Variable(span, RESULT, span, "", duplicate(result), None, [], None)
    variable.parent = function
    for each in _returns(body):
        if each.value is None:
            each.value = Name(each.span, RESULT)
    last = Return(span, Name(span, RESULT))
    function.body = Block(body.span, [DeclarationStatement(span, [variable]), *body.statements, last])


def _returns(node: Node) -> Iterator[Return]:
    """Those of the function itself."""
    if isinstance(node, Return):
        yield node
    elif not isinstance(node, (Lambda, Function)):
        for child in children(node):
            yield from _returns(child)
