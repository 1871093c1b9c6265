"""Which memory a kernel reaches, over all threads of a launch: addresses as ranges that the plan can compare.

    %q = offset %p, %i          place: %p and steps of 4 bytes; %p must be the same for all threads
    %m = member %q {index=1}    ... and 4 bytes more
    range: from %p + 4 * low(%i) + 4 to %p + 4 * high(%i) + 8

An address that is chosen, %r = if %c { yield %q } { yield null }, is %q where %c is true: code that uses it has asked
whether it is null. What cannot be followed has no place or no range; memory of threads is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slangrad.ir.addresses import Place, place_of
from slangrad.ir.core import Op, Region, Value
from slangrad.ir.layout import element_size
from slangrad.ir.primitives import PRIMITIVES, PURE
from slangrad.ir.rebuild import defined_in
from slangrad.ir.types import I64, pointer_of
from slangrad.opt.intervals import Bounds, Facts, Intervals

# By effect: what they do to the memory behind their first operand.
_READS, _WRITES = frozenset({"load"}), frozenset({"store", "atomic"})


@dataclass(frozen=True, slots=True)
class Access:
    """A load, store or atomic of memory that threads share, and what is known where it stands."""

    op: Op
    place: Place | None
    facts: Facts

    @property
    def writes(self) -> bool:
        return self.op.name in _WRITES

    @property
    def size(self) -> int:
        return element_size(self.op.operands[0].type)


class Survey:
    """All accesses of a kernel to shared memory, in order."""

    def __init__(self, intervals: Intervals, region: Region) -> None:
        self.intervals = intervals
        self._launch = intervals.launch
        self._indices: set[Value] = set()  # of `for` loops
        self.accesses = list(self._region(region, Facts()))

    def _region(self, region: Region, facts: Facts) -> Iterator[Access]:
        for op in region.ops:
            if op.name in _READS | _WRITES:
                address = op.operands[0]
                if pointer_of(address.type).space == "global":
                    place = self._place(address)
                    if not self._is_own(op, place):
                        yield Access(op, place, facts)
            elif op.regions:
                yield from self._inner(op, facts)

    def _is_own(self, op: Op, place: Place | None) -> bool:
        """Whether it is in a variable of the thread; atomics are left to those who ask for all of them."""
        made = None if place is None else self._launch.made_by(place.root)
        return made is not None and made.name == "variable" and op.name != "atomic"

    def _inner(self, op: Op, facts: Facts) -> Iterator[Access]:
        v = self.intervals
        if op.name == "if":
            within = [v.assuming(facts, op.operands[0], truth) for truth in (True, False)]
        elif op.name == "for":
            self._indices.add(op.regions[0].parameters[0])
            within = [v.in_for(facts, op)]
        else:
            within = [facts, v.in_while(facts, op)]
        for region, known in zip(op.regions, within, strict=True):
            yield from self._region(region, known)

    def _place(self, address: Value) -> Place | None:
        place = place_of(address, self._launch.made_by, choices=True)
        root = self._launch.made_by(place.root)
        return None if root is None or root.name in ("if", "select") else place

    # --- ranges

    def distances(self, access: Access) -> Bounds | None:
        """How many bytes from its root on an access begins."""
        v, place, facts = self.intervals, access.place, access.facts
        if place is None:
            return None
        for choice in place.choices:
            facts = v.assuming(facts, choice.operands[0], True)
        total = v.number(place.distance, place.distance)
        for index, size in place.steps:
            step = v.of(index, facts)
            scaled = None if step is None else v.product(step, v.number(size, size))
            if scaled is None:
                return None
            total = v.sum(total, scaled)
        return total

    def root(self, access: Access) -> Value | None:
        """The number of the root's address in the plan; None where it is not the same for all threads."""
        if access.place is None:
            return None
        root = self._launch.of(access.place.root)
        return None if root is None else self._launch.plan.emit("bitcast", root, type=I64)

    def address(self, access: Access) -> Value | None:
        """Its number in the plan; None where it is not the same for all threads."""
        same = self._launch.of(access.op.operands[0])
        return None if same is None else self._launch.plan.emit("bitcast", same, type=I64)

    def defined_in_choices(self, place: Place) -> set[Value]:
        """What is made in branches that choose the address, and does not exist outside."""
        return {value for op in place.choices for region in op.regions for value in defined_in(region)}

    def varies_with_lane(self, value: Value) -> bool:
        """Whether lanes of a wave may have different values; those of loops they share."""
        if self._launch.of(value) is not None:
            return False
        op = self._launch.made_by(value)
        if op is None:
            return value not in self._indices
        if op.name == "thread_id":
            return op.attributes["axis"] == 0
        pure = op.name == "in_bounds" or (op.name in PRIMITIVES and PRIMITIVES[op.name].effect == PURE)
        return not pure or any(self.varies_with_lane(x) for x in op.operands)
