"""Control flow that is decided before the program runs.

    if true {a} {b}  ->  a                        for 1 {body}  ->  body with index 0
    %r = if %c {yield true} {yield %x}  ->  %r = or %c, %x           %c in an arm of its own `if`  ->  true
    carried %k with `yield %k`  ->  its start     while {yield false} {body}  ->  nothing

Loops that turn more than once are unroll.py's business; nothing runs earlier than it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Region, Value
from slangrad.ir.effects import effect_of
from slangrad.ir.primitives import WRITE
from slangrad.ir.rebuild import Rebuild
from slangrad.ir.types import BOOL

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
        regions = tuple(Region((), made.ops, tuple(yields[i] for i in left)) for made, yields in arms_left)
        results = iter(self.control(b, op, (condition,), regions))
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
        index, *parameters = body.parameters
        loop = _Carried(starts, body.yields, parameters)
        region = self._loop_region(b, loop, body, (index,), parameters, loop.kept(body.yields))
        return loop.all(self.control(b, op, (count, *loop.kept(starts)), (region,)))

    def _while(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        starts, (test, body) = self.values(op.operands), op.regions
        if self._never_turns(b, test, starts):
            return starts
        loop = _Carried(starts, body.yields, body.parameters)
        regions = (
            self._loop_region(b, loop, test, (), test.parameters, test.yields),
            self._loop_region(b, loop, body, (), body.parameters, loop.kept(body.yields)),
        )
        return loop.all(self.control(b, op, loop.kept(starts), regions))

    def _never_turns(self, b: Builder, test: Region, starts: tuple[Value, ...]) -> bool:
        """Whether the test is false at once, and does nothing else."""
        if any(effect_of(op) == WRITE for op in test.ops):
            return False
        tried = b.nested()
        self.new.update(zip(test.parameters, starts, strict=True))
        return tried.constant_of(self.inline(tried, test)[0]) is False

    def _loop_region(
        self,
        b: Builder,
        loop: _Carried,
        region: Region,
        index: tuple[Value, ...],
        carried: Sequence[Value],
        yields: tuple[Value, ...],
    ) -> Region:
        nested, old = b.nested(), (*index, *loop.kept(carried))
        parameters = self.parameters(old)
        self.new.update(zip(carried, loop.all(parameters[len(index) :]), strict=True))
        for op in region.ops:
            self.op(nested, op)
        return Region(parameters, nested.ops, self.values(yields))


def _implied(b: Builder, condition: Value, holds: bool) -> dict[Value, Value]:
    """What a condition says about the truth values that it is made of: the nearest ones, of a great many."""
    known: dict[Value, Value] = {}
    pending = [(condition, holds)]
    for value, holds in pending:  # grows while it is read
        known[value] = b.constant(BOOL, holds)
        op = b.made_by(value) if len(pending) < MOST_IMPLIED else None
        if op is not None and op.name == "not":
            pending.append((op.operands[0], not holds))
        elif op is not None and op.name == ("and" if holds else "or"):
            pending += [(part, holds) for part in op.operands]
    return known


class _Arms:
    """The two arms of an `if`, to see which results need no `if`."""

    def __init__(self, b: Builder, condition: Value, then: Builder, otherwise: Builder) -> None:
        self._b = b
        self._condition = condition
        self._builders = (then, otherwise)
        self._inside = {r for made in (then, otherwise) for op in made.ops for r in op.results}

    def decided(self, x: Value, y: Value) -> Value | None:
        """A value outside of the arms that is `x` when the condition holds and else `y`."""
        if x is y:
            return x
        known_x, known_y = (made.constant_of(v) for made, v in zip(self._builders, (x, y), strict=True))
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


class _Carried:
    """Which carried values of a loop must be carried: not those that stay what they are, nor doubles.

    `starts` are new values; `yields` and `parameters` are those of the old body.
    """

    def __init__(self, starts: Iterable[Value], yields: Sequence[Value], parameters: Sequence[Value]) -> None:
        self._starts = tuple(starts)
        self._leader: list[int | None] = []  # the carried value that each one equals; None: its start
        first: dict[tuple[Value, Value], int] = {}
        for i, (start, made) in enumerate(zip(self._starts, yields, strict=True)):
            stays = made is parameters[i]
            self._leader.append(None if stays else first.setdefault((start, made), i))

    def kept(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(v for i, v in enumerate(values) if self._leader[i] == i)

    def all(self, made: Iterable[Value]) -> tuple[Value, ...]:
        """New values for all that the old loop carried, from those for what is kept."""
        indices = [i for i, leader in enumerate(self._leader) if leader == i]
        by_index = dict(zip(indices, made, strict=True))
        return tuple(s if x is None else by_index[x] for s, x in zip(self._starts, self._leader, strict=True))
