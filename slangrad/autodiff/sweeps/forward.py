"""Forward mode: each value becomes (primal, tangent), a tangent known to be zero becomes nothing.

    %r = mul %x, %y        %r = mul %x, %y
                           %a = mul %y, %dx
                           %b = mul %x, %dy
                           %dr = add %a, %b

Partials come from the table, movement from transposes.py; only control flow has code here. Effects are
copied once, with the primal. Calls are those of functions with a custom derivative; others were inlined
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.autodiff.analyses.activity import Activity, Callees
from slangrad.autodiff.analyses.memory_escape import refuse_memory_escape
from slangrad.autodiff.sweeps.partials import partials_of, scaled
from slangrad.autodiff.sweeps.transposes import move_tangent
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.ops.control import LOOPS, carried
from slangrad.ir.ops.core import Op, Region, Value
from slangrad.ir.ops.formula import Formula
from slangrad.ir.ops.primitives import LINEAR, PRIMITIVES


def jvp(
    region: Region, inputs: Sequence[bool], results: Sequence[bool], space: VectorSpace, callees: Callees
) -> Region:
    """Over inputs and tangents of the flagged ones; yields results and tangents of the flagged ones."""
    varied = [p for p, flag in zip(region.parameters, inputs, strict=True) if flag]
    wanted = [y for y, flag in zip(region.yields, results, strict=True) if flag]
    activity = Activity(space, callees).analyze(region, varied, wanted)
    refuse_memory_escape(region, activity)
    activity.make_derivatives(region)
    return Forward(space, activity).region(region, varied, wanted)


class Forward:
    """One walk; tangents are keyed by the old values, as `walk.new` is."""

    def __init__(self, space: VectorSpace, activity: Activity) -> None:
        self._space = space
        self._activity = activity
        self._walk = Rebuild(dict.fromkeys(_RULES, self._rule), self._primitive)
        self._tangents: dict[Value, Value] = {}

    def region(self, region: Region, varied: Sequence[Value], wanted: Sequence[Value]) -> Region:
        b = Builder()
        parameters = self._walk.parameters(region.parameters)
        tangents = [self._new_tangent(p) for p in varied]
        yields = self._walk.inline(b, region)
        return Region((*parameters, *tangents), b.ops, (*yields, *(self._tangent(b, y) for y in wanted)))

    def _new_tangent(self, old: Value) -> Value:
        """A parameter for the tangent of a parameter."""
        tangent = self._tangents[old] = Value(
            self._space.tangent_of(old.type), f"d{old.hint}" if old.hint else ""
        )
        return tangent

    def _tangent(self, b: Builder, old: Value) -> Value:
        """The tangent as a value."""
        tangent = self._tangents.get(old)
        if tangent is None:
            tangent = self._space.zero(b, old.type)
        return tangent

    def _rule(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        if not self._activity.live(op) and op.name != "call":
            return copy_op(walk, b, op)
        return _RULES[op.name](self, b, op)

    def _primitive(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        results = copy_op(walk, b, op)
        if self._activity.live(op):
            self._set_tangent(op.results[0], self._derive(b, op, results[0]))
        return results

    def _set_tangent(self, old: Value, tangent: Value | None) -> None:
        if tangent is not None:
            tangent.hint = tangent.hint or (f"d{old.hint}" if old.hint else "")
            self._tangents[old] = tangent

    def _derive(self, b: Builder, op: Op, result: Value) -> Value | None:
        primals = self._walk.values(op.operands)
        tangents = tuple(self._tangents.get(v) for v in op.operands)
        if PRIMITIVES[op.name].partials == LINEAR:
            return move_tangent(b, self._space, op, primals, tangents)
        total: Value | None = None
        touched = [Formula(b, p) for p in (*primals, result)]
        for partial, tangent in zip(partials_of(b, op, touched), tangents, strict=True):
            term = None if tangent is None else scaled(b, partial, tangent)
            if term is not None:
                total = term if total is None else self._space.add(b, op.results[0].type, total, term)
        return total

    # --- control flow: regions take and yield the tangents of active carried values after the primals

    def _flow(self, b: Builder, op: Op) -> tuple[Value, ...]:
        active = [i for i, r in enumerate(op.results) if self._activity.active(r)]
        moved = [carried(op)[i] for i in active] if op.name in LOOPS else []

        def enter(inner: Builder, region: Region, tangents: tuple[Value, ...]) -> None:
            if region is op.regions[-1]:
                self._set_tangents([variable.parameter for variable in moved], tangents)

        leave = lambda inner, region: [self._tangent(inner, region.yields[i]) for i in active]
        starts = [self._tangent(b, variable.start) for variable in moved]
        results, tangents = self._walk.extended(b, op, starts, enter, leave)
        self._set_tangents([op.results[i] for i in active], tangents)
        return results

    def _set_tangents(self, old: Sequence[Value], tangents: Sequence[Value]) -> None:
        for value, tangent in zip(old, tangents, strict=True):
            self._set_tangent(value, tangent)

    def _call(self, b: Builder, op: Op) -> tuple[Value, ...]:
        callee = self._activity.callee(op)
        varied = [v for v, flag in zip(op.operands, callee.inputs, strict=True) if flag]
        if not callee.source and not any(v in self._tangents for v in varied):
            return copy_op(self._walk, b, op)
        operands = (*self._walk.values(op.operands), *(self._tangent(b, v) for v in varied))
        wanted = [r for r, flag in zip(op.results, callee.results, strict=True) if flag]
        tangents = [self._space.tangent(r.type) for r in wanted]
        types = (*(r.type for r in op.results), *(t for t in tangents if t is not None))
        results = b.call(callee.derivative, operands, types)
        for old, tangent in zip(wanted, results[len(op.results) :], strict=True):
            self._set_tangent(old, tangent)
        return results[: len(op.results)]


_RULES: dict[str, Callable[[Forward, Builder, Op], tuple[Value, ...]]] = {
    **dict.fromkeys(("if", "for", "while"), Forward._flow),
    "call": Forward._call,
}
