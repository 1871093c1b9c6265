"""Sizes of dimensions, outermost first.

    Shape((4, 3)) == (4, 3) == [4, 3]     Shape((4, 3)).calc_contiguous_strides() == (3, 1)     str: [4, 3]

A shape is a tuple. A size of -1 is not known yet (`concrete` is False); `Shape(None)` is no shape (`valid` is
False).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from math import prod

MOST_ELEMENTS = 1 << 31


class Shape(tuple[int, ...]):
    """A tuple of whole numbers: sizes or strides of dimensions."""

    __slots__ = ()
    valid = True

    def __new__(cls, sizes: Iterable[int] | int | None = ()) -> Shape:
        if sizes is None:
            return tuple.__new__(_NoShape)
        if isinstance(sizes, int):
            sizes = (sizes,)
        return tuple.__new__(cls, sizes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            other = tuple(other)
        if isinstance(other, Shape) and other.valid != self.valid:
            return False
        return tuple.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __add__(self, other: Iterable[int]) -> Shape:  # type: ignore[override]
        return Shape((*self, *other))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self))}]"

    __repr__ = __str__

    @property
    def concrete(self) -> bool:
        """Whether no size is -1, which means unknown."""
        return -1 not in tuple(self)

    @property
    def element_count(self) -> int:
        """The product of the sizes; 1 without dimensions."""
        return prod(self)

    def as_tuple(self) -> tuple[int, ...]:
        """The numbers as a tuple."""
        return tuple(self)

    def as_list(self) -> list[int]:
        """The numbers as a list."""
        return list(self)

    def calc_contiguous_strides(self) -> Shape:
        """Strides of this shape without gaps, the last dimension fastest: (2, 3, 4) has (12, 4, 1)."""
        return Shape(contiguous_strides(self))


class _NoShape(Shape):
    __slots__ = ()
    valid = False

    def __str__(self) -> str:
        return "[invalid]"

    __repr__ = __str__


class TooManyElements(ValueError, MemoryError):
    """More elements than the indices of a tensor can tell apart."""

    code = "E1005"

    def __init__(self, count: int) -> None:
        message = f"error[{self.code}]: {count} elements: a tensor has less than {MOST_ELEMENTS}"
        super().__init__(f"{message}\nnote: indices have 32 bits; make several tensors")


def check_count(count: int) -> None:
    """TooManyElements where no tensor has so many."""
    if count >= MOST_ELEMENTS:
        raise TooManyElements(count)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a row-major array without gaps."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie one after the other, in row-major order; the stride of a size of 1 is free."""
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def as_shape(sizes: object, argument: str = "shape") -> Shape:
    """An int or a sequence of ints, none of them negative, as a Shape."""
    if isinstance(sizes, Shape):
        shape = sizes
    else:
        shape = Shape(_integers(sizes, argument))
    if not shape.valid or min(shape, default=0) < 0:
        raise ValueError(f"{argument}: {shape} has a size that is negative or unknown")
    return shape


def as_integers(values: object, argument: str) -> tuple[int, ...]:
    """A sequence of ints of any sign."""
    return tuple(_integers(values, argument))


def _integers(values: object, argument: str) -> list[int]:
    try:
        if isinstance(values, (tuple, list)) or (
            isinstance(values, Iterable) and not isinstance(values, str)
        ):
            return [operator.index(value) for value in values]
        return [operator.index(values)]  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{argument}: expected an int or a tuple of ints, not {values!r}") from None
