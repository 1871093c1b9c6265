"""One thread becomes W lanes: values, masks and control flow.

In: a flat kernel.   Out: the same with `lanes<T>` values; one region parameter, the mask of the lanes, if asked for.

    %c = less %x, %zero                        %c = less %x, %zero          : lanes<bool>
    %y = if %c { yield %a } { yield %b }       %y = select %c, %a, %b       : lanes<f32>

Uniform branches and loops stay what they are. A varying branch whose arms are cheap is computed and chosen from; else an
arm is skipped when no lane wants it, and masked. A varying loop runs while any lane does. What is uniform was decided in
uniformity.py; access.py and effects.py decide how memory is reached and how reports are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Parameter, Region, Value
from slangrad.ir.primitives import PRIMITIVES, PURE
from slangrad.ir.types import Type, lanes
from slangrad.spmd.forms import Forms, Strided
from slangrad.spmd.masks import MASK, Mask, any_lane
from slangrad.spmd.shapes import Shape
from slangrad.spmd.uniformity import Shapes

BLEND_COST = 40  # arms that cost less, together, are computed both


class Widening:
    """The walk over one kernel."""

    def __init__(self, shapes: Shapes, uses: Counter[Value], rules: dict[str, Rule], exclusive: bool) -> None:
        self.shapes = shapes
        self.exclusive = exclusive
        self.count = shapes.lanes
        self.forms = Forms(shapes)
        self.mask = Mask()
        self._uses = uses
        self._rules = RULES | rules

    def function(self, function: Function, masked: bool) -> Function:
        b = Builder(span=function.span)
        parameters: tuple[Parameter, ...] = ()
        if masked:
            self.mask = Mask(Value(MASK, "mask"))
            parameters = (Parameter("mask", MASK),)
        self.ops(b, function.region)
        region = Region(self.mask.operands(), b.ops, ())
        attributes = {name: a for name, a in function.attributes.items() if name != "kernel"}
        attributes["lanes"] = self.count
        return replace(function, parameters=parameters, region=region, attributes=attributes)

    def ops(self, b: Builder, region: Region) -> None:
        """The region's ops emitted into `b`; its parameters have forms already."""
        for op in region.ops:
            outer_span, b.span = b.span, op.span or b.span
            rule = self._rules.get(op.name)
            if rule is not None:
                rule(self, b, op)
            else:
                self.forms.elementwise(b, op)
            b.span = outer_span

    @contextmanager
    def under(self, mask: Mask) -> Iterator[None]:
        outer, self.mask = self.mask, mask
        yield
        self.mask = outer

    def is_used(self, old: Value) -> bool:
        return self._uses[old] > 0

    def lanes_of(self, b: Builder, old: Value) -> Value:
        return self.forms.lanes_of(b, old)

    # --- values that cross the border of a region, as one new value each

    def pack(self, b: Builder, old: Value, shape: Shape) -> Value:
        if shape.is_uniform:
            return self.forms.scalar(old)
        if shape.is_strided:
            return self.forms.strided(old).base
        return self.lanes_of(b, old)

    def packed_type(self, old: Value) -> Type:
        return lanes(old.type) if self.forms.shape(old).kind == "varying" else old.type

    def unpack(self, b: Builder, old: Value, new: Value) -> None:
        shape = self.forms.shape(old)
        if not shape.is_strided:
            self.forms.set(old, new)
            return
        assert shape.stride is not None and not shape.guarded
        self.forms.set(old, Strided(new, self.forms.stride_constant(b, old, shape.stride)))

    def unpack_all(self, b: Builder, old: Sequence[Value], new: Sequence[Value]) -> None:
        for before, after in zip(old, new, strict=True):
            self.unpack(b, before, after)


Rule = Callable[[Widening, Builder, Op], None]


# --- if


def _if(w: Widening, b: Builder, op: Op) -> None:
    if w.forms.shape(op.operands[0]).is_uniform:
        _uniform_if(w, b, op)
    else:
        _varying_if(w, b, op)


def _uniform_if(w: Widening, b: Builder, op: Op) -> None:
    merged = [r for r, x, y in _merges(op) if x is not y]
    regions = []
    for old, position in zip(op.regions, (1, 2), strict=True):
        inner = b.nested()
        w.ops(inner, old)
        yields = [w.pack(inner, m[position], w.forms.shape(m[0])) for m in _merges(op) if m[1] is not m[2]]
        regions.append(Region((), inner.ops, tuple(yields)))
    types = tuple(w.packed_type(r) for r in merged)
    results = b.control("if", (w.forms.scalar(op.operands[0]),), types, tuple(regions))
    w.unpack_all(b, merged, results)
    _copy_equal_yields(w, op)


def _merges(op: Op) -> list[tuple[Value, Value, Value]]:
    """Result, what the first region yields for it, what the second does."""
    return list(zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True))


def _copy_equal_yields(w: Widening, op: Op) -> None:
    for result, x, y in _merges(op):
        if x is y:
            w.forms.copy(result, x)


def _varying_if(w: Widening, b: Builder, op: Op) -> None:
    condition = w.lanes_of(b, op.operands[0])
    then, otherwise = op.regions
    together = _pure_cost(then) + _pure_cost(otherwise) <= BLEND_COST
    merged = [m for m in _merges(op) if m[1] is not m[2]]
    xs = _arm(w, b, then, condition, [m[1] for m in merged], together)
    opposite = b.emit("not", condition)
    ys = _arm(w, b, otherwise, opposite, [m[2] for m in merged], together)
    for (result, _, _), x, y in zip(merged, xs, ys, strict=True):
        w.forms.set(result, b.emit("select", condition, x, y))
    _copy_equal_yields(w, op)


def _arm(
    w: Widening, b: Builder, region: Region, condition: Value, wanted: Sequence[Value], together: bool
) -> tuple[Value, ...]:
    """The wanted values of one arm, of use where the condition holds only."""
    if together or not region.ops:
        w.ops(b, region)
        return tuple(w.lanes_of(b, v) for v in wanted)
    mask = w.mask.narrowed(b, condition)
    assert mask.value is not None
    inner, skipped = b.nested(), b.nested()
    with w.under(mask):
        w.ops(inner, region)
        values = tuple(w.lanes_of(inner, v) for v in wanted)
    types = tuple(v.type for v in values)
    zeros = tuple(skipped.zero(t) for t in types)
    regions = Region((), inner.ops, values), Region((), skipped.ops, zeros)
    return b.control("if", (any_lane(b, mask.value),), types, regions)


def _pure_cost(region: Region) -> float:
    """What the region costs; infinity where its ops may not run for lanes that are off."""
    total = 0.0
    for op in region.ops:
        if op.name == "if":
            total += 2 + sum(_pure_cost(r) for r in op.regions)
        elif op.name in PRIMITIVES and PRIMITIVES[op.name].effect == PURE:
            total += PRIMITIVES[op.name].cost
        else:
            return float("inf")
    return total


# --- loops


def _for(w: Widening, b: Builder, op: Op) -> None:
    count, *start = op.operands
    (region,) = op.regions
    index, *carried = region.parameters
    uniform = w.shapes.loop_is_uniform(op)
    starts = [w.pack(b, s, w.forms.shape(c)) for s, c in zip(start, carried, strict=True)]
    limits = None if uniform else _limits(w, b, count)
    total = w.forms.scalar(count) if limits is None else b.emit("lane_reduce", limits, type=count.type, kind="max")
    types = tuple(w.packed_type(c) for c in carried)
    parameters = (Value(index.type, index.hint), *(Value(t, c.hint) for t, c in zip(types, carried, strict=True)))
    inner = b.nested()
    w.unpack_all(inner, region.parameters, parameters)
    if limits is None:
        w.ops(inner, region)
        yields = [w.pack(inner, y, w.forms.shape(c)) for y, c in zip(region.yields, carried, strict=True)]
    else:
        yields = _live_iteration(w, inner, region, carried, limits)
    made = Region(parameters, inner.ops, tuple(yields))
    results = b.control("for", (total, *starts), types, (made,), op.attributes)
    w.unpack_all(b, op.results, results)


def _limits(w: Widening, b: Builder, count: Value) -> Value:
    """The count of each lane; zero where the lane is off."""
    limits = w.lanes_of(b, count)
    return limits if w.mask.value is None else b.emit("select", w.mask.value, limits, b.constant(limits.type, 0))


def _live_iteration(
    w: Widening, b: Builder, region: Region, carried: Sequence[Value], limits: Value
) -> list[Value]:
    """The body for lanes whose count is not reached; `limits` is zero for lanes that are off."""
    live = b.emit("less", w.lanes_of(b, region.parameters[0]), limits)
    before = [w.pack(b, c, w.forms.shape(c)) for c in carried]
    with w.under(Mask(live, False)):
        w.ops(b, region)
    return [_keep(w, b, live, *each) for each in zip(carried, region.yields, before, strict=True)]


def _keep(w: Widening, b: Builder, live: Value, carried: Value, end: Value, before: Value) -> Value:
    """What is carried on: the new value in lanes that are live, the old one in others."""
    if end is carried:
        return before
    return b.emit("select", live, w.lanes_of(b, end), before)


def _while(w: Widening, b: Builder, op: Op) -> None:
    if w.shapes.loop_is_uniform(op):
        _uniform_while(w, b, op)
    else:
        _varying_while(w, b, op)


def _uniform_while(w: Widening, b: Builder, op: Op) -> None:
    test, region = op.regions
    carried = test.parameters
    types = tuple(w.packed_type(c) for c in carried)
    starts = tuple(w.pack(b, s, w.forms.shape(c)) for s, c in zip(op.operands, carried, strict=True))
    first, inner = b.nested(), b.nested()
    tested, repeated = (tuple(Value(t, c.hint) for t, c in zip(types, carried, strict=True)) for _ in range(2))
    w.unpack_all(first, carried, tested)
    w.ops(first, test)
    made = Region(tested, first.ops, (w.forms.scalar(test.yields[0]),))
    w.unpack_all(inner, region.parameters, repeated)
    w.ops(inner, region)
    yields = tuple(w.pack(inner, y, w.forms.shape(c)) for y, c in zip(region.yields, carried, strict=True))
    results = b.control("while", starts, types, (made, Region(repeated, inner.ops, yields)))
    w.unpack_all(b, op.results, results)


def _varying_while(w: Widening, b: Builder, op: Op) -> None:
    """Carries the mask of live lanes, too; the test stands before the loop and at the end of its body."""
    test, region = op.regions
    carried = test.parameters
    types = (*(w.packed_type(c) for c in carried), MASK)
    starts = [w.pack(b, s, w.forms.shape(c)) for s, c in zip(op.operands, carried, strict=True)]
    start = w.mask.narrowed(b, _test(w, b, test, starts)).operands()
    first, inner = b.nested(), b.nested()
    tested, repeated = (tuple(Value(t) for t in types) for _ in range(2))
    made = Region(tested, first.ops, (any_lane(first, tested[-1]),))
    w.unpack_all(inner, region.parameters, repeated[:-1])
    live = Mask(repeated[-1], False)
    with w.under(live):
        w.ops(inner, region)
        ends = zip(region.parameters, region.yields, repeated[:-1], strict=True)
        yields = [_keep(w, inner, repeated[-1], *each) for each in ends]
        left = live.narrowed(inner, _test(w, inner, test, yields)).operands()
    body = Region(repeated, inner.ops, (*yields, *left))
    results = b.control("while", (*starts, *start), types, (made, body))
    w.unpack_all(b, op.results, results[:-1])


def _test(w: Widening, b: Builder, test: Region, values: Sequence[Value]) -> Value:
    w.unpack_all(b, test.parameters, values)
    w.ops(b, test)
    return w.lanes_of(b, test.yields[0])


def _thread_id(w: Widening, b: Builder, op: Op) -> None:
    (result,) = op.results
    first = b.primitive("thread_id", (), result.type, op.attributes)
    varying = w.forms.shape(result).is_strided
    w.forms.set(result, Strided(first, b.constant(result.type, 1)) if varying else first)


RULES: dict[str, Rule] = {"if": _if, "for": _for, "while": _while, "thread_id": _thread_id}
