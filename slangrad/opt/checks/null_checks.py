"""A null pointer that a program reads or writes is reported, not followed: the read gives zero, the write is dropped.

    %q = offset %p, %i          %there = in_bounds (%p - 4096), 2^63 - 1 {text="pointer"}
    %x = load %q                %x = if %there { yield load %q } { yield 0 }

The check compares the root of the pointer, before members and elements were taken and before a loop moved it on.
Many accesses share a root, so each region checks it once. If all threads have the same pointer, the code after the
access moves into the arm as well. The check of a parameter is decided for a chunk before its waves run
(foreseen_bounds.py). Accesses that the library guarantees (origins.py) have checks of bounds instead; they lose
their mark, which no later pass reads. Non-null pointers are not checked here; check mode does that
(pointer_checks.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slangrad.base.options import ANYWHERE, FIRST_PAGE, POINTER
from slangrad.ir.analyses.addresses import ACCESSES
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op, forgetting
from slangrad.ir.data.types import U64
from slangrad.ir.ops.core import Function, Op, Program, Region, Value, walk, without
from slangrad.ir.ops.effects import primitive_effect
from slangrad.ir.ops.primitives import PRIMITIVES, WRITE
from slangrad.opt.analyses.origins import Origins

OWN = frozenset({"variable", "shared", "parameter", "alloc"})
OF_THREADS = frozenset({"thread_id", "wave_lane"})


def check_null(program: Program, function: Function) -> Function:
    """The kernel with checks where it reads and writes through pointers that may be null."""
    return _NullChecks(program, function).function(function)


class _NullChecks(Rebuild):
    def __init__(self, program: Program, function: Function) -> None:
        super().__init__({"if": self._if, "for": self._loop, "while": self._loop})
        self.rules |= dict.fromkeys(ACCESSES, self._access)
        self._roots = _Roots(program, function)
        self._known: dict[Value, Value] = {}  # roots that this region or one around it has checked
        self._assumed: dict[Value, None] = {}  # roots without which nothing here runs
        self._may_end = not any(op.name == "barrier" for op in walk(function.region))
        self._elements: dict[Value, None] = {}  # of buffers, where they were found to be there

    def region(self, b: Builder, region: Region) -> Region:
        with forgetting(self._known), forgetting(self._assumed):
            return super().region(b, region)

    def inline(self, b: Builder, region: Region) -> tuple[Value, ...]:
        """In a region without results, an access through a pointer that is the same for all threads guards all code
        after it: one check for many accesses."""
        target = b
        for op in region.ops:
            for root, access in self._same_roots(target, op) if self._may_end else ():
                if root not in self._assumed:
                    target = self._end_without(target, root, access)
            self.op(target, op)
        return self.values(region.yields)

    def _end_without(self, b: Builder, root: Value, access: Op) -> Builder:
        """Code that runs only if the pointer is not null."""
        inner = b.nested()
        outer, b.span = b.span, access.span or b.span
        b.control("if", (_is_there(b, self.value(root)),), (Region((), inner.ops, ()), Region((), [], ())))
        b.span = outer
        self._assumed[root] = None
        return inner

    def _same_roots(self, b: Builder, op: Op) -> Iterator[tuple[Value, Op]]:
        """Pointers, the same for all threads, that an op certainly follows, and the place where it does."""
        if op.name in ACCESSES:
            root = self._roots.root(op.operands[0])
            if root in self.new and self._is_asked(root, op) and self._roots.is_same(root):
                yield root, op
        elif (
            op.name == "for"
            and op.operands[0] in self.new
            and (b.constant_of(self.value(op.operands[0])) or 0) > 0
        ):
            for inner in op.regions[0].ops:
                yield from self._same_roots(b, inner)

    def _is_asked(self, root: Value, op: Op) -> bool:
        is_settled = root in self._assumed or root in self._elements
        return not is_settled and self._roots.may_be_null(root, op)

    def _if(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        ends, self._may_end = self._may_end, self._may_end and not op.results
        with forgetting(self._elements):
            self._elements |= dict.fromkeys(self._roots.elements(op.operands[0]))
            then = self.region(b.nested(), op.regions[0])
        regions = then, self.region(b.nested(), op.regions[1])
        self._may_end = ends
        return self.control(b, op, self.values(op.operands), regions)

    def _loop(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        ends, self._may_end = self._may_end, False  # a `while` may wait for what is written after a read
        results = copy_op(walk, b, op)
        self._may_end = ends
        return results

    def _access(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        root = self._roots.root(op.operands[0])
        if not self._is_asked(root, op):
            return copy_op(walk, b, _unmarked(op))
        if root not in self._known:
            self._known[root] = _is_there(b, self.value(root))
        return b.guarded(self._known[root], lambda inner: copy_op(walk, inner, _unmarked(op)))


def _unmarked(access: Op) -> Op:
    if "trusted" not in access.attributes:
        return access
    return replace(access, attributes=without(access.attributes, "trusted"), key=None)


def _is_there(b: Builder, pointer: Value) -> Value:
    number = b.emit("sub", b.emit("bitcast", pointer, type=U64), b.constant(U64, FIRST_PAGE))
    return b.emit("in_bounds", number, b.constant(U64, ANYWHERE), text=POINTER)


class _Roots(Origins):
    """The same with their checks."""

    def __init__(self, program: Program, function: Function) -> None:
        super().__init__(program, function)
        self._same: dict[Value, bool] = {}

    def elements(self, condition: Value) -> Iterator[Value]:
        """Addresses of a buffer's elements, null where there is none, that a condition tells from null."""
        op = self.made_by(condition)
        if op is not None and op.name == "and":
            for part in op.operands:
                yield from self.elements(part)
        if op is not None and op.name == "not_equal":
            number = self.made_by(op.operands[0])
            if number is not None and number.name == "bitcast" and self.is_element(number.operands[0]):
                yield number.operands[0]

    def is_same(self, value: Value) -> bool:
        """Whether all threads have the same: it follows from parameters, and from what is loaded there."""
        if value not in self._same:
            self._same[value] = self._is_made_of_same(self.made_by(value))
        return self._same[value]

    def _is_made_of_same(self, op: Op | None) -> bool:
        if op is None or op.name in OF_THREADS or op.name not in PRIMITIVES:
            return False
        return primitive_effect(op.name, op.operands) != WRITE and all(map(self.is_same, op.operands))

    def may_be_null(self, root: Value, access: Op) -> bool:
        op = self.made_by(root)
        return not (op is not None and op.name in OWN) and not self.is_vouched_for(access)
