"""Loops that count a variable up: its value in the body, and its bound.

    %some = less %i, %n
    %count = select %some, ((%n - %i) - 1) / 256 + 1, 0
    for %count (%k) { %j = add %i, (mul %k, 256) }          %i <= %j < %n

Lowering makes such code of `for (j = i; j < n; j += 256)`; here it is read back, so that the bound is known again.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.ir.ops.core import MadeBy, Op, Value, number_of


def counted_variables(loop: Op, made_by: MadeBy) -> Iterator[tuple[Value, Value, Value]]:
    """Values of the body with their start and the bound that they stay below."""
    bounds = _bounds(loop.operands[0], made_by)
    if bounds is None:
        return
    start, bound, step = bounds
    index = loop.regions[0].parameters[0]
    for op in loop.regions[0].ops:
        if op.name != "add" or start not in op.operands:
            continue
        moved = op.operands[1] if op.operands[0] is start else op.operands[0]
        if _is_multiple(moved, index, step, made_by):
            yield op.results[0], start, bound


def _bounds(count: Value, made_by: MadeBy) -> tuple[Value, Value, int] | None:
    """Start, bound and step of a count of trips."""
    chosen = made_by(count)
    test = None if chosen is None or chosen.name != "select" else made_by(chosen.operands[0])
    if chosen is None or test is None or test.name != "less" or number_of(chosen.operands[2], made_by) != 0:
        return None
    (start, bound), distance, step = test.operands, chosen.operands[1], 1
    rest = _without(distance, "add", 1, made_by)
    if rest is not None:
        quotient = made_by(rest)
        size = (
            None if quotient is None or quotient.name != "div" else number_of(quotient.operands[1], made_by)
        )
        before = None if quotient is None else _without(quotient.operands[0], "sub", 1, made_by)
        if size is None or before is None:
            return None
        distance, step = before, size
    difference = made_by(distance)
    if difference is None or difference.name != "sub":
        return None
    high, low = (_plain(x, made_by) for x in difference.operands)
    same = high is _plain(bound, made_by) and low is _plain(start, made_by)
    return (start, bound, step) if same else None


def _plain(value: Value, made_by: MadeBy) -> Value:
    """Without conversions."""
    op = made_by(value)
    while op is not None and op.name in ("bitcast", "convert"):
        (value,) = op.operands
        op = made_by(value)
    return value


def _without(value: Value, name: str, number: int, made_by: MadeBy) -> Value | None:
    """x of x + 1 or x - 1."""
    op = made_by(value)
    if op is None or op.name != name or number_of(op.operands[1], made_by) != number:
        return None
    return op.operands[0]


def _is_multiple(value: Value, index: Value, step: int, made_by: MadeBy) -> bool:
    op = made_by(_plain(value, made_by))
    if op is None or op.name != "mul":
        return step == 1 and _plain(value, made_by) is index
    x, y = op.operands
    return number_of(y, made_by) == step and _plain(x, made_by) is index
