"""Errors: `throw`, `try`, and which `catch` they lead to.

    int f(int n) throws MyError { if (n < 0) throw MyError.Negative;  return n; }
    do { let x = try f(n); } catch (e: MyError) { }

An error goes to the nearest `catch` of exactly its type or of any type, else out of the function, which must
declare it. A call of a function that throws must be marked. Types are static, so the target of an error is known at
compile time.
"""

from __future__ import annotations

from slangrad.check.calls.candidates import Match
from slangrad.check.calls.coerce import stripped
from slangrad.check.generics.substitution import substitute
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import ERROR, VOID, Type
from slangrad.check.names.attributes import check_modifiers
from slangrad.check.names.places import value_type
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast


def thrown_by(checker: Checker, candidate: Candidate) -> Type | None:
    """The errors that a function throws, in its own terms."""
    return getattr(checker.info(candidate.declaration), "throws", None)


def declare_error(scope: Scope, parameter: ast.ParameterDeclaration) -> None:
    """The variable of a handler."""
    checker = scope.checker
    check_modifiers(checker, parameter)
    kind = ERROR if parameter.value_type is None else checker.resolve_type(scope, parameter.value_type)
    if parameter.value_type is None:
        checker.error("E0311", f"'{parameter.name}' needs the type of the errors to catch", parameter.span)
    if kind is VOID:
        checker.error("E0323", "there are no errors of type 'void'", parameter.span)
        kind = ERROR
    parameter.checked = checked.ParameterInfo(kind, "in")


def check_throw(scope: Scope, node: ast.Throw) -> None:
    kind = scope.checker.check_value(scope, node.value)
    if kind is not ERROR:
        node.handler = _handler(scope, node, "throw", value_type(node.value))


def check_try(scope: Scope, node: ast.Try) -> Type:
    call = stripped(node.operand)
    outer, scope.checker.tried = scope.checker.tried, call
    kind = scope.checker.check_value(scope, node.operand)
    scope.checker.tried = outer
    if kind is ERROR:
        return ERROR
    thrown = _thrown_in(scope, call)
    if thrown is None:
        message = "'try' needs a call of a function that throws errors"
        scope.checker.error("E0609", message, node.span, "leave it out")
        return kind
    node.ref = checked.TriedCall(call, _handler(scope, node, "try", thrown))
    return kind


def _thrown_in(scope: Scope, node: ast.Expression) -> Type | None:
    form = node.ref
    if not isinstance(form, checked.FunctionCall) or not isinstance(form.function, DeclRef):
        return None
    info: checked.FunctionInfo = scope.checker.info(form.function.declaration)
    if info.throws is None:
        return None
    return substitute(scope.checker, info.throws, form.function.substitution)


def require_try(scope: Scope, node: ast.Expression, match: Match) -> None:
    """Report a call that may throw and is not marked."""
    thrown = thrown_by(scope.checker, match.candidate)
    if thrown is not None and scope.checker.tried is not node:
        name = match.candidate.declaration.name
        message = f"'{name}' may throw an error of type '{thrown}', and the call is not marked with 'try'"
        scope.checker.error("E0609", message, node.span, f"write 'try {name}(...)'")


def report_no_derivative(scope: Scope, node: ast.Differentiate, candidate: Candidate) -> None:
    name, kind = candidate.declaration.name, thrown_by(scope.checker, candidate)
    scope.checker.error(
        "E0503",
        f"'{name}' throws errors of type '{kind}', so {node.mode} cannot be taken of it",
        node.function.span,
        "take it of a function that catches them",
    )


def _handler(scope: Scope, node: ast.SyntaxNode, word: str, kind: Type) -> ast.Catch | None:
    """The handler that an error leads to; None for the function around, and after an error."""
    for handler in reversed(scope.handlers):
        if handler is None:
            message = f"the '{kind}' of this '{word}' would leave what is deferred"
            scope.checker.error("E0608", message, node.span, "catch it in there")
            return None
        if handler.parameter is None or scope.checker.info(handler.parameter).type in (kind, ERROR):
            return handler
    assert scope.body is not None
    declared = scope.body.info.throws
    if declared is kind or declared is ERROR:
        return None
    name = scope.body.declaration.name or "the lambda"
    if declared is None:
        message, note = (
            f"nothing catches the '{kind}' of this '{word}'",
            f"'{name}' does not say 'throws {kind}'",
        )
    else:
        message = f"nothing catches the '{kind}' of this '{word}': '{name}' throws '{declared}'"
        note = "an error is caught by exactly its own type"
    scope.checker.error("E0608", message, node.span, note)
    return None
