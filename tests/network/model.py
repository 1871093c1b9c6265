"""The network of examples/mlp computed by NumPy in float64, and the example's own training.

losses, gradients = losses_and_gradients(parameters, points)
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
FOLDER = Path(__file__).parent.parent.parent / "examples" / "mlp"
LAYERS = ((4, 16), (16, 4))
LEAK = 0.01

_specification = importlib.util.spec_from_file_location("train_mlp", FOLDER / "train.py")
assert _specification is not None and _specification.loader is not None
train = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(train)


def truth(points: Array) -> Array:
    x, y = points.T
    return np.stack([(x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y], axis=1)


def split(parameters: Array) -> list[tuple[Array, Array]]:
    """Weights and biases of each layer, from its table with a row for each output."""
    found = []
    for inputs, outputs in LAYERS:
        table, parameters = np.split(parameters, [outputs * (inputs + 1)])
        table = table.reshape(outputs, inputs + 1)
        found.append((table[:, :-1], table[:, -1]))
    assert parameters.size == 0
    return found


def losses_and_gradients(parameters: Array, points: Array) -> tuple[Array, Array]:
    """The loss of each point, and the gradients of their sum in the order of the parameters."""
    layers, points = split(parameters.astype(np.float64)), points.astype(np.float64)
    x, y = points.T
    values: list[Array] = [np.stack([x, y, x * x, y * y], axis=1)]
    slopes: list[Array] = []
    for weights, biases in layers:
        z = values[-1] @ weights.T + biases
        slopes.append(np.where(z < 0, LEAK, 1.0))
        values.append(z * slopes[-1])
    difference = values[-1] - truth(points)
    return (difference**2).sum(axis=1), _backward(layers, values, slopes, 2 * difference)


def _backward(
    layers: Sequence[tuple[Array, Array]], values: list[Array], slopes: list[Array], d: Array
) -> Array:
    parts: list[Array] = []
    for (weights, _), value, slope in zip(layers[::-1], values[-2::-1], slopes[::-1], strict=True):
        d = d * slope
        parts = [np.column_stack([d.T @ value, d.sum(axis=0)]).ravel(), *parts]
        d = d @ weights
    return np.concatenate(parts)
