"""Reductions of rows, and what reads them at the same row: one kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import new_input
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan

RNG = np.random.default_rng(9)


def plans(function: Callable[..., Any], *arrays: Any) -> tuple[list[Any], Plan]:
    """Results, fused and not."""
    nodes = [new_input(each.shape, each.dtype) for each in arrays]
    made = function(*map(Array, nodes))
    outputs = [each.node for each in (made if isinstance(made, tuple) else (made,))]
    found = []
    for fused in (False, True):
        plan = Plan(outputs, nodes, spy.default_device(), PlanOptions(fused=fused))
        found.append([x.to_numpy() for x in plan.run([as_tensor(plan.device, each) for each in arrays])])
    return found, plan


def check(
    function: Callable[..., Any], *arrays: Any, kinds: list[str] | None = None, rtol: float = 1e-12
) -> None:
    (plain, fused), plan = plans(function, *arrays)
    with np.errstate(all="ignore"):
        wanted = function(*arrays)
    for got, same, want in zip(fused, plain, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(got, same, rtol=rtol, atol=rtol)
    if kinds is not None:
        assert [group.kind for group in plan.fusion.groups] == kinds


@pytest.mark.parametrize("n", [8, 31, 32, 33, 100, 1000])
def test_softmax_is_one_kernel(n: int) -> None:
    check(graph.softmax, RNG.standard_normal((5, n)), kinds=["rows"])


@pytest.mark.parametrize(("dtype", "rtol"), [("e", 5e-3), ("f", 2e-6)])
def test_types(dtype: str, rtol: float) -> None:
    x = RNG.standard_normal((7, 50)).astype(dtype)
    check(lambda x: (graph.softmax(x), x.sum(1)), x, rtol=rtol)


def test_arrays_of_uint64_are_no_addresses() -> None:
    u, x = RNG.integers(1, 2**64, (2, 7, 50), dtype=np.uint64), RNG.standard_normal((7, 50))
    check(lambda x, a, b: graph.softmax(x) * (a % b), x, u[0][:, :1].copy(), u[1][0], kinds=["rows"])


@pytest.mark.filterwarnings("error")
def test_halves_whose_squares_are_none() -> None:
    x = np.linspace(-300, 300, 16).reshape(2, 8)
    for make in (graph.layer_norm, graph.jit(graph.layer_norm)):
        made = make(x.astype(np.float16))
        assert made.dtype == np.float16
        np.testing.assert_allclose(made, graph.layer_norm(x), rtol=1e-2)
    stats = np.zeros(2), np.ones(2), np.array([1.5, -2])
    trained = lambda x, *stats: graph.batch_norm(x.T, *stats, training=True)
    wanted = trained(x * 0.8, *stats)
    for call in (trained, graph.jit(trained)):
        for y, z in zip(call(*(each.astype(np.float16) for each in (x * 0.8, *stats))), wanted, strict=True):
            assert y.dtype == np.float16
            np.testing.assert_allclose(y, z, rtol=1e-2, atol=0.02)


def test_more_than_one_axis_of_rows_and_other_strides() -> None:
    x = RNG.standard_normal((3, 4, 40))
    check(lambda x: graph.layer_norm(x, x[0, 0], x[1, 1]), x, kinds=["rows"])
    check(lambda x: graph.softmax(x.swapaxes(0, 1)), x)  # rows that are not evenly apart
    check(lambda x: graph.softmax(x[:, 1, ::-2]), x, kinds=["rows"])
    check(lambda x: graph.softmax(x, 1), x)


def test_results_of_all_stages() -> None:
    """Sums, numbers of each row, rows that are stored and read again, a number of each row from anywhere."""

    def stages(x: Any, w: Any, y: Any) -> tuple[Any, ...]:
        m = x.max(1)
        e = np.exp(x - m[:, None])
        s = e.sum(1)
        p = e / s[:, None]
        q = (p * w).sum(1, keepdims=True)
        picked = np.take_along_axis(x, y[:, None], 1)[:, 0]
        return m, np.log(s) + m - picked, p, (p - q) * w, p.prod(1), (p * q).min(1)

    x, w = RNG.standard_normal((6, 70)), RNG.standard_normal((6, 70))
    check(stages, x, w, RNG.integers(-70, 70, 6))


def test_the_same_array_in_another_order() -> None:
    """A row that a lane keeps is not that of a view with other rows."""

    def f(x: Any) -> Any:
        a = np.tanh(x)
        m, turned = a - a.max(1, keepdims=True), a[::-1]
        return (
            a,
            m,
            np.exp(-abs(m)),
            m - m.max(1, keepdims=True),
            turned - turned.sum(1, keepdims=True),
            turned,
        )

    x = np.random.default_rng(4).normal(size=(40, 24))
    for made, wanted in zip(graph.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-13, atol=1e-15)


def test_costly_rows_of_several_stages_are_kept_once() -> None:
    def f(x: Any) -> Any:
        e = x - x.max(1, keepdims=True)
        for _ in range(8):
            e = np.tanh(np.exp(e) * np.sin(e))
        p = e / e.sum(1, keepdims=True)
        for _ in range(8):
            p = np.exp(np.tanh(p) * np.cos(p))
        q = p - p.sum(1, keepdims=True)
        return q / (q * q).sum(1, keepdims=True) - p * e

    x = np.random.default_rng(4).normal(size=(40, 24))
    np.testing.assert_allclose(graph.jit(f)(x), f(x), rtol=1e-12, atol=1e-15)


def test_rows_that_are_not_finite() -> None:
    x = RNG.standard_normal((4, 40))
    x[1, 3], x[2, 5], x[3] = np.nan, np.inf, -np.inf
    check(lambda x: (x.max(1), x.min(1), x - x.max(1, keepdims=True), x + x.min(1)[:, None]), x)


def test_a_kernel_between_two_stages() -> None:
    """A sum over all rows is read by rows: there are two kernels of rows."""

    def both(x: Any) -> Any:
        p = graph.softmax(x)
        return graph.softmax(p * p.sum())

    check(both, RNG.standard_normal((5, 64)), kinds=["rows", "reduce", "rows"])


def test_a_parameter_that_a_row_reads_is_not_overwritten_too_soon() -> None:
    p = RNG.standard_normal((4, 48))
    before = p.copy()
    graph.train(lambda p: np.log(np.exp(p[0]).sum(1)).sum(), spy.optim.SGD([p], lr=0.5))()
    e = np.exp(before)
    np.testing.assert_allclose(p, before - 0.5 * e / e.sum(1, keepdims=True), rtol=1e-12)


def test_gradients_of_rows() -> None:
    """Against differences, and once more."""
    x, d = RNG.standard_normal((3, 40)), RNG.standard_normal((3, 40))
    f = lambda x: (graph.softmax(x) * np.sin(x)).sum()
    gradient = graph.grad(f)
    slope = lambda x: (gradient(x) * d).sum()
    h = 1e-5
    np.testing.assert_allclose(slope(x), (f(x + h * d) - f(x - h * d)) / (2 * h), rtol=1e-8)
    twice = graph.grad(slope)(x)
    np.testing.assert_allclose((twice * d).sum(), (slope(x + h * d) - slope(x - h * d)) / (2 * h), rtol=1e-7)


def cross_entropy(z: Any, y: Any) -> Any:
    z = z - z.max(1, keepdims=True)
    return (np.log(np.exp(z).sum(1)) - np.take_along_axis(z, y[:, None], 1)[:, 0]).mean()


@pytest.mark.parametrize("largest", [1, 3])
def test_the_gradient_of_cross_entropy_is_softmax_minus_one_hot(largest: int) -> None:
    """The largest element, which is subtracted, has a derivative of zero: no sum of the row is left for it."""
    z, y = RNG.standard_normal((6, 50)), RNG.integers(-50, 50, 6)
    z[:, :largest] = 4.0
    both = graph.value_and_grad(cross_entropy)
    value, found = both(z, y)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    np.testing.assert_allclose(found, (p - np.eye(50)[y]) / 6, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(value, cross_entropy(z, y), rtol=1e-12)
    plan = both.explain(z, y).plan
    assert [node.op for node in plan.fusion.order].count("max") == 1
    assert sum(node.op == "sum" and node.inputs[0].shape == z.shape for node in plan.fusion.order) == 1
    assert next(group.kind for group in plan.fusion.groups) == "rows"
    shifted = graph.grad(lambda z: (np.exp(z - z.max(1, keepdims=True)) * z).sum())(z)  # here it is not zero
    e = np.exp(z - 4)
    is_it = z == 4.0
    want = e * z + e - is_it * (e * z).sum(1, keepdims=True) / is_it.sum(1, keepdims=True)
    np.testing.assert_allclose(shifted, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_a_softmax_divides_once_for_each_row(dtype: str) -> None:
    """Reciprocals of large sums of halves are not exact enough; other quotients stay as they are."""
    x = RNG.standard_normal((6, 40)).astype(dtype)
    x[1, 3], x[2, 5], x[3] = np.nan, np.inf, -np.inf

    def function(x: Any) -> Any:
        return graph.softmax(x), x / np.abs(x).sum(1, keepdims=True)

    ops = [node.op for node in graph.jit(function).explain(x).plan.fusion.order]
    assert (ops.count("divide"), ops.count("reciprocal")) == ((2, 0) if dtype == "e" else (1, 1))
    with np.errstate(all="ignore"):
        for got, want in zip(graph.jit(function)(x), function(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=8 * np.finfo(dtype).eps)
