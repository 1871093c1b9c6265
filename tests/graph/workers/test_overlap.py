"""Collectives begin as soon as they can, and end where their results are read: kernels run meanwhile."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import slangrad as spy
from slangrad import graph
from slangrad.graph.lowering.steps import Await, Exchange, KernelStep, ProductStep
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.sharding import buckets

LAYERS, SIZE = 4, 64
MESH = Mesh({"data": 2}, 0, ("data",))  # planned for, not run


def loss(ps: Any, x: Any, y: Any) -> Any:
    for p in ps:
        x = np.tanh(x @ p["w"] + p["b"])
    return ((x - y) ** 2).mean()


def steps_of(partition: str | None = None) -> list[Any]:
    steps: list[Any] = plan_of(partition).steps
    return steps


def plan_of(partition: str | None = None) -> Any:
    ps = [{"w": np.ones((SIZE, SIZE)), "b": np.zeros(SIZE)} for _ in range(LAYERS)]
    step = graph.train(loss, spy.optim.SGD(ps, lr=0.1), mesh=MESH, partition=partition)
    return step.explain(np.ones((8, SIZE)), np.ones((8, SIZE))).plan


def test_sums_run_beside_the_backward_sweep(monkeypatch: Any) -> None:
    monkeypatch.setattr(buckets, "BYTES", SIZE * SIZE * 8 + 1)  # one layer in each
    steps = steps_of()
    begins = [i for i, step in enumerate(steps) if isinstance(step, Exchange)]
    ends = [i for i, step in enumerate(steps) if isinstance(step, Await)]
    assert len(begins) == len(ends) == LAYERS
    assert begins[-1] < ends[0]  # the whole sweep comes before the first wait
    for first, second in pairwise(begins):
        assert any(isinstance(step, KernelStep | ProductStep) for step in steps[first:second])
    assert [steps[i].exchange for i in ends] == [steps[i] for i in begins]
    assert not any(isinstance(step, Exchange) for step in steps[ends[0] :])


def test_gradients_are_written_into_their_buckets(monkeypatch: Any) -> None:
    """No memory and no copies beside the buckets."""
    monkeypatch.setattr(buckets, "BYTES", SIZE * SIZE * 8 + 1)
    plan = plan_of()
    assert not any(isinstance(step, KernelStep) and step.copies for step in plan.steps)
    gradients = LAYERS * (SIZE * SIZE + SIZE) * 8
    assert gradients <= plan.peak < 1.2 * gradients


def test_small_sums_share_a_bucket() -> None:
    (exchange,) = [step for step in steps_of() if isinstance(step, Exchange)]
    assert exchange.parts[-1].layout.shape == (LAYERS * (SIZE * SIZE + SIZE) + 1,)


def test_parameters_are_gathered_ahead_of_their_readers(monkeypatch: Any) -> None:
    monkeypatch.setattr(buckets, "SMALL", SIZE * 8)
    steps = steps_of("parameters")
    waiting, most, layers = 0, 0, 0
    for step in steps:
        if isinstance(step, Exchange) and step.collective.name == "all_gather":
            waiting += 1
        elif isinstance(step, Await) and step.exchange.collective.name == "all_gather":
            waiting -= 1
        layers += isinstance(step, ProductStep) or (isinstance(step, KernelStep) and "product" in step.name)
        most = max(most, waiting) if layers == 0 else most
    assert 1 <= most <= 2  # before the first product


def test_small_gathers_share_a_bucket() -> None:
    """One gather of all parameters, and one exchange of their gradients."""
    exchanges = [step.collective.name for step in steps_of("parameters") if isinstance(step, Exchange)]
    assert exchanges == ["all_gather", "all_reduce", "all_to_all"]


def test_large_gathers_have_buckets_of_their_own(monkeypatch: Any) -> None:
    monkeypatch.setattr(buckets, "SMALL", SIZE * 8)
    exchanges = [step.collective.name for step in steps_of("states") if isinstance(step, Exchange)]
    assert exchanges.count("all_gather") == exchanges.count("all_to_all") == LAYERS + 1
