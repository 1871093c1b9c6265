"""What a chunk of threads does at its end: the lanes of its accumulators are added up, into its partial sums.

    %v = load %accumulators : lanes<f32>       element i of lane l is at i * lanes + l
    %s = lane_reduce{add} %v                   in a fixed order
    store %partials, %s + what chunks before it of the same lot have stored

The accumulators themselves are filled by the kernel; see opt/delayed_adds.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Region, Value
from slangrad.ir.types import I64, lanes, pointer
from slangrad.opt.delayed_sums import Accumulators, partials_of_lot


def chunk_sums(blocks: Sequence[Accumulators], count: int) -> Function:
    """For waves of `count` lanes."""
    b = Builder()
    for block in blocks:
        _add_up(b, block, count)
    return Function("sums", (), None, Region((), b.ops, ()))


def _add_up(b: Builder, block: Accumulators, count: int) -> None:
    made = pointer(block.sums, "local")
    start = b.emit("accumulators", type=made, block=block.block, count=block.count)
    first = b.emit("add", partials_of_lot(b), b.constant(I64, block.offset))
    partials = b.emit("bitcast", first, type=pointer(block.sums))
    element, body = Value(I64, "element"), b.nested()
    place = body.emit("offset", start, body.emit("mul", element, body.constant(I64, count)))
    if count == 1:
        total = body.emit("load", place, type=block.sums)
    else:
        values = body.emit("load", place, type=lanes(block.sums))
        total = body.emit("lane_reduce", values, type=block.sums, kind="add")
    partial = body.emit("offset", partials, element)
    before = body.emit("load", partial, type=block.sums)
    body.effect("store", partial, body.emit("add", before, total))
    b.control("for", (b.constant(I64, block.count),), (), (Region((element,), body.ops, ()),))
