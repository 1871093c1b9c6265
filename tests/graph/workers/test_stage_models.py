"""Images and sequences over four stages: convolutions, statistics of a batch, and loops make the steps of one worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.trees import all_leaves
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.test_train import cross_entropy
from tests.graph.workers.threads import run

ROWS, STEPS = 8, 2
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 5, ROWS)
IMAGES = RNG.normal(size=(ROWS, 3, 9, 7))
SEQUENCES = RNG.normal(size=(ROWS, 5, 6))


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    r = np.random.default_rng(seed)
    return [r.normal(size=shape) * 0.4 for shape in shapes]


def kernels() -> Any:
    w = drawn(1, (4, 3, 3, 3), (4, 4, 3, 3), (6, 4, 2, 3), (6, 6, 1, 1))
    scale, shift = (drawn(seed, (4,), (4,), (6,), (6,)) for seed in (2, 3))
    return {"w": w, "scale": scale, "shift": shift, "o": drawn(4, (6, 5))[0]}


def batch_norm(h: Any, scale: Any, shift: Any) -> Any:
    axes = (0, 2, 3)
    h = (h - h.mean(axes, keepdims=True)) / np.sqrt(h.var(axes, keepdims=True) + 1e-5)
    return h * (1 + scale.reshape(-1, 1, 1)) + shift.reshape(-1, 1, 1)


def row_norm(h: Any, scale: Any, shift: Any) -> Any:
    axes = (1, 2, 3)
    h = (h - h.mean(axes, keepdims=True)) / np.sqrt(h.var(axes, keepdims=True) + 1e-5)
    return h * (1 + scale.reshape(-1, 1, 1)) + shift.reshape(-1, 1, 1)


def convolved(norm: Callable[..., Any]) -> Callable[..., Any]:
    def loss(p: Any, x: Any, y: Any) -> Any:
        for i, (w, scale, shift) in enumerate(zip(p["w"], p["scale"], p["shift"], strict=True)):
            h = graph.conv2d(x, w, stride=1 + (i == 2), padding=i % 2)
            h = np.tanh(norm(h, scale, shift))
            x = h + x if h.shape == x.shape else h
        return cross_entropy(x.mean((2, 3)) @ p["o"], y)

    return loss


def cells() -> Any:
    x, h = drawn(5, (6, 8), (8, 8), (8, 8), (8, 8)), drawn(6, *[(8, 8)] * 4)
    return {"x": x, "h": h, "o": drawn(7, (8, 5))[0]}


def recurrent(p: Any, x: Any, y: Any) -> Any:
    """Four layers of a recurrent network."""
    x = np.swapaxes(x, 0, 1)
    for u, w in zip(p["x"], p["h"], strict=True):

        def cell(h: Any, x: Any, w: Any = w) -> Any:
            h = np.tanh(x + h @ w)
            return h, h

        _, x = graph.scan(cell, np.zeros((ROWS, 8)), x @ u)
    return cross_entropy(x[-1] @ p["o"], y)


@dataclass(frozen=True)
class Case:
    loss: Callable[..., Any]
    parameters: Callable[[], Any]
    rows: Any
    microbatches: int
    data: int = 1


CASES = {
    "images, statistics of all rows": Case(convolved(batch_norm), kernels, IMAGES, 1),
    "images, statistics of all rows, 2": Case(convolved(batch_norm), kernels, IMAGES, 1, 2),
    "images": Case(convolved(row_norm), kernels, IMAGES, 4),
    "images, 2": Case(convolved(row_norm), kernels, IMAGES, 2, 2),
    "sequences": Case(recurrent, cells, SEQUENCES, 1),
    "sequences, 2": Case(recurrent, cells, SEQUENCES, 1, 2),
}


def trained(case: Case, mesh: Mesh | None = None) -> tuple[list[Any], list[Any]]:
    optimizer = spy.optim.Adam(case.parameters(), lr=1e-2)
    batch = [case.rows, LABELS]
    if mesh is None:
        step = graph.train(case.loss, optimizer)
    else:
        step = graph.train(case.loss, optimizer, mesh=mesh, microbatches=case.microbatches)
        batch = [np.split(x, case.data)[mesh.coordinates["data"]] for x in batch]
    losses = [step(*batch) for _ in range(STEPS)]
    return losses, [np.array(getattr(x, "to_numpy", lambda x=x: x)()) for x in all_leaves(step.parameters)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_four_stages_make_the_steps_of_one_worker(case: Case) -> None:
    losses, after = trained(case)
    for found, made in run({"data": case.data, "stages": 4}, lambda mesh: trained(case, mesh)):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        for a, b in zip(made, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
