"""Which values are the same in all threads of a group, and which barriers all of its threads come to.

    %g = div (thread_id), %size     FIXED    known before the threads run: arguments, places in the grid, values of
    these
    %n = load %shared               SAME     each thread has it, and it is the same where threads do not race
    %i = rem (thread_id), %size     OWN

A fixpoint: values start FIXED and only become less so. A barrier under a condition that is OWN is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.ir.ops.control import carried, decides, merged
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import primitive_effect
from slangrad.ir.ops.primitives import PURE

FIXED, SAME, OWN = 0, 1, 2
GROUP_OPS = frozenset({"shared", "barrier"})


def runs_in_groups(kernel: Function) -> bool:
    """Whether threads of a group have to run together."""
    return kernel.waves_cross_rows or any(op.name in GROUP_OPS for op in walk(kernel.region))


class GroupValues:
    """The result of the analysis of a flat kernel. `functions`: those that it calls, by name."""

    def __init__(self, kernel: Function, functions: Mapping[str, Function]) -> None:
        self.size = kernel.attributes["group_size"]
        self._functions = functions
        self.makers = kernel.region.makers
        self._ranks: dict[Value, int] = {}
        self._holding: dict[Op, bool] = {}
        self._changed = True
        while self._changed:
            self._changed = False
            self._region(kernel.region)

    def rank(self, value: Value) -> int:
        return self._ranks.get(value, FIXED)

    def is_fixed(self, value: Value) -> bool:
        return self.rank(value) == FIXED

    def holds_barrier(self, op: Op) -> bool:
        if op not in self._holding:
            inner = walk(*op.regions)
            self._holding[op] = op.name == "barrier" or any(x.name == "barrier" for x in inner)
        return self._holding[op]

    def place_in_grid(self, op: Op) -> tuple[str, int] | None:
        """("group", axis) or ("thread", axis): the number of the group, or of the thread in it."""
        if op.name == "thread_id":
            axis = op.attributes["axis"]
            return ("group", axis) if self.size[axis] == 1 else None
        if op.name not in ("div", "rem"):
            return None
        whole, by = (self.makers.get(operand) for operand in op.operands)
        if whole is None or by is None or whole.name != "thread_id" or by.name != "const":
            return None
        if by.attributes["value"] != self.size[whole.attributes["axis"]]:
            return None
        return ("group" if op.name == "div" else "thread", whole.attributes["axis"])

    # --- the fixpoint

    def _raise(self, value: Value, rank: int) -> None:
        if rank > self.rank(value):
            self._ranks[value] = rank
            self._changed = True

    def _most(self, values: Sequence[Value], least: int = FIXED) -> int:
        return max((least, *map(self.rank, values)))

    def _region(self, region: Region) -> None:
        for op in region.ops:
            rule = _RULES.get(op.name)
            if rule is not None:
                rule(self, op)
            else:
                self._primitive(op)

    def _primitive(self, op: Op) -> None:
        place = self.place_in_grid(op)
        if place is not None:
            rank = FIXED if place[0] == "group" else OWN
        elif op.name in _OWN:
            rank = OWN
        else:
            rank = self._most(op.operands, FIXED if primitive_effect(op.name, op.operands) == PURE else SAME)
        for result in op.results:
            self._raise(result, rank)

    def _call(self, op: Op) -> None:
        rank = self._most(op.operands, OWN if self._gives_own(op.attributes["callee"]) else SAME)
        for result in op.results:
            self._raise(result, rank)

    def _gives_own(self, name: str) -> bool:
        """Whether threads may get different results for the same arguments."""
        ops = walk(self._functions[name].region)
        return any(
            self._gives_own(op.attributes["callee"]) if op.name == "call" else op.name in _OWN_RESULTS
            for op in ops
        )

    def _if(self, op: Op) -> None:
        least = self._most(op.operands, FIXED if self.holds_barrier(op) else SAME)
        for region in op.regions:
            self._region(region)
        for result, x, y in merged(op):
            self._raise(result, self._most((x, y), least))

    def _loop(self, op: Op) -> None:
        least = FIXED if self.holds_barrier(op) else self._most((decides(op),), SAME)
        if op.name == "for":
            self._raise(op.regions[0].parameters[0], least)
        for loop_value in carried(op):
            rank = self._most((loop_value.start, loop_value.yielded), least)
            for value in (loop_value.result, *loop_value.inside):
                self._raise(value, rank)
        for region in op.regions:
            self._region(region)


_OWN_RESULTS = frozenset({
    "thread_id", "atomic", "wave_lane", "wave_reduce", "wave_scan", "wave_ballot", "wave_read",
})  # fmt: skip
_OWN = _OWN_RESULTS | {"alloc", "variable", "tape_new", "tape_copy", "tape_load"}

_RULES: dict[str, Callable[[GroupValues, Op], None]] = {
    "call": GroupValues._call,
    "if": GroupValues._if,
    "for": GroupValues._loop,
    "while": GroupValues._loop,
}


def check_barriers(kernel: Function, functions: Mapping[str, Function]) -> None:
    """Raise where a barrier is not reached by all threads of a group, as far as can be proved."""
    if any(op.name == "barrier" for op in walk(kernel.region)):
        _check(GroupValues(kernel, functions), kernel.region)


def _check(values: GroupValues, region: Region) -> None:
    for op in region.ops:
        if not op.regions or not values.holds_barrier(op):
            continue
        if values.rank(decides(op)) == OWN:
            raise CompileError([_divergent(op)])
        for inner in op.regions:
            _check(values, inner)


def _divergent(op: Op) -> Diagnostic:
    barrier = next(op for op in walk(*op.regions) if op.name == "barrier")
    construct = "branch" if op.name == "if" else "loop"
    place = "" if op.span is None else f" ({op.span.location})"
    message = "not all threads of a group come to this barrier"
    note = f"the {construct} around it{place} differs from thread to thread; put the barrier outside of it"
    return Diagnostic("E9009", message, barrier.span or op.span, note)
