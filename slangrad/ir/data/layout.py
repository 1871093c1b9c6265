"""Sizes, alignments and offsets in memory: one truth for back ends and host packing.

    struct { half h; float3 v; double d; }   ->   offsets 0, 4, 16; size 24; alignment 8

A vector has the alignment of its scalar (as on Slang's CPU target), a matrix is its rows, a bool takes
one byte. A size is always a multiple of its alignment, so it is also the stride in an array,
but for some forms (forms.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from slangrad.ir.data.types import (
    BOOL,
    Array,
    Matrix,
    MemoryForm,
    Pointer,
    Scalar,
    Struct,
    Type,
    Vector,
    component,
    components,
    pointer_of,
)

POINTER_SIZE = 8
HEADER = 16  # bytes before an interface value in memory
OPEN_SIZE = 16  # bytes behind it without a plain conforming type, as in Slang


@dataclass(frozen=True, slots=True)
class Layout:
    """Bytes a type takes in memory; `offsets` are those of its components (for a Struct, its fields)."""

    size: int
    alignment: int
    offsets: Sequence[int] = ()


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@cache
def any_value_layout(t: Type) -> Layout:
    """The layout of a value behind the header of an interface value: a bool takes four bytes there, and a struct ends
    with its last field."""
    if isinstance(t, (Scalar, Pointer)):
        return Layout(4, 4) if t is BOOL else layout_of(t)
    if isinstance(t, Struct):
        return any_value_composite([any_value_layout(part) for part in components(t)])
    return composite([any_value_layout(part) for part in components(t)])


def any_value_composite(parts: Sequence[Layout]) -> Layout:
    """The fields of a struct one after the other."""
    whole = composite(parts)
    end = whole.offsets[-1] + parts[-1].size if parts else 0
    return Layout(end, whole.alignment, whole.offsets)


@cache
def layout_of(t: Type) -> Layout:
    """The layout of a storable type; a tape or a lanes type has none."""
    if isinstance(t, Scalar):
        return Layout(t.size, t.size)
    if isinstance(t, Pointer):
        return Layout(POINTER_SIZE, POINTER_SIZE)
    if isinstance(t, MemoryForm):
        return Layout(t.size, t.alignment, t.offsets)
    if isinstance(t, Struct):
        return composite([layout_of(part) for part in components(t)])
    assert isinstance(t, (Vector, Matrix, Array)), f"{t} has no layout"
    count = t.rows if isinstance(t, Matrix) else t.length
    assert count is not None, f"{t} has no layout"
    element = layout_of(component(t, 0))
    size = element.size * count
    return Layout(size, element.alignment, range(0, size, element.size) if size else (0,) * count)


def composite(parts: Sequence[Layout]) -> Layout:
    """Parts one after the other."""
    offsets, end, alignment = [], 0, 1
    for part in parts:
        offsets.append(round_up(end, part.alignment))
        end, alignment = offsets[-1] + part.size, max(alignment, part.alignment)
    return Layout(round_up(end, alignment), alignment, tuple(offsets))


def scalars_of(t: Type, offset: int = 0) -> Iterator[tuple[int, Type]]:
    """Scalars and pointers of a value with their offsets in bytes."""
    if isinstance(t, (Scalar, Pointer)):
        yield offset, t
        return
    assert not isinstance(t, Array) or t.length is not None, t
    for part, start in zip(components(t), layout_of(t).offsets):
        yield from scalars_of(part, offset + start)


def element_size(address: Type) -> int:
    """The stride: bytes from the value at an address to the next one."""
    return layout_of(pointer_of(address).element).size
