"""`slangrad train-mlp`: train a small network in Slang to be four functions at once, and draw what it has learned.

    settings   precision, optimizer, steps, points of each step, seed
    result     the loss on the way, and the network's four functions on a grid

The network and its steps are those of the example `mlp/train.py`; this file measures them. Training ends after the
steps or at Ctrl-C; either way there is a result. A loss that is no number is an error.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from types import FrameType

import numpy as np

from slangrad.cli.mlp import train as example
from slangrad.cli.mlp.train import Array, NetworkKernels, Training, goals_at

RULES = {"adam": "Adam", "gd": "Descent"}
POINTS = {name: example.POINTS[rule] for name, rule in RULES.items()}  # of a step
STEPS = 3000
SIDE = 33  # of the grid on which the loss is measured
FINE_SIDE = 84  # of the grid of the result
MEASURED = 100  # times that the loss is measured on the way


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    precision: str = "half"
    optimizer: str = "adam"
    steps: int = STEPS
    points: int = POINTS["adam"]
    seed: int = 0


@dataclass(slots=True)
class TrainingProgress:
    """The result so far. `worst` has the largest loss of each step, `mean` the loss on a grid after some steps."""

    settings: TrainingSettings
    worst: list[float] = field(default_factory=list)
    mean: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        return len(self.worst)

    @property
    def loss(self) -> float:
        return self.mean[-1][1] if self.mean else math.nan

    @property
    def points_per_second(self) -> float:
        return self.steps * self.settings.points / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """`targets` and `learned` are the four functions on a grid: [function, row of y, column of x]."""

    progress: TrainingProgress
    targets: Array
    learned: Array

    @property
    def is_complete(self) -> bool:
        return self.progress.steps == self.progress.settings.steps


def new_network(settings: TrainingSettings) -> Training:
    return Training(NetworkKernels(settings.precision), RULES[settings.optimizer], settings.seed)


def train(
    network: Training, settings: TrainingSettings, show: Callable[[TrainingProgress], None]
) -> TrainingResult:
    """Train until the end or Ctrl-C. `show` is called after each step."""
    progress, random = TrainingProgress(settings), np.random.default_rng(settings.seed + 1)
    interval = max(1, settings.steps // MEASURED)
    with interruption() as interrupted:
        while progress.steps < settings.steps and not interrupted():
            _step(network, progress, random)
            if progress.steps % interval == 0 or progress.steps in (1, settings.steps):
                _measure(network, progress)
            show(progress)
    if progress.steps and progress.mean[-1][0] != progress.steps:
        _measure(network, progress)
    return _result(network, progress)


def grid_points(side: int) -> Array:
    """The unit square in rows of constant y, both ends included."""
    line = np.linspace(0, 1, side, dtype=np.float32)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def _step(network: Training, progress: TrainingProgress, random: np.random.Generator) -> None:
    points = random.random((progress.settings.points, 2), dtype=np.float32)
    start = perf_counter()
    worst = network.step(points)
    progress.seconds += perf_counter() - start
    progress.worst.append(worst)
    if not math.isfinite(worst):
        raise ValueError(_diverged(progress))


def _measure(network: Training, progress: TrainingProgress) -> None:
    points = grid_points(SIDE)
    differences = network.predict(points) - goals_at(points)
    progress.mean.append((progress.steps, float((differences**2).sum(axis=1).mean())))


def _diverged(progress: TrainingProgress) -> str:
    settings = progress.settings
    advice = "--optimizer adam"
    if settings.optimizer == "gd" and settings.points > 1:
        advice = f"fewer --points than {settings.points}, whose gradients are added up, or {advice}"
    if settings.precision == "half":
        advice += ", or --precision float"
    return f"error: the loss is not a number after step {progress.steps}\nnote: try {advice}"


def _result(network: Training, progress: TrainingProgress) -> TrainingResult:
    points = grid_points(FINE_SIDE)
    maps = (
        values.T.reshape(4, FINE_SIDE, FINE_SIDE) for values in (goals_at(points), network.predict(points))
    )
    return TrainingResult(progress, *maps)


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """A context in which the first Ctrl-C waits for the end of the running step; a second one interrupts as
    usual."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
