"""Which values carry derivatives: they depend on a differentiable input and reach a differentiable output.

    %a = mul %x, %n      active          when %x is an input and the function yields %r
    %b = convert %a : i32                cut: an integer has no tangent
    %r = add %a, %c      active, %c not: it depends on no input

Also marks the ops that the reverse sweep must visit. A call with a custom derivative may bring derivatives in (a
load from a tensor with a gradient) or take them out (a store to one). Its operands and results need not carry any.
Values of `detach`, loads and comparisons carry none: their rows say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slangrad.autodiff.analyses.halves import Halves
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Op, Region, Value, walk
from slangrad.ir.ops.primitives import LINEAR, PRIMITIVES


@dataclass(frozen=True, slots=True)
class Callee:
    """The facts for differentiation about a function that stays a call.

    `derivative` is called with the operands and the tangents of the differentiable inputs (jvp), or with the
    operands and the cotangents of the differentiable results (vjp).
    """

    derivative: str
    inputs: tuple[bool, ...]  # which operands are differentiable
    results: tuple[bool, ...]  # which results are differentiable
    source: bool = False  # results carry a derivative even where no operand does
    sink: bool = False  # operands receive a derivative even where no result does
    drop_primal: bool = False  # the forward sweep of a vjp leaves it out
    opened: Region | None = None  # its replacement in the forward sweep of a vjp
    body: Region | None = (
        None  # of a function that stays, whose derivative is made for what is active at the call
    )
    made_for: Callable[[tuple[bool, ...], tuple[bool, ...]], Callee] | None = None
    halves: Halves | None = None  # the replacement of `derivative` in a vjp


Callees = Callable[[str], Callee]


class Activity:
    """The active values and live ops of one region."""

    def __init__(self, space: VectorSpace, callees: Callees) -> None:
        self.space = space
        self._callees = callees
        self._varied: set[Value] = set()
        self._useful: set[Value] = set()
        self._live: set[Op] = set()
        self._visited: set[Region] = set()  # bodies of calls that this round has been in
        self._marked: dict[Region, bool] = {}

    def analyze(self, region: Region, inputs: Iterable[Value], outputs: Iterable[Value]) -> Activity:
        """Follow `inputs` forwards and `outputs` backwards until a fixpoint (because of loops)."""
        self._varied.update(inputs)
        self._useful.update(v for v in outputs if self.space.tangent(v.type) is not None)
        self._repeat(self._varied, lambda: self._vary(region))
        self._repeat(self._useful, lambda: self._use(region))
        self._mark(region)
        return self

    def _repeat(self, values: set[Value], step: Callable[[], None]) -> None:
        size = -1
        while size != len(values):
            size = len(values)
            self._visited.clear()
            step()

    def _first_visit(self, body: Region) -> bool:
        """Many calls may lead to one body; a round goes through it once."""
        if body in self._visited:
            return False
        self._visited.add(body)
        return True

    def active(self, value: Value) -> bool:
        return value in self._varied and value in self._useful

    def varied(self, value: Value) -> bool:
        """Whether it depends on an input."""
        return value in self._varied

    def useful(self, value: Value) -> bool:
        """Whether an output depends on it."""
        return value in self._useful

    def live(self, op: Op) -> bool:
        """Whether the op has active results, or takes derivatives out, or holds an op that does."""
        return op in self._live

    # --- forwards

    def _vary(self, region: Region) -> None:
        for op in region.ops:
            _VARY.get(op.name, Activity._vary_primitive)(self, op)

    def _spread(self, sources: Iterable[Value], target: Value) -> None:
        if self.space.tangent(target.type) is not None and not self._varied.isdisjoint(sources):
            self._varied.add(target)

    def _vary_primitive(self, op: Op) -> None:
        if _carries(op.name):
            for r in op.results:
                self._spread(op.operands, r)

    def _vary_if(self, op: Op) -> None:
        for arm in op.regions:
            self._vary(arm)
            for y, r in zip(arm.yields, op.results, strict=True):
                self._spread((y,), r)

    def _vary_loop(self, op: Op) -> None:
        for variable in carried(op):
            self._spread((variable.start, variable.yielded), variable.parameter)
            self._spread((variable.start, variable.yielded), variable.result)
        self._vary(op.regions[-1])

    def _vary_call(self, op: Op) -> None:
        callee = self._callee(op)
        if callee.body is not None:
            self._vary_body(op, callee.body)
            return
        active = [v for v, flag in zip(op.operands, callee.inputs, strict=True) if flag]
        if callee.source or not self._varied.isdisjoint(active):
            self._varied.update(r for r, flag in zip(op.results, callee.results, strict=True) if flag)

    def _vary_body(self, op: Op, body: Region) -> None:
        for v, p in zip(op.operands, body.parameters, strict=True):
            self._spread((v,), p)
        if self._first_visit(body):
            self._vary(body)
        for y, r in zip(body.yields, op.results, strict=True):
            self._spread((y,), r)

    # --- backwards

    def _use(self, region: Region) -> None:
        for op in reversed(region.ops):
            _USE.get(op.name, Activity._use_primitive)(self, op)

    def _wanted(self, values: Iterable[Value]) -> None:
        self._useful.update(v for v in values if self.space.tangent(v.type) is not None)

    def _use_primitive(self, op: Op) -> None:
        if _carries(op.name) and not self._useful.isdisjoint(op.results):
            self._wanted(op.operands)

    def _use_if(self, op: Op) -> None:
        for arm in op.regions:
            self._wanted(y for y, r in zip(arm.yields, op.results, strict=True) if r in self._useful)
            self._use(arm)

    def _use_loop(self, op: Op) -> None:
        for variable in carried(op):
            if not self._useful.isdisjoint((variable.parameter, variable.result)):
                self._wanted(variable.versions)
        self._use(op.regions[-1])

    def _use_call(self, op: Op) -> None:
        callee = self._callee(op)
        if callee.body is not None:
            self._wanted(y for y, r in zip(callee.body.yields, op.results, strict=True) if r in self._useful)
            if self._first_visit(callee.body):
                self._use(callee.body)
            pairs = zip(op.operands, callee.body.parameters, strict=True)
            self._wanted(v for v, p in pairs if p in self._useful)
        elif callee.sink or not self._useful.isdisjoint(op.results):
            self._wanted(v for v, flag in zip(op.operands, callee.inputs, strict=True) if flag)

    # --- ops

    def _mark(self, region: Region) -> bool:
        """Mark the live ops of the region; whether there are any."""
        if region in self._marked:
            return self._marked[region]
        has_live = False
        for op in region.ops:
            callee = self._callee(op) if op.name == "call" else None
            bodies = (callee.body,) if callee is not None and callee.body is not None else op.regions
            inner = [self._mark(r) for r in bodies]
            sink = callee is not None and callee.sink
            if sink or any(inner) or any(map(self.active, op.results)):
                self._live.add(op)
                has_live = True
        self._marked[region] = has_live
        return has_live

    def callee(self, op: Op) -> Callee:
        """The derivative of a call."""
        callee = self._callee(op)
        if callee.body is None or callee.made_for is None:
            return callee
        return callee.made_for(
            tuple(map(self.active, callee.body.parameters)), tuple(map(self.active, op.results))
        )

    def make_derivatives(self, region: Region) -> None:
        """Make those of segments here, rather than deep within a walk."""
        for op in walk(region):
            if op.name == "call" and self.live(op):
                self.callee(op)

    def halves(self, op: Op) -> Halves | None:
        """Of the vjp of a call that the reverse sweep visits."""
        return self.callee(op).halves if self.live(op) else None

    def _callee(self, op: Op) -> Callee:
        return self._callees(op.attributes["callee"])


def _carries(name: str) -> bool:
    partials = PRIMITIVES[name].partials
    return callable(partials) or partials == LINEAR


_Rule = Callable[[Activity, Op], None]
_VARY: dict[str, _Rule] = {
    "if": Activity._vary_if,
    "for": Activity._vary_loop,
    "while": Activity._vary_loop,
    "call": Activity._vary_call,
}
_USE: dict[str, _Rule] = {
    "if": Activity._use_if,
    "for": Activity._use_loop,
    "while": Activity._use_loop,
    "call": Activity._use_call,
}
