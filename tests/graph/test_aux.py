"""Losses that return more than a number: `has_aux` of `grad`, `value_and_grad` and `train`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from tests.graph.workers.threads import run

RNG = np.random.default_rng(14)
X, W = RNG.standard_normal((6, 4)), RNG.uniform(0.5, 1, 4)


@dataclass
class Kept:
    rows: Any
    name: str


def loss(w: Any, x: Any) -> Any:
    """Beside the number: what depends on w, what does not, what is there already, and values that are no arrays."""
    y = x * w**3
    return (y * y).sum(), {
        "y": [y, y.mean()],
        "w": w,
        "kept": Kept(x.sum(1), "layer"),
        "count": 3,
        "none": None,
    }


def test_aux_comes_back_in_its_form() -> None:
    both, alone = (make(loss, has_aux=True) for make in (graph.value_and_grad, graph.grad))
    value, aux = loss(W, X)
    slope = 6 * W**5 * (X * X).sum(0)
    for make in (lambda f: f, graph.jit):
        (got, found), gradient = make(both)(W, X)
        same, again = make(alone)(W, X)
        np.testing.assert_allclose([got, *gradient, *same], [value, *slope, *slope], rtol=1e-12)
        for each in (found, again):
            np.testing.assert_allclose(each["y"][0], aux["y"][0], rtol=1e-12)
            np.testing.assert_allclose(each["y"][1], aux["y"][1], rtol=1e-12)
            np.testing.assert_array_equal(each["w"], W)
            np.testing.assert_allclose(each["kept"].rows, aux["kept"].rows, rtol=1e-12)
            assert (each["kept"].name, each["count"], each["none"], type(each["y"])) == (
                "layer",
                3,
                None,
                list,
            )
    assert found["w"] is not W and not np.shares_memory(found["w"], W)
    _, (first, second) = graph.value_and_grad(loss, (0, -1), has_aux=True)(W, X)
    np.testing.assert_allclose(first, slope, rtol=1e-12)
    np.testing.assert_allclose(second, 2 * X * W**6, rtol=1e-12)


def test_derivatives_of_gradient_and_aux() -> None:
    gradient = graph.grad(loss, has_aux=True)
    twice = graph.grad(lambda w: (gradient(w, X)[0] * W).sum())
    np.testing.assert_allclose(twice(W), 30 * W**5 * (X * X).sum(0), rtol=1e-12)
    through = graph.grad(lambda w: (gradient(w, X)[1]["y"][0]).sum())
    np.testing.assert_allclose(through(W), 3 * W**2 * X.sum(0), rtol=1e-12)
    aux_of_both = graph.grad(lambda w: (lambda g, a: (g.sum(), a))(*gradient(w, X)), has_aux=True)
    np.testing.assert_allclose(aux_of_both(W)[0], 30 * W**4 * (X * X).sum(0), rtol=1e-12)


def test_aux_of_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    w = torch.from_numpy(W.copy()).requires_grad_()
    (value, aux), gradient = graph.value_and_grad(loss, has_aux=True)(w, torch.from_numpy(X))
    assert [type(each) for each in (value, aux["y"][0], gradient)] == [torch.Tensor] * 3
    (gradient.sum() + aux["y"][0].sum()).backward()
    np.testing.assert_allclose(w.grad, 30 * W**4 * (X * X).sum(0) + 3 * W**2 * X.sum(0), rtol=1e-12)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda w: w.sum(), r"gives Array.*has_aux=True.*a pair\nnote: return loss, aux"),
        (lambda w: (w.sum(), w, w), "gives 3 values.* a pair"),
        (lambda w: {"loss": w.sum()}, "gives dict.* a pair"),
        (lambda w: (w, w), "that of one float"),
        (lambda w: (w.sum(), {w}), "returned in a set"),
    ],
)
def test_results_that_are_no_pair(program: Any, said: str) -> None:
    step = graph.train(lambda p: program(p[0]), spy.optim.SGD([W.copy()], lr=0.1), has_aux=True)
    for call in (lambda: graph.grad(program, has_aux=True)(W), step):
        with pytest.raises(graph.GraphError, match=rf"test_aux.py:\d+: .*{said}"):
            call()


def test_a_pair_that_is_not_announced() -> None:
    with pytest.raises(graph.GraphError, match=r"gives tuple.*\nnote: has_aux=True"):
        graph.grad(lambda w: (w.sum(), w))(W)


# --- training


def normalized(p: Any, s: Any, x: Any) -> Any:
    """A layer with batch norm, its running statistics, the parameters before the step, and a number."""
    y, mean, variance = graph.batch_norm(x @ p["w"], s["mean"], s["variance"], p["g"], training=True)
    return (np.tanh(y) ** 2).mean() + (p["w"] ** 2).sum(), (
        {"mean": mean, "variance": variance},
        p["w"],
        y.max(),
    )


def parameters() -> dict[str, Any]:
    return {"w": np.linspace(-1, 1, 12).reshape(4, 3), "g": np.ones(3)}


def test_state_goes_from_step_to_step() -> None:
    p, q = parameters(), parameters()
    step = graph.train(normalized, spy.optim.SGD(p, lr=0.05), has_aux=True)
    by_hand = graph.value_and_grad(normalized, has_aux=True)
    s = t = {"mean": np.zeros(3), "variance": np.ones(3)}
    for _ in range(3):
        before = p["w"].copy()
        value, (s, w, most) = step(s, X)
        (wanted, (t, _, largest)), gradient = by_hand(q, t, X)
        q = {name: q[name] - 0.05 * gradient[name] for name in q}
        np.testing.assert_array_equal(w, before)
        np.testing.assert_allclose([value, most], [wanted, largest], rtol=1e-12)
        for name in s:
            np.testing.assert_allclose(s[name], t[name], rtol=1e-12)
    for name in p:
        np.testing.assert_allclose(p[name], q[name], rtol=1e-12)


@pytest.mark.parametrize("partition", [None, "parameters"])
def test_workers_get_all_of_aux(partition: str | None) -> None:
    def squares(p: Any, x: Any) -> Any:
        y = np.tanh(x @ p["w"])
        return (y * y).mean(), (y, y.max(), p["w"])

    def work(mesh: Any) -> Any:
        p, rows = parameters(), slice(3 * mesh.rank, 3 * mesh.rank + 3)
        optimizer = spy.optim.SGD(p, lr=0.05)
        step = graph.train(squares, optimizer, has_aux=True, mesh=mesh, partition=partition)
        return [step(X[rows]) for _ in range(2)]

    alone = graph.train(squares, spy.optim.SGD(parameters(), lr=0.05), has_aux=True)
    wanted = [alone(X) for _ in range(2)]
    for found in run({"data": 2}, work):
        for (value, aux), (other, more) in zip(found, wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-12)
            for each, want in zip(aux, more, strict=True):
                np.testing.assert_allclose(each, want, rtol=1e-12)


def test_aux_has_no_micro_batches() -> None:
    made: Any = {"optimizer": spy.optim.SGD(parameters(), lr=0.05), "has_aux": True}
    rows = np.repeat(X, 4, 0)
    for more in ({"microbatches": 2}, {"mesh": graph.mesh("data"), "consistent": "bits"}):
        step = graph.train(lambda p, x: ((x @ p["w"]).sum(), x), **made, **more)
        with pytest.raises(ValueError, match="has_aux has neither"):
            step(rows)
