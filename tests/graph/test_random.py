"""Random numbers: known answers, the same bits wherever they are computed, distributions."""

from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays import random
from slangrad.graph.arrays.array import mapped
from slangrad.graph.arrays.random import U64, _threefry

KEY = random.key(7)

# The answers that the authors of Threefry publish with it: key, count, bits.
KNOWN = (
    (0x0000000000000000, 0x0000000000000000, 0x6B20015999BA4EFE),
    (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x1CB996FCBB002BE7),
    (0x13198A2E03707344, 0x243F6A8885A308D3, 0xC4923A9C483DF7A0),
)


def draws(key: Any) -> dict[str, Any]:
    a, b = random.split(key)
    return {
        "keys": random.split(a, 5),
        "uniform": random.uniform(a, (5, 7)),
        "doubles": random.uniform(b, 1000, np.float64),
        "halves": random.uniform(b, (10, 10), np.float16),
        "between": random.uniform(b, 1000, np.float32, -3, 5.1),
        "normal": random.normal(a, (30, 7)),
        "normal doubles": random.normal(a, 3000, np.float64),
        "one": random.normal(a),
        "integers": random.randint(a, (1000,), -5, 20, np.int32),
        "bernoulli": random.bernoulli(a, np.linspace(0, 1, 50)),
        "dropout": random.dropout(b, np.ones((3, 4), np.float32), 0.3),
        "none": random.normal(b, (0, 3)),
    }


def test_known_answers() -> None:
    keys, counts, bits = (np.array(column, U64) for column in zip(*KNOWN, strict=True))
    assert [int(_threefry(int(k), np.array([c], U64))[0]) for k, c in zip(keys, counts, strict=True)] == [
        *bits
    ]
    found = graph.jit(lambda k, c: mapped("threefry", [k, c], U64))(keys, counts)
    assert [*found] == [*bits]


def test_the_same_bits_wherever_they_are_computed() -> None:
    """In NumPy; in kernels; on one thread; on other data in the same kernel; traced with a key that is not known."""
    wanted = draws(KEY)
    device = spy.create_device(options=spy.Options(threads=1))
    for found in (graph.jit(draws)(KEY), graph.jit(draws, device=device)(KEY)):
        for name, each in wanted.items():
            assert (found[name].dtype, found[name].shape) == (each.dtype, each.shape), name
            np.testing.assert_array_equal(found[name], each, err_msg=name)
    fused = graph.jit(lambda k, x: (np.tanh(x) * random.normal(k, x.shape)).sum(0))(KEY, np.ones((300, 2)))
    np.testing.assert_allclose(fused, np.tanh(1) * random.normal(KEY, (300, 2)).sum(0, float), rtol=1e-6)
    seeds = graph.jit(lambda seed: random.uniform(random.key(seed), 4))(np.int64(7))
    np.testing.assert_array_equal(seeds, random.uniform(KEY, 4))


def test_distributions() -> None:
    n = 40000
    u = np.sort(random.uniform(KEY, n, np.float64))
    assert np.abs(u - (np.arange(n) + 0.5) / n).max() < 1.6 / n**0.5  # Kolmogorov and Smirnov
    z = random.normal(KEY, (n, 2), np.float64)
    for moment, wanted, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert np.abs((z**moment).mean(0) - wanted).max() < 3.5 * (spread / n) ** 0.5
    assert abs((z[:, 0] * z[:, 1]).mean()) < 3.5 / n**0.5
    counts = np.bincount(random.randint(KEY, n, 3, 20))[3:]
    assert len(counts) == 17
    assert ((counts - n / 17) ** 2 / (n / 17)).sum() < 40  # chi squared, 16 degrees of freedom
    assert abs(random.bernoulli(KEY, 0.3, n).mean() - 0.3) < 3.5 * (0.21 / n) ** 0.5
    children = random.split(KEY, 1000)
    assert len(np.unique(children)) == 1000
    means = np.array([random.uniform(k, 12).mean() for k in children])
    assert abs(means.std() - 1 / 12) < 0.006


def test_dropout_has_a_gradient() -> None:
    x = np.linspace(1, 2, 60).reshape(6, 10)
    kept = random.dropout(KEY, np.ones_like(x), 0.4)
    assert set(np.unique(kept)) == {0.0, 1 / 0.6}
    slope = graph.grad(lambda x, k: (random.dropout(k, x, 0.4) ** 2).sum())
    np.testing.assert_allclose(slope(x, KEY), 2 * x * kept**2, rtol=1e-12)
    np.testing.assert_array_equal(random.dropout(KEY, x, 0), x)


def test_gradients_of_ends() -> None:
    """Numbers between ends follow these."""
    ends = (np.float64(-1.0), np.float64(3.0))
    total = lambda ends: (random.uniform(KEY, 9, np.float64, *ends) ** 2).sum()
    u = random.uniform(KEY, 9, np.float64)
    low, high = graph.grad(total)(ends)
    np.testing.assert_allclose(low, (2 * (-1 + 4 * u) * (1 - u)).sum(), rtol=1e-12)
    np.testing.assert_allclose(high, (2 * (-1 + 4 * u) * u).sum(), rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "low", "high"), [
    (np.int64, -(2**63), 2**63), (np.uint64, 0, 2**64), (np.int8, np.int8(-128), 128), (np.int32, np.int32(-3), 4),
])  # fmt: skip
def test_integers_of_the_whole_range(dtype: Any, low: int, high: int) -> None:
    drawn = lambda k: (random.randint(k, 2000, low, high, dtype), random.randint(k, (), low, high, dtype))
    many, one = drawn(KEY)
    assert (many.dtype, one) == (dtype, many[0])
    assert int(many.max()) - int(many.min()) > 0.99 * (int(high) - 1 - int(low))
    for wanted, found in zip((many, one), graph.jit(drawn)(KEY), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_ends_are_rounded_to_the_type_of_the_numbers() -> None:
    ends = np.linspace(0.1, 0.9, 1000)
    drawn = lambda k, x: random.uniform(k, 1000, low=x, high=2.0)
    np.testing.assert_array_equal(graph.jit(drawn)(KEY, ends), drawn(KEY, ends))


@pytest.mark.parametrize(("call", "said"), [
    (lambda: random.normal(7), "a key is one uint64"),
    (lambda: random.uniform(random.split(KEY)), "a key is one uint64"),
    (lambda: random.uniform(KEY, 3, np.int32), "not int32"),
    (lambda: random.randint(KEY, 3, 5, 5), "no integers from 5"),
    (lambda: random.randint(KEY, 3, 0, 300, np.uint8), "uint8 has no integers from 0 to 300"),
    (lambda: random.randint(KEY, 3, 0, 3, float), "float64 has no integers"),
    (lambda: random.normal(KEY, (2, -3)), r"shape \(2, -3\)"),
    (lambda: random.normal(KEY, 2.5), "shape.*integer"),
    (lambda: random.split(KEY, -1), r"shape \(-1,\)"),
    (lambda: random.key(1.5), "key.*integer"),
    (lambda: random.dropout(KEY, np.ones(3), 1.0), "rate is 1.0"),
    (lambda: graph.jit(lambda k: random.normal(k))(np.ones(2, U64)), r"graph.random.key\(seed\)"),
])  # fmt: skip
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises(graph.GraphError, match=said):
        call()


@pytest.mark.parametrize(
    "seed", [5, -5, np.int64(-5), np.int32(7), np.int8(-5), np.uint8(5), np.uint64(2**62), True]
)
def test_keys_are_made_of_any_integer(seed: Any) -> None:
    """Alone, and where the numbers are a part of a product: kernels take pointers to seed and key."""
    x = np.random.default_rng(0).standard_normal((20, 12)).astype(np.float32)

    def dropped(seed: Any, x: Any) -> Any:
        key = random.key(seed * 3 + 1)
        return key, random.dropout(key, x @ x.T, 0.5)

    wanted, found = dropped(seed, x), graph.jit(dropped)(seed, x)
    assert wanted[0] == found[0] == (int(seed) * 3 + 1) % 2**64 and found[0].dtype == U64
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-5)
    of_key = graph.jit(lambda key, x: random.dropout(key, x @ x.T, 0.5))
    np.testing.assert_array_equal(of_key(wanted[0], x), found[1])


@pytest.mark.parametrize("seed", [np.float32(2), np.ones(1, int)])
def test_keys_are_made_of_integers_alone(seed: Any) -> None:
    for make in (random.key, graph.jit(random.key)):
        with pytest.raises(graph.GraphError, match=r"test_random.py:.*random\.key") as caught:
            make(seed)
        assert caught.value.code == "E1042"
