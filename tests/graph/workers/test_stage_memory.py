"""Stages within a limit of memory: values of forward sweeps are computed again, and packed weights are kept for a step."""

from __future__ import annotations

from copy import copy
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.errors import MemoryLimitError
from slangrad.graph.ir.node import new_input
from slangrad.graph.lowering.choose import by_slang
from slangrad.graph.lowering.steps import KernelStep
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.simulation.stage_times import StagesTimeline
from slangrad.graph.workers.simulation.timeline import bytes_text, time_text
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
    assert isinstance(found, StagesTimeline)
    assert found.peak <= limit


def with_loops(p: Any, x: Any, y: Any) -> Any:
    for w in p:
        x, _ = graph.scan(lambda h, i, w=w: (np.tanh(h @ w), i), x, np.arange(2.0))  # type: ignore[misc]
        x = np.tanh(x @ w)
    return ((x - y) ** 2).mean()


def test_pieces_have_room_beside_the_loops_of_others() -> None:
    """Bodies of loops keep memory, in the forward and the backward sweep of a stage."""

    def planned(memory: int | None) -> StagesTimeline:
        step = graph.train(with_loops, spy.optim.SGD(square()[:4], lr=0.1), memory, microbatches=1)
        found = graph.simulate(step, X, Y, graph.cluster(stages=2))
        assert isinstance(found, StagesTimeline)
        return found

    with pytest.raises(MemoryLimitError) as found:
        planned(1000)
    least, most = found.value.least, planned(None).peak
    assert least < most
    for limit in (least, (least + most) // 2):
        assert planned(limit).peak <= limit
    with pytest.raises(MemoryLimitError) as found:
        planned(least - 1)
    assert found.value.least == least


def test_plans_of_equal_text_differ_by_their_inputs() -> None:
    """By those that are fixed, and by those whose memory results take."""
    step = step_of(deep, square(), None)
    step(X, Y)
    (planned,) = step._plans._plans.values()
    staged = planned._staged
    graphs = [
        each for key, each in staged.graphs.items() if key.part == MICROBATCH and staged.plans[key].copies
    ]
    assert graphs
    for graph_of_piece in graphs:
        others = [copy(graph_of_piece) for _ in range(2)]
        for other in others:
            vars(other).pop("key", None)
        others[0].fixed, others[1].places = [], {}
        assert len({other.text for other in (graph_of_piece, *others)}) == 1
        one, free, apart = map(staged._others.plan, (graph_of_piece, *others))
        assert one is staged._others.plan(graph_of_piece)
        assert one.copies
        assert not free.copies
        assert one.memory < apart.memory  # sums of gradients have memory of their own


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
    copies = [each for plan in plans.values() for each in plan.copies]
    assert len(copies) >= 5  # of all weights but the first, whose input has no gradient
    names = {each.name for each in copies}
    for plan in plans.values():
        for each in plan.steps:
            if isinstance(each, KernelStep) and each.name in names:
                read = {part.holder for part in each.reads.values()}
                assert read.isdisjoint(plan.inputs)
    assert (
        planned._staged.fitted(0).needed
        >= sum(plan.copied_bytes for plan in plans.values())
        >= 5 * 16 * 16 * 8
    )


def test_copies_of_weights_are_shown_and_timed() -> None:
    """Once a step: before the first of four micro-batches."""
    step, arrays = step_of(deep, square(), None), (X, Y)
    shown = step.explain(*arrays)
    plan = shown.plan
    assert plan.copies
    assert (
        f"--- {len(plan.copies)} copies of weights in another order, once a step: {plan.copied_bytes} bytes"
        in str(shown)
    )
    assert all(each.text in str(shown) and escape(each.text) in shown._repr_html_() for each in plan.copies)
    times = plan.timed([np.zeros(node.shape, node.dtype) for node in plan.inputs])
    assert len(times) == len(plan.copies) + len(plan.steps)
    assert min(times[: len(plan.copies)]) > 0
    for measured in (False, True):
        found = graph.simulate(step, *arrays, graph.cluster(data=1), measured=measured)
        assert isinstance(found, StagesTimeline)
        (stage,) = found.stages
        assert stage.copied == plan.copied_bytes
        assert (
            sum(each.seconds for each in found.events if each.name == "copies of weights")
            == stage.copying
            > 0
        )
        assert [each.name for each in found.events].count("copies of weights") == 1
        assert f"{bytes_text(stage.copied)} of weights copied once in {time_text(stage.copying)}" in str(
            found
        )


def test_copies_that_were_timed_are_made_again() -> None:
    """Numbers of a measurement are none of a step."""
    w = new_input((64, 64), np.dtype(float))
    x = new_input((8, 64), np.dtype(float))
    plan = Plan(
        [(Array(x) @ Array(w).T).node], [x, w], spy.default_device(), PlanOptions(fixed=[w], choose=by_slang)
    )
    assert plan.copies
    a, b = np.ones((8, 64)), np.eye(64)
    plan.run([a, b])
    plan.timed([a, 3 * b])
    np.testing.assert_array_equal(plan.run([a, b])[0].to_numpy(), a)
