"""Concrete types of the IR, interned: compare them with `is`.

    f32   float3 = Vector(f32, 3)   Matrix(f32, 3, 4)   Array(f32, 8)   Array(f32, None)   Struct("Point", ..)

An array without a length is a *tape*: it grows when it is written; elements that were not written read zero.
There are no type parameters here; checked Slang types live in `check/model/types.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import TypeVar


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """Base of all IR types. Instances are interned, so identity is equality."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scalar(Type):
    """A number or truth value. `bits` is the width of the value, `size` the bytes it takes in memory."""

    name: str
    kind: str  # "bool", "signed", "unsigned" or "float"
    bits: int
    size: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vector(Type):
    element: Scalar
    length: int

    def __str__(self) -> str:
        return f"{self.element}x{self.length}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Matrix(Type):
    """Component `i` is row `i`, a Vector. `transposed`: a form in memory, whose value is its transpose."""

    element: Scalar
    rows: int
    columns: int
    transposed: bool = False

    def __str__(self) -> str:
        return f"{self.element}x{self.rows}x{self.columns}{'t' if self.transposed else ''}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Array(Type):
    """`length` elements; a tape when `length` is None."""

    element: Type
    length: int | None

    def __str__(self) -> str:
        return f"[{'?' if self.length is None else self.length} x {self.element}]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Struct(Type):
    """A named product type. Two structs are the same type when name and fields agree."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return f'struct "{self.name}"'

    def index(self, field: str) -> int:
        """The position of a field; KeyError when there is none."""
        for position, (name, _) in enumerate(self.fields):
            if name == field:
                return position
        raise KeyError(field)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MemoryForm(Struct):
    """The form in memory of type `value`, if it differs from the type (forms.py): bytes, alignment, offsets of the
    fields. No op computes with it."""

    value: Type
    size: int
    alignment: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpenForm(MemoryForm):
    """The form in memory of a struct with pointers to itself. It is not interned, as its fields are known later."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pointer(Type):
    """An address of `element`s. Spaces: "global", "local" (a thread's own), "shared", "constant".

    In the space "tape" it is the handle of a tape of `element`s; exists after `flatten` only.
    """

    element: Type
    space: str

    def __str__(self) -> str:
        return f"ptr<{self.element}, {self.space}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lanes(Type):
    """One value of `element` in each SIMD lane; exists after `spmd` only. `element` is Scalar or Pointer."""

    element: Type

    def __str__(self) -> str:
        return f"lanes<{self.element}>"


BOOL = Scalar("bool", "bool", 1, 1)
I8, I16, I32, I64 = (Scalar(f"i{n}", "signed", n, n // 8) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{n}", "unsigned", n, n // 8) for n in (8, 16, 32, 64))
F16, F32, F64 = (Scalar(f"f{n}", "float", n, n // 8) for n in (16, 32, 64))
# Kept in memory, and rounded to; they compute as f32. A float of 8 bits has the exponent's bits and the fraction's.
BF16 = Scalar("bf16", "float", 16, 2)
E4M3, E5M2 = (Scalar(name, "float", 8, 1) for name in ("e4m3", "e5m2"))
SMALL_FLOATS = (BF16, E4M3, E5M2)
NARROW_FLOATS = (F16, *SMALL_FLOATS)  # sums and library functions compute them as f32

SCALARS = {t.name: t for t in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, *SMALL_FLOATS)}

DONE_AT_ONCE = 16  # scalars

_T = TypeVar("_T", bound=Type)
_interned: dict[tuple[object, ...], Type] = {}


def _intern(new: _T, *key: object) -> _T:
    interned = _interned.setdefault((type(new), *key), new)
    assert isinstance(interned, type(new))
    return interned


def vector(element: Scalar, length: int) -> Vector:
    return _intern(Vector(element, length), element, length)


def matrix(element: Scalar, rows: int, columns: int, transposed: bool = False) -> Matrix:
    return _intern(Matrix(element, rows, columns, transposed), element, rows, columns, transposed)


def array(element: Type, length: int | None) -> Array:
    return _intern(Array(element, length), element, length)


def struct(name: str, fields: tuple[tuple[str, Type], ...]) -> Struct:
    return _intern(Struct(name, fields), name, fields)


def form(
    name: str,
    fields: tuple[tuple[str, Type], ...],
    value: Type,
    size: int,
    alignment: int,
    offsets: tuple[int, ...],
) -> MemoryForm:
    new = MemoryForm(name, fields, value, size, alignment, offsets)
    return _intern(new, name, fields, value, size, alignment, offsets)


def open_form(name: str) -> OpenForm:
    """A form for pointers, before the fields of the struct are known; then `close_form`."""
    return OpenForm(name, (), U8, 0, 1, ())


def close_form(
    opened: OpenForm,
    fields: tuple[tuple[str, Type], ...],
    value: Type,
    size: int,
    alignment: int,
    offsets: tuple[int, ...],
) -> None:
    """Only its maker changes a form, before any other code has it."""
    closed = MemoryForm(opened.name, fields, value, size, alignment, offsets)
    for name in ("fields", "value", "size", "alignment", "offsets"):
        object.__setattr__(opened, name, getattr(closed, name))


def value_of(t: Type) -> Type:
    """The type of the value of a form in memory."""
    if isinstance(t, MemoryForm):
        return t.value
    if isinstance(t, Matrix) and t.transposed:
        return matrix(t.element, t.columns, t.rows)
    return array(value_of(t.element), t.length) if isinstance(t, Array) else t


def pointer(element: Type, space: str = "global") -> Pointer:
    return _intern(Pointer(element, space), element, space)


def lanes(element: Type) -> Lanes:
    return _intern(Lanes(element), element)


def is_integer(t: Type) -> bool:
    return isinstance(t, Scalar) and t.kind in ("signed", "unsigned")


def is_float(t: Type) -> bool:
    return isinstance(t, Scalar) and t.kind == "float"


def pointer_of(t: Type) -> Pointer:
    """The type of an address, or of each of its lanes."""
    address = t.element if isinstance(t, Lanes) else t
    assert isinstance(address, Pointer), t
    return address


def scalar_of(t: Type) -> Scalar | None:
    """The scalar a scalar, vector, matrix or lanes type is made of; None for other types."""
    if isinstance(t, Scalar):
        return t
    if isinstance(t, (Vector, Matrix)):
        return t.element
    if isinstance(t, Lanes):
        return scalar_of(t.element)
    return None


def innermost(t: Type) -> Type:
    """The element of nested arrays."""
    return innermost(t.element) if isinstance(t, Array) else t


def with_scalar(t: Type, element: Scalar) -> Type:
    """The type of the same shape over another scalar: f32x3 with bool is boolx3."""
    if isinstance(t, Scalar):
        return element
    if isinstance(t, Vector):
        return vector(element, t.length)
    if isinstance(t, Matrix):
        return matrix(element, t.rows, t.columns, t.transposed)
    assert isinstance(t, Lanes), t
    return lanes(element)


def components(t: Type) -> Iterator[Type]:
    """The types of the components that `get` reaches, in order. Scalars, pointers and tapes have none."""
    if isinstance(t, Vector):
        yield from (t.element,) * t.length
    elif isinstance(t, Matrix):
        yield from (vector(t.element, t.columns),) * t.rows
    elif isinstance(t, Array) and t.length is not None:
        yield from repeat(t.element, t.length)
    elif isinstance(t, Struct):
        yield from (field for _, field in t.fields)


def is_aggregate(t: Type) -> bool:
    """Whether a value of this type has components (or grows, for a tape)."""
    return isinstance(t, (Vector, Matrix, Array, Struct))


def is_tape(t: Type) -> bool:
    return isinstance(t, Array) and t.length is None


def contains(t: Type, test: Callable[[Type], bool]) -> bool:
    """Whether a test holds for a type or for one that values of it are made of."""
    parts = [t.element] if isinstance(t, Array) else components(t)
    return test(t) or any(contains(part, test) for part in parts)


def component_count(t: Type) -> int:
    return t.length or 0 if isinstance(t, Array) else sum(1 for _ in components(t))


def index_extent(t: Type) -> int | None:
    """The number of components; None for a tape."""
    return None if is_tape(t) else component_count(t)


def component(t: Type, index: int) -> Type:
    """The type of component `index`: a field, an element or a row."""
    if isinstance(t, Struct):
        return t.fields[index][1]
    if isinstance(t, Matrix):
        return vector(t.element, t.columns)
    assert isinstance(t, (Vector, Array)), t
    return t.element


@cache
def scalar_count(t: Type) -> int:
    """How many scalars and pointers a value is made of; a tape counts as none."""
    if isinstance(t, Array):
        return (t.length or 0) * scalar_count(t.element)
    return sum(map(scalar_count, components(t))) if is_aggregate(t) else 1


def is_long(t: Array) -> bool:
    """Whether elementwise code for an array is a loop; for few scalars it is written out."""
    return (t.length or 0) > 1 and scalar_count(t) > DONE_AT_ONCE
