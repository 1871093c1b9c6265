"""The effects of an op besides computing its results, regions included.

    load %p : f32            READ; PURE when %p points to constant memory
    if %c { store .. } { }   WRITE

Pure ops may vanish, merge and move. Moving one to where it would not have run (out of an arm, out of a loop
that may not turn) further asks that it does not report: see `may_run_early`.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import pointer_of
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.primitives import PRIMITIVES, PURE, READ, WRITE

ALLOCATIONS = frozenset(
    {"alloc", "variable", "tape_new", "tape_copy"}
)  # WRITE, as no two give the same memory


def local_bytes(op: Op) -> int:
    """The size of a local array or a variable, of one lane."""
    count: int = op.attributes.get("count", 1)
    return count * element_size(op.results[0].type)


def primitive_effect(name: str, operands: tuple[Value, ...]) -> str:
    """PURE, READ or WRITE for an op of the table."""
    if name == "load":
        return PURE if pointer_of(operands[0].type).space == "constant" else READ
    return PRIMITIVES[name].effect


def is_pure(op: Op) -> bool:
    """Whether an op of the table has no effect: arithmetic, and a load from constant memory."""
    return op.name in PRIMITIVES and primitive_effect(op.name, op.operands) == PURE


def is_arithmetic(op: Op) -> bool:
    """Whether an op of the table has no effect and reads no memory, constant memory included."""
    return op.name in PRIMITIVES and PRIMITIVES[op.name].effect == PURE


def effect_of(op: Op) -> str:
    """The strongest effect of an op or of the ops in its regions; a call without the attribute may have any
    effect."""
    if op.name in PRIMITIVES:
        return primitive_effect(op.name, op.operands)
    if not op.regions:
        return op.attributes.get("effect", WRITE)
    return strongest(effect_of(inner) for region in op.regions for inner in region.ops)


def strongest(effects: Iterable[str]) -> str:
    so_far = PURE
    for effect in effects:  # many may be left when the strongest is met
        if effect == WRITE:
            return WRITE
        so_far = READ if effect == READ else so_far
    return so_far


def effect_of_call(callee: Function) -> str:
    """The effect of a call of a function; one that may not end must not vanish."""
    if any(op.name == "while" for op in walk(callee.region)):
        return WRITE
    return strongest(map(effect_of, callee.region.ops))


def may_run_early(op: Op) -> bool:
    """Whether the op may run speculatively. Primitives are total, so only a report forbids it."""
    return is_pure(op) and not op.attributes.get("check")
