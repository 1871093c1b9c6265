"""Fetching primal values in the reverse sweep: needs first, then what the plan kept.

    forward  %s.1 = set_index %s.0, %i, %x       a tape carried by the loop
    reverse  %x = index %s, %i                   from the tape, in the reversed loop's body

`Needs` serves a dry run and records the values that it fetches. `Residuals` serves the real one: from scope, an
extra result, a tape, the number of the iteration, or computed again. A `SweepScope` is one region of the reverse
sweep and belongs to a region of the primal. A value is fetched once, in the scope of its home, for all scopes
within.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slangrad.autodiff.analyses.loop_tree import Loop, LoopTree, RegionNode
from slangrad.autodiff.checkpointing.plan import ResidualPlan
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import U32
from slangrad.ir.ops.core import Op, Region, Value, without
from slangrad.ir.ops.primitives import PRIMITIVES


class ValueSource(Protocol):
    """The source of fetched values; `scope` is that of the value's home."""

    tree: LoopTree

    def find(self, scope: SweepScope, value: Value) -> Value: ...

    def runs_again(self, call: Op) -> bool:
        """Whether the reverse sweep runs a function again and takes no residuals of it."""
        ...


class SweepScope:
    """A region of the reverse sweep. `ordinal` numbers the iteration, in the body of a reversed loop."""

    def __init__(
        self,
        source: ValueSource,
        b: Builder,
        place: RegionNode,
        outer: SweepScope | None = None,
        ordinal: Value | None = None,
    ) -> None:
        self.b = b
        self.outer = outer
        self._source = source
        self._place = place
        self._ordinal = ordinal
        self._fetched: dict[Value, Value] = {}

    def nested(self, region: Region, ordinal: Value | None = None) -> SweepScope:
        """The scope of an arm, or of a loop's body."""
        return SweepScope(self._source, self.b.nested(), self.tree.places[region], self, ordinal)

    def fetch(self, value: Value) -> Value:
        scope = self._of(value)
        if value not in scope._fetched:
            scope._fetched[value] = self._source.find(scope, value)
        return scope._fetched[value]

    def has(self, value: Value) -> bool:
        """Whether the value was fetched before."""
        return value in self._of(value)._fetched

    def _of(self, value: Value) -> SweepScope:
        """The scope of a value's home."""
        scope, home = self, self.tree.homes[value]
        while scope._place is not home:
            assert scope.outer is not None, f"{value} is fetched outside of its home"
            scope = scope.outer
        return scope

    @property
    def tree(self) -> LoopTree:
        return self._source.tree

    def runs_again(self, call: Op) -> bool:
        return self._source.runs_again(call)

    def ordinal(self, loop: Loop) -> Value:
        """The number of the current iteration of a loop around."""
        scope = self
        while scope._ordinal is None or scope._place.loop is not loop:
            assert scope.outer is not None
            scope = scope.outer
        return scope._ordinal


class Needs:
    """The dry run's source: it records the values that formulas use, and returns them unchanged."""

    def __init__(self, tree: LoopTree) -> None:
        self.tree = tree
        self.values: dict[Value, None] = {}

    def find(self, scope: SweepScope, value: Value) -> Value:
        constant = _constant(scope, self.tree, value)
        if constant is None:
            self.values[value] = None
        return constant or value

    def runs_again(self, call: Op) -> bool:
        return False


class Residuals:
    """The real run's source. `forward` are the forward sweep's values, `slots` its tapes at its end."""

    def __init__(
        self, tree: LoopTree, plan: ResidualPlan, forward: dict[Value, Value], slots: dict[Value, Value]
    ) -> None:
        self.tree = tree
        self._plan = plan
        self._forward = forward
        self._slots = slots

    def runs_again(self, call: Op) -> bool:
        return self.tree.residuals.get(call) in self._plan.again

    def find(self, scope: SweepScope, value: Value) -> Value:
        primal = self._find(scope, value)
        primal.hint = primal.hint or value.hint
        return primal

    def _find(self, scope: SweepScope, value: Value) -> Value:
        loop, constant = self.tree.homes[value].loop, _constant(scope, self.tree, value)
        if constant is not None:
            return constant
        if value in self._plan.again:
            return self._again(scope, value)
        if loop is None:
            return self._forward[value]
        if value is loop.index:
            return scope.ordinal(loop)
        if value in self.tree.counters:
            return self._counted(scope, value, scope.ordinal(loop))
        return scope.b.emit("index", self._slots[value], self._position(scope, loop))

    def _counted(self, scope: SweepScope, value: Value, iteration: Value) -> Value:
        counter = self.tree.counters[value]
        number = scope.b.emit("convert", iteration, type=value.type)
        distance = scope.b.emit("mul", number, scope.fetch(counter.step))
        return scope.b.emit("sub" if counter.falls else "add", scope.fetch(counter.start), distance)

    def _again(self, scope: SweepScope, value: Value) -> Value:
        op = self._plan.again[value]
        for v in self._not_made_yet(scope, op):
            scope.fetch(v)
        operands = tuple(scope.fetch(v) for v in op.operands)
        if op.name not in PRIMITIVES:
            types = [r.type for r in op.results]
            return scope.b.several(op.name, operands, types, (), op.attributes)[op.results.index(value)]
        return scope.b.primitive(op.name, operands, value.type, without(op.attributes, "check"))

    def _not_made_yet(self, scope: SweepScope, op: Op) -> list[Value]:
        """The other values to compute again, operands first (a long chain would be too deep a recursion)."""
        missing: set[Value] = set()
        todo = list(op.operands)
        while todo:
            value = todo.pop()
            if value in self._plan.again and value not in missing and not scope.has(value):
                missing.add(value)
                todo += self._plan.again[value].operands
        return sorted(missing, key=self.tree.order.__getitem__)

    def _position(self, scope: SweepScope, loop: Loop) -> Value:
        return position(scope.b, self.tree, loop, scope.ordinal, scope.fetch)


def _constant(scope: SweepScope, tree: LoopTree, value: Value) -> Value | None:
    """A constant is made anew wherever it is needed."""
    op = tree.makers[value] if tree.is_constant(value) else None
    return None if op is None else scope.b.primitive(op.name, (), value.type, op.attributes)


def position(
    b: Builder,
    tree: LoopTree,
    loop: Loop,
    ordinal: Callable[[Loop], Value],
    fetch: Callable[[Value], Value],
) -> Value:
    """Where the current iteration of a loop stands on its tapes, in both sweeps.

    A loop of its own: the iteration. Inner loops of known counts: the number in the nest. Others: counted on
    from where this run of the loop begins.
    """
    if loop.outer is None:
        return ordinal(loop)
    if not tree.is_linear(loop):
        return b.emit("add", fetch(loop.base), _number(b, ordinal(loop)))
    before = _number(b, position(b, tree, loop.outer, ordinal, fetch))
    count = b.constant(U32, loop.constant) if loop.constant is not None else _number(b, fetch(loop.trips))
    return b.emit("add", b.emit("mul", before, count), _number(b, ordinal(loop)))


def _number(b: Builder, integer: Value) -> Value:
    return b.emit("convert", integer, type=U32)
