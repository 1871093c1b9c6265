"""The partial derivatives of one op, and a derivative that meets one of them.

    log     1 / x           %p = div 1, %x     scale %p, %d            zero where %d is, be %p infinite
    abs     -1, 1 or 0      %n = neg %d        select %c, %n, %m       selected, not multiplied

Both modes scale derivatives by the same rows of the table; only the order of the two factors in time differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import F32, NARROW_FLOATS, Type, scalar_of, with_scalar
from slangrad.ir.ops.core import Attributes, Op, Value
from slangrad.ir.ops.formula import Choice, Formula, Partial
from slangrad.ir.ops.primitives import INEXACT, PRIMITIVES


def partials_of(b: Builder, op: Op, touched: Sequence[Formula]) -> Sequence[Partial]:
    """By each operand; `touched` are the operands and the result. Those of maths in half are computed in float, as the
    functions are: nothing overflows on the way, and they are rounded once."""
    row = PRIMITIVES[op.name]
    assert callable(row.partials), op.name
    t = op.results[0].type
    if op.name not in INEXACT or scalar_of(t) not in NARROW_FLOATS:
        return row.partials(*touched)
    wide = [_converted(b, formula, with_scalar(t, F32)) for formula in touched]
    return [_rounded(b, slope, t) for slope in row.partials(*wide)]


def scaled(b: Builder, partial: Partial, derivative: Value, masks_only: bool = False) -> Value | None:
    """The derivative times the partial; None where that is zero. `masks_only`: a zero among derivatives means something
    only if a mask made it."""
    if b.constant_of(derivative) == 0:
        return None
    if isinstance(partial, Choice):
        return _selected(b, partial, derivative, masks_only)
    if isinstance(partial, Formula):
        attributes: Attributes = {"masks_only": True} if masks_only else {}
        return b.primitive("scale", (partial.value, derivative), None, attributes)
    if partial == 0:
        return None
    return b.emit("mul", b.constant(derivative.type, partial), derivative)


def _selected(b: Builder, choice: Choice, derivative: Value, masks_only: bool) -> Value:
    then, otherwise = (
        scaled(b, side, derivative, masks_only) or b.constant(derivative.type, 0)
        for side in (choice.then, choice.otherwise)
    )
    return b.emit("select", choice.condition.value, then, otherwise)


def _converted(b: Builder, formula: Formula, t: Type) -> Formula:
    return Formula(b, fetch=partial(_convert, b, formula, t))


def _convert(b: Builder, formula: Formula, t: Type) -> Value:
    return b.emit("convert", formula.value, type=t)


def _rounded(b: Builder, partial: Partial, t: Type) -> Partial:
    if isinstance(partial, Choice):
        return Choice(partial.condition, _rounded(b, partial.then, t), _rounded(b, partial.otherwise, t))
    return _converted(b, partial, t) if isinstance(partial, Formula) else partial
