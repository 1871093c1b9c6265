"""Lambda expressions.

In: `(float x) => a * x`.   Out: a value of a LambdaType of its own that captures `a`; its result is inferred.

A lambda conforms to IFunc<R, A...> with its own result and parameters, so it can be passed where a type
parameter is bounded by that. A call that wants another result has the lambda checked once more, with this result.
"""

from __future__ import annotations

from slangrad.check.bodies.statements import check_block
from slangrad.check.calls.coerce import coerce
from slangrad.check.calls.convert import common_type
from slangrad.check.generics.signatures import signature_of
from slangrad.check.generics.substitution import self_type
from slangrad.check.model import checked
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.meanings import OverloadMeaning
from slangrad.check.model.packs import grouped, spliced
from slangrad.check.model.types import ERROR, VOID, FunctionType, Type
from slangrad.check.names.scopes import Body, Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate


def check_lambda(scope: Scope, node: ast.Lambda) -> Type:
    function = node.function
    checker = scope.checker
    checker.scopes_of_locals[function] = scope
    info: checked.FunctionInfo = checker.info(function)
    inside = Scope(checker, checker.scope_of(function), function)
    for parameter in function.parameters:
        inside.add(parameter)
    inside.body = Body(function, info, outer=scope.body)
    inside.breakable, inside.handlers = frozenset(), ()
    assert function.body is not None
    check_block(inside, function.body)
    wanted = checker.lambda_results.get(function)
    info.result = _result(scope, inside.body) if wanted is None else wanted
    for statement, _ in inside.body.returns:
        if statement.value is not None and info.result is not ERROR:
            coerce(inside, statement.value, info.result, "the result of the lambda")
    info.body_checked = True
    node.ref = checked.Closure(function)
    return self_type(function)


def _result(scope: Scope, body: Body) -> Type:
    result: Type | None = None
    for statement, kind in body.returns:
        if kind is ERROR:
            return ERROR
        joined = kind if result is None else common_type(scope.checker, result, kind)
        if joined is None:
            return scope.checker.error(
                "E0311", f"this lambda returns '{result}' and '{kind}'", statement.span
            )
        result = joined
    return VOID if result is None else result


def function_value(scope: Scope, node: ast.Expression, meaning: OverloadMeaning) -> Type:
    """A function's name in place of a value: `f` is `(A a, B b) => f(a, b)`."""
    signature, reason = _only_signature(scope, meaning)
    writes = signature is not None and any(
        expected.direction not in ("in", "constref") for expected in signature.parameters
    )
    if signature is None or scope.body is None or writes:
        code = "E0316" if signature is None else "E9012"
        reason = reason or (
            "it has parameters that it writes" if scope.body else "there is no function around"
        )
        message = f"'{meaning.name}' cannot be a value: {reason}"
        scope.checker.error(code, message, node.span, "pass a lambda that calls it")
        node.type = ERROR
        return ERROR
    span = node.span
    parameters = [
        ast.ParameterDeclaration(span, f"${i}", span, "in", None, None, [])
        for i in range(len(signature.parameters))
    ]
    call = ast.Call(span, duplicate(node), [ast.Name(span, passed.name) for passed in parameters])
    body = ast.Block(span, [ast.Return(span, call)])
    function = ast.FunctionDeclaration(span, "", span, parameters, None, None, body, [])
    function.parent = scope.body.declaration
    for parameter, declared in zip(parameters, signature.parameters):
        parameter.parent = function
        parameter.checked = checked.ParameterInfo(declared.type, "in", declared.no_diff)
    expression = ast.Lambda(span, function)
    info: checked.FunctionInfo = scope.checker.info(function)
    info.level = scope.checker.info(meaning.candidates[0].declaration).level
    kind = check_lambda(scope, expression)
    node.type, node.ref = kind, expression.ref
    return kind


def _only_signature(scope: Scope, meaning: OverloadMeaning) -> tuple[FunctionType | None, str]:
    """The signature of the named function, or why it cannot be a value."""
    candidate = meaning.candidates[0]
    if len(meaning.candidates) > 1:
        return None, "there are several functions of this name"
    if candidate.inner is not None or not isinstance(candidate.declaration, ast.FunctionDeclaration):
        return None, "it is no function that is declared by this name"
    if scope.checker.info(candidate.declaration).this_type is not None:
        return None, "it is a method, which needs an object"
    generics = candidate.declaration.generics
    arguments = grouped(generics, spliced(candidate.explicit))
    if arguments is None or len(arguments) != len(generics):
        return None, "its generic arguments are not written"
    seen: Bindings = {**candidate.substitution}
    seen.update(zip(generics, arguments))
    return signature_of(scope.checker, DeclRef(candidate.declaration, seen)), ""
