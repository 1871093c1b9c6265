"""One thread of a GPU runs a few neighboring threads of the program. Their elements lie side by side in memory.

    %9 = offset %8, %6           %6 is the thread's number: 4 elements of 4 bytes, so one load of 16 bytes
    %10 = load %9 : f32          load %9 : lanes<f32>

In: a flat kernel. Out: the kernel of a few lanes, and the condition under which its accesses are aligned; None for
kernels that gain nothing, and for those without support here. These have loops, calls, atomics or reports, reach memory
in branches or in other ways, or have values that would need too many registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import BOOL, U64, Lanes, Scalar, pointer_of
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import is_arithmetic
from slangrad.spmd.analyses.uniformity import Shapes
from slangrad.spmd.analyses.width import live_bytes
from slangrad.spmd.widen import widen

WIDEST = 16  # bytes that a GPU loads at once
MOST_LANES = 4
MOST_LIVE = 320  # bytes of all lanes in registers, at the same time
ADDRESSES = frozenset({"parameter", "member", "offset", "thread_id"})


@dataclass(frozen=True, slots=True)
class CoarseKernel:
    """`wide` runs so many threads, the first of which has a number that is a multiple of `lanes`. `aligned` has no
    effects, and yields whether all accesses of `wide` are."""

    lanes: int
    wide: Function
    aligned: Function


def coarsen(kernel: Function) -> CoarseKernel | None:
    """The kernel for a few threads at a time, where that is worth it."""
    inner = [op for branch in kernel.region.ops for op in walk(*branch.regions)]
    if not all(map(_computes, inner)) or not all(
        op.name in ADDRESSES | {"load", "store"} or _computes(op) for op in kernel.region.ops
    ):
        return None
    shapes = Shapes(kernel, MOST_LANES)
    sizes = [_size_in_row(op, shapes) for op in kernel.region.ops if op.name in ("load", "store")]
    largest = max((size for size in sizes if size is not None), default=0)
    if None in sizes or not largest:
        return None
    live = max(live_bytes(kernel.region, shapes), 1)
    lanes = min(MOST_LANES, WIDEST // largest, _power_below(MOST_LIVE // live))
    if lanes < 2:
        return None
    wide = widen(kernel, lanes, entire=True).full
    assert wide is not None
    aligned = _condition(wide)
    return None if aligned is None else CoarseKernel(lanes, wide, aligned)


def _power_below(number: int) -> int:
    """The largest power of two up to it; 0 for 0."""
    return 1 << number.bit_length() >> 1


def _computes(op: Op) -> bool:
    return op.name == "if" or is_arithmetic(op)


def _size_in_row(op: Op, shapes: Shapes) -> int | None:
    """Bytes of an element that each thread has for itself, one after the other; 0 for what all threads load; None for
    all other accesses."""
    p = op.operands[0]
    shape, size = shapes.of(p), element_size(p.type)
    if shape.is_uniform:
        return 0 if op.name == "load" else None
    in_row = shape.is_strided and shape.stride == size and not shape.guarded
    return size if in_row and isinstance(pointer_of(p.type).element, Scalar) else None


def _condition(wide: Function) -> Function | None:
    """Whether each access of lanes begins at a multiple of its size; None where addresses are loaded from memory that
    may change."""
    needed: dict[Value, int] = {}  # addresses, with the bytes of their accesses
    for op in wide.region.ops:
        moved = {"load": op.results[:1], "store": op.operands[1:]}.get(op.name, ())
        if moved and isinstance(moved[0].type, Lanes):
            needed[op.operands[0]] = element_size(op.operands[0].type) * wide.attributes["lanes"]
    b, copies = Builder(span=wide.span), dict[Value, Value]()
    for op in _making(wide, needed):
        if op.regions or (op.name == "load" and pointer_of(op.operands[0].type).space != "constant"):
            return None
        (result,) = op.results
        operands = tuple(copies[x] for x in op.operands)
        copies[result] = b.primitive(op.name, operands, result.type, op.attributes)
    rest = b.constant(U64, 0)
    for address, size in needed.items():
        number = b.emit("bitcast", copies[address], type=U64)
        rest = b.emit("or", rest, b.emit("and", number, b.constant(U64, size - 1)))
    holds = b.emit("equal", rest, b.constant(U64, 0))
    return Function("aligned", (), BOOL, Region((), b.ops, (holds,)), span=wide.span)


def _making(function: Function, values: dict[Value, int]) -> list[Op]:
    """The ops that the values are made of, in order."""
    wanted, ops = set(values), list[Op]()
    for op in reversed(function.region.ops):
        if wanted.intersection(op.results):
            wanted.update(op.operands)
            ops.append(op)
    return ops[::-1]
