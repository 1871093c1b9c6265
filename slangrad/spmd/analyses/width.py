"""How many lanes a kernel gets: more than usual where the iterations of a loop wait for each other.

    for %n, %x {                     each step needs the one before: at 16 lanes, one or two registers, a core waits
      %s = mul %x, %x                for the latency of its multiplier; 32 or 64 lanes are several such chains, whose
      yield (sub %x, %s)             steps fill each other's gaps
    }

The rule weighs two numbers for each loop body. One is how many operations are ready at the same time (their number
over the longest path). The other is how many values live at once, which must fit into registers. Loops that lanes
leave at different times keep the usual number, because a wave runs as long as its slowest lane.

A huge kernel of doubles gets fewer: where a value fills one register, LLVM takes a third less time for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import F64, Scalar
from slangrad.ir.ops.control import LOOPS
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import local_bytes
from slangrad.spmd.analyses.uniformity import Shapes

IN_FLIGHT = 8  # registers of results that two arithmetic units with a latency of four have under way
SPILL = 1.5  # values may exceed the registers by this much: the rest is read from memory as an operand
MOST = 64
LARGE = 300  # ops; each is written for as many registers as lanes fill
HUGE = 8_000  # ops
LOCAL_BYTES = 1 << 15  # local arrays of a wave should stay in the first cache
STEPPED_BYTES = 1 << 17  # those that loops step through, once up and once down, in the second one


def suitable_lanes(kernel: Function, lanes: int, register_bytes: int, registers: int) -> int:
    """`lanes`, or a multiple of it up to MOST; in a huge kernel of doubles those of one register."""
    ops = list(walk(kernel.region))
    if len(ops) > HUGE and sum(_is_double(op) for op in ops) > len(ops) // 3:
        return min(lanes, max(1, register_bytes // 8))
    loops = [op for op in ops if op.name in LOOPS]
    if lanes == 1 or not loops or len(ops) > LARGE or any(op.name in ("atomic", "call") for op in ops):
        return lanes
    shapes = Shapes(kernel, lanes)
    if not all(map(shapes.loop_is_uniform, loops)):
        return lanes
    bodies = [_Body(region, shapes) for op in loops for region in op.regions[-1:] if _is_innermost(op)]
    arrays = [op for op in ops if op.name == "alloc"]
    stepped = sum(local_bytes(op) for op in arrays if op.attributes.get("written_first"))
    local = sum(map(local_bytes, arrays)) - stepped
    best = lanes
    while best < MOST and any(body.waits(best / register_bytes) for body in bodies):
        wide = 2 * best
        if local * wide > LOCAL_BYTES or stepped * wide > STEPPED_BYTES:
            break
        if any(body.live * wide > SPILL * registers * register_bytes for body in bodies):
            break
        best = wide
    return best


def _is_double(op: Op) -> bool:
    return any(r.type is F64 for r in op.results)


def _is_innermost(loop: Op) -> bool:
    return not any(op.name in LOOPS for op in walk(*loop.regions))


class _Body:
    """Of a loop: bytes a lane of all computed values, of those ready at once, and of those live at once."""

    def __init__(self, region: Region, shapes: Shapes) -> None:
        ops = list(_straight(region))
        work = sum(_size(v, shapes) for op in ops for v in op.results)
        depth: dict[Value, int] = {}
        for op in ops:
            below = max((depth.get(v, 0) for v in op.operands), default=0)
            for result in op.results:
                depth[result] = below + (_size(result, shapes) > 0)
        self.ready = work / max([1, *depth.values()])
        self.live = live_bytes(region, shapes)

    def waits(self, registers_a_byte: float) -> bool:
        return 0 < self.ready * registers_a_byte < IN_FLIGHT


def live_bytes(region: Region, shapes: Shapes) -> int:
    """The most bytes a lane that live at once in straight code; branches count as part of it."""
    ops = list(_straight(region))
    sizes = {v: size for v in region.yields if (size := _size(v, shapes))}
    most = live = sum(sizes.values())
    for op in reversed(ops):
        live -= sum(sizes.pop(v, 0) for v in op.results)
        for v in op.operands:
            if v not in sizes and (size := _size(v, shapes)):
                sizes[v] = size
                live += size
        most = max(most, live)
    return most


def _size(value: Value, shapes: Shapes) -> int:
    """Bytes a lane; zero for values that all lanes share and for addresses."""
    shape = shapes.of(value)
    kept = isinstance(value.type, Scalar) and not shape.is_uniform and not shape.is_strided
    return layout_of(value.type).size if kept else 0


def _straight(region: Region) -> Iterator[Op]:
    """The ops of a body in order, those of its branches included."""
    for op in region.ops:
        for inner in op.regions:
            yield from _straight(inner)
        yield op
