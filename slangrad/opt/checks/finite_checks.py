"""In check mode: infinities and NaNs that are computed or loaded are reported where they arise.

    %r = div %x, %y          %r = div %x, %y
                             %ok = less_equal (abs %r), 3.4e38
                             in_bounds (select %ok, 0, -1 - thread), (1: a NaN, 2: an infinity) {text="not finite"}

The pass runs before code is moved out of branches and loops, so it reports only numbers that the program computes. The
thread's number is packed: 32 bits of x, 16 of y, 15 of z.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.options import NOT_FINITE
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.small_floats import FORMATS
from slangrad.ir.data.types import F16, F32, F64, I64, U32, Array, Scalar, Type, components
from slangrad.ir.ops.core import Function, Op, Value
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.ir.ops.type_rules import scalar_type

MOST_COMPONENTS = 16
GREATEST = {
    **{t: form.greatest for t, form in FORMATS.items()},
    F16: 65504.0,
    F32: 3.4028234663852886e38,
    F64: 1.7976931348623157e308,
}
MOVES = frozenset({"select", "neg", "abs", "bitcast", "min", "max"})  # they give what they were given
SHIFTS = ((0, 32), (1, 16), (2, 15))  # axis, bits


def check_finite(function: Function) -> Function:
    """The kernel with checks behind everything that makes numbers."""
    return Rebuild({}, _checked).function(function)


def _checked(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    values = copy_op(walk, b, op)
    row = PRIMITIVES.get(op.name)
    computes = row is not None and (row.primal is not None or op.name == "load") and op.name not in MOVES
    if computes:
        for value in values:
            for number in _numbers(b, value, value.type):
                _check(b, number)
    return values


def _numbers(b: Builder, value: Value, t: Type) -> Iterator[Value]:
    if t in GREATEST:
        yield value
        return
    if isinstance(t, Scalar) or (isinstance(t, Array) and (t.length is None or t.length > MOST_COMPONENTS)):
        return
    for i, part in enumerate(components(t)):
        if _has_floats(part):
            yield from _numbers(b, b.emit("get", value, index=i), part)


def _has_floats(t: Type) -> bool:
    if isinstance(t, Array) and (t.length is None or t.length > MOST_COMPONENTS):
        return False
    return t in GREATEST or any(map(_has_floats, components(t)))


def _check(b: Builder, number: Value) -> None:
    kind = scalar_type(number)
    fine = b.emit("less_equal", b.emit("abs", number), b.constant(kind, GREATEST[kind]))
    packed = b.constant(I64, 0)
    at = 0
    for axis, bits in SHIFTS:
        id = b.emit("convert", b.primitive("thread_id", (), U32, {"axis": axis}), type=I64)
        id = b.emit("min", id, b.constant(I64, (1 << bits) - 1))
        packed = b.emit("add", packed, b.emit("mul", id, b.constant(I64, 1 << at)))
        at += bits
    index = b.emit("select", fine, b.constant(I64, 0), b.emit("sub", b.constant(I64, -1), packed))
    is_number = b.emit("equal", number, number)
    kind_of_value = b.emit("select", is_number, b.constant(I64, 2), b.constant(I64, 1))
    b.emit("in_bounds", index, kind_of_value, text=NOT_FINITE)
