"""Loops that LLVM writes out, so that a local array which they step through becomes registers of a thread.

    %tape = alloc {count=64} : ptr<f32, local>
    for %64, ... (%i: u32, ...) { %at = offset %tape, %i   store %at, %x ... }      br label %for.1, !llvm.loop !4

In: the region of a kernel. Out: its loops. Local memory of a thread is memory of the GPU: an array that a forward loop
writes and a reverse loop reads costs more than the code of both loops written out.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.analyses.addresses import root_of
from slangrad.ir.data.layout import element_size
from slangrad.ir.ops.control import LOOPS, constant_trips
from slangrad.ir.ops.core import Op, Region

MOST_TRIPS = 64
MOST_OPS = 4_096  # of all loops, written out
MOST_BYTES = 256  # of all arrays; a thread has room for about four times as many in registers


def loops_of_arrays(region: Region) -> tuple[frozenset[Op], int]:
    """The loops around accesses of small local arrays, and the bytes of these arrays."""
    users: dict[Op, set[Op]] = {}
    _collect(region, region, (), users)
    chosen, taken = set[Op](), 0
    for array, loops in users.items():
        size = element_size(array.results[0].type) * array.attributes.get("count", 1)
        is_short = all(0 <= _trips(op, region) <= MOST_TRIPS for op in loops)
        if not loops or not is_short or taken + size > MOST_BYTES:
            continue
        if _written_out(region.ops, chosen | loops, region) <= MOST_OPS:
            chosen, taken = chosen | loops, taken + size
    return frozenset(chosen), taken


def _collect(whole: Region, region: Region, around: tuple[Op, ...], users: dict[Op, set[Op]]) -> None:
    """The loops around the accesses of each array."""
    for op in region.ops:
        if op.name in ("load", "store"):
            maker = whole.makers.get(root_of(op.operands[0], whole.makers.get))
            if maker is not None and maker.name == "alloc":
                users.setdefault(maker, set()).update(around)
        inner = (*around, op) if op.name in LOOPS else around
        for part in op.regions:
            _collect(whole, part, inner, users)


def _trips(op: Op, whole: Region) -> int:
    """How many iterations a loop has; -1 where that is not known."""
    trips = constant_trips(op, whole.makers)
    return -1 if trips is None else max(trips, 0)


def _written_out(ops: Iterable[Op], loops: set[Op], whole: Region) -> int:
    """How many ops the loops become, with those in them."""
    total = 0
    for op in ops:
        inside = [inner for part in op.regions for inner in part.ops]
        inner_size = _written_out(inside, loops, whole)
        total += _trips(op, whole) * (len(inside) + inner_size) if op in loops else inner_size
    return total
