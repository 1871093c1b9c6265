"""Loads of known values, in straight code and into regions.

    store %p, %x                       store %p, %x
    %y = load %p : f32        ->       (uses of %y become uses of %x)

A value is known if it was loaded or stored through the same address before. A store to memory of an `alloc` changes
only that, and at a constant offset only that element; any other store may change all other memory. Memory that a
region writes is unknown after it, and for a loop before it. Stores stay; dead.py removes those to memory that is
not read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import TypeVar

from slangrad.ir.analyses.addresses import NonEscapingMemory
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.numbers import Number
from slangrad.ir.ops.core import Function, Op, Region, Value, walk

WRITERS = frozenset({"store", "atomic", "call", "barrier"})  # ops that write memory that a load reads
OTHERS = ("call", "barrier")  # writers of shared memory
NOTHING: frozenset[Value | None] = frozenset()

K = TypeVar("K")
V = TypeVar("V")
Contents = dict[Value, Value]  # by address


def forward_loads(function: Function) -> Function:
    """The function without loads whose value is known."""
    accessed = [op.operands[0] for op in walk(function.region) if op.name in ("load", "store")]
    return _Forward(function).function(function) if len(accessed) > len(set(accessed)) else function


class _KnownContents:
    """The known values by new address. A return to a mark costs time proportional to the changes since then, and a
    write forgets in constant time, because there may be many of both.

    An address belongs to `memory`: the old `alloc` that it is part of, None for all other memory. `element` is its
    number if the address is that of a constant element.
    """

    def __init__(self) -> None:
        self._contents: dict[Value | None, dict[Number | None, Contents]] = {}  # by memory and element
        self._places: dict[Value, tuple[Value | None, Number | None]] = {}
        self._undo: list[Callable[[], object]] = []

    def get(self, address: Value) -> Value | None:
        if address not in self._places:
            return None
        memory, element = self._places[address]
        return self._contents.get(memory, {}).get(element, {}).get(address)

    def set(self, address: Value, memory: Value | None, element: Number | None, value: Value) -> None:
        place = (memory, element)
        if address in self._places and self._places[address] != place:
            self._remove(self._inside(*self._places[address]), address)
        self._put(self._places, address, place)
        self._put(self._inside(memory, element), address, value)

    def forget(self, memory: Value | None, element: Number | None) -> None:
        """The entries that a write to some memory, or to one element of it, may change."""
        if element is None:
            self._remove(self._contents, memory)
        elif memory in self._contents:
            self._remove(self._contents[memory], element)
            self._remove(self._contents[memory], None)

    def mark(self) -> int:
        return len(self._undo)

    def go_back(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def _inside(self, memory: Value | None, element: Number | None) -> Contents:
        if memory not in self._contents:
            self._put(self._contents, memory, {})
        elements = self._contents[memory]
        if element not in elements:
            self._put(elements, element, {})
        return elements[element]

    def _put(self, table: dict[K, V], key: K, new: V) -> None:
        before = partial(table.__setitem__, key, table[key]) if key in table else partial(table.pop, key)
        self._undo.append(before)
        table[key] = new

    def _remove(self, table: dict[K, V], key: K) -> None:
        if key in table:
            self._undo.append(partial(table.__setitem__, key, table.pop(key)))


class _Forward(Rebuild):
    def __init__(self, function: Function) -> None:
        super().__init__({"if": self._if, "for": self._loop, "while": self._loop})
        self.rules |= {"load": self._load, "store": self._store, "atomic": self._atomic}
        self.rules |= dict.fromkeys(OTHERS, self._others)
        self._made_by = function.region.makers.get
        self._memory = NonEscapingMemory(function.region)
        self._known = _KnownContents()
        self._writes: dict[Op, frozenset[Value | None]] = {}

    def _element(self, b: Builder, address: Value) -> Number | None:
        """Of an address in local memory, that of a whole element."""
        op = self._made_by(address)
        assert op is not None
        if op.name == "alloc":
            return 0
        is_first = op.name == "offset" and self._memory.of(address) is op.operands[0]
        return b.constant_of(self.value(op.operands[1])) if is_first else None

    # --- straight code

    def _load(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        value = self._known.get(self.value(op.operands[0]))
        if value is None or value.type is not op.results[0].type:
            (value,) = copy_op(rebuild, b, op)
            self._note(b, op.operands[0], value)
        return (value,)

    def _note(self, b: Builder, address: Value, value: Value, is_new: bool = False) -> None:
        memory = self._memory.of(address)
        element = None if memory is None else self._element(b, address)
        if is_new:
            self._known.forget(memory, element)
        self._known.set(self.value(address), memory, element, value)

    def _store(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        copy_op(rebuild, b, op)
        self._note(b, op.operands[0], self.value(op.operands[1]), is_new=True)
        return ()

    def _atomic(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._known.forget(self._memory.of(op.operands[0]), None)
        return copy_op(rebuild, b, op)

    def _others(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._known.forget(None, None)
        return copy_op(rebuild, b, op)

    # --- regions

    def _if(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        results = copy_op(rebuild, b, op)
        self._forget_written(op)
        return results

    def _loop(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._forget_written(op)
        return self._if(rebuild, b, op)

    def region(self, b: Builder, region: Region) -> Region:
        """A context: after a region the facts are those before it."""
        mark = self._known.mark()
        new = super().region(b, region)
        self._known.go_back(mark)
        return new

    def _forget_written(self, op: Op) -> None:
        for memory in self._written(op):
            self._known.forget(memory, None)

    def _written(self, op: Op) -> frozenset[Value | None]:
        """The memory that an op writes, or what is in its regions."""
        if op.name in WRITERS:
            return frozenset({None if op.name in OTHERS else self._memory.of(op.operands[0])})
        if not op.regions:
            return NOTHING
        if op not in self._writes:
            parts = (self._written(inner) for region in op.regions for inner in region.ops)
            self._writes[op] = reduce(_union, parts, NOTHING)
        return self._writes[op]


def _union(left: frozenset[Value | None], other: frozenset[Value | None]) -> frozenset[Value | None]:
    return left if other <= left else left | other
