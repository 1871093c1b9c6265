"""Python values as Slang expressions, for constants that are linked.

2 -> 2      0.5 -> 0.5      True -> true      float3(1, 2, 3) -> float3(1.0, 2.0, 3.0)      [1, 2] -> { 1, 2 }
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slangrad.marshal.errors import CallError
from slangrad.marshal.vectors import HostArray


def spell_value(value: Any, name: str) -> str:
    """The expression; CallError for what has none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value) + "lf"
    if isinstance(value, HostArray):
        parts = ", ".join(spell_value(each, name) for each in value.data.ravel())
        return f"{type(value).__name__}({parts})"
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(spell_value(each, name) for each in value) + " }"
    message = f"constants: '{name}' cannot be {type(value).__name__} {value!r}"
    raise CallError("E1013", message, (), "numbers, vectors and lists of these can be constants")
