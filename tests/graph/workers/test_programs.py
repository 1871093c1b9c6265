"""Random programs with random shards: workers make the steps of one worker. Slang functions of users, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.threads import run

ROWS, STEPS = 12, 2
MESHES = [
    {"data": 2},
    {"data": 2, "model": 2},
    {"data": 3, "model": 2},
    {"nodes": 2, "gpus": 2},
    {"model": 2},
]
PARTITIONS = [None, "states", "parameters"]


class RandomProgram:
    """A loss of random operators. `names`: the axes of the mesh, with their sizes."""

    def __init__(self, seed: int, sizes: dict[str, int], length: int = 9) -> None:
        self.seed, self.sizes, self.length = seed, sizes, length

    def __call__(self, p: Any, x: Any, y: Any) -> Any:
        r = np.random.default_rng(self.seed)
        pool = [x, p["w"], p["b"], p["v"]]
        for _ in range(self.length):
            pool.append(self._next(r, pool, y))
            if r.random() < 0.35:
                pool[-1] = self._sharded(r, pool[-1])
        weights = [np.cos(np.arange(each.size)).reshape(each.shape) for each in pool]
        return sum((np.sin(each) * w).mean() for each, w in zip(pool, weights, strict=True))

    def _sharded(self, r: Any, x: Any) -> Any:
        axes: list[tuple[str, ...]] = [()] * x.ndim
        for name in r.permutation(list(self.sizes)):
            i = int(r.integers(-1, x.ndim)) if x.ndim else -1
            cut = np.prod([self.sizes[each] for each in (*axes[i], name)], dtype=int) if i >= 0 else 0
            if cut and x.shape[i] % cut == 0:
                axes[i] = (*axes[i], str(name))
        return graph.shard(x, *axes)

    def _next(self, r: Any, pool: list[Any], y: Any) -> Any:
        """One more array, of those that are there."""
        x = pool[int(r.integers(len(pool) * 2 // 3, len(pool)))]
        other = pool[int(r.integers(len(pool)))]
        axis = int(r.integers(x.ndim)) if x.ndim else 0
        chosen = list(OPERATORS.values())[int(r.integers(len(OPERATORS)))]
        made = chosen(r, x, other, axis, y) if x.ndim else None
        return np.tanh(x * 0.7) if made is None else made


def product(x: Any, other: Any) -> Any:
    for a in (other, *([other.T] if other.ndim == 2 else [])):
        if x.ndim and a.ndim and x.shape[-1] == a.shape[0 if a.ndim == 1 else -2]:
            return (x @ a) * 0.3
    return None


def combined(x: Any, other: Any, how: Callable[..., Any]) -> Any:
    try:
        shape = np.broadcast_shapes(x.shape, other.shape)
    except ValueError:
        return None
    return how(x, other) if np.prod(shape) < 2000 else None


def rows_of(x: Any, y: Any) -> Any:
    return x[y % x.shape[0]] if x.shape[0] else None


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": lambda r, x, o, i, y: combined(x, o, np.add),
    "multiply": lambda r, x, o, i, y: combined(x, o, np.multiply),
    "where": lambda r, x, o, i, y: combined(x, o, lambda a, b: np.where(a > b, a - b, b * a)),
    "linear": lambda r, x, o, i, y: x * 2 - x / 3,
    "sum": lambda r, x, o, i, y: x.sum(i),
    "kept": lambda r, x, o, i, y: x - x.max(i, keepdims=True) + x.min(i, keepdims=True),
    "mean": lambda r, x, o, i, y: (x - x.mean(i, keepdims=True)) * (1 + x.var(i, keepdims=True)),
    "softmax": lambda r, x, o, i, y: graph.softmax(x, i),
    "product": lambda r, x, o, i, y: product(x, o),
    "transpose": lambda r, x, o, i, y: x.T * 1.5,
    "reshape": lambda r, x, o, i, y: (
        x.reshape((*x.shape[:i], 2, x.shape[i] // 2, *x.shape[i + 1 :]))
        if x.shape[i] % 2 == 0 and x.ndim < 4
        else x.reshape(-1)
    ),
    "slice": lambda r, x, o, i, y: x[(slice(None),) * i + (slice(None, None, -1),)],
    "half": lambda r, x, o, i, y: (
        x[(slice(None),) * i + (slice(0, x.shape[i] // 2),)] if x.shape[i] > 1 else None
    ),
    "concatenate": lambda r, x, o, i, y: np.concatenate([x, x * x], i) if x.size < 500 else None,
    "cumsum": lambda r, x, o, i, y: np.cumsum(x, i) * 0.5,
    "rows": lambda r, x, o, i, y: rows_of(x, y),
    "sorted": lambda r, x, o, i, y: np.take_along_axis(x, np.expand_dims(x.argmax(i), i), i) * x,
    "noise": lambda r, x, o, i, y: graph.random.dropout(graph.random.key(int(r.integers(99))), x, 0.25),
    "windows": lambda r, x, o, i, y: (
        np.lib.stride_tricks.sliding_window_view(x, 2, i).sum(-1) if x.shape[i] > 1 else None
    ),
}


def parameters() -> dict[str, Any]:
    r = np.random.default_rng(1)
    return {
        name: r.normal(size=shape) * 0.5 for name, shape in (("w", (6, 12)), ("b", (12,)), ("v", (12, 6)))
    }


R = np.random.default_rng(0)
X, Y = R.normal(size=(ROWS, 6)), R.integers(0, 12, ROWS)


def trained(
    loss: Any, mesh: Mesh | None = None, partition: str | None = None, moved: int | None = None
) -> tuple[list[Any], Any]:
    """`moved`: the seed of changes of the parameters in their last bits."""
    p = parameters()
    if moved is not None:
        r = np.random.default_rng(moved)
        p = {name: np.nextafter(each, each + r.integers(-1, 2, each.shape)) for name, each in p.items()}
    rows = slice(None)
    more: dict[str, Any] = {}
    if mesh is not None:
        size = ROWS // int(np.prod([mesh.sizes[name] for name in mesh.batch], dtype=int))
        rows = slice(mesh.place(mesh.batch) * size, (mesh.place(mesh.batch) + 1) * size)
        more = {"mesh": mesh, "partition": partition}
    step = graph.train(loss, spy.optim.SGD(p, lr=0.05, momentum=0.9), **more)
    losses = [float(step(X[rows], Y[rows])) for _ in range(STEPS)]
    found = {
        k: np.array(v if isinstance(v, np.ndarray) else v.to_numpy()) for k, v in step.parameters.items()
    }
    return losses, found


def check(loss: Any, sizes: dict[str, int], partition: str | None) -> None:
    losses, after = trained(loss)
    batch = None if {"data", "nodes"} & sizes.keys() else ()
    for found, made in run(sizes, lambda mesh: trained(loss, mesh, partition), batch):
        np.testing.assert_allclose(found, losses, rtol=1e-10)
        for name, each in after.items():
            np.testing.assert_allclose(made[name], each, rtol=1e-8, atol=1e-10, err_msg=name)


def check_program(seed: int, length: int) -> None:
    sizes = MESHES[seed % len(MESHES)]
    check(RandomProgram(seed, sizes, length), sizes, PARTITIONS[seed % 3])


BENT = """
[Differentiable] double bent(double x, double w)
{ double s = 0; for (int i = 0; i < 4; i++) { if (s > 1) break; s += exp(-w * x * x); } return s; }
"""


def test_functions_of_users() -> None:
    """Slang functions are maps: cut as their arguments are, with derivatives."""
    bent = spy.Module.load_from_source(spy.default_device(), "bent_by_workers", BENT).bent

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = bent(x @ graph.shard(p["w"], None, "model"), p["b"])
        return (bent(h @ p["v"], 0.5) * x).mean() + h.sum()

    check(loss, {"data": 2, "model": 2}, "states")


def test_a_random_program() -> None:
    check_program(1, 5)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_random_programs(seed: int) -> None:
    loss = RandomProgram(seed, MESHES[seed % len(MESHES)], 12)
    losses = np.array([trained(loss, moved=moved)[0] for moved in (None, 0, 1, 2)])
    if np.ptp(losses, 0).max() > 1e-7:
        pytest.skip("one worker's losses hang on the last bits of the parameters")
    check_program(seed, 12)
