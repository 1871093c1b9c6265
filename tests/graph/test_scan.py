"""`scan`: in NumPy and as an operator, its derivatives of both orders, its borders; and what is refused."""

from typing import Any

import numpy as np
import pytest

from slangrad import graph

RNG = np.random.default_rng(5)
W, XS, H = RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=(5, 3)), RNG.normal(size=3)
ALONG = tuple(RNG.normal(size=x.shape) for x in (W, H, XS))


def network(w: Any, h: Any, xs: Any) -> Any:
    """A carry of two arrays, one of integers; two results; one array that the body finds outside."""

    def step(carry: Any, x: Any) -> Any:
        h = np.tanh(carry["h"] @ np.sin(w) + x)
        return {"h": h, "n": carry["n"] + 1}, (h, [h[:2] * carry["n"], "text"])

    return graph.scan(step, {"h": h, "n": np.int64(0)}, xs)


def loss(w: Any, h: Any, xs: Any) -> Any:
    last, (y, (z, _)) = network(w, h, xs)
    return (last["h"] ** 2).sum() + (np.sin(y)[:, :2] * z).sum()


def moved(s: float) -> list[Any]:
    return [x + s * d for x, d in zip((W, H, XS), ALONG, strict=True)]


def along(gradients: Any) -> Any:
    return sum((g * d).sum() for g, d in zip(gradients, ALONG, strict=True))


@pytest.mark.parametrize("length", [0, 1, 5])
def test_values_are_those_of_numpy(length: int) -> None:
    wanted, found = network(W, H, XS[:length]), graph.jit(network)(W, H, XS[:length])
    assert found[1][1][1] == "text"
    pairs = [(wanted[0][name], found[0][name]) for name in ("h", "n")]
    for want, got in [*pairs, (wanted[1][0], found[1][0]), (wanted[1][1][0], found[1][1][0])]:
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_derivatives_of_both_orders() -> None:
    gradient = graph.grad(loss, (0, 1, 2))
    found = along(gradient(W, H, XS))
    np.testing.assert_allclose(found, (loss(*moved(1e-6)) - loss(*moved(-1e-6))) / 2e-6, rtol=1e-8)
    np.testing.assert_allclose(graph.jvp(loss, (W, H, XS), ALONG)[1], found, rtol=1e-12)
    curvature = along(graph.grad(lambda *xs: along(gradient(*xs)), (0, 1, 2))(W, H, XS))
    slopes = [along(gradient(*moved(s))) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(curvature, (slopes[0] - slopes[1]) / 2e-6, rtol=1e-7)


def test_a_loop_runs_once_for_all_its_results_and_for_no_more() -> None:
    """The weights are not differentiated: no sum of their gradients is carried."""
    plan = graph.grad(loss, 2).explain(W, H, XS).plan
    assert [len(body.outputs) for body in plan.bodies.values()] == [4, 2]
    assert "5 times back" in str(graph.grad(loss).explain(W, H, XS))
    assert all(
        part.holder.op != "scan"
        for step in plan.steps
        for part in step.writes.values()
        if hasattr(part.holder, "op")
    )


def test_loops_in_loops_and_steps_without_elements() -> None:
    def total(x: Any) -> Any:
        def outer(c: Any, _: Any) -> Any:
            inner, _ = graph.scan(lambda a, b: (a * np.cos(b), None), c, x)
            return inner + 1, None

        return graph.scan(outer, x[0], length=3)[0]

    x = RNG.uniform(0.5, 1, 4)
    np.testing.assert_allclose(graph.jit(total)(x), total(x), rtol=1e-13)
    d = RNG.normal(size=4)
    found = (graph.grad(total)(x) * d).sum()
    np.testing.assert_allclose(found, (total(x + 1e-6 * d) - total(x - 1e-6 * d)) / 2e-6, rtol=1e-7)


def test_traced_values_that_only_the_body_reads() -> None:
    powers = graph.jit(lambda x: graph.scan(lambda c, _: (c * 1.0, x), np.float64(2), length=3))
    last, stacked = powers(np.arange(2.0))
    assert (float(last), stacked.tolist()) == (2.0, [[0, 1]] * 3)


def test_dicts_of_carries_are_in_any_order() -> None:
    def last(c: Any, x: Any) -> Any:
        return graph.scan(lambda c, x: ({"b": c["b"] * 3, "a": c["a"] + x}, None), c, x)[0]

    carry, xs = {"a": np.ones(2), "b": np.full(2, 7.0)}, np.arange(6.0).reshape(3, 2)
    made = graph.jit(last)(carry, xs)
    for key, value in last(carry, xs).items():
        np.testing.assert_array_equal(made[key], value)


@pytest.mark.parametrize("function", [lambda f: f, graph.jit], ids=["numpy", "graph"])
@pytest.mark.parametrize(("call", "said"), [
    (lambda x: graph.scan(lambda c, y: (c[None] + y, c), x, x), r"f64\[3\] becomes f64\[1,3\]"),
    (lambda x: graph.scan(lambda c, y: (c.astype(np.float32), c), x, x), r"f64\[3\] becomes f32\[3\]"),
    (lambda x: graph.scan(lambda c, y: ((c, c), c), x, x), "the carry"),
    (lambda x: graph.scan(lambda c, y: c, x, x), r"a pair: \(carry, y\)"),
    (lambda x: graph.scan(lambda c, y: (c, c), x, (x, x[:2])), "leading axes of 2, 3"),
    (lambda x: graph.scan(lambda c, y: (c, c), x), "leading axes of nothing"),
    (lambda x: graph.scan(lambda c, y: (c, c), x, x[0]), "leading axes of none"),
    (lambda x: graph.scan(lambda c, y: (c, c), x, length=-1), "leading axes of -1"),
    (lambda x: graph.scan(lambda c, y: (c, c), x, length=2.5), "length.*integer"),
])  # fmt: skip
def test_what_is_refused(function: Any, call: Any, said: str) -> None:
    with pytest.raises(graph.GraphError, match=said):
        function(call)(np.arange(3.0))
