"""Functions with arrays and vectors of any size, whose sizes are those of NumPy arrays, Tensors and torch tensors.

    float sum<let N : int>(float x[N]),  x of (4, 3)   ->   N = 3, four calls

Of other functions plans serve all sizes; of these each size has its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from slangrad.marshal.patterns import open_dimensions


def counted_dimensions(candidates: Iterable[Any]) -> int:
    """The most dimensions of a parameter that leaves a size open."""
    parameters = (each.type for candidate in candidates for each in candidate.parameters)
    return max(map(open_dimensions, parameters), default=0)


def sizes_of(value: Any, count: int) -> Hashable:
    """The last sizes of a value, and of the values in a list or dict; of a pair those of the primal."""
    value = getattr(value, "primal", value)
    if isinstance(value, list):
        return tuple(sizes_of(each, count) for each in value)
    if isinstance(value, dict):
        return tuple(sizes_of(each, count) for each in value.values())
    shape = getattr(value, "shape", None)
    return tuple(int(size) for size in shape[-count:]) if isinstance(shape, tuple) else None
