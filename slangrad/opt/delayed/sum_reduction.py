"""After a launch whose adds are delayed: the reduction.

for each element of each block: sum over the batches, in their order; added to memory unless it is zero
"""

from __future__ import annotations

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import I64, Scalar, pointer
from slangrad.ir.ops.core import Function, Region, Value
from slangrad.opt.delayed.delayed_sums import SumBlock, SumPlan, function_of, launch_field


def reduction_of(plan: SumPlan) -> Function:
    """Begins with the plan, whose numbers it needs."""
    outer = Builder()
    ops = list(plan.function.region.ops)
    for base, count, offset, block in zip(plan.bases, plan.counts, plan.offsets, plan.blocks, strict=True):
        _add_block(outer, base, count, offset, block)
    return function_of("reduce", Region((), [*ops, *outer.ops], ()))


def _add_block(b: Builder, base: Value, count: Value, offset: Value, block: SumBlock) -> None:
    def reduce_one(body: Builder, element: Value) -> tuple[Value, ...]:
        place = body.emit("mul", element, body.constant(I64, block.sums.size))
        partials = launch_field(body, "partials")
        first = body.emit("add", body.emit("add", partials, offset), place)
        total = _sum_of_batches(body, first, block.sums)

        def add(inner: Builder) -> None:
            at = address_of(inner, base, element, block)
            add_total(inner, inner.emit("bitcast", at, type=pointer(block.element)), total, block)

        return body.guarded(body.emit("not_equal", total, body.zero(block.sums)), add)

    b.for_(count, (), reduce_one, hint="element")


def address_of(b: Builder, base: Value, element: Value, block: SumBlock) -> Value:
    """Of an element by its number in the block."""
    if not block.places:
        return b.emit("add", base, b.emit("mul", element, b.constant(I64, block.element.size)))
    *others, address = block.places
    for number, place in enumerate(others):
        address = b.emit("select", b.emit("equal", element, b.constant(I64, number)), place, address)
    return address


def _sum_of_batches(b: Builder, first: Value, sums: Scalar) -> Value:
    def add_batch(body: Builder, batch: Value, total: Value) -> tuple[Value, ...]:
        distance = body.emit("mul", batch, launch_field(body, "partial_size"))
        place = body.emit("bitcast", body.emit("add", first, distance), type=pointer(sums))
        return (body.emit("add", total, body.emit("load", place, type=sums)),)

    chunks, size = launch_field(b, "chunks"), launch_field(b, "batch")
    rounded = b.emit("sub", b.emit("add", chunks, size), b.constant(I64, 1))
    (total,) = b.for_(b.emit("div", rounded, size), (b.zero(sums),), add_batch, hint="batch")
    return total


def add_total(b: Builder, place: Value, total: Value, block: SumBlock) -> None:
    """Halves are rounded once, at the end."""
    old = b.emit("load", place, type=block.element)
    if block.element is block.sums:
        b.effect("store", place, b.emit("add", old, total))
        return
    wide = b.emit("add", b.emit("convert", old, type=block.sums), total)
    b.effect("store", place, b.emit("convert", wide, type=block.element))
