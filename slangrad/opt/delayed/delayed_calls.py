"""A kernel whose float adds are delayed, and the functions that it calls: their adds go to blocks.

    kernel   %p = offset %gradients, %j                     %b = accumulators {block=0, count=64}
             %old = atomic %p, %v {kind="add"}              %old = atomic (offset %b, %j), %v {kind="add", alone=true}
             call @f %gradients                             call @f.delayed.0 %gradients, %b, %base
    f        %p = offset %gradients, %k                     %i = (%p - %base) / 4
             %old = atomic %p, %v {kind="add"}              %old = atomic (offset %b, %i), %v {kind="add", alone=true}

A function gets the starts of the blocks to which it or its callees add, and the addresses of their first elements.
Calls that lead to blocks of the same kinds share a version of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import I64, Pointer, pointer
from slangrad.ir.ops.core import Attributes, Function, Op, Region, Value
from slangrad.opt.analyses.reach import Access, Survey
from slangrad.opt.delayed.delayed_sums import SumBlock, SumPlan, partials_of_batch

Target = tuple[int, int]  # the number of a block, and which of its places an add is for
Targets = tuple[Target, ...]  # of one add, in each survey of a version


@dataclass(slots=True, eq=False)
class _Version:
    """A function as some surveys found it called. `targets`: of its adds, each once."""

    name: str
    surveys: list[Survey] = field(default_factory=list)
    targets: list[Targets] = field(default_factory=list)


def add_to_blocks(plan: SumPlan, surveys: Sequence[Survey], uniform: Set[Op] = frozenset()) -> list[Function]:
    """The functions that were surveyed, each after those that it calls; so the kernel is the last one. `uniform`: adds
    that are marked so."""
    targets = {
        add: (number, block.numbers.get(add, 0))
        for number, block in enumerate(plan.blocks)
        for add in block.adds
    }
    versions: dict[Survey, _Version] = {}
    versions_made: dict[object, _Version] = {}
    for survey in surveys:
        name = survey.function.name
        kinds = [_kind(plan, targets.get(access)) for access in survey.own.values()]
        key = name, *kinds, *(versions[callee] for callee in survey.called.values())
        new = _Version(name if survey is surveys[-1] else f"{name}.delayed.{len(versions_made)}")
        versions[survey] = versions_made.setdefault(key, new)
        versions[survey].surveys.append(survey)
    return [_Delaying(plan, targets, versions, version, uniform).made() for version in versions_made.values()]


def _kind(plan: SumPlan, target: Target | None) -> tuple[bool, ...]:
    """The facts that the code of an add depends on in a callee."""
    if target is None:
        return ()
    block = plan.blocks[target[0]]
    return block.accumulators > 0, bool(block.places), block.own is not None


class _Delaying(Rebuild):
    """One version, after those that it calls. `given`: its parameters for the blocks that it adds to."""

    def __init__(
        self,
        plan: SumPlan,
        target: Mapping[Access, Target],
        versions: Mapping[Survey, _Version],
        version: _Version,
        uniform: Set[Op],
    ) -> None:
        super().__init__({"atomic": self._atomic, "call": self._call})
        self._plan, self._target, self._versions, self._version = plan, target, versions, version
        self._survey = version.surveys[0]
        self._uniform = uniform
        self._parameters: dict[Targets, tuple[Value, Value]] = {}
        self._tables = {add.op: number for number, table in enumerate(plan.tables) for add in table.adds}

    def made(self) -> Function:
        function, version, b = self._survey.function, self._version, Builder(span=self._survey.function.span)
        called = [op for op in (*self._survey.own, *self._survey.called) if op.name in ("atomic", "call")]
        version.targets = list(dict.fromkeys(targets for op in called for targets in self._targets(op)))
        if version.name == function.name:
            # Before the loops, as they are the same for all waves.
            for number, block in enumerate(self._plan.blocks):
                _start(b, number, block)
        else:
            for targets in version.targets:
                block = self._plan.blocks[targets[0][0]]
                self._parameters[targets] = Value(_start_type(block), "block"), Value(I64, "base")
        region = self.region(b, function.region)
        extra = [value for both in self._parameters.values() for value in both]
        delaying = function.on(Region((*region.parameters, *extra), region.ops, region.yields))
        return replace(delaying, name=version.name)

    def _targets(self, op: Op) -> list[Targets]:
        """Of an atomic or a call."""
        surveys = self._version.surveys
        if op.name == "call":
            callees = [survey.called[op] for survey in surveys]
            callee = self._versions[callees[0]]
            survey_indices = [callee.surveys.index(version) for version in callees]
            return [tuple(targets[i] for i in survey_indices) for targets in callee.targets]
        if self._survey.own.get(op) not in self._target:
            return []
        return [tuple(self._target[survey.own[op]] for survey in surveys)]

    # --- rules

    def _call(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        starts = [self._start(b, targets) for targets in self._targets(op)]
        operands = *self.values(op.operands), *(value for both in starts for value in both)
        callee = self._versions[self._survey.called[op]].name
        return b.call(callee, operands, [r.type for r in op.results], op.attributes)

    def _start(self, b: Builder, targets: Targets) -> tuple[Value, Value]:
        """Where a block begins, and the address of its first element. Of places each is a block of its own here."""
        if targets in self._parameters:
            return self._parameters[targets]
        number, place = targets[0]
        start = _start(b, number, self._plan.blocks[number])
        return b.emit("offset", start, b.constant(I64, place)), _base(b, number)

    def _atomic(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        address, value = self.values(op.operands)
        for targets in self._targets(op):
            number, _ = targets[0]
            block = self._plan.blocks[number]
            start = self._parameters[targets][0] if targets in self._parameters else _start(b, number, block)
            place = b.emit("offset", start, self._element(b, targets, self._survey.own[op], address))
            wide = value if block.element is block.sums else b.emit("convert", value, type=block.sums)
            ownership: Attributes = {} if block.own is None else {"own": True}
            b.primitive("atomic", (place, wide), block.sums, {"kind": "add", "alone": True, **ownership})
            return (b.zero(block.element),)  # the result is not used
        attributes = op.attributes
        if op in self._uniform:
            attributes = {**attributes, "uniform": True}
        if op in self._tables:
            attributes = {**attributes, "table": self._tables[op]}
        return (b.primitive("atomic", (address, value), op.results[0].type, attributes),)

    # --- which element of its block an add is for

    def _element(self, b: Builder, targets: Targets, access: Access, address: Value) -> Value:
        """By the steps that lead there, or by how far it is from the first."""
        number, _ = targets[0]
        place, block, is_given = access.place, self._plan.blocks[number], targets in self._parameters
        assert place is not None
        if block.places:
            return b.constant(I64, 0 if is_given else block.numbers[access])
        size, inside = block.element.size, access.survey.defined_in_choices(place)
        is_known = place.root not in inside and not inside.intersection(index for index, _ in place.steps)
        exact = is_known and all(bytes % size == 0 for _, bytes in place.steps)
        moved = block.accumulators > 0 and (is_given or access.survey.is_given(place))
        if not exact or moved or (place.distance - block.first) % size:
            return self._before(b, targets, address)
        if block.own is None and len(place.steps) == 1 and place.steps[0][1] == size:  # as narrow as it is
            index = self.value(place.steps[0][0])
        else:
            index = b.zero(I64)
            for step, bytes in place.steps:
                wide = b.emit("convert", self.value(step), type=I64)
                index = b.emit("add", index, b.emit("mul", wide, b.constant(I64, bytes // size)))
        if block.accumulators:
            return b.emit("add", index, b.constant(index.type, (place.distance - block.first) // size))
        before = self._before(b, targets, self.value(place.root))
        start = b.emit("add", before, b.constant(I64, place.distance // size))
        return b.emit("add", index, b.emit("convert", start, type=index.type))

    def _before(self, b: Builder, targets: Targets, address: Value) -> Value:
        """How many elements of the block are before an address."""
        number, _ = targets[0]
        base = self._parameters[targets][1] if targets in self._parameters else _base(b, number)
        distance = b.emit("sub", b.emit("bitcast", address, type=I64), base)
        size = self._plan.blocks[number].element.size
        return b.emit("shr", distance, b.constant(I64, size.bit_length() - 1))


# --- where blocks begin


def _start_type(block: SumBlock) -> Pointer:
    return pointer(block.sums, "local" if block.accumulators else "global")


def _start(b: Builder, number: int, block: SumBlock) -> Value:
    if block.accumulators:
        return b.emit("accumulators", type=_start_type(block), block=number, count=block.accumulators)
    offset = b.emit("planned", type=I64, index=SumPlan.offset_index(number))
    at = b.emit("add", partials_of_batch(b), offset)
    if block.own is not None:
        at = b.emit("select", b.emit("less", offset, b.constant(I64, 0)), _base(b, number), at)
    return b.emit("bitcast", at, type=_start_type(block))


def _base(b: Builder, number: int) -> Value:
    """The address of a block's first element."""
    return b.emit("planned", type=I64, index=SumPlan.base_index(number))
