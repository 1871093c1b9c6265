"""Adds whose elements belong to one thread each: these need not wait.

    add at %g + 4 * (%i + 1) and %g + 4 * (%i + %k),  %i = thread_id x,  %k in 0 .. 1
    each thread reaches 8 bytes, the next thread begins 4 bytes on: elements are shared
    at %g + 12 * %i + 4 * %k,  %k in 0 .. 2:  12 bytes, 12 bytes on: they are not

An address is affine in the thread's number: coefficients that are the same for all threads, and a rest between two
ends. Threads are apart if, in some order of the axes, each coefficient leaves room for all that the axes before it
reach. That is code of the plan, as sizes and strides are known at the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from slangrad.ir.analyses.intervals import Interval
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import I64
from slangrad.ir.ops.core import Op, Value
from slangrad.opt.analyses.intervals import Bounds, Facts, Intervals
from slangrad.opt.analyses.reach import Access

FIELDS = ("nx", "ny", "nz")
DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Affine:
    """`coefficients` for axes of the thread's number; the conditions of `rest` are those of all of it."""

    coefficients: dict[int, Value]
    rest: Bounds


def own_elements(v: Intervals, accesses: Sequence[Access], size: int) -> Value | None:
    """Whether no two threads add to the same element, as a condition of the plan; None if unknown."""
    addresses = [_address(access) for access in accesses]
    first = addresses[0]
    if first is None or not first.coefficients:
        return None
    conditions: list[Value] = list(first.rest.conditions)
    rest = first.rest
    for address in addresses[1:]:
        if address is None or set(address.coefficients) != set(first.coefficients):
            return None
        b = v.plan
        conditions += [b.emit("equal", address.coefficients[k], c) for k, c in first.coefficients.items()]
        conditions += address.rest.conditions
        rest = v.hull(rest, address.rest)
    b = v.plan
    span = b.emit("add", b.emit("sub", rest.high, rest.low), b.constant(I64, size))
    apart = b.all([_apart(b, first.coefficients, span), *conditions])
    return apart if b.constant_of(apart) != 0 else None


def has_elements_of_threads(access: Access) -> bool:
    """Whether its address certainly moves with the thread's number."""
    address = _address(access)
    if address is None:
        return False
    steps = [access.survey.intervals.known(c) for c in address.coefficients.values()]
    return any(step is not None and step != 0 for step in steps)


def _apart(b: Builder, coefficients: dict[int, Value], span: Value) -> Value:
    """Whether there is an order of the axes in which each steps over what those before it reach."""
    unit = b.constant(I64, 1)
    counts = [b.emit("launch", type=I64, field=name) for name in FIELDS]
    alone = b.all(
        b.emit("less_equal", count, unit) for axis, count in enumerate(counts) if axis not in coefficients
    )
    steps = {axis: b.emit("max", c, b.emit("neg", c)) for axis, c in coefficients.items()}
    any_order: Value | None = None
    for order in permutations(steps):
        reach, holds = span, alone
        for axis in order:
            far = b.emit("less_equal", reach, steps[axis])
            holds = b.emit("and", holds, b.emit("or", far, b.emit("less_equal", counts[axis], unit)))
            more = b.emit("mul", steps[axis], b.emit("sub", counts[axis], unit))
            reach = b.emit("add", reach, more)
        any_order = holds if any_order is None else b.emit("or", any_order, holds)
    assert any_order is not None
    return any_order


def _address(access: Access) -> Affine | None:
    """How far from its root an access begins, in bytes."""
    v, place = access.survey.intervals, access.place
    if place is None or place.choices:
        return None
    total = Affine({}, access.survey.start(place))
    for index, size in place.steps:
        step = _affine(v, index, access.facts, DEEPEST)
        scaled = None if step is None else _scaled(v, step, v.number(size, size))
        if scaled is None:
            return None
        total = _sum(v, total, scaled, 1)
    return total


def _affine(v: Intervals, value: Value, facts: Facts, depth: int) -> Affine | None:
    if v.launch.of(value) is None and depth:
        op = v.launch.made_by(value)
        if op is not None and op.name == "thread_id":
            axis = op.attributes["axis"]
            return Affine({axis: v.plan.constant(I64, 1)}, v.number(0, 0))
        if op is not None and op.name in ("convert", "add", "sub", "mul", "shl"):
            combined = _combined(v, op, facts, depth - 1)
            whole = v.unassumed(value, facts)  # with conditions that nothing wraps
            if combined is None or whole is None:
                return None
            rest = Interval(
                combined.rest.low, combined.rest.high, combined.rest.conditions + whole.conditions
            )
            return Affine(combined.coefficients, rest)
    bounds = v.of_type(value, facts)
    return None if bounds is None else Affine({}, bounds)


def _combined(v: Intervals, op: Op, facts: Facts, depth: int) -> Affine | None:
    parts = []
    for operand in op.operands:
        part = _affine(v, operand, facts, depth)
        if part is None:
            return None
        parts.append(part)
    if op.name == "convert":
        return parts[0]
    x, y = parts
    if op.name in ("add", "sub"):
        return _sum(v, x, y, 1 if op.name == "add" else -1)
    if op.name == "shl":
        ends = v.constants(y.rest)
        if y.coefficients or ends is None or not _is_one(v, y.rest) or not 0 <= ends[0] < 31:
            return None
        return _scaled(v, x, v.number(1 << ends[0], 1 << ends[0]))
    if x.coefficients and y.coefficients:
        return None
    varying, other = (x, y) if x.coefficients else (y, x)
    return _scaled(v, varying, other.rest)


def _sum(v: Intervals, x: Affine, y: Affine, sign: int) -> Affine:
    emit = v.plan.emit
    coefficients = dict(x.coefficients)
    for axis, c in y.coefficients.items():
        term = c if sign > 0 else emit("neg", c)
        coefficients[axis] = emit("add", coefficients[axis], term) if axis in coefficients else term
    return Affine(coefficients, v.sum(x.rest, v.negative(y.rest) if sign < 0 else y.rest))


def _scaled(v: Intervals, x: Affine, by: Bounds) -> Affine | None:
    """Times a number that is the same for all threads, or, where there are no coefficients, any number."""
    rest = v.product(x.rest, by)
    if rest is None:
        return None
    if not x.coefficients:
        return Affine({}, rest)
    if by.low is not by.high and not _is_one(v, by):
        return None
    coefficients, conditions = {}, rest.conditions
    for axis, c in x.coefficients.items():
        scaled = v.product(Interval(c, c), by)
        if scaled is None:
            return None
        coefficients[axis] = scaled.low
        conditions += scaled.conditions
    return Affine(coefficients, Interval(rest.low, rest.high, conditions))


def _is_one(v: Intervals, x: Bounds) -> bool:
    """Whether it is a single number, which is known."""
    ends = v.constants(x)
    return ends is not None and ends[0] == ends[1]
