"""Between which numbers an index of the kernel lies, over all threads of a launch.

    %i = thread_id {axis=0}                     0 .. nx - 1
    if less %i, %n { %j = mul %i, 4 }           0 .. 4 * (min(nx, n) - 1)
    for %k (%c) { }                             %c: 0 .. k - 1
    if in_bounds %x, %n { }                     %x: 0 .. n - 1, whatever it is

Both ends are i64 of the plan, which runs before the launch. An interval may hold under conditions only (that 32-bit
arithmetic did not wrap); they are checked by the plan, too. What is known inside a branch or a loop is in `Facts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slangrad.ir.builder import Builder
from slangrad.ir.core import Op, Value
from slangrad.ir.numbers import greatest, least
from slangrad.ir.types import BOOL, I64, Scalar, is_integer
from slangrad.opt.counted_loops import counted_variables
from slangrad.opt.launch_values import LaunchValues

SMALL = 1 << 31  # products of such numbers fit in 64 bits


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`, both included, where the conditions hold."""

    low: Value
    high: Value
    conditions: tuple[Value, ...] = ()


@dataclass(slots=True)
class Facts:
    """What is known of values in a region; `found` are answers given there before."""

    known: dict[Value, Interval] = field(default_factory=dict)
    found: dict[Value, Interval | None] = field(default_factory=dict)

    def with_known(self, known: dict[Value, Interval]) -> Facts:
        return Facts(self.known | known) if known else self


class Intervals:
    """Answers for one kernel; arithmetic is emitted into the plan."""

    def __init__(self, launch: LaunchValues) -> None:
        self.launch = launch
        self.plan: Builder = launch.plan

    def of(self, value: Value, facts: Facts) -> Interval | None:
        if value in facts.known:
            return facts.known[value]
        if value not in facts.found:
            facts.found[value] = None  # a chain that comes back to itself is unknown
            facts.found[value] = self._compute(value, facts)
        return facts.found[value]

    def _compute(self, value: Value, facts: Facts) -> Interval | None:
        if not is_integer(value.type):
            return self.number(0, 1) if value.type is BOOL else None
        same = self.launch.of(value)
        if same is not None:
            wide = self.plan.emit("convert", same, type=I64)
            return Interval(wide, wide)
        op = self.launch.made_by(value)
        rule = None if op is None else RULES.get(op.name)
        made = None if op is None or rule is None else rule(self, op, facts)
        return None if made is None else self.fitting(made, value.type)

    def unassumed(self, value: Value, facts: Facts) -> Interval | None:
        """What follows from how it is computed, whatever is known of it by a test."""
        return self._compute(value, facts)

    def of_type(self, value: Value, facts: Facts) -> Interval | None:
        """Where nothing else is known: what its type can hold, if that is not too much."""
        found, scalar = self.of(value, facts), value.type
        if found is None and isinstance(scalar, Scalar) and is_integer(scalar) and scalar.bits <= 32:
            return self.number(least(scalar), greatest(scalar))
        return found

    # --- arithmetic of the plan

    def number(self, low: int | float, high: int | float) -> Interval:
        return Interval(self.plan.constant(I64, int(low)), self.plan.constant(I64, int(high)))

    def constants(self, x: Interval) -> tuple[int, int] | None:
        low, high = self.plan.constant_of(x.low), self.plan.constant_of(x.high)
        return None if low is None or high is None else (int(low), int(high))

    def on(self, x: Interval, condition: Value) -> Interval | None:
        """The interval under a further condition; None where that is known to fail."""
        known = self.plan.constant_of(condition)
        if known is None:
            return Interval(x.low, x.high, (*x.conditions, condition))
        return x if known else None

    def between(self, x: Interval, low: int, high: int) -> Interval | None:
        above = self.plan.emit("less_equal", self.plan.constant(I64, low), x.low)
        made = self.on(x, above)
        return None if made is None else self.below(made, high)

    def below(self, x: Interval, high: int) -> Interval | None:
        return self.on(x, self.plan.emit("less_equal", x.high, self.plan.constant(I64, high)))

    def fitting(self, x: Interval, scalar: object) -> Interval | None:
        """Under the condition that nothing wrapped."""
        assert isinstance(scalar, Scalar)
        if scalar is I64:
            return x
        return self.between(x, int(least(scalar)), min(int(greatest(scalar)), (1 << 63) - 1))

    def hull(self, x: Interval, y: Interval) -> Interval:
        low, high = self.plan.emit("min", x.low, y.low), self.plan.emit("max", x.high, y.high)
        return Interval(low, high, x.conditions + y.conditions)

    def sum(self, x: Interval, y: Interval) -> Interval:
        emit = self.plan.emit
        return Interval(emit("add", x.low, y.low), emit("add", x.high, y.high), x.conditions + y.conditions)

    def product(self, x: Interval, y: Interval) -> Interval | None:
        a, b = self.between(x, -SMALL, 2 * SMALL - 1), self.between(y, -SMALL, SMALL - 1)
        if a is None or b is None:
            return None
        emit = self.plan.emit
        ends = [emit("mul", p, q) for p in (a.low, a.high) for q in (b.low, b.high)]
        low, high = ends[0], ends[0]
        for end in ends[1:]:
            low, high = emit("min", low, end), emit("max", high, end)
        return Interval(low, high, a.conditions + b.conditions)

    # --- what branches and loops tell

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
        end = self.plan.emit("sub", y.high, self.plan.constant(I64, less_by))
        high = self.plan.emit("min", x.high, end)
        return facts.with_known({value: Interval(x.low, high, x.conditions + y.conditions)})

    def at_least(self, facts: Facts, value: Value, limit: Value, more_by: int) -> Facts:
        x, y = self.of_type(value, facts), self.of(limit, facts)
        if x is None or y is None:
            return facts
        end = self.plan.emit("add", y.low, self.plan.constant(I64, more_by))
        low = self.plan.emit("max", x.low, end)
        return facts.with_known({value: Interval(low, x.high, x.conditions + y.conditions)})

    def in_for(self, facts: Facts, op: Op) -> Facts:
        """In the body of a `for`."""
        index, count = op.regions[0].parameters[0], self.of_type(op.operands[0], facts)
        known: dict[Value, Interval] = {}
        if count is not None:
            high = self.plan.emit("sub", count.high, self.plan.constant(I64, 1))
            known[index] = Interval(self.plan.constant(I64, 0), high, count.conditions)
        facts = facts.with_known(known)
        for value, start, bound in counted_variables(op, self.launch.made_by):
            first, last = self.of(start, facts), self.of(bound, facts)
            if first is not None and last is not None:
                high = self.plan.emit("sub", last.high, self.plan.constant(I64, 1))
                reached = Interval(first.low, high, first.conditions + last.conditions)
                facts = facts.with_known({value: reached})
        return facts

    def in_while(self, facts: Facts, op: Op) -> Facts:
        """In the body of a `while`: the test was true. Of the test itself nothing is known before."""
        test, body = op.regions
        grown = self._growing(facts, op)
        tested = self.assuming(facts.with_known({t: x for t, (x, _) in grown.items()}), test.yields[0], True)
        known = {}
        for inner, outer in zip(body.parameters, test.parameters, strict=True):
            found = tested.known.get(outer)
            if found is not None and outer in grown:
                after = self.plan.emit("add", found.high, grown[outer][1])
                kind = inner.type
                assert isinstance(kind, Scalar)
                last = self.plan.constant(I64, int(greatest(kind)))
                found = self.on(found, self.plan.emit("less_equal", after, last))
            if found is not None:
                known[inner] = found
        return facts.with_known(known)

    def _growing(self, facts: Facts, op: Op) -> dict[Value, tuple[Interval, Value]]:
        """Carried numbers that only grow are not below their start while they do not wrap; and their largest step."""
        test, body = op.regions
        found = {}
        for start, outer, inner, end in zip(
            op.operands, test.parameters, body.parameters, body.yields, strict=True
        ):
            made, kind = self.launch.made_by(end), inner.type
            if made is None or made.name != "add" or inner not in made.operands:
                continue
            step = self.of(made.operands[1] if made.operands[0] is inner else made.operands[0], facts)
            grows = None if step is None else self.between(step, 0, SMALL)
            first = self.of(start, facts)
            if first is None or grows is None or not isinstance(kind, Scalar) or kind.bits > 32:
                continue
            high = self.plan.constant(I64, int(greatest(kind)))
            found[outer] = Interval(first.low, high, first.conditions + grows.conditions), grows.high
        return found


# --- rules for ops


def _thread_id(v: Intervals, op: Op, facts: Facts) -> Interval:
    axis = op.attributes["axis"]
    return Interval(*v.launch.threads(axis))


def _convert(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    return v.of(op.operands[0], facts)


def _two(v: Intervals, op: Op, facts: Facts) -> tuple[Interval, Interval] | None:
    x, y = (v.of(each, facts) for each in op.operands)
    return None if x is None or y is None else (x, y)


def _add(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    both = _two(v, op, facts)
    return None if both is None else v.sum(*both)


def _negative(v: Intervals, x: Interval) -> Interval:
    return Interval(v.plan.emit("neg", x.high), v.plan.emit("neg", x.low), x.conditions)


def _sub(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    both = _two(v, op, facts)
    return None if both is None else v.sum(both[0], _negative(v, both[1]))


def _neg(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    x = v.of(op.operands[0], facts)
    return None if x is None else _negative(v, x)


def _mul(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    both = _two(v, op, facts)
    return None if both is None else v.product(*both)


def _shift_count(v: Intervals, op: Op, facts: Facts) -> int | None:
    y = v.of(op.operands[1], facts)
    ends = None if y is None else v.constants(y)
    return None if ends is None or ends[0] != ends[1] or not 0 <= ends[0] < 31 else ends[0]


def _shl(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    x, count = v.of(op.operands[0], facts), _shift_count(v, op, facts)
    return None if x is None or count is None else v.product(x, v.number(1 << count, 1 << count))


def _shr(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    x, count = v.of(op.operands[0], facts), _shift_count(v, op, facts)
    if x is None or count is None:
        return None
    by = v.plan.constant(I64, count)
    return Interval(v.plan.emit("shr", x.low, by), v.plan.emit("shr", x.high, by), x.conditions)


def _extreme(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    """min or max, of both ends."""
    x, y = (v.of_type(each, facts) for each in op.operands)
    if x is None or y is None:
        return None
    low, high = v.plan.emit(op.name, x.low, y.low), v.plan.emit(op.name, x.high, y.high)
    return Interval(low, high, x.conditions + y.conditions)


def _and(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    """With a constant mask: no bit is there that the mask does not have."""
    for each in op.operands:
        x = v.of(each, facts)
        ends = None if x is None else v.constants(x)
        if ends is not None and ends[0] >= 0:
            return v.number(0, ends[1])
    return None


def _rem(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    x, y = v.of_type(op.operands[0], facts), v.of(op.operands[1], facts)
    if x is None or y is None:
        return None
    zero, one = v.plan.constant(I64, 0), v.plan.constant(I64, 1)
    made: Interval | None = Interval(zero, v.plan.emit("sub", y.high, one), x.conditions + y.conditions)
    for condition in (v.plan.emit("less_equal", zero, x.low), v.plan.emit("less_equal", one, y.low)):
        made = None if made is None else v.on(made, condition)
    return made


def _div(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    both = _two(v, op, facts)
    if both is None:
        return None
    (x, y), zero, one = both, v.plan.constant(I64, 0), v.plan.constant(I64, 1)
    high = v.plan.emit("div", x.high, v.plan.emit("max", y.low, one))
    made: Interval | None = Interval(zero, high, x.conditions + y.conditions)
    for condition in (v.plan.emit("less_equal", zero, x.low), v.plan.emit("less_equal", one, y.low)):
        made = None if made is None else v.on(made, condition)
    return made


def _select(v: Intervals, op: Op, facts: Facts) -> Interval | None:
    condition, *chosen = op.operands
    x, y = (
        v.of(each, v.assuming(facts, condition, t)) for each, t in zip(chosen, (True, False), strict=True)
    )
    return None if x is None or y is None else v.hull(x, y)


RULES: dict[str, Callable[[Intervals, Op, Facts], Interval | None]] = {
    "thread_id": _thread_id,
    "convert": _convert,
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "mul": _mul,
    "shl": _shl,
    "shr": _shr,
    "min": _extreme,
    "max": _extreme,
    "and": _and,
    "rem": _rem,
    "div": _div,
    "select": _select,
}


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
    known = v.of(index, facts)
    if not truth or limit is None or (known is not None and v.constants(known) is not None):
        return facts  # where both ends are numbers, they stay: blocks of known size have accumulators
    high = v.plan.emit("sub", limit.high, v.plan.constant(I64, 1))
    return facts.with_known({index: Interval(v.plan.constant(I64, 0), high, limit.conditions)})


def _not(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    return v.assuming(facts, op.operands[0], not truth)


def _both(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    for each in op.operands if truth else ():
        facts = v.assuming(facts, each, True)
    return facts


def _neither(v: Intervals, facts: Facts, op: Op, truth: bool) -> Facts:
    for each in () if truth else op.operands:
        facts = v.assuming(facts, each, False)
    return facts


ASSUMPTIONS: dict[str, Callable[[Intervals, Facts, Op, bool], Facts]] = {
    "less": _less,
    "less_equal": _less,
    "in_bounds": _in_bounds,
    "not": _not,
    "and": _both,
    "or": _neither,
}
