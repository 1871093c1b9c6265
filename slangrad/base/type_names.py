"""Names of types in Slang that the models of the checker, of tensors and of calls share."""

from __future__ import annotations


def shaped_name(element: str, extents: tuple[object, ...], is_short: bool = False, comma: str = ", ") -> str:
    """The name of a vector or matrix type: float3 and float3x4 if `is_short`, else vector<float, 3>."""
    sizes = list(map(str, extents))
    if is_short:
        return element + "x".join(sizes)
    return f"{'vector' if len(sizes) == 1 else 'matrix'}<{comma.join((element, *sizes))}>"
