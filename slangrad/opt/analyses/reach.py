"""Which memory a kernel reaches, over all threads of a launch: addresses as ranges that the plan can compare.

    %q = offset %p, %i          place: %p and steps of 4 bytes; %p must be the same for all threads
    %m = member %q {index=1}    ... and 4 bytes more
    range: from %p + 4 * low(%i) + 4 to %p + 4 * high(%i) + 8

A choice `%r = if %c { yield %q } { yield null }` counts as %q where %c is true, because code that uses it has
checked it for null. Addresses that cannot be followed have no place or no range; memory of threads is ignored.

A callee is analyzed once for each set of facts about its arguments, so all paths of calls are followed, but none
twice. Its address parameters have the roots of the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slangrad.ir.analyses.addresses import AddressPath, path_of
from slangrad.ir.building.rebuild import defined_in
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import BOOL, I64, Pointer, is_integer, pointer_of
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.effects import is_arithmetic
from slangrad.opt.analyses.intervals import Bounds, Facts, Intervals
from slangrad.opt.analyses.launch_values import LaunchValues

MOST_SURVEYS = 128  # of one kernel and the functions that it calls

# Effects on the memory behind their first operand.
_READS, _WRITES = frozenset({"load"}), frozenset({"store", "atomic"})


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a value on the other side of a call, all in the plan. `same`: the value, if all threads have the
    same one. `range`: of a number; of an address, how many bytes it is from its `root` on. `varies`: with the
    lane."""

    same: Value | None = None
    root: Value | None = None
    range: Bounds | None = None
    varies: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A load, store or atomic of memory that threads share, and the facts at its place. For a call that is not
    followed, the call."""

    op: Op
    place: AddressPath | None
    facts: Facts
    survey: Survey

    @property
    def writes(self) -> bool:
        return self.op.name in _WRITES

    @property
    def size(self) -> int:
        return element_size(self.op.operands[0].type)


@dataclass(frozen=True, slots=True)
class Callees:
    """The functions that a kernel calls, and those that were analyzed, callees first."""

    functions: Mapping[str, Function]
    surveys: dict[tuple[str, tuple[Known, ...]], Survey] = field(default_factory=dict)


class Survey:
    """All accesses of a function to shared memory, in order. `accesses` include those of callees that were not
    analyzed before; `own` are the function's. `arguments`: facts about its parameters."""

    def __init__(
        self, launch: LaunchValues, function: Function, callees: Callees, arguments: Sequence[Known] = ()
    ) -> None:
        self.function = function
        self.intervals = Intervals(launch)
        self.called: dict[Op, Survey] = {}
        self._callees = callees
        self._launch = launch
        self._varies: dict[Value, bool] = {}
        self._arguments: dict[Value, Known] = {}  # addresses that another function gave
        facts, region = Facts(), function.region
        for value, argument in zip(region.parameters, arguments, strict=True):
            self._learn(value, argument, facts)
        self.accesses = list(self._region(region, facts))
        self.own = {access.op: access for access in self.accesses if access.survey is self}
        self.results = [self._known(value, facts) for value in region.yields]

    def _region(self, region: Region, facts: Facts) -> Iterator[Access]:
        for op in region.ops:
            if op.name in _READS | _WRITES:
                address = op.operands[0]
                if pointer_of(address.type).space == "global":
                    place = self._place(address)
                    if not self._is_own(op, place):
                        yield Access(op, place, facts, self)
            elif op.name == "call":
                yield from self._call(op, facts)
            elif op.regions:
                yield from self._inner(op, facts)

    def _is_own(self, op: Op, place: AddressPath | None) -> bool:
        """Whether it is in a variable of the thread; atomics are kept for callers that need all of them."""
        maker = None if place is None else self._launch.made_by(place.root)
        return maker is not None and maker.name == "variable" and op.name != "atomic"

    def _inner(self, op: Op, facts: Facts) -> Iterator[Access]:
        if op.name == "for":
            self._varies[op.regions[0].parameters[0]] = False
        for region, inner_facts in zip(op.regions, list(self.intervals.within(facts, op)), strict=True):
            yield from self._region(region, inner_facts)

    # --- calls

    def _call(self, op: Op, facts: Facts) -> Iterator[Access]:
        name, surveys = op.attributes["callee"], self._callees.surveys
        key = name, tuple(self._known(value, facts) for value in op.operands)
        callee = surveys.get(key)
        if callee is None and len(surveys) >= MOST_SURVEYS:
            yield Access(op, None, facts, self)
            return
        if callee is None:
            function = self._callees.functions[name]
            launch = LaunchValues(function, self._launch.plan, self._launch.loads)
            callee = Survey(launch, function, self._callees, key[1])
            surveys[key] = callee
            yield from callee.accesses
        self.called[op] = callee
        for value, result in zip(op.results, callee.results, strict=True):
            self._learn(value, result, facts)

    def _known(self, value: Value, facts: Facts) -> Known:
        t, same, varies = value.type, self._launch.of(value), self.varies_with_lane(value)
        if is_integer(t) or t is BOOL:
            return Known(same, None, self.intervals.of(value, facts), varies)
        if not isinstance(t, Pointer):
            return Known()
        place = self._place(value) if t.space == "global" else None
        root, reach = self._root(place), self._distances(place, facts)
        return Known(same, root, reach, varies) if root and reach else Known(same, None, None, varies)

    def _learn(self, value: Value, argument: Known, facts: Facts) -> None:
        self._varies[value] = argument.varies
        if argument.same is not None:
            self._launch.learn(value, argument.same)
        if argument.root is not None:
            self._arguments[value] = argument
        elif argument.range is not None:
            facts.known[value] = facts.cached[value] = argument.range

    # --- places

    def _place(self, address: Value) -> AddressPath | None:
        place = path_of(address, self._launch.made_by, choices=True)
        root = self._launch.made_by(place.root)
        if place.root in self._arguments:
            return place
        return None if root is None or root.name in ("if", "select") else place

    # --- ranges

    def distances(self, access: Access) -> Bounds | None:
        """The distance of an access from its root in bytes."""
        return self._distances(access.place, access.facts)

    def _distances(self, place: AddressPath | None, facts: Facts) -> Bounds | None:
        if place is None:
            return None
        v, total = self.intervals, self.start(place)
        for choice in place.choices:
            facts = v.assuming(facts, choice.operands[0], True)
        for index, size in place.steps:
            step = v.of(index, facts)
            scaled = None if step is None else v.product(step, v.number(size, size))
            if scaled is None:
                return None
            total = v.sum(total, scaled)
        return total

    def start(self, place: AddressPath) -> Bounds:
        """The distance of a place from its root in bytes, without its steps."""
        v, argument = self.intervals, self._arguments.get(place.root)
        distance = v.number(place.distance, place.distance)
        return distance if argument is None or argument.range is None else v.sum(argument.range, distance)

    def is_given(self, place: AddressPath) -> bool:
        """Whether its root came from another function, where it has a root in turn."""
        return place.root in self._arguments

    def root(self, access: Access) -> Value | None:
        """The number of the root's address in the plan; None where it is not the same for all threads."""
        return self._root(access.place)

    def _root(self, place: AddressPath | None) -> Value | None:
        if place is None:
            return None
        if place.root in self._arguments:
            return self._arguments[place.root].root
        root = self._launch.of(place.root)
        return None if root is None else self._launch.plan.emit("bitcast", root, type=I64)

    def address(self, access: Access) -> Value | None:
        """Its number in the plan; None where it is not the same for all threads."""
        same = self._launch.of(access.op.operands[0])
        return None if same is None else self._launch.plan.emit("bitcast", same, type=I64)

    def defined_in_choices(self, place: AddressPath) -> set[Value]:
        """Values made in branches that choose the address, which do not exist outside."""
        return {value for op in place.choices for region in op.regions for value in defined_in(region)}

    def varies(self, access: Access) -> bool:
        """Whether lanes of a wave may reach different elements."""
        place = access.place
        assert place is not None
        chosen = [op.operands[0] for op in place.choices]
        values = [place.root, *chosen, *(index for index, _ in place.steps)]
        return any(self.varies_with_lane(value) for value in values)

    def varies_with_lane(self, value: Value) -> bool:
        """Whether lanes of a wave may have different values; those of loops they share."""
        if value not in self._varies:
            self._varies[value] = self._launch.of(value) is None and self._may_vary(value)
        return self._varies[value]

    def _may_vary(self, value: Value) -> bool:
        op = self._launch.made_by(value)
        if op is None:
            return True
        if op.name == "thread_id":
            return op.attributes["axis"] == 0
        pure = op.name == "in_bounds" or is_arithmetic(op)
        return not pure or any(self.varies_with_lane(x) for x in op.operands)
