"""Write out loops whose number of iterations is known: those marked `unroll`, and small ones.

    %s = for 2, %x : f32 (%i: i32, %s: f32) {      ->      %a = add %x, %y
      %t = add %s, %y                                      %b = add %a, %y
      yield %t
    }

Constant indices then turn elements of arrays into values. A marked loop beyond the limit is the user's
error; a marked loop whose count is not constant stays a loop.
"""

from __future__ import annotations

from typing import NoReturn

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Limits, limit_note
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.ops.control import constant_trips
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.opt.simplify.iterations import written_out

SMALL = 128  # ops that a loop may become without being marked


def unroll(function: Function, limits: Limits | None = None) -> Function:
    """The function with marked and small loops written out."""
    return _Unroll(function, limits or Limits()).function(function)


class _Unroll(Rebuild):
    def __init__(self, function: Function, limits: Limits) -> None:
        super().__init__({"for": self._for})
        self._limits = limits
        self._function = function
        self._around = 1  # iterations of the marked loops around, multiplied
        self._total = 0  # ops, once a marked loop was written out
        self._makers = function.region.makers

    def _for(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        count = b.constant_of(self.value(op.operands[0]))
        if not isinstance(count, int):
            return copy_op(rebuild, b, op)
        trips = max(count, 0)
        if not op.attributes.get("unroll"):
            return written_out(self, b, op, trips) if self._is_small(op, trips) else copy_op(rebuild, b, op)
        outer, self._around = self._around, self._around * max(trips, 1)
        self._check_sizes(op, trips)
        results = written_out(self, b, op, trips)
        self._around = outer
        return results

    def _is_small(self, op: Op, trips: int) -> bool:
        (body,) = op.regions
        return trips * (self._size(body) - _parts_of_constants(body)) <= SMALL

    def _check_sizes(self, op: Op, trips: int) -> None:
        """Refuse marked loops beyond the limits: rounds of a nest, ops of all of them."""
        if self._around > self._limits.unroll_iterations:
            nest = "a loop" if self._around == trips else "a nest of loops"
            self._refuse(op, f"{nest} of {self._around} iterations", "unroll_iterations")
        if not self._total:
            self._total = sum(1 for _ in walk(self._function.region))
        self._total += (trips - 1) * sum(1 for _ in walk(op.regions[0]))
        if self._total > self._limits.inline_ops:
            self._refuse(op, f"a loop that adds up to {self._total} operations", "inline_ops")

    def _refuse(self, op: Op, loop: str, limit: str) -> NoReturn:
        message, note = f"{loop} is too long to be unrolled", f"leave out [ForceUnroll]; {limit_note(limit)}"
        raise CompileError([Diagnostic("E0792", message, op.span or self._function.span, note)])

    def _size(self, region: Region) -> int:
        """Ops of a region when the loops within it are unrolled, too, where that is allowed."""
        return sum(self._size_of(op) for op in region.ops if op.name != "const")

    def _size_of(self, op: Op) -> int:
        size = 1 + sum(map(self._size, op.regions))
        trips = constant_trips(op, self._makers)
        return size if trips is None or size * trips > SMALL else max(1, size * trips)


def _parts_of_constants(body: Region) -> int:
    """The number of ops that take parts of loop-invariant values: these are made once, before the loop."""
    inner_values = {*body.parameters, *(result for op in body.ops for result in op.results)}
    return sum(op.name == "get" and op.operands[0] not in inner_values for op in body.ops)
