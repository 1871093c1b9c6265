"""Where the partials of `std` are conventions, or where any answer holds; tests/gradients/edges.py tests the conventions.

    EDGES["hypot"] = [(where, partials)]     `where(info, x, y)`: a mask over float64 arrays; `info` is NumPy's finfo

Elsewhere a partial is at most PARTIAL_ULP units in the last place off. One smaller than the smallest normal number
loses digits. A partial of NaN says that any answer holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PARTIAL_ULP = 8.0
ANY = float("nan")

Where = Callable[..., np.ndarray]
Convention = tuple[Where, tuple[float, ...]]


def anywhere_nan(info: np.finfo, *xs: np.ndarray) -> np.ndarray:
    return np.any([np.isnan(x) for x in xs], axis=0)


def anywhere_infinite(info: np.finfo, *xs: np.ndarray) -> np.ndarray:
    return ~np.all([np.isfinite(x) for x in xs], axis=0)


# fmt: off
EDGES: dict[str, list[Convention]] = {
    "abs":      [(lambda info, x: x == 0, (0.0,))],
    "sqrt":     [(lambda info, x: x < info.smallest_normal, (ANY,))],
    "exp2":     [(lambda info, x: x >= info.maxexp, (ANY,))],  # infinite like the value, a little early; so for pow
    "hypot":    [(lambda info, x, y: (x == 0) & (y == 0), (0.0, 0.0)), (anywhere_infinite, (ANY, ANY))],
    "atan2":    [(lambda info, x, y: (x == 0) & (y == 0), (0.0, 0.0)), (anywhere_infinite, (ANY, ANY))],
    "pow":      [
        (lambda info, x, y: x <= 0, (0.0, 0.0)),
        (lambda info, x, y: np.power(x, y) >= float(info.max), (ANY, ANY)),
        (lambda info, x, y: np.power(x, y) < float(info.smallest_normal), (ANY, ANY)),  # as few digits as the value
        (anywhere_infinite, (ANY, ANY)),
    ],
    "copysign": [(lambda info, x, y: (x == 0) | (y == 0) | anywhere_nan(info, x, y), (ANY, 0.0))],
    "fmod":     [(lambda info, x, y: (y == 0) | ~np.isfinite(x), (ANY, ANY))],
    "fdim":     [(anywhere_nan, (ANY, ANY))],
    "fma":      [(anywhere_nan, (ANY, ANY, ANY))],
    "mad":      [(anywhere_nan, (ANY, ANY, ANY))],
    "lerp":     [(anywhere_nan, (ANY, ANY, ANY))],
}
EDGES |= {"fabs": EDGES["abs"], "powr": EDGES["pow"]}
# fmt: on
