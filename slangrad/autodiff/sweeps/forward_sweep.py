"""The first half of a vjp: the primal once more, with everything the plan keeps.

    %r = for %n, %x (%i, %s) {             %r, %t = for %n, %x, %empty (%i, %s, %t.0) {
      %s.1 = sin %s                          %s.1 = sin %s
      yield %s.1                             %t.1 = set_index %t.0, %i, %s
    }                                        yield %s.1, %t.1   }

All effects of the primal are here, in their order; the reverse sweep has none of them. Which values are kept
and what passes through which op was decided in plan.py.

Tapes begin as `zero {written_first}`: no element of such a tape, or of a version of it, is read before it is
written. Each run of a loop's body writes an element of each of its tapes at the run's position, in every arm. The
reverse sweep reads at the positions of those runs only.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.autodiff.analyses.activity import Callees
from slangrad.autodiff.analyses.loop_tree import Loop, LoopTree, holds_array
from slangrad.autodiff.checkpointing.plan import ResidualPlan
from slangrad.autodiff.sweeps.residuals import position
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, Rule, copy_op
from slangrad.ir.data.types import U32, is_integer
from slangrad.ir.ops.core import Op, Region, Value


class ForwardSweep:
    """One walk. `values` maps old values to new ones; `slots` holds the newest version of each tape."""

    def __init__(self, tree: LoopTree, plan: ResidualPlan, callees: Callees) -> None:
        rules: dict[str, Rule] = {"if": self._if, "for": self._for, "while": self._while, "call": self._call}
        self._walk = Rebuild(rules)
        self._tree = tree
        self._plan = plan
        self._callees = callees
        self._ordinals: dict[Loop, Value] = {}
        self.values = self._walk.new
        self.slots: dict[Value, Value] = {}

    def run(self, b: Builder, region: Region) -> tuple[Value, ...]:
        """What the region yields."""
        for slot, t in self._plan.slot_types.items():
            self.slots[slot] = b.emit("zero", type=t, written_first=True) if holds_array(t) else b.zero(t)
        return self._walk.inline(b, region)

    # --- if: kept values of an arm are extra results

    def _if(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        lifted, slots, before = self._plan.lifted.get(op, []), self._plan.slots.get(op, []), self.slots

        def enter(inner: Builder, region: Region, starts: Sequence[Value]) -> None:
            self.slots = dict(before)

        def leave(inner: Builder, region: Region) -> list[Value]:
            place, homes = self._tree.places[region], self._tree.homes
            kept = [self.values[v] if homes[v].within(place) else inner.zero(v.type) for v in lifted]
            return [*kept, *(self.slots[s] for s in slots)]

        results, more = walk.extended(b, op, (), enter, leave)
        self.values.update(zip(lifted, more[: len(lifted)], strict=True))
        self.slots = {**before, **dict(zip(slots, more[len(lifted) :], strict=True))}
        return results

    # --- loops: kept values of an iteration go to tapes

    def _for(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        results, _ = self._loop(b, op, None)
        self._end(b, self._tree.loops[op], walk.value(op.operands[0]))
        return results

    def _while(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        """The trips are counted in one more carried value, after the loop's own."""
        loop = self._tree.loops[op]
        if loop.trips not in self._plan.needs and not self._plan.slots.get(op):
            return copy_op(walk, b, op)
        results, (trips,) = self._loop(b, op, b.constant(U32, 0))
        self.values[loop.trips] = trips
        self._end(b, loop, trips)
        return results

    def _loop(self, b: Builder, op: Op, trips: Value | None) -> tuple[tuple[Value, ...], Sequence[Value]]:
        """With slots as further carried values, and a store to each tape of the loop; and with trips that count from
        what is given."""
        loop, slots, before = self._tree.loops[op], self._plan.slots.get(op, []), self.slots
        kept, names = self._plan.taped.get(loop, []), [slot.hint for slot in slots]
        counted, next_trips = list[Value](), list[Value]()
        if trips is not None:
            counted, names = [trips], ["trips", *names]
        self._begin(loop)

        def enter(inner: Builder, region: Region, values: Sequence[Value]) -> None:
            carried = values[len(counted) :]
            for value, name in zip(values, names, strict=True):
                value.hint = name
            if region is not loop.body:
                return
            self.slots = {**before, **dict(zip(slots, carried, strict=True))}
            if counted:
                next_trips.append(inner.emit("add", values[0], inner.constant(U32, 1)))
            self._ordinals[loop] = values[0] if loop.index is None else self.values[loop.index]
            self._record(inner, loop, [v for v in kept if v in region.parameters])

        def leave(inner: Builder, region: Region) -> list[Value]:
            self._record(inner, loop, [v for v in kept if v not in region.parameters])
            return [*next_trips, *(self.slots[s] for s in slots)]

        starts = [*counted, *(before[s] for s in slots)]
        results, more = self._walk.extended(b, op, starts, enter, leave)
        self.slots = {**before, **dict(zip(slots, more[len(counted) :], strict=True))}
        return results, more[: len(counted)]

    def _record(self, b: Builder, loop: Loop, kept: list[Value]) -> None:
        if not kept:
            return
        at = position(b, self._tree, loop, self._ordinals.__getitem__, self.values.__getitem__)
        for v in kept:
            self.slots[v] = b.emit("set_index", self.slots[v], at, self.values[v])

    def _begin(self, loop: Loop) -> None:
        if loop in self._plan.counted:
            self.values[loop.base] = self.slots[loop.next]

    def _end(self, b: Builder, loop: Loop, trips: Value) -> None:
        """The next run begins after this one; a negative count is no trip."""
        if loop not in self._plan.counted:
            return
        if is_integer(trips.type) and trips.type is not U32:
            trips = b.emit("max", trips, b.zero(trips.type))
        self.slots[loop.next] = b.emit("add", self.values[loop.base], b.emit("convert", trips, type=U32))

    # --- calls

    def _call(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        residuals = self._tree.residuals.get(op)
        if residuals is not None and residuals in self._plan.needs and residuals not in self._plan.again:
            name, types = self._tree.halves[op].forward, [r.type for r in (*op.results, residuals)]
            *results, self.values[residuals] = b.call(name, walk.values(op.operands), types)
            return tuple(results)
        callee = self._callees(op.attributes["callee"])
        if callee.drop_primal:
            return tuple(b.zero(r.type) for r in op.results)
        if callee.opened is None:
            return copy_op(walk, b, op)
        inner = Rebuild({})
        inner.new.update(zip(callee.opened.parameters, walk.values(op.operands), strict=True))
        return inner.inline(b, callee.opened)
