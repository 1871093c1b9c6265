"""The region and loop of each value of a function; and values for the counts of loops.

    for { %a = ...  if { %b = ... } }      %a and %b belong to the loop, %b to an arm in its body

A reverse sweep needs more than the values of the program: how often a `while` ran, and where on the tapes the run
of an inner loop begins. Such numbers get a `Value` here and are kept like any other. An induction variable such as
`i += 2` follows from the number of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slangrad.autodiff.analyses.halves import USUAL_TRIPS, Halves
from slangrad.ir.data.types import U32, Array, Struct, Type, contains, is_integer, is_tape
from slangrad.ir.ops.control import LOOPS, carried
from slangrad.ir.ops.core import Op, Region, Value, number_of
from slangrad.ir.ops.effects import is_pure

MOST_RUNS = 1_000_000  # a guess, of a nest of loops
READS = frozenset({"index", "get", "call"})  # uses of an array that leave it as it is


def _times(runs: int, trips: int | None) -> int:
    return min(runs * max(1, USUAL_TRIPS if trips is None else trips), MOST_RUNS)


def _picks_struct_from_tape(op: Op) -> bool:
    """It gets its own cotangent. One that is changed on the tape would be read and written there, and the
    derivative of that would have to add two tapes."""
    of = op.operands[0].type
    return isinstance(of, Array) and is_tape(of) and isinstance(of.element, Struct)


def holds_array(t: Type) -> bool:
    return contains(t, lambda part: isinstance(part, Array))


@dataclass(slots=True, eq=False)
class Loop:
    """A `for` or `while`, seen from the values inside."""

    op: Op
    home: RegionNode  # where the op stands
    body: Region
    index: Value | None  # of a `for`
    trips: Value  # how often it runs: the count of a `for`, counted for a `while`
    constant: int | None  # that number, where it is known
    most: int | None  # what it is at most, where that is known
    base: Value = field(default_factory=lambda: Value(U32, "base"))  # the position at which this run begins
    next: Value = field(default_factory=lambda: Value(U32, "next"))  # the position of the next run

    @property
    def outer(self) -> Loop | None:
        return self.home.loop


@dataclass(frozen=True, slots=True)
class Counter:
    """An integer that a loop carries: `start` at first, then more by `step`, a constant, each time, or less."""

    start: Value
    step: Value
    falls: bool


@dataclass(slots=True, eq=False)
class RegionNode:
    """A region: the op it belongs to and the place where that op stands (None for the function's own)."""

    region: Region
    op: Op | None
    outer: RegionNode | None
    loop: Loop | None  # the innermost loop around
    runs: int  # how often it runs, as far as that is known

    def within(self, other: RegionNode) -> bool:
        """Whether this region is the other one or inside of it."""
        place: RegionNode | None = self
        while place is not None and place is not other:
            place = place.outer
        return place is not None


class LoopTree:
    """The places of all values of one function's region. `handed`: the reverse sweep is a function of its own, which
    has the parameters at hand and no other values."""

    def __init__(
        self, region: Region, halves: Callable[[Op], Halves | None] = lambda op: None, handed: bool = False
    ) -> None:
        self.places: dict[Region, RegionNode] = {}
        self.homes: dict[Value, RegionNode] = {}
        self.makers = region.makers
        self.loops: dict[Op, Loop] = {}
        self.uses: dict[Value, list[Op]] = {}
        self.order: dict[Value, int] = {}  # definitions before uses
        self.counters: dict[Value, Counter] = {}  # parameters of loops
        self.halves: dict[Op, Halves] = {}  # of calls
        self.residuals: dict[Op, Value] = {}  # what calls hand to the reverse sweep
        self.calls: dict[Value, Op] = {}  # those that residuals come from
        self._halves_of = halves
        self.handed = handed
        self._fixed: set[Value] = set()
        self.top = RegionNode(region, None, None, None, 1)
        self._enter(self.top)

    def _enter(self, place: RegionNode) -> None:
        self.places[place.region] = place
        for p in place.region.parameters:
            self._define(p, place)
        for op in place.region.ops:
            self._op(op, place)

    def _define(self, value: Value, place: RegionNode) -> None:
        self.homes[value] = place
        self.order[value] = len(self.order)

    def _op(self, op: Op, place: RegionNode) -> None:
        for v in op.operands:
            self.uses.setdefault(v, []).append(op)
        if op.name == "call":
            self._call(op, place)
        loop = self._loop(op, place) if op.name in LOOPS else place.loop
        for region in op.regions:
            runs = place.runs if loop is place.loop or loop is None else _times(place.runs, loop.constant)
            self._enter(RegionNode(region, op, place, loop, runs))
            for y in region.yields:
                self.uses.setdefault(y, []).append(op)
        for r in op.results:
            self._define(r, place)
        if self._is_made_of_fixed(op):
            self._fixed.update(op.results)
        if op.name in LOOPS and not op.attributes.get("reverse"):
            self._find_counters(op)

    def _call(self, op: Op, place: RegionNode) -> None:
        halves = self._halves_of(op)
        if halves is None:
            return
        self.halves[op] = halves
        if halves.residuals is not None:
            value = self.residuals[op] = Value(halves.residuals, "residuals")
            self.calls[value] = op
            self._define(value, place)

    def _find_counters(self, loop: Op) -> None:
        for start, inside, y, _ in carried(loop):
            p, maker = inside[-1], self.makers.get(y)
            if not is_integer(p.type) or maker is None or maker.name not in ("add", "sub"):
                continue
            x, step = (
                maker.operands if maker.operands[0] is p or maker.name == "sub" else maker.operands[::-1]
            )
            if x is p and self.is_constant(step) and self.is_at_hand(start):
                self.counters[p] = Counter(start, step, maker.name == "sub")

    def _loop(self, op: Op, place: RegionNode) -> Loop:
        body = op.regions[-1]
        if op.name == "for":
            count = op.operands[0]
            constant = number_of(count, self.makers.get)
            most = op.attributes.get("at_most") if constant is None else constant
            loop = Loop(op, place, body, body.parameters[0], count, constant, most)
        else:
            loop = Loop(op, place, body, None, Value(U32, "trips"), None, op.attributes.get("at_most"))
            self._define(loop.trips, place)
        self._define(loop.base, place)
        self.loops[op] = loop
        return loop

    def is_index(self, value: Value) -> bool:
        loop = self.homes[value].loop
        return loop is not None and loop.index is value

    def is_constant(self, value: Value) -> bool:
        op = self.makers.get(value)
        return op is not None and op.name in ("const", "zero")

    def is_at_hand(self, value: Value) -> bool:
        """Whether the reverse sweep has the value without keeping anything."""
        is_computable = self.is_index(value) or self.is_constant(value) or value in self.counters
        return is_computable or self._is_there(value)

    def _is_there(self, value: Value) -> bool:
        """Whether the reverse sweep has it as a value."""
        if self.handed:
            return value in self.top.region.parameters
        return self.homes[value] is self.top

    def is_view(self, whole: Value) -> bool:
        """An array at hand, or a part of one, that is never written: reading it again makes no copy."""
        if any(use.name not in READS for use in self.uses.get(whole, ())):
            return False
        op = self.makers.get(whole)
        is_part = op is not None and op.name in ("index", "get")
        return self._is_there(whole) or (op is not None and is_part and self.is_view(op.operands[0]))

    def whole_of(self, value: Value) -> tuple[Value, list[Op]]:
        """The array around an array, and the ops that pick it, outermost first. Most have none."""
        path: list[Op] = []
        while holds_array(value.type):
            op = self.makers.get(value)
            if op is None or op.name not in ("index", "get") or _picks_struct_from_tape(op):
                break
            path.append(op)
            value = op.operands[0]
        return value, path[::-1]

    def is_fixed(self, value: Value) -> bool:
        """Whether a value of a loop is the same in each iteration."""
        return self.homes[value] is self.top or value in self._fixed

    def _is_made_of_fixed(self, op: Op) -> bool:
        return is_pure(op) and all(map(self.is_fixed, op.operands))

    def is_linear(self, loop: Loop) -> bool:
        """Whether positions follow from indices: inner loops turn equally often in each iteration around."""
        return loop.outer is None or (self.is_fixed(loop.trips) and self.is_linear(loop.outer))
