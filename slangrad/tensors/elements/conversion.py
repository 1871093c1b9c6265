"""NumPy arrays to another dtype, only where every value survives.

    int64 [1, 2]   to int32   -> int32 [1, 2]
    float64 [0.1]  to float32 -> ValueError: pass array.astype(np.float32) if rounding is meant

No value is ever rounded, wrapped or cut off here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]  # of any dtype
# A user's value: a number, list, dict, array, tensor, or an object of their own class. Code looks at its class, or the
# signature of a call has fixed that.
HostValue = Any
Flags = npt.NDArray[np.bool_]


def convert_exactly(array: AnyArray, dtype: np.dtype, argument: str) -> AnyArray:
    """`given` as `dtype`; ValueError when a value would change."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{argument}: NumPy dtype {array.dtype} cannot become {dtype}")
    if _is_safe(array.dtype, dtype):
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        lost = _lost(array, converted)
    if lost.any():
        first = array.reshape(-1)[int(np.argmax(lost))]
        raise ValueError(
            f"{argument}: {array.dtype} values do not all fit into {dtype}: {first} does not; "
            f"pass array.astype(np.{dtype}) if rounding is meant"
        )
    return converted


def _is_safe(source: np.dtype, target: np.dtype) -> bool:
    """Whether all values survive. NumPy counts 64-bit integers to float64 as safe, which is wrong for large
    ones."""
    if source.kind in "iu" and target.kind == "f" and source.itemsize == 8:
        return False
    return np.can_cast(source, target, "safe")


def _lost(array: AnyArray, converted: AnyArray) -> Flags:
    """Which values changed. Converting back alone would miss values that wrap around or saturate."""
    changed: Flags = converted.astype(array.dtype) != array
    if array.dtype.kind == "f" and converted.dtype.kind == "f":
        return changed & ~(np.isnan(array) & np.isnan(converted))
    if converted.dtype.kind in "iu":
        changed |= _outside(array, *_range(converted.dtype))
    elif converted.dtype.kind == "f":
        changed |= ~np.isfinite(converted)
        changed |= converted.astype(np.float64) >= float(_range(array.dtype)[1] + 1)
    return changed


def _outside(array: AnyArray, smallest: int, largest: int) -> Flags:
    """Integers outside of the range, or floats: `largest + 1` is a power of two, so it has an exact float."""
    if array.dtype.kind == "f":
        values = array.astype(np.float64)
        return ~((values >= float(smallest)) & (values < float(largest + 1)))
    lowest, highest = _range(array.dtype)
    outside = np.zeros(array.shape, np.bool_)
    if lowest < smallest:
        outside |= array < array.dtype.type(smallest)
    if highest > largest:
        outside |= array > array.dtype.type(largest)
    return outside


def _range(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
