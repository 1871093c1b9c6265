"""The interval of an index of the kernel, over all threads of a launch.

    %i = thread_id {axis=0}                     0 .. nx - 1
    if less %i, %n { %j = mul %i, 4 }           0 .. 4 * (min(nx, n) - 1)
    for %k (%c) { }                             %c: 0 .. k - 1
    if in_bounds %x, %n { }                     %x: 0 .. n - 1, whatever it is

Both ends are i64 of the plan, which runs before the launch. An interval may hold under conditions only (that 32-bit
arithmetic did not wrap), which the plan checks, too. `Facts` hold inside a branch or a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from slangrad.ir.analyses.intervals import Interval, Numbers
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.numbers import greatest, least
from slangrad.ir.data.types import BOOL, I64, Scalar, is_integer
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.opt.analyses.counted_loops import counted_variables
from slangrad.opt.analyses.launch_values import LaunchValues

Bounds = Interval[Value]


@dataclass(slots=True)
class Facts:
    """Facts about values in a region, besides those of the regions around it; `cached` keeps results there."""

    around: Facts | None = None
    known: dict[Value, Bounds] = field(default_factory=dict)
    cached: dict[Value, Bounds | None] = field(default_factory=dict)

    def with_known(self, known_bounds: dict[Value, Bounds]) -> Facts:
        return Facts(self, known_bounds) if known_bounds else self

    def get(self, value: Value) -> Bounds | None:
        facts: Facts | None = self
        while facts is not None and value not in facts.known:
            facts = facts.around
        return None if facts is None else facts.known[value]


class Intervals(Numbers[Value]):
    """Answers for one kernel; arithmetic is emitted into the plan."""

    most = 1 << 31  # products of such numbers fit in 64 bits

    def __init__(self, launch: LaunchValues) -> None:
        self.launch = launch
        self.plan: Builder = launch.plan

    def emit(self, name: str, *ends: Value) -> Value:
        return self.plan.emit(name, *ends)

    def end(self, number: float) -> Value:
        return self.plan.constant(I64, int(number))

    def known(self, end: Value) -> int | None:
        number = self.plan.constant_of(end)
        return None if number is None else int(number)

    def of(self, value: Value, facts: Facts) -> Bounds | None:
        if value not in facts.cached:
            facts.cached[value] = None  # a chain that comes back to itself is unknown
            facts.cached[value] = facts.get(value) or self.unassumed(value, facts)
        return facts.cached[value]

    def unassumed(self, value: Value, facts: Facts) -> Bounds | None:
        """The interval by its computation, without facts of tests."""
        if not is_integer(value.type):
            return self.number(0, 1) if value.type is BOOL else None
        same = self.launch.of(value)
        if same is not None:
            wide = self.plan.emit("convert", same, type=I64)
            return Interval(wide, wide)
        op = self.launch.made_by(value)
        if op is not None and op.name == "thread_id":
            bounds: Bounds | None = Interval(*self.launch.threads(op.attributes["axis"]))
        elif op is not None and op.name == "select":
            condition, *chosen = op.operands
            x, y = (self.of(v, self.assuming(facts, condition, t)) for v, t in zip(chosen, (True, False)))
            bounds = None if x is None or y is None else self.hull(x, y)
        else:
            bounds = self.made(op, lambda x: self.of(x, facts))
        return None if bounds is None else self.fitting(bounds, value.type)

    def of_type(self, value: Value, facts: Facts) -> Bounds | None:
        """The default: all values of its type, if these are not too many."""
        return self.or_whole(self.of(value, facts), value.type)

    def fitting(self, x: Bounds, scalar: object) -> Bounds | None:
        """Under the condition that nothing wrapped."""
        assert isinstance(scalar, Scalar)
        if scalar is I64:
            return x
        return self.between(x, int(least(scalar)), min(int(greatest(scalar)), (1 << 63) - 1))

    # --- facts of branches and loops

    def assuming(self, facts: Facts, condition: Value, truth: bool) -> Facts:
        """The facts where a condition has a value."""
        op = self.launch.made_by(condition)
        rule = None if op is None else ASSUMPTIONS.get(op.name)
        return facts if op is None or rule is None else rule(self, facts, op, truth)

    def at_most(self, facts: Facts, value: Value, limit: Value, less_by: int) -> Facts:
        """The facts where value + less_by <= limit."""
        x, y = self.of_type(value, facts), self.of(limit, facts)
        if x is None or y is None:
            return facts
        high = self.emit("min", x.high, self.emit("sub", y.high, self.end(less_by)))
        return facts.with_known({value: Interval(x.low, high, x.conditions + y.conditions)})

    def at_least(self, facts: Facts, value: Value, limit: Value, more_by: int) -> Facts:
        x, y = self.of_type(value, facts), self.of(limit, facts)
        if x is None or y is None:
            return facts
        low = self.emit("max", x.low, self.emit("add", y.low, self.end(more_by)))
        return facts.with_known({value: Interval(low, x.high, x.conditions + y.conditions)})

    def below(self, low: Value, x: Bounds, conditions: tuple[Value, ...] = ()) -> Bounds:
        """From `low` to a number that is certainly below some number of an interval."""
        return Interval(low, self.emit("sub", x.high, self.end(1)), conditions + x.conditions)

    def within(self, facts: Facts, op: Op) -> Iterator[Facts]:
        """In each region of a branch or loop."""
        if op.name == "if":
            yield from (self.assuming(facts, op.operands[0], truth) for truth in (True, False))
        elif op.name == "for":
            yield self._in_for(facts, op)
        else:
            yield from (facts, self._in_while(facts, op))

    def _in_for(self, facts: Facts, op: Op) -> Facts:
        """In the body of a `for`."""
        index, count = op.regions[0].parameters[0], self.of_type(op.operands[0], facts)
        facts = facts.with_known({} if count is None else {index: self.below(self.end(0), count)})
        for value, start, bound in counted_variables(op, self.launch.made_by):
            first, last = self.of(start, facts), self.of(bound, facts)
            if first is not None and last is not None:
                facts = facts.with_known({value: self.below(first.low, last, first.conditions)})
        return facts

    def _in_while(self, facts: Facts, op: Op) -> Facts:
        """In the body of a `while`: the test was true. Of the test itself nothing is known before."""
        test, grown = op.regions[0], self._growing(facts, op)
        tested = self.assuming(facts.with_known({t: x for t, (x, _) in grown.items()}), test.yields[0], True)
        bounds = {}
        for outer, inner in (loop_value.inside for loop_value in carried(op)):
            limit = tested.get(outer)
            if limit is not None and outer in grown:
                after = self.emit("add", limit.high, grown[outer][1])
                limit = self.where(limit, after, self.end(int(greatest(scalar_type(inner)))))
            if limit is not None:
                bounds[inner] = limit
        return facts.with_known(bounds)

    def _growing(self, facts: Facts, op: Op) -> dict[Value, tuple[Bounds, Value]]:
        """Carried numbers that only grow are not below their start while they do not wrap; and their largest step."""
        growing = {}
        for start, (outer, inner), end, _ in carried(op):
            step_op, kind = self.launch.made_by(end), inner.type
            if step_op is None or step_op.name != "add" or inner not in step_op.operands:
                continue
            step = self.of(
                step_op.operands[1] if step_op.operands[0] is inner else step_op.operands[0], facts
            )
            grows = None if step is None else self.between(step, 0, self.most)
            first = self.of(start, facts)
            if first is None or grows is None or not isinstance(kind, Scalar) or kind.bits > 32:
                continue
            high = self.end(int(greatest(kind)))
            growing[outer] = Interval(first.low, high, first.conditions + grows.conditions), grows.high
        return growing


# --- rules for conditions


def _less(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    strictly = int((op.name == "less") == truth)
    x, y = op.operands if truth else op.operands[::-1]
    if not is_integer(x.type):
        return facts
    return v.at_least(v.at_most(facts, x, y, strictly), y, x, strictly)


def _in_bounds(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    index, extent = op.operands
    limit = v.of_type(extent, facts)
    bounds = v.of(index, facts)
    if not truth or limit is None or (bounds is not None and v.constants(bounds) is not None):
        return facts  # where both ends are numbers, they stay: blocks of known size have accumulators
    return facts.with_known({index: v.below(v.end(0), limit)})


def _not(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    return v.assuming(facts, op.operands[0], not truth)


def _all(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    """Of both operands, if both of an `and` are true or both of an `or` are false."""
    for operand in op.operands if truth == (op.name == "and") else ():
        facts = v.assuming(facts, operand, truth)
    return facts


ASSUMPTIONS: dict[str, Callable[[Intervals, Facts, Op, bool], Facts]] = {
    "less": _less,
    "less_equal": _less,
    "in_bounds": _in_bounds,
    "not": _not,
    "and": _all,
    "or": _all,
}
