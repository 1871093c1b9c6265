"""The shape of every value of a kernel, and which branches and local arrays are the same in all lanes.

In: a flat kernel and the number of lanes.   Out: `Shapes`, asked by value.

    %i = thread_id {axis=0}      strided 1        %c = less %i, %n          varying
    %n = load %p                 uniform          if %c {...}               a varying branch
    %a = alloc {count=8}         each lane has its own, or uniform where all that is stored is

A fixpoint: values start uniform and only become less so. Nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.ir.control import decides, merged
from slangrad.ir.core import Function, Op, Region, Value
from slangrad.ir.effects import effect_of
from slangrad.ir.numbers import Number
from slangrad.ir.primitives import PURE
from slangrad.spmd.shapes import (
    THREAD,
    UNIFORM,
    VARYING,
    Shape,
    element_size,
    elementwise,
    is_private,
    is_shared,
    join,
    strided,
)

Results = Callable[[Op, Sequence[Shape]], list[Shape]]


class Shapes:
    """The result of the analysis."""

    def __init__(
        self, function: Function, lanes: int, parameters: Sequence[Shape] = (), results: Results | None = None
    ) -> None:
        """`parameters`: shapes of those of a function. `results`: shapes of what calls give."""
        self.lanes = lanes
        self._results = results
        self._of: dict[Value, Shape] = {}
        self._numbers: dict[Value, Number] = {}
        self._private: set[Value] = set()  # results of allocs that differ from lane to lane
        self._root: dict[Value, Value] = {}  # from an address to the alloc that it came from
        self._changed = True
        for value, shape in zip(function.region.parameters, parameters, strict=True):
            self._of[value] = shape
        while self._changed:
            self._changed = False
            self._region(function.region, uniform_control=True)

    def of(self, value: Value) -> Shape:
        return self._of[value]

    def all_of(self, values: Sequence[Value]) -> list[Shape]:
        return [self._of[v] for v in values]

    def is_private(self, pointer: Value) -> bool:
        return is_private(pointer.type, self._of[pointer])

    def loop_is_uniform(self, op: Op) -> bool:
        """Do all lanes leave the loop at the same time?"""
        return self._of[decides(op)].is_uniform

    # --- the fixpoint

    def _set(self, value: Value, shape: Shape) -> None:
        before = self._of.get(value)
        if before != shape:
            self._of[value] = shape
            self._changed = True

    def _region(self, region: Region, uniform_control: bool) -> None:
        for op in region.ops:
            rule = _RULES.get(op.name)
            if rule is not None:
                rule(self, op, uniform_control)
            else:
                assert effect_of(op) == PURE, f"no shape for {op.name}"
                self._elementwise(op)

    def _elementwise(self, op: Op) -> None:
        def constant(position: int) -> Number | None:
            return self._numbers.get(op.operands[position])

        (result,) = op.results
        value = op.attributes.get("value")
        if op.name == "const" and isinstance(value, (bool, int, float)):
            self._numbers[result] = value
        self._set(result, elementwise(op, self.all_of(op.operands), constant, self.lanes))
        self._follow_address(op)

    def _follow_address(self, op: Op) -> None:
        """offset and member lead on from an alloc; where else an address of one goes cannot be followed."""
        if op.name in ("offset", "member"):
            if op.operands[0] in self._root:
                self._root[op.results[0]] = self._root[op.operands[0]]
        else:
            self._let_go(op.operands)

    def _let_go(self, values: Sequence[Value]) -> None:
        for value in values:
            if value in self._root:
                self._make_private(self._root[value])

    def _make_private(self, alloc: Value) -> None:
        if alloc not in self._private:
            self._private.add(alloc)
            self._changed = True

    # --- memory

    def _alloc(self, op: Op, uniform_control: bool) -> None:
        (result,) = op.results
        if is_shared(result.type):
            self._set(result, UNIFORM)
            return
        self._root[result] = result
        private = result in self._private
        self._set(result, strided(element_size(result.type)) if private else UNIFORM)

    def _variable(self, op: Op, uniform_control: bool) -> None:
        """Each lane has its own, whatever it holds: its address may be told to anybody."""
        (result,) = op.results
        self._let_go(op.operands)
        same = all(s.is_uniform for s in self.all_of(op.operands))
        self._set(result, strided(element_size(result.type)) if same else VARYING)

    def _accumulators(self, op: Op, uniform_control: bool) -> None:
        (result,) = op.results
        self._set(result, strided(element_size(result.type)))

    def _load(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], UNIFORM if self._of[op.operands[0]].is_uniform else VARYING)

    def _load_record(self, op: Op, uniform_control: bool) -> None:
        for result in op.results:
            self._set(result, UNIFORM if self._of[op.operands[0]].is_uniform else VARYING)

    def _store(self, op: Op, uniform_control: bool) -> None:
        address, value = op.operands
        root = self._root.get(address)
        same = uniform_control and self._of[address].is_uniform and self._of[value].is_uniform
        if root is not None and not same:
            self._make_private(root)
        self._let_go([value])

    def _atomic(self, op: Op, uniform_control: bool) -> None:
        self._let_go(op.operands)
        self._set(op.results[0], VARYING)

    def _tape_load(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], VARYING)

    def _tape_new(self, op: Op, uniform_control: bool) -> None:
        """One handle for the wave; its elements have a place for each lane."""
        self._set(op.results[0], UNIFORM)

    def _tape_copy(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], self._of[op.operands[0]])

    def _effect(self, op: Op, uniform_control: bool) -> None:
        self._let_go(op.operands)

    def _in_bounds(self, op: Op, uniform_control: bool) -> None:
        uniform = all(s.is_uniform for s in self.all_of(op.operands))
        self._set(op.results[0], UNIFORM if uniform else VARYING)

    def _is_memory(self, op: Op, uniform_control: bool) -> None:
        self._in_bounds(op, uniform_control)
        self._let_go(op.operands)

    def _thread_id(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], THREAD if op.attributes["axis"] == 0 else UNIFORM)

    # --- waves: lanes that are on together get the same answer

    def _wave_answer(self, op: Op, uniform_control: bool) -> None:
        self._let_go(op.operands)
        self._set(op.results[0], UNIFORM)

    def _wave_scan(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], VARYING)

    def _wave_read(self, op: Op, uniform_control: bool) -> None:
        self._let_go(op.operands)
        self._set(op.results[0], UNIFORM if self._of[op.operands[1]].is_uniform else VARYING)

    def _wave_lane(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], strided(1))

    # --- calls

    def _call(self, op: Op, uniform_control: bool) -> None:
        """Arrays that are passed on differ from lane to lane."""
        assert self._results is not None, "a call in a kernel that was to have none"
        self._let_go(op.operands)
        for result, shape in zip(op.results, self._results(op, self.all_of(op.operands)), strict=True):
            self._set(result, shape)

    # --- control flow

    def _if(self, op: Op, uniform_control: bool) -> None:
        uniform = self._of[op.operands[0]].is_uniform
        for region in op.regions:
            self._region(region, uniform_control and uniform)
            self._let_go(region.yields)
        for result, x, y in merged(op):
            a, b = self._of[x], self._of[y]
            self._set(result, a if x is y else join(a, b) if uniform else VARYING)

    def _for(self, op: Op, uniform_control: bool) -> None:
        count, *start = op.operands
        (region,) = op.regions
        index, *carried = region.parameters
        self._set(index, UNIFORM)  # the number of the iteration, which is the same for the lanes that are on
        self._let_go(start)
        uniform = self._of[count].is_uniform
        together = uniform or not op.attributes.get("reverse")
        self._carry(carried, start, region.yields, together)
        self._region(region, uniform_control and uniform)
        self._let_go(region.yields)
        self._leave(op, carried, region.yields, uniform)

    def _while(self, op: Op, uniform_control: bool) -> None:
        test, region = op.regions
        (condition,) = test.yields
        self._let_go(op.operands)
        uniform = condition not in self._of or self._of[condition].is_uniform
        same = dict(zip(region.parameters, test.parameters, strict=True))
        ends = [same.get(y, y) for y in region.yields]
        self._carry(test.parameters, op.operands, ends, True)
        self._region(test, uniform_control and uniform)
        for inner, outer in zip(region.parameters, test.parameters, strict=True):
            self._set(inner, self._of[outer])
        self._region(region, uniform_control and uniform)
        self._let_go(region.yields)
        self._leave(op, test.parameters, ends, uniform)

    def _carry(
        self, carried: Sequence[Value], start: Sequence[Value], ends: Sequence[Value], together: bool
    ) -> None:
        """A carried value is what it starts as and what the body yields. Where the live lanes began together
        they have made the same iterations, so what is uniform among them may be carried, too.
        """
        for value, first, last in zip(carried, start, ends, strict=True):
            shape = self._of[first]
            if last in self._of and last is not value:
                shape = join(shape, self._of[last]) if together else VARYING
            self._set(value, join(shape, self._of.get(value, shape)))

    def _leave(self, op: Op, carried: Sequence[Value], ends: Sequence[Value], uniform: bool) -> None:
        """Lanes that leave at different times leave with different values."""
        for result, value, last in zip(op.results, carried, ends, strict=True):
            self._set(result, self._of[value] if uniform or last is value else VARYING)


Rule = Callable[[Shapes, Op, bool], None]

_RULES: dict[str, Rule] = {
    "alloc": Shapes._alloc,
    "variable": Shapes._variable,
    "accumulators": Shapes._accumulators,
    "load": Shapes._load,
    "load_record": Shapes._load_record,
    "store": Shapes._store,
    "store_record": Shapes._effect,
    "atomic": Shapes._atomic,
    "tape_new": Shapes._tape_new,
    "tape_copy": Shapes._tape_copy,
    "tape_free": Shapes._effect,
    "tape_load": Shapes._tape_load,
    "tape_store": Shapes._effect,
    "tape_add": Shapes._effect,
    "print": Shapes._effect,
    "fence": Shapes._effect,
    "barrier": Shapes._effect,
    "in_bounds": Shapes._in_bounds,
    "is_memory": Shapes._is_memory,
    "thread_id": Shapes._thread_id,
    "wave_reduce": Shapes._wave_answer,
    "wave_ballot": Shapes._wave_answer,
    "wave_scan": Shapes._wave_scan,
    "wave_read": Shapes._wave_read,
    "wave_lane": Shapes._wave_lane,
    "call": Shapes._call,
    "if": Shapes._if,
    "for": Shapes._for,
    "while": Shapes._while,
}
