"""Short arrays that are only indexed by constants become scalars.

    %a = make %x, %y : [2 x f32]                            (nothing: %x and %y are the elements)
    %b = for %n, %a : [2 x f32] (%i: i32, %p: [2 x f32])    %b0, %b1 = for %n, %x, %y : f32, f32 (...)

In: scalars and arrays of one dimension, as aggregates.py leaves them. Versions of an array are looked at
together: one dynamic index keeps all of them in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slangrad.flatten.versions import UPDATES, ArrayVersions, groups
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import Array, Type, components
from slangrad.ir.ops.core import Function, Op, Region, Value, walk

LONGEST = 64
DYNAMIC = frozenset({"index", "set_index", "add_index"})


def split_small_arrays(function: Function) -> Function:
    """The function with such arrays as scalars."""
    return _SplitArrays(_KeptArrays(function)).function(function)


class _KeptArrays:
    """Which arrays stay arrays, by class of versions."""

    def __init__(self, function: Function) -> None:
        self._versions = ArrayVersions(function)
        self._kept: set[Value] = set()
        self._keep_if((*function.region.parameters, *function.region.yields), True)
        for op in walk(function.region):
            for group in groups(op):
                self._keep_if(group, _is_long(group[0].type))
            if op.name in DYNAMIC:
                self._keep_if((op.operands[0], *op.results[:1]), True)
            elif op.name not in ("get", "zero", "make", *UPDATES) and not op.regions:
                self._keep_if((*op.operands, *op.results), True)

    def _keep_if(self, values: Iterable[Value], wanted: bool) -> None:
        if wanted:
            arrays = (v for v in values if isinstance(v.type, Array) and v not in self._versions.zeros)
            self._kept.update(map(self._versions.find, arrays))

    def splits(self, value: Value) -> bool:
        """Whether a value is an array that is split; a zero follows the array in which it is used."""
        if not isinstance(value.type, Array) or _is_long(value.type):
            return False
        return self._versions.find(value) not in self._kept

    def is_zero(self, value: Value) -> bool:
        return value in self._versions.zeros


def _is_long(t: Type) -> bool:
    return isinstance(t, Array) and (t.length is None or t.length > LONGEST)


class _SplitArrays(Rebuild):
    """`_parts` maps old arrays that are split to their elements; all other values are in the walk's map."""

    def __init__(self, kept: _KeptArrays) -> None:
        super().__init__()
        self._kept = kept
        self._parts: dict[Value, tuple[Value, ...]] = {}

    def op(self, b: Builder, op: Op) -> None:
        outer, b.span = b.span, op.span or b.span
        if op.regions:
            self._define(op.results, self._control(b, op))
        elif op.name == "get" and self._kept.splits(op.operands[0]):
            self.new[op.results[0]] = self._elements(b, op.operands[0], op.operands[0])[
                op.attributes["index"]
            ]
        elif op.name in ("make", "set") and self._kept.splits(op.results[0]):
            self._parts[op.results[0]] = self._scalars(b, op)
        else:
            super().op(b, op)
        b.span = outer

    def _scalars(self, b: Builder, op: Op) -> tuple[Value, ...]:
        if op.name == "make":
            return self.values(op.operands)
        whole, index = self._elements(b, op.operands[0], op.results[0]), op.attributes["index"]
        return (*whole[:index], self.value(op.operands[1]), *whole[index + 1 :])

    def _elements(self, b: Builder, old: Value, place: Value) -> tuple[Value, ...]:
        """The parts of an old value where it becomes `place`: its elements, or itself."""
        if not self._kept.splits(place):
            return (self.value(old),)
        if self._kept.is_zero(old):
            return tuple(b.zero(t) for t in components(old.type))
        return self._parts[old]

    def _all(self, b: Builder, old: Iterable[Value], places: Iterable[Value]) -> tuple[Value, ...]:
        pairs = zip(old, places, strict=True)
        return tuple(x for v, place in pairs for x in self._elements(b, v, place))

    def _made_of(self, old: Iterable[Value]) -> tuple[Value, ...]:
        """New values for the elements of split arrays; all other values stay the same."""
        parts = (map(Value, components(v.type)) if self._kept.splits(v) else (v,) for v in old)
        return tuple(part for parts_of_one in parts for part in parts_of_one)

    def _define(self, old: Iterable[Value], leaves: Sequence[Value]) -> None:
        """Old values from their elements, all in a row."""
        for value in old:
            count = len(list(components(value.type))) if self._kept.splits(value) else 1
            for new in leaves[:count]:
                new.hint = new.hint or value.hint
            if self._kept.splits(value):
                self._parts[value] = tuple(leaves[:count])
            else:
                (self.new[value],) = leaves[:count]
            leaves = leaves[count:]

    # --- control flow

    def _control(self, b: Builder, op: Op) -> tuple[Value, ...]:
        places = op.operands if op.name == "if" else op.regions[-1].parameters
        starts = self._all(b, op.operands, places)
        tests = op.regions[:1] if op.name == "while" else ()
        regions = tuple(
            self._inner(b.nested(), r, r.yields if r in tests else op.results) for r in op.regions
        )
        return b.several(op.name, starts, (), regions, op.attributes, self._made_of(op.results))

    def _inner(self, b: Builder, region: Region, places: Sequence[Value]) -> Region:
        """A region whose yields become `places`."""
        parameters = self._made_of(region.parameters)
        self._define(region.parameters, parameters)
        for op in region.ops:
            self.op(b, op)
        return Region(parameters, b.ops, self._all(b, region.yields, places))
