"""Loads that read what is known already, in straight code and into regions.

    store %p, %x                       store %p, %x
    %y = load %p : f32        ->       (uses of %y become uses of %x)

Known is what was loaded or stored through the same address before. A store to memory made by an `alloc`
changes only that, and at a constant offset only that element; any other store may change all memory but
such. What a region writes is forgotten after it, and for a loop before it. Stores stay; dead.py removes
those to memory nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Region, Value, walk
from slangrad.ir.numbers import Number
from slangrad.ir.rebuild import Rebuild, copy_op

ADDRESSES = frozenset({"offset", "member"})
USES_OF_ADDRESSES = ADDRESSES | {"load", "store", "atomic"}
WRITERS = frozenset({"store", "atomic", "call", "barrier"})  # ops that write memory that a load reads
OTHERS = ("call", "barrier")  # writers of memory that is nobody's own


def forward_loads(function: Function) -> Function:
    """The function without loads whose value is known."""
    return _Forward(function).function(function)


@dataclass(frozen=True, slots=True)
class _Content:
    """What is at an address. `memory` is the old `alloc` that it is part of, None for all other memory."""

    memory: Value | None
    element: Number | None  # its number, if the address is that of a constant element
    value: Value


class _Forward(Rebuild):
    def __init__(self, function: Function) -> None:
        super().__init__({"if": self._if, "for": self._loop, "while": self._loop})
        self.rules |= {"load": self._load, "store": self._store, "atomic": self._atomic}
        self.rules |= dict.fromkeys(OTHERS, self._others)
        self._made = {r: op for op in walk(function.region) for r in op.results}
        self._escaped = set(self._escaping(function.region))
        self._known: dict[Value, _Content] = {}

    # --- which memory an old address belongs to

    def _escaping(self, region: Region) -> Iterable[Value]:
        """Local memory whose address is used for more than loads and stores."""
        for op in walk(region):
            passed = op.operands[1:] if op.name in USES_OF_ADDRESSES else op.operands
            yields = [v for inner in op.regions for v in inner.yields]
            yield from (root for v in (*passed, *yields) if (root := self._root(v)) is not None)

    def _root(self, address: Value) -> Value | None:
        op = self._made.get(address)
        while op is not None and op.name in ADDRESSES:
            address = op.operands[0]
            op = self._made.get(address)
        return address if op is not None and op.name == "alloc" else None

    def _memory(self, address: Value) -> Value | None:
        root = self._root(address)
        return None if root in self._escaped else root

    def _element(self, b: Builder, address: Value) -> Number | None:
        op = self._made.get(address)
        if op is None or op.name == "alloc":
            return 0
        inner = self._made.get(op.operands[0])
        if op.name != "offset" or inner is None or inner.name != "alloc":
            return None
        return b.constant_of(self.value(op.operands[1]))

    # --- straight code

    def _load(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        address = self.value(op.operands[0])
        content = self._known.get(address)
        if content is None or content.value.type is not op.results[0].type:
            (made,) = copy_op(rebuild, b, op)
            content = self._content(b, op.operands[0], made)
            self._known[address] = content
        return (content.value,)

    def _content(self, b: Builder, address: Value, value: Value) -> _Content:
        memory = self._memory(address)
        return _Content(memory, None if memory is None else self._element(b, address), value)

    def _store(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        copy_op(rebuild, b, op)
        content = self._content(b, op.operands[0], self.value(op.operands[1]))
        self._forget(content.memory, content.element)
        self._known[self.value(op.operands[0])] = content
        return ()

    def _atomic(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._forget(self._memory(op.operands[0]), None)
        return copy_op(rebuild, b, op)

    def _others(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._forget(None, None)
        return copy_op(rebuild, b, op)

    def _forget(self, memory: Value | None, element: Number | None) -> None:
        """What may be changed by a write to some memory, or to one element of it."""
        self._known = {
            address: c
            for address, c in self._known.items()
            if c.memory is not memory or (None not in (element, c.element) and element != c.element)
        }

    # --- regions

    def _if(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        before = self._known
        regions = tuple(self._known_in(b, region, before) for region in op.regions)
        self._known = before
        return self._after(b, op, regions)

    def _loop(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self._forget_written(op)
        before = self._known
        regions = tuple(self._known_in(b, region, before) for region in op.regions)
        self._known = before
        return self._after(b, op, regions)

    def _known_in(self, b: Builder, region: Region, known: dict[Value, _Content]) -> Region:
        self._known = dict(known)
        return self.region(b.nested(), region)

    def _after(self, b: Builder, op: Op, regions: tuple[Region, ...]) -> tuple[Value, ...]:
        self._forget_written(op)
        types = tuple(r.type for r in op.results)
        return b.control(op.name, self.values(op.operands), types, regions, op.attributes)

    def _forget_written(self, op: Op) -> None:
        for region in op.regions:
            for inner in walk(region):
                if inner.name in WRITERS:
                    self._forget(self._memory(inner.operands[0]) if inner.name not in OTHERS else None, None)
