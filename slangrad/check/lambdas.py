"""Lambda expressions.

In: `(float x) => a * x`.   Out: a value of a LambdaType of its own that captures `a`; its result is inferred.

A lambda conforms to IFunc<R, A...> with its own result and parameters, so it can be passed where a type
parameter is bounded by that.
"""

from __future__ import annotations

from typing import Any

from slangrad.check import checked
from slangrad.check.coerce import coerce
from slangrad.check.convert import common_type
from slangrad.check.meanings import Candidate
from slangrad.check.scopes import Body, Scope
from slangrad.check.statements import check_block
from slangrad.check.substitution import (
    nominal_parameters,
    own_substitution,
    self_argument,
    substitute,
)
from slangrad.check.types import ERROR, VOID, InterfaceType, LambdaType, Type, nominal
from slangrad.check.world import World
from slangrad.syntax import ast

FUNCTION_INTERFACES = ("IFunc", "IMutatingFunc", "IDifferentiableFunc", "IDifferentiableMutatingFunc")


def check_lambda(scope: Scope, node: ast.Lambda) -> Type:
    function = node.function
    world = scope.world
    world.scopes_of_locals[function] = scope
    info: checked.FunctionInfo = world.info(function)
    inside = Scope(world, world.scope_of(function), function)
    for parameter in function.parameters:
        inside.add(parameter)
    inside.body = Body(function, info, outer=scope.body)
    inside.breakable = frozenset()
    assert function.body is not None
    check_block(inside, function.body)
    info.result = _result(scope, inside.body)
    for statement, _ in inside.body.returns:
        if statement.value is not None and info.result is not ERROR:
            coerce(inside, statement.value, info.result, "the result of the lambda")
    info.body_checked = True
    node.ref = checked.Closure(function)
    kind: Type = nominal(function, tuple(self_argument(each) for each in nominal_parameters(function)))
    return kind


def _result(scope: Scope, body: Body) -> Type:
    result: Type | None = None
    for statement, kind in body.returns:
        if kind is ERROR:
            return ERROR
        joined = kind if result is None else common_type(scope.world, result, kind)
        if joined is None:
            scope.world.error("E0311", f"this lambda returns '{result}' and '{kind}'", statement.span)
            return ERROR
        result = joined
    return VOID if result is None else result


def lambda_candidate(world: World, kind: Type, base: Any) -> Candidate | None:
    """The function behind a value of a lambda type."""
    if not isinstance(kind, LambdaType):
        return None
    return Candidate(kind.declaration, own_substitution(kind), base)


def function_interfaces(world: World, kind: LambdaType) -> tuple[InterfaceType, ...]:
    """IFunc<R, (A, B)> and its kin, as far as the standard library declares them."""
    info: checked.FunctionInfo = world.info(kind.declaration)
    seen = own_substitution(kind)
    result = substitute(world, info.result, seen)
    parameters = tuple(substitute(world, world.info(each).type, seen) for each in info.parameters)
    found = []
    for name in FUNCTION_INTERFACES:
        interface = world.standard(name)
        if isinstance(interface, ast.Interface):
            found.append(nominal(interface, (result, parameters)))
    return tuple(found)
