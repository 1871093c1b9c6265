"""The leaves of an aggregate: scalars, and arrays of one dimension.

    struct { f32x2 v; i32 n }          f32, f32, i32
    [8 x struct { f32 x; [4 x i32] }]  [8 x f32], [32 x i32]     one array for each scalar, dimensions joined
    [? x [4 x f32]]                    [? x f32]                 element i, k of the tape is its 4 * i + k

Elements of arrays are reached by a `u32` position, those of tapes by any integer. A row of one (an array within an
array) stays a `Slice` until it is needed whole, so that `a[i][k] = x` writes one element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from slangrad.ir.analyses.intervals import Ranges
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import (
    I64,
    U32,
    U64,
    Array,
    Matrix,
    Struct,
    Type,
    Vector,
    array,
    component,
    components,
    is_aggregate,
)
from slangrad.ir.ops.core import Value
from slangrad.ir.ops.type_rules import scalar_type

UNROLLED = 8  # longer copies are loops
LARGEST_MAKE = 64

Leaf: TypeAlias = "Value | Slice"


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """An element written (or added to) at a position of a slice; dropped where that is beyond its end."""

    at: Value
    value: Value
    adds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Row `row` of an array of rows of `length` elements, with changes. A row beyond the end is all zero."""

    whole: Leaf
    row: Value
    length: int
    patches: tuple[Patch, ...] = ()


@cache
def leaf_types(t: Type) -> tuple[Type, ...]:
    """The types of the leaves of a type, in order."""
    if not is_aggregate(t):
        return (t,)
    if isinstance(t, Array):
        return tuple(_array_of(leaf, t.length) for leaf in leaf_types(t.element))
    return tuple(leaf for c in components(t) for leaf in leaf_types(c))


def _array_of(leaf: Type, length: int | None) -> Array:
    if not is_fixed_array(leaf):
        return array(leaf, length)
    assert isinstance(leaf, Array) and leaf.length is not None
    return array(leaf.element, None if length is None else length * leaf.length)


def is_fixed_array(t: Type) -> bool:
    return isinstance(t, Array) and t.length is not None


@cache
def leaf_names(t: Type) -> tuple[str, ...]:
    """The names of the leaves of a value: "_x" of a vector, "_origin_x" of a struct."""
    if not is_aggregate(t):
        return ("",)
    if isinstance(t, Array):
        return leaf_names(t.element)
    parts = zip(_names(t), components(t), strict=True)
    return tuple(f"_{name}{rest}" for name, c in parts for rest in leaf_names(c))


def _names(t: Type) -> list[str]:
    if isinstance(t, Struct):
        return [name for name, _ in t.fields]
    letters = "xyzw" if isinstance(t, Vector) and t.length <= 4 else ""
    count = t.rows if isinstance(t, Matrix) else len(list(components(t)))
    return list(letters[:count]) or [str(i) for i in range(count)]


def span_of(t: Type, index: int) -> tuple[int, int]:
    """Which leaves of a struct, vector or matrix are those of component `index`: from, to."""
    start = sum(len(leaf_types(component(t, i))) for i in range(index))
    return start, start + len(leaf_types(component(t, index)))


def leaf_type(leaf: Leaf) -> Type:
    if isinstance(leaf, Value):
        return leaf.type
    whole = leaf_type(leaf.whole)
    assert isinstance(whole, Array)
    return array(whole.element, leaf.length)


def extent_of(leaf: Leaf) -> int | None:
    """Positions from here on are beyond the end; None for a tape, where only negative ones are."""
    t = leaf_type(leaf)
    assert isinstance(t, Array)
    return t.length


class LeafElements:
    """Reads and writes elements and rows of leaves. Leaves are immutable: a write returns another leaf."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._slices: dict[tuple[Leaf, Value, int], Slice] = {}
        self._overwritten: dict[
            Leaf, tuple[Leaf, Value]
        ] = {}  # an array with a new row, what it was before, the row

    # --- positions

    def position(self, b: Builder, index: Value, extent: int | None) -> Value:
        """An index of any integer type as a u32 that is below `extent` exactly when the index is in range."""
        if extent is None:
            return index
        if scalar_type(index).bits < 64 or self.ranges.is_below(b, index, extent):
            return b.emit("convert", index, type=U32)
        unsigned = b.emit("convert", index, type=U64)
        return b.emit("convert", b.emit("min", unsigned, b.constant(U64, extent)), type=U32)

    def row(self, b: Builder, index: Value, rows: int | None) -> Value:
        """The number of a row, at most `rows`, so that its elements' positions do not overflow."""
        if rows is None:
            return b.emit("convert", index, type=I64)
        position = self.position(b, index, rows)
        if self.ranges.is_below(b, position, rows + 1):
            return position
        return b.emit("min", position, b.constant(U32, rows))

    def in_row(self, b: Builder, row: Value, length: int, at: Value, extent: int | None) -> Value:
        """The position in the whole of an element of a row: beyond the end where it is beyond the row's."""
        t = scalar_type(row)
        start = b.emit("mul", row, b.constant(t, length))
        if self.ranges.is_below(b, at, length):
            return b.emit("add", start, b.emit("convert", at, type=t))
        inside = b.emit("less", at, b.constant(U32, length))
        last = b.emit("min", at, b.constant(U32, length - 1))
        position = b.emit("add", start, b.emit("convert", last, type=t))
        return b.emit("select", inside, position, b.constant(t, -1 if extent is None else extent))

    # --- elements

    def read(self, b: Builder, leaf: Leaf, at: Value) -> Value:
        if isinstance(leaf, Value):
            return b.emit("index", leaf, at)
        if leaf.patches:
            return b.emit("index", self.as_value(b, leaf), at)
        return self.read(b, leaf.whole, self.in_row(b, leaf.row, leaf.length, at, extent_of(leaf.whole)))

    def write(self, b: Builder, leaf: Leaf, at: Value, value: Value, adds: bool = False) -> Leaf:
        if isinstance(leaf, Value):
            return b.emit("add_index" if adds else "set_index", leaf, at, value)
        return Slice(leaf.whole, leaf.row, leaf.length, (*leaf.patches, Patch(at, value, adds)))

    # --- rows

    def read_row(self, leaf: Leaf, row: Value, length: int) -> Slice:
        """The same row gives the same slice, so that writing it back is recognized."""
        return self._slices.setdefault((leaf, row, length), Slice(leaf, row, length))

    def write_row(
        self, b: Builder, whole: Leaf, row: Value, length: int, leaf: Leaf, adds: bool = False
    ) -> Leaf:
        """The whole with a row replaced (or added to) by another array; in place, if that is the changed row."""
        before, written = self._overwritten.get(whole, (whole, None))
        if written is row and not adds:
            whole = before
        if isinstance(leaf, Slice) and leaf.whole is whole and leaf.row is row and not adds:
            return self._apply(b, whole, leaf)
        copied = self._copy_row(b, whole, row, length, leaf, adds)
        if not adds:
            self._overwritten[copied] = (whole, row)
        return copied

    def _copy_row(self, b: Builder, whole: Leaf, row: Value, length: int, leaf: Leaf, adds: bool) -> Value:
        extent = extent_of(whole)
        if isinstance(leaf, Slice) and leaf.whole is whole:
            leaf = self.as_value(b, leaf)  # of the same array: all is read before it is written

        def put(b: Builder, whole: Value, k: Value) -> Value:
            at = self.in_row(b, row, length, k, extent)
            return self.as_value(b, self.write(b, whole, at, self.read(b, leaf, k), adds))

        return self.repeat(b, length, self.as_value(b, whole), put)

    def _apply(self, b: Builder, whole: Leaf, changed: Slice) -> Leaf:
        """The whole with the changes of one of its rows."""
        for patch in changed.patches:
            at = self.in_row(b, changed.row, changed.length, patch.at, extent_of(whole))
            whole = self.write(b, whole, at, patch.value, patch.adds)
        return whole

    # --- whole arrays

    def as_value(self, b: Builder, leaf: Leaf) -> Value:
        """The leaf as a value of its own."""
        if isinstance(leaf, Value):
            return leaf
        original = Slice(leaf.whole, leaf.row, leaf.length)
        array_value = self._copied(b, original)
        for patch in leaf.patches:
            array_value = b.emit(
                "add_index" if patch.adds else "set_index", array_value, patch.at, patch.value
            )
        return array_value

    def _copied(self, b: Builder, original: Slice) -> Value:
        t = leaf_type(original)
        if original.length <= UNROLLED:
            elements = [self.read(b, original, b.constant(U32, k)) for k in range(original.length)]
            return b.emit("make", *elements, type=t)
        return self.repeat(
            b,
            original.length,
            b.zero(t),
            lambda b, copy, k: b.emit("set_index", copy, k, self.read(b, original, k)),
        )

    def joined(self, b: Builder, parts: list[Leaf]) -> Value:
        """The array whose elements (or rows) are given."""
        t = leaf_type(parts[0])
        if not is_fixed_array(t):
            return b.emit("make", *[self.as_value(b, p) for p in parts], type=array(t, len(parts)))
        assert isinstance(t, Array) and t.length is not None
        whole_type = array(t.element, t.length * len(parts))
        if t.length * len(parts) <= LARGEST_MAKE:
            positions = [b.constant(U32, k) for k in range(t.length)]
            return b.emit("make", *[self.read(b, p, at) for p in parts for at in positions], type=whole_type)
        whole: Leaf = b.zero(whole_type)
        for i, part in enumerate(parts):
            whole = self.write_row(b, whole, b.constant(U32, i), t.length, part)
        return self.as_value(b, whole)

    def repeat(
        self, b: Builder, count: int, start: Value, step: Callable[[Builder, Value, Value], Value]
    ) -> Value:
        """`start` changed by `step(builder, value, k)` for k = 0, 1, ...: written out, or a loop."""
        if count <= UNROLLED:
            for k in range(count):
                start = step(b, start, b.constant(U32, k))
            return start
        trips = b.constant(U32, count)

        def change(inner: Builder, index: Value, value: Value) -> tuple[Value, ...]:
            self.ranges.counted(b, trips, index)
            return (step(inner, value, index),)

        return b.for_(trips, (start,), change, hint="k")[0]
