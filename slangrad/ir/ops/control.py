"""Views of branches and loops with their values, so that no pass counts operands.

%r = if %c { .. yield %x } { .. yield %y }                         merged: %r is %x or %y
%r = for %n, %a (%i, %p) { .. yield %q }                           carried: %p starts as %a, goes on as %q, ends as %r
%r = while %a (%t) { .. yield %go } (%p) { .. yield %q }           the same, and %t is what the test sees
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slangrad.ir.ops.core import Op, Value, number_of

LOOPS = frozenset({"for", "while"})


class Carried(NamedTuple):
    """One of the values that a loop carries."""

    start: Value
    inside: tuple[Value, ...]  # parameters: of the test of a `while`, and of the body
    yielded: Value
    result: Value

    @property
    def parameter(self) -> Value:
        """Of the body."""
        return self.inside[-1]

    @property
    def versions(self) -> tuple[Value, ...]:
        return (self.result, self.start, *self.inside, self.yielded)


def carried(op: Op) -> list[Carried]:
    """The carried values of a loop, in order; empty for an op that is no loop."""
    if op.name not in LOOPS:
        return []
    count = len(op.results)
    inside = zip(*(region.parameters[len(region.parameters) - count :] for region in op.regions))
    starts = op.operands[len(op.operands) - count :]
    return list(map(Carried, starts, inside, op.regions[-1].yields, op.results))


def merged(op: Op) -> list[tuple[Value, Value, Value]]:
    """The results of an `if`, each with its value in the first arm and in the second."""
    return list(zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True))


def versions(op: Op) -> list[tuple[Value, ...]]:
    """Values around a branch or loop that are one value at different times, the result first."""
    return [variable.versions for variable in carried(op)] if op.name != "if" else list(merged(op))


def constant_trips(op: Op, makers: Mapping[Value, Op]) -> int | None:
    """How many iterations a `for` has, where that is a constant; None for all other ops."""
    return number_of(op.operands[0], makers.get) if op.name == "for" else None


def decides(op: Op) -> Value:
    """The condition of a branch or of a `while`, or the count of a `for`."""
    return op.regions[0].yields[0] if op.name == "while" else op.operands[0]
