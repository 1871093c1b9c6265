"""Keywords of NumPy's functions that traced arrays do not have: those that change nothing are taken, others refused."""

from __future__ import annotations

import numpy as np

from slangrad.graph.ir.errors import GraphError

# Values of keywords that change nothing: NumPy's defaults, and memory layouts, which results do not show.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "where": (True,), "subok": (True, False), "order": ("K", "A", "C", "F"), "casting": ("same_kind",),
    "mode": ("raise",), "copy": (True, False), "device": ("cpu",), "keepdims": (False,),
}  # fmt: skip


def refuse(name: str, **keywords: object) -> None:
    """GraphError (E1040) for keywords that would change the result."""
    for key, value in keywords.items():
        if value is None or value is np._NoValue:
            continue
        if not isinstance(value, bool | str) or value not in NEUTRAL.get(key, ()):
            if key == "out":
                message = f"np.{name}: neither out= nor an operator such as += can be traced"
                raise GraphError("E1040", message, "arrays in graphs do not change: x = x + y")
            raise GraphError("E1040", f"np.{name}: {key}= cannot be traced")
