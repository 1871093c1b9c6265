"""Split loops into segments, so that reverse mode keeps the state between segments and one segment at a time.

    %r = for %n, %x (%i, %s) {..}      %a = for (min %n, 256), %x (%i, %s) {..}       all of it, if it is short
                                       %r = for %more, %a (%k, %s) {
                                         %t = call @f.segment0 %begin, %trips, %n, %s
                                         yield %t }

The function of a segment stays a call while derivatives are made. Its vjp runs the segment again and walks it
backwards: no other rule is needed. `loop_choice.py` chooses the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op, free_values
from slangrad.ir.data.types import U32
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Function, Op, Region, Value, alike, without


@dataclass(frozen=True, slots=True)
class Segments:
    """How a loop is cut. `whole_first`: the first iterations are kept like those of a short loop."""

    trips: int
    whole_first: bool


@dataclass(frozen=True, slots=True)
class SplitFunction:
    """A function whose loops are cut, its segments, and for their values those of the old function."""

    function: Function
    segments: tuple[Function, ...]
    old: dict[Value, Value]


def split_loops(function: Function, chosen: dict[Op, Segments], constants: dict[Value, Op]) -> SplitFunction:
    """`constants`: the ops of values that segments make for themselves."""
    walk = _Splitter(function.name, chosen, constants)
    result = walk.function(function)
    old = {new: old for old, new in walk.new.items()}
    return SplitFunction(result, tuple(walk.segments), {**old, **walk.old})


class _Splitter(Rebuild):
    def __init__(self, name: str, chosen: dict[Op, Segments], constants: dict[Value, Op]) -> None:
        super().__init__({"for": self._for, "while": self._while})
        self._name = name
        self._chosen = chosen
        self._constants = constants
        self.segments: list[Function] = []
        self.old: dict[Value, Value] = {}

    def _for(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        how = self._chosen.get(op)
        if how is None:
            return copy_op(rebuild, b, op)
        count, *state = self.values(op.operands)
        begin, trips = b.zero(count.type), b.constant(count.type, how.trips)
        if how.whole_first:
            first = _Stretch(begin, b.emit("min", count, trips), count, how.trips)
            state, begin = list(_counted(self, b, op, first, state)), trips
        begins_inside = b.emit("less", begin, count)
        left = b.emit("select", begins_inside, b.emit("sub", count, begin), b.zero(count.type))
        number = b.emit("div", b.emit("add", left, b.constant(count.type, how.trips - 1)), trips)
        segment, shared = self._segment(op, how)

        def run(b: Builder, k: Value, *values: Value) -> tuple[Value, ...]:
            done = b.emit("mul", k, trips)
            size = b.emit("min", b.emit("sub", left, done), trips)
            return _call(b, segment, (b.emit("add", begin, done), size, count, *values, *shared))

        named = [variable.parameter for variable in carried(op)]
        return b.for_(number, state, run, {"segmented": True}, "k", named)

    def _while(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        how = self._chosen.get(op)
        if how is None:
            return copy_op(rebuild, b, op)
        state = self.values(op.operands)
        if how.whole_first:
            state = _tested(self, b, op, how.trips, state)
        segment, shared = self._segment(op, how)
        test = self.region(b.nested(), op.regions[0])
        parameters = alike([variable.parameter for variable in carried(op)])
        body = b.region(parameters, lambda inner: _call(inner, segment, (*parameters, *shared)))
        return b.control("while", state, (test, body), {"segmented": True})

    def _segment(self, op: Op, how: Segments) -> tuple[Function, tuple[Value, ...]]:
        """The function of a segment, and its last operands: its free values."""
        walk, b, free = Rebuild(), Builder(span=op.span), free_values(*op.regions)
        outer = [v for v in free if v not in self._constants]
        for v in free:
            if v in self._constants:
                walk.op(b, self._constants[v])
        counted = op.name == "for"
        numbers = alike([op.operands[0]] * (3 if counted else 0))
        state, shared = alike([variable.parameter for variable in carried(op)]), alike(outer)
        walk.new.update(zip(outer, shared, strict=True))
        if counted:
            begin, size, count = numbers
            results = _counted(walk, b, op, _Stretch(begin, size, count, how.trips), state)
        else:
            results = _tested(walk, b, op, how.trips, state)
        self.old.update({new: old for old, new in walk.new.items()})
        segment = self._function(op, Region((*numbers, *state, *shared), b.ops, results))
        self.segments.append(segment)
        return segment, self.values(outer)

    def _function(self, op: Op, region: Region) -> Function:
        name = f"{self._name}.segment{len(self.segments)}"
        return Function(name, (), None, region, attributes={"segment": True}, span=op.span).on(region)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Iterations `begin` to `begin + size - 1` of `count`; no more than `most`."""

    begin: Value
    size: Value
    count: Value
    most: int


def _counted(walk: Rebuild, b: Builder, op: Op, part: _Stretch, state: Sequence[Value]) -> tuple[Value, ...]:
    """A stretch of a `for`."""
    (body,) = op.regions

    def turn(inner: Builder, k: Value, *carried: Value) -> tuple[Value, ...]:
        number = inner.emit("add", part.begin, k)
        if op.attributes.get("reverse"):
            last = inner.emit("sub", part.count, inner.constant(k.type, 1))
            number = inner.emit("sub", last, number)
        walk.new.update(zip(body.parameters, (number, *carried), strict=True))
        return walk.inline(inner, body)

    index, *named = body.parameters
    return b.for_(part.size, state, turn, {"at_most": part.most}, index.hint, named)


def _tested(walk: Rebuild, b: Builder, op: Op, most: int, state: Sequence[Value]) -> tuple[Value, ...]:
    """A stretch of a `while`, which counts its iterations."""
    old_test, old_body = op.regions
    done, nb = Value(U32, "done"), b.nested()
    test = walk.region(nb, old_test)
    go = nb.emit("and", test.yields[0], nb.emit("less", done, nb.constant(U32, most)))
    test = Region((*test.parameters, done), nb.ops, (go,))
    done, nb = Value(U32, "done"), b.nested()
    body = walk.region(nb, old_body)
    more = nb.emit("add", done, nb.constant(U32, 1))
    body = Region((*body.parameters, done), nb.ops, (*body.yields, more))
    start = (*state, b.constant(U32, 0))
    results = b.control("while", start, (test, body), {"at_most": most})
    return results[: len(state)]


def _call(b: Builder, segment: Function, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    return b.call(segment.name, operands, segment.result_types)


# --- segments again


def without_reports(function: Function) -> tuple[Function, dict[Value, Value]]:
    """A function that does not report, as it has before; for its values those of the old function."""
    walk = Rebuild({"in_bounds": _inside}, _without_check)
    result = walk.function(function)
    return result, {new: old for old, new in walk.new.items()}


def _without_check(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    if not op.attributes.get("check"):
        return copy_op(walk, b, op)
    attributes = without(op.attributes, "check")
    return (b.primitive(op.name, walk.values(op.operands), op.results[0].type, attributes),)


def _inside(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    index, extent = walk.values(op.operands)
    not_negative = b.emit("less_equal", b.zero(index.type), index)
    return (b.emit("and", not_negative, b.emit("less", index, extent)),)
