"""Loops that make an array element by element, so that code does not depend on its length.

%r = for %n, %x : [n x T] (%i: u32, %a: [n x T]) { ...  %b = set_index %a, %i, %e  yield %b }
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import U32, Array
from slangrad.ir.ops.core import Value

Step = Callable[[Builder, Value, Value], Value]


def repeated(b: Builder, count: int, start: Value, step: Step) -> Value:
    """`start` changed by `step(builder, the value so far, index)` for each index below `count`."""
    changed = lambda inner, index, carried: (step(inner, carried, index),)
    return b.for_(b.constant(U32, count), (start,), changed)[0]


def with_elements(b: Builder, start: Value, element: Step) -> Value:
    """`start` with each element replaced, in place, by `element(builder, the array so far, index)`."""
    assert isinstance(start.type, Array) and start.type.length is not None

    def replaced(b: Builder, whole: Value, index: Value) -> Value:
        return b.emit("set_index", whole, index, element(b, whole, index))

    return repeated(b, start.type.length, start, replaced)
