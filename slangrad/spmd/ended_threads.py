"""Barriers behind a `return`: they pass over threads that have ended, as on a GPU.

In: a flat kernel whose last op is a branch that only some threads take, with barriers in one arm.
Out: the barriers outside of it, and the ops between them in branches on its condition.

    if %mine {                  %v = if %mine { load .. } { yield 0 }
      %v = load %p              barrier
      barrier             ->    if %mine { store %q, %v } { }
      store %q, %v
    } { }

Pure ops leave the branch, so that all threads know how often a loop around a barrier turns. Where a load decides about
it, those that have ended do not know, and `check_barriers` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.control import decides
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import ALLOCATIONS, may_run_early
from slangrad.spmd.analyses.group_values import OWN, GroupValues


def pass_ended_threads(kernel: Function, functions: Mapping[str, Function]) -> Function:
    """The kernel without barriers in its last branch; itself if all threads take that branch, or none is there."""
    if not any(op.name == "barrier" for op in walk(kernel.region)):
        return kernel
    *before, last = kernel.region.ops
    split = _Split(GroupValues(kernel, functions))
    if not split.ends_threads(last):
        return kernel
    b = Builder(span=kernel.span)
    parameters = split.parameters(kernel.region.parameters)
    for op in before:
        split.op(b, op)
    split.last(b, last, None)
    return replace(kernel, region=Region(parameters, b.ops, split.values(kernel.region.yields)))


class _Split(Rebuild):
    def __init__(self, values: GroupValues) -> None:
        super().__init__()
        self._values = values

    def ends_threads(self, op: Op) -> bool:
        """Whether an op that is the last one is a branch with barriers in one arm, which some threads take."""
        if op.name != "if" or op.results or self._values.rank(decides(op)) != OWN:
            return False
        return sum(map(self._waits, op.regions)) == 1

    def _waits(self, region: Region) -> bool:
        return any(op.name == "barrier" for op in walk(region))

    def last(self, b: Builder, op: Op, live: Value | None) -> None:
        """The last branch; `live`: whether a thread has come to it, None if all have."""
        condition = self.value(decides(op))
        opposite = b.emit("not", condition)
        sides = (condition, opposite) if self._waits(op.regions[0]) else (opposite, condition)
        stays, ends = sides if live is None else (b.emit("and", live, side) for side in sides)
        for arm in op.regions:
            if self._waits(arm):
                going_on = arm
            else:
                self._guarded(b, arm.ops, (), ends)
        self._part(b, going_on.ops, (), stays, is_last=True)

    def _part(
        self, b: Builder, ops: Sequence[Op], yields: Sequence[Value], live: Value, is_last: bool = False
    ) -> None:
        """Ops of live threads, with barriers among them; `yields`: values that are used behind these ops."""
        between: list[Op] = []
        for i, op in enumerate(ops):
            if not self._values.holds_barrier(op):
                between.append(op)
                continue
            self._between(b, between, (*yields, *_used(ops[i:])), live)
            between = []
            if not op.regions:
                self.op(b, op)
            elif is_last and op is ops[-1] and self.ends_threads(op):
                self.last(b, op, live)
            else:
                self._control(b, op, live)
        self._between(b, between, yields, live)

    def _control(self, b: Builder, op: Op, live: Value) -> None:
        """A branch or loop around a barrier, which all threads take, as `check_barriers` finds out."""
        regions = []
        for region in op.regions:
            inner, parameters = b.nested(), self.parameters(region.parameters)
            self._part(inner, region.ops, region.yields, live)
            regions.append(Region(parameters, inner.ops, self.values(region.yields)))
        outer_span, b.span = b.span, op.span
        results = self.control(b, op, self.values(op.operands), tuple(regions))
        b.span = outer_span
        self.new.update(zip(op.results, results, strict=True))

    def _between(self, b: Builder, ops: Sequence[Op], used: Sequence[Value], live: Value) -> None:
        """Ops without barriers: those that may run in all threads, then the others."""
        others = []
        for op in ops:
            is_free = may_run_early(op) or (op.name in ALLOCATIONS and not op.operands)
            if is_free and all(operand in self.new for operand in op.operands):
                self.op(b, op)
            else:
                others.append(op)
        self._guarded(b, others, used, live)

    def _guarded(self, b: Builder, ops: Sequence[Op], used: Sequence[Value], live: Value) -> None:
        """Ops that only live threads run; the others get zeros for their results."""
        wanted = set(used)
        kept = [result for op in ops for result in op.results if result in wanted]

        def arm(inner: Builder) -> tuple[Value, ...]:
            for op in ops:
                self.op(inner, op)
            return self.values(kept)

        if ops:
            self.new.update(zip(kept, b.guarded(live, arm), strict=True))


def _used(ops: Sequence[Op]) -> list[Value]:
    """The values that ops and the regions in them use."""
    inner = [operand for op in walk(Region((), list(ops), ())) for operand in op.operands]
    regions = [region for op in walk(Region((), list(ops), ())) for region in op.regions]
    return [*inner, *(value for region in regions for value in region.yields)]
