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

from collections.abc import Callable, Iterable, Sequence

from slangrad.autodiff.activity import Activity, Callees
from slangrad.autodiff.hidden import refuse_hidden
from slangrad.autodiff.partials import partials_of, scaled
from slangrad.autodiff.transposes import move_tangent
from slangrad.autodiff.vectorspace import VectorSpace
from slangrad.ir.builder import Builder
from slangrad.ir.core import Op, Region, Value
from slangrad.ir.formula import Formula
from slangrad.ir.primitives import LINEAR, PRIMITIVES
from slangrad.ir.rebuild import Rebuild, copy_op


def jvp(
    region: Region, inputs: Sequence[bool], results: Sequence[bool], space: VectorSpace, callees: Callees
) -> Region:
    """Over inputs and tangents of the flagged ones; yields results and tangents of the flagged ones."""
    varied = [p for p, flag in zip(region.parameters, inputs, strict=True) if flag]
    wanted = [y for y, flag in zip(region.yields, results, strict=True) if flag]
    activity = Activity(space, callees).analyze(region, varied, wanted)
    refuse_hidden(region, activity)
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
        parameters = self._parameters(region.parameters)
        tangents = [self._new_tangent(p) for p in varied]
        yields = self._walk.inline(b, region)
        return Region((*parameters, *tangents), b.ops, (*yields, *(self._tangent(b, y) for y in wanted)))

    def _parameters(self, old: Iterable[Value]) -> tuple[Value, ...]:
        made = []
        for p in old:
            self._walk.new[p] = Value(p.type, p.hint)
            made.append(self._walk.new[p])
        return tuple(made)

    def _new_tangent(self, old: Value) -> Value:
        """A parameter for the tangent of a parameter."""
        made = self._space.tangent(old.type)
        assert made is not None, old
        self._tangents[old] = Value(made, f"d{old.hint}" if old.hint else "")
        return self._tangents[old]

    def _tangent(self, b: Builder, old: Value) -> Value:
        """The tangent as a value."""
        found = self._tangents.get(old)
        if found is None:
            found = self._space.zero(b, old.type)
        return found

    def _rule(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        if not self._activity.live(op) and op.name != "call":
            return copy_op(walk, b, op)
        return _RULES[op.name](self, b, op)

    def _primitive(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        made = copy_op(walk, b, op)
        if self._activity.live(op):
            self._set_tangent(op.results[0], self._derive(b, op, made[0]))
        return made

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

    def _if(self, b: Builder, op: Op) -> tuple[Value, ...]:
        active = [r for r in op.results if self._activity.active(r)]
        arms = tuple(self._arm(b.nested(), arm, op, active) for arm in op.regions)
        return self._finish(b, op, self._walk.values(op.operands), arms, active)

    def _arm(self, b: Builder, arm: Region, op: Op, active: list[Value]) -> Region:
        yields = self._walk.inline(b, arm)
        old = dict(zip(op.results, arm.yields, strict=True))
        return Region((), b.ops, (*yields, *(self._tangent(b, old[r]) for r in active)))

    def _for(self, b: Builder, op: Op) -> tuple[Value, ...]:
        active, starts = self._starts(b, op, op.operands[1:])
        (body,) = op.regions
        index, *carried = self._parameters(body.parameters)
        made = self._body(b.nested(), body, (index, *carried), op, active)
        return self._finish(b, op, (*self._walk.values(op.operands), *starts), (made,), active)

    def _while(self, b: Builder, op: Op) -> tuple[Value, ...]:
        active, starts = self._starts(b, op, op.operands)
        old_test, old_body = op.regions
        test = self._walk.region(b.nested(), old_test)
        tested = tuple(Value(s.type) for s in starts)
        test = Region((*test.parameters, *tested), test.ops, test.yields)
        body = self._body(b.nested(), old_body, self._parameters(old_body.parameters), op, active)
        return self._finish(b, op, (*self._walk.values(op.operands), *starts), (test, body), active)

    def _starts(self, b: Builder, op: Op, starts: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """The active results of a loop and the tangents they start with."""
        pairs = [(r, s) for r, s in zip(op.results, starts, strict=True) if self._activity.active(r)]
        return [r for r, _ in pairs], [self._tangent(b, s) for _, s in pairs]

    def _body(
        self, b: Builder, body: Region, parameters: tuple[Value, ...], op: Op, active: list[Value]
    ) -> Region:
        first = len(body.parameters) - len(op.results)
        carried = dict(zip(op.results, body.parameters[first:], strict=True))
        tangents = tuple(self._new_tangent(carried[r]) for r in active)
        yields = self._walk.inline(b, body)
        old = dict(zip(op.results, body.yields, strict=True))
        return Region((*parameters, *tangents), b.ops, (*yields, *(self._tangent(b, old[r]) for r in active)))

    def _finish(
        self,
        b: Builder,
        op: Op,
        operands: tuple[Value, ...],
        regions: tuple[Region, ...],
        active: list[Value],
    ) -> tuple[Value, ...]:
        types = (*(r.type for r in op.results), *(y.type for y in regions[-1].yields[len(op.results) :]))
        made = b.control(op.name, operands, types, regions, op.attributes)
        for old, tangent in zip(active, made[len(op.results) :], strict=True):
            self._set_tangent(old, tangent)
        return made[: len(op.results)]

    def _call(self, b: Builder, op: Op) -> tuple[Value, ...]:
        callee = self._activity.callee(op)
        varied = [v for v, flag in zip(op.operands, callee.inputs, strict=True) if flag]
        if not callee.source and not any(v in self._tangents for v in varied):
            return copy_op(self._walk, b, op)
        operands = (*self._walk.values(op.operands), *(self._tangent(b, v) for v in varied))
        wanted = [r for r, flag in zip(op.results, callee.results, strict=True) if flag]
        types = [self._space.tangent(r.type) for r in wanted]
        result_types = (*(r.type for r in op.results), *(t for t in types if t is not None))
        made = b.control("call", operands, result_types, (), {"callee": callee.derivative})
        for old, tangent in zip(wanted, made[len(op.results) :], strict=True):
            self._set_tangent(old, tangent)
        return made[: len(op.results)]


_RULES: dict[str, Callable[[Forward, Builder, Op], tuple[Value, ...]]] = {
    "if": Forward._if,
    "for": Forward._for,
    "while": Forward._while,
    "call": Forward._call,
}
