"""Limits of memory: what does not fit is computed again, with the same bits; or an error names the least."""

import gc
import re
import weakref
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.trees import all_leaves
from slangrad.graph.lowering.steps import KernelStep
from slangrad.graph.planning import memory as planned_memory
from slangrad.graph.planning.recompute import _cover, bytes_in

RNG = np.random.default_rng(3)
X = RNG.normal(size=(256, 32))


def layers(count: int) -> list[Any]:
    return [{"w": RNG.normal(size=(32, 32)) * 0.3, "b": RNG.normal(size=32)} for _ in range(count)]


def loss(ps: Any, x: Any) -> Any:
    for p in ps:
        x = x + np.tanh(graph.softmax(x @ p["w"]) + p["b"])
    return (x * x).mean()


def test_results_have_the_same_bits() -> None:
    ps = layers(6)
    both = graph.value_and_grad(loss)
    plan = both.explain(ps, X).plan
    limit = plan.peak * 8 // 10
    limited = graph.jit(lambda ps, x: both(ps, x), memory=limit)
    explained = limited.explain(ps, X)
    assert explained.plan.peak <= limit
    assert len(explained.plan.again) > 1
    assert re.search(
        rf"memory between kernels: \d+ bytes of {limit} allowed; computed again: \d+ x f64", str(explained)
    )
    (value, gradients), (other, found) = both(ps, X), limited(ps, X)
    assert value == other
    for a, b in zip(gradients, found, strict=True):
        np.testing.assert_array_equal(a["w"], b["w"])
        np.testing.assert_array_equal(a["b"], b["b"])


def test_training_with_a_limit() -> None:
    """Parameters are overwritten as soon as nothing reads them: not before what is computed again has."""
    first = layers(5)
    trained = []
    peak = graph.train(loss, spy.optim.Adam(first, lr=0.01)).explain(X).plan.peak
    for memory in (None, peak * 7 // 10):
        ps = [{name: each.copy() for name, each in p.items()} for p in first]
        step = graph.train(loss, spy.optim.Adam(ps, lr=0.01), memory=memory)
        trained.append([*(step(X) for _ in range(3)), *(each for p in ps for each in p.values())])
    assert step.explain(X).plan.again
    assert step.explain(X).plan.peak <= peak * 7 // 10
    for a, b in zip(*trained, strict=True):
        np.testing.assert_array_equal(a, b)


def chain(ws: Any, x: Any) -> Any:
    """Layers each of which reads the one before it alone."""
    for w in ws:
        x = np.tanh(x @ w)
    return (x * x).sum()


def matrices(count: int) -> list[Any]:
    return [RNG.normal(size=(32, 32)) * 0.2 for _ in range(count)]


def least_of(function: Any, *args: Any) -> int:
    with pytest.raises(graph.GraphError) as caught:
        graph.jit(lambda *args: function(*args), memory=1)(*args)
    assert caught.value.code == "E1047"
    return caught.value.least


@pytest.mark.parametrize(("count", "part"), [(1, 1.0), (2, 1.0), (3, 0.8), (10, 0.5), (40, 0.25)])
def test_chains_keep_checkpoints(count: int, part: float) -> None:
    """Results have the same bits at any limit down to the least, which is a small part of all in long chains."""
    both, ws = graph.value_and_grad(chain), matrices(count)
    peak, least = both.explain(ws, X).plan.peak, least_of(both, ws, X)
    assert least <= part * peak
    value, gradients = both(ws, X)
    for limit in sorted(
        {*(peak * tenths // 10 for tenths in (9, 7, 5) if peak * tenths // 10 > least), least}
    ):
        limited = graph.jit(lambda ws, x: both(ws, x), memory=limit)
        assert limited.explain(ws, X).plan.peak <= limit
        other_value, other_gradients = limited(ws, X)
        assert value == other_value
        for gradient, other in zip(gradients, other_gradients, strict=True):
            np.testing.assert_array_equal(gradient, other)


def test_a_part_of_a_chain_is_computed_again_once() -> None:
    """No kernel runs more than twice, and none of the gradient."""
    both, ws = graph.value_and_grad(chain), matrices(10)
    peak = both.explain(ws, X).plan.peak
    plan = graph.jit(lambda ws, x: both(ws, x), memory=peak * 6 // 10).explain(ws, X).plan
    assert max(Counter(task.number for task in plan.again).values()) == 1
    assert max(task.number for task in plan.again) < 10


def test_chains_are_trained_with_a_limit() -> None:
    """Layers are made again before their matrices are overwritten."""
    first, trained = matrices(12), []
    peak = graph.train(chain, spy.optim.Adam(first, lr=0.01)).explain(X).plan.peak
    for memory in (None, peak * 7 // 10, peak * 55 // 100):
        ws = [w.copy() for w in first]
        step = graph.train(chain, spy.optim.Adam(ws, lr=0.01), memory=memory)
        trained.append([*(step(X) for _ in range(2)), *ws])
    for limited in trained[1:]:
        for a, b in zip(trained[0], limited, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("layer", "w", "x", "waiting"), [
    (lambda x, w, i: x @ w, (64, 64), (8, 64), 2.3),
    (lambda x, w, i: x @ (w.T if i % 2 else w), (64, 64), (8, 64), 3),
    (lambda x, w, i: graph.conv2d(x, w, padding=1), (32, 32, 3, 3), (1, 32, 4, 4), 6),
    (lambda x, w, i: x + w[np.arange(8) * 3 % 7 + i], (64, 64), (8, 64), 6),
], ids=["products", "transposed", "convolutions", "rows"])  # fmt: skip
def test_gradients_of_a_weight_are_added_as_they_come(layer: Any, w: Any, x: Any, waiting: float) -> None:
    """A loop uses a weight 16 times: beside its values few arrays of the weight's size are alive at once."""
    rng = np.random.default_rng(5)
    w, x, along = rng.normal(size=w) * 0.1, rng.normal(size=x), rng.normal(size=w)

    def total(w: Any, x: Any) -> Any:
        for i in range(16):
            x = np.tanh(layer(x, w, i))
        return (x * x).sum()

    slope, h = graph.grad(total), 1e-6
    assert slope.explain(w, x).plan.peak <= 16 * x.nbytes + waiting * w.nbytes
    difference = (total(w + h * along, x) - total(w - h * along, x)) / (2 * h)
    np.testing.assert_allclose((slope(w, x) * along).sum(), difference, rtol=1e-6)


def test_the_least_that_would_do() -> None:
    gradient = graph.grad(loss)
    ps = layers(4)
    with pytest.raises(graph.GraphError, match="cannot run in 1000 bytes") as caught:
        graph.jit(lambda ps, x: gradient(ps, x), memory="1 kB")(ps, X)
    assert caught.value.code == "E1047"
    least, whole = map(int, re.findall(r"\d\d+", str(caught.value.note)))
    assert least < whole == gradient.explain(ps, X).plan.peak
    found = graph.jit(lambda ps, x: gradient(ps, x), memory=least).explain(ps, X).plan
    assert found.peak <= least


def test_parts_of_a_larger_array_are_written_there() -> None:
    """Products are not copied behind each other, unless another kernel reads them later."""
    x, a, b = (RNG.normal(size=(32, 32)) for _ in range(3))

    def both(x: Any, a: Any, b: Any) -> Any:
        return np.cumsum(np.concatenate([x @ a, np.tanh(x) @ b]), 0)

    def later(x: Any, a: Any, b: Any) -> Any:
        y = x @ a
        z = np.cumsum(np.concatenate([y, x @ b]), 0)
        return np.cumsum(z + y[:1], 1)

    for f, copies in ((both, 0), (later, 1)):
        plan = graph.jit(f).explain(x, a, b).plan
        assert sum(getattr(step, "copies", False) for step in plan.steps) == copies
        np.testing.assert_allclose(graph.jit(f)(x, a, b), f(x, a, b))


def test_the_memory_of_loops_counts() -> None:
    total = graph.grad(
        lambda w, xs: (graph.scan(lambda h, x: (np.tanh(h @ w + x), h), xs[0], xs)[1] ** 2).sum()
    )
    args = RNG.normal(size=(8, 8)), RNG.normal(size=(20, 5, 8))
    peak = total.explain(*args).plan.peak
    limited = graph.jit(lambda w, xs: total(w, xs), memory=peak)
    np.testing.assert_array_equal(limited(*args), total(*args))
    with pytest.raises(graph.GraphError, match="would do"):
        graph.jit(lambda w, xs: total(w, xs), memory=100)(*args)


def test_what_the_body_of_a_loop_reads_lies_in_the_plan() -> None:
    w = np.eye(64)
    loop = graph.jit(lambda w, xs: graph.scan(lambda h, x: (h @ w + x, None), xs[0], xs)[0])
    assert loop.explain(w, w[:3]).plan.peak > w.nbytes


@pytest.mark.parametrize(
    ("text", "count"), [("2 GiB", 2 << 30), ("1.5MB", 1_500_000), ("64 k", 64000), (17, 17)]
)
def test_texts_of_bytes(text: Any, count: int) -> None:
    assert bytes_in(text) == count


@pytest.mark.parametrize("text", ["much", "1.2.3 GB", "."])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(graph.GraphError, match="is no number of bytes"):
        graph.jit(lambda x: x, memory=text)


def test_cheap_covers() -> None:
    """Holders that are dropped are enough in each row, and cost little more than the cheapest of all subsets."""
    subsets = np.array(list(product((False, True), repeat=12)))
    rng, ratios = np.random.default_rng(3), []  # not that of other tests, which run in any order
    for _ in range(20):
        sizes = rng.uniform(1, 10, (6, 12)) * (rng.uniform(size=(6, 12)) < 0.6)
        costs, need = rng.uniform(1, 5, 12), sizes.sum(1) * 0.4
        taken = _cover(costs, sizes, need)
        assert (sizes @ taken >= need * (1 - 1e-6)).all()
        enough = (subsets @ sizes.T >= need).all(1)
        ratios.append(costs @ taken / (subsets[enough] @ costs).min())
    assert max(ratios) < 1.3 and np.mean(ratios) < 1.1


def test_plans_hold_more_than_2_gib() -> None:
    x = np.broadcast_to(np.float32(1), (300_000_000,))

    @graph.jit
    def f(x: Any) -> Any:
        return np.cumsum(np.cumsum(x)[::-1] + np.cumsum(x * 2))[-1:]

    assert f.explain(x).plan.peak > 2**31


def test_arguments_and_results_die_with_their_call() -> None:
    f = graph.jit(lambda x, w: (np.tanh(x @ w), x.sum(0)))
    for value in (1.0, 2.0):
        arrays = [np.full((32, 32), value) for _ in range(2)]
        x, w = (spy.Tensor.from_numpy(spy.default_device(), array) for array in arrays)
        y, total = f(x, w)
        z, _ = f(*arrays)
        np.testing.assert_allclose(y.to_numpy(), np.tanh(32 * value * value))
        np.testing.assert_allclose(total.to_numpy(), 32 * value)
        held = [weakref.ref(each.storage) for each in (x, w, y)]
        held += [weakref.ref(each) for each in (*arrays, z)]
        del arrays, x, w, y, z
        gc.collect()
        assert [each() for each in held] == [None] * 6


def test_arrays_that_lie_where_others_lay_are_read_anew() -> None:
    f = graph.jit(lambda x: x * 2)
    for value in range(20):
        x = np.full((256,), float(value))
        np.testing.assert_array_equal(f(x), x * 2)
        x.resize((70_000,), refcheck=False)
        x.resize((256,), refcheck=False)
        np.testing.assert_array_equal(f(x), x * 2)


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def rows_in_turn(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = normalized(x + np.tanh(graph.softmax(x @ w)))
    return x


def maps_in_turn(x: Any, w: Any) -> Any:
    """Sums along two axes in turn, so maps between them are kernels."""
    for axis in (0, 1, 0):
        x = np.tanh(np.cumsum(x, axis)) * x
    return x


def attended(x: Any, w: Any) -> Any:
    return (np.square(graph.softmax(x @ w @ x.T) @ x)).sum()


def turned(x: Any, w: Any) -> Any:
    """A kernel reads an array that ends there at its own place and at another."""
    y = np.cumsum(x[:32], 0)
    return np.cumsum(y * y.T + y[::-1], 1)


def picked(x: Any, w: Any) -> Any:
    y = np.cumsum(x, 0)
    return np.cumsum(np.take_along_axis(y, np.argsort(np.arange(32))[None] % 7, 1) + y[:, :1], 0)


def converted(x: Any, w: Any) -> Any:
    return np.cumsum(np.cumsum(x, 0).astype(np.int64) * 2, 0).astype(np.float32)


def kept_rows(x: Any, w: Any) -> Any:
    """A row is stored before a sum reads what it was made of."""
    y = x @ w
    z = y - y.max(-1, keepdims=True)
    return np.cumsum(z, 0) + (np.exp(z) * y).sum(-1, keepdims=True)


@pytest.mark.parametrize(("program", "part"), [
    (rows_in_turn, 0.7), (graph.grad(lambda x, w: rows_in_turn(x, w).sum()), 1), (maps_in_turn, 1),
    (graph.grad(lambda x, w: maps_in_turn(x, w).sum()), 1), (graph.grad(attended, (0, 1)), 0.9), (turned, 1),
    (picked, 1), (converted, 1), (kept_rows, 1),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_results_are_written_over_inputs_that_nothing_reads_again(
    program: Any, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits are those of a plan where each result has a place of its own, in as much memory or a part of it."""
    rng = np.random.default_rng(11)
    x, w = rng.normal(size=(256, 32)), rng.normal(size=(32, 32))
    in_place, apart = graph.jit(program), graph.jit(program)
    peak = in_place.explain(x, w).plan.peak
    monkeypatch.setattr(planned_memory, "_overwritten", lambda steps, spans: {})
    assert peak <= part * apart.explain(x, w).plan.peak
    for result, other in zip(all_leaves(in_place(x, w)), all_leaves(apart(x, w)), strict=True):
        np.testing.assert_array_equal(result, other)


@pytest.mark.parametrize(
    ("program", "kind", "is_over"),
    [
        (rows_in_turn, "rows", True),
        (kept_rows, "rows", False),
        (kept_rows, "map", True),
        (picked, "map", False),
    ],
)
def test_only_arrays_that_are_read_at_their_place_are_written_over(
    program: Any, kind: str, is_over: bool
) -> None:
    plan = graph.jit(program).explain(np.ones((256, 32)), np.ones((32, 32))).plan
    steps = [step for step in plan.steps if isinstance(step, KernelStep) and step.name.startswith(kind)]
    assert steps
    assert all(bool(step.replaces) == is_over for step in steps)
