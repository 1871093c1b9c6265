"""Remove what nobody uses: pure ops, results and carried values of control flow, memory that is only written.

    %a, %b = for %n, %x, %y : f32, f32 (...)         %b is unused, and in the loop it only makes the next %b
    %a = for %n, %x : f32 (...)

Liveness runs backwards from effects and results; a carried value that only feeds itself is never reached. An
`if` or `for` without live results and effects goes; a `while` stays, as it may not end. Nothing is reordered. Of an
element that is written and never read, the check of its index stays, unless the index surely is in range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from slangrad.ir.addresses import Roots, is_step
from slangrad.ir.builder import Builder
from slangrad.ir.control import carried
from slangrad.ir.core import Function, Op, Region, Value
from slangrad.ir.effects import ALLOCATIONS, effect_of, primitive_effect
from slangrad.ir.intervals import Ranges
from slangrad.ir.primitives import PRIMITIVES, WRITE
from slangrad.ir.rebuild import Rebuild
from slangrad.ir.types import U32, Pointer, index_extent

WRITES_TO_FIRST = frozenset({"store", "tape_store", "tape_add", "tape_free"})
CHECKED = frozenset({"set_index", "add_index"})


def remove_dead(function: Function) -> Function:
    """The function without what nobody uses."""
    return _Remove(_Liveness(function)).function(function)


class _Liveness:
    """Which values and ops are needed. Both sets only grow; `_todo` holds live values not followed yet."""

    def __init__(self, function: Function) -> None:
        self.live: set[Value] = set()
        self.kept: set[Op] = set()
        self._todo: list[Value] = []
        self._made: dict[Value, tuple[Op, int]] = {}  # a result, or a parameter of one of the op's regions
        self._around: dict[Op, Op] = {}  # the control op that an op stands in
        self._stores: dict[Value, list[Op]] = defaultdict(list)  # into memory made here, by its address
        self._roots: list[Op] = []
        self.checks: set[Op] = set()  # writes that report an index out of range
        self._ranges = Ranges()
        self._addresses = Roots(self.made_by)
        self._scan(function.region, None)
        for op in self._roots:
            self._keep(op)
        for op in self.checks:
            self._keep_around(op)
            self._need(op.operands[1:2])
        self._need(function.region.yields)
        while self._todo:
            self._follow(self._todo.pop())

    # --- what there is

    def _scan(self, region: Region, around: Op | None) -> None:
        for op in region.ops:
            if around is not None:
                self._around[op] = around
            for i, result in enumerate(op.results):
                self._made[result] = op, i
            self._classify(op)
            for inner in op.regions:
                first = 1 if op.name == "for" else 0
                if first:
                    self._ranges.counted(self, op.operands[0], inner.parameters[0])
                self._made.update((p, (op, i - first)) for i, p in enumerate(inner.parameters))
                self._scan(inner, op)

    def _classify(self, op: Op) -> None:
        """Ops with effects are roots, but for making local memory and writing to it."""
        if op.name in WRITES_TO_FIRST and (base := self._base(op.operands[0])) is not None:
            self._stores[base].append(op)
        elif op.name in CHECKED and self._reports(op):
            self.checks.add(op)
        elif op.name not in PRIMITIVES:
            if op.name == "while" or (not op.regions and effect_of(op) == WRITE):
                self._roots.append(op)
        elif op.name not in ALLOCATIONS and primitive_effect(op.name, op.operands) == WRITE:
            self._roots.append(op)

    def _reports(self, op: Op) -> bool:
        """Whether the index may be out of range, and the program is to say so."""
        extent = index_extent(op.operands[0].type)
        checked = op.attributes.get("check") and extent is not None
        return bool(checked) and not self._ranges.is_below(self, op.operands[1], extent or 0)

    def made_by(self, value: Value) -> Op | None:
        """The op that has the value as a result."""
        op, i = self._made.get(value, (None, 0))
        return op if op is not None and 0 <= i < len(op.results) and op.results[i] is value else None

    def _base(self, address: Value) -> Value | None:
        """The memory made in this function that an address surely points into."""
        root = self._addresses.root(address)
        op = self.made_by(root)
        return root if op is not None and op.name in ALLOCATIONS else None

    # --- what is needed

    def _need(self, values: Iterable[Value]) -> None:
        """Values that are used in any way: memory that they point to is read, too, for all that is known."""
        for value in values:
            self._need_address(value)
            base = self._base(value) if isinstance(value.type, Pointer) else None
            for store in self._stores.pop(base, []) if base is not None else []:
                self._keep(store)

    def _need_address(self, value: Value) -> None:
        """A value that is used, but not to read memory."""
        if value not in self.live:
            self.live.add(value)
            self._todo.append(value)

    def _keep(self, op: Op) -> None:
        if op in self.kept:
            return
        self.kept.add(op)
        self._keep_around(op)
        if op.name == "while":
            self._need(op.regions[0].yields)
        elif op.regions:
            self._need(op.operands[:1])
        elif is_step(op) or op.name in WRITES_TO_FIRST:
            self._need_address(op.operands[0])
            self._need(op.operands[1:])
        else:
            self._need(op.operands)

    def _keep_around(self, op: Op) -> None:
        if op in self._around:
            self._keep(self._around[op])

    def _follow(self, value: Value) -> None:
        """What a live value is made from."""
        if value not in self._made:
            return
        op, i = self._made[value]
        self._keep(op)
        if op.name == "if":
            self._need(region.yields[i] for region in op.regions)
        elif op.name == "for" and i >= 0:
            self._need((op.operands[1 + i], op.regions[0].yields[i]))
        elif op.name == "while":
            self._need((op.operands[i], op.regions[1].yields[i]))


class _Remove(Rebuild):
    """The rebuilt function, without what is not live."""

    def __init__(self, liveness: _Liveness) -> None:
        writes = dict.fromkeys(CHECKED, self._write)
        super().__init__({**dict.fromkeys(("if", "for", "while"), self._flow), **writes})
        self._live = liveness.live
        self._kept = liveness.kept
        self._checks = liveness.checks

    def op(self, b: Builder, op: Op) -> None:
        if op in self._kept or op in self._checks:
            super().op(b, op)

    def _write(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        """A write of an element. If no op reads the array, only the check stays, and the result is an unused value."""
        if op in self._kept:
            return self.default(rebuild, b, op)
        extent = index_extent(op.operands[0].type)
        assert extent is not None
        b.emit("in_bounds", self.value(op.operands[1]), b.constant(U32, extent))
        return (Value(op.results[0].type),)

    def _flow(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        """The op with its live results; the others get a value that nobody uses."""
        inside = {each.result: each.inside for each in carried(op)}
        live = [not self._live.isdisjoint((r, *inside.get(r, ()))) for r in op.results]
        made = zip(self.reduced(b, op, live), op.results, strict=True)
        return tuple(Value(r.type) if value is None else value for value, r in made)
