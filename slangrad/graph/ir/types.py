"""Types of elements: NumPy's and Slang's names."""

from __future__ import annotations

import numpy as np

from slangrad.graph.ir.node import DType

TYPES = {
    "bool": "bool", "float16": "half", "float32": "float", "float64": "double",
    "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint", "uint64": "uint64_t",
}  # fmt: skip
DTYPES: dict[str, DType] = {slang: np.dtype(name) for name, slang in TYPES.items()}


def wide_of(dtype: DType) -> DType:
    """The type in which elements are added: float32 for halves."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def type_of(dtype: DType) -> str:
    """The name in Slang."""
    return TYPES[dtype.name]
