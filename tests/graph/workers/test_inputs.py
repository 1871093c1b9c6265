"""Meshes, shards and batches that do not fit are one error with the user's line; unusual ones give the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.threads import run

R = np.random.default_rng(0)
X, Y = R.normal(size=(8, 4)), R.normal(size=8)
MESH = Mesh({"data": 2}, 0, ("data",))  # planned for, not run


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((np.tanh(x @ p["w"]) @ p["v"] - y) ** 2).mean()


def parameters() -> dict[str, Any]:
    return {"w": np.linspace(-1, 1, 24).reshape(4, 6), "u": np.ones(3), "v": np.ones(6)}


def with_shard(name: str, *axes: Any) -> Callable[..., Any]:
    return lambda p, x, y: loss(p, x, y) + graph.shard(p[name], *axes).sum()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (with_shard("w", "modell"), "the mesh has no axis 'modell'"),
        (with_shard("w", "data", None, None), "3 names for shape (4, 6)"),
        (with_shard("w", "data", "data"), "'data' cuts two axes"),
        (with_shard("w", 3), "3 is no axis of a mesh"),
        (with_shard("w", (0, 1)), "(0, 1) is no axis of a mesh"),
        (with_shard("u", "data"), "3 is no multiple of 2 workers"),
        (lambda p, x, y: loss(p, x[:6], y), "do not fit"),
    ],
)
def test_errors_name_the_line(function: Any, said: str) -> None:
    step = graph.train(function, spy.optim.SGD(parameters(), lr=0.1), mesh=MESH)
    with pytest.raises(GraphError) as found:
        step.explain(X[:4], Y[:4])
    assert said in str(found.value)
    assert found.value.place is not None
    assert found.value.place.file == __file__


@pytest.mark.parametrize("mesh", [MESH, Mesh({"stages": 2}, 0)])
def test_micro_batches_are_no_axis_of_a_program(mesh: Mesh) -> None:
    def cut(p: Any, x: Any, y: Any) -> Any:
        return loss(p, graph.shard(x * 1.5, "micro-batches"), y)

    step = graph.train(cut, spy.optim.SGD(parameters(), lr=0.1), mesh=mesh, microbatches=2)
    with pytest.raises(GraphError, match=r"test_inputs.py:\d+.*the mesh has no axis 'micro-batches'"):
        step.explain(X[:4], Y[:4])


def test_axes_do_nothing_with_one_worker_and_micro_batches() -> None:
    step = graph.train(with_shard("w", "model"), spy.optim.SGD(parameters(), lr=0.1), microbatches=2)
    whole = graph.train(with_shard("w"), spy.optim.SGD(parameters(), lr=0.1), microbatches=2)
    assert step(X[:4], Y[:4]) == whole(X[:4], Y[:4])


def test_rows_that_are_cut_twice_are_enough() -> None:
    def cut(p: Any, x: Any, y: Any) -> Any:
        return loss(p, graph.shard(x * 1.5, "data"), y)

    mesh = Mesh({"data": 2}, 0, ())
    step = graph.train(cut, spy.optim.SGD(parameters(), lr=0.1), mesh=mesh, microbatches=4)
    with pytest.raises(GraphError, match="4 is no multiple of 2 workers with 4 micro-batches"):
        step.explain(X[:4], Y[:4])


@pytest.mark.parametrize("mesh", [Mesh({"stages": 2}, 0), Mesh({"data": 2, "stages": 2}, 0, ("data",))])
def test_nothing_is_cut_along_stages(mesh: Mesh) -> None:
    step = graph.train(with_shard("w", "stages"), spy.optim.SGD(parameters(), lr=0.1), mesh=mesh)
    with pytest.raises(GraphError, match=r"E1048.*test_inputs.py:\d+.*nothing is cut along 'stages'"):
        step.explain(X[:4], Y[:4])


@pytest.mark.parametrize(
    "make",
    [
        lambda: graph.mesh(), lambda: graph.mesh("a", "b"), lambda: graph.mesh(data=2), lambda: graph.mesh(data=0),
        lambda: graph.mesh(data=1.5), lambda: graph.mesh(data="1"), lambda: graph.mesh("data", data=1),
        lambda: graph.mesh(3), lambda: graph.mesh(""), lambda: graph.mesh("data", batch="x"),
        lambda: graph.mesh("data", batch=3), lambda: graph.mesh(data=True), lambda: graph.mesh("micro-batches"),
        lambda: graph.mesh("data", timeout=-1), lambda: graph.mesh("data", timeout="9"),
        lambda: graph.measure_links("data"),
        lambda: graph.train(loss, spy.optim.SGD(parameters(), lr=1), mesh="data"),
    ],
)  # fmt: skip
def test_meshes_that_do_not_fit(make: Any) -> None:
    with pytest.raises(GraphError, match="E1048"):
        make()


def unusual(p: Any, x: Any, y: Any, n: Any, none: Any, scale: Any) -> Any:
    """Integers, truth values, a batch without rows, a number, an array from outside, two specs of one parameter."""
    w = graph.shard(p["w"], None, "data") * graph.shard(p["w"], "data")
    some = (n.max(0).sum() + (n > 2).any(0).sum() + n.sum()).astype(float) + (none @ p["w"]).sum()
    return loss({**p, "w": w}, x, y) * scale + (np.asarray(X) @ p["w"]).mean() * some


def test_unusual_batches() -> None:
    """Of other sizes from step to step; a parameter that nothing reads."""

    def trained(mesh: Mesh, partition: str | None) -> Any:
        step = graph.train(unusual, spy.optim.SGD(parameters(), lr=0.01), mesh=mesh, partition=partition)
        losses = []
        for count in (8, 4, 8):
            own = count // mesh.workers
            rows = slice(mesh.rank * own, (mesh.rank + 1) * own)
            n = (np.arange(count * 3, dtype=np.int16).reshape(count, 3) % 5)[rows]
            losses.append(step(X[:count][rows], Y[:count][rows], n, X[:0], np.float64(0.5)))
        return losses, [np.array(getattr(x, "host_view", lambda x=x: x)()) for x in step.parameters.values()]

    losses, after = trained(Mesh({"data": 1}), None)
    for found, made in run({"data": 2}, lambda mesh: trained(mesh, "parameters")):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        for got, wanted in zip(made, after, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10)


@pytest.mark.parametrize("partition", [None, "parameters", "auto"])
def test_a_mean_of_no_rows_is_that_of_numpy(partition: str | None) -> None:
    """NaN, and its gradient is zero, also where a factor moves out of the product of the gradient."""
    losses = [loss, lambda p, x, y: (x @ p["w"]).mean(), lambda p, x, y: ((x @ p["w"]) ** 2).mean()]

    def trained(mesh: Mesh, of: Any) -> Any:
        step = graph.train(of, spy.optim.SGD(parameters(), lr=0.1), mesh=mesh, partition=partition)
        w = step(X[:0], Y[:0]), step.parameters["w"]
        return w[0], getattr(w[1], "to_numpy", lambda: w[1])()

    for of in losses:
        for value, w in run({"data": 2}, lambda mesh, of=of: trained(mesh, of)):
            assert np.isnan(value)
            np.testing.assert_array_equal(w, parameters()["w"])


def normalized(p: Any, x: Any, mean: Any, variance: Any) -> Any:
    y, mean, variance = graph.batch_norm(x @ p["w"], mean.mean(0), variance.mean(0), training=True)
    return (np.tanh(y) ** 3).mean(), (mean, variance)


def test_running_statistics_are_rows() -> None:
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(8, 3)), rng.normal(size=(3, 5))

    def train(mesh: Mesh | None) -> list[np.ndarray]:
        options: dict[str, Any] = {} if mesh is None else {"mesh": mesh}
        step = graph.train(normalized, spy.optim.SGD({"w": w.copy()}, lr=0.1), has_aux=True, **options)
        rows = x if mesh is None else np.split(x, mesh.workers)[mesh.rank]
        running, results = (np.zeros(5), np.ones(5)), []
        for _ in range(3):
            value, running = step(rows, *(array[None] for array in running))
            results += [np.asarray(value), *map(np.asarray, running)]
        return results

    for results in run({"data": 2}, train):
        for result, alone in zip(results, train(None), strict=True):
            np.testing.assert_allclose(result, alone, rtol=1e-12)

    def whole(mesh: Mesh) -> object:
        step = graph.train(
            lambda p, x, mean: (x @ p["w"] - mean).sum(), spy.optim.SGD({"w": w.copy()}), mesh=mesh
        )
        with pytest.raises(graph.GraphError, match=r"shapes \(8, 5\) and \(10,\)") as caught:
            step(np.split(x, 2)[mesh.rank], np.zeros(5))
        return caught.value.__notes__

    notes = ["note: the batch has the rows of 2 workers: (8, 3), (10,)"]
    assert run({"data": 2}, whole) == [notes, notes]
