"""Operators on builtin types: numbers, vectors, matrices, enums, pointers.

In: `a * v` with a float and a float3.   Out: Operator("*") on two float3, the scalar splatted.

Operands are brought to their common type. None where a type is not builtin, or has no such operator.
"""

from __future__ import annotations

from slangrad.check.calls.coerce import commit, plan, stripped
from slangrad.check.calls.convert import arithmetic_type, common_type, is_builtin_parameter
from slangrad.check.interfaces.lookup import tag_type
from slangrad.check.model import checked
from slangrad.check.model.types import (
    BOOL,
    INT64,
    NULL,
    EnumType,
    MatrixType,
    PointerType,
    ScalarType,
    Type,
    VectorType,
    element_of,
    with_element,
)
from slangrad.check.names.places import value_type
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast

ARITHMETIC = {"+", "-", "*", "/", "%"}
BITWISE = {"&", "|", "^"}
SHIFTS = {"<<", ">>"}
COMPARISONS = {"<", ">", "<=", ">="}
EQUALITIES = {"==", "!="}
LOGICAL = {"&&", "||"}


def is_literal(node: ast.Expression) -> bool:
    """A number as written, also a negative one."""
    node = stripped(node)
    if isinstance(node, ast.Unary) and node.operator == "-":
        return is_literal(node.operand)
    return isinstance(node, (ast.IntLiteral, ast.FloatLiteral))


Typing = tuple[Type, ...]  # the type of the converted operands, their positions, and the type of the result


def apply_builtin(
    scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]
) -> Type | None:
    types = [value_type(side) for side in operands]
    if operator == "+" and isinstance(types[-1], PointerType):
        operands, types = operands[::-1], types[::-1]
    typing = (
        _typing(scope, operator, operands, types) if all(_is_builtin(scope, side) for side in types) else None
    )
    if typing is None:
        return None
    for operand, kind in zip(operands, typing[:-1]):
        coercion = plan(scope, operand, kind, explicit=True)
        if coercion is None:
            return None
        commit(scope, operand, coercion)
    node.ref = checked.Operator(operator, tuple(operands))
    return typing[-1]


def _typing(scope: Scope, operator: str, operands: list[ast.Expression], types: list[Type]) -> Typing | None:
    if len(types) == 1:
        return _unary(scope, operator, *types)
    if any(isinstance(kind, PointerType) for kind in types):
        return _pointers(operator, *types)
    if operator in SHIFTS:
        return _shift(scope, *types)
    common = _operand_type(scope, operator, operands)
    if common is None:
        return None
    return common, common, with_element(common, BOOL) if operator in COMPARISONS | EQUALITIES else common


def _is_builtin(scope: Scope, kind: Type) -> bool:
    if isinstance(kind, (ScalarType, VectorType, MatrixType, EnumType, PointerType)) or kind is NULL:
        return True
    return is_builtin_parameter(scope.checker, kind)


def _operand_type(scope: Scope, operator: str, operands: list[ast.Expression]) -> Type | None:
    left, right = (value_type(operand) for operand in operands)
    if isinstance(left, EnumType) and left is right:
        return left if operator in BITWISE | EQUALITIES | COMPARISONS else tag_type(scope.checker, left)
    common = common_type(scope.checker, left, right)
    if common is None:
        common = literal_adapts(scope, operands)
    if common is None:
        return None
    if isinstance(common, EnumType):
        common = tag_type(scope.checker, common)
    element = element_of(common)
    if operator in LOGICAL:
        return with_element(common, BOOL)
    if operator in ARITHMETIC | COMPARISONS:
        return arithmetic_type(common)
    if operator in BITWISE and isinstance(element, ScalarType) and element.is_float:
        return None
    return common


def literal_adapts(scope: Scope, operands: list[ast.Expression]) -> Type | None:
    """A number next to a type parameter, or to a vector of one, is of that type."""
    for parameter_side, other in (operands, operands[::-1]):
        kind = value_type(parameter_side)
        parameter = is_builtin_parameter(scope.checker, element_of(kind))
        if parameter and (is_literal(other) or value_type(other) is element_of(kind)):
            return kind
    return None


def _shift(scope: Scope, left: Type, right: Type) -> Typing | None:
    elements = [element_of(side) for side in (left, right)]
    if any(isinstance(element, ScalarType) and element.is_float for element in elements):
        return None
    result = arithmetic_type(left)
    if isinstance(right, (VectorType, MatrixType)) and not isinstance(left, (VectorType, MatrixType)):
        result = with_element(right, element_of(result))
    if isinstance(result, EnumType):
        result = tag_type(scope.checker, result)
    return result, with_element(result, element_of(arithmetic_type(right))), result


def _pointers(operator: str, left: Type, right: Type) -> Typing | None:
    if operator in COMPARISONS | EQUALITIES:
        common = left if isinstance(left, PointerType) else right
        return common, common, BOOL
    if operator == "-" and left is right:
        return (INT64,)
    moves = operator in ("+", "-") and isinstance(right, ScalarType) and right.is_integer
    return (left,) if moves else None


def _unary(scope: Scope, operator: str, kind: Type) -> Typing | None:
    if isinstance(kind, PointerType) and operator != "!":
        return None
    if isinstance(kind, EnumType):
        kind = kind if operator == "~" else tag_type(scope.checker, kind)
    element = element_of(kind)
    if operator == "~" and isinstance(element, ScalarType) and (element.is_float or element is BOOL):
        return None
    rules = {"!": with_element(kind, BOOL), "~": kind, "-": arithmetic_type(kind), "+": arithmetic_type(kind)}
    return (rules[operator],) * 2 if operator in rules else None
