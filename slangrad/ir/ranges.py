"""Between which numbers an integer lies, as far as its making tells.

    for 8 (%i: i32)  ->  %i in 0..7        %j = and %x, 3  ->  0..3        %k = add %i, %j  ->  0..10

So that an index that cannot leave its array is not checked when the program runs. The analysis looks at ops
that are made already (through the builder), never at conditions of branches; what it cannot tell is the
type's range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slangrad.ir.core import Op, Value
from slangrad.ir.numbers import greatest, least
from slangrad.ir.type_rules import scalar_type
from slangrad.ir.types import Scalar, is_integer, scalar_of

Range = tuple[int, int]  # the least and the greatest, both included

DEEPEST = 24


class Makers(Protocol):
    """What tells which op made a value: a builder, or a pass that looked at all ops."""

    def made_by(self, value: Value) -> Op | None: ...


class Ranges:
    """The ranges of values, remembered. Indices of loops are told by `counted`."""

    def __init__(self) -> None:
        self._known: dict[Value, Range] = {}

    def counted(self, b: Makers, count: Value, index: Value) -> None:
        """`index` is that of a loop of `count` iterations."""
        self._known[index] = (0, max(0, self.of(b, count)[1] - 1))

    def of(self, b: Makers, value: Value, depth: int = 0) -> Range:
        """The range of an integer or truth value that is in scope of the builder."""
        found = self._known.get(value)
        if found is not None:
            return found
        scalar, op = scalar_type(value), b.made_by(value)
        rule = None if op is None else RULES.get(op.name)
        if op is None or rule is None or depth > DEEPEST:
            return whole(scalar)
        made = rule(op, lambda operand: self.of(b, operand, depth + 1))
        low, high = whole(scalar)
        made = self._known[value] = made if low <= made[0] and made[1] <= high else (low, high)
        return made

    def is_below(self, b: Makers, value: Value, extent: int) -> bool:
        """Whether surely 0 <= value < extent."""
        low, high = self.of(b, value)
        return low >= 0 and high < extent


def whole(scalar: Scalar) -> Range:
    """All numbers of a type."""
    return (0, 1) if scalar.kind == "bool" else (least(scalar), greatest(scalar))


Of = Callable[[Value], Range]


def _operands(op: Op, of: Of) -> tuple[Range, Range]:
    x, y = op.operands
    return of(x), of(y)


def _const(op: Op, of: Of) -> Range:
    number = op.attributes["value"]
    return (int(number), int(number))


def _add(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    return (a + c, b + d)


def _sub(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    return (a - d, b - c)


def _mul(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    corners = (a * c, a * d, b * c, b * d)
    return (min(corners), max(corners))


def _div(op: Op, of: Of) -> Range:
    """For numbers that are not negative; nothing is known of others."""
    (a, b), (c, _) = _operands(op, of)
    return (0, b // max(c, 1)) if a >= 0 and c >= 0 else whole(scalar_type(op.results[0]))


def _rem(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    most = max(abs(c), abs(d)) - 1 if (c, d) != (0, 0) else 0
    return (max(a, -most) if a < 0 else 0, min(b, most) if b > 0 else 0)


def _min(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    return (min(a, c), min(b, d))


def _max(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    return (max(a, c), max(b, d))


def _and(op: Op, of: Of) -> Range:
    """At most each operand that is not negative."""
    tops = [high for low, high in _operands(op, of) if low >= 0]
    return (0, min(tops)) if tops else whole(scalar_type(op.results[0]))


def _shr(op: Op, of: Of) -> Range:
    (a, b), (c, d) = _operands(op, of)
    bits = scalar_type(op.results[0]).bits
    known = a >= 0 and c >= 0 and d < bits
    return (a >> d, b >> c) if known else whole(scalar_type(op.results[0]))


def _select(op: Op, of: Of) -> Range:
    (a, b), (c, d) = of(op.operands[1]), of(op.operands[2])
    return (min(a, c), max(b, d))


def _convert(op: Op, of: Of) -> Range:
    source = scalar_of(op.operands[0].type)
    if source is None or not (is_integer(source) or source.kind == "bool"):
        return whole(scalar_type(op.results[0]))
    return of(op.operands[0])


RULES: dict[str, Callable[[Op, Of], Range]] = {
    "const": _const,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "rem": _rem,
    "min": _min,
    "max": _max,
    "and": _and,
    "shr": _shr,
    "select": _select,
    "convert": _convert,
}
