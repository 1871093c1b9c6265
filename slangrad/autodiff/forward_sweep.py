"""The first half of a vjp: the primal once more, with everything the plan keeps.

    %r = for %n, %x (%i, %s) {             %r, %t = for %n, %x, %empty (%i, %s, %t.0) {
      %s.1 = sin %s                          %s.1 = sin %s
      yield %s.1                             %t.1 = set_index %t.0, %i, %s
    }                                        yield %s.1, %t.1   }

All effects of the primal are here, in their order; the reverse sweep has none of them. Which values are kept
and what passes through which op was decided in plan.py.

Tapes begin as `zero {written_first}`: nobody reads an element of such a tape, or of a version of it, that was not
written. For each run of a loop's body writes an element of each of its tapes, at the run's position and whatever
arms it takes, and the reverse sweep reads at the positions of those runs only.
"""

from __future__ import annotations

from slangrad.autodiff.activity import Callees
from slangrad.autodiff.outline import Loop, Outline, holds_array
from slangrad.autodiff.plan import Plan
from slangrad.autodiff.residuals import position
from slangrad.ir.builder import Builder
from slangrad.ir.core import Op, Region, Value, alike
from slangrad.ir.rebuild import Rebuild, Rule, copy_op
from slangrad.ir.types import U32, is_integer


class ForwardSweep:
    """One walk. `values` maps old values to new ones; `slots` holds the newest version of each tape."""

    def __init__(self, outline: Outline, plan: Plan, callees: Callees) -> None:
        rules: dict[str, Rule] = {"if": self._if, "for": self._for, "while": self._while, "call": self._call}
        self._walk = Rebuild(rules)
        self._outline = outline
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
        lifted, slots = self._plan.lifted.get(op, []), self._plan.slots.get(op, [])
        before = self.slots
        operands = walk.values(op.operands)
        arms = tuple(self._arm(b.nested(), arm, op, lifted, slots, before) for arm in op.regions)
        made = b.control("if", operands, arms, op.attributes)
        first, second = len(op.results), len(op.results) + len(lifted)
        self.values.update(zip(lifted, made[first:second], strict=True))
        self.slots = {**before, **dict(zip(slots, made[second:], strict=True))}
        return made[:first]

    def _arm(
        self,
        b: Builder,
        arm: Region,
        op: Op,
        lifted: list[Value],
        slots: list[Value],
        before: dict[Value, Value],
    ) -> Region:
        self.slots = dict(before)
        yields = self._walk.inline(b, arm)
        place = self._outline.places[arm]
        residuals = [
            self.values[v] if self._outline.homes[v].within(place) else b.zero(v.type) for v in lifted
        ]
        return Region((), b.ops, (*yields, *residuals, *(self.slots[s] for s in slots)))

    # --- loops: kept values of an iteration go to tapes

    def _for(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        loop, slots = self._outline.loops[op], self._plan.slots.get(op, [])
        self._begin(loop)
        count, *starts = walk.values(op.operands)
        (old,) = op.regions
        parameters = walk.parameters(old.parameters)
        self._ordinals[loop] = parameters[0]
        body = self._body(b.nested(), loop, slots, parameters, ())
        operands = (count, *starts, *(self.slots[s] for s in slots))
        made = b.control("for", operands, (body,), op.attributes)
        self.slots.update(zip(slots, made[len(op.results) :], strict=True))
        self._end(b, loop, count)
        return made[: len(op.results)]

    def _while(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        """The trips are counted in one more carried value, after the loop's own."""
        loop, slots = self._outline.loops[op], self._plan.slots.get(op, [])
        if loop.trips not in self._plan.needs and not slots:
            return copy_op(walk, b, op)
        self._begin(loop)
        old_test, old_body = op.regions
        test = walk.region(b.nested(), old_test)
        trips = self._ordinals[loop] = Value(U32, "trips")
        parameters, nb = (*walk.parameters(old_body.parameters), trips), b.nested()
        body = self._body(nb, loop, slots, parameters, (nb.emit("add", trips, nb.constant(U32, 1)),))
        extra = alike(body.parameters[len(op.results) :])
        test = Region((*test.parameters, *extra), test.ops, test.yields)
        operands = (*walk.values(op.operands), b.constant(U32, 0), *(self.slots[s] for s in slots))
        made = b.control("while", operands, (test, body), op.attributes)
        first = len(op.results)
        self.values[loop.trips] = made[first]
        self.slots.update(zip(slots, made[first + 1 :], strict=True))
        self._end(b, loop, made[first])
        return made[:first]

    def _body(
        self,
        b: Builder,
        loop: Loop,
        slots: list[Value],
        parameters: tuple[Value, ...],
        counted: tuple[Value, ...],
    ) -> Region:
        """The body with slots as further carried values, and a store to each tape of the loop."""
        before = self.slots
        carried = tuple(Value(self._plan.slot_types[s], s.hint) for s in slots)
        self.slots = {**before, **dict(zip(slots, carried, strict=True))}
        kept = self._plan.taped.get(loop, [])
        self._record(b, loop, [v for v in kept if v in loop.body.parameters])
        yields = self._walk.inline(b, loop.body)
        self._record(b, loop, [v for v in kept if v not in loop.body.parameters])
        region = Region((*parameters, *carried), b.ops, (*yields, *counted, *(self.slots[s] for s in slots)))
        self.slots = before
        return region

    def _record(self, b: Builder, loop: Loop, kept: list[Value]) -> None:
        if not kept:
            return
        at = position(b, self._outline, loop, self._ordinals.__getitem__, self.values.__getitem__)
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
        residuals = self._outline.residuals.get(op)
        if residuals is not None and residuals in self._plan.needs and residuals not in self._plan.again:
            name, types = self._outline.halves[op].forward, [r.type for r in (*op.results, residuals)]
            *made, self.values[residuals] = b.call(name, walk.values(op.operands), types)
            return tuple(made)
        callee = self._callees(op.attributes["callee"])
        if callee.drop_primal:
            return tuple(b.zero(r.type) for r in op.results)
        if callee.opened is None:
            return copy_op(walk, b, op)
        inner = Rebuild({})
        inner.new.update(zip(callee.opened.parameters, walk.values(op.operands), strict=True))
        return inner.inline(b, callee.opened)
