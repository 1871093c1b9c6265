"""Intervals that contain a number, derived from the op that makes it.

    %j = and %x, 3                    %j: 0 .. 3
    %k = add %i, %j                   %k: 0 .. n + 2, where %i lies in 0 .. n - 1

The rules of ops serve two kinds of ends: numbers (`Ranges`), and values of code that runs before the kernel
(opt/analyses/intervals.py), where an interval may hold under conditions only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from slangrad.ir.data.numbers import greatest, least
from slangrad.ir.data.types import Scalar, Type, is_integer, scalar_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type

E = TypeVar("E")

DEEPEST = 24  # ops that are followed from a value back to its operands, where ends are numbers


class Interval(NamedTuple, Generic[E]):
    """All numbers from `low` to `high`, both included, where the conditions hold."""

    low: E
    high: E
    conditions: tuple[E, ...] = ()


Maybe = Interval[E] | None
Of = Callable[[Value], Maybe[E]]


class Numbers(ABC, Generic[E]):
    """Arithmetic of intervals. `most` is the greatest factor of a product that surely fits."""

    most: float

    @abstractmethod
    def emit(self, name: str, *ends: E) -> E:
        """A primitive of ends, or a condition."""

    @abstractmethod
    def end(self, number: float) -> E:
        """A number as an end."""

    @abstractmethod
    def known(self, end: E) -> float | None:
        """The value of an end or a condition, if it is a constant."""

    def number(self, low: float, high: float) -> Interval[E]:
        return Interval(self.end(low), self.end(high))

    def constants(self, x: Interval[E]) -> tuple[int, int] | None:
        """Both ends of integers, if they are known."""
        low, high = self.known(x.low), self.known(x.high)
        return None if low is None or high is None else (int(low), int(high))

    def where(self, x: Interval[E], low: E, high: E) -> Maybe[E]:
        """The interval where low <= high; None if it is certainly empty."""
        condition = self.emit("less_equal", low, high)
        holds = self.known(condition)
        if holds is None:
            return Interval(x.low, x.high, (*x.conditions, condition))
        return x if holds else None

    def between(self, x: Interval[E], low: float, high: float) -> Maybe[E]:
        above = self.where(x, self.end(low), x.low)
        return None if above is None else self.where(above, x.high, self.end(high))

    def hull(self, x: Interval[E], y: Interval[E]) -> Interval[E]:
        low, high = self.emit("min", x.low, y.low), self.emit("max", x.high, y.high)
        return Interval(low, high, x.conditions + y.conditions)

    def sum(self, x: Interval[E], y: Interval[E]) -> Interval[E]:
        low, high = self.emit("add", x.low, y.low), self.emit("add", x.high, y.high)
        return Interval(low, high, x.conditions + y.conditions)

    def negative(self, x: Interval[E]) -> Interval[E]:
        return Interval(self.emit("neg", x.high), self.emit("neg", x.low), x.conditions)

    def product(self, x: Interval[E], y: Interval[E]) -> Maybe[E]:
        a, b = self.between(x, -self.most, 2 * self.most - 1), self.between(y, -self.most, self.most - 1)
        if a is None or b is None:
            return None
        low, *others = (self.emit("mul", p, q) for p in (a.low, a.high) for q in (b.low, b.high))
        high = low
        for end in others:
            low, high = self.emit("min", low, end), self.emit("max", high, end)
        return Interval(low, high, a.conditions + b.conditions)

    def or_whole(self, x: Maybe[E], t: Type) -> Maybe[E]:
        """The default: all values of the type, if these are not too many."""
        if x is None and isinstance(t, Scalar) and is_integer(t) and t.bits <= 32:
            return self.number(*whole(t))
        return x

    def made(self, op: Op | None, of: Of[E]) -> Maybe[E]:
        """The result of an op, as if nothing wrapped."""
        rule = None if op is None else RULES.get(op.name)
        return None if op is None or rule is None else rule(self, op, of)


def whole(t: Type) -> tuple[float, float]:
    """All numbers of a type."""
    scalar = scalar_of(t)
    if scalar is None or scalar.kind == "float":
        return -math.inf, math.inf
    return (0, 1) if scalar.kind == "bool" else (int(least(scalar)), int(greatest(scalar)))


# --- rules for ops


def _two(op: Op, of: Of[E]) -> tuple[Interval[E], Interval[E]] | None:
    x, y = map(of, op.operands)
    return None if x is None or y is None else (x, y)


def _add(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    both = _two(op, of)
    return None if both is None else v.sum(*both)


def _sub(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    both = _two(op, of)
    return None if both is None else v.sum(both[0], v.negative(both[1]))


def _neg(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    x = of(op.operands[0])
    return None if x is None else v.negative(x)


def _mul(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    both = _two(op, of)
    product = None if both is None else v.product(*both)
    is_square = product is not None and op.operands[0] is op.operands[1] and v.known(product.low) is not None
    return (
        product._replace(low=v.emit("max", product.low, v.end(0)))
        if product is not None and is_square
        else product
    )


def _shift(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    """By a constant number of bits."""
    both = _two(op, of)
    ends = None if both is None else v.constants(both[1])
    if (
        both is None
        or ends is None
        or ends[0] != ends[1]
        or not 0 <= ends[0] < scalar_type(op.results[0]).bits
    ):
        return None
    x, count = both[0], ends[0]
    if op.name == "shl":
        return v.product(x, v.number(1 << count, 1 << count))
    by = v.end(count)
    return Interval(v.emit("shr", x.low, by), v.emit("shr", x.high, by), x.conditions)


def _extreme(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    """min or max, of both ends."""
    x, y = (v.or_whole(of(operand), operand.type) for operand in op.operands)
    if x is None or y is None:
        return None
    low, high = v.emit(op.name, x.low, y.low), v.emit(op.name, x.high, y.high)
    return Interval(low, high, x.conditions + y.conditions)


def _and(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    """No bit is there that a mask does not have."""
    ends_of_operands = [v.constants(x) for x in map(of, op.operands) if x is not None]
    masks = [ends[1] for ends in ends_of_operands if ends is not None and ends[0] >= 0]
    return v.number(0, min(masks)) if masks else None


def _quotient(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    """div or rem, of integers that are not negative. By zero both are zero."""
    if scalar_type(op.results[0]).kind == "float":
        return None
    x, y = v.or_whole(of(op.operands[0]), op.operands[0].type), of(op.operands[1])
    if x is None or y is None:
        return None
    if op.name == "div":
        high = v.emit("div", x.high, v.emit("max", y.low, v.end(1)))
    else:
        high = v.emit("max", v.emit("sub", y.high, v.end(1)), v.end(0))
        if v.known(x.high) is not None and v.known(high) is not None:
            high = v.emit("min", x.high, high)
    quotient = v.where(Interval(v.end(0), high, x.conditions + y.conditions), v.end(0), x.low)
    return None if quotient is None else v.where(quotient, v.end(0), y.low)


def _select(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    x, y = map(of, op.operands[1:])
    return None if x is None or y is None else v.hull(x, y)


def _same(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    """The operand's interval, unless integers become floats or the other way round."""
    source, target = scalar_of(op.operands[0].type), scalar_of(op.results[0].type)
    if source is None or target is None or (source.kind == "float") != (target.kind == "float"):
        return None
    return of(op.operands[0])


def _abs(v: Numbers[E], op: Op, of: Of[E]) -> Maybe[E]:
    x = of(op.operands[0])
    if x is None:
        return None
    y = v.negative(x)
    low = v.emit("max", v.emit("max", x.low, y.low), v.end(0))
    return Interval(low, v.emit("max", x.high, y.high), x.conditions)


RULES: dict[str, Callable[[Numbers[E], Op, Of[E]], Maybe[E]]] = {
    "const": lambda v, op, of: v.number(op.attributes["value"], op.attributes["value"]),
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "abs": _abs,
    **dict.fromkeys(("mul", "scale"), _mul),
    **dict.fromkeys(("div", "rem"), _quotient),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("min", "max"), _extreme),
    "and": _and,
    "select": _select,
    **dict.fromkeys(("convert", "splat", "get", "detach"), _same),
    **dict.fromkeys(("sin", "cos", "tanh"), lambda v, op, of: v.number(-1, 1)),
    **dict.fromkeys(("exp", "exp2", "sqrt"), lambda v, op, of: v.number(0, math.inf)),
}


# --- where ends are numbers


class Makers(Protocol):
    """The source of the op of a value: a builder, or a pass that visited all ops."""

    def made_by(self, value: Value) -> Op | None: ...


class Ranges(Numbers[float]):
    """Ranges of values whose ops exist already; the default is all values of the type. So an index that cannot
    leave its array is not checked at run time. Conditions of branches are not used."""

    most = math.inf

    def __init__(self) -> None:
        self._known: dict[Value, Interval[float]] = {}

    def emit(self, name: str, *ends: float) -> float:
        return _ARITHMETIC[name](*ends)

    def end(self, number: float) -> float:
        return number

    def known(self, end: float) -> float:
        return end

    def counted(self, b: Makers, count: Value, index: Value) -> None:
        """`index` is that of a loop of `count` iterations."""
        self._known[index] = Interval(0, max(0, self.of(b, count).high - 1))

    def of(self, b: Makers, value: Value, depth: int = 0) -> Interval[float]:
        """The range of a number or truth value that is in scope of the builder."""
        if value in self._known:
            return self._known[value]
        low, high = whole(value.type)
        op = b.made_by(value) if depth <= DEEPEST else None
        interval = self.made(op, lambda x: self.of(b, x, depth + 1))
        if interval is None or not (low <= interval.low and interval.high <= high):  # NaN is in no range
            interval = Interval(low, high)
        if op is not None:
            self._known[value] = interval
        return interval

    def is_below(self, b: Makers, value: Value, extent: float) -> bool:
        """Whether surely 0 <= value < extent."""
        low, high, _ = self.of(b, value)
        return low >= 0 and high < extent


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y if x and y else 0,
    "div": lambda x, y: x // y,
    "shr": lambda x, y: x >> y,
    "neg": lambda x: -x,
    "min": min,
    "max": max,
    "less_equal": lambda x, y: x <= y,
}
