"""`bit_cast<T>(value)`: the bytes of a value, as they lie in memory, as another type.

float -> uint, float3 -> int3                      bitcast of each scalar
struct { uint16_t a, b; uint c; } -> uint64_t      %a | %b << 16 | %c << 32

What lies between fields is zero. Types of different sizes are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from slangrad.ir.data.layout import Layout, layout_of
from slangrad.ir.data.types import BOOL, SCALARS, U8, U64, Array, Pointer, Scalar, Type, components, is_long
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.values.byte_runs import BytePiece, Bytes, array_of, assembled, run_of


def bit_cast(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    assert t is not None
    value = places[0].get(f)
    source, target = layout_of(value.type).size, layout_of(t).size
    if source != target:
        message = f"bit_cast of {source} bytes to a type of {target} bytes"
        f.error("E0713", message, f.b.span, "convert the value, or cast to a type of the same size")
        return f.b.zero(t)
    if same_shape(value.type, t):
        return f.emit("bitcast", value, type=t)
    plain = ByteForm(f)
    return plain.value(t, 0, list(plain.parts(value, 0)))


def same_shape(x: Type, y: Type) -> bool:
    """Whether each scalar becomes one of the same size, in aggregates of the same form."""
    if isinstance(x, (Scalar, Pointer)) and isinstance(y, (Scalar, Pointer)):
        return x is y or (_is_number(x, y) and layout_of(x).size == layout_of(y).size)
    if isinstance(x, (Scalar, Pointer)) or type(x) is not type(y) or isinstance(x, Array):
        return x is y
    parts = list(components(x)), list(components(y))
    return len(parts[0]) == len(parts[1]) and all(map(same_shape, *parts))


def _is_number(x: Scalar | Pointer, y: Scalar | Pointer) -> bool:
    """Not truth values, which are no bits; an address is a whole number."""
    kinds = {"unsigned" if isinstance(t, Pointer) else t.kind for t in (x, y)}
    with_address = isinstance(x, Pointer) or isinstance(y, Pointer)
    return "bool" not in kinds and not (with_address and "float" in kinds)


def unsigned(f: Frame, value: Value) -> Value:
    if isinstance(value.type, Pointer):
        return f.emit("bitcast", value, type=U64)
    assert isinstance(value.type, Scalar)
    if value.type is BOOL:
        return f.emit("convert", value, type=U8)
    return f.emit("bitcast", value, type=unsigned_of(value.type))


def unsigned_of(t: Scalar) -> Scalar:
    return SCALARS[f"u{t.bits}"]


class ByteForm:
    """The offsets of a value's scalars, and values made from bytes: each type has its layout of memory."""

    def __init__(self, f: Frame) -> None:
        self.f = f

    def layout(self, t: Type) -> Layout:
        return layout_of(t)

    def parts(self, value: Value, start: int, form: Type | None = None) -> Iterator[Bytes]:
        """The scalars and long arrays of a value, which may have another form here, with their places."""
        f, t, form = self.f, value.type, value.type if form is None else form
        layout = self.layout(form)
        if isinstance(t, (Scalar, Pointer)):
            yield BytePiece(start, layout.size, f.emit("convert", unsigned(f, value), type=U64))
        elif isinstance(form, Array) and is_long(form):
            parts_of = partial(self.parts, form=form.element)
            yield run_of(f, value, start, layout.offsets[1], parts_of)
        else:
            for i, (offset, part) in enumerate(zip(layout.offsets, components(form), strict=True)):
                yield from self.parts(f.emit("get", value, index=i), start + offset, part)

    def value(self, t: Type, start: int, parts: list[Bytes], form: Type | None = None) -> Value:
        """A value of type `t` from the bytes at `start`, where it has a form."""
        f, form = self.f, t if form is None else form
        layout = self.layout(form)
        if isinstance(t, Array) and isinstance(form, Array) and is_long(t):
            element, inner = t.element, form.element
            of_element = lambda at, parts: self.value(element, at, parts, inner)
            return array_of(f, t, start, layout.offsets[1], parts, of_element)
        if not isinstance(t, (Scalar, Pointer)):
            rows = zip(components(t), layout.offsets, components(form), strict=True)
            fields = (self.value(part, start + offset, parts, inner) for part, offset, inner in rows)
            return f.emit("make", *fields, type=t)
        bits = assembled(f, start, layout.size, parts)
        if isinstance(t, Pointer):
            return f.emit("bitcast", bits, type=t)
        narrow = f.emit("convert", bits, type=U8 if t is BOOL else unsigned_of(t))
        return f.emit("not_equal", narrow, f.b.zero(U8)) if t is BOOL else f.emit("bitcast", narrow, type=t)
