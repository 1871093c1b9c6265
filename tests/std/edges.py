"""THE TABLE of conventions of derivatives at edges, as `docs/gradients.md` has it: where they are not the exact partials.

    EDGES["hypot"] = [(where, partials)]     `where(info, x, y)`: a mask over float64 arrays; `info` is NumPy's finfo

Elsewhere a partial is at most PARTIAL_ULP units in the last place off. A partial of NaN says that any answer holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PARTIAL_ULP = 8.0
ANY = float("nan")

Where = Callable[..., np.ndarray]
Convention = tuple[Where, tuple[float, ...]]


def anywhere_nan(info: np.finfo, *xs: np.ndarray) -> np.ndarray:
    return np.isnan(sum(xs))


def anywhere_infinite(info: np.finfo, *xs: np.ndarray) -> np.ndarray:
    return ~np.isfinite(sum(xs))


EDGES: dict[str, list[Convention]] = {
    "abs": [(lambda info, x: x == 0, (0.0,))],
    "fabs": [(lambda info, x: x == 0, (0.0,))],
    "sqrt": [(lambda info, x: x <= 16 * info.smallest_normal, (ANY,))],
    "rcp": [(lambda info, x: x * x <= 16 * info.smallest_normal, (ANY,))],
    "cbrt": [(lambda info, x: x == 0, (ANY,))],
    "hypot": [(lambda info, x, y: (x == 0) & (y == 0), (0.0, 0.0)), (anywhere_infinite, (ANY, ANY))],
    "atan2": [(lambda info, x, y: (x == 0) & (y == 0), (0.0, 0.0)), (anywhere_infinite, (ANY, ANY))],
    "pow": [
        (lambda info, x, y: x <= 0, (0.0, 0.0)),
        (anywhere_infinite, (ANY, ANY)),
    ],
    "fma": [(anywhere_nan, (ANY, ANY, ANY))],
    "mad": [(anywhere_nan, (ANY, ANY, ANY))],
    "lerp": [(anywhere_nan, (ANY, ANY, ANY))],
    "copysign": [(lambda info, x, y: (x == 0) | (y == 0) | np.isnan(x + y), (ANY, 0.0))],
    "fmod": [(lambda info, x, y: (y == 0) | ~np.isfinite(x), (ANY, ANY))],
    "fdim": [(anywhere_nan, (ANY, ANY))],
}
EDGES["powr"] = EDGES["pow"]
