"""Control flow that is decided before the program runs.

    if true {a} {b}  ->  a                        for 1 {body}  ->  body with index 0
    %r = if %c {yield true} {yield %x}  ->  %r = or %c, %x           %c in an arm of its own `if`  ->  true
    carried %k with `yield %k`  ->  its start     while {yield false} {body}  ->  nothing

unroll.py handles loops with more than one iteration; no op runs earlier than before.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import BOOL
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.effects import effect_of
from slangrad.ir.ops.primitives import WRITE

MOST_IMPLIED = 64  # truth values that a condition is made of and that are looked for in its arms


def simplify_branches(function: Function) -> Function:
    """The function with decided branches taken and needless results replaced."""
    return _Branches().function(function)


class _Branches(Rebuild):
    """`known` holds, while an arm is rebuilt, the conditions whose value is the same in the whole arm."""

    def __init__(self) -> None:
        super().__init__({"if": self._if, "for": self._for, "while": self._while})
        self.known: dict[Value, Value] = {}

    def value(self, old: Value) -> Value:
        new = self.new[old]
        return self.known.get(new, new)

    def values(self, old: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(map(self.value, old))

    # --- if

    def _if(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        condition = self.value(op.operands[0])
        number = b.constant_of(condition)
        if number is not None:
            return self.inline(b, op.regions[0 if number else 1])
        then, x = self._arm(b, op.regions[0], condition, True)
        otherwise, y = self._arm(b, op.regions[1], condition, False)
        arms = _Arms(b, condition, then, otherwise)
        decided = [arms.decided(*pair) for pair in zip(x, y, strict=True)]
        left = [i for i, value in enumerate(decided) if value is None]
        if not left and not then.ops and not otherwise.ops:
            return tuple(value for value in decided if value is not None)
        arms_left = ((then, x), (otherwise, y))
        regions = tuple(Region((), arm.ops, tuple(yields[i] for i in left)) for arm, yields in arms_left)
        results = iter(self.control(b, op, (condition,), regions, tuple(op.results[i] for i in left)))
        return tuple(next(results) if value is None else value for value in decided)

    def _arm(
        self, b: Builder, region: Region, condition: Value, holds: bool
    ) -> tuple[Builder, tuple[Value, ...]]:
        """The ops and yields of an arm, in which the condition is known."""
        nested, implied = b.nested(), _implied(b, condition, holds)
        before = {value: self.known[value] for value in implied if value in self.known}
        self.known.update(implied)
        yields = self.inline(nested, region)
        for value in implied:
            del self.known[value]
        self.known.update(before)
        return nested, yields

    # --- loops

    def _for(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        (count, *starts), (body,) = self.values(op.operands), op.regions
        number = b.constant_of(count)
        if number is not None and number <= 0:
            return tuple(starts)
        if number == 1:
            self.new.update(zip(body.parameters, (b.constant(count.type, 0), *starts), strict=True))
            return self.inline(b, body)
        return self._loop(b, op)

    def _while(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        starts, test = self.values(op.operands), op.regions[0]
        if self._never_turns(b, test, starts):
            return starts
        return self._loop(b, op)

    def _loop(self, b: Builder, op: Op) -> tuple[Value, ...]:
        """Without needless carried values: those that never change, and doubles."""
        starts = self.values([loop_value.start for loop_value in carried(op)])
        leaders: list[int | None] = []  # the carried value that each one equals; None: its start
        first: dict[tuple[Value, Value], int] = {}
        for i, (loop_value, start) in enumerate(zip(carried(op), starts, strict=True)):
            stays = loop_value.yielded is loop_value.parameter
            leaders.append(None if stays else first.setdefault((start, loop_value.yielded), i))

        def enter(region: Region) -> None:
            old = region.parameters[len(region.parameters) - len(starts) :]
            for p, start, leader in zip(old, starts, leaders, strict=True):
                self.new[p] = start if leader is None else self.new[old[leader]]

        kept_results = list(self.reduced(b, op, [leader == i for i, leader in enumerate(leaders)], enter))
        results = (None if leader is None else kept_results[leader] for leader in leaders)
        return tuple(start if r is None else r for r, start in zip(results, starts, strict=True))

    def _never_turns(self, b: Builder, test: Region, starts: tuple[Value, ...]) -> bool:
        """Whether the test is false at once, and has no effects."""
        if any(effect_of(op) == WRITE for op in test.ops):
            return False
        tried = b.nested()
        self.new.update(zip(test.parameters, starts, strict=True))
        return tried.constant_of(self.inline(tried, test)[0]) is False


def _implied(b: Builder, condition: Value, holds: bool) -> dict[Value, Value]:
    """The truth values that follow from a condition, limited to the nearest ones."""
    truths: dict[Value, Value] = {}
    pending = [(condition, holds)]
    for value, holds in pending:  # grows while it is read
        truths[value] = b.constant(BOOL, holds)
        op = b.made_by(value) if len(pending) < MOST_IMPLIED else None
        if op is not None and op.name == "not":
            pending.append((op.operands[0], not holds))
        elif op is not None and op.name == ("and" if holds else "or"):
            pending += [(part, holds) for part in op.operands]
    return truths


class _Arms:
    """The two arms of an `if`, to see which results need no `if`."""

    def __init__(self, b: Builder, condition: Value, then: Builder, otherwise: Builder) -> None:
        self._b = b
        self._condition = condition
        self._builders = (then, otherwise)
        self._inside = {r for arm in (then, otherwise) for op in arm.ops for r in op.results}

    def decided(self, x: Value, y: Value) -> Value | None:
        """A value outside of the arms that is `x` when the condition holds and else `y`."""
        if x is y:
            return x
        known_x, known_y = (arm.constant_of(v) for arm, v in zip(self._builders, (x, y), strict=True))
        if x.type is BOOL:
            return self._truth(x, y, known_x, known_y)
        if known_x is None or repr(known_x) != repr(known_y):
            return None
        return self._b.constant(x.type, known_x)

    def _truth(self, x: Value, y: Value, known_x: object, known_y: object) -> Value | None:
        b, c = self._b, self._condition
        if known_x is not None and known_x == known_y:
            return b.constant(BOOL, bool(known_x))
        if known_x is not None and known_y is not None:
            return c if known_x else b.emit("not", c)
        if known_x is not None and y not in self._inside:
            return b.emit("or", c, y) if known_x else b.emit("and", b.emit("not", c), y)
        if known_y is not None and x not in self._inside:
            return b.emit("or", b.emit("not", c), x) if known_y else b.emit("and", c, x)
        return None
