"""One thread becomes W lanes: values, masks and branches.

In: a flat kernel. Out: the same with `lanes<T>` values and, if asked for, a parameter: the lanes' mask.

    %c = less %x, %zero                        %c = less %x, %zero          : lanes<bool>
    %y = if %c { yield %a } { yield %b }       %y = select %c, %a, %b       : lanes<f32>

A uniform branch stays a branch. A varying branch with cheap arms computes both; else each arm is masked, and
skipped if no lane takes it. analyses/uniformity.py decides which values are uniform. Loops are in loops.py, memory in
access.py, reports in effects.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import Scalar, Type, lanes
from slangrad.ir.ops.control import merged
from slangrad.ir.ops.core import Function, Op, Parameter, Region, Value, without
from slangrad.ir.ops.effects import is_arithmetic
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.spmd.analyses.shapes import LaneShape, passed_as
from slangrad.spmd.analyses.uniformity import Shapes
from slangrad.spmd.forms import LaneForms, Strided
from slangrad.spmd.masks import MASK, Mask, any_lane
from slangrad.spmd.records import adjacent_adds

BLEND_COST = 40  # arms that cost less, together, are computed both


class Widening:
    """The walk over one kernel."""

    def __init__(
        self,
        shapes: Shapes,
        uses: Counter[Value],
        rules: Mapping[str, Rule],
        exclusive: bool,
        version: Version,
    ) -> None:
        self.shapes = shapes
        self.exclusive = exclusive
        self.count = shapes.lanes
        self.forms = LaneForms(shapes)
        self.mask = Mask()
        self._uses = uses
        self.version = version
        self.adjacent: Mapping[Op, tuple[Op, ...]] = {}  # adds, by each of them
        self._rules = {**RULES, **rules}

    def function(self, function: Function, masked: bool) -> Function:
        b = Builder(span=function.span)
        parameters: tuple[Parameter, ...] = ()
        if masked:
            self.mask = Mask(Value(MASK, "mask"))
            parameters = (Parameter("mask", MASK),)
        self._all_ops(b, function.region)
        region = Region(self.mask.operands(), b.ops, ())
        attributes = without(function.attributes, "kernel")
        attributes["lanes"] = self.count
        return replace(function, parameters=parameters, region=region, attributes=attributes)

    def callee(self, function: Function, masked: bool) -> Function:
        """A function that lanes call together. Those that are off here may be on in the caller."""
        b = Builder(span=function.span)
        parameters = tuple(Value(self.packed_type(p), p.hint) for p in function.region.parameters)
        self.unpack_all(b, function.region.parameters, parameters)
        if masked:
            self.mask = Mask(Value(MASK, "mask"), is_entry=False)
        self._all_ops(b, function.region)
        yields = tuple(self.pack(b, v, passed_as(self.forms.shape(v))) for v in function.region.yields)
        callee = function.on(Region((*parameters, *self.mask.operands()), b.ops, yields))
        return replace(callee, attributes={**function.attributes, "lanes": self.count})

    def _all_ops(self, b: Builder, region: Region) -> None:
        self.adjacent = adjacent_adds(region, lambda value: self.forms.shape(value).is_uniform, self.is_used)
        self.ops(b, region)

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

    def pack(self, b: Builder, old: Value, shape: LaneShape) -> Value:
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
Version = Callable[[str, tuple[LaneShape, ...], bool], Function]
"""The form of a function for arguments of some shapes, and whether it is called under a mask."""


# --- if


def _if(w: Widening, b: Builder, op: Op) -> None:
    if w.forms.shape(op.operands[0]).is_uniform:
        _uniform_if(w, b, op)
    else:
        _varying_if(w, b, op)


def _uniform_if(w: Widening, b: Builder, op: Op) -> None:
    differ = [m for m in merged(op) if m[1] is not m[2]]

    def arm(inner: Builder, position: int) -> list[Value]:
        w.ops(inner, op.regions[position])
        return [w.pack(inner, m[1 + position], w.forms.shape(m[0])) for m in differ]

    condition = w.forms.scalar(op.operands[0])
    results = b.if_(condition, lambda inner: arm(inner, 0), lambda inner: arm(inner, 1))
    w.unpack_all(b, [result for result, _, _ in differ], results)
    _copy_equal_yields(w, op)


def _copy_equal_yields(w: Widening, op: Op) -> None:
    for result, x, y in merged(op):
        if x is y:
            w.forms.copy(result, x)


def _varying_if(w: Widening, b: Builder, op: Op) -> None:
    condition = w.lanes_of(b, op.operands[0])
    then, otherwise = op.regions
    together = _together(op)
    differ = [m for m in merged(op) if m[1] is not m[2]]
    xs = _arm(w, b, then, condition, [m[1] for m in differ], together)
    opposite = b.emit("not", condition)
    ys = _arm(w, b, otherwise, opposite, [m[2] for m in differ], together)
    for (result, _, _), x, y in zip(differ, xs, ys, strict=True):
        w.forms.set(result, b.emit("select", condition, x, y))
    _copy_equal_yields(w, op)


def _together(op: Op) -> bool:
    """Whether both arms are computed for all lanes: by [branch] or [flatten], else if they are cheap."""
    cost, hint = sum(map(_pure_cost, op.regions)), op.attributes.get("arms")
    if hint == "branch":
        return False
    return cost < float("inf") if hint == "flatten" else cost <= BLEND_COST


def _arm(
    w: Widening, b: Builder, region: Region, condition: Value, wanted: Sequence[Value], together: bool
) -> tuple[Value, ...]:
    """The wanted values of one arm, of use where the condition holds only."""
    if together or not region.ops:
        w.ops(b, region)
        return tuple(w.lanes_of(b, v) for v in wanted)
    mask = w.mask.narrowed(b, condition)
    assert mask.value is not None

    def run(inner: Builder) -> list[Value]:
        with w.under(mask):
            w.ops(inner, region)
            return [w.lanes_of(inner, v) for v in wanted]

    return b.guarded(any_lane(b, mask.value), run)


def _pure_cost(region: Region) -> float:
    """The cost of the region; infinity if its ops must not run for lanes that are off."""
    total = 0.0
    for op in region.ops:
        if op.name == "if":
            total += 2 + sum(_pure_cost(r) for r in op.regions)
        elif is_arithmetic(op):
            total += PRIMITIVES[op.name].cost * (2 if _is_wide(op.results[0].type) else 1)
        else:
            return float("inf")
    return total


def _is_wide(t: Type) -> bool:
    """Lanes of 64 bits take twice the registers, and twice the time."""
    return isinstance(t, Scalar) and t.bits == 64


def _thread_id(w: Widening, b: Builder, op: Op) -> None:
    (result,) = op.results
    first = b.primitive("thread_id", (), result.type, op.attributes)
    varying = w.forms.shape(result).is_strided
    w.forms.set(result, Strided(first, b.constant(result.type, 1)) if varying else first)


RULES: dict[str, Rule] = {"if": _if, "thread_id": _thread_id}
