"""`bit_cast<T>(value)`: the bytes of a value, as they lie in memory, as another type.

float -> uint, float3 -> int3                      bitcast of each scalar
struct { uint16_t a, b; uint c; } -> uint64_t      %a | %b << 16 | %c << 32

What lies between fields is zero. Types of different sizes are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import BOOL, SCALARS, U8, U64, Array, Pointer, Scalar, Type, components, is_long
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.values.byte_runs import Bytes, Piece, array_of, assembled, run_of


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
    return _made(f, t, 0, list(_parts(f, value, 0)))


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
    kinds = {"unsigned" if isinstance(each, Pointer) else each.kind for each in (x, y)}
    with_address = isinstance(x, Pointer) or isinstance(y, Pointer)
    return "bool" not in kinds and not (with_address and "float" in kinds)


def _parts(f: Frame, value: Value, start: int) -> Iterator[Bytes]:
    """The scalars and long arrays of a value with their places."""
    t, layout = value.type, layout_of(value.type)
    if isinstance(t, (Scalar, Pointer)):
        yield Piece(start, layout.size, f.emit("convert", unsigned(f, value), type=U64))
        return
    if isinstance(t, Array) and is_long(t):
        yield run_of(f, value, start, layout.offsets[1], lambda element, at: _parts(f, element, at))
        return
    for i, offset in enumerate(layout.offsets):
        yield from _parts(f, f.emit("get", value, index=i), start + offset)


def unsigned(f: Frame, value: Value) -> Value:
    if isinstance(value.type, Pointer):
        return f.emit("bitcast", value, type=U64)
    assert isinstance(value.type, Scalar)
    if value.type is BOOL:
        return f.emit("convert", value, type=U8)
    return f.emit("bitcast", value, type=unsigned_of(value.type))


def unsigned_of(t: Scalar) -> Scalar:
    return SCALARS[f"u{t.bits}"]


def _made(f: Frame, t: Type, start: int, parts: list[Bytes]) -> Value:
    """A value of type `t` from the bytes at `start`."""
    if isinstance(t, Array) and is_long(t):
        element, stride = t.element, layout_of(t).offsets[1]
        return array_of(f, t, start, stride, parts, lambda at, own: _made(f, element, at, own))
    if not isinstance(t, (Scalar, Pointer)):
        inner = zip(components(t), layout_of(t).offsets, strict=True)
        return f.emit("make", *(_made(f, part, start + offset, parts) for part, offset in inner), type=t)
    bits = assembled(f, start, layout_of(t).size, parts)
    if isinstance(t, Pointer):
        return f.emit("bitcast", bits, type=t)
    narrow = f.emit("convert", bits, type=U8 if t is BOOL else unsigned_of(t))
    return f.emit("not_equal", narrow, f.b.zero(U8)) if t is BOOL else f.emit("bitcast", narrow, type=t)
