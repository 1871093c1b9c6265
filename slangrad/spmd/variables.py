"""Variables that have an address, in lanes: the copies of the lanes follow each other, so that each is contiguous.

%x = variable                  one piece of local memory for all lanes; lane l has its own at l
%x = variable %depth           a row for each depth of recursion, made on first use
"""

from __future__ import annotations

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import I64
from slangrad.ir.ops.core import Op, Value
from slangrad.spmd.effects import lane_by_lane
from slangrad.spmd.forms import Strided
from slangrad.spmd.lanes import Rule, Widening


def _variable(w: Widening, b: Builder, op: Op) -> None:
    (result,), count = op.results, op.attributes.get("count", 1)
    if not w.forms.shape(result).is_strided:
        _at_own_depth(w, b, op)
        return
    if op.operands:
        base = b.primitive("variable", (w.forms.scalar(op.operands[0]),), result.type, op.attributes)
    else:
        base = b.primitive("alloc", (), result.type, {"count": count * w.count})
    w.forms.set(result, Strided(base, b.constant(I64, element_size(result.type))))


def _at_own_depth(w: Widening, b: Builder, op: Op) -> None:
    t = op.results[0].type

    def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> Value:
        return inner.emit("offset", inner.primitive("variable", operands, t, op.attributes), lane)

    lane_by_lane(w, b, op, act)


RULES: dict[str, Rule] = {"variable": _variable}
