"""Variables in memory become values again if all pointers to them are known.

    %x = variable : ptr<f32>
    store %x, %a                      %y = mul %a, %a
    %v = load %x                ->
    %y = mul %v, %v

An address is followed through members, elements and choices between several. A pointer that is stored, moved on by
a loop, or cast to another type is not followed, and its variable stays in memory. Runs when functions are inlined:
before they are differentiated, so that derivatives pass through pointers, and at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slangrad.ir.analyses.addresses import STEPS
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Holding, Nesting, Rebuild, copy_op
from slangrad.ir.data.types import (
    I64,
    Array,
    Matrix,
    Pointer,
    Struct,
    Type,
    Vector,
    component,
    component_count,
    is_integer,
    pointer_of,
)
from slangrad.ir.ops.control import merged
from slangrad.ir.ops.core import Function, Op, Region, Value, number_of, walk

SEEN = frozenset({"equal", "not_equal", "less", "less_equal"})  # ops that use only the address
ACCESSES = frozenset({"load", "store"})
MOST_CHOICES = 8


def settle_variables(function: Function) -> Function:
    """A function, without the variables of which all uses are known; the same function where there are none."""
    while any(op.name == "variable" for op in walk(function.region)):
        targets = _KnownDestinations(function)
        if not targets.variables:
            break
        function = _SettleVariables(targets).function(function)
    return function


@dataclass(frozen=True, slots=True)
class PartStep:
    """To a component, by its number; with `indices` to an element, by their sum if there are any."""

    number: int = 0
    indices: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class VariablePart:
    """A variable or a part of it."""

    variable: Value
    steps: tuple[PartStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenPart:
    """One of two, as a condition says."""

    condition: Value
    then: VariablePart | ChosenPart
    otherwise: VariablePart | ChosenPart


Destination = VariablePart | ChosenPart


def _places(target: Destination) -> Iterator[VariablePart]:
    if isinstance(target, VariablePart):
        yield target
        return
    yield from _places(target.then)
    yield from _places(target.otherwise)


class _KnownDestinations:
    """The variables behind addresses, and those to which no other pointer leads."""

    def __init__(self, function: Function) -> None:
        self._makers = function.region.makers
        self._nesting = Nesting(function.region)
        self.constants = {v for v, op in self._makers.items() if op.attributes.get("no_diff")}
        self._targets: dict[Value, Destination | None] = {}
        self._users: dict[Value, set[str]] = {}
        self.variables: set[Value]
        for op in walk(function.region):
            for operand in op.operands:
                self._users.setdefault(operand, set()).add(op.name)
            for value in (value for inner in op.regions for value in inner.yields):
                self._users.setdefault(value, set()).add("yield")
        accessed = [self._leads_to(op.operands[0]) for op in walk(function.region) if op.name in ACCESSES]
        self.variables = set().union(*accessed)
        self._drop(self._lost(function.region))

    def target(self, address: Value) -> Destination | None:
        """The variable or part behind an address, if it is known and one of the variables."""
        target = self._targets.get(address)
        if target is None or any(place.variable not in self.variables for place in _places(target)):
            return None
        return target

    # --- places behind addresses

    def _find(self, address: Value) -> Destination | None:
        if address not in self._targets:
            self._targets[address] = None  # one that a loop moves on comes back to itself
            self._targets[address] = self._follow(address)
        return self._targets[address]

    def _follow(self, address: Value) -> Destination | None:
        if not isinstance(address.type, Pointer) or address not in self._makers:
            return None
        op = self._makers[address]
        if op.name == "variable":
            return VariablePart(address)
        if op.name == "select":
            return self._either(op.operands[0], op.operands[1:])
        if op.name == "if":
            (ends,) = (row[1:] for row in merged(op) if row[0] is address)
            chosen = self._either(op.operands[0], ends)
            return None if chosen is None or self._ends_inside(chosen, op) else chosen
        if op.name not in STEPS:
            return None
        base = self._find(op.operands[0])
        return None if base is None else self._each(base, op)

    def _either(self, condition: Value, addresses: Iterable[Value]) -> Destination | None:
        """Of two, if both are known and named without an index that counts for one of them only."""
        then, otherwise = (self._find(address) for address in addresses)
        if then is None or otherwise is None or then == otherwise:
            return then if otherwise is not None else None
        choice = ChosenPart(condition, then, otherwise)
        parts = list(_places(choice))
        indexed = any(step.indices for part in parts for step in part.steps)
        return None if indexed or len(parts) > MOST_CHOICES else choice

    def _ends_inside(self, target: Destination, op: Op) -> bool:
        """Whether a place is named by values of an arm."""
        used = [value for place in _places(target) for value in _values(place)]
        used += list(_conditions(target))
        return any(self._nesting.inside(value, *op.regions) for value in used)

    def _each(self, target: Destination, op: Op, chosen: bool = False) -> Destination | None:
        if isinstance(target, ChosenPart):
            then, otherwise = self._each(target.then, op, True), self._each(target.otherwise, op, True)
            return (
                None if then is None or otherwise is None else ChosenPart(target.condition, then, otherwise)
            )
        if op.name == "member":
            index = op.attributes["index"]
            return VariablePart(target.variable, (*target.steps, PartStep(index)))
        if op.name == "bitcast":
            return self._seen_as(target, op)
        return self._moved(target, op.operands[1], chosen)

    def _seen_as(self, target: VariablePart, op: Op) -> VariablePart | None:
        """Its first part: the first element of an array, the first field of a struct."""
        before, after = op.operands[0].type, op.results[0].type
        if not isinstance(before, Pointer) or not isinstance(after, Pointer):
            return None
        t, steps = before.element, list(target.steps)
        while t is not after.element:
            if not isinstance(t, (Array, Vector, Matrix, Struct)) or _is_empty(t):
                return None
            steps.append(PartStep() if isinstance(t, Struct) else PartStep(indices=()))
            t = component(t, 0)
        return VariablePart(target.variable, tuple(steps))

    def _moved(self, target: VariablePart, index: Value, chosen: bool) -> VariablePart | None:
        """Within the innermost array; by a number that is known when compiling, or if that is no row of another."""
        number, steps = number_of(index, self._makers.get), target.steps
        if number == 0:
            return target
        around = pointer_of(target.variable.type).element
        for step in steps[:-1]:
            around = component(around, step.number)
        if not steps or not isinstance(around, (Array, Vector, Matrix)):
            return None
        last, at_first = steps[-1], not steps[-1].indices
        if at_first and number is not None and 0 <= last.number + number < component_count(around):
            return VariablePart(target.variable, (*steps[:-1], PartStep(last.number + number, ())))
        is_row = len(steps) > 1 and steps[-2].indices is not None
        if chosen or is_row or last.indices is None or (at_first and last.number):
            return None
        return VariablePart(target.variable, (*steps[:-1], PartStep(indices=(*last.indices, index))))

    # --- variables with unknown pointers

    def _lost(self, region: Region) -> set[Value]:
        lost: set[Value] = set()
        for op in walk(region):
            for position, operand in enumerate(op.operands):
                if not self._is_followed(op, position):
                    lost |= self._leads_to(operand)
            for inner in op.regions:
                for position, value in enumerate(inner.yields):
                    if op.name != "if" or self._find(op.results[position]) is None:
                        lost |= self._leads_to(value)
        for value in region.yields:
            lost |= self._leads_to(value)
        return lost

    def _leads_to(self, value: Value) -> set[Value]:
        target = self._find(value)
        return set() if target is None else {place.variable for place in _places(target)}

    def _is_followed(self, op: Op, position: int) -> bool:
        if op.name in SEEN or (op.name in ACCESSES and position == 0):
            return True
        if op.name == "bitcast" and is_integer(op.results[0].type):
            return self._users.get(op.results[0], set()) <= SEEN
        return op.name in STEPS | {"select"} and self._find(op.results[0]) is not None

    def _drop(self, lost: set[Value]) -> None:
        """Variables that are lost, and those that the same address may lead to."""
        groups = [
            {p.variable for p in _places(t)} for t in self._targets.values() if isinstance(t, ChosenPart)
        ]
        size = -1
        while size != len(lost):
            size = len(lost)
            lost.update(*(group for group in groups if group & lost))
        self.variables -= lost


def _is_empty(t: Type) -> bool:
    return (isinstance(t, Array) and not t.length) or (isinstance(t, Struct) and not t.fields)


def _values(place: VariablePart) -> Iterator[Value]:
    yield place.variable
    for step in place.steps:
        yield from step.indices or ()


def _conditions(target: Destination) -> Iterator[Value]:
    if isinstance(target, ChosenPart):
        yield target.condition
        yield from _conditions(target.then)
        yield from _conditions(target.otherwise)


class _SettleVariables(Holding[Value]):
    def __init__(self, targets: _KnownDestinations) -> None:
        super().__init__({"variable": self._variable, "load": self._load, "store": self._store})
        self._known = targets

    # --- memory

    def _variable(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        """The op stays for uses of the address alone; without such uses it is dead."""
        (result,) = op.results
        if result in self._known.variables:
            self.held[result] = b.zero(pointer_of(result.type).element)
        return copy_op(walk, b, op)

    def _load(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        target = self._known.target(op.operands[0])
        return copy_op(walk, b, op) if target is None else (self._read(b, target),)

    def _store(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        target = self._known.target(op.operands[0])
        if target is None:
            return copy_op(walk, b, op)
        self._write(b, target, self.value(op.operands[1]), None)
        return ()

    def _read(self, b: Builder, target: Destination) -> Value:
        if isinstance(target, ChosenPart):
            then, otherwise = self._read(b, target.then), self._read(b, target.otherwise)
            return _selected(b, self.value(target.condition), then, otherwise)
        value = self.held[target.variable]
        for step in target.steps:
            value = self._part(b, value, step, check=True)
        return b.emit("detach", value) if target.variable in self._known.constants else value

    def _part(self, b: Builder, whole: Value, step: PartStep, check: bool) -> Value:
        if not step.indices:
            return b.emit("get", whole, index=step.number)
        index = self._index(b, step.indices)
        return b.emit("index", whole, index, check=True) if check else b.emit("index", whole, index)

    def _index(self, b: Builder, indices: tuple[Value, ...]) -> Value:
        first, *others = (self.value(index) for index in indices)
        for index in others:
            wide = (b.emit("convert", value, type=I64) for value in (first, index))
            first = b.emit("add", *wide)
        return first

    def _write(self, b: Builder, target: Destination, value: Value, condition: Value | None) -> None:
        if isinstance(target, ChosenPart):
            chosen = self.value(target.condition)
            for part, side in ((target.then, chosen), (target.otherwise, b.emit("not", chosen))):
                self._write(b, part, value, side if condition is None else b.emit("and", condition, side))
            return
        if condition is not None:
            value = _selected(b, condition, value, self._read(b, target))
        self.held[target.variable] = self._changed(b, self.held[target.variable], target.steps, value)

    def _changed(self, b: Builder, whole: Value, steps: tuple[PartStep, ...], value: Value) -> Value:
        if not steps:
            return value
        step, rest = steps[0], steps[1:]
        part = self._changed(b, self._part(b, whole, step, check=False), rest, value) if rest else value
        if not step.indices:
            return b.emit("set", whole, part, index=step.number)
        return b.emit("set_index", whole, self._index(b, step.indices), part, check=True)

    # --- control flow

    def changed(self, op: Op) -> list[Value]:
        """The variables from outside of an op that it writes, in the order of the text."""
        inner = list(walk(*op.regions))
        inside = {op.results[0] for op in inner if op.name == "variable"}
        targets = [self._known.target(op.operands[0]) for op in inner if op.name == "store"]
        written = [place.variable for target in targets if target is not None for place in _places(target)]
        return [variable for variable in dict.fromkeys(written) if variable not in inside]


def _selected(b: Builder, condition: Value, then: Value, otherwise: Value) -> Value:
    return then if then is otherwise else b.emit("select", condition, then, otherwise)
