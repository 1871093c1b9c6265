"""The end of a chunk of threads: it adds up the lanes of its accumulators, into its partial sums.

    %v = load %accumulators : lanes<f32>       element i of lane l is at i * lanes + l
    %s = lane_reduce{add} %v                   in a fixed order
    store %partials, %s + what chunks before it of the same batch have stored

The accumulators themselves are filled by the kernel; see opt/delayed/delayed_adds.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import I64, lanes, pointer
from slangrad.ir.ops.core import Function, Region, Value
from slangrad.opt.delayed.delayed_sums import Accumulators, partials_of_batch


def chunk_sums(blocks: Sequence[Accumulators], count: int) -> Function:
    """For waves of `count` lanes."""
    b = Builder()
    for block in blocks:
        _add_up(b, block, count)
    return Function("sums", (), None, Region((), b.ops, ()))


def _add_up(b: Builder, block: Accumulators, count: int) -> None:
    element_pointer = pointer(block.sums, "local")
    start = b.emit("accumulators", type=element_pointer, block=block.block, count=block.count)
    first = b.emit("add", partials_of_batch(b), b.constant(I64, block.offset))
    partials = b.emit("bitcast", first, type=pointer(block.sums))

    def add_one(b: Builder, element: Value) -> None:
        place = b.emit("offset", start, b.emit("mul", element, b.constant(I64, count)))
        if count == 1:
            total = b.emit("load", place, type=block.sums)
        else:
            values = b.emit("load", place, type=lanes(block.sums))
            total = b.emit("lane_reduce", values, type=block.sums, kind="add")
        partial = b.emit("offset", partials, element)
        before = b.emit("load", partial, type=block.sums)
        b.effect("store", partial, b.emit("add", before, total))

    b.for_(b.constant(I64, block.count), (), add_one, hint="element")
