"""Store or recompute: how each primal value that the reverse sweep needs gets there.

In: the needed values.   Out: those to keep and those to compute again, and how the kept ones travel:

    in an arm of an `if`    an extra result of the `if`, zero where the other arm ran
    in the body of a loop   an element of a tape, at the position that counts the body's runs

Values of the function's own region and loop indices are at hand anyway. Only pure ops are computed again,
loads from constant memory among them; an array is read again only if nobody ever writes it: elements are
kept, not arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slangrad.autodiff.outline import Loop, Outline, Place
from slangrad.ir.core import Op, Value
from slangrad.ir.primitives import PRIMITIVES, PURE, READ
from slangrad.ir.types import Array, Pointer, Type, array

FIXED_TAPE = 1 << 16  # elements; longer tapes grow
LIMIT_IN_LOOP = 6  # what a tape's store and load cost, in the unit of the table's costs
LIMIT_IN_ARM = 2  # what an extra result of an `if` costs

MayRepeat = Callable[[Op], bool]


@dataclass(slots=True)
class Plan:
    """`slots`: what a control op passes through besides its own values (tapes, positions of inner loops)."""

    needs: frozenset[Value] = frozenset()
    keep: dict[Value, None] = field(default_factory=dict)
    again: dict[Value, Op] = field(default_factory=dict)
    taped: dict[Loop, list[Value]] = field(default_factory=dict)
    lifted: dict[Op, list[Value]] = field(default_factory=dict)
    slots: dict[Op, list[Value]] = field(default_factory=dict)
    slot_types: dict[Value, Type] = field(default_factory=dict)
    counted: set[Loop] = field(default_factory=set)  # inner loops whose position is carried along


def plan(outline: Outline, needs: Iterable[Value], prefer: str, may_repeat: MayRepeat) -> Plan:
    """`prefer` is "recompute", "checkpoint" or "", `may_repeat` says which calls may run again."""
    result = Plan(frozenset(needs))
    choice = _Choice(outline, result, prefer, may_repeat)
    for value in sorted(result.needs, key=outline.order.__getitem__):
        choice.decide(value)
    routes = _Routes(outline, result)
    for value in list(result.keep):
        routes.add(value)
    return result


class _Choice:
    """A greedy rule: compute again what costs less than its store."""

    def __init__(self, outline: Outline, result: Plan, prefer: str, may_repeat: MayRepeat) -> None:
        self._outline = outline
        self._plan = result
        self._prefer = prefer
        self._may_repeat = may_repeat

    def decide(self, value: Value) -> None:
        if self._at_hand(value):
            return
        price = self._price(value)
        if price <= self._limit(value) and price < math.inf:
            self._repeat(value)
        else:
            self._plan.keep[value] = None

    def _at_hand(self, value: Value) -> bool:
        home = self._outline.homes[value]
        return home is self._outline.top or self._outline.is_index(value) or value in self._plan.keep

    def _limit(self, value: Value) -> float:
        if self._prefer == "recompute" or isinstance(value.type, Pointer):
            return math.inf
        if self._prefer == "checkpoint":
            return 0
        return LIMIT_IN_ARM if self._outline.homes[value].loop is None else LIMIT_IN_LOOP

    def _price(self, value: Value) -> float:
        """What computing a value again costs; infinity where that is impossible."""
        if self._at_hand(value):
            return 0
        op = self._outline.makers.get(value)
        if op is None or not self._repeatable(op):
            return math.inf
        own = PRIMITIVES[op.name].cost if op.name in PRIMITIVES else 0
        return own + sum(self._price(v) for v in op.operands)

    def _repeatable(self, op: Op) -> bool:
        if op.name not in PRIMITIVES:
            return op.name == "call" and self._may_repeat(op)
        effect = PRIMITIVES[op.name].effect
        constant = effect == READ and op.name == "load" and _is_constant(op.operands[0].type)
        if effect != PURE and not constant:
            return False
        if isinstance(op.results[0].type, Array) and op.operands:
            return False
        return all(self._readable(v) for v in op.operands if isinstance(v.type, Array))

    def _readable(self, whole: Value) -> bool:
        """An array at hand that is only ever read: keeping it for the reverse sweep makes no copy."""
        reads = all(use.name in ("index", "get") for use in self._outline.uses[whole])
        return self._outline.homes[whole] is self._outline.top and reads

    def _repeat(self, value: Value) -> None:
        if self._at_hand(value) or value in self._plan.again:
            return
        op = self._plan.again[value] = self._outline.makers[value]
        for v in op.operands:
            self._repeat(v)


class _Routes:
    """How kept values get out of arms and loops."""

    def __init__(self, outline: Outline, result: Plan) -> None:
        self._outline = outline
        self._plan = result

    def add(self, value: Value) -> None:
        place = self._outline.homes[value]
        while place.op is not None and place.op.name == "if":
            self._plan.lifted.setdefault(place.op, []).append(value)
            assert place.outer is not None
            place = place.outer
        loop = place.loop
        if loop is None:
            return
        self._plan.taped.setdefault(loop, []).append(value)
        self._plan.slot_types[value] = array(value.type, fixed_length(loop))
        self._pass_through(loop.op, value)
        self._pass_around(loop.home, value)
        self._position(loop)

    def _position(self, loop: Loop) -> None:
        """An inner loop whose runs differ in length has its position carried, and each run's begin kept."""
        if is_linear(self._outline, loop) or loop in self._plan.counted:
            return
        self._plan.counted.add(loop)
        self._plan.slot_types[loop.next] = loop.next.type
        self._pass_around(loop.home, loop.next)
        self._plan.keep[loop.base] = None
        self.add(loop.base)

    def _pass_around(self, place: Place, slot: Value) -> None:
        inner: Place | None = place
        while inner is not None and inner.op is not None:
            self._pass_through(inner.op, slot)
            inner = inner.outer

    def _pass_through(self, op: Op, slot: Value) -> None:
        self._plan.slots.setdefault(op, []).append(slot)


def is_linear(outline: Outline, loop: Loop) -> bool:
    """Whether positions follow from indices: the counts of inner loops are known before the outermost."""
    if loop.outer is None:
        return True
    known = loop.constant is not None or outline.homes[loop.trips] is outline.top
    return known and is_linear(outline, loop.outer)


def fixed_length(loop: Loop) -> int | None:
    """How often the body runs in all; None where that is not known, or too much for a fixed array."""
    runs, around = 1, loop
    while True:
        if around.constant is None:
            return None
        runs *= max(around.constant, 1)
        if around.outer is None:
            return runs if runs <= FIXED_TAPE else None
        around = around.outer


def _is_constant(pointer: Type) -> bool:
    return isinstance(pointer, Pointer) and pointer.space == "constant"
