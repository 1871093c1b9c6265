"""Which versions of an array can share memory: the analysis behind arrays.py.

    %b = set_index %a, %i, %x               %b lives where %a lived, if %a is not used afterwards
    %r = for %n, %a (%i, %p) {.. yield %q}  %p begins in the memory of %a, if so; %r ends in that of %p

`origin` maps a version to the one whose memory it takes over; a value without origin gets memory of its own.
Where in doubt there is no origin, and arrays.py copies. Zeros have no memory: a change of one begins
with fresh memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slangrad.flatten.versions import UPDATES, ArrayVersions
from slangrad.ir.building.rebuild import Nesting
from slangrad.ir.data.types import Array, is_tape
from slangrad.ir.ops.control import LOOPS, carried, merged
from slangrad.ir.ops.core import Function, Op, Region, Value

READS = frozenset({"index", "get"})


def is_array(value: Value) -> bool:
    return isinstance(value.type, Array)


class Lifetimes:
    """The plan for one function; see the fields."""

    def __init__(self, function: Function) -> None:
        self.origin: dict[Value, Value] = {}  # a version, to the one whose memory it lives in
        self.handles: set[Value] = set()  # tapes that loops and branches pass on as values, not in place
        self.nesting = Nesting(function.region)
        self.moved: set[tuple[Op, int]] = set()  # handles not to copy: (loop, i) start, (loop, -1 - i) yield
        self.begins_empty: set[Value] = set()  # roots whose memory begins as zero (a tape's: on all ways)
        self._shared: set[Value] = set()  # tapes that are an element of something, too: not changed in place
        self._dying: dict[Op, set[Value]] = {}  # arrays whose last use is in an op
        self._ops: dict[Region, list[Op]] = {}  # ops that use or make arrays
        self._free: dict[Op, set[Value]] = {}  # arrays from outside that a branch or loop uses
        self._arrays: list[tuple[Value, int]] = []  # all arrays, and in how many loops they are made
        self._stored: list[
            tuple[Value, int]
        ] = []  # those that become elements, and in how many loops they do
        self._versions = ArrayVersions(function)
        self.zeros = self._versions.zeros
        self.written_first = self._versions.written_first
        self._gather(function.region, 0)
        self._blocked = self._find_blocked()
        self._members = self._find_tapes()
        self._scan(function.region, set())
        self._share(function.region.parameters)  # the caller may need them
        self._visit(function.region)

    def root(self, value: Value) -> Value:
        """The first version in the same memory."""
        while value in self.origin:
            value = self.origin[value]
        return value

    def ends_in(self, tape: Value, region: Region) -> bool:
        """Whether no version of a tape is live after a run of the region."""
        members = self._members.get(self._versions.find(tape), ())
        return bool(members) and all(self.nesting.inside(v, region) for v in members)

    # --- all arrays

    def _gather(self, region: Region, depth: int) -> set[Value]:
        """Collect all ops on arrays; returns the arrays that the region uses but does not make."""
        arrays, used = list(filter(is_array, region.parameters)), set(filter(is_array, region.yields))
        ops = self._ops[region] = []
        for op in region.ops:
            operands, results = list(filter(is_array, op.operands)), list(filter(is_array, op.results))
            if op.regions:
                inner = depth + (op.name in LOOPS)
                self._free[op] = set[Value]().union(*[self._gather(body, inner) for body in op.regions])
                used |= self._free[op]
            elif not operands and not results:
                continue
            elif op.name not in READS and op.name != "call":
                stored = filter(is_array, op.operands[1:]) if op.name in UPDATES else operands
                self._stored += [(v, depth) for v in stored if v not in self.zeros]
            ops.append(op)
            used.update(operands)
            arrays += results
        self._arrays += [(v, depth) for v in arrays]
        return used.difference(arrays)

    def _find_tapes(self) -> dict[Value, list[Value]]:
        """The versions of each class of tapes, but for those that are elements of something."""
        tapes: dict[Value, list[Value]] = {}
        for value, _ in self._arrays:
            if is_tape(value.type) and value not in self.zeros:
                tapes.setdefault(self._versions.find(value), []).append(value)
        for stored, _ in self._stored:
            tapes.pop(self._versions.find(stored), None)
        return tapes

    def _find_blocked(self) -> set[Value]:
        """Classes of tapes that a loop makes elements of something, while the tape lives on outside of that loop.

        Changed in place in the next iteration, such a tape would change the element, too.
        """
        outermost: dict[Value, int] = {}
        for value, depth in self._arrays:
            root = self._versions.find(value)
            outermost[root] = min(outermost.get(root, depth), depth)
        stored = ((self._versions.find(v), depth) for v, depth in self._stored)
        return {root for root, depth in stored if outermost[root] < depth}

    # --- liveness

    def _scan(self, region: Region, after: set[Value]) -> None:
        """Find the last uses in a region, when `after` are the arrays that are used after it."""
        live = after | set(filter(is_array, region.yields))
        for op in reversed(self._ops[region]):
            live -= set(op.results)
            free = self._free.get(op, set())
            used = free | set(filter(is_array, op.operands))
            self._dying[op] = used - live
            around = live | free if op.name in LOOPS else live
            for inner in op.regions:
                tested = op.name == "while" and inner is op.regions[0]
                self._scan(inner, around | set(inner.parameters) if tested else around)
            live |= used

    # --- origins

    def _visit(self, region: Region) -> None:
        for op in self._ops[region]:
            if op.name == "if":
                self._visit_if(op)
            elif op.name in LOOPS:
                self._visit_loop(op)
            elif op.name in UPDATES and is_array(op.results[0]):
                self._visit_update(op)
            elif op.name in READS:
                self._share(op.results)
            elif op.name != "call":  # which changes no array and gives new ones
                self._share(op.operands)

    def _share(self, values: Iterable[Value]) -> None:
        """Tapes that come from or become elements."""
        self._shared.update(self.root(v) for v in values if is_array(v))

    def _owned(self, value: Value) -> bool:
        """Whether the memory of a value belongs to its versions only."""
        if value in self.zeros or self.root(value) in self._shared:
            return False
        return not is_tape(value.type) or self._versions.find(value) not in self._blocked

    def _visit_update(self, op: Op) -> None:
        old, new = op.operands[0], op.results[0]
        self._share(op.operands[1:])
        if old in self.zeros:
            self.begins_empty.add(new)
        elif old in self._dying[op] and self._owned(old):
            self.origin[new] = old

    def _visit_if(self, op: Op) -> None:
        before, after = self._shared, set(self._shared)
        for region in op.regions:
            self._shared = set(before)
            self._visit(region)
            after |= self._shared
        self._shared = after
        taker_of: dict[Value, Value] = {}
        for result, *yields in merged(op):
            if is_array(result):
                self._merge(op, result, yields, taker_of)

    def _merge(self, op: Op, result: Value, yields: Sequence[Value], taker_of: dict[Value, Value]) -> None:
        """In place when both arms end in the memory of one value from before that is not used afterwards.

        `taker_of` maps a value to the result that got its memory.
        """
        entry, other = (self._entry(v, op) for v in yields)
        roots = [self.root(v) for v in yields if v not in self.zeros]
        begun = [self._begins_in(v, op) for v in yields]
        if entry is other and entry in self._dying[op] and entry not in taker_of and self._owned(entry):
            taker_of[entry] = self.origin[result] = entry
        elif not is_tape(result.type):
            self.begins_empty.update((result,) if any(begun) else ())
        elif all(begun) and taker_of.keys().isdisjoint(roots):
            self.begins_empty.add(result)
        else:
            self.handles.add(result)
            self._share((result, *yields, *(taker_of[r] for r in roots if r in taker_of)))
        taker_of.update({r: result for r in roots if r not in taker_of})

    def _begins_in(self, value: Value, op: Op) -> bool:
        """Whether a version that an arm ends with began there, in fresh and empty memory."""
        if value in self.zeros:
            return True
        root = self.root(value)
        return root in self.begins_empty and self.nesting.inside(root, *op.regions) and self._owned(value)

    def _entry(self, value: Value, op: Op) -> Value:
        """The version from outside of a branch that a version inside began as; else the first one inside."""
        while value in self.origin and self.nesting.inside(value, *op.regions):
            value = self.origin[value]
        return value

    def _visit_loop(self, op: Op) -> None:
        for region in op.regions:
            self._visit(region)
        reused, all_carried = set(self._free[op]), carried(op)
        in_place = [self.root(loop_value.yielded) is loop_value.parameter for loop_value in all_carried]
        moved = {
            self.root(loop_value.yielded)
            for loop_value, same in zip(all_carried, in_place, strict=True)
            if same
        }
        for i, loop_value in enumerate(all_carried):
            if not is_array(loop_value.result):
                continue
            handle, start = is_tape(loop_value.result.type) and not in_place[i], loop_value.start
            if handle:
                self._pass_on(op, i, loop_value.yielded, moved)
            elif start in self.zeros:
                self.begins_empty.add(loop_value.parameter)
            if start in self._dying[op] and start not in reused and self._owned(start):
                reused.add(start)
                if handle:
                    self.moved.add((op, i))
                else:
                    self.origin[loop_value.parameter] = start
            others = (loop_value.result, *loop_value.inside[:-1])
            if handle:
                self.handles.update((loop_value.parameter, *others))
            else:
                self.origin.update(dict.fromkeys(others, loop_value.parameter))

    def _pass_on(self, op: Op, i: int, yielded: Value, moved: set[Value]) -> None:
        """A tape that the next iteration gets by its handle; a copy, if its memory is not its own.

        Tapes of a blocked class are never changed in place, so that they need no memory of their own.
        """
        root = self.root(yielded)
        if self._versions.find(op.results[i]) in self._blocked:
            self.moved.update(((op, i), (op, -1 - i)))
        elif root not in moved and self.nesting.inside(root, op.regions[-1]) and self._owned(yielded):
            moved.add(root)
            self.moved.add((op, -1 - i))
