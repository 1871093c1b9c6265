"""The cotangents that have arrived so far in one region of the reverse sweep, by primal value.

    %row = index %m, %i                    no cotangent of its own: it is a part of %m
    %e = index %row, %j                    %ct_e is added to %ct_m at (%i, %j), in place

An array that is a part of another value gives its cotangent straight to that value: the reverse sweep makes
no temporary arrays. Cotangents of elements wait until the array as a whole has a cotangent, so that no two arrays
are added. `Cotangents` is what transposes.py writes to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slangrad.autodiff.analyses.activity import Activity
from slangrad.autodiff.analyses.loop_tree import holds_array
from slangrad.autodiff.sweeps.residuals import SweepScope
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import Type, component
from slangrad.ir.ops.core import Op, Value

Change = Callable[[Value], Value]


class Cotangents:
    def __init__(self, scope: SweepScope, space: VectorSpace, activity: Activity) -> None:
        self.b = scope.b
        self.space = space
        self._scope = scope
        self._activity = activity
        self._arrived: dict[Value, Value] = {}
        self._waiting: dict[
            Value, list[tuple[list[Op], Change]]
        ] = {}  # changes of a cotangent that is zero so far

    def nested(self, scope: SweepScope) -> Cotangents:
        """For a region within, which begins with the cotangents of the values it shares (see `begin`)."""
        return Cotangents(scope, self.space, self._activity)

    # --- whole cotangents

    def begin(self, value: Value, ct: Value | None) -> None:
        """Set the cotangent of `value`, whatever it was."""
        self._waiting.pop(value, None)
        if ct is None:
            self._arrived.pop(value, None)
        else:
            self._arrived[value] = ct

    def get(self, value: Value) -> Value | None:
        if value in self._waiting:
            self._arrive(value, self.zero(value.type))
        return self._arrived.get(value)

    def take(self, value: Value) -> Value | None:
        """The cotangent of a value that is about to be out of scope."""
        self.get(value)
        return self._arrived.pop(value, None)

    def wants(self, value: Value) -> bool:
        return self._activity.active(value)

    def shared(self, values: Iterable[Value]) -> list[Value]:
        """Those outer values that a region with the given free values may give cotangents to."""
        tree = self._scope.tree
        return list(dict.fromkeys(tree.whole_of(v)[0] for v in values if self.wants(v)))

    def or_zero(self, ct: Value | None, primal: Type) -> Value:
        """The cotangent as a value; `primal` is the type of what it belongs to."""
        return self.zero(primal) if ct is None else ct

    def zero(self, primal: Type) -> Value:
        return self.space.zero(self.b, primal)

    # --- giving

    def give(self, value: Value, ct: Value | None) -> None:
        """Add to the cotangent of a value."""
        if ct is None or not self.wants(value):
            return
        whole, path = self._scope.tree.whole_of(value)
        if not path and whole not in self._arrived:
            self._arrive(whole, ct)
        else:
            self._change(whole, path, lambda old: self.space.add(self.b, value.type, old, ct))

    def give_component(self, value: Value, index: int, ct: Value) -> None:
        """Add to component `index` of the cotangent; nothing when that component has no derivative."""
        position = self.space.field(value.type, index)
        if position is None or not self.wants(value):
            return

        primal = component(value.type, index)

        def change(part: Value) -> Value:
            old = self.b.emit("get", part, index=position)
            return self.b.emit("set", part, self.space.add(self.b, primal, old, ct), index=position)

        self._change(*self._scope.tree.whole_of(value), change)

    def give_element(self, value: Value, index: Value, ct: Value) -> None:
        """Add to the element at a run-time index."""
        if self.wants(value):
            whole, path = self._scope.tree.whole_of(value)
            element = component(value.type, 0)
            self._change(whole, path, lambda part: self.space.add_at(self.b, element, part, index, ct))

    def _change(self, whole: Value, path: list[Op], change: Change) -> None:
        """Change the part of the cotangent of `whole` that the ops of `path` pick, outermost first."""
        if whole not in self._arrived and holds_array(whole.type):
            self._waiting.setdefault(whole, []).append((path, change))
            return
        ct = self.or_zero(self._arrived.get(whole), whole.type)
        self._arrived[whole] = self._changed(ct, path, change)

    def _arrive(self, whole: Value, ct: Value) -> None:
        """The first cotangent of a value as a whole."""
        for path, change in self._waiting.pop(whole, ()):
            ct = self._changed(ct, path, change)
        self._arrived[whole] = ct

    def _changed(self, ct: Value, path: list[Op], change: Change) -> Value:
        if not path:
            return change(ct)
        op, deeper = path[0], path[1:]
        if op.name == "index":
            index = self._scope.fetch(op.operands[1])
            part = self._changed(self.b.emit("index", ct, index), deeper, change)
            return self.b.emit("set_index", ct, index, part)
        number = op.attributes["index"]
        position = self.space.field(op.operands[0].type, number)
        if position is None:
            return ct
        part = self._changed(self.b.emit("get", ct, index=position), deeper, change)
        return self.b.emit("set", ct, part, index=position)
