"""Components of a struct in memory that are loaded or stored together, as one op.

    %px = member %p {index=0}        %x, %y, %z = load_record %p
    %x = load %px
    ...                              memory x0 y0 z0 x1 y1 z1 ... is read in order and sorted in registers,
    %z = load %pz                    where the structs of the lanes follow each other

A load moves up to the first one of its record, a store down to the last; nothing in between may touch
memory in a way that could tell. Which lanes are neighbors is decided when the op is widened. One-lane
kernels keep scalar ops.

An add to one component waits until the last component of its record. Then each lane adds to all of them at once
(`adjacent_adds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import gcd

from slangrad.ir.analyses.addresses import MEMBERS, path_of
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import BOOL, Pointer, Scalar, Type, component, is_aggregate, pointer_of
from slangrad.ir.ops.core import Function, MadeBy, Op, Region, Value, number_of
from slangrad.ir.ops.effects import effect_of
from slangrad.ir.ops.primitives import PURE, WRITE
from slangrad.ir.ops.type_rules import scalar_type

MOST_COMPONENTS = 4
MOST_TERMS = 16  # of an index, so that it is found in few steps what two indices differ by


@dataclass(slots=True)
class RecordGroup:
    """Loads or stores of one record: their ops, and by component the loaded or stored values."""

    root: Value
    ops: list[Op] = field(default_factory=list)
    values: dict[int, Value] = field(default_factory=dict)


def join_records(kernel: Function) -> Function:
    return replace(kernel, region=_Joining(kernel).region(kernel.region))


def components_of(record: Type) -> tuple[Scalar, ...] | None:
    """The scalars of a record, if they follow each other without gaps and are few, of one size."""
    scalars = _leaves(record)
    if scalars is None or not 2 <= len(scalars) <= MOST_COMPONENTS or BOOL in scalars:
        return None
    size = scalars[0].size
    dense = all(s.size == size for s in scalars) and layout_of(record).size == size * len(scalars)
    return tuple(scalars) if dense else None


def _leaves(t: Type) -> list[Scalar] | None:
    if isinstance(t, Scalar):
        return [t]
    if not is_aggregate(t):
        return None
    scalars: list[Scalar] = []
    for index in range(len(layout_of(t).offsets)):
        inner = _leaves(component(t, index))
        if inner is None or len(scalars) > MOST_COMPONENTS:
            return None
        scalars += inner
    return scalars


class _Joining:
    """Walks the regions of a kernel; ops are kept or replaced, values stay the same."""

    def __init__(self, kernel: Function) -> None:
        self._made_by = kernel.region.makers.get

    def region(self, region: Region) -> Region:
        ops = [self._inner(op) for op in region.ops]
        replaced = self._join(ops)
        joined = [op for old in ops for op in replaced.get(old, (old,))]
        return Region(region.parameters, joined, region.yields)

    def _inner(self, op: Op) -> Op:
        if not op.regions:
            return op
        return replace(op, regions=tuple(self.region(r) for r in op.regions))

    def _join(self, ops: list[Op]) -> dict[Op, tuple[Op, ...]]:
        """The replacements of ops that are part of a group."""
        replaced: dict[Op, tuple[Op, ...]] = {}
        loads: dict[Value, RecordGroup] = {}
        stores: RecordGroup | None = None
        for op in ops:
            place = self._place(op)
            if (
                stores is not None
                and effect_of(op) != PURE
                and not (op.name == "store" and place is not None)
            ):
                stores = None
            if op.name == "load" and place is not None:
                _add(loads, place, op, op.results[0])
            elif effect_of(op) == WRITE:
                self._finish_loads(loads, replaced)
            if op.name == "store" and place is not None:
                stores = self._add_store(stores, place, op, replaced)
        self._finish_loads(loads, replaced)
        return replaced

    def _place(self, op: Op) -> tuple[Value, int] | None:
        """Record and number of the component that a load or store is for."""
        if op.name not in ("load", "store"):
            return None
        place = path_of(op.operands[0], self._made_by, MEMBERS)
        record = place.root.type
        if place.root is op.operands[0] or not isinstance(record, Pointer) or record.space != "global":
            return None
        components = components_of(record.element)
        return None if components is None else (place.root, place.distance // components[0].size)

    def _finish_loads(self, loads: dict[Value, RecordGroup], replaced: dict[Op, tuple[Op, ...]]) -> None:
        for group in loads.values():
            replaced[group.ops[0]] = (_load_record(group),)
            replaced.update((op, ()) for op in group.ops[1:])
        loads.clear()

    def _add_store(
        self, group: RecordGroup | None, place: tuple[Value, int], op: Op, replaced: dict[Op, tuple[Op, ...]]
    ) -> RecordGroup | None:
        """Only a complete group of stores can become one: other stores between the components would be
        overwritten."""
        root, index = place
        if group is None or group.root is not root or index in group.values:
            group = RecordGroup(root)
        group.ops.append(op)
        group.values[index] = op.operands[1]
        components = components_of(pointer_of(root.type).element)
        assert components is not None
        if len(group.values) < len(components):
            return group
        values = tuple(group.values[i] for i in range(len(components)))
        replaced.update((op, ()) for op in group.ops[:-1])
        replaced[op] = (Op("store_record", (root, *values), (), {}, (), op.span),)
        return None


def _add(groups: dict[Value, RecordGroup], place: tuple[Value, int], op: Op, value: Value) -> None:
    root, index = place
    group = groups.setdefault(root, RecordGroup(root))
    if index not in group.values:
        group.ops.append(op)
        group.values[index] = value


def _load_record(group: RecordGroup) -> Op:
    """One result for each component; some may be unused."""
    components = components_of(pointer_of(group.root.type).element)
    assert components is not None
    results = tuple(group.values.get(i) or Value(t) for i, t in enumerate(components))
    return Op("load_record", (group.root,), results, {}, (), group.ops[0].span)


def addresses(b: Builder, record: Value) -> list[Value]:
    """The addresses of a record's scalars, in order; for lanes of records, too."""
    whole = pointer_of(record.type).element
    if isinstance(whole, Scalar):
        return [record]
    parts = range(len(layout_of(whole).offsets))
    return [leaf for i in parts for leaf in addresses(b, b.emit("member", record, index=i))]


# --- adds to elements that follow each other


@dataclass(frozen=True, slots=True)
class _Element:
    """Where an add goes: `number` elements behind a base and the sum of some values. Lanes are a multiple of `step`
    elements apart."""

    base: Value
    sum: Counter[Value]
    number: int
    step: int

    def is_before(self, other: _Element) -> bool:
        return self.base is other.base and self.number + 1 == other.number and self.sum == other.sum


def adjacent_adds(
    region: Region, is_uniform: Callable[[Value], bool], is_used: Callable[[Value], bool]
) -> dict[Op, tuple[Op, ...]]:
    """By each of its ops, the adds to elements that follow each other, which no other thread reaches meanwhile. Nothing
    uses their old values. Elements of two lanes are the same or all different. Only arithmetic lies between the
    adds."""
    rows: dict[Op, tuple[Op, ...]] = {}

    def element(op: Op) -> _Element | None:
        is_add = op.name == "atomic" and not is_used(op.results[0])
        return _element(op, region.makers.get, is_uniform) if is_add else None

    for run in _runs(region, element):
        for start in range(0, len(run), MOST_COMPONENTS):
            row = tuple(run[start : start + MOST_COMPONENTS])
            if len(row) > 1:
                rows.update(dict.fromkeys(row, row))
    return rows


def _runs(region: Region, element_of: Callable[[Op], _Element | None]) -> Iterator[list[Op]]:
    run, last = list[Op](), None
    for op in region.ops:
        for inner in op.regions:
            yield from _runs(inner, element_of)
        element = element_of(op)
        if element is None and effect_of(op) == PURE and not op.regions:
            continue
        if last is None or element is None or len(run) == last.step or not last.is_before(element):
            yield run
            run = []
        if element is not None:
            run.append(op)
        last = element
    yield run


def _element(op: Op, made_by: MadeBy, is_uniform: Callable[[Value], bool]) -> _Element | None:
    """The element that a lane adds to by itself."""
    attributes, address = op.attributes, made_by(op.operands[0])
    if not attributes.get("alone") or attributes.get("own") or attributes["kind"] != "add":
        return None
    if address is None or address.name != "offset" or not is_uniform(address.operands[0]):
        return None
    if scalar_type(address.operands[1]).bits < 64:  # a narrow index may begin again at 0 within a row
        return None
    terms, number, step = Counter[Value](), 0, 0
    pending = [address.operands[1]]
    while pending:
        if len(pending) + terms.total() > MOST_TERMS:
            return None
        value = pending.pop()
        constant, maker = number_of(value, made_by), made_by(value)
        if constant is not None:
            number += constant
        elif maker is not None and maker.name == "add":
            pending += maker.operands
        else:
            terms[value] += 1
            step = step if is_uniform(value) else gcd(step, _multiple(maker, made_by))
    return _Element(address.operands[0], terms, number, step) if step > 1 else None


def _multiple(maker: Op | None, made_by: MadeBy) -> int:
    """A number that divides the result of an op."""
    factors = [] if maker is None or maker.name != "mul" else [number_of(v, made_by) for v in maker.operands]
    return abs(next((int(factor) for factor in factors if factor), 1))
