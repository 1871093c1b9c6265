"""The builtin type names of Slang and HLSL.

In: "half3x4", "min16uint2", "size_t".   Out: the type.

Only spelling; `vector<T, N>` and the other generic names are in generic_arguments.py.
"""

from __future__ import annotations

import re

from slangrad.check.model.types import (
    DOUBLE,
    FLOAT,
    HALF,
    INT,
    INT8,
    INT16,
    INT64,
    SCALARS,
    STRING,
    UINT,
    UINT8,
    UINT16,
    UINT64,
    VOID,
    ScalarType,
    Type,
    matrix,
    vector,
)

# fmt: off
_SCALARS: dict[str, ScalarType] = {
    **{scalar.name: scalar for scalar in SCALARS},
    "int32_t":    INT,   "uint32_t":   UINT,   "dword":    UINT,   "char":     INT8,   "byte":      UINT8,
    "float16_t":  HALF,  "float32_t":  FLOAT,  "float64_t": DOUBLE,
    "min16float": HALF,  "min10float": HALF,   "min16int": INT16,  "min12int": INT16,  "min16uint": UINT16,
    "intptr_t":   INT64, "uintptr_t":  UINT64, "size_t":   UINT64, "usize_t":  UINT64, "ssize_t":   INT64,
    "ptrdiff_t":  INT64,
}
_OTHERS: dict[str, Type] = {"void": VOID, "String": STRING, "string": STRING, "NativeString": STRING}
# fmt: on
_SHAPED = re.compile(r"([a-z0-9_]*?[a-z_])([1-4])(?:x([1-4]))?")


def builtin_type(name: str) -> Type | None:
    """The type of a builtin name, or None."""
    plain = _SCALARS.get(name) or _OTHERS.get(name)
    if plain is not None:
        return plain
    shaped = _SHAPED.fullmatch(name)
    if shaped is None:
        return None
    scalar = _SCALARS.get(shaped[1])
    if scalar is None:
        return None
    if shaped[3] is None:
        return vector(scalar, int(shaped[2]))
    return matrix(scalar, int(shaped[2]), int(shaped[3]))
