"""Rows of tapes that are read before the tape is written, and needed afterwards.

    %r = index %t, %i            %r must be read here, not where its elements are used: the tape would be copied
    %u = set_index %t, %k, %zero
    %e = index %r, %j

In: a function with aggregates.   Out: such `index` ops. A row that is changed and put back where it was is not one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.flatten.leaves import is_fixed_array, leaf_types
from slangrad.flatten.versions import UPDATES
from slangrad.ir.data.types import Array, is_tape
from slangrad.ir.ops.core import Function, Op, Region, Value, walk


def rows_to_read(function: Function) -> set[Op]:
    makers = function.region.makers
    return {op for region in _regions(function) for op in _in_region(region, makers)}


def _regions(function: Function) -> Iterator[Region]:
    yield function.region
    for op in walk(function.region):
        yield from op.regions


def _in_region(region: Region, makers: dict[Value, Op]) -> Iterator[Op]:
    for i, op in enumerate(region.ops):
        if op.name == "index" and _has_rows(op) and _is_overwritten(op, region.ops[i + 1 :], makers):
            yield op


def _has_rows(op: Op) -> bool:
    t = op.operands[0].type
    return isinstance(t, Array) and is_tape(t) and any(map(is_fixed_array, leaf_types(t.element)))


def _is_overwritten(read: Op, later: Sequence[Op], makers: dict[Value, Op]) -> bool:
    """Whether another row, or another value, is written into the tape."""
    tape, index = read.operands
    for op in later:
        for inner in (op, *walk(*op.regions)):
            if inner.name in UPDATES and inner.operands[0] is tape:
                back = inner.name == "set_index" and inner.operands[1] is index
                if not back or _origin(inner.operands[2], makers) is not read.results[0]:
                    return True
    return False


def _origin(value: Value, makers: dict[Value, Op]) -> Value:
    """The version of a value before elements of it were set."""
    while value in makers and makers[value].name in ("set", "set_index"):
        value = makers[value].operands[0]
    return value
