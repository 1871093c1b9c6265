"""Structured code cut at its recursive calls into blocks that jump.

    if %c { %y = call @f %x  yield %y } { yield %z }

    1: branch %c, 2, 4      2: call @f %x, then 3      3: (%y) jump 5, %r = %y      4: jump 5, %r = %z      5: ...

Control flow without such a call stays as it is, inside of a block. Blocks are numbered in the order of the text, so
that only loops jump backwards. machine.py makes a loop of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.ops.core import Function, Op, Region, Value, walk

Moves = list[tuple[Value, Value]]


@dataclass(slots=True, eq=False)
class Jump:
    """`moves`: which value gets which one."""

    target: BasicBlock
    moves: Moves


@dataclass(slots=True, eq=False)
class Branch:
    condition: Value
    then: BasicBlock
    otherwise: BasicBlock


@dataclass(slots=True, eq=False)
class RecursiveCall:
    callee: str
    operands: tuple[Value, ...]
    after: BasicBlock
    span: Span | None


@dataclass(slots=True, eq=False)
class FunctionReturn:
    values: tuple[Value, ...]


Terminator: TypeAlias = Jump | Branch | RecursiveCall | FunctionReturn


@dataclass(slots=True, eq=False)
class BasicBlock:
    """Ops, then an end. `received`: the results of the call of `of` that ended the block before."""

    number: int
    ops: list[Op] = field(default_factory=list)
    received: tuple[Value, ...] = ()
    of: str = ""
    end: Terminator = field(default_factory=lambda: FunctionReturn(()))

    @property
    def sources(self) -> tuple[Value, ...]:
        """The values that its end uses."""
        end = self.end
        if isinstance(end, Jump):
            return tuple(source for source, _ in end.moves)
        if isinstance(end, Branch):
            return (end.condition,)
        return end.operands if isinstance(end, RecursiveCall) else end.values


class ControlFlowGraph:
    """Blocks of functions that call each other. `alias`: values that are another one, which jumps change."""

    def __init__(self, members: set[str]) -> None:
        self.blocks: list[BasicBlock] = []
        self.alias: dict[Value, Value] = {}
        self._members = members

    def function(self, f: Function) -> BasicBlock:
        """The entry of a function."""
        entry = self._block()
        last = self._region(f.region, entry)
        last.end = FunctionReturn(f.region.yields)
        return entry

    def _block(self) -> BasicBlock:
        block = BasicBlock(len(self.blocks) + 1)
        self.blocks.append(block)
        return block

    def _region(self, region: Region, at: BasicBlock) -> BasicBlock:
        for op in region.ops:
            if self._recurs(op):
                at = _RULES[op.name](self, op, at)
            else:
                at.ops.append(op)
        return at

    def _recurs(self, op: Op) -> bool:
        if op.name == "call":
            return op.attributes["callee"] in self._members
        return any(inner.name == "call" and self._recurs(inner) for inner in walk(*op.regions))

    def _call(self, op: Op, at: BasicBlock) -> BasicBlock:
        after = self._block()
        callee = op.attributes["callee"]
        after.received, after.of = op.results, callee
        at.end = RecursiveCall(callee, op.operands, after, op.span)
        return after

    def _if(self, op: Op, at: BasicBlock) -> BasicBlock:
        entries, ends = [], []
        for arm in op.regions:
            entries.append(self._block())
            ends.append(self._region(arm, entries[-1]))
        joined = self._block()
        for arm, end in zip(op.regions, ends, strict=True):
            end.end = Jump(joined, list(zip(arm.yields, op.results, strict=True)))
        at.end = Branch(op.operands[0], *entries)
        return joined

    def _while(self, op: Op, at: BasicBlock) -> BasicBlock:
        test, body = op.regions
        for region in op.regions:
            self.alias.update(zip(region.parameters, op.results, strict=True))
        header = self._block()
        at.end = Jump(header, list(zip(op.operands, op.results, strict=True)))
        tested = self._region(test, header)
        return self._loop(op, header, tested, test.yields[0], body, [])

    def _for(self, op: Op, at: BasicBlock) -> BasicBlock:
        """A `while` over a counter."""
        (body,) = op.regions
        count, index = op.operands[0], body.parameters[0]
        counter = Value(count.type, "trip")
        self.alias.update(zip(body.parameters[1:], op.results, strict=True))
        zero, step, header = Builder(span=op.span), Builder(span=op.span), self._block()
        start = zero.constant(count.type, 0)
        at.ops += zero.ops
        at.end = Jump(header, [(start, counter), *zip(op.operands[1:], op.results, strict=True)])
        go_on = step.emit("less", counter, count)
        next_trip = step.emit("add", counter, step.constant(count.type, 1))
        place = step.emit("sub", count, next_trip) if op.attributes.get("reverse") else counter
        header.ops += step.ops
        self.alias[index] = place
        return self._loop(op, header, header, go_on, body, [(next_trip, counter)])

    def _loop(
        self, op: Op, header: BasicBlock, tested: BasicBlock, go_on: Value, body: Region, more: Moves
    ) -> BasicBlock:
        entry = self._block()
        end = self._region(body, entry)
        end.end = Jump(header, [*more, *zip(body.yields, op.results, strict=True)])
        left = self._block()
        tested.end = Branch(go_on, entry, left)
        return left


_RULES: dict[str, Callable[[ControlFlowGraph, Op, BasicBlock], BasicBlock]] = {
    "call": ControlFlowGraph._call,
    "if": ControlFlowGraph._if,
    "while": ControlFlowGraph._while,
    "for": ControlFlowGraph._for,
}
