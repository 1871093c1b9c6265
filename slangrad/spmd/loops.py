"""Loops of lanes.

    for %n, %x (%i, %v) {...}        where %n differs: to the largest count; lanes with %i < %n are live
    while %x (%v) {test} {body}      where the test differs: while there are live lanes

Lanes that have left keep their carried values. Live lanes have run the same iterations, so a carried value may be
uniform among them (the number of the iteration is) and differ afterwards. Then a copy in lanes is carried for those
that have left. In a reverse loop lanes begin at different times, so this does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.ir.building.builder import Builder
from slangrad.ir.ops.core import Op, Region, Value
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import Mask, any_lane


class CarriedLanes:
    """The carried values of a loop: a packed value for each old one, then copies in lanes of those that need
    them."""

    def __init__(self, w: Widening, old: Sequence[Value], results: Sequence[Value]) -> None:
        self._w = w
        self._old = old
        self._results = results
        self._copied = [
            i
            for i, (value, result) in enumerate(zip(old, results, strict=True))
            if w.forms.shape(result) != w.forms.shape(value) and w.is_used(result)
        ]

    def starts(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        return [*self._packed(b, values), *(self._w.lanes_of(b, values[i]) for i in self._copied)]

    def _packed(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        pairs = zip(values, self._old, strict=True)
        return [self._w.pack(b, value, self._w.forms.shape(old)) for value, old in pairs]

    def begin(self, b: Builder, old: Sequence[Value], new: Sequence[Value]) -> None:
        """In a region whose old parameters are `old`."""
        self._w.unpack_all(b, old, new[: len(old)])

    def ends(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        """At the end of an iteration that all lanes make."""
        assert not self._copied
        return self._packed(b, values)

    def ends_of_some(
        self, b: Builder, live: Value, old: Sequence[Value], values: Sequence[Value], before: Sequence[Value]
    ) -> list[Value]:
        """At the end of an iteration that lanes make which are live; `old` are the old parameters of its
        region.
        """
        ends = []
        for parameter, value, kept in zip(old, values, before[: len(old)], strict=True):
            shape = self._w.forms.shape(parameter)
            if value is parameter:
                ends.append(kept)
            elif shape.kind == "varying":
                ends.append(b.emit("select", live, self._w.lanes_of(b, value), kept))
            else:
                ends.append(self._w.pack(b, value, shape))
        for i, kept in zip(self._copied, before[len(old) :], strict=True):
            ends.append(b.emit("select", live, self._w.lanes_of(b, values[i]), kept))
        return ends

    def finish(self, b: Builder, new: Sequence[Value]) -> None:
        """Define the loop's results."""
        copies = dict(zip(self._copied, new[len(self._old) :], strict=True))
        for i, (result, old) in enumerate(zip(self._results, self._old, strict=True)):
            if i in copies:
                self._w.forms.set(result, copies[i])
            elif self._w.forms.shape(result) == self._w.forms.shape(old):
                self._w.unpack(b, result, new[i])


def _for(w: Widening, b: Builder, op: Op) -> None:
    count, *start = op.operands
    (region,) = op.regions
    index, *old = region.parameters
    carried = CarriedLanes(w, old, op.results)
    starts, uniform = carried.starts(b, start), w.shapes.loop_is_uniform(op)
    limits = None if uniform else _limits(w, b, count)
    total = (
        w.forms.scalar(count)
        if limits is None
        else b.emit("lane_reduce", limits, type=count.type, kind="max")
    )

    def turn(inner: Builder, step: Value, *parameters: Value) -> list[Value]:
        w.forms.set(index, step)
        carried.begin(inner, old, parameters)
        if limits is None:
            w.ops(inner, region)
            return carried.ends(inner, region.yields)
        live = inner.emit("less", w.lanes_of(inner, index), limits)
        with w.under(Mask(live, False)):
            w.ops(inner, region)
            return carried.ends_of_some(inner, live, old, region.yields, parameters)

    carried.finish(b, b.for_(total, starts, turn, op.attributes, index.hint))


def _limits(w: Widening, b: Builder, count: Value) -> Value:
    """The count of each lane; zero where the lane is off."""
    limits = w.lanes_of(b, count)
    if w.mask.value is None:
        return limits
    return b.emit("select", w.mask.value, limits, b.constant(limits.type, 0))


def _while(w: Widening, b: Builder, op: Op) -> None:
    carried = CarriedLanes(w, op.regions[0].parameters, op.results)
    if w.shapes.loop_is_uniform(op):
        _uniform_while(w, b, op, carried)
    else:
        _varying_while(w, b, op, carried)


def _uniform_while(w: Widening, b: Builder, op: Op, carried: CarriedLanes) -> None:
    test, region = op.regions

    def tested(inner: Builder, *parameters: Value) -> Value:
        carried.begin(inner, test.parameters, parameters)
        w.ops(inner, test)
        return w.forms.scalar(test.yields[0])

    def turn(inner: Builder, *parameters: Value) -> list[Value]:
        carried.begin(inner, region.parameters, parameters)
        w.ops(inner, region)
        return carried.ends(inner, region.yields)

    carried.finish(b, b.while_(carried.starts(b, op.operands), tested, turn))


def _varying_while(w: Widening, b: Builder, op: Op, carried: CarriedLanes) -> None:
    """The test stands before the loop and at the end of its body, for the lanes that are live there."""
    test, region = op.regions
    starts = carried.starts(b, op.operands)
    start = w.mask.narrowed(b, _test(w, b, test, carried, starts)).operands()

    def turn(inner: Builder, *carried_on: Value) -> list[Value]:
        *parameters, mask = carried_on
        carried.begin(inner, region.parameters, parameters)
        live = Mask(mask, False)
        with w.under(live):
            w.ops(inner, region)
            yields = carried.ends_of_some(inner, mask, region.parameters, region.yields, parameters)
            return [*yields, *live.narrowed(inner, _test(w, inner, test, carried, yields)).operands()]

    results = b.while_((*starts, *start), lambda inner, *values: any_lane(inner, values[-1]), turn)
    carried.finish(b, results[:-1])


def _test(w: Widening, b: Builder, test: Region, carried: CarriedLanes, values: Sequence[Value]) -> Value:
    carried.begin(b, test.parameters, values)
    w.ops(b, test)
    return w.lanes_of(b, test.yields[0])


RULES: dict[str, Rule] = {"for": _for, "while": _while}
