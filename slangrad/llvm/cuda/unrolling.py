"""Loops that LLVM writes out, so that a local array which they step through becomes registers of a thread.

    %tape = alloc {count=64} : ptr<f32, local>
    for %64, ... (%i: u32, ...) { %at = offset %tape, %i   store %at, %x ... }      br label %for.1, !llvm.loop !4

In: a kernel. Out: its loops on which addresses in such arrays depend. Local memory of a thread is memory of the GPU. An
array that a forward loop writes and a reverse loop reads costs more there than the code of both loops written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slangrad.ir.analyses.addresses import root_of
from slangrad.ir.ops.control import LOOPS, constant_trips
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import local_bytes

MOST_TRIPS = 64
MOST_OPS = 4_096  # of all loops, written out
MOST_BYTES = 256  # of all arrays; a thread has room for about four times as many in registers
# Of a kernel that stays: few blocks run at a time, and each thread runs its code often.
MOST_OPS_OF_SUMS, MOST_BYTES_OF_SUMS = 8_192, 1024


def loops_of_arrays(kernel: Function) -> tuple[frozenset[Op], int]:
    """The loops behind the addresses in small local arrays, and the bytes of these arrays."""
    region = kernel.region
    most_ops, most_bytes = MOST_OPS, MOST_BYTES
    if kernel.attributes.get("stays"):
        most_ops, most_bytes = MOST_OPS_OF_SUMS, MOST_BYTES_OF_SUMS
    owners = {
        value: op for op in walk(region) if op.name in LOOPS for r in op.regions for value in r.parameters
    }
    chosen, total_bytes = set[Op](), 0
    for array, addresses in _addresses(region).items():
        loops, size = _loops_behind(addresses, region, owners), local_bytes(array)
        is_short = all(0 <= _trips(op, region) <= MOST_TRIPS for op in loops)
        if not loops or not is_short or total_bytes + size > most_bytes:
            continue
        if _written_out(region.ops, chosen | loops, region) <= most_ops:
            chosen, total_bytes = chosen | loops, total_bytes + size
    return frozenset(chosen), total_bytes


def _addresses(region: Region) -> dict[Op, list[Value]]:
    """The addresses of all accesses of each array."""
    addresses: dict[Op, list[Value]] = {}
    for op in walk(region):
        if op.name in ("load", "store", "atomic"):
            maker = region.makers.get(root_of(op.operands[0], region.makers.get))
            if maker is not None and maker.name == "alloc":
                addresses.setdefault(maker, []).append(op.operands[0])
    return addresses


def _loops_behind(values: Iterable[Value], region: Region, owners: Mapping[Value, Op]) -> set[Op]:
    """The loops in which values change."""
    pending, seen, loops = list(values), set[Value](), set[Op]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = owners.get(value) or region.makers.get(value)
        if op is None or op.name == "alloc":
            continue
        if op.name in LOOPS:
            loops.add(op)
        pending += [*op.operands, *(v for inner in op.regions for v in inner.yields)]
    return loops


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
