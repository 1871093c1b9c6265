"""Copies of a value have the same bits on all workers, though each may measure, lay out and load something else."""

from __future__ import annotations

import sys
from threading import local
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.lowering.choose import SLANG
from slangrad.graph.lowering.library import NUMPY
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.stages import pipeline
from tests.graph.workers.threads import run

SIDE, ROWS = 256, 8
R = np.random.default_rng(3)
X, Y = R.normal(size=(2, ROWS, SIDE))
HERE = local()  # the rank of a thread


def deep(p: Any, x: Any, y: Any) -> Any:
    """Each layer has a product of parameters alone, which all workers compute."""
    for w in p:
        x = np.tanh(x @ w)
    return ((x - y) ** 2).mean() + sum(np.tanh(w @ w.T).mean() for w in p)


def trained(mesh: Mesh, order: str = "C") -> tuple[list[list[str]], list[Any]]:
    """The steps of each plan of a worker, and the parameters that it holds after two steps."""
    HERE.rank = mesh.rank
    p = [np.linspace(-0.1, 0.1, SIDE * SIDE).reshape(SIDE, SIDE) * k for k in (1.0, 2.0)]
    step = graph.train(deep, spy.optim.Adam(p, lr=0.01), mesh=mesh)
    x, y = (np.split(each, mesh.sizes["data"])[mesh.coordinates["data"]] for each in (X, Y))
    for _ in range(2):
        step(np.array(x, order=order), y)
    (planned,) = step._plans._plans.values()
    plans = [planned.plan] if planned._staged is None else list(planned._staged.plans.values())
    steps = [[getattr(each, "library", type(each).__name__) for each in plan.steps] for plan in plans]
    return steps, [each.to_numpy() for each in step._held.tensors]


def assert_equal(one: Any, other: Any) -> None:
    (steps, held), (others, copies) = one, other
    assert steps == others
    for a, b in zip(held, copies, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("sizes", [{"data": 2}, {"data": 2, "stages": 2}])
def test_workers_take_the_library_of_the_first(
    sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = sizes.get("stages", 1)

    def chooser(*_: object) -> Any:
        is_first = HERE.rank < stages
        return lambda *_: NUMPY if is_first else SLANG

    monkeypatch.setattr(sys.modules["slangrad.graph.train"], "chooser", chooser)
    monkeypatch.setattr(pipeline, "chooser", chooser)
    found = run(sizes, trained)
    assert NUMPY in [step for steps, _ in found for plan in steps for step in plan]
    for first, second in zip(found[:stages], found[stages:], strict=True):
        assert_equal(first, second)


def test_rows_may_lie_in_another_order() -> None:
    whole = run({"data": 2}, trained)
    for found in run({"data": 2}, lambda mesh: trained(mesh, "CF"[mesh.rank])):
        assert_equal(found, whole[0])
