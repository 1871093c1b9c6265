"""Footprints: the memory of one value in a launch, as sizes, strides, and the bytes that it touches.

    x of (n,) floats, read        ->  sizes (n,), strides ((4,),), bytes 0 to 4 n from the address that "x" has
    t, an RWTensor<float, 2>      ->  no sizes; the scalars of "t" but for the address; bytes that are read and written

A leaf computes it once for each layout. It contains no addresses, so it is the same for all values of that layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple

Shape = tuple[int, ...]
Values = list[Any]  # scalars of an argument block: numbers and addresses

# The bytes of a region: the start of the first run relative to the address, the bytes of a run, and a divisor of
# the distances between runs. A divisor of 0 means one run.
Lattice = tuple[int, int, int]


class StridedMemory(NamedTuple):
    """Items in memory; strides in bytes. `home` is the device that it belongs to, if it belongs to one."""

    address: int
    shape: Shape
    strides: Shape
    item_size: int
    home: object = None


@dataclass(slots=True, frozen=True)
class Use:
    """The use of a memory by a call. `takes`: a derivative is read there; `adds`: one is accumulated.

    Its address is scalar number `at` of the kernel's parameter `name`. `stream` is the stream of the leaf that
    leads there, None if the function itself chooses the elements. `by_pointer`: overlaps are the function's own matter.
    """

    label: str
    name: str
    memory: StridedMemory
    reads: bool = False
    writes: bool = False
    adds: bool = False
    takes: bool = False
    at: int = 0
    stream: int | None = None
    by_pointer: bool = False


@dataclass(slots=True)
class Footprint:
    """`sizes` are the dimensions that the value brings; `strides` has those of each stream along them, in bytes of
    memory or steps of an index, and `starts` the first index. `forms`: letters about the value's memory that the
    kernel's text depends on. `fixed`: scalars of parameters that depend on the layout alone. `homes`: kinds of
    memory on devices, and the devices.
    """

    sizes: Shape = ()
    strides: Sequence[Shape] = ()
    starts: Sequence[int] = ()
    forms: str = ""
    fixed: dict[str, list[int]] = field(default_factory=dict)
    uses: Sequence[Use] = ()
    homes: Sequence[tuple[str, object]] = ()


def span_of(item: int, shape: Shape, strides: Shape) -> tuple[int, int]:
    """The bytes around the address that items of so many bytes take."""
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides)]
    return sum(min(distance, 0) for distance in reach), sum(max(distance, 0) for distance in reach) + item


def lattice_of(item: int, shape: Shape, strides: Shape) -> Lattice:
    """Of items of so many bytes; dimensions without gaps make the runs longer."""
    origin, run, rest = 0, item, 0
    for stride, size in sorted(zip(strides, shape), key=lambda dim: abs(dim[0])):
        if size <= 1:
            continue
        if abs(stride) == run and rest == 0:
            run *= size
            origin += min((size - 1) * stride, 0)
        else:
            rest = gcd(rest, stride)
    return origin, run, rest


def injective(shape: Shape, strides: Shape, size: int) -> bool:
    """Whether every index of `shape` certainly has its own `size` bytes."""
    moving = sorted((abs(stride), extent) for extent, stride in zip(shape, strides) if extent > 1)
    reach = size
    for stride, extent in moving:
        if stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True
