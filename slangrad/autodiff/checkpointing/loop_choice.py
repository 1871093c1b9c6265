"""Which loops reverse mode keeps in segments: those of unknown or large length with residuals.

    for %n (%i, %s) {..}      keeps a value in each iteration, and their number is unknown: segments of 256
    for 64 (%i, %s) {..}      stays as it is

Loops with effects stay, too, as a segment runs twice. `loop_splitting.py` splits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slangrad.autodiff.analyses.activity import Activity
from slangrad.autodiff.analyses.loop_tree import LoopTree, holds_array
from slangrad.autodiff.checkpointing.loop_splitting import Segments
from slangrad.autodiff.checkpointing.plan import ResidualPlan
from slangrad.ir.building.rebuild import free_values
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import U32, contains, is_tape
from slangrad.ir.ops.control import LOOPS
from slangrad.ir.ops.core import Op, Region, walk
from slangrad.ir.ops.type_rules import scalar_type

SHORT = 64  # segments that a loop of known length keeps without checkpoints
CHEAP = 4  # a state must have this part of the bytes of its segment at most
INSIDE = 16  # estimated iterations of loops of unknown length in a segment


class LoopChoice:
    """The outermost loops with too many residuals, in a plan that keeps all."""

    def __init__(
        self,
        tree: LoopTree,
        plan: ResidualPlan,
        activity: Activity,
        may_run_again: Callable[[Op], bool],
        trips: int,
    ) -> None:
        self._tree = tree
        self._plan = plan
        self._activity = activity
        self._may_run_again = may_run_again
        self._trips = trips
        self.chosen: dict[Op, Segments] = {}
        self._visit(tree.top.region, often=False)

    def _visit(self, region: Region, often: bool) -> None:
        """`often`: a loop around, which stays whole, has an unknown number of iterations."""
        for op in region.ops:
            cut = self._cut(op, often) if op.name in LOOPS else None
            if cut is not None:
                self.chosen[op] = cut
                continue
            again = often or (op.name in LOOPS and self._bound(op) is None)
            for inner in op.regions:
                self._visit(inner, again)

    def _cut(self, op: Op, often: bool) -> Segments | None:
        if op.attributes.get("segmented") or op.attributes.get("at_most"):
            return None
        bound, inner = self._bound(op), self._inside(op)
        total = None if bound is None or inner is None else bound * inner
        if total is not None and total <= self._most:
            return None
        if bound is not None and bound <= self._trips and (inner is None or inner > self._most):
            return None  # rather the loops inside
        if not self._keeps(op) or not self._is_possible(op):
            return None
        trips = max(1, self._trips // (INSIDE if inner is None else inner), self._worth(op))
        whole_first = bound is None and inner is not None and not often
        return Segments(trips, whole_first) if trips <= self._most else None

    @property
    def _most(self) -> int:
        return SHORT * self._trips

    def _bound(self, op: Op) -> int | None:
        """How often the loop runs at most, as far as is known or promised."""
        if op.attributes.get("segmented"):
            return 1
        loop, promised = self._tree.loops[op], op.attributes.get("max_trips")
        return loop.most if loop.most is not None or not isinstance(promised, int) else promised

    def _inside(self, op: Op) -> int | None:
        """How often the innermost loops inside run in one iteration at most."""
        most = 1
        for inner in _outermost_loops(op.regions[-1]):
            bound, deeper = self._bound(inner), self._inside(inner)
            if bound is None or deeper is None:
                return None
            most = max(most, max(bound, 1) * deeper)
        return most

    def _keeps(self, op: Op) -> bool:
        loops = (inner for inner in (op, *walk(op.regions[-1])) if inner.name in LOOPS)
        return self._activity.live(op) and any(self._plan.taped.get(self._tree.loops[x]) for x in loops)

    def _worth(self, op: Op) -> int:
        """The length of segments at which their states are few bytes compared with the residuals inside."""
        state = sum(layout_of(r.type).size for r in op.results)
        return CHEAP * state // max(1, self._kept(op)) if any(holds_array(r.type) for r in op.results) else 1

    def _kept(self, op: Op) -> int:
        """Bytes that one iteration keeps."""
        kept = sum(layout_of(v.type).size for v in self._plan.taped.get(self._tree.loops[op], ()))
        inner = _outermost_loops(op.regions[-1])
        return kept + sum((self._bound(loop) or INSIDE) * self._kept(loop) for loop in inner)

    def _is_possible(self, op: Op) -> bool:
        if op.name == "for" and scalar_type(op.operands[0]).bits < U32.bits:
            return False
        values = (*op.operands, *free_values(*op.regions))
        if any(contains(v.type, is_tape) for v in values):
            return False
        return all(map(self._may_run_again, walk(*op.regions)))


def _outermost_loops(region: Region) -> Iterator[Op]:
    for op in region.ops:
        if op.name in LOOPS:
            yield op
        else:
            for inner in op.regions:
                yield from _outermost_loops(inner)
