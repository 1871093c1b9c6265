"""Reverse mode: a forward sweep that keeps residuals, then the region walked backwards.

    %r = mul %x, %y        %a = mul %y, %ct_r        %ct_x = add %ct_x.0, %a
                           %b = mul %x, %ct_r        %ct_y = add %ct_y.0, %b

An `if` reverses to an `if` on the same condition, a `for` to a `for` in the other direction, a `while` to
a `for` over its trips. Regions of the reverse sweep pass cotangents of outer values through and add to
them in place, so no sum of whole arrays is made. The sweep runs twice: dry, to find the primal values that it
needs, and for real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from slangrad.autodiff.analyses.activity import Activity, Callee, Callees
from slangrad.autodiff.analyses.halves import packed, unpacked
from slangrad.autodiff.analyses.loop_tree import LoopTree
from slangrad.autodiff.analyses.memory_escape import refuse_memory_escape
from slangrad.autodiff.checkpointing.plan import ResidualPlan, Wishes, plan
from slangrad.autodiff.sweeps.cotangents import Cotangents
from slangrad.autodiff.sweeps.forward_sweep import ForwardSweep
from slangrad.autodiff.sweeps.partials import partials_of, scaled
from slangrad.autodiff.sweeps.residuals import Needs, Residuals, SweepScope, ValueSource
from slangrad.autodiff.sweeps.transposes import TRANSPOSES
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import FreeValues
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import U32, Struct, Type
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Attributes, Op, Region, Value, alike, without
from slangrad.ir.ops.formula import Formula


@dataclass(frozen=True, slots=True)
class Planned:
    """A region before it is reversed: its active values, and the plan of its residuals."""

    region: Region
    varied: list[Value]
    seeds: list[tuple[Value, Value]]  # results and their cotangents
    activity: Activity
    tree: LoopTree
    plan: ResidualPlan


def planned(
    region: Region,
    inputs: Sequence[bool],
    results: Sequence[bool],
    activity: Activity,
    wishes: Wishes,
    handed: bool = False,
) -> Planned:
    """The dry run of `vjp`, or of `halves` if residuals are `handed` over. `activity`: of no region yet."""
    space = activity.space
    varied = [p for p, flag in zip(region.parameters, inputs, strict=True) if flag]
    wanted = [y for y, flag in zip(region.yields, results, strict=True) if flag]
    activity.analyze(region, varied, wanted)
    refuse_memory_escape(region, activity)
    activity.make_derivatives(region)
    tree = LoopTree(region, activity.halves, handed)
    seeds = [(y, Value(space.tangent_of(y.type), _derivative_hint(y))) for y in wanted]
    needs = Needs(tree)
    Reverse(space, activity).top(Builder(), needs, region, seeds)
    return Planned(region, varied, seeds, activity, tree, plan(tree, needs.values, wishes))


def vjp(prepared: Planned, space: VectorSpace, callees: Callees) -> Region:
    """The region over inputs and cotangents of the flagged results, yielding those of the flagged inputs."""
    b, sweep, parameters, _ = _swept(prepared, callees)
    yields = _backwards(prepared, b, sweep.values, sweep.slots, space)
    cotangents = (ct for _, ct in prepared.seeds)
    return Region((*parameters, *cotangents), b.ops, yields)


def _swept(
    prepared: Planned, callees: Callees
) -> tuple[Builder, ForwardSweep, tuple[Value, ...], tuple[Value, ...]]:
    """After a forward sweep: its parameters, and its yields."""
    b, sweep = Builder(), ForwardSweep(prepared.tree, prepared.plan, callees)
    parameters = alike(prepared.region.parameters)
    sweep.values.update(zip(prepared.region.parameters, parameters, strict=True))
    return b, sweep, parameters, sweep.run(b, prepared.region)


def _backwards(
    prepared: Planned, b: Builder, values: dict[Value, Value], slots: dict[Value, Value], space: VectorSpace
) -> tuple[Value, ...]:
    """The cotangents of the flagged inputs."""
    residuals = Residuals(prepared.tree, prepared.plan, values, slots)
    arrived = Reverse(space, prepared.activity).top(b, residuals, prepared.region, prepared.seeds)
    return tuple(arrived.or_zero(arrived.get(p), p.type) for p in prepared.varied)


# --- in two halves


def handed_types(plan: ResidualPlan) -> list[Type]:
    """The types of the residuals that a forward half gives."""
    return [plan.slot_types.get(v, v.type) for v in plan.keep]


def forward_half(prepared: Planned, callees: Callees, t: Struct | None) -> Region:
    """The region over inputs, yielding what the function yields, and the residuals if there are any."""
    b, sweep, parameters, yields = _swept(prepared, callees)
    kept = [sweep.slots[v] if v in prepared.plan.slot_types else sweep.values[v] for v in prepared.plan.keep]
    handed = () if t is None else (packed(b, kept, t),)
    return Region(parameters, b.ops, (*yields, *handed))


def reverse_half(prepared: Planned, space: VectorSpace, t: Struct | None) -> Region:
    """The region over inputs, residuals and cotangents, yielding cotangents."""
    b, parameters, residuals = Builder(), alike(prepared.region.parameters), []
    kept: dict[Value, Value] = {}
    if t is not None:
        residuals = [Value(t, "residuals")]
        kept = dict(
            zip(prepared.plan.keep, unpacked(b, residuals[0], handed_types(prepared.plan)), strict=True)
        )
    values = {**dict(zip(prepared.region.parameters, parameters, strict=True)), **kept}
    yields = _backwards(prepared, b, values, kept, space)
    return Region((*parameters, *residuals, *(ct for _, ct in prepared.seeds)), b.ops, yields)


def _derivative_hint(value: Value) -> str:
    return f"d{value.hint}" if value.hint else ""


class Reverse:
    """The walk backwards. Cotangents are keyed by the values of the primal, which is only read."""

    def __init__(self, space: VectorSpace, activity: Activity) -> None:
        self._space = space
        self._activity = activity
        self._free = FreeValues()

    def top(
        self, b: Builder, source: ValueSource, region: Region, seeds: list[tuple[Value, Value]]
    ) -> Cotangents:
        scope = SweepScope(source, b, source.tree.top)
        arrived = Cotangents(scope, self._space, self._activity)
        for y, ct in seeds:
            arrived.give(y, ct)
        self._region(scope, region, arrived)
        return arrived

    def _region(self, scope: SweepScope, region: Region, to: Cotangents) -> None:
        for op in reversed(region.ops):
            if self._activity.live(op):
                before, scope.b.span = scope.b.span, op.span or scope.b.span
                _RULES.get(op.name, Reverse._primitive)(self, scope, op, to)
                scope.b.span = before

    def _primitive(self, scope: SweepScope, op: Op, to: Cotangents) -> None:
        ct = to.take(op.results[0])
        if ct is None:
            return
        if op.name in TRANSPOSES:
            TRANSPOSES[op.name](op, scope.fetch, ct, to)
            return
        touched = [Formula(scope.b, fetch=partial(scope.fetch, v)) for v in (*op.operands, *op.results)]
        for v, formula in zip(op.operands, partials_of(scope.b, op, touched), strict=True):
            if to.wants(v):
                to.give(v, scaled(scope.b, formula, ct, masks_only=True))

    # --- if: both arms begin with the cotangents of outer values and yield them with their own added

    def _if(self, scope: SweepScope, op: Op, to: Cotangents) -> None:
        arriving = [to.take(r) for r in op.results]
        shared = to.shared(self._free.of(*op.regions))
        arms = [self._arm(scope, arm, arriving, shared, to) for arm in op.regions]
        changed = [v for v in shared if any(arm.get(v) is not to.get(v) for _, arm in arms)]
        if not changed and not any(_acts(nested.b.ops) for nested, _ in arms):
            return
        regions = tuple(
            Region((), nested.b.ops, tuple(arm.or_zero(arm.get(v), v.type) for v in changed))
            for nested, arm in arms
        )
        cotangents = scope.b.control("if", (scope.fetch(op.operands[0]),), regions, op.attributes)
        for v, ct in zip(changed, cotangents, strict=True):
            to.begin(v, ct)

    def _arm(
        self,
        scope: SweepScope,
        arm: Region,
        arriving: list[Value | None],
        shared: list[Value],
        to: Cotangents,
    ) -> tuple[SweepScope, Cotangents]:
        inner = scope.nested(arm)
        arrived = to.nested(inner)
        for v in shared:
            arrived.begin(v, to.get(v))
        for y, ct in zip(arm.yields, arriving, strict=True):
            arrived.give(y, ct)
        self._region(inner, arm, arrived)
        return inner, arrived

    # --- loops: carry the cotangents of active carried values, and of the outer values that the body uses

    def _loop(self, scope: SweepScope, op: Op, to: Cotangents) -> None:
        active = [variable for variable in carried(op) if to.wants(variable.result)]
        body, loop = op.regions[-1], scope.tree.loops[op]
        index = Value(U32 if loop.index is None else loop.index.type, "i")
        inner = scope.nested(body, index)
        arrived = to.nested(inner)
        carried_cts = {variable.parameter: self._cotangent_of(variable.parameter) for variable in active}
        outer = {v: self._cotangent_of(v) for v in to.shared(self._free.of(body))}
        for v, ct in outer.items():
            arrived.begin(v, ct)
        for variable in active:
            arrived.give(variable.yielded, carried_cts[variable.parameter])
        self._region(inner, body, arrived)

        changed = [v for v in outer if arrived.get(v) is not outer[v]]
        if not carried_cts and not changed and not _acts(inner.b.ops):
            return
        starts = [to.or_zero(to.take(variable.result), variable.result.type) for variable in active]
        starts += [to.or_zero(to.get(v), v.type) for v in changed]
        yields = tuple(arrived.or_zero(arrived.get(v), v.type) for v in (*carried_cts, *changed))
        region = Region((index, *carried_cts.values(), *(outer[v] for v in changed)), inner.b.ops, yields)
        cotangents = scope.b.control("for", (scope.fetch(loop.trips), *starts), (region,), _flipped(op))
        for v, ct in zip(changed, cotangents[len(carried_cts) :], strict=True):
            to.begin(v, ct)
        for variable, ct in zip(active, cotangents[: len(carried_cts)], strict=True):
            to.give(variable.start, ct)

    def _cotangent_of(self, value: Value) -> Value:
        return Value(self._space.tangent_of(value.type), _derivative_hint(value))

    # --- calls of functions with a custom derivative

    def _call(self, scope: SweepScope, op: Op, to: Cotangents) -> None:
        callee = self._activity.callee(op)
        wanted = [r for r, flag in zip(op.results, callee.results, strict=True) if flag]
        arriving = [to.take(r) for r in wanted]
        if not callee.sink and not any(arriving):
            return
        cotangents = (to.or_zero(ct, r.type) for r, ct in zip(wanted, arriving, strict=True))
        name, primals = self._derivative(scope, op, callee)
        operands = (*map(scope.fetch, primals), *cotangents)
        varied = [v for v, flag in zip(op.operands, callee.inputs, strict=True) if flag]
        cotangents_of_inputs = scope.b.call(name, operands, [self._space.tangent_of(v.type) for v in varied])
        for v, ct in zip(varied, cotangents_of_inputs, strict=True):
            to.give(v, ct)

    def _derivative(self, scope: SweepScope, op: Op, callee: Callee) -> tuple[str, Sequence[Value]]:
        """The function that a call is reversed by, and the primal values that it takes."""
        halves = callee.halves
        if halves is None:
            return callee.derivative, op.operands
        if scope.runs_again(op):
            return halves.whole(), op.operands
        primals = [v for v, flag in zip(op.operands, halves.takes, strict=True) if flag]
        residuals = scope.tree.residuals.get(op)
        return halves.reverse, primals if residuals is None else [*primals, residuals]


def _flipped(op: Op) -> Attributes:
    """The attributes of a loop for its reverse."""
    attributes = without(op.attributes, "reverse")
    forwards = op.name == "while" or not op.attributes.get("reverse")
    return {**attributes, "reverse": True} if forwards else attributes


def _acts(ops: list[Op]) -> bool:
    """Whether the ops of a reverse region have effects: only calls may."""
    return any(op.name == "call" or any(_acts(r.ops) for r in op.regions) for op in ops)


_RULES: dict[str, Callable[[Reverse, SweepScope, Op, Cotangents], None]] = {
    "if": Reverse._if,
    "for": Reverse._loop,
    "while": Reverse._loop,
    "call": Reverse._call,
}
