"""Kernels that differ in numbers only are compiled once."""

import numpy as np
import pytest

from slangrad import graph
from slangrad.graph.planning.plan import Plan


def plan_of(function, *arrays) -> Plan:
    return graph.jit(function).explain(*arrays).plan


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint64])
def test_parts_with_other_numbers_share_a_kernel(dtype):
    numbers = np.array([3, 5, 7, 11, 13, 17]).astype(dtype)
    if dtype().dtype.kind == "f":
        numbers = numbers / dtype(3)

    def f(x):
        return np.concatenate([x * number - dtype(i) for i, number in enumerate(numbers)])

    x = np.arange(1, 6).astype(dtype)
    result = graph.jit(f)(x)
    np.testing.assert_array_equal(result, f(x))
    assert result.dtype == dtype
    texts = list(dict.fromkeys(step.name for step in plan_of(f, x).steps))
    assert len(texts) == 2, "x * number (of 0), and one kernel for the others"


def test_many_numbers_are_arguments():
    numbers = np.random.default_rng(2).standard_normal((5, 25)).tolist()

    def f(x):
        parts = []
        for row in numbers:
            y = x
            for number in row:
                y = y * number + number / 2
            parts.append(y)
        return np.concatenate(parts)

    x = np.linspace(-1, 1, 7)
    np.testing.assert_allclose(graph.jit(f)(x), f(x), rtol=1e-10, atol=1e-12)
    assert len({step.name for step in plan_of(f, x).steps}) == 1


def test_few_kernels_keep_their_numbers():
    def f(x):
        return np.concatenate([x * 1.5, x * 2.5, x * 3.5])

    x = np.arange(4.0)
    np.testing.assert_array_equal(graph.jit(f)(x), f(x))
    steps = plan_of(f, x).steps
    assert len({step.name for step in steps}) == 3
    assert not any(step.values for step in steps)


def test_numbers_that_are_equal_stay_in_the_text_and_make_another_kernel():
    def with_common(common):
        return lambda x: np.concatenate([np.sin(x * i) + common for i in (2.5, 3.5, 4.5, 5.5)])

    x = np.arange(4.0)
    plans = []
    for common in (0.25, 0.75):
        f = with_common(common)
        np.testing.assert_allclose(graph.jit(f)(x), f(x), rtol=1e-14)
        plans.append(plan_of(f, x))
    assert len({plan.steps[0].name for plan in plans}) == 2


def test_products_with_other_numbers_at_their_ends_share_a_kernel():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 7)), rng.standard_normal((7, 7)) * 0.3

    def f(x, w):
        for i in range(6):
            x = np.tanh(x @ w) * (1 + i / 8) + i / 4
        return x.sum()

    value, gradients = graph.value_and_grad(f, argnums=(0, 1))(x, w)
    np.testing.assert_allclose(value, f(x, w), rtol=1e-12)
    for k, gradient in enumerate(gradients):
        step = [rng.standard_normal(x.shape) * 1e-6, rng.standard_normal(w.shape) * 1e-6]
        along = [x + (k == 0) * step[0], w + (k == 1) * step[1]]
        back = [x - (k == 0) * step[0], w - (k == 1) * step[1]]
        np.testing.assert_allclose(
            (gradient * step[k]).sum() * 2, f(*along) - f(*back), rtol=1e-4, atol=1e-12
        )
    products = [step for step in plan_of(f, x, w).steps if step.name.startswith("product_")]
    assert len(products) == 6
    assert len({step.name for step in products}) <= 3


def test_loops_and_rows_share_kernels():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 70))

    def f(x):
        rows = [graph.softmax(x * (i + 0.5)) for i in range(5)]
        sums = [np.cumsum(x * (i + 0.25), 0) for i in range(5)]
        return rows, sums, [(x * (i + 0.125)).sum(0) for i in range(5)]

    for a, b in zip(graph.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(np.stack(a), np.stack(b), rtol=1e-12)
