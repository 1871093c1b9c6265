"""The network of examples/mlp on a device: its memory, its kernels, and its model in NumPy.

    net = Network(np.float16, seed=0)
    net.learn(points)        adds to net.gradients, returns the largest loss
    net.adjust()             one step of plain gradient descent; net.adjust("adam")

The model computes in float64 what the kernels compute in their own precision.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import Program
from slangrad.ir.layout import layout_of
from slangrad.pipeline import CPU, CompiledKernel, compile_kernel
from slangrad.runtime.cpu import CpuDevice

Array = npt.NDArray[np.floating]
FOLDER = Path(__file__).parent.parent.parent / "examples" / "mlp"
SIZES = ((4, 16), (16, 4))
LEAK = 0.01


@cache
def kernel(name: str, dtype: type, target: str = CPU, options: Options | None = None) -> CompiledKernel:
    options = options or Options.from_environment()
    program = Program(options, [FOLDER], {"MLP_FLOAT": "1"} if dtype is np.float32 else {})
    text = (FOLDER / "kernels.slang").read_text(encoding="utf-8")
    return compile_kernel(program, SourceFile("kernels", text), name, options, target)


def launch(compiled: CompiledKernel, threads: int, **values: object) -> None:
    """Arrays are passed by their address."""
    block, data = compiled.arguments, bytearray(layout_of(compiled.arguments).size)
    for (name, _), offset in zip(block.fields, layout_of(block).offsets, strict=True):
        value = values[name]
        code = "Q" if isinstance(value, np.ndarray) else "I"
        number = value.ctypes.data if isinstance(value, np.ndarray) else value
        struct.pack_into(code, data, offset, number)
    CpuDevice().launch(compiled.kernel, data, (-(-threads // 256) * 256, 1, 1))


class Network:
    """Parameters and gradients: for each layer its weights, then its biases."""

    def __init__(self, dtype: type, seed: int = 0, target: str = CPU, options: Options | None = None) -> None:
        self.dtype, self.target, self.options = dtype, target, options
        count = sum((inputs + 1) * outputs for inputs, outputs in SIZES)
        self.parameters = np.random.default_rng(seed).uniform(-1, 1, count).astype(dtype)
        self.gradients = np.zeros(count, dtype)
        self.states = np.zeros(count, np.dtype([("mean", "f4"), ("variance", "f4"), ("iteration", "i4")]))
        self.layers = np.array(self._addresses(), np.uint64)

    def _addresses(self) -> list[int]:
        """weights, weightsGrad, biases, biasesGrad of each layer."""
        found, at = [], 0
        for inputs, outputs in SIZES:
            for size in (inputs * outputs, outputs):
                found += [each[at:].ctypes.data for each in (self.parameters, self.gradients)]
                at += size
        return found

    def learn(self, points: Array) -> float:
        """Add to the gradients for all points; the largest loss."""
        largest = np.zeros(1, np.uint32)
        inputs = np.ascontiguousarray(points, np.float32)
        compiled = kernel("learnGradient", self.dtype, self.target, self.options)
        arguments = {"network": self.layers, "lossBuffer": largest, "inputs": inputs, "count": len(points)}
        launch(compiled, len(points), **arguments)
        return float(largest.view(np.float32)[0])

    def adjust(self, optimizer: str = "descent") -> None:
        name = {"descent": "adjustParameters", "adam": "adjustParametersAdam"}[optimizer]
        compiled = kernel(name, self.dtype, self.target, self.options)
        count = len(self.parameters)
        arguments = {"params": self.parameters, "gradients": self.gradients, "count": count}
        launch(compiled, count, states=self.states, **arguments)


# --- The model ----------------------------------------------------------------------------------------


def truth(points: Array) -> Array:
    x, y = points.T
    return np.stack([(x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y], axis=1)


def split(parameters: Array) -> list[tuple[Array, Array]]:
    """Weights and biases of each layer."""
    found, at = [], 0
    for inputs, outputs in SIZES:
        weights = parameters[at : at + inputs * outputs].reshape(outputs, inputs)
        at += inputs * outputs
        found.append((weights, parameters[at : at + outputs]))
        at += outputs
    return found


def losses_and_gradients(parameters: Array, points: Array) -> tuple[Array, Array]:
    """The loss of each point, and the gradients of their sum in the order of the parameters."""
    layers = split(parameters.astype(np.float64))
    x, y = points.astype(np.float64).T
    values: list[Array] = [np.stack([x, y, x * x, y * y], axis=1)]
    slopes: list[Array] = []
    for weights, biases in layers:
        z = values[-1] @ weights.T + biases
        slopes.append(np.where(z < 0, LEAK, 1.0))
        values.append(z * slopes[-1])
    difference = values[-1] - truth(points.astype(np.float64))
    return (difference**2).sum(axis=1), _backward(layers, values, slopes, 2 * difference)


def _backward(
    layers: Sequence[tuple[Array, Array]], values: list[Array], slopes: list[Array], d: Array
) -> Array:
    parts: list[Array] = []
    for (weights, _), value, slope in zip(layers[::-1], values[-2::-1], slopes[::-1], strict=True):
        d = d * slope
        parts = [(d.T @ value).ravel(), d.sum(axis=0), *parts]
        d = d @ weights
    return np.concatenate(parts)
