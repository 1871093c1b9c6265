"""Stores past the caches, for results that are too large to stay there.

    store %p, %y : lanes<f32>        br %large;  aligned: store <16 x float> %y, ptr %p, align 64, !nontemporal
                                                 else:    store <16 x float> %y, ptr %p, align 4

If memory is written whole and not read, a cache line need not be fetched before it is overwritten. That saves a
third of the traffic of a kernel with one input and one output. It pays only if the line would leave the cache
before its next read, so the launch's size decides. The choice of stores affects speed only: a store past the caches
writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.ir.analyses.addresses import Roots
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Lanes, Pointer
from slangrad.ir.ops.core import Function, Op, walk
from slangrad.llvm.launch.launch import read_field
from slangrad.llvm.text.writer import Writer

LARGE = 1 << 24  # bytes that a launch writes through one store


def whole_stores(function: Function) -> Iterator[tuple[Op, int]]:
    """Stores of whole waves to memory that is not read by this kernel, with the size of an element."""
    roots = Roots(function.region.makers.get)
    read = {roots.root(op.operands[0]) for op in walk(function.region) if op.name in ("load", "atomic")}
    for op in function.region.ops:
        if op.name == "store" and _is_consecutive(op) and roots.root(op.operands[0]) not in read:
            element = op.operands[1].type
            assert isinstance(element, Lanes)
            yield op, layout_of(element.element).size


def _is_consecutive(op: Op) -> bool:
    address, value, *mask = op.operands
    return (
        not mask
        and isinstance(address.type, Pointer)
        and address.type.space == "global"
        and isinstance(value.type, Lanes)
    )


def write_conditions(w: Writer, function: Function) -> dict[Op, str]:
    """For each such store a truth value: whether the launch is large."""
    stores = list(whole_stores(function))
    if not stores:
        return {}
    nx, ny, nz = (read_field(w, "%launch", name) for name in ("nx", "ny", "nz"))
    threads = w.value(f"mul i64 {w.value(f'mul i64 {nx}, {ny}')}, {nz}")
    large = {
        size: w.value(f"icmp uge i64 {threads}, {LARGE // size}") for size in {size for _, size in stores}
    }
    return {op: large[size] for op, size in stores}


def write_store(w: Writer, large: str, value: str, address: str, bytes_of_wave: int, plain: str) -> None:
    """`plain` is the ordinary store; the other one needs an aligned address."""
    alignment = min(bytes_of_wave, 64)
    maybe, streamed, ordinary, done = w.labels("maybe", "streamed", "ordinary", "stored")
    w.branch(large, maybe, ordinary)
    w.block(maybe)
    low = w.value(f"and i64 {w.value(f'ptrtoint ptr {address} to i64')}, {alignment - 1}")
    w.branch(w.value(f"icmp eq i64 {low}, 0"), streamed, ordinary)
    w.block(streamed)
    w.line(f"store {value}, ptr {address}, align {alignment}, !nontemporal !2")
    w.jump(done)
    w.block(ordinary)
    w.line(plain)
    w.jump(done)
    w.block(done)


def write_fence(w: Writer, triple: str) -> None:
    """A fence before the chunk counts as done: such stores keep no order on x86."""
    if triple.startswith("x86_64"):
        w.line("call void @llvm.x86.sse.sfence()")
