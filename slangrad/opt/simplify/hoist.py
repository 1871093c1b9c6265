"""Compute invariant values once: out of loops, and out of both arms of an `if`.

    for %n (%i: i32) { %s = sqrt %x  use %s, %i }      ->   %s = sqrt %x   for %n (%i: i32) { use %s, %i }
    if %c { %s = sqrt %x .. } { %s = sqrt %x .. }      ->   %s = sqrt %x   if %c { .. } { .. }

Only ops that may run early move: pure and silent ones, all of which are total, and loads from the argument
block. An op in an arm leaves the loop around the `if` only when it is cheap, as the arm may never be taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slangrad.ir.analyses.addresses import MEMBERS, root_of
from slangrad.ir.building.builder import Builder, attribute_key
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.effects import may_run_early
from slangrad.ir.ops.primitives import PRIMITIVES

CHEAP = 4


def hoist(function: Function) -> Function:
    """The function with each op as far out as is worthwhile."""
    return _Hoist().function(function)


@dataclass(slots=True)
class _Level:
    """A region being rebuilt, the outermost first."""

    builder: Builder
    is_loop: bool
    parameters: frozenset[Value]

    def makes(self, value: Value) -> bool:
        return value in self.parameters or self.builder.made_here(value)


class _Hoist(Rebuild):
    def __init__(self) -> None:
        super().__init__({"if": self._if, "for": self._loop, "while": self._loop})
        self._levels: list[_Level] = []
        self._loops: list[int] = []  # the numbers of the levels that are loops
        self._made_at: dict[Value, int] = {}  # the number of a value's level

    def region(self, b: Builder, region: Region, is_loop: bool = False) -> Region:
        parameters = self.parameters(region.parameters)
        self._loops += [len(self._levels)] if is_loop else []
        self._levels.append(_Level(b, is_loop, frozenset(parameters)))
        yields = self.inline(b, region)
        self._levels.pop()
        del self._loops[len(self._loops) - is_loop :]
        return Region(parameters, b.ops, yields)

    def op(self, b: Builder, op: Op) -> None:
        super().op(self._target(op) if len(self._levels) > 1 and self._movable(op) else b, op)

    def _movable(self, op: Op) -> bool:
        if not may_run_early(op):
            return False
        return op.name != "load" or self._in_argument_block(self.value(op.operands[0]))

    def _in_argument_block(self, address: Value) -> bool:
        """Whether an address is that of a parameter or of a part of it, so that it can always be read."""
        made_by = self._levels[-1].builder.made_by
        op = made_by(root_of(address, made_by, MEMBERS))
        return op is not None and op.name == "parameter"

    def _target(self, op: Op) -> Builder:
        """The builder of the outermost level to which it is worth moving the op."""
        last = len(self._levels) - 1
        levels = [self._level_of(self.new[v]) for v in op.operands]
        first = max(levels, default=0)  # where it can be at the earliest
        if PRIMITIVES[op.name].cost <= CHEAP:
            passed = bisect_right(self._loops, first)
            return self._levels[self._loops[passed] - 1 if passed < len(self._loops) else last].builder
        at = last
        while at > first and self._levels[at].is_loop:
            at -= 1
        return self._levels[at].builder

    def _level_of(self, value: Value) -> int:
        at = self._made_at.get(value)
        if at is None:
            at = len(self._levels) - 1
            while at > 0 and not self._levels[at].makes(value):
                at -= 1
            self._made_at[value] = at
        return at

    # --- control flow

    def _loop(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        regions = tuple(self.region(b.nested(), r, is_loop=True) for r in op.regions)
        return self.control(b, op, self.values(op.operands), regions)

    def _if(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        for shared in self._shared(op.regions):
            self.op(b, shared)
        regions = tuple(self.region(b.nested(), r) for r in op.regions)
        return self.control(b, op, self.values(op.operands), regions)

    def _shared(self, arms: Sequence[Region]) -> Iterable[Op]:
        """Movable ops of the first arm that the second arm has, too; equal ones get equal numbers."""
        numbers: dict[object, int] = {}
        first, second = ({n: op for op, n in self._numbered(arm, numbers)} for arm in arms)
        return [op for n, op in first.items() if n in second]

    def _numbered(self, arm: Region, numbers: dict[object, int]) -> Iterable[tuple[Op, int]]:
        inside: dict[Value, int] = {}
        results_here = {r for op in arm.ops for r in op.results}
        for op in arm.ops:
            local = any(v in results_here and v not in inside for v in op.operands)
            if local or not may_run_early(op) or op.name == "load":
                continue
            operands = tuple(inside.get(v) or self.value(v) for v in op.operands)
            key = (op.name, operands, op.results[0].type, *attribute_key(op.attributes))
            number = inside[op.results[0]] = numbers.setdefault(key, len(numbers) + 1)
            yield op, number
