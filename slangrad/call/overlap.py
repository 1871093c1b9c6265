"""Memory of one call that overlaps.

In: the regions that the arguments of a call touch.   Out: nothing to do, regions to copy first, or an error.

    f(x, _result=x)          the same elements by the same threads: fine
    f(x[:-1], _result=x[1:])  x is copied first, so the call reads what was there before
    f(a, out=x, _result=x)   two outputs: refused (E1008)

What is only read and overlaps what is written is copied first, as if all inputs were read before any output
is written. Parameters that are whole tensors may overlap each other in what they write, as in the language
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slangrad.marshal.errors import CallError

Shape = tuple[int, ...]


@dataclass(slots=True)
class Region:
    """Bytes `low` to `high` from the address in `values[place]`. `takes`: a derivative is read there; `adds`:
    one is accumulated.

    `strides` are along the loops of the launch, None where the function itself says what it touches;
    `injective`: no two calls share an element.
    """

    label: str
    place: int
    low: int
    high: int
    reads: bool
    writes: bool
    adds: bool
    strides: Shape | None
    injective: bool
    takes: bool = False

    @property
    def changes(self) -> bool:
        return self.writes or self.adds


def pairs_of(regions: Sequence[Region]) -> list[tuple[Region, Region]]:
    """The pairs worth looking at in every call."""
    return [
        (first, second)
        for i, first in enumerate(regions)
        for second in regions[i + 1 :]
        if (first.changes or second.changes) and not (_free(first, second))
    ]


def _free(first: Region, second: Region) -> bool:
    """Whole tensors that are written are the function's own business."""
    return first.strides is None and second.strides is None and first.writes and second.writes


@dataclass(slots=True)
class Conflicts:
    """What to do about overlaps: regions to copy first; whether gradients share elements."""

    copies: list[Region]
    shared: bool


def find_conflicts(pairs: Sequence[tuple[Region, Region]], values: list[Any]) -> Conflicts | None:
    """None, nearly always: nothing overlaps."""
    found: Conflicts | None = None
    for first, second in pairs:
        start, other = values[first.place], values[second.place]
        if start + first.low >= other + second.high or other + second.low >= start + first.high:
            continue
        found = found or Conflicts([], False)
        _resolve(first, second, start == other and _same_elements(first, second), found)
    return found


def _same_elements(first: Region, second: Region) -> bool:
    """Whether each call touches the same element through both, and no other call does."""
    same = first.strides is not None and first.strides == second.strides
    return same and first.injective and first.high == second.high and first.low == second.low


def _resolve(first: Region, second: Region, same: bool, found: Conflicts) -> None:
    if (first.adds and second.takes) or (first.takes and second.adds):
        message = (
            f"the gradients of '{first.label}' and '{second.label}' overlap: one is read where the other is "
            "added to, so they need separate buffers for inputs and outputs (see Tensor.with_grads)"
        )
        raise CallError("E1007", message, (), "tensor.with_grads(grad_in=..., grad_out=...)")
    if first.adds and second.adds:
        found.shared = found.shared or not same
        return
    if first.changes and second.changes:
        message = f"'{first.label}' and '{second.label}' overlap in memory, and the call changes both"
        raise CallError("E1008", message, (), "give each its own memory, for example a copy")
    if same:
        return
    reader = second if first.changes else first
    if reader not in found.copies:
        found.copies.append(reader)
