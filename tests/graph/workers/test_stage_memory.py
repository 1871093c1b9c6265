"""Stages within a limit of memory: values of forward sweeps are computed again, and packed weights are kept for a step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.errors import MemoryLimitError
from slangrad.graph.lowering.steps import KernelStep
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.simulation.stage_times import StagesSimulation
from slangrad.graph.workers.stages.layers import divided
from slangrad.graph.workers.stages.pieces import MICROBATCH
from tests.graph.workers.test_pipeline import transformer, transformer_loss
from tests.graph.workers.test_stages import drawn
from tests.graph.workers.threads import run

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(2, 64, 16))
IDS, NEXT = RNG.integers(0, 20, (2, 64, 6))


def deep(p: Any, x: Any, y: Any) -> Any:
    for w in p:
        x = np.tanh(x @ w)
    return ((x - y) ** 2).mean()


def square() -> Any:
    r = np.random.default_rng(1)
    return [r.normal(size=(16, 16)) * 0.3 for _ in range(6)]


def uneven() -> Any:
    r = np.random.default_rng(1)
    widths = [16, 16, 64, 8, 16, 32, 16]
    return [r.normal(size=sizes) * 0.3 for sizes in pairwise(widths)]


def step_of(loss: Any, p: Any, memory: int | None, **known: Any) -> Any:
    return graph.train(loss, spy.optim.SGD(p, lr=0.1, momentum=0.9), memory, microbatches=4, **known)


def least_for(loss: Any, p: Any, batch: Any, sizes: Any) -> int:
    """The bytes that an error names, of a limit that is too small by far."""
    with pytest.raises(MemoryLimitError) as found:
        graph.simulate(step_of(loss, p, 1000), *batch, graph.cluster(**sizes))
    assert f"memory={found.value.least} would do" in str(found.value.note)
    return found.value.least


CASES: dict[str, Any] = {
    "layers": (deep, square, (X, Y), {"stages": 2}),
    "three stages": (deep, uneven, (X, Y), {"stages": 3}),
    "micro-batches alone": (deep, square, (X, Y), {"data": 1}),
    "rows on two workers": (deep, square, (X, Y), {"data": 2, "stages": 2}),
    "transformer": (transformer_loss, transformer, (IDS, NEXT), {"stages": 2}),
}


DEEP = ("layers", "rows on two workers", "transformer")
MARKED = [
    pytest.param(*case, id=name, marks=[pytest.mark.deep] * (name in DEEP)) for name, case in CASES.items()
]


@pytest.mark.parametrize(("loss", "p", "batch", "sizes"), MARKED)
def test_stages_compute_again_what_does_not_fit(loss: Any, p: Any, batch: Any, sizes: Any) -> None:
    """In the memory that the error names. Losses are those of one worker, and no worker needs more."""
    alone = graph.train(loss, spy.optim.SGD(p(), lr=0.1, momentum=0.9))
    losses = [alone(*batch) for _ in range(2)]
    data = sizes.get("data", 1)
    rows = [x[: len(x) // data] for x in batch]
    most = graph.simulate(step_of(loss, p(), None), *rows, graph.cluster(**sizes)).peak
    least = least_for(loss, p(), rows, sizes)
    assert least < 0.9 * most

    def worker(mesh: Mesh) -> Any:
        step = step_of(loss, p(), least, mesh=mesh)
        at = mesh.coordinates.get("data", 0)
        mine = [np.split(x, data)[at] for x in batch]
        found = [step(*mine) for _ in range(2)]
        (planned,) = step._plans._plans.values()
        return found, planned._staged.fitted(mesh.stage)

    for found, fitted in run(sizes, worker):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        assert fitted.needed <= least


PARTS = [
    0.6,
    *(pytest.param(part, marks=pytest.mark.deep) for part in (0.05, 0.15, 0.3, 0.45, 0.7, 0.8, 0.9)),
]


@pytest.mark.parametrize("part", PARTS)
def test_every_limit_from_the_least_on_is_enough(part: float) -> None:
    batch, sizes = (X, Y), {"stages": 3}
    most = graph.simulate(step_of(deep, uneven(), None), *batch, graph.cluster(**sizes)).peak
    least = least_for(deep, uneven(), batch, sizes)
    limit = int(least + part * (most - least))
    found = graph.simulate(step_of(deep, uneven(), limit), *batch, graph.cluster(**sizes))
    assert isinstance(found, StagesSimulation)
    assert found.peak <= limit


def test_all_stages_have_the_error_of_one() -> None:
    """A worker whose own stage fits does not wait for others that have ended."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = np.tanh(x @ p["small"])
        return ((np.tanh(np.tanh(h @ p["large"]) @ p["last"]) - y) ** 2).mean()

    p = {"small": np.eye(16), "large": np.ones((16, 512)), "last": np.ones((512, 16))}
    errors = []

    def worker(mesh: Mesh) -> None:
        with pytest.raises(MemoryLimitError) as found:
            step_of(loss, p, 150_000, mesh=mesh).explain(X, Y)
        errors.append(found.value)

    run({"stages": 2}, worker)
    assert len({each.least for each in errors}) == 1
    assert all("2 stages do not fit into 150000 bytes" in str(each) for each in errors)


def test_a_tight_stage_costs_the_time_to_compute_again() -> None:
    """By the model: between the step of all values and that with one more forward sweep."""
    line = drawn(4, 8)
    free = divided(line, 2, 4)
    assert free is not None
    for memory in (60.0, 57.0, 54.0):
        tight = divided(line, 2, 4, memory)
        assert tight is not None
        assert free[0] < tight[0] <= 2 * free[0]


@pytest.mark.parametrize("memory", [None, 10_000_000])
def test_weights_are_packed_once_for_a_step(memory: int | None) -> None:
    """A backward sweep reads weights in another order; copies are made anew when a step has changed them."""
    p = square()
    step = step_of(deep, p, memory)
    alone = graph.train(deep, spy.optim.SGD(square(), lr=0.1, momentum=0.9))
    for _ in range(3):
        np.testing.assert_allclose(step(X, Y), alone(X, Y), rtol=1e-12)
    (planned,) = step._plans._plans.values()
    plans = {key: plan for key, plan in planned._staged.plans.items() if key.part == MICROBATCH}
    copies = [each for plan in plans.values() for each in plan._copies]
    assert len(copies) >= 5  # of all weights but the first, whose input has no gradient
    names = {each.name for each in copies}
    for plan in plans.values():
        for each in plan.steps:
            if isinstance(each, KernelStep) and each.name in names:
                read = {part.holder for part in each.reads.values()}
                assert read.isdisjoint(plan.inputs)
