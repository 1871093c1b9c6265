"""Values with operators, so that the partial derivatives in the table read as formulas.

    lambda x, y, r: (1 / y, -r / y)        emits div 1.0, %y  and  neg, div

A formula fetches or emits its value on first use only: unused parts become neither code nor residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.data.numbers import least_normal
from slangrad.ir.data.types import Scalar, scalar_of
from slangrad.ir.ops.core import OpBuilder, Value

Number = int | float
OfType = Callable[[Scalar], Number]
"""A constant that differs by type, such as the smallest normal number."""


def _operator(name: str, flipped: bool = False) -> Callable[[Formula, Operand], Formula]:
    if flipped:
        return lambda self, other: self.flipped(name, other)
    return lambda self, other: self.apply(name, other)


class Formula:
    """A value, or a promise to fetch one, in the builder that receives the emitted ops."""

    __slots__ = ("_fetch", "_value", "builder")

    def __init__(
        self, builder: OpBuilder, value: Value | None = None, fetch: Callable[[], Value] | None = None
    ) -> None:
        self.builder, self._value, self._fetch = builder, value, fetch

    @property
    def value(self) -> Value:
        if self._value is None:
            assert self._fetch is not None
            self._value = self._fetch()
        return self._value

    def lift(self, other: Operand) -> Value:
        """`other` as a value; a number becomes a constant of this formula's type."""
        if isinstance(other, Formula):
            return other.value
        if callable(other):
            scalar = scalar_of(self.value.type)
            assert scalar is not None
            other = other(scalar)
        return self.builder.constant(self.value.type, other)

    def apply(self, name: str, *others: Operand) -> Formula:
        return self._later(lambda: self.builder.emit(name, self.value, *map(self.lift, others)))

    def flipped(self, name: str, other: Operand) -> Formula:
        """The same with this formula as the second operand."""
        return self._later(lambda: self.builder.emit(name, self.lift(other), self.value))

    def _later(self, emit: Callable[[], Value]) -> Formula:
        return Formula(self.builder, fetch=emit)

    # fmt: off
    __add__,     __radd__     = _operator("add"), _operator("add", flipped=True)
    __sub__,     __rsub__     = _operator("sub"), _operator("sub", flipped=True)
    __mul__,     __rmul__     = _operator("mul"), _operator("mul", flipped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", flipped=True)
    __lt__,      __gt__       = _operator("less"), _operator("less", flipped=True)
    __le__,      __ge__       = _operator("less_equal"), _operator("less_equal", flipped=True)
    # fmt: on

    def __neg__(self) -> Formula:
        return self.apply("neg")


Operand = Formula | int | float | OfType


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two partials. The derivative that meets them is selected by the condition, as a value: nothing is
    multiplied by a zero that stands for the branch that is not taken."""

    condition: Formula
    then: Partial
    otherwise: Partial


Partial = Formula | Choice | int | float


def where(condition: Formula, then: Operand, otherwise: Operand) -> Formula:
    """Componentwise choice; at least one side must be a formula."""
    like = then if isinstance(then, Formula) else otherwise
    assert isinstance(like, Formula), "where() of two numbers has no type"
    b = like.builder
    return Formula(b, fetch=lambda: b.emit("select", condition.value, like.lift(then), like.lift(otherwise)))


def sign(x: Formula) -> Choice:
    """The derivative of abs: zero at zero, as in Slang."""
    return Choice(x < 0, -1, Choice(x > 0, 1, 0))


def taken(x: Formula, y: Formula, r: Formula) -> tuple[Choice, Choice]:
    """The derivatives of min and max: the operand that is the result takes all, a tie splits in half. A NaN is not the
    result, unless both are."""
    tie, first = equal(x, y), equal(r, x)
    return (Choice(tie, 0.5, Choice(first, 1, 0)), Choice(tie, 0.5, Choice(first, 0, 1)))


def by_angle(y: Formula, x: Formula) -> tuple[Choice, Choice]:
    """The derivatives of atan2, from the ratio of the smaller operand to the larger one: no square overflows."""
    flat = abs(y) <= abs(x)
    large, small = where(flat, x, y), where(flat, y, x)
    size = abs(large)
    nowhere = equal(size, 0).apply("or", equal(size, math.inf))
    divisor = where(nowhere, 1, large)
    ratio = small / divisor
    slope = 1 / (divisor * (ratio * ratio + 1))
    less = product(ratio, slope)
    return (
        Choice(nowhere, 0, where(flat, slope, less)),
        Choice(nowhere, 0, -where(flat, less, slope)),
    )


def slope_of_tanh(x: Formula) -> Choice:
    """1 / cosh(x)^2, as 1 - r * r cancels where r is near 1. 0 before that underflows: cosh does not overflow."""
    far = abs(x) >= _least_slope_of_tanh
    inverse = 1 / cosh(where(far, 0, x))
    return Choice(far, 0, inverse * inverse)


def _least_slope_of_tanh(t: Scalar) -> float:
    """Where it is about the smallest normal number."""
    return 0.5 * math.log(4.0 / least_normal(t))


def slopes_of_pow(x: Formula, y: Formula, r: Formula) -> tuple[Choice, Choice]:
    """Both are zero where x <= 0. For y < 1/2, y - 1 may be rounded, and the power would amplify the error. From
    1/2 on it is exact, and r may overflow or underflow where the slope does not. A zero times an infinity is zero,
    as the limits are."""
    outside = x <= 0
    inside = where(outside, 1, x)
    by_ratio = where(equal(x, math.inf), 0, y * r / inside)
    by_x = where(y < 0.5, by_ratio, product(y, pow(inside, y - 1)))
    return Choice(outside, 0, by_x), Choice(outside, 0, product(r, log(inside)))


def product(x: Formula, y: Formula) -> Formula:
    """Zero where a factor is."""
    return x.apply("scale", y)


def equal(x: Formula, y: Operand) -> Formula:
    return x.apply("equal", y)


def _function(name: str) -> Callable[[Formula], Formula]:
    return lambda x: x.apply(name)


abs, round, sqrt = _function("abs"), _function("round"), _function("sqrt")
exp, log = _function("exp"), _function("log")
sin, cos, sinpi, cospi = _function("sin"), _function("cos"), _function("sinpi"), _function("cospi")
sinh, cosh = _function("sinh"), _function("cosh")


def bell(x: Formula) -> Formula:
    """e^(-x^2): an error of the square would be multiplied by x^2, so its rounding error is added."""
    square = x * x
    power = exp(-square)
    return where(power > 0, power - power * x.apply("fma", x, -square), power)


def pow(x: Formula, y: Operand) -> Formula:
    return x.apply("pow", y)
