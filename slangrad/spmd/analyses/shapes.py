"""How a value differs from lane to lane: not at all, by a stride, or in any way.

    thread_id{axis=0}        strided: stride 1, affine 0       base + 1 * lane
    mul %x, 4                strided: stride 4, affine 0
    add %that, %n            strided: stride 4                 %n is uniform, but its number is unknown
    load of it               varying

Numbers are strided in their own arithmetic, modulo 2^bits; addresses in bytes. A *guarded* shape holds only
where a truth value computed at run time says so: widening a 32-bit index assumes that it does not wrap
within a wave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slangrad.ir.data.layout import element_size
from slangrad.ir.data.numbers import Number
from slangrad.ir.data.types import I64, Pointer, Scalar, Type, is_integer
from slangrad.ir.ops.core import Op
from slangrad.ir.ops.type_rules import scalar_type

Constant = Callable[[int], Number | None]  # the number an operand is, by its position


@dataclass(frozen=True, slots=True)
class LaneShape:
    """`stride` is None where it is known at run time only. With `affine` = c the value is stride * x + c for
    the thread's number x; waves begin at multiples of the lanes."""

    kind: str  # "uniform", "strided" or "varying"
    stride: int | None = 0
    affine: int | None = None
    guarded: bool = False

    @property
    def is_uniform(self) -> bool:
        return self.kind == "uniform"

    @property
    def is_strided(self) -> bool:
        return self.kind == "strided"


UNIFORM = LaneShape("uniform")
VARYING = LaneShape("varying", None)


def strided(stride: int | None, affine: int | None = None, guarded: bool = False) -> LaneShape:
    return LaneShape("strided", stride, None if stride is None else affine, guarded)


THREAD = strided(1, 0)


def join(x: LaneShape, y: LaneShape) -> LaneShape:
    """The shape of a value that may be either, by a uniform choice. Guards do not survive a choice."""
    if x == y and not x.guarded and x.stride is not None:
        return x
    if x.is_strided and y.is_strided and x.stride == y.stride is not None and not x.guarded and not y.guarded:
        return strided(x.stride)
    return VARYING


def passed_as(shape: LaneShape) -> LaneShape:
    """The shape of a value on the other side of a call: strided by a number that is known there, if at all."""
    if shape.is_strided and shape.stride is not None and not shape.guarded:
        return strided(shape.stride)
    return shape if shape.is_uniform else VARYING


def elementwise(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    """The shape of a pure op's result."""
    if all(s.is_uniform for s in shapes):
        return UNIFORM
    rule = RULES.get(op.name)
    if rule is None or any(s.kind == "varying" for s in shapes):
        return VARYING
    return rule(op, shapes, constant, lanes)


def _number(shape: LaneShape, constant: Number | None) -> int | None:
    """The contribution of a term to `affine`."""
    return shape.affine if shape.is_strided else None if constant is None else int(constant)


def _sum(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int, sign: int = 1) -> LaneShape:
    if not is_integer(op.results[0].type):
        return VARYING
    x, y = shapes
    a, b = _number(x, constant(0)), _number(y, constant(1))
    affine = None if a is None or b is None else a + sign * b
    stride = None if x.stride is None or y.stride is None else x.stride + sign * y.stride
    return strided(stride, affine, x.guarded or y.guarded)


def _difference(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    return _sum(op, shapes, constant, lanes, -1)


def _negation(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    return _scaled(shapes[0], -1) if is_integer(op.results[0].type) else VARYING


def _product(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    if not is_integer(op.results[0].type) or shapes[0].is_strided == shapes[1].is_strided:
        return VARYING
    factor = constant(1 if shapes[0].is_strided else 0)
    return _scaled(shapes[0] if shapes[0].is_strided else shapes[1], None if factor is None else int(factor))


def _shift(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    bits, count = scalar_type(op.results[0]).bits, constant(1)
    if not shapes[1].is_uniform:
        return VARYING
    return _scaled(shapes[0], None if count is None else 1 << int(count) % bits)


def _right_shift(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    """Of a difference of addresses, which counts elements then: guarded, as no bit that is one may be lost."""
    x, count = shapes[0], constant(1)
    if op.results[0].type is not I64 or count is None or (x.stride or 0) % (1 << int(count)):
        return VARYING
    return strided(None if x.stride is None else x.stride >> int(count), None, True)


def _scaled(x: LaneShape, factor: int | None) -> LaneShape:
    if factor is None or x.stride is None:
        return strided(None, None, x.guarded)
    return strided(x.stride * factor, None if x.affine is None else x.affine * factor, x.guarded)


def _conversion(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    source, target, (x,) = scalar_type(op.operands[0]), scalar_type(op.results[0]), shapes
    if not is_integer(target):
        return VARYING
    return x if target.bits <= source.bits else widened(x, source, lanes)


def widened(x: LaneShape, source: Scalar, lanes: int) -> LaneShape:
    """As a number of more bits: guarded, unless it is proved that no wave reaches over where numbers wrap."""
    return x if stays(x, source, lanes) else replace(x, guarded=True)


def stays(x: LaneShape, source: Scalar, lanes: int) -> bool:
    """Is it proved that no wave steps over a multiple of half the range?"""
    if x.stride is None or x.affine is None or x.stride <= 0:
        return False
    wave = x.stride * lanes
    return (1 << (source.bits - 1)) % wave == 0 and x.affine % wave < x.stride


def _bitcast(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    before, after = op.operands[0].type, op.results[0].type
    assert not is_private(before, shapes[0]), f"the address of a lane's own memory is taken: {op}"
    if isinstance(before, Pointer) or isinstance(after, Pointer):
        return replace(shapes[0], affine=None)
    return shapes[0] if is_integer(before) and is_integer(after) else VARYING


def _offset(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    p, i = shapes
    scalar = scalar_type(op.operands[1])
    if i.is_strided and scalar.bits < 64:
        i = widened(i, scalar, lanes)
    size = element_size(op.operands[0].type) * (lanes if is_private(op.operands[0].type, p) else 1)
    step = _scaled(i, size) if i.is_strided else UNIFORM
    stride = None if p.stride is None or step.stride is None else p.stride + step.stride
    return strided(stride, None, p.guarded or i.guarded)


def is_private(pointer: Type, shape: LaneShape) -> bool:
    """Memory that each lane has its own of: element i of lane l is at i * lanes + l."""
    return isinstance(pointer, Pointer) and pointer.space == "local" and not shape.is_uniform


def is_shared(pointer: Type) -> bool:
    """Memory of a group, which its lanes have together."""
    return isinstance(pointer, Pointer) and pointer.space == "shared"


def _same(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    return shapes[0]


def _select(op: Op, shapes: Sequence[LaneShape], constant: Constant, lanes: int) -> LaneShape:
    return join(shapes[1], shapes[2]) if shapes[0].is_uniform else VARYING


Rule = Callable[[Op, Sequence[LaneShape], Constant, int], LaneShape]

# Ops that keep a stride. All other ops on strided operands are varying.
RULES: dict[str, Rule] = {
    "add": _sum,
    "sub": _difference,
    "neg": _negation,
    "mul": _product,
    "shl": _shift,
    "shr": _right_shift,
    "convert": _conversion,
    "bitcast": _bitcast,
    "offset": _offset,
    "member": _same,
    "select": _select,
}
