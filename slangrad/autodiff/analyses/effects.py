"""The effects of functions that matter for derivatives, callees included.

acts       writes memory, prints or reports, or is a substitute of such code, and has a derivative
changes    has an effect that shows when it happens twice; reports may happen again
reads      reads memory that may change
stores     leaves other values in memory, in the forward sweep of a vjp
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slangrad.ir.ops.core import Function, Op, walk
from slangrad.ir.ops.effects import effect_of
from slangrad.ir.ops.primitives import PRIMITIVES, READ, WRITE

# fmt: off
_OF_OPS: dict[str, Callable[[Op], bool]] = {
    "acts":    lambda op: PRIMITIVES[op.name].effect == WRITE,
    "changes": lambda op: effect_of(op) == WRITE and op.name != "in_bounds",
    "reads":   lambda op: effect_of(op) == READ,
    "stores":  lambda op: op.name in ("store", "atomic"),
}
# fmt: on
_WHERE_DROPPED = {"acts": True, "stores": False}  # of functions that a forward sweep leaves out


class Effects:
    """Of the functions of a program; results are cached."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._known: dict[tuple[str, str], bool] = {}

    def of(self, effect: str, name: str) -> bool:
        """Whether a function has an effect. A call of itself adds nothing."""
        key = effect, name
        if key not in self._known:
            self._known[key] = False
            f = self._functions[name]
            dropped = effect in _WHERE_DROPPED and bool(f.attributes.get("drop_primal"))
            self._known[key] = _WHERE_DROPPED[effect] if dropped else self.of_any(effect, f)
        return self._known[key]

    def of_any(self, effect: str, f: Function) -> bool:
        """Whether an op of a function has an effect."""
        return any(self.of_op(effect, op) for op in walk(f.region))

    def of_op(self, effect: str, op: Op) -> bool:
        if op.name == "call":
            return self.of(effect, op.attributes["callee"])
        return op.name in PRIMITIVES and _OF_OPS[effect](op)
