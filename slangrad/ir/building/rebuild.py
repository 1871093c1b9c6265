"""The walk over regions under every pass: new code is built from old, op by op.

    rules = {"load": widen_load}
    Rebuild(rules).function(old)     every `load` through widen_load, all else copied with mapped operands

A rule gets the walk (with the map from old values to new), the builder to emit into, and the old op. It returns the
new values of the op's results. In a function that is rebuilt as a whole, an op with unchanged operands stays the
same object, and so does an unchanged function. So a pass that changes little costs little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import compress
from typing import Generic, TypeVar

from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.ops.core import Function, Op, Region, Value, alike, walk
from slangrad.ir.ops.effects import primitive_effect
from slangrad.ir.ops.primitives import PRIMITIVES, PURE

Rule = Callable[["Rebuild", Builder, Op], tuple[Value, ...]]


class Rebuild:
    """One walk. `new` maps old values to new ones and is shared by all regions, as values are unique."""

    def __init__(self, rules: dict[str, Rule] | None = None, default: Rule | None = None) -> None:
        self.rules = rules or {}
        self.default = default or copy_op
        self.new: dict[Value, Value] = {}
        self._site: Span | None = None
        self._is_whole = False  # a function is rebuilt, whose ops and values may stay; else all are made anew
        self._silent: set[Op] = set()  # ops without results that are in the new function
        self._placed: dict[int, Span] = {}  # places in code that is being inlined, by identity

    @contextmanager
    def called_from(self, site: Span | None) -> Iterator[None]:
        """A context for code from a function that is called there."""
        outer = self._site, self._placed
        self._site, self._placed = site, {}
        yield
        self._site, self._placed = outer

    def _place(self, span: Span) -> Span:
        assert self._site is not None
        key = id(span)
        if key not in self._placed:
            self._placed[key] = span.called_from(self._site)
        return self._placed[key]

    def function(self, function: Function) -> Function:
        """The function rebuilt, under its name and with parameters of the same types; itself if nothing changes."""
        self._is_whole = True
        region = self.region(Builder(span=function.span), function.region)
        self._is_whole = False
        return function if same_region(region, function.region) else replace(function, region=region)

    def region(self, b: Builder, region: Region) -> Region:
        """The region rebuilt into `b`, which must be empty, with new parameters of the same types."""
        parameters = self.parameters(region.parameters)
        return Region(parameters, b.ops, self.inline(b, region))

    def parameters(self, old: Sequence[Value]) -> tuple[Value, ...]:
        """Parameters of a new region, of the same types and names."""
        is_first = self._is_whole and self.new.keys().isdisjoint(old)
        new = tuple(old) if is_first else alike(old)
        self.new.update(zip(old, new, strict=True))
        return new

    def control(
        self,
        b: Builder,
        op: Op,
        operands: tuple[Value, ...],
        regions: tuple[Region, ...],
        results: tuple[Value, ...] | None = None,
    ) -> tuple[Value, ...]:
        """A branch or loop on operands and regions that are rebuilt; `results`: those of the op that are left."""
        results = op.results if results is None else results
        types = [v.type for v in regions[-1].yields]
        if [v.type for v in results] != types or not self.are_free(b, results):
            return b.control(op.name, operands, regions, op.attributes)
        if (
            results == op.results
            and all(map(same_region, regions, op.regions))
            and self.stays(b, op, operands)
        ):
            return b.again(op)
        return b.several(op.name, operands, types, regions, op.attributes, results)

    def are_free(self, b: Builder, results: Sequence[Value]) -> bool:
        """Whether an op of the new function may define old values, because no other op does. Then code that uses
        them stays."""
        return self._is_whole and self._site is None and b.makers.keys().isdisjoint(results)

    def stays(self, b: Builder, op: Op, operands: tuple[Value, ...]) -> bool:
        """Whether the op can be used unchanged; the caller then uses it."""
        if operands != op.operands or op in self._silent or not self.are_free(b, op.results):
            return False
        if not op.results:
            self._silent.add(op)
        return True

    def inline(self, b: Builder, region: Region) -> tuple[Value, ...]:
        """Emits the region's ops into `b`; its parameters must be mapped already. Returns what it yields."""
        for op in region.ops:
            self.op(b, op)
        return self.values(region.yields)

    def extended(
        self,
        b: Builder,
        op: Op,
        starts: Sequence[Value],
        enter: Callable[[Builder, Region, tuple[Value, ...]], None],
        leave: Callable[[Builder, Region], Iterable[Value]],
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """A branch or loop with more results: `leave` returns them at the end of each arm, or of a loop's body. A
        loop carries them on from `starts`. `enter` begins each region with the carried values, in an arm with the
        starts. Returns the old results, and the new ones.
        """
        is_loop, starts, regions = op.name != "if", tuple(starts), []
        for region in op.regions:
            inner, more = b.nested(), alike(starts) if is_loop else ()
            parameters = (*self.parameters(region.parameters), *more)
            enter(inner, region, more if is_loop else starts)
            yields = self.inline(inner, region)
            tests = op.name == "while" and region is op.regions[0]
            yields += () if tests else tuple(leave(inner, region))
            regions.append(Region(parameters, inner.ops, yields))
        operands = (*self.values(op.operands), *(starts if is_loop else ()))
        results = (*op.results, *alike(starts))
        all_results, count = self.control(b, op, operands, tuple(regions), results), len(op.results)
        return all_results[:count], all_results[count:]

    def reduced(
        self, b: Builder, op: Op, kept: Sequence[bool], enter: Callable[[Region], None] = lambda region: None
    ) -> Iterator[Value | None]:
        """A branch or loop without some of its results and their carried values. Returns the other results, with
        None for the removed ones.

        `enter` gets each region of a loop when its new parameters are there.
        """
        carries, regions = op.name != "if", []
        for region in op.regions:
            inner, first = b.nested(), len(region.parameters) - (len(kept) if carries else 0)
            head, rest = region.parameters[:first], region.parameters[first:]
            parameters = self.parameters((*head, *(compress(rest, kept))))
            enter(region)
            for inner_op in region.ops:
                self.op(inner, inner_op)
            tests = op.name == "while" and region is op.regions[0]
            yields = region.yields if tests else compress(region.yields, kept)
            regions.append(Region(parameters, inner.ops, self.values(yields)))
        first = len(op.operands) - (len(kept) if carries else 0)
        operands = self.values((*op.operands[:first], *compress(op.operands[first:], kept)))
        results = iter(self.control(b, op, operands, tuple(regions), tuple(compress(op.results, kept))))
        return (next(results) if flag else None for flag in kept)

    def op(self, b: Builder, op: Op) -> None:
        if self._is_untouched(b, op):
            self.new[op.results[0]] = b.again(op)[0]
            return
        outer_span, last = b.span, b.ops[-1:]
        if op.span is not None:
            b.span = op.span if self._site is None else self._place(op.span)
        results = self.rules.get(op.name, self.default)(self, b, op)
        b.span = outer_span
        for old, value in zip(op.results, results, strict=True):
            self.new[old] = value
            if old.hint and not value.hint and b.ops[-1:] != last:  # others keep the name that they have
                value.hint = old.hint

    def _is_untouched(self, b: Builder, op: Op) -> bool:
        """Whether an op certainly stays: a fast path for most ops of most passes."""
        if op.key is None or op.name in self.rules or self.default is not copy_op:
            return False
        if not self.are_free(b, op.results):
            return False
        new = self.new
        return tuple([new[v] for v in op.operands]) == op.operands

    def value(self, old: Value) -> Value:
        return self.new[old]

    def values(self, old: Iterable[Value]) -> tuple[Value, ...]:
        new = self.new
        return tuple([new[v] for v in old])


K = TypeVar("K")
V = TypeVar("V")


class Holding(Rebuild, ABC, Generic[K]):
    """A walk along which variables of any kind hold values: `held`, at the point that the walk has come to.

    A branch gives what its arms change, and a loop carries what its body changes, so that variables become values.
    """

    def __init__(self, rules: dict[str, Rule]) -> None:
        super().__init__({**rules, **dict.fromkeys(("if", "for", "while"), self._flow)})
        self.held: dict[K, Value] = {}

    @abstractmethod
    def changed(self, op: Op) -> list[K]:
        """The variables from outside of a branch or loop that it changes."""

    def _flow(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        keys, before = self.changed(op), self.held

        def enter(inner: Builder, region: Region, values: Sequence[Value]) -> None:
            self.held = {**before, **dict(zip(keys, values, strict=True))}

        leave = lambda inner, region: [self.held[key] for key in keys]
        results, values = self.extended(b, op, [before[key] for key in keys], enter, leave)
        self.held = {**before, **dict(zip(keys, values, strict=True))}
        return results


@contextmanager
def forgetting(table: dict[K, V]) -> Iterator[None]:
    """Entries that are added meanwhile are removed again. That takes time for these alone."""
    size = len(table)
    yield
    while len(table) > size:
        table.popitem()


def copy_op(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    """The same op on the mapped operands."""
    operands = walk.values(op.operands)
    if op.key is not None:
        if walk.stays(b, op, operands):
            return b.again(op)
        (old,) = op.results
        again = PRIMITIVES[op.name].primal is not None and walk.are_free(b, op.results)
        return (b.primitive(op.name, operands, old.type, op.attributes, old if again else None),)
    if op.regions:
        return walk.control(b, op, operands, tuple([walk.region(b.nested(), r) for r in op.regions]))
    is_primitive = op.name in PRIMITIVES
    is_settled = not is_primitive or primitive_effect(op.name, operands) != PURE
    if is_settled and walk.stays(b, op, operands):
        return b.again(op)
    if not op.results and is_primitive:
        b.effect(op.name, *operands, **op.attributes)
        return ()
    if is_primitive:
        return (b.primitive(op.name, operands, op.results[0].type, op.attributes),)
    return b.several(op.name, operands, [r.type for r in op.results], (), op.attributes)


def same_region(x: Region, y: Region) -> bool:
    """Whether two regions hold the same objects."""
    return x.parameters == y.parameters and x.yields == y.yields and x.ops == y.ops


def defined_in(region: Region) -> set[Value]:
    """All values made in a region or in the regions within it, parameters included."""
    values = set(region.parameters)
    for op in walk(region):
        values.update(op.results)
        for inner in op.regions:
            values.update(inner.parameters)
    return values


def free_values(*regions: Region) -> list[Value]:
    """Free values: the regions use them but do not make them. Each once, in order of first use."""
    return FreeValues().of(*regions)


class Nesting:
    """The positions of definitions, for many lookups in a function: one walk, then each lookup is two
    comparisons."""

    def __init__(self, region: Region) -> None:
        self._number: dict[Value, int] = {}
        self._range: dict[Region, range] = {}
        self._count(region)

    def inside(self, value: Value, *regions: Region) -> bool:
        """Whether one of the regions or the regions within it makes the value; its parameters are made there, too."""
        number = self._number[value]
        return any(number in self._range[region] for region in regions)

    def _count(self, region: Region) -> None:
        first = len(self._number)
        self._add(region.parameters)
        for op in region.ops:
            for inner in op.regions:
                self._count(inner)
            self._add(op.results)
        self._range[region] = range(first, len(self._number))

    def _add(self, values: Iterable[Value]) -> None:
        for value in values:
            self._number[value] = len(self._number)


class FreeValues:
    """Values that regions use but do not make; the result for a region is reused for the regions around it."""

    def __init__(self) -> None:
        self._of: dict[Region, tuple[Value, ...]] = {}

    def of(self, *regions: Region) -> list[Value]:
        """Each once, in order of first use."""
        return list(dict.fromkeys(v for region in regions for v in self._find(region)))

    def _find(self, region: Region) -> tuple[Value, ...]:
        if region not in self._of:
            inside = set(region.parameters)
            used: dict[Value, None] = {}
            for op in region.ops:
                used.update(dict.fromkeys(op.operands))
                used.update(dict.fromkeys(self.of(*op.regions)))
                inside.update(op.results)
            used.update(dict.fromkeys(region.yields))
            self._of[region] = tuple(v for v in used if v not in inside)
        return self._of[region]


def count_uses(region: Region) -> Counter[Value]:
    """How often each value is an operand or is yielded, in the region and within."""
    uses = Counter(region.yields)
    for op in walk(region):
        uses.update(op.operands)
        for inner in op.regions:
            uses.update(inner.yields)
    return uses
