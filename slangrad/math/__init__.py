"""Functions of host vectors, matrices and quaternions, and their types: `spy.math.mul(m, v)`.

In: values of `slangrad.marshal.host.vectors`, and numbers.   Out: the same, of the same element type.

    math.normalize(float3(3, 0, 4))  ->  float3(0.6, 0.0, 0.8)
    math.lt(int2(1, 5), 3)           ->  bool2(True, False)
    math.mul(math.matrix_from_rotation_z(0.5), math.matrix_from_translation(v))

Numbers are Python's, so functions of them are computed in double precision; those of vectors are rounded to their
elements. Matrices transform column vectors. Kernels use Slang's own library, not this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.marshal.host.vectors import class_named, class_names
from slangrad.math import componentwise, geometry, matrices, quaternions
from slangrad.math.matrices import Handedness

_FUNCTIONS: dict[str, Callable[..., object]] = {
    **componentwise.FUNCTIONS,
    **{name: value for part in (geometry, matrices, quaternions) for name, value in part.PUBLIC.items()},
}
globals().update(_FUNCTIONS)

__all__ = ["Handedness", *_FUNCTIONS]


def __getattr__(name: str) -> Any:  # for type checkers: classes and functions that come out of tables
    """The types: `math.float3`."""
    host_class = class_named(name)
    if host_class is None:
        raise AttributeError(f"module 'slangrad.math' has no attribute '{name}'")
    return host_class


def __dir__() -> list[str]:
    return sorted([*__all__, *class_names()])
