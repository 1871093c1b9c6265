"""Loops whose number of iterations is known before they run.

    for (uint i = a; i < n; i += 2) body      %trips = ...     for %trips { i = a + 2 * k   body }

Only the step may change the variable, no statement in the loop may change the bound, and only the condition may end
the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model import checked
from slangrad.ir.data.types import U32, U64, Scalar, Type, is_integer
from slangrad.ir.ops.core import Value
from slangrad.lower.bodies.assigned import assigned_variables
from slangrad.lower.bodies.purity import stays
from slangrad.lower.model.exits import ExitTarget, assigned_flags
from slangrad.lower.model.frame import Frame
from slangrad.lower.values import operators
from slangrad.syntax import ast


@dataclass(frozen=True, slots=True)
class Counted:
    """`for (variable = start; variable <comparison> bound; variable += step)`, `step` not zero.

    Start and bound are compared as numbers of type `compared`.
    """

    variable: ast.Variable
    comparison: str
    bound: ast.Expression
    compared: Scalar
    step: int


MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


def recognize(f: Frame, node: ast.For, target: ExitTarget) -> Counted | None:
    """The loop's shape, if its trips can be counted before it runs."""
    variable = _single_variable(node.initializer)
    if variable is None or node.condition is None or node.step is None:
        return None
    if variable in f.addressed:
        return None
    kind = f.variables[variable].type
    if not isinstance(kind, Scalar) or not is_integer(kind) or kind.bits < 32:
        return None
    step = _constant_step(f, node.step, variable)
    if step is None:
        return None
    counted = _condition(f, node.condition, variable, kind, step)
    if counted is None or not _ends(counted):
        return None
    moved = assigned_variables(f.program, node.body)
    if variable in moved or not stays(f, counted.bound, moved | {variable}):
        return None
    return None if assigned_flags(f, node.body, target, counted.bound) else counted


def _single_variable(initializer: ast.Statement | None) -> ast.Variable | None:
    if not isinstance(initializer, ast.DeclarationStatement) or len(initializer.declarations) != 1:
        return None
    declared = initializer.declarations[0]
    return declared if isinstance(declared, ast.Variable) else None


def _is_variable(node: ast.Expression, variable: ast.Variable) -> bool:
    return isinstance(node.ref, checked.Local) and node.ref.declaration is variable


def _stripped(node: ast.Expression) -> ast.Expression:
    while isinstance(node, ast.Paren) and node.conversion is None:
        node = node.inner
    return node


def _constant_step(f: Frame, node: ast.Expression, variable: ast.Variable) -> int | None:
    """The constant of a step such as `i++` or `i -= 2`."""
    form = _stripped(node).ref
    if not isinstance(form, checked.Update) or not _is_plain(form, variable):
        return None
    operator = operators.of_update(form.operator)
    size = 1 if form.value is None else _constant(f, form.value)
    if not size or operator not in ("+", "-"):
        return None
    return size if operator == "+" else -size


def _is_plain(form: checked.Update, variable: ast.Variable) -> bool:
    """A builtin operator on the variable itself, without conversion."""
    place = _stripped(form.place)
    converted = form.load is not None or form.store is not None or place.conversion is not None
    return form.function is None and not converted and _is_variable(place, variable)


def _constant(f: Frame, node: ast.Expression) -> int | None:
    aside = f.arm(lambda: (f.value(node),))
    constant = aside.builder.constant_of(aside.values[0])
    return constant if isinstance(constant, int) else None


def _condition(
    f: Frame, node: ast.Expression, variable: ast.Variable, kind: Scalar, step: int
) -> Counted | None:
    node = _stripped(node)
    form = node.ref
    if not isinstance(form, checked.Operator) or form.name not in MIRRORED or node.conversion is not None:
        return None
    left, right = (_stripped(operand) for operand in form.operands)
    comparison, counter, bound = form.name, left, right
    if not _is_variable(left, variable):
        comparison, counter, bound = MIRRORED[form.name], right, left
    compared = _compared_as(f, counter, kind)
    if compared is None or not _is_variable(counter, variable):
        return None
    return Counted(variable, comparison, bound, compared, step)


def _compared_as(f: Frame, node: ast.Expression, kind: Scalar) -> Scalar | None:
    """The type in which the variable is compared: its own, or an integer type of at least as many bits."""
    if node.conversion is None:
        return kind
    t = f.type(node.conversion.target) if node.conversion.kind == "numeric" else None
    return t if isinstance(t, Scalar) and is_integer(t) and t.bits >= kind.bits else None


def _ends(loop: Counted) -> bool:
    """Whether the direction of the step leads to the bound; `i >= 0` of an unsigned i never ends."""
    if loop.comparison == "!=":
        return abs(loop.step) == 1
    if loop.step > 0:
        return loop.comparison in ("<", "<=")
    return loop.comparison == ">" or (loop.comparison == ">=" and loop.compared.kind == "signed")


def count_trips(f: Frame, loop: Counted) -> Value:
    """The number of iterations, exact for all starts and bounds, as an unsigned number."""
    start = f.emit("convert", f.variables[loop.variable], type=loop.compared)
    bound = f.value(loop.bound)
    unsigned = U64 if loop.compared.bits == 64 else U32
    low, high = (start, bound) if loop.step > 0 else (bound, start)
    distance = f.emit("sub", _bits(f, high, unsigned), _bits(f, low, unsigned))
    if loop.comparison == "!=":
        return distance
    unit, stride = f.b.constant(unsigned, 1), f.b.constant(unsigned, abs(loop.step))
    if loop.comparison in ("<", ">"):
        has_trips = f.emit("less", low, high)
        if abs(loop.step) == 1:
            return f.emit("select", has_trips, distance, f.b.zero(unsigned))
        distance = f.emit("sub", distance, unit)
    else:
        has_trips = f.emit("less_equal", low, high)
    count = f.emit("add", f.emit("div", distance, stride), unit)
    return f.emit("select", has_trips, count, f.b.zero(unsigned))


def _bits(f: Frame, value: Value, unsigned: Type) -> Value:
    return f.emit("bitcast", value, type=unsigned)


def value_at(f: Frame, loop: Counted, start: Value, counter: Value) -> Value:
    """The value of the variable in the iteration `counter`."""
    k = f.emit("convert", counter, type=start.type)
    return f.emit("add", start, f.emit("mul", k, f.b.constant(start.type, loop.step)))
