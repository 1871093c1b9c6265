"""A vjp in two functions: the forward half hands residuals to the reverse half.

    @f.vjp(%x, %ct) -> %ct_x        @f.forward(%x) -> %r, %residuals        @f.reverse(%residuals, %ct) -> %ct_x

So a function that stays a function is not run again by its vjp. Its residuals are one value of its callers: a struct
with a field for each type. They are kept there as other values are, or the vjp as a whole runs the function again: the
plan of the caller has the price of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import Pointer, Struct, Type, array, contains, is_tape, struct
from slangrad.ir.ops.core import Region, Value
from slangrad.ir.ops.primitives import PRIMITIVES

MOST_BYTES = 1024
USUAL_TRIPS = 8  # a guess, of a loop whose count is not a constant


@dataclass(frozen=True, slots=True)
class Halves:
    """The functions, by name. `takes`: the operands that the reverse half takes, before residuals and cotangents.
    `cost`: of the function itself, in the unit of the table of primitives. `whole` gives the vjp in one."""

    forward: str
    reverse: str
    takes: tuple[bool, ...]
    residuals: Struct | None
    cost: int
    whole: Callable[[], str]


def may_be_handed(t: Type) -> bool:
    """Tapes are memory of the function that made them, and pointers may lead to some."""
    return not contains(t, lambda part: is_tape(part) or isinstance(part, Pointer))


def residual_type(name: str, types: Sequence[Type]) -> Struct | None:
    """Several values of a type are an array: a call in a chain of calls has few fields, whatever it hands over."""
    if not types:
        return None
    kinds = dict.fromkeys(types)
    counts = [(t, types.count(t)) for t in kinds]
    fields = tuple((f"r{i}", t if n == 1 else array(t, n)) for i, (t, n) in enumerate(counts))
    return struct(f"{name}.residuals", fields)


def packed(b: Builder, values: Sequence[Value], t: Struct) -> Value:
    """One value that holds all residuals."""
    alike: dict[Type, list[Value]] = {}
    for v in values:
        alike.setdefault(v.type, []).append(v)
    fields = [
        group[0] if len(group) == 1 else b.emit("make", *group, type=field)
        for group, (_, field) in zip(alike.values(), t.fields, strict=True)
    ]
    return b.emit("make", *fields, type=t)


def unpacked(b: Builder, whole: Value, types: Sequence[Type]) -> list[Value]:
    """The values that were packed, of these types."""
    kinds = list(dict.fromkeys(types))
    fields = [b.emit("get", whole, index=i) for i in range(len(kinds))]
    next_index = dict.fromkeys(kinds, 0)
    values = []
    for t in types:
        field = fields[kinds.index(t)]
        values.append(field if field.type is t else b.emit("get", field, index=next_index[t]))
        next_index[t] += 1
    return values


def cost_of(region: Region, of_call: Callable[[str], int]) -> int:
    """What it takes to run a region, in the unit of the table of primitives."""
    total, numbers = 0, {}
    for op in region.ops:
        if op.name == "const":
            numbers[op.results[0]] = op.attributes["value"]
        elif op.name == "call":
            total += of_call(op.attributes["callee"])
        elif op.name in PRIMITIVES:
            total += PRIMITIVES[op.name].cost
        inner = sum(cost_of(inner_region, of_call) for inner_region in op.regions)
        count = numbers.get(op.operands[0]) if op.name == "for" else None
        if op.name in ("for", "while"):
            inner *= count if isinstance(count, int) else USUAL_TRIPS
        total += inner
    return total
