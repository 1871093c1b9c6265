"""`consistent="bits"`: losses and parameters have the same bits for 1, 2, 4 and 8 workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.bits import SHARDS, Tree
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.processes import Starter
from tests.graph.workers.test_train import X, Y, dropped, mlp, normalized, parameters, rows_of, summed
from tests.graph.workers.threads import run

LOSSES = {"network": mlp, "statistics of all rows": normalized, "dropout": dropped, "sums, gathers": summed}


def trained(
    loss: Callable[..., Any], steps: int, dtype: Any
) -> Callable[[Mesh], tuple[list[Any], list[Any]]]:
    def worker(mesh: Mesh) -> tuple[list[Any], list[Any]]:
        p = {name: each.astype(dtype) for name, each in parameters().items()}
        step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), mesh=mesh, consistent="bits")
        batch = rows_of(mesh, X.astype(dtype), Y)
        return [step(*batch) for _ in range(steps)], list(p.values())

    return worker


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_workers_have_the_bits_of_one(loss: Callable[..., Any]) -> None:
    losses, after = run({"data": 1}, trained(loss, 3, np.float32))[0]
    for sizes in ({"data": 2}, {"data": 8}, {"nodes": 2, "gpus": 2}):
        for found, made in run(sizes, trained(loss, 3, np.float32)):
            assert np.array_equal(found, losses)
            assert all(np.array_equal(a, b) for a, b in zip(made, after, strict=True))


def test_the_key_of_dropout_is_a_number_of_the_batch() -> None:
    """Rules fold an offset of 0 in the graph of the first shard alone."""

    def loss(p: Any, x: Any, y: Any, key: Any) -> Any:
        h = graph.random.dropout(graph.random.key(key), x @ p["w1"], 0.25)
        return ((h @ p["w2"]).mean(1) - y).mean()

    def worker(mesh: Mesh) -> tuple[list[Any], list[Any]]:
        p = parameters()
        step = graph.train(loss, spy.optim.SGD(p, lr=0.1), mesh=mesh, consistent="bits")
        return [step(*rows_of(mesh, X, Y), np.uint32(key)) for key in range(3)], list(p.values())

    losses, after = run({"data": 1}, worker)[0]
    for found, made in run({"data": 4}, worker):
        assert np.array_equal(found, losses)
        assert all(np.array_equal(a, b) for a, b in zip(made, after, strict=True))
    plain = parameters()
    step = graph.train(loss, spy.optim.SGD(plain, lr=0.1))
    np.testing.assert_allclose([step(X, Y, np.uint32(key)) for key in range(3)], losses, rtol=1e-12)


def test_a_hundred_steps() -> None:
    losses, after = run({"data": 1}, trained(mlp, 100, np.float32))[0]
    (found, made), *_ = run({"data": 4}, trained(mlp, 100, np.float32))
    assert np.array_equal(found, losses)
    assert all(np.array_equal(a, b) for a, b in zip(made, after, strict=True))
    plain = {name: each.astype(np.float32) for name, each in parameters().items()}
    step = graph.train(mlp, spy.optim.Adam(plain, lr=1e-2))
    np.testing.assert_allclose([step(X.astype(np.float32), Y) for _ in range(100)], losses, rtol=1e-5)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_hundred_steps_of_any_number_of_workers(loss: Callable[..., Any], dtype: Any) -> None:
    losses, after = run({"data": 1}, trained(loss, 100, dtype))[0]
    for sizes in ({"data": 2}, {"data": 4}, {"data": 8}, {"nodes": 2, "gpus": 4}):
        for found, made in run(sizes, trained(loss, 100, dtype)):
            assert np.array_equal(found, losses)
            assert all(np.array_equal(a, b) for a, b in zip(made, after, strict=True))


PROGRAM = """
from hashlib import sha1
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x, y):
    h = x @ p["w"]
    h = np.tanh((h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5))
    return ((graph.random.dropout(graph.random.key(1), h, 0.1) @ p["v"] - y) ** 2).mean()

r, mesh = np.random.default_rng(0), graph.mesh("data")
p = {"w": r.normal(size=(12, 24)).astype(np.float32), "v": r.normal(size=(24, 8)).astype(np.float32)}
step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), mesh=mesh, consistent="bits")
batches = r.normal(size=(100, 32, 20)).astype(np.float32)
losses = []
for batch in batches:
    rows = np.split(batch, mesh.workers)[mesh.rank]
    losses.append(step(rows[:, :12], rows[:, 12:]))
print(sha1(np.array(losses).tobytes() + p["w"].tobytes() + p["v"].tobytes()).hexdigest())
assert losses[99] < 0.75 * losses[0], losses
"""


@pytest.mark.deep
def test_a_hundred_steps_of_processes(start: Starter) -> None:
    (one,) = start(PROGRAM, 1)
    assert one.code == 0 and len(one.output) == 41, one.output
    for workers in (2, 4, 8):
        for end in start(PROGRAM, workers, 200, SLANGRAD_THREADS="1"):
            assert (end.code, end.output) == (0, one.output)


def test_trees_keep_few_arrays() -> None:
    tree = Tree("sum")
    for i in range(SHARDS):
        tree.add(np.float32(10.0**i))
        assert len(tree._kept) <= 3
    values = [np.float32(10.0**i) for i in range(SHARDS)]
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    assert tree.result == values[0]


def test_bad_input() -> None:
    def step_of(loss: Any = mlp, **sizes: int) -> Any:
        mesh = Mesh(sizes, 0, ("data",) if "data" in sizes else ())
        return graph.train(loss, spy.optim.SGD(parameters(), lr=0.1), mesh=mesh, consistent="bits")

    with pytest.raises(graph.GraphError, match=r"E1048.*the number of workers divides 8"):
        step_of(data=3).explain(X[:8], Y[:8])
    with pytest.raises(graph.GraphError, match=r"E1048.*12 rows of all workers are no multiple of 8"):
        step_of(data=1).explain(X[:12], Y[:12])
    with pytest.raises(graph.GraphError, match=r"E1048.*rows of the batch are cut, and nothing else"):
        step_of(data=2, model=2).explain(X, Y)
    with pytest.raises(ValueError, match="partition=None"):
        graph.train(
            mlp,
            spy.optim.SGD(parameters(), lr=0.1),
            mesh=graph.mesh("data"),
            consistent="bits",
            partition="states",
        )
