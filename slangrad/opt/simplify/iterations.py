"""Loops as their iterations, one after the other, for both unrolling passes."""

from __future__ import annotations

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.core import Op, Value


def written_out(walk: Rebuild, b: Builder, op: Op, trips: int) -> tuple[Value, ...]:
    """The results of a loop, one iteration after the other."""
    (count, *carried), (body,) = walk.values(op.operands), op.regions
    for i in range(trips - 1, -1, -1) if op.attributes.get("reverse") else range(trips):
        walk.new.update(zip(body.parameters, (b.constant(count.type, i), *carried), strict=True))
        carried = list(walk.inline(b, body))
    return tuple(carried)
