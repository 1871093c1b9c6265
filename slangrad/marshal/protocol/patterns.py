"""The possible Slang types of a Python value, for the type of a parameter.

In: the type of a parameter, with its generic parameters, and the elements of a value.
Out: the concrete types it can stand for, perhaps none, perhaps several.

    parameter vector<T, 3>, container of float     ->  float3   (a trailing dimension is consumed)
    parameter T,            container of float     ->  float and the container: ambiguous without a constraint
    parameter float,        float3                 ->  float    (one call for each component)

The checker decides whether generic parameters agree with each other and with their constraints.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.check.model.types import (
    ArrayType,
    MatrixType,
    ParameterType,
    PointerType,
    Projection,
    ScalarType,
    StructType,
    Type,
    VectorType,
    array,
    element_of,
    innermost,
    matrix,
    pointer,
    vector,
)

LARGEST_VECTOR = 4


def matches(pattern: Type, t: Type) -> bool:
    """Whether `pattern` can become `t` when its generic parameters are filled in, each use by itself."""
    if pattern is t or isinstance(pattern, (ParameterType, Projection)):
        return True
    if not pattern.abstract and not _is_unsized(pattern):
        return False
    if isinstance(pattern, VectorType) and isinstance(t, VectorType):
        return matches(pattern.element, t.element) and value_matches(pattern.count, t.count)
    if isinstance(pattern, MatrixType) and isinstance(t, MatrixType):
        sizes = value_matches(pattern.rows, t.rows) and value_matches(pattern.columns, t.columns)
        return sizes and matches(pattern.element, t.element)
    if isinstance(pattern, ArrayType) and isinstance(t, ArrayType):
        return matches(pattern.element, t.element) and (
            pattern.count is None or value_matches(pattern.count, t.count)
        )
    if isinstance(pattern, PointerType) and isinstance(t, PointerType):
        return matches(pattern.element, t.element)
    if isinstance(pattern, StructType) and isinstance(t, StructType):
        return pattern.declaration is t.declaration and all(
            map(_argument_matches, pattern.arguments, t.arguments)
        )
    return False


def _is_unsized(pattern: Type) -> bool:
    return isinstance(pattern, ArrayType) and (pattern.count is None or _is_unsized(pattern.element))


def _argument_matches(pattern: object, argument: object) -> bool:
    if isinstance(pattern, Type) and isinstance(argument, Type):
        return matches(pattern, argument)
    return value_matches(pattern, argument)


def value_matches(pattern: object, value: object) -> bool:
    return pattern == value if isinstance(pattern, int) else isinstance(value, int)


def converts(source: Type, target: Type) -> bool:
    """Whether numbers of one type become numbers of the other: one by one, or a scalar for all components."""
    if isinstance(source, ScalarType):
        return isinstance(target, (ScalarType, VectorType, MatrixType)) and isinstance(
            element_of(target), ScalarType
        )
    if isinstance(source, VectorType) and isinstance(target, VectorType):
        same = source.count == target.count
    elif isinstance(source, MatrixType) and isinstance(target, MatrixType):
        same = (source.rows, source.columns) == (target.rows, target.columns)
    else:
        return False
    return same and all(isinstance(element_of(t), ScalarType) for t in (source, target))


def from_elements(pattern: Type, element: Type) -> Iterator[Type]:
    """The types that a container of `element` can be loaded as: the element, or types of trailing dimensions."""
    if matches(pattern, element):
        yield element
    if isinstance(pattern, ArrayType) and isinstance(pattern.count, int):
        yield from (array(inner, pattern.count) for inner in from_elements(pattern.element, element))
    elif (
        isinstance(pattern, VectorType) and isinstance(pattern.count, int) and isinstance(element, ScalarType)
    ):
        if matches(pattern.element, element):
            yield vector(element, pattern.count)
    elif isinstance(pattern, MatrixType) and isinstance(pattern.rows, int):
        yield from _matrix_of(pattern, pattern.rows, element)


def with_sizes(pattern: Type, element: Type, sizes: tuple[int, ...]) -> Type | None:
    """The array or vector that the last of `sizes` make of elements, where the pattern leaves one of them open."""
    parts: list[ArrayType | VectorType] = []
    part = pattern
    while not matches(part, element):
        if not isinstance(part, (ArrayType, VectorType)):
            return None
        parts.append(part)
        part = part.element
    last_sizes = sizes[max(0, len(sizes) - len(parts)) :]
    is_open = any(not isinstance(sized.count, int) for sized in parts)
    fits = len(last_sizes) == len(parts) and all(
        value_matches(sized.count or "", n) for sized, n in zip(parts, last_sizes)
    )
    return _sized(parts, element, last_sizes) if is_open and fits else None


def _sized(parts: list[ArrayType | VectorType], element: Type, sizes: tuple[int, ...]) -> Type | None:
    t = element
    for part, size in zip(reversed(parts), reversed(sizes)):
        if isinstance(part, ArrayType):
            t = array(t, size)
        elif isinstance(t, ScalarType) and size <= LARGEST_VECTOR:
            t = vector(t, size)
        else:
            return None
    return t


def open_dimensions(pattern: Type) -> int:
    """The number of dimensions of an array or vector with an open size; 0 without one."""
    depth, is_open = 0, False
    while isinstance(pattern, (ArrayType, VectorType)):
        is_open = is_open or not isinstance(pattern.count, int)
        pattern, depth = pattern.element, depth + 1
    return depth if is_open else 0


def _matrix_of(pattern: MatrixType, rows: int, element: Type) -> Iterator[Type]:
    columns = element.count if isinstance(element, VectorType) else pattern.columns
    scalar = element.element if isinstance(element, VectorType) else element
    fits = isinstance(columns, int) and value_matches(pattern.columns, columns)
    if isinstance(scalar, ScalarType) and fits and matches(pattern.element, scalar):
        yield matrix(scalar, rows, columns)


def from_value(pattern: Type, t: Type) -> Iterator[tuple[Type, int]]:
    """The types that a host vector or matrix fits, each with the number of call dimensions that are left."""
    part: Type | None = t
    dims = 0
    while part is not None:
        if matches(pattern, part):
            yield part, dims
        part, dims = row_of(part), dims + 1


def row_of(t: Type) -> Type | None:
    """The type of `value[i]`: of a matrix its row, of a vector its component, of an array its element."""
    if isinstance(t, MatrixType):
        return vector(t.element, t.columns)
    return t.element if isinstance(t, (VectorType, ArrayType)) else None


def consumed(t: Type, element: Type) -> tuple[int, ...] | None:
    """The trailing sizes that make a `t` out of `element`s: float3 out of float takes (3,)."""
    sizes: list[int] = []
    part: Type | None = t
    while part is not None and part is not element:
        sizes += [size for size in _own_size(part) if isinstance(size, int)]
        part = row_of(part)
    return None if part is None else tuple(sizes)


def _own_size(t: Type) -> tuple[object, ...]:
    if isinstance(t, MatrixType):
        return (t.rows,)
    return (t.count,) if isinstance(t, (VectorType, ArrayType)) else ()


def pointers_to(pattern: PointerType, element: Type) -> Iterator[Type]:
    """The pointer types that a buffer of `element` can be bound to."""
    if matches(pattern.element, element):
        yield pointer(element)


def scalar_inside(t: Type) -> ScalarType | None:
    """The numbers that arrays, vectors and matrices are made of."""
    t = innermost(t)
    return t if isinstance(t, ScalarType) else None
