"""Checks of bounds that are decided for a whole chunk before its waves run, or on a GPU for the whole launch.

    %i = add %start, thread_id          condition of a chunk: 0 <= start + first and start + last < extent
    %inside = in_bounds %i, %extent     where it holds:       %inside is true, its `if` is gone, and %i never wraps
    %p = offset %x, %i                                        %p = offset %x, (%i in 64 bits)

In: a flat kernel. Out: the condition, code of a chunk that uses its first and last thread, and the kernel for
chunks where it holds. Full waves run that kernel, others run the kernel with all of its checks. Indices with a
constant stride between lanes are in 64 bits, because a wave then reads its elements at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.types import BOOL, I64
from slangrad.ir.ops.control import LOOPS
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.opt.analyses.intervals import Bounds, Facts, Intervals
from slangrad.opt.analyses.launch_values import ArgumentValues, ChunkValues

EVEN = ("add", "sub", "neg", "mul", "shl", "convert")
DEEPEST = 24


@dataclass(frozen=True, slots=True)
class Foreseen:
    """`condition` yields a truth value; `kernel` is for chunks where it is true."""

    condition: Function
    kernel: Function


def foresee_bounds(kernel: Function) -> Foreseen | None:
    """None where there is no such check."""
    b = Builder(span=kernel.span)
    certain = _Certain(Intervals(ChunkValues(kernel, b)))
    certain.rules |= {"offset": certain.offset, "convert": certain.convert}
    return _foreseen(certain, kernel, b)


def foresee_bounds_of_launch(kernel: Function) -> Foreseen | None:
    """The same for all threads, where this takes checks out of loops."""
    b = Builder(span=kernel.span)
    certain = _Certain(Intervals(ArgumentValues(kernel, b)))
    foreseen = _foreseen(certain, kernel, b)
    if foreseen is None or _checks_in_loops(foreseen.kernel) == _checks_in_loops(kernel):
        return None
    return foreseen


def choose_at_launch(kernel: Function, foreseen: Foreseen) -> Function:
    """One kernel with both forms. It computes the condition first, and then runs the form that fits."""
    b = Builder(span=kernel.span)
    (holds,) = Rebuild().inline(b, foreseen.condition.region)
    b.if_(
        holds,
        lambda inner: Rebuild().inline(inner, foreseen.kernel.region),
        lambda inner: Rebuild().inline(inner, kernel.region),
    )
    return replace(kernel, region=Region((), b.ops, ()))


def _checks_in_loops(kernel: Function) -> int:
    loops = [op for op in walk(kernel.region) if op.name in LOOPS]
    return len({inner for op in loops for inner in walk(*op.regions) if inner.name == "in_bounds"})


def _foreseen(certain: _Certain, kernel: Function, b: Builder) -> Foreseen | None:
    without_checks = certain.function(kernel)
    if not certain.foreseen:
        return None
    holds = b.all(certain.conditions)
    return Foreseen(Function("foreseen", (), BOOL, Region((), b.ops, (holds,))), without_checks)


class _Certain(Rebuild):
    def __init__(self, intervals: Intervals) -> None:
        super().__init__(dict.fromkeys(("if", "for", "while"), self._flow))
        self.rules |= {"in_bounds": self._in_bounds}
        self.conditions: list[Value] = []
        self.foreseen = 0
        self._intervals = intervals
        self._launch = intervals.launch
        self._facts = Facts()
        self._indices: set[Value] = set()

    # --- checks

    def _in_bounds(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        v, (index, extent) = self._intervals, op.operands
        x, n = v.of(index, self._facts), v.of(extent, self._facts)
        if x is None or n is None:
            return copy_op(rebuild, b, op)
        zero = v.plan.constant(I64, 0)
        inside = (v.plan.emit("less_equal", zero, x.low), v.plan.emit("less", x.high, n.low))
        if not self._require((*inside, *x.conditions, *n.conditions)):
            return copy_op(rebuild, b, op)
        self.foreseen += 1
        return (b.constant(BOOL, True),)

    def _require(self, conditions: Iterable[Value]) -> bool:
        """Add to the condition; False where that could never hold."""
        constants = {condition: self._intervals.plan.constant_of(condition) for condition in conditions}
        if any(number is not None and not number for number in constants.values()):
            return False
        self.conditions += [condition for condition, number in constants.items() if number is None]
        return True

    # --- what holds in regions

    def _flow(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        outer, operands, regions = self._facts, self.values(op.operands), list[Region]()
        decided = b.constant_of(operands[0]) if op.name == "if" else None
        if decided is not None:
            return self.inline(b, op.regions[0 if decided else 1])
        if op.name == "for":
            self._indices.add(op.regions[0].parameters[0])
        within = self._intervals.within(outer, op)
        for region, self._facts in zip(op.regions, within, strict=True):
            regions.append(self.region(b.nested(), region))
        self._facts = outer
        return b.control(op.name, operands, tuple(regions), op.attributes)

    # --- indices that move evenly from lane to lane

    def offset(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        address, index = op.operands
        wide = self._wide(b, index)
        return copy_op(rebuild, b, op) if wide is None else (b.emit("offset", self.value(address), wide),)

    def convert(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        wide = self._wide(b, op.operands[0]) if op.results[0].type is I64 else None
        return copy_op(rebuild, b, op) if wide is None else (wide,)

    def _wide(self, b: Builder, index: Value) -> Value | None:
        """An index in 64 bits; None where it moves unevenly, is the same for all threads or may wrap."""
        if scalar_type(index).bits == 64 or self._is_same(index):
            return None
        needed: list[Bounds] = []
        if not self._moves_evenly(index, needed, DEEPEST):
            return None
        if not self._require(condition for interval in needed for condition in interval.conditions):
            return None
        return self._in_64_bits(b, index)

    def _is_same(self, value: Value) -> bool:
        return value in self._indices or self._launch.of(value) is not None

    def _moves_evenly(self, value: Value, needed: list[Bounds], depth: int) -> bool:
        """Appends between which ends numbers stay, where these do not follow from their types."""
        op = self._launch.made_by(value)
        if self._is_same(value) or (op is not None and op.name == "thread_id"):
            return True
        if op is None or op.name not in EVEN or depth == 0:
            return False
        same = [self._is_same(x) for x in op.operands]
        if (op.name == "mul" and not any(same)) or (op.name == "shl" and not same[1]):
            return False
        stays = self._intervals.unassumed(value, self._facts)
        if stays is None or not all(self._moves_evenly(x, needed, depth - 1) for x in op.operands):
            return False
        needed.append(stays)
        return True

    def _in_64_bits(self, b: Builder, value: Value) -> Value:
        op = self._launch.made_by(value)
        if self._is_same(value) or op is None or op.name == "thread_id":
            return b.emit("convert", self.value(value), type=I64)
        parts = [self._in_64_bits(b, x) for x in op.operands]
        return parts[0] if op.name == "convert" else b.emit(op.name, *parts)
