"""The storage of values of blocks: none, until the next block, or while others run.

In: the blocks of functions that call each other (blocks.py).
Out: the values that each block needs from others, and the values to save across calls (`stacked`). Ops that do not
depend on the depth of a call (`early`) run once at the start.

A parameter that every call passes on unchanged is the root's parameter and need not be kept.
"""

from __future__ import annotations

from slangrad.ir.building.rebuild import free_values
from slangrad.ir.ops.core import Function, Op, Value
from slangrad.ir.ops.effects import may_run_early
from slangrad.lower.recursion.blocks import BasicBlock, Branch, ControlFlowGraph, Jump, RecursiveCall


class Liveness:
    def __init__(self, graph: ControlFlowGraph, root: Function, members: dict[str, Function]) -> None:
        self._alias = graph.alias
        self._blocks = graph.blocks
        self.same = _passed_on(graph, root, members)
        self.early: list[Op] = []
        self._everywhere: set[Value] = set(self.same)
        self._hoist()
        self.needs = {block: self._needed(block) for block in graph.blocks}
        self._definitions = {block: _made_in(block) for block in graph.blocks}
        self.live: dict[BasicBlock, set[Value]] = {block: set() for block in graph.blocks}
        self._settle()
        calls = [block.end for block in graph.blocks if isinstance(block.end, RecursiveCall)]
        self.stacked = {v for call in calls for v in self.live[call.after]}

    def canonical(self, value: Value) -> Value:
        while value in self._alias:
            value = self._alias[value]
        return value

    def after(self, block: BasicBlock) -> set[Value]:
        """The values that are needed after a block, besides what its jump sets."""
        end = block.end
        if isinstance(end, Jump):
            return self.live[end.target] - {target for _, target in end.moves}
        if isinstance(end, Branch):
            return self.live[end.then] | self.live[end.otherwise]
        return set(self.live[end.after]) if isinstance(end, RecursiveCall) else set()

    def kept(self, block: BasicBlock) -> list[Value]:
        """The values made in a block and needed after it, in the order of the text."""
        after = self.after(block)
        return [value for value in self._definitions[block] if value in after]

    def _hoist(self) -> None:
        for block in self._blocks:
            stay = []
            for op in block.ops:
                if may_run_early(op) and all(self.canonical(v) in self._everywhere for v in op.operands):
                    self.early.append(op)
                    self._everywhere.update(op.results)
                else:
                    stay.append(op)
            block.ops = stay

    def _needed(self, block: BasicBlock) -> list[Value]:
        """The values of others that a block uses, by their own names."""
        inside = set(_made_in(block))
        used: dict[Value, None] = {}
        for op in block.ops:
            used.update(dict.fromkeys((*op.operands, *free_values(*op.regions))))
        used.update(dict.fromkeys(block.sources))
        return [v for v in used if v not in inside and self.canonical(v) not in inside | self._everywhere]

    def _settle(self) -> None:
        """Backwards until nothing changes."""
        changed = True
        while changed:
            changed = False
            for block in reversed(self._blocks):
                live = {self.canonical(v) for v in self.needs[block]}
                live |= self.after(block) - set(self._definitions[block])
                if live != self.live[block]:
                    self.live[block] = live
                    changed = True


def _made_in(block: BasicBlock) -> list[Value]:
    return [*block.received, *(result for op in block.ops for result in op.results)]


def _passed_on(graph: ControlFlowGraph, root: Function, members: dict[str, Function]) -> dict[Value, Value]:
    """The parameters that are always the same parameter of the root."""
    origins: dict[Value, Value | None] = {p: p for p in root.region.parameters}
    parameters = {p for f in members.values() for p in f.region.parameters}
    calls = [block.end for block in graph.blocks if isinstance(block.end, RecursiveCall)]
    changed = True
    while changed:
        changed = False
        for call in calls:
            for p, operand in zip(members[call.callee].region.parameters, call.operands, strict=True):
                if operand in parameters and operand not in origins:
                    continue
                origin_of_operand = origins.get(operand)
                met = origin_of_operand if p not in origins or origins[p] is origin_of_operand else None
                if p not in origins or origins[p] is not met:
                    origins[p] = met
                    changed = True
    return {p: origin for p, origin in origins.items() if origin is not None}
