"""Converting a checked expression to the type of its place.

In: the literal `1` and `half`.   Out: a Coercion with its cost; `commit` writes it into the node.

Planning changes no node, so overloads can be compared. Literals are cheaper than other values of their type.
Initializer lists and lambdas get their type from their place.
"""

from __future__ import annotations

from slangrad.check.calls.convert import LITERAL_FITS, convert, splat_cost
from slangrad.check.model.meanings import Coercion
from slangrad.check.model.types import ERROR, VOID, ScalarType, Type, element_of, is_abstract
from slangrad.check.names.places import value_type
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast


def plan(scope: Scope, node: ast.Expression, target: Type, explicit: bool = False) -> Coercion | None:
    """The conversion of `node` to `target`; None without one."""
    if target is ERROR:
        return Coercion(target, 0)
    if isinstance(node, ast.InitializerList):
        return scope.checker.plan_list(scope, node, target)
    if isinstance(node, ast.Paren) and node.conversion is None:
        inner = stripped(node)
        if isinstance(inner, ast.InitializerList):
            return plan(scope, inner, target, explicit)
    source = value_type(node)
    if source is VOID and target is not VOID:
        return None
    coercion = convert(scope.checker, source, target, explicit)
    if coercion is None:
        return scope.checker.plan_constructor(scope, node, target)
    coercion.cost = _literal_cost(node, target, coercion)
    return coercion


def stripped(node: ast.Expression) -> ast.Expression:
    """Without parentheses around it."""
    while isinstance(node, ast.Paren):
        node = node.inner
    return node


def literal_value(node: ast.Expression) -> int | None:
    """The value of an integer literal, also of a negative one."""
    node = stripped(node)
    if isinstance(node, ast.IntLiteral):
        return node.value
    if isinstance(node, ast.Unary) and node.operator == "-":
        inner = literal_value(node.operand)
        return None if inner is None else -inner
    return None


def _literal_cost(node: ast.Expression, target: Type, coercion: Coercion) -> int:
    element = element_of(target)
    value = literal_value(node)
    if value is None or not isinstance(element, ScalarType) or not element.is_integer:
        return coercion.cost
    fitting = LITERAL_FITS + splat_cost(target)
    return min(coercion.cost, fitting) if holds(element, value) else coercion.cost


def holds(kind: ScalarType, value: int) -> bool:
    """Whether an integer type has a value."""
    if kind.kind == "uint":
        return 0 <= value < 1 << kind.bits
    return -(1 << (kind.bits - 1)) <= value < 1 << (kind.bits - 1)


def commit(scope: Scope, node: ast.Expression, coercion: Coercion) -> None:
    """Write a plan into the node."""
    if coercion.apply is not None:
        coercion.apply()
    elif coercion.conversion is not None:
        assert node.conversion is None or node.conversion.kind == "dereference"
        node.conversion = coercion.conversion
    if coercion.warning is not None:
        scope.checker.warning("E0310", coercion.warning, node.span, "write the conversion to silence this")
    kind = element_of(coercion.target)
    if isinstance(kind, ScalarType) and kind.is_float:
        _warn_of_lost_rest(scope, stripped(node))


def _warn_of_lost_rest(scope: Scope, node: ast.Expression) -> None:
    """1 / 2 is 0, and becomes 0.0: dropping the rest is probably a mistake."""
    if not isinstance(node, ast.Binary) or node.operator != "/":
        return
    left, right = literal_value(node.left), literal_value(node.right)
    if left is not None and right and left % right:
        note = f"write {left}.0 / {right}"
        message = f"{left} / {right} of whole numbers is {int(left / right)}"
        scope.checker.warning("E0332", message, node.span, note)


def coerce(scope: Scope, node: ast.Expression, target: Type, subject: str) -> bool:
    """Convert implicitly, or report that `what` cannot be converted."""
    coercion = plan(scope, node, target)
    if coercion is not None:
        commit(scope, node, coercion)
        return True
    if not report_list_failure(scope, node, target):
        scope.checker.error(
            "E0311", mismatch(node, target, subject), node.span, cast_note(scope, node, target)
        )
    return False


def report_list_failure(scope: Scope, node: ast.Expression, target: Type) -> bool:
    """Explain why an initializer list does not fit; False for other expressions."""
    inner = stripped(node)
    if not isinstance(inner, ast.InitializerList):
        return False
    scope.checker.explain_list(scope, inner, target)
    return True


def mismatch(node: ast.Expression, target: Type, subject: str) -> str:
    return f"{subject} must be '{target}', not {shown_type(node)}"


def shown_type(node: ast.Expression) -> str:
    """For messages."""
    return (
        "an initializer list" if isinstance(stripped(node), ast.InitializerList) else f"'{value_type(node)}'"
    )


def cast_note(scope: Scope, node: ast.Expression, target: Type) -> str | None:
    """Suggest the cast that would do it."""
    if isinstance(node, ast.InitializerList) or is_abstract(target):
        return None
    explicit = plan(scope, node, target, explicit=True)
    return None if explicit is None else f"write '({target})' before it to convert"
