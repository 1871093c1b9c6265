"""Partitions that are found: they give the numbers of one worker, and are the best there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.trees import all_leaves
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import new_input, topological_order
from slangrad.graph.workers.connections.costs import HOST, Cost, Links
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import Spec, whole
from slangrad.graph.workers.search.search import Problem, kinds_of
from slangrad.graph.workers.search.strategies import CutAxes, NodeClusters
from slangrad.graph.workers.sharding.moves import exchanges
from slangrad.graph.workers.sharding.partition import converted
from tests.graph.workers.test_pipeline import IDS, NEXT
from tests.graph.workers.test_train import X, Y, cross_entropy, mlp, parameters
from tests.graph.workers.threads import run

STEPS = 2
FREE = Links(
    dict.fromkeys(HOST, Cost(0.0, 1e15)), machine=MachineRates(rate=1e9)
)  # no seconds between workers
FAST = Links(dict.fromkeys(HOST, Cost(1e-4, 1e12)), machine=MachineRates(rate=1e9))


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape) * 0.3


def block(p: Any, x: Any, y: Any) -> Any:
    """Attention of three heads, and a network, with residuals."""

    def split(t: Any) -> Any:
        return t.reshape(*t.shape[:2], 2, -1).swapaxes(1, 2)

    n = graph.layer_norm(x, p["scale"], p["shift"])
    found = graph.attention(split(n @ p["q"]), split(n @ p["k"]), split(n @ p["v"]))
    h = x + found.swapaxes(1, 2).reshape(x.shape) @ p["o"]
    return ((h + np.tanh(h @ p["up"]) @ p["down"] - y) ** 2).mean()


def block_parameters() -> dict[str, Any]:
    shapes = dict.fromkeys("qkvo", (8, 8)) | {"up": (8, 16), "down": (16, 8)}
    made = {name: normal(i, *shape) for i, (name, shape) in enumerate(shapes.items())}
    return {**made, "scale": np.ones(8), "shift": np.zeros(8)}


def images(p: Any, x: Any, y: Any) -> Any:
    h = graph.max_pool2d(np.maximum(graph.conv2d(x, p["k1"], padding=1), 0), 2)
    h = graph.conv2d(h, p["k2"], padding=1) + p["b"][:, None, None]
    return ((np.tanh(h).mean((2, 3)) @ p["w"] - y) ** 2).sum()


def images_parameters() -> dict[str, Any]:
    shapes = {"k1": (4, 2, 3, 3), "k2": (4, 4, 3, 3), "b": (4,), "w": (4, 2)}
    return {name: normal(i, *shape) for i, (name, shape) in enumerate(shapes.items())}


def tied(p: Any, ids: Any, after: Any) -> Any:
    """The first and the last stage read one table."""
    h = np.tanh(p["e"][ids] @ graph.shard(p["w"], None, "model"))
    return cross_entropy((h @ p["e"].T).reshape(-1, 20), after.reshape(-1))


def decayed(p: Any, x: Any, y: Any) -> Any:
    """A number times a sum of parameters, whose parts may be on several workers."""
    return mlp(p, x, y) + 0.01 * (p["w1"] ** 2).sum()


PROGRAMS = {
    "network": (mlp, parameters, X, Y),
    "decay": (decayed, parameters, X, Y),
    "attention": (block, block_parameters, normal(3, 4, 6, 8), normal(4, 4, 6, 8)),
    "images": (images, images_parameters, normal(5, 4, 2, 6, 6), normal(6, 4, 2)),
    "tied": (tied, lambda: {"e": normal(0, 20, 8), "w": normal(1, 8, 8)}, IDS, NEXT),
}


def trained(program: Any, mesh: Mesh | None = None, **settings: Any) -> tuple[Any, list[Any], Any]:
    """The losses, all parameters after them, and the step."""
    loss, given, x, y = program
    optimizer = spy.optim.Adam(given(), lr=1e-2)
    if mesh is None:
        step, batch = graph.train(loss, optimizer, **settings), [x, y]
    else:
        step = graph.train(loss, optimizer, mesh=mesh, partition="auto", **settings)
        batch = [mesh_rows(mesh, each) for each in (x, y)]
    losses = [step(*batch) for _ in range(STEPS)]
    return losses, [np.array(as_numpy(each)) for each in all_leaves(step.parameters)], step


def as_numpy(array: Any) -> Any:
    return array.to_numpy() if isinstance(array, spy.Tensor) else array


def mesh_rows(mesh: Mesh, array: Any) -> Any:
    size = len(array) // prod(mesh.sizes[name] for name in mesh.batch)
    return array[mesh.place(mesh.batch) * size :][:size]


BOTH = {"data": 2, "model": 2}
CASES: dict[str, tuple[str, Mapping[str, int], Links, int | None]] = {
    "network": ("network", {"data": 2}, Links(), None),
    "network, two axes": ("network", BOTH, FREE, None),
    "decay": ("decay", {"data": 2}, Links(), None),
    "attention": ("attention", BOTH, FREE, None),
    "images": ("images", BOTH, FREE, None),
    "stages alone": ("network", {"stages": 2}, FREE, None),
    "stages with rows": ("network", {"data": 2, "stages": 2}, FREE, 4),
    "stages with layers": ("attention", {"stages": 2, "model": 2}, FREE, None),
    "stages without micro-batches": ("images", {"stages": 2, "model": 2}, FREE, 1),
    "micro-batches with layers": ("images", {"model": 2}, FREE, 2),
    "tied embeddings": ("tied", {"stages": 2, "model": 2}, FREE, 2),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "sizes", "links", "count"), CASES.values(), ids=CASES)
def test_workers_make_the_steps_of_one(
    name: str, sizes: Mapping[str, int], links: Links, count: int | None
) -> None:
    losses, after, _ = trained(PROGRAMS[name])
    for found, made, _ in run(
        sizes, lambda mesh: trained(PROGRAMS[name], mesh, links=links, microbatches=count)
    ):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        for one, other in zip(made, after, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def planned(loss: Any, given: Any, sizes: Mapping[str, int], shapes: Any, **settings: Any) -> Any:
    """The step of a mesh that is only planned for, and the local batch that it takes."""
    mesh = Mesh(sizes, 0, ("data",) if "data" in sizes else ())
    step = graph.train(loss, spy.optim.Adam(given, lr=0.1), mesh=mesh, partition="auto", **settings)
    step.explain(*(np.zeros(shape, int if len(shape) == 1 else float) for shape in shapes))
    return step


def product_loss(p: Any, x: Any) -> Any:
    return (np.tanh(x @ p["w"]) @ p["v"]).sum()


def test_large_batches_are_cut_along_rows() -> None:
    weights = {"w": normal(0, 32, 32), "v": normal(1, 32, 4)}
    step = planned(product_loss, weights, {"data": 4}, [(4096, 32)], links=FAST)
    assert step._held.specs == [whole(2), whole(2)]
    found = next(iter(step._plans._plans.values()))
    counts = Counter(node.op for node in topological_order(*found.plan.outputs))
    assert counts["all_gather"] == counts["all_to_all"] == 0


def test_large_weights_are_cut_along_columns_and_rows() -> None:
    """As in Megatron: columns of the first, rows of the second; no weight moves."""
    weights = {"w": normal(0, 256, 512), "v": normal(1, 512, 256)}
    step = planned(product_loss, weights, {"model": 4}, [(2, 256)], links=FAST)
    assert step._held.specs == [Spec(((), ("model",))), Spec((("model",), ()))]


def test_state_of_layers_that_are_cut_by_hand_is_cut_further() -> None:
    """Parameters take 1 MiB of a worker; 2 MiB of state become one."""
    weights = {"w": normal(0, 256, 512), "v": normal(1, 512, 256)}
    sizes = {"data": 2, "model": 2}

    def loss(p: Any, x: Any) -> Any:
        return product_loss({"w": graph.shard(p["w"], None, "model"), "v": graph.shard(p["v"], "model")}, x)

    step = planned(loss, weights, sizes, [(2, 256)], links=FAST, memory=4_000_000)
    assert step._held.specs == [Spec(((), ("model",))), Spec((("model",), ()))]
    assert step._held.cuts == [Spec((("data",), ("model",))), Spec((("model", "data"), ()))]


def test_trains_on_two_where_one_has_not_enough_memory() -> None:
    loss, given, x, y = PROGRAMS["network"]
    limit = 9000  # parameters and state are 8256 bytes
    one = graph.train(loss, spy.optim.Adam(given(), lr=1e-2), memory=limit, partition="auto")
    with pytest.raises(GraphError, match="E1047"):
        one(x, y)
    losses, after, _ = trained(PROGRAMS["network"])

    def worker(mesh: Mesh) -> Any:
        found, made, step = trained(PROGRAMS["network"], mesh, memory=limit)
        (plan,) = step._plans._plans.values()
        return found, made, step._held.counted + plan.plan.peak

    for found, made, used in run({"data": 2}, worker):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        for mine, other in zip(made, after, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)
        assert used <= limit


def test_stages_cut_what_does_not_fit() -> None:
    """Some parameters and their state are cut within a stage, so that less memory is enough."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        for w in p:
            x = np.tanh(x @ w)
        return ((x - y) ** 2).mean()

    weights, limit = [normal(i, 128, 128) for i in range(8)], 2_100_000
    mesh, rows = Mesh({"data": 4, "stages": 2}, 0, ("data",)), np.zeros((8, 128))
    known: dict[str, Any] = {"memory": limit, "mesh": mesh, "microbatches": 4}
    whole_ones = graph.train(loss, spy.optim.Adam(weights, lr=0.1), **known)
    with pytest.raises(GraphError, match="E1047"):
        whole_ones.explain(rows, rows)
    step = graph.train(loss, spy.optim.Adam(weights, lr=0.1), **known, partition="auto")
    step.explain(rows, rows)
    assert step._held.owners == [0, 0, 0, 0, 1, 1, 1, 1]
    assert whole(2) in step._held.cuts
    assert Spec((("data",), ())) in step._held.cuts


def test_too_little_memory_says_how_much_is_needed() -> None:
    weights = {"w": normal(0, 32, 32), "v": normal(1, 32, 4)}
    with pytest.raises(GraphError, match=r"E1047.* take 13824 bytes of a worker, and there are 9999"):
        planned(product_loss, weights, {"data": 2}, [(8, 32)], memory=9999)


def problem_of(outputs: list[Array], rows: Array, sizes: Mapping[str, int], links: Links) -> Problem:
    """Of a graph whose only input that is cut are `rows`."""
    mesh = Mesh(sizes, 0, ("data",))
    order = topological_order(*(each.node for each in outputs))
    fixed = {node: whole(len(node.shape)) for node in order if node.op == "input"}
    fixed[rows.node] = fixed[rows.node].with_axis(0, ("data",))
    clusters = NodeClusters(order, fixed, [], CutAxes(sizes, sizes), links.machine)
    return Problem(clusters, order, {each.node: whole(each.ndim) for each in outputs}, mesh, links)


@pytest.mark.parametrize("alpha", [0.0, 1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("sizes", [{"data": 2}, {"data": 2, "model": 2}], ids=str)
def test_no_assignment_is_better(sizes: Mapping[str, int], alpha: float) -> None:
    double = np.dtype(np.float64)
    x, w, v = (Array(new_input(shape, double)) for shape in [(8, 16), (16, 4), (4, 16)])
    h = np.tanh(x @ w)
    links = Links(dict.fromkeys(HOST, Cost(alpha, 1e8)), machine=MachineRates(rate=1e9))
    outputs = [h @ v] if "model" in sizes else [h.sum(), (h @ v).max(0)]
    problem = problem_of(outputs, x, sizes, links)
    counts = [range(len(each.strategies)) for each in problem.clusters]
    best = min(problem.seconds(picked) for picked in product(*counts))
    assert problem.seconds(problem.solved(None)) == pytest.approx(best, rel=1e-4)


def test_equal_layers_have_one_answer() -> None:
    double = np.dtype(np.float64)
    h = x = Array(new_input((8, 16), double))
    for _ in range(12):
        up, down = Array(new_input((16, 64), double)), Array(new_input((64, 16), double))
        h = h + np.tanh(h @ up) @ down
    problem = problem_of([h], x, {"data": 2}, FAST)
    kinds = kinds_of(problem, 1)
    assert len(set(kinds)) < len(kinds) / 3
    picked = problem.solved(None)
    assert problem.seconds(picked) < problem.seconds([0] * len(picked))


def test_listed_exchanges_are_those_of_plans() -> None:
    """All conversions of a matrix between two specs on two axes: the collectives, and the bytes that they leave."""
    mesh, shape = Mesh({"a": 2, "b": 3}), (12, 6)
    cuts = [(), ("a",), ("b",), ("a", "b"), ("b", "a")]
    full = [Spec(axes) for axes in product(cuts, cuts) if len({*sum(axes, ())}) == len(sum(axes, ()))]
    sums = [Spec(each.axes, (("a", "sum"),)) for each in full if "a" not in each.cut]
    for held, wanted in product([*full, *sums], full):
        x = new_input(held.local(shape, mesh.cuts), np.dtype(np.float64))
        made = converted(x, held, wanted, mesh)
        assert made.shape == wanted.local(shape, mesh.cuts)
        nodes = [node for node in topological_order(made) if "collective" in node.attributes]
        found = [(node.op, node.attributes["collective"].over, node.nbytes) for node in nodes]
        listed = [(e.name, e.over, e.nbytes) for e in exchanges(shape, x.dtype, held, wanted, mesh.cuts)]
        assert found == listed
