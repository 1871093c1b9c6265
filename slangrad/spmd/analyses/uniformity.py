"""The shape of every value of a kernel, and which branches and local arrays are the same in all lanes.

In: a flat kernel and the number of lanes.   Out: `Shapes`, asked by value.

    %i = thread_id {axis=0}      strided 1        %c = less %i, %n          varying
    %n = load %p                 uniform          if %c {...}               a varying branch
    %a = alloc {count=8}         each lane has its own; uniform if all stored values are

A fixpoint: values start uniform and only become less so. Nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.ir.analyses.addresses import NonEscapingMemory
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.numbers import Number
from slangrad.ir.ops.control import carried, decides, merged
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.effects import effect_of
from slangrad.ir.ops.primitives import PURE
from slangrad.spmd.analyses.shapes import (
    THREAD,
    UNIFORM,
    VARYING,
    LaneShape,
    elementwise,
    is_private,
    is_shared,
    join,
    strided,
)

Results = Callable[[Op, Sequence[LaneShape]], list[LaneShape]]


class Shapes:
    """The result of the analysis."""

    def __init__(
        self,
        function: Function,
        lanes: int,
        parameters: Sequence[LaneShape] = (),
        results: Results | None = None,
    ) -> None:
        """`parameters`: shapes of a function's parameters. `results`: shapes of the results of calls."""
        self.lanes = lanes
        self._results = results
        self._of: dict[Value, LaneShape] = {}
        self._numbers: dict[Value, Number] = {}
        self._memory = NonEscapingMemory(function.region)
        self._private: set[Value] = set()  # allocs in it that differ from lane to lane; all others do
        self._changed = True
        self._news: set[Value] = set()  # values that changed in this sweep
        self._before: set[Value] = set()  # in the one before
        for value, shape in zip(function.region.parameters, parameters, strict=True):
            self._of[value] = shape
        while self._changed:
            self._changed, self._news, self._before = False, set(), self._news
            self._region(function.region, uniform_control=True)

    def of(self, value: Value) -> LaneShape:
        return self._of[value]

    def all_of(self, values: Sequence[Value]) -> list[LaneShape]:
        return [self._of[v] for v in values]

    def is_private(self, pointer: Value) -> bool:
        return is_private(pointer.type, self._of[pointer])

    def loop_is_uniform(self, op: Op) -> bool:
        """Do all lanes leave the loop at the same time?"""
        return self._of[decides(op)].is_uniform

    # --- the fixpoint

    def _set(self, value: Value, shape: LaneShape) -> None:
        before = self._of.get(value)
        if before != shape:
            self._of[value] = shape
            self._news.add(value)
            self._changed = True

    def _region(self, region: Region, uniform_control: bool) -> None:
        for op in region.ops:
            if op.name in _RULES:
                _RULES[op.name](self, op, uniform_control)
            elif op.name in _GIVEN:
                self._set(op.results[0], _GIVEN[op.name])
            elif op.results and self._is_to_do(op):
                assert effect_of(op) == PURE, f"no shape for {op.name}"
                self._elementwise(op)

    def _is_to_do(self, op: Op) -> bool:
        if op.results[0] not in self._of:
            return True
        return not (self._news.isdisjoint(op.operands) and self._before.isdisjoint(op.operands))

    def _elementwise(self, op: Op) -> None:
        def constant(position: int) -> Number | None:
            return self._numbers.get(op.operands[position])

        (result,) = op.results
        value = op.attributes.get("value")
        if op.name == "const" and isinstance(value, (bool, int, float)):
            self._numbers[result] = value
        self._set(result, elementwise(op, self.all_of(op.operands), constant, self.lanes))

    # --- memory

    def _alloc(self, op: Op, uniform_control: bool) -> None:
        (result,) = op.results
        if is_shared(result.type):
            self._set(result, UNIFORM)
            return
        private = result in self._private or self._memory.of(result) is None
        self._set(result, strided(element_size(result.type)) if private else UNIFORM)

    def _variable(self, op: Op, uniform_control: bool) -> None:
        """Each lane has its own memory in any case, because its address may go to other threads."""
        (result,) = op.results
        same = all(s.is_uniform for s in self.all_of(op.operands))
        self._set(result, strided(element_size(result.type)) if same else VARYING)

    def _accumulators(self, op: Op, uniform_control: bool) -> None:
        (result,) = op.results
        self._set(result, strided(element_size(result.type)))

    def _same_where_asked_the_same(self, op: Op, uniform_control: bool) -> None:
        shape = UNIFORM if all(s.is_uniform for s in self.all_of(op.operands)) else VARYING
        for result in op.results:
            self._set(result, shape)

    def _store(self, op: Op, uniform_control: bool) -> None:
        address, value = op.operands
        memory = self._memory.of(address)
        same = uniform_control and self._of[address].is_uniform and self._of[value].is_uniform
        if memory is not None and memory not in self._private and not same:
            self._private.add(memory)
            self._changed = True

    def _tape_copy(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], self._of[op.operands[0]])

    def _thread_id(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], THREAD if op.attributes["axis"] == 0 else UNIFORM)

    def _wave_read(self, op: Op, uniform_control: bool) -> None:
        self._set(op.results[0], UNIFORM if self._of[op.operands[1]].is_uniform else VARYING)

    # --- calls

    def _call(self, op: Op, uniform_control: bool) -> None:
        """Arrays that are passed on differ from lane to lane."""
        assert self._results is not None, "a call in a kernel that was to have none"
        for result, shape in zip(op.results, self._results(op, self.all_of(op.operands)), strict=True):
            self._set(result, shape)

    # --- control flow

    def _if(self, op: Op, uniform_control: bool) -> None:
        uniform = self._of[op.operands[0]].is_uniform
        for region in op.regions:
            self._region(region, uniform_control and uniform)
        for result, x, y in merged(op):
            a, b = self._of[x], self._of[y]
            self._set(result, a if x is y else join(a, b) if uniform else VARYING)

    def _loop(self, op: Op, uniform_control: bool) -> None:
        """A carried value joins its start and the yield of the body. If the live lanes began together they have run
        the same iterations, so a value that is uniform among them may be carried, too. Lanes that leave at
        different times leave with different values.
        """
        values, condition = carried(op), decides(op)
        uniform = condition not in self._of or self._of[condition].is_uniform
        together = uniform or not op.attributes.get("reverse")
        first = {loop_value.parameter: loop_value.inside[0] for loop_value in values}
        ends = [first.get(loop_value.yielded, loop_value.yielded) for loop_value in values]
        if op.name == "for":  # the number of the iteration, which is the same for the lanes that are on
            self._set(op.regions[0].parameters[0], UNIFORM)
        for (start, (value, *_), _, _), end in zip(values, ends, strict=True):
            shape = self._of[start]
            if end in self._of and end is not value:
                shape = join(shape, self._of[end]) if together else VARYING
            self._set(value, join(shape, self._of.get(value, shape)))
        for inner, value in first.items():
            self._set(inner, self._of[value])
        for region in op.regions:
            self._region(region, uniform_control and uniform)
        for loop_value, end in zip(values, ends, strict=True):
            value = loop_value.inside[0]
            self._set(loop_value.result, self._of[value] if uniform or end is value else VARYING)


Rule = Callable[[Shapes, Op, bool], None]

_RULES: dict[str, Rule] = {
    **dict.fromkeys(("load", "load_record", "in_bounds", "is_memory"), Shapes._same_where_asked_the_same),
    "alloc": Shapes._alloc,
    "variable": Shapes._variable,
    "accumulators": Shapes._accumulators,
    "store": Shapes._store,
    "tape_copy": Shapes._tape_copy,
    "thread_id": Shapes._thread_id,
    "wave_read": Shapes._wave_read,
    "call": Shapes._call,
    "if": Shapes._if,
    "for": Shapes._loop,
    "while": Shapes._loop,
}

# Lanes that are on together get the same answer of a wave, and have one handle for a tape, with a place for each.
_GIVEN: dict[str, LaneShape] = {
    **dict.fromkeys(("tape_new", "wave_reduce", "wave_ballot"), UNIFORM),
    **dict.fromkeys(("atomic", "tape_load", "wave_scan"), VARYING),
    "wave_lane": strided(1),
}
