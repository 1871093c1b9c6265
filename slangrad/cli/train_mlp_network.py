"""The network of mlp/*.slang on a device: its memory, its kernels, what it is to learn.

    network = Network(device, np.float16, "adam", seed=0)
    network.step(points)        one launch for the gradients, one for the parameters; the largest loss
    network.evaluate(points)    what the four functions are for it, shape (n, 4)

All that learns is Slang; this file fills buffers and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import slangrad

FOLDER = Path(__file__).parent / "mlp"
LAYERS = ((4, 16), (16, 4))
PARAMETERS = sum((inputs + 1) * outputs for inputs, outputs in LAYERS)
STATE_BYTES = 12  # of AdamState
ADJUST = {"adam": "adjustParametersAdam", "gd": "adjustParameters"}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Target:
    """One of the functions to learn; `formula` for the terminal, `tex` for the picture."""

    formula: str
    tex: str
    values: Callable[[Array, Array], Array]


# fmt: off
TARGETS = (
    Target("(x + y) / (1 + y²)", r"$(x + y)\,/\,(1 + y^2)$", lambda x, y: (x + y) / (1 + y * y)),
    Target("2x + y",             r"$2x + y$",                lambda x, y: 2 * x + y),
    Target("x²/2 + 1.2y",        r"$x^2/2 + 1.2\,y$",        lambda x, y: 0.5 * x * x + 1.2 * y),
    Target("x + y²/2",           r"$x + y^2/2$",             lambda x, y: x + 0.5 * y * y),
)
# fmt: on


def targets_at(points: Array) -> Array:
    """The functions' values, shape (n, 4)."""
    x, y = points.astype(np.float64).T
    return np.stack([each.values(x, y) for each in TARGETS], axis=1)


def random_points(random: np.random.Generator, count: int) -> Array:
    """In the unit square."""
    return random.random((count, 2), dtype=np.float32)


def grid_points(side: int) -> Array:
    """The unit square in rows of constant y, both ends included."""
    line = np.linspace(0, 1, side, dtype=np.float32)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def first_parameters(seed: int) -> Array:
    """Weights and biases of each layer, so that values keep their size on the way through."""
    random, parts = np.random.default_rng(seed), []
    for (inputs, outputs), bias in zip(LAYERS, (0.0, 0.5), strict=True):
        parts += [random.normal(0, np.sqrt(2 / inputs), inputs * outputs), np.full(outputs, bias)]
    return np.concatenate(parts)


class Network:
    """Parameters, gradients and kernels. `dtype`, half or float, is the type of all of the network's numbers."""

    def __init__(self, dtype: npt.DTypeLike, optimizer: str, seed: int) -> None:
        self.dtype = np.dtype(dtype)
        defines = {"MLP_FLOAT": "1"} if self.dtype == np.float32 else {}
        self._device = slangrad.create_device(include_paths=[FOLDER], defines=defines)
        self._learn = self._kernel("learnGradient")
        self._adjust = self._kernel(ADJUST[optimizer])
        self._evaluate = self._kernel("evaluate")
        self._parameters = self._buffer(first_parameters(seed).astype(self.dtype))
        self._gradients = self._buffer(np.zeros(PARAMETERS, self.dtype))
        self._layers = self._buffer(np.array(self._addresses(), np.uint64))
        self._loss = self._buffer(np.zeros(1, np.uint32))
        self._inputs = self._buffer(np.zeros((1, 2), np.float32))
        self._updated: Mapping[str, Any] = {
            "params": self._parameters,
            "gradients": self._gradients,
            "count": PARAMETERS,
        }
        if optimizer == "adam":
            states = self._buffer(np.zeros(PARAMETERS * STATE_BYTES, np.uint8))
            self._updated = {**self._updated, "states": states}

    def _kernel(self, name: str) -> Any:
        return self._device.create_compute_kernel(self._device.load_program("kernels", [name]))

    def _buffer(self, data: Array) -> Any:
        return self._device.create_buffer(data=data)

    def _addresses(self) -> list[int]:
        """weights, weightsGrad, biases, biasesGrad of each layer: the fields of MyNetwork."""
        found, at = [], 0
        for inputs, outputs in LAYERS:
            for size in (inputs * outputs, outputs):
                found += [each.device_address + at for each in (self._parameters, self._gradients)]
                at += size * self.dtype.itemsize
        return found

    def step(self, points: Array) -> float:
        """One step along the gradient of the sum of the points' losses; the largest of these before it."""
        self._loss.clear()
        arguments = {"network": self._layers, "lossBuffer": self._loss}
        self._launch(self._learn, points, arguments)
        self._adjust.dispatch([PARAMETERS, 1, 1], **self._updated)
        return float(self._loss.to_numpy().view(np.float32)[0])

    def evaluate(self, points: Array) -> Array:
        results = self._buffer(np.zeros((len(points), 4), np.float32))
        self._launch(self._evaluate, points, {"network": self._layers, "results": results})
        found: Array = results.to_numpy().view(np.float32).reshape(-1, 4)
        return found

    def _launch(self, kernel: Any, points: Array, arguments: Mapping[str, Any]) -> None:
        if self._inputs.size != points.nbytes:
            self._inputs = self._buffer(points)
        else:
            self._inputs.copy_from_numpy(points)
        kernel.dispatch([len(points), 1, 1], inputs=self._inputs, count=len(points), **arguments)
