"""Masks: which lanes are on. And loops over the lanes that are.

    any(%mask)         not_equal (lane_bits %mask), 0
    each_lane(...)     while bits != 0 { lane = trailing_zeros bits; ...; bits = bits & (bits - 1) }

Code that runs has at least one lane on: code that makes a mask which may be empty tests it with `any_lane`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import BOOL, U64, lanes
from slangrad.ir.ops.core import Value

MASK = lanes(BOOL)


@dataclass(frozen=True, slots=True)
class Mask:
    """`value` is None where all lanes are on. Lanes outside an `entry` mask are never on, so they may do
    anything to what is theirs."""

    value: Value | None = None
    is_entry: bool = True

    def narrowed(self, b: Builder, condition: Value) -> Mask:
        """Those of the lanes for which the condition holds."""
        return Mask(condition if self.value is None else b.emit("and", self.value, condition), False)

    def operands(self) -> tuple[Value, ...]:
        """What a load or store takes after its other operands."""
        return () if self.value is None else (self.value,)

    def bits(self, b: Builder, count: int) -> Value:
        if self.value is None:
            return b.constant(U64, (1 << count) - 1)
        return b.emit("lane_bits", self.value, type=U64)


def any_lane(b: Builder, mask: Value) -> Value:
    return b.emit("not_equal", b.emit("lane_bits", mask, type=U64), b.constant(U64, 0))


def last_lane(b: Builder, bits: Value) -> Value:
    """The number of the highest lane that is on."""
    return b.emit("sub", b.constant(U64, 63), b.emit("leading_zeros", bits))


Body = Callable[[Builder, Value, tuple[Value, ...]], tuple[Value, ...]]


def each_lane(b: Builder, bits: Value, start: tuple[Value, ...], body: Body) -> tuple[Value, ...]:
    """Run `body(builder, lane, carried)` for each lane that is on, in order; returns what is carried last."""

    def turn(inner: Builder, left: Value, *values: Value) -> tuple[Value, ...]:
        ends = body(inner, inner.emit("trailing_zeros", left), values)
        rest = inner.emit("and", left, inner.emit("sub", left, inner.constant(U64, 1)))
        return (rest, *ends)

    more = lambda inner, left, *_: inner.emit("not_equal", left, inner.constant(U64, 0))
    return b.while_((bits, *start), more, turn)[1:]
