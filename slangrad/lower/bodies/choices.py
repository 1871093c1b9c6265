"""`&&`, `||` and `?:`: one side is not always run. There is no branch if running both makes no difference.

a < b && c < d        and                          no effect, no derivative, cheap: both sides are run
a < b && f(c)         if %ab { call @f } else { yield false }
c ? 1 : x             select                       known anyway
c ? f(x) : g(x)       if
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.names.places import value_type
from slangrad.ir.data.types import BOOL, is_float, scalar_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.primitives import CONSTANT, LINEAR, NOT_DIFFERENTIABLE, PRIMITIVES, PURE
from slangrad.lower.model.exits import flags
from slangrad.lower.model.flow import Arm
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast

CHEAP = 12  # ops that may run although their result is unused


def is_short_circuit(f: Frame, form: checked.Operator) -> bool:
    """On truth values; of vectors both sides are always run."""
    if form.name not in ("&&", "||"):
        return False
    return all(f.concrete(value_type(operand)) is checked_types.BOOL for operand in form.operands)


def short_circuit(f: Frame, form: checked.Operator) -> Value:
    """The right side runs only when it decides."""
    left = f.value(form.operands[0])
    stops = form.name == "||"
    constant = f.b.constant_of(left)
    if constant is not None:
        return left if constant == stops else f.value(form.operands[1])
    right = _aside(f, form.operands[1])
    if not right.changes(f.variables) and _is_cheap(right.builder.ops):
        (value,) = f.keep(right)
        return f.emit("or" if stops else "and", left, value)
    decided = f.arm(lambda: (f.b.constant(BOOL, stops),))
    return _joined(f, left, *((decided, right) if stops else (right, decided)))


def choose(f: Frame, condition: Value, then: ast.Expression, otherwise: ast.Expression) -> Value:
    """A branch; a `select` where both sides are known anyway and cost nothing."""
    constant = f.b.constant_of(condition)
    if constant is not None:
        return f.value(then if constant else otherwise)
    left, right = _aside(f, then), _aside(f, otherwise)
    if _is_free(f, left) and _is_free(f, right):
        return f.emit("select", condition, *f.keep(left), *f.keep(right))
    return _joined(f, condition, left, right)


def _joined(f: Frame, condition: Value, then: Arm, otherwise: Arm) -> Value:
    """One of two sides; an error that one of them throws leaves the expression."""
    before = {flag: f.variables[flag] for flag in flags(f)}
    value = f.join(condition, then, otherwise)[0]
    for flag, old in before.items():
        if f.variables[flag] is not old:
            f.leave_where(f.variables[flag], flags(f))
    return value


def _aside(f: Frame, node: ast.Expression) -> Arm:
    return f.arm(lambda: (f.value(node),))


def _is_free(f: Frame, arm: Arm) -> bool:
    """A number that is a constant or exists already."""
    plain = scalar_of(arm.values[0].type) is not None
    is_constant = all(op.name in ("const", "zero") for op in arm.builder.ops)
    return plain and is_constant and not arm.changes(f.variables)


def _is_cheap(ops: list[Op]) -> bool:
    return len(ops) <= CHEAP and all(map(_may_run, ops))


def _may_run(op: Op) -> bool:
    """Whether it may run without need: it has no effect, and no derivative that would be computed in vain."""
    row = PRIMITIVES.get(op.name)
    if row is None or row.effect != PURE or op.attributes.get("check"):
        return False
    moves = row.partials in (CONSTANT, NOT_DIFFERENTIABLE, LINEAR)
    return moves or not is_float(op.results[0].type)
