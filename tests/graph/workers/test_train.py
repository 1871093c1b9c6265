"""Many workers make the steps of one worker: data parallel, cut states and parameters, tensor parallel, and all at once.

The workers are threads, so that all plans are those of processes; test_processes.py runs some with gloo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.sharding import buckets
from slangrad.optim import optimizers
from tests.graph.workers.threads import run

ROWS, STEPS = 16, 3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, 12)), RNG.integers(0, 8, ROWS)


def parameters() -> dict[str, Any]:
    r = np.random.default_rng(1)
    shapes = {"w1": (12, 16), "b1": (16,), "w2": (16, 8), "b2": (8,)}
    return {name: r.normal(size=shape) * 0.3 for name, shape in shapes.items()}


def cross_entropy(z: Any, y: Any) -> Any:
    z = z - z.max(1, keepdims=True)
    return (np.log(np.exp(z).sum(1)) - np.take_along_axis(z, y[:, None], 1)[:, 0]).mean()


def mlp(p: Any, x: Any, y: Any) -> Any:
    return cross_entropy(np.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], y)


def by_columns(p: Any, x: Any, y: Any) -> Any:
    w1, w2 = graph.shard(p["w1"], None, "model"), graph.shard(p["w2"], "model", None)
    return mlp({**p, "w1": w1, "w2": w2}, x, y)


def by_classes(p: Any, x: Any, y: Any) -> Any:
    """Each worker has the scores of some classes; the label of a row may be a class of another worker."""
    return mlp({**p, "w2": graph.shard(p["w2"], None, "model")}, x, y)


def normalized(p: Any, x: Any, y: Any) -> Any:
    """Mean and variance are those of all rows."""
    h = x @ p["w1"]
    h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5) + p["b1"]
    return cross_entropy(np.tanh(h) @ p["w2"] + p["b2"], y)


def dropped(p: Any, x: Any, y: Any) -> Any:
    """Each row drops the same numbers as with one worker."""
    h = graph.random.dropout(graph.random.key(3), np.tanh(x @ p["w1"] + p["b1"]), 0.25)
    return cross_entropy(h @ p["w2"] + p["b2"], y)


def summed(p: Any, x: Any, y: Any) -> Any:
    """A sum over rows, no mean; a gather, a largest and a scatter."""
    h = p["w1"][y] @ p["w2"] + p["b2"]
    return (x @ p["w1"]).max(0).sum() + (h * h).sum() + p["b1"].sum()


@dataclass(frozen=True)
class Case:
    loss: Callable[..., Any]
    sizes: Mapping[str, int]
    partition: str | None = None
    batch: tuple[str, ...] | None = None
    held: tuple[tuple[int, ...], ...] = ((12, 16), (16,), (16, 8), (8,))


HALVES = ((6, 16), (8,), (8, 8), (4,))
CASES = {
    "data": Case(mlp, {"data": 2}),
    "data, 4": Case(mlp, {"data": 4}),
    "states": Case(mlp, {"data": 2}, "states"),
    "parameters": Case(mlp, {"data": 2}, "parameters", held=HALVES),
    "model": Case(by_columns, {"model": 4}, batch=(), held=((12, 4), (16,), (4, 8), (8,))),
    "data and model": Case(by_columns, {"data": 2, "model": 2}, held=((12, 8), (16,), (8, 8), (8,))),
    "states and model": Case(
        by_columns, {"data": 2, "model": 2}, "states", held=((12, 8), (16,), (8, 8), (8,))
    ),
    "parameters and model": Case(
        by_columns, {"data": 2, "model": 2}, "parameters", held=((6, 8), (8,), (4, 8), (4,))
    ),
    "classes": Case(by_classes, {"model": 2}, batch=(), held=((12, 16), (16,), (16, 4), (8,))),
    "two axes of rows": Case(mlp, {"nodes": 2, "gpus": 2}, "parameters", held=((3, 16), (4,), (4, 8), (2,))),
    "statistics of all rows": Case(normalized, {"data": 2}),
    "dropout": Case(dropped, {"data": 4}),
    "sums, gathers": Case(summed, {"data": 2}),
    "one axis of one worker": Case(by_columns, {"data": 2, "model": 1}),
}


def rows_of(mesh: Mesh, *arrays: Any) -> list[Any]:
    """The part of a batch that a worker passes."""
    count = int(np.prod([mesh.sizes[name] for name in mesh.batch], dtype=int))
    size = ROWS // count
    start = mesh.place(mesh.batch) * size
    return [each[start : start + size] for each in arrays]


def numbers_of(array: Any) -> Any:
    """NumPy's array of a parameter, flat."""
    return np.ravel(array.to_numpy() if isinstance(array, spy.Tensor) else array)


def trained(loss: Any, mesh: Mesh | None = None, partition: str | None = None) -> tuple[list[Any], Any, Any]:
    """The losses, the parameters after them, and the step."""
    p = parameters()
    optimizer = spy.optim.Adam(p, lr=1e-2)
    if mesh is None:
        step, batch = graph.train(loss, optimizer), [X, Y]
    else:
        step, batch = graph.train(loss, optimizer, mesh=mesh, partition=partition), rows_of(mesh, X, Y)
    losses = [step(*batch) for _ in range(STEPS)]
    made = step.parameters
    assert all(type(each) is type(p[name]) for name, each in made.items())  # arrays for arrays
    assert all(each.shape == p[name].shape for name, each in made.items())
    return losses, {name: np.array(each) for name, each in made.items()}, step


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_workers_make_the_steps_of_one(case: Case) -> None:
    losses, after, _ = trained(case.loss)

    def worker(mesh: Mesh) -> Any:
        found, made, step = trained(case.loss, mesh, case.partition)
        return found, made, tuple(tuple(each.shape) for each in step._held.tensors)

    for found, made, held in run(case.sizes, worker, case.batch):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        assert held == case.held
        for name, each in after.items():
            np.testing.assert_allclose(made[name], each, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("partition", ["states", "parameters"])
def test_state_is_made_in_parts(partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a parameter which is cut by hand is cut further; no worker ever has memory for more."""
    made: list[int] = []
    zeros = spy.Tensor.zeros

    def counted(device: Any, shape: Any, *dtype: Any) -> Any:
        made.append(int(np.prod(shape)))
        return zeros(device, shape, *dtype)

    def worker(mesh: Mesh) -> Any:
        _, _, step = trained(by_columns, mesh, partition)
        return [tuple(each["mean"].shape) for each in step.optimizer.state]

    monkeypatch.setattr(optimizers.Tensor, "zeros", counted)
    shapes = [(6, 8), (8,), (4, 8), (4,)]
    assert run({"data": 2, "model": 2}, worker) == [shapes] * 4
    of_state = [n for n in made if n in (12 * 16, 12 * 8, 6 * 8)]
    assert of_state == [6 * 8] * 8  # two slots on four workers


def test_gradients_are_summed_in_one_exchange() -> None:
    def worker(mesh: Mesh) -> Any:
        trained(mlp, mesh)
        return Counter(name for name, _ in mesh.links["data"].log)

    assert run({"data": 2}, worker) == [{"all_reduce": STEPS}] * 2


def test_bytes_between_workers_that_cut_columns() -> None:
    """One sum of the activations for each sweep, as in Megatron's blocks; no weight moves."""

    def worker(mesh: Mesh) -> Any:
        trained(by_columns, mesh)
        return Counter(mesh.links["model"].log[: len(mesh.links["model"].log) // STEPS])

    (found, *_) = run({"model": 2}, worker, ())
    assert found[("all_reduce", ROWS * 8 * 8)] == 1


def deep(ps: Any, x: Any, y: Any) -> Any:
    for p in ps:
        x = x + np.tanh(x @ p["w"] + p["b"])
    return ((x - y) ** 2).mean()


@pytest.mark.parametrize("partition", [None, "states", "parameters"])
def test_steps_within_a_limit_of_memory(partition: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits in less memory, in which collectives hardly overlap and gathers run twice."""
    size, x = 64, RNG.normal(size=(8, 64))
    monkeypatch.setattr(buckets, "BYTES", size * size * 8)

    def worker(mesh: Mesh, memory: int | None) -> tuple[Any, Any]:
        ps = [{"w": np.eye(size) * 0.3, "b": np.zeros(size)} for _ in range(8)]
        step = graph.train(deep, spy.optim.Adam(ps, lr=1e-2), memory, mesh=mesh, partition=partition)
        losses = [step(x, x) for _ in range(STEPS)]
        return losses, step.explain(x, x).plan

    ((losses, plan), _) = run({"data": 2}, lambda mesh: worker(mesh, None))
    for found, limited in run({"data": 2}, lambda mesh: worker(mesh, plan.peak * 6 // 10)):
        assert found == losses
        assert limited.peak <= plan.peak * 6 // 10
        assert bool(limited.again) == (partition == "parameters")


@pytest.mark.parametrize("partition", ["states", "parameters"])
def test_a_limit_of_memory_that_nothing_meets_is_refused(partition: str) -> None:
    """Arrays wait for the ends of collectives, also where no kernel needs them: to drop them is no help there."""
    step = graph.train(
        mlp, spy.optim.Adam(parameters()), 3000, mesh=Mesh({"data": 2}, 0, ("data",)), partition=partition
    )
    with pytest.raises(graph.GraphError, match=r"E1047.*3000 bytes"):
        step.explain(X[:8], Y[:8])


@pytest.mark.parametrize("partition", ["states", "parameters"])
@pytest.mark.parametrize("microbatches", [1, 2])
def test_parameters_of_no_dimensions(partition: str, microbatches: int) -> None:
    """They are stored as arrays of one number, and never cut."""

    def scaled(p: Any, x: Any) -> Any:
        return ((x @ p["w"]) ** 2).mean() * p["scale"]

    def worker(mesh: Mesh | None) -> list[Any]:
        optimizer = spy.optim.Adam({"w": np.eye(12), "scale": np.array(0.5)}, lr=0.1)
        given: Any = (
            {} if mesh is None else {"mesh": mesh, "partition": partition, "microbatches": microbatches}
        )
        step = graph.train(scaled, optimizer, **given)
        x = X if mesh is None else rows_of(mesh, X)[0]
        return [*(step(x) for _ in range(STEPS)), *numbers_of(step.parameters["scale"])]

    for found in run({"data": 2}, worker):
        np.testing.assert_allclose(found, worker(None), rtol=1e-12)
