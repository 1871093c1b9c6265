"""Loops as their iterations, one after the other: what both unrolling passes do with a loop that they chose."""

from __future__ import annotations

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.core import Op, Value


def written_out(walk: Rebuild, b: Builder, op: Op, trips: int) -> tuple[Value, ...]:
    """What a loop leaves, one iteration after the other."""
    (count, *carried), (body,) = walk.values(op.operands), op.regions
    for i in range(trips - 1, -1, -1) if op.attributes.get("reverse") else range(trips):
        walk.new.update(zip(body.parameters, (b.constant(count.type, i), *carried), strict=True))
        carried = list(walk.inline(b, body))
    return tuple(carried)
