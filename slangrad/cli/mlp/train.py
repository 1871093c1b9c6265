"""Train the network of this folder: Python does memory and launches, Slang computes.

    python train.py                  half, Adam
    python train.py float Descent    another number type, another rule

`slangrad train-mlp` is the same training with a bar, a table and a picture.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import slangrad as spy

Array = npt.NDArray[Any]  # of floats of any width


class Layer(NamedTuple):
    inputs: int
    outputs: int
    first_bias: float


LAYERS = (Layer(4, 16, 0.0), Layer(16, 4, 0.5))  # `Model` in task.slang
NUMBERS = {"half": np.float16, "float": np.float32}
POINTS = {"Adam": 1024, "Descent": 8}  # of a step; Descent steps too far along a sum of many gradients

GOALS: dict[str, Callable[[Array, Array], Array]] = {  # `goals` in task.slang
    "(x + y) / (1 + y²)": lambda x, y: (x + y) / (1 + y * y),
    "2x + y": lambda x, y: 2 * x + y,
    "x²/2 + 1.2y": lambda x, y: 0.5 * x * x + 1.2 * y,
    "x + y²/2": lambda x, y: x + 0.5 * y * y,
}


def goals_at(points: Array) -> Array:
    """The four functions at points of shape (n, 2), in float64: shape (n, 4)."""
    x, y = points.astype(np.float64).T
    return np.stack([goal(x, y) for goal in GOALS.values()], axis=1)


def first_parameters(seed: int) -> Array:
    """The tables of all layers one after the other: a row for each output, its weights and then its bias.

    Weights are drawn so that values keep their size on the way through.
    """
    random, tables = np.random.default_rng(seed), []
    for inputs, outputs, bias in LAYERS:
        weights = random.normal(0, np.sqrt(2 / inputs), (outputs, inputs))
        tables.append(np.column_stack([weights, np.full(outputs, bias)]).ravel())
    return np.concatenate(tables)


class NetworkKernels:
    """The kernels for one number type, compiled together."""

    def __init__(self, number: str = "half", **device_settings: Any) -> None:  # of create_device
        self.dtype = np.dtype(NUMBERS[number])
        defines = {"NUMBER": number}
        self.device = spy.create_device(
            include_paths=[Path(__file__).parent], defines=defines, **device_settings
        )
        self.module = self.device.load_module("kernels")
        learn, ask = self._program("learn"), self._program("ask")
        adjust = {rule: self._program("adjust", rule) for rule in POINTS}
        spy.Module(self.module).compile_all([learn, ask, *adjust.values()])

        kernel = self.device.create_compute_kernel
        self.learn, self.ask = kernel(learn), kernel(ask)
        self.adjust = {rule: kernel(program) for rule, program in adjust.items()}

    def _program(self, name: str, *types: str) -> Any:  # a program of slangrad
        entry = self.module.entry_point(name)
        if types:
            entry = entry.specialize([spy.SpecializationArg.from_type(t) for t in types])
        return self.device.link_program([self.module], [entry])

    def size_of(self, name: str) -> int:
        """The bytes of a struct in memory."""
        layout = self.module.layout
        layout_of_type = layout.find_type_by_name(name)
        assert layout_of_type is not None, name
        return layout.get_type_layout(layout_of_type).stride


class Training:
    """One network: its parameters, their gradients, and the state of its rule for each."""

    def __init__(self, kernels: NetworkKernels, rule: str = "Adam", seed: int = 0) -> None:
        self.kernels, self.rule = kernels, rule
        first = first_parameters(seed).astype(kernels.dtype)
        self.count = len(first)
        self.values, self.gradients = self._buffer(first), self._buffer(np.zeros_like(first))
        self.memory = self._buffer(np.zeros(max(1, self.count * kernels.size_of(rule)), np.uint8))
        self.worst = self._buffer(np.zeros(1, np.uint32))
        self.points = self._buffer(np.zeros((1, 2), np.float32))

    def step(self, points: Array) -> float:
        """Learn from points of shape (n, 2), float32; the largest loss among them before the step."""
        worst = self.learn(points)
        self.adjust()
        return worst

    def learn(self, points: Array) -> float:
        """Only add to the gradients."""
        self.worst.clear()
        self._launch(self.kernels.learn, points, worst=self.worst)
        return float(self.worst.to_numpy().view(np.float32)[0])

    def adjust(self) -> None:
        """Only move the parameters."""
        kernel = self.kernels.adjust[self.rule]
        kernel.dispatch([self.count, 1, 1], parameters=self._parameters, memory=self.memory)

    def predict(self, points: Array) -> Array:
        """The network's four values at points of shape (n, 2), float32: shape (n, 4)."""
        answers = self._buffer(np.zeros((len(points), len(GOALS)), np.float32))
        self._launch(self.kernels.ask, points, answers=answers)
        values: Array = answers.to_numpy().view(np.float32).reshape(len(points), -1)
        return values

    @property
    def _parameters(self) -> dict[str, Any]:  # values of any type
        return {"values": self.values, "gradients": self.gradients}

    def _buffer(self, data: Array) -> Any:  # a buffer of slangrad
        return self.kernels.device.create_buffer(data=data)

    def _launch(self, kernel: Any, points: Array, **others: Any) -> None:  # parameters of any type
        if self.points.size != points.nbytes:
            self.points = self._buffer(points)
        self.points.copy_from_numpy(points)
        count = len(points)
        kernel.dispatch(
            [count, 1, 1], parameters=self._parameters, points=self.points, pointCount=count, **others
        )


def main(number: str = "half", rule: str = "Adam", *, steps: int = 2000) -> None:
    training, random = Training(NetworkKernels(number), rule), np.random.default_rng(1)
    for step in range(1, steps + 1):
        worst = training.step(random.random((POINTS[rule], 2), dtype=np.float32))
        if step % (steps // 10) == 0:
            print(f"step {step:5}   largest loss {worst:.2e}")
    points = random.random((1000, 2), dtype=np.float32)
    errors = np.abs(training.predict(points) - goals_at(points)).mean(axis=0)
    for name, error in zip(GOALS, errors, strict=True):
        print(f"{name:20} mean error {error:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
