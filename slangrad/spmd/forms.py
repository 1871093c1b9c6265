"""A value in lanes: a scalar where lanes agree, base and stride where they differ by a stride, else lanes.

    uniform   %n : f32
    strided   Strided(%base : u32, %stride : u32, guard)
    varying   %v : lanes<f32>

`lanes_of` makes lanes of any of them, where they are needed. The rules for strided results are here, one
for each row in `shapes.RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import F16, F32, I64, SCALARS, U8, Pointer, Scalar, lanes, pointer, pointer_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.spmd.analyses.shapes import RULES as STRIDED_SHAPES
from slangrad.spmd.analyses.shapes import LaneShape, stays
from slangrad.spmd.analyses.uniformity import Shapes


@dataclass(frozen=True, slots=True)
class Strided:
    """Lane l has base + l * stride, the stride of an address being an i64 of bytes; with a guard, only where
    that is true."""

    base: Value
    stride: Value
    guard: Value | None = None


class LaneForms:
    """The forms of the kernel's values."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._scalars: dict[Value, Value] = {}
        self._strided: dict[Value, Strided] = {}
        self._lanes: dict[Value, Value] = {}
        self._made_by: dict[Value, Op] = {}

    def shape(self, old: Value) -> LaneShape:
        return self.shapes.of(old)

    def scalar(self, old: Value) -> Value:
        return self._scalars[old]

    def strided(self, old: Value) -> Strided:
        return self._strided[old]

    def set(self, old: Value, new: Value | Strided) -> None:
        shape = self.shape(old)
        if isinstance(new, Strided):
            assert shape.is_strided
            self._strided[old] = new
            return
        assert (new.type is old.type) == shape.is_uniform, (old.type, new.type, shape)
        new.hint = new.hint or old.hint
        (self._scalars if shape.is_uniform else self._lanes)[old] = new

    def copy(self, old: Value, source: Value) -> None:
        """`old` is what `source` is."""
        if source in self._strided:
            self._strided[old] = self._strided[source]
        elif source in self._scalars:
            self._scalars[old] = self._scalars[source]
        else:
            self._lanes[old] = self._lanes[source]

    def lanes_of(self, b: Builder, old: Value) -> Value:
        """A value for each lane."""
        shape = self.shape(old)
        if shape.is_uniform:
            return _splat(b, self._scalars[old])
        if not shape.is_strided:
            return self._lanes[old]
        form = self._strided[old]
        if form.guard is not None:
            return self.compute(b, self._made_by[old])
        return _spread_address(b, form) if isinstance(old.type, Pointer) else _spread_number(b, form)

    def compute(self, b: Builder, op: Op) -> Value:
        """An elementwise op on lanes."""
        operands = [self.lanes_of(b, x) for x in op.operands]
        if op.name == "offset" and self.shapes.is_private(op.operands[0]):
            operands[1] = interleaved(b, operands[1], self.shapes.lanes)
        if op.name == "select" and self.shape(op.operands[0]).is_uniform:
            operands[0] = self._scalars[op.operands[0]]
        return b.primitive(op.name, tuple(operands), lanes(op.results[0].type), op.attributes)

    def elementwise(self, b: Builder, op: Op) -> None:
        """The result of a pure op, in the form of its shape."""
        (result,) = op.results
        shape = self.shape(result)
        if shape.is_uniform:
            operands = tuple(self._scalars[x] for x in op.operands)
            self.set(result, b.primitive(op.name, operands, result.type, op.attributes))
        elif shape.is_strided:
            self._made_by[result] = op
            self.set(result, RULES[op.name](self, b, op))
        else:
            self._made_by[result] = op
            self.set(result, self.compute(b, op))

    def made_by(self, old: Value) -> Op | None:
        """The pure op of the kernel that made a value which is not uniform."""
        return self._made_by.get(old)

    def stride_constant(self, b: Builder, old: Value, stride: int) -> Value:
        return b.constant(I64 if isinstance(old.type, Pointer) else old.type, stride)

    def terms(self, b: Builder, old: Value) -> tuple[Value, Value, list[Value]]:
        """Base, stride and guards of a uniform or strided value."""
        if self.shape(old).is_uniform:
            base = self._scalars[old]
            return base, b.zero(I64 if isinstance(old.type, Pointer) else old.type), []
        form = self._strided[old]
        return form.base, form.stride, [] if form.guard is None else [form.guard]


def interleaved(b: Builder, index: Value, count: int) -> Value:
    """An index into memory where each lane has its own place for each element."""
    wide = b.emit("convert", index, type=I64 if isinstance(index.type, Scalar) else lanes(I64))
    return b.emit("mul", wide, b.constant(wide.type, count))


def _splat(b: Builder, value: Value) -> Value:
    """Halves are converted in all lanes at once, as machines do that no slower than for one."""
    maker = b.made_by(value)
    if maker is None or maker.name != "convert" or maker.operands[0].type is not F16 or value.type is not F32:
        return b.emit("splat", value, type=lanes(value.type))
    halves = b.emit("splat", maker.operands[0], type=lanes(F16))
    return b.emit("convert", halves, type=lanes(value.type))


def _spread_number(b: Builder, form: Strided) -> Value:
    t = lanes(form.base.type)
    steps = b.emit("mul", b.emit("lane_index", type=t), b.emit("splat", form.stride, type=t))
    return b.emit("add", b.emit("splat", form.base, type=t), steps)


def _spread_address(b: Builder, form: Strided) -> Value:
    """In elements where the stride is a number of them, so that machines can scale; else in bytes."""
    element_pointer = pointer_of(form.base.type)
    size, stride = element_size(element_pointer), b.constant_of(form.stride)
    if stride is not None and stride % size == 0:
        steps = _spread_number(b, Strided(b.zero(I64), b.constant(I64, stride // size)))
        return b.emit("offset", b.emit("splat", form.base, type=lanes(element_pointer)), steps)
    base = b.emit("bitcast", form.base, type=pointer(U8, pointer_of(form.base.type).space))
    steps = _spread_number(b, Strided(b.zero(I64), form.stride))
    moved = b.emit("offset", b.emit("splat", base, type=lanes(base.type)), steps)
    return b.emit("bitcast", moved, type=lanes(element_pointer))


# --- rules for strided results


def both(b: Builder, guards: list[Value]) -> Value | None:
    """The truth of all guards."""
    return b.all(guards) if guards else None


def _linear(forms: LaneForms, b: Builder, op: Op) -> Strided:
    """Base and stride each by the op itself: add, sub, neg."""
    parts = [forms.terms(b, x) for x in op.operands]
    base = b.emit(op.name, *(p[0] for p in parts))
    stride = b.emit(op.name, *(p[1] for p in parts))
    return Strided(base, stride, both(b, [g for p in parts for g in p[2]]))


def _scale(forms: LaneForms, b: Builder, op: Op) -> Strided:
    """By a uniform number: mul, shl."""
    x, y = op.operands if forms.shape(op.operands[0]).is_strided else op.operands[::-1]
    form, factor = forms.strided(x), forms.scalar(y)
    return Strided(b.emit(op.name, form.base, factor), b.emit(op.name, form.stride, factor), form.guard)


def _shift_right(forms: LaneForms, b: Builder, op: Op) -> Strided:
    form, count = forms.strided(op.operands[0]), forms.scalar(op.operands[1])
    lost = b.emit("sub", b.emit("shl", b.constant(I64, 1), count), b.constant(I64, 1))
    bits = b.emit("and", b.emit("or", form.base, form.stride), lost)
    guards = [b.emit("equal", bits, b.zero(I64)), *([] if form.guard is None else [form.guard])]
    return Strided(b.emit("shr", form.base, count), b.emit("shr", form.stride, count), both(b, guards))


def _convert(forms: LaneForms, b: Builder, op: Op) -> Strided:
    (x,), (r,) = op.operands, op.results
    source, target = scalar_type(x), scalar_type(r)
    form = forms.strided(x)
    if target.bits > source.bits:
        return _widen(forms, b, x, target)
    base, stride = (b.emit("convert", v, type=target) for v in (form.base, form.stride))
    return Strided(base, stride, form.guard)


def _widen(forms: LaneForms, b: Builder, old: Value, target: Scalar) -> Strided:
    """As a number of more bits. The guard: no lane is beyond the number where they wrap."""
    source, form = scalar_type(old), forms.strided(old)
    stride = b.emit("convert", b.emit("convert", form.stride, type=_signed(source)), type=I64)
    guards = [] if form.guard is None else [form.guard]
    if not stays(forms.shape(old), source, forms.shapes.lanes):
        distance = b.emit("mul", stride, b.constant(I64, forms.shapes.lanes - 1))
        last = b.emit("add", b.emit("convert", form.base, type=I64), distance)
        wrapped = b.emit("convert", b.emit("convert", last, type=source), type=I64)
        guards.append(b.emit("equal", last, wrapped))
    base = b.emit("convert", form.base, type=target)
    return Strided(base, b.emit("convert", stride, type=target), both(b, guards))


def _signed(t: Scalar) -> Scalar:
    return SCALARS[f"i{t.bits}"]


def _offset(forms: LaneForms, b: Builder, op: Op) -> Strided:
    p, i = op.operands
    base, stride, guards = forms.terms(b, p)
    index, step = _index_terms(forms, b, i, guards)
    if forms.shapes.is_private(p):
        index, step = (interleaved(b, v, forms.shapes.lanes) for v in (index, step))
    step = b.emit("mul", b.emit("convert", step, type=I64), b.constant(I64, element_size(p.type)))
    return Strided(b.emit("offset", base, index), b.emit("add", stride, step), both(b, guards))


def _index_terms(forms: LaneForms, b: Builder, index: Value, guards: list[Value]) -> tuple[Value, Value]:
    """Base and stride of an index, wide enough to count elements; adds to the guards."""
    if not forms.shape(index).is_strided:
        return forms.scalar(index), b.zero(I64)
    form = forms.strided(index)
    if scalar_type(index).bits < 64:
        form = _widen(forms, b, index, I64)
    guards += [] if form.guard is None else [form.guard]
    return form.base, form.stride


def _each(forms: LaneForms, b: Builder, op: Op) -> Strided:
    """The op on the base; the stride stays: member, bitcast."""
    form, t = forms.strided(op.operands[0]), op.results[0].type
    base = b.primitive(op.name, (form.base,), t, op.attributes)
    stride = b.emit("bitcast", form.stride, type=I64 if isinstance(t, Pointer) else t)
    return Strided(base, stride, form.guard)


def _select(forms: LaneForms, b: Builder, op: Op) -> Strided:
    condition, x, y = op.operands
    base = b.emit("select", forms.scalar(condition), forms.strided(x).base, forms.strided(y).base)
    return Strided(base, forms.strided(x).stride)


RULES: dict[str, Callable[[LaneForms, Builder, Op], Strided]] = {
    "add": _linear,
    "sub": _linear,
    "neg": _linear,
    "mul": _scale,
    "shl": _scale,
    "shr": _shift_right,
    "convert": _convert,
    "bitcast": _each,
    "offset": _offset,
    "member": _each,
    "select": _select,
}
assert RULES.keys() == STRIDED_SHAPES.keys()
