"""Values with operators, so that the partial derivatives in the table read as formulas.

    lambda x, y, r: (1 / y, -r / y)        emits div 1.0, %y  and  neg, div

A formula fetches or emits its value on first touch only: what nobody asks for is neither code nor a residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slangrad.ir.core import Value
from slangrad.ir.types import Type

Number = int | float


class Emitter(Protocol):
    """The two things a formula asks of the builder."""

    def emit(self, name: str, /, *operands: Value) -> Value: ...
    def constant(self, t: Type, value: Number) -> Value: ...


class Formula:
    """A value, or a promise to fetch one, in the builder that receives the emitted ops."""

    __slots__ = ("_fetch", "_value", "builder")

    def __init__(
        self, builder: Emitter, value: Value | None = None, fetch: Callable[[], Value] | None = None
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
        return other.value if isinstance(other, Formula) else self.builder.constant(self.value.type, other)

    def apply(self, name: str, *others: Operand) -> Formula:
        return self._later(lambda: self.builder.emit(name, self.value, *map(self.lift, others)))

    def _flipped(self, name: str, other: Operand) -> Formula:
        return self._later(lambda: self.builder.emit(name, self.lift(other), self.value))

    def _later(self, emit: Callable[[], Value]) -> Formula:
        return Formula(self.builder, fetch=emit)

    def __add__(self, other: Operand) -> Formula:
        return self.apply("add", other)

    def __radd__(self, other: Number) -> Formula:
        return self._flipped("add", other)

    def __sub__(self, other: Operand) -> Formula:
        return self.apply("sub", other)

    def __rsub__(self, other: Number) -> Formula:
        return self._flipped("sub", other)

    def __mul__(self, other: Operand) -> Formula:
        return self.apply("mul", other)

    def __rmul__(self, other: Number) -> Formula:
        return self._flipped("mul", other)

    def __truediv__(self, other: Operand) -> Formula:
        return self.apply("div", other)

    def __rtruediv__(self, other: Number) -> Formula:
        return self._flipped("div", other)

    def __neg__(self) -> Formula:
        return self.apply("neg")

    def __lt__(self, other: Operand) -> Formula:
        return self.apply("less", other)

    def __gt__(self, other: Operand) -> Formula:
        return self._flipped("less", other)


Operand = Formula | int | float
Partial = Formula | int | float


def where(condition: Formula, then: Operand, otherwise: Operand) -> Formula:
    """Componentwise choice; at least one side must be a formula."""
    like = then if isinstance(then, Formula) else otherwise
    assert isinstance(like, Formula), "where() of two numbers has no type; use choose()"
    return choose(like, condition, then, otherwise)


def choose(like: Formula, condition: Formula, then: Operand, otherwise: Operand) -> Formula:
    """`where` with numbers of the type of `like`."""
    b = like.builder
    return Formula(b, fetch=lambda: b.emit("select", condition.value, like.lift(then), like.lift(otherwise)))


def sign(x: Formula) -> Formula:
    """-1, 0 or 1; the derivative of abs, zero at zero as in Slang."""
    return choose(x, x < 0, -1, choose(x, x > 0, 1, 0))


def prefer(like: Formula, first: Formula, second: Formula) -> tuple[Formula, Formula]:
    """The derivatives of min and max: one operand takes all, a tie splits in half."""
    return (
        choose(like, first, 1, choose(like, second, 0, 0.5)),
        choose(like, first, 0, choose(like, second, 1, 0.5)),
    )


def both_zero(x: Formula, y: Formula) -> Formula:
    return x.apply("equal", 0).apply("and", y.apply("equal", 0))


def positive(x: Formula) -> Formula:
    """A sum of squares as a divisor: 1 where it is 0."""
    return where(x > 0, x, 1)


def trunc(x: Formula) -> Formula:
    return x.apply("trunc")


def sqrt(x: Formula) -> Formula:
    return x.apply("sqrt")


def log(x: Formula) -> Formula:
    return x.apply("log")


def sin(x: Formula) -> Formula:
    return x.apply("sin")


def cos(x: Formula) -> Formula:
    return x.apply("cos")


def exp(x: Formula) -> Formula:
    return x.apply("exp")


def bell(x: Formula) -> Formula:
    """e^(-x^2): an error of the square would be multiplied by x^2, so what its rounding leaves is added."""
    square = x * x
    power = exp(-square)
    return power - power * x.apply("fma", x, -square)


def sinpi(x: Formula) -> Formula:
    return x.apply("sinpi")


def cospi(x: Formula) -> Formula:
    return x.apply("cospi")


def sinh(x: Formula) -> Formula:
    return x.apply("sinh")


def cosh(x: Formula) -> Formula:
    return x.apply("cosh")


def pow(x: Formula, y: Operand) -> Formula:
    return x.apply("pow", y)


def max(x: Formula, y: Operand) -> Formula:
    return x.apply("max", y)
