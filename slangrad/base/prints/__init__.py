"""Formats of prints: from a format and values to a line of text."""

from __future__ import annotations


def shaped_name(element: str, extents: tuple[object, ...], is_short: bool = False, comma: str = ", ") -> str:
    """The name of a vector or matrix type: float3 and float3x4 if `is_short`, else vector<float, 3>."""
    sizes = list(map(str, extents))
    if is_short:
        return element + "x".join(sizes)
    return f"{'vector' if len(sizes) == 1 else 'matrix'}<{comma.join((element, *sizes))}>"
