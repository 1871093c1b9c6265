"""NumPy arrays to another dtype, only where every value survives.

    int64 [1, 2]   to int32   -> int32 [1, 2]
    float64 [0.1]  to float32 -> ValueError: pass array.astype(np.float32) if rounding is meant

Nothing is ever rounded, wrapped or cut off here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]  # of any dtype
# A value as users have it: a number, list, dict, array, tensor, an object of their own. Code looks at its class, or the
# signature of a call has fixed that.
HostValue = Any
Flags = npt.NDArray[np.bool_]


def convert_exactly(given: AnyArray, dtype: np.dtype, argument: str) -> AnyArray:
    """`given` as `dtype`; ValueError when a value would change."""
    if given.dtype == dtype:
        return given
    if given.dtype.kind not in "biuf" or given.dtype.itemsize > 8:
        raise ValueError(f"{argument}: NumPy dtype {given.dtype} cannot become {dtype}")
    if _is_safe(given.dtype, dtype):
        return given.astype(dtype)
    with np.errstate(all="ignore"):
        converted = given.astype(dtype)
        lost = _lost(given, converted)
    if lost.any():
        first = given.reshape(-1)[int(np.argmax(lost))]
        raise ValueError(
            f"{argument}: {given.dtype} values do not all fit into {dtype}: {first} does not; "
            f"pass array.astype(np.{dtype}) if rounding is meant"
        )
    return converted


def _is_safe(source: np.dtype, target: np.dtype) -> bool:
    """Whether all values survive. NumPy counts 64-bit integers to float64 as safe; they are not."""
    if source.kind in "iu" and target.kind == "f" and source.itemsize == 8:
        return False
    return np.can_cast(source, target, "safe")


def _lost(given: AnyArray, converted: AnyArray) -> Flags:
    """Which values changed. Converting back alone would miss what wraps around or saturates."""
    changed: Flags = converted.astype(given.dtype) != given
    if given.dtype.kind == "f" and converted.dtype.kind == "f":
        return changed & ~(np.isnan(given) & np.isnan(converted))
    if converted.dtype.kind in "iu":
        changed |= _outside(given, *_range(converted.dtype))
    elif converted.dtype.kind == "f":
        changed |= ~np.isfinite(converted)
        changed |= converted.astype(np.float64) >= float(_range(given.dtype)[1] + 1)
    return changed


def _outside(given: AnyArray, smallest: int, largest: int) -> Flags:
    """Integers outside of the range, or floats: `largest + 1` is a power of two, so it has an exact float."""
    if given.dtype.kind == "f":
        values = given.astype(np.float64)
        return ~((values >= float(smallest)) & (values < float(largest + 1)))
    lowest, highest = _range(given.dtype)
    outside = np.zeros(given.shape, np.bool_)
    if lowest < smallest:
        outside |= given < given.dtype.type(smallest)
    if highest > largest:
        outside |= given > given.dtype.type(largest)
    return outside


def _range(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
