"""What to write in place of an operator that is not there.

In: `x ** 2`, and its operands.   Out: "a power is pow(x, y)", or None.
"""

from __future__ import annotations

from slangrad.check.calls.coerce import stripped
from slangrad.check.model.types import Matrix, ParameterType, Scalar, element_of
from slangrad.check.names.places import value_type
from slangrad.syntax import ast

POWER = "a power is pow(x, y); for small whole exponents x * x is faster"


def other_way(node: ast.Expression, operator: str, operands: list[ast.Expression]) -> str | None:
    """What to write in place of an operator that is not there."""
    kinds = [value_type(each) for each in operands if not isinstance(stripped(each), ast.InitializerList)]
    generic = next((each for each in kinds if isinstance(each, ParameterType)), None)
    if generic is not None and (bound := _bound_with(operator)):
        return f"'{generic}' has the operators of its bound: '{generic} : {bound}' has this one"
    if operator == "*" and len(operands) == 1 and node.span.source.text[node.span.start - 1] == "*":
        return POWER
    if len(operands) == 2 and operator == "*" and any(isinstance(each, Matrix) for each in kinds):
        return "'*' works componentwise; the product of matrices and vectors is mul(a, b)"
    if operator == "^" and any(isinstance(element_of(each), Scalar) for each in kinds):
        return f"'^' combines the bits of integers; {POWER}"
    return None


def _bound_with(operator: str) -> str | None:
    """The interface of the library that has an operator."""
    if operator in ("&", "|", "^", "<<", ">>"):
        return "IInteger"
    if operator in ("<", ">", "<=", ">=", "==", "!="):
        return "IComparable"
    return "IArithmetic" if operator in ("+", "-", "*", "/", "%") else None
