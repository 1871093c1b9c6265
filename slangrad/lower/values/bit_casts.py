"""`bit_cast<T>(value)`: the bytes of a value, as they lie in memory, as another type.

float -> uint, float3 -> int3                      bitcast of each scalar
struct { uint16_t a, b; uint c; } -> uint64_t      %a | %b << 16 | %c << 32

What lies between fields is zero. Types of different sizes are refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

from slangrad.ir.core import Value
from slangrad.ir.layout import layout_of
from slangrad.ir.types import (
    BOOL,
    SCALARS,
    U8,
    U32,
    U64,
    Array,
    Pointer,
    Scalar,
    Struct,
    Type,
    array,
    component,
    components,
    is_long,
)
from slangrad.lower.model.frame import Frame, Place


def bit_cast(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    assert t is not None
    value = places[0].get(f)
    source, target = layout_of(value.type).size, layout_of(t).size
    if source != target:
        message = f"bit_cast of {source} bytes to a type of {target} bytes"
        f.error("E0713", message, f.b.span, "convert the value, or cast to a type of the same size")
        return f.b.zero(t)
    return _cast(f, value, t)


def _cast(f: Frame, value: Value, t: Type) -> Value:
    """A value as another type of its size."""
    source = value.type
    if same_shape(source, t):
        return f.emit("bitcast", value, type=t)
    if not (_holds_long(source) or _holds_long(t)):
        return _made(f, t, 0, list(_pieces(f, value, 0)))
    if isinstance(source, Array) and isinstance(t, Array):
        return _in_blocks(f, value, source, t)
    if isinstance(source, Struct) and len(source.fields) == 1:
        return _cast(f, f.emit("get", value, index=0), t)
    if isinstance(t, Struct) and len(t.fields) == 1:
        return f.emit("make", _cast(f, value, component(t, 0)), type=t)
    if _part_by_part(source, t):
        parts = (_cast(f, f.emit("get", value, index=i), part) for i, part in enumerate(components(t)))
        return f.emit("make", *parts, type=t)
    return _made(f, t, 0, list(_pieces(f, value, 0)))


def _holds_long(t: Type) -> bool:
    """Whether there is an array in it that is moved by a loop."""
    return (isinstance(t, Array) and is_long(t)) or (
        isinstance(t, Struct) and any(_holds_long(part) for part in components(t))
    )


def _part_by_part(x: Type, y: Type) -> bool:
    """Whether the components of two structs lie at the same bytes."""
    if not (isinstance(x, Struct) and isinstance(y, Struct)):
        return False
    sizes = ([layout_of(part).size for part in components(t)] for t in (x, y))
    return layout_of(x).offsets == layout_of(y).offsets and len(set(map(tuple, sizes))) == 1


def _in_blocks(f: Frame, value: Value, source: Array, target: Array) -> Value:
    """Arrays in a loop, as many elements at a time as lie in the same bytes."""
    sizes = layout_of(source.element).size, layout_of(target.element).size
    if sizes[0] == sizes[1]:
        return f.elementwise(target, lambda i: _cast(f, f.emit("index", value, i), target.element))
    taken, given = (lcm(*sizes) // size for size in sizes)
    assert source.length is not None

    def on_block(whole: Value, block: Value) -> Value:
        elements = (f.emit("index", value, at) for at in _numbers(f, block, taken))
        found = f.emit("make", *elements, type=array(source.element, taken))
        made = _made(f, array(target.element, given), 0, list(_pieces(f, found, 0)))
        for k, at in enumerate(_numbers(f, block, given)):
            whole = f.emit("set_index", whole, at, f.emit("get", made, index=k))
        return whole

    return f.repeated(source.length // taken, f.b.zero(target), on_block)


def _numbers(f: Frame, block: Value, count: int) -> list[Value]:
    """Of the elements of a block."""
    first = f.emit("mul", block, f.b.constant(U32, count))
    return [f.emit("add", first, f.b.constant(U32, k)) for k in range(count)]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the source, as a u64. Lists of pieces are in the order of memory."""

    start: int
    size: int
    bits: Value


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


def _pieces(f: Frame, value: Value, start: int) -> Iterator[Piece]:
    """The scalars of a value with their places."""
    t, layout = value.type, layout_of(value.type)
    if isinstance(t, (Scalar, Pointer)):
        yield Piece(start, layout.size, f.emit("convert", unsigned(f, value), type=U64))
        return
    for i, offset in enumerate(layout.offsets):
        yield from _pieces(f, f.emit("get", value, index=i), start + offset)


def unsigned(f: Frame, value: Value) -> Value:
    if isinstance(value.type, Pointer):
        return f.emit("bitcast", value, type=U64)
    assert isinstance(value.type, Scalar)
    if value.type is BOOL:
        return f.emit("convert", value, type=U8)
    return f.emit("bitcast", value, type=unsigned_of(value.type))


def unsigned_of(t: Scalar) -> Scalar:
    return SCALARS[f"u{t.bits}"]


def _made(f: Frame, t: Type, start: int, pieces: list[Piece]) -> Value:
    """A value of type `t` from the bytes at `start`."""
    if not isinstance(t, (Scalar, Pointer)):
        parts = zip(components(t), layout_of(t).offsets, strict=True)
        return f.emit("make", *(_made(f, part, start + offset, pieces) for part, offset in parts), type=t)
    bits = assembled(f, start, layout_of(t).size, pieces)
    if isinstance(t, Pointer):
        return f.emit("bitcast", bits, type=t)
    narrow = f.emit("convert", bits, type=U8 if t is BOOL else unsigned_of(t))
    return f.emit("not_equal", narrow, f.b.zero(U8)) if t is BOOL else f.emit("bitcast", narrow, type=t)


def assembled(f: Frame, start: int, size: int, pieces: list[Piece]) -> Value:
    """The bytes from `start` on as a u64, which may have more than `size` of them."""
    bits, end = f.b.zero(U64), start + size
    first = bisect_right(pieces, start, key=lambda piece: piece.start + piece.size)
    for at in range(first, len(pieces)):
        if pieces[at].start >= end:
            break
        bits = f.emit("or", bits, _moved(f, pieces[at], start))
    return bits


def _moved(f: Frame, piece: Piece, start: int) -> Value:
    """The piece's bits as they lie in what begins at `start`."""
    distance = 8 * abs(piece.start - start)
    name = "shl" if piece.start > start else "shr"
    return f.emit(name, piece.bits, f.b.constant(U64, distance)) if distance else piece.bits
