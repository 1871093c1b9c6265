"""Every operator against NumPy, and its derivatives against differences: forward = reverse, and once more."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.ops import OPS

RNG = np.random.default_rng(3)
A, B = RNG.uniform(0.2, 2.0, (3, 4)), RNG.uniform(0.3, 1.7, (3, 4))
S, T = RNG.uniform(-0.9, 0.9, (3, 4)), RNG.uniform(-2.0, 2.0, (2, 3, 4))
M, N = RNG.uniform(-1, 1, (4, 5)), RNG.uniform(-1, 1, (2, 5, 3))
IDS, J = np.array([2, 0, -1, 1, 2]), np.array([[1], [-1], [0]])
K = np.array([[1, 0, -2, 3], [2, 2, 2, 2], [0, 1, 2, 3]])
POWERS = np.array([0.5, 2.5, -2.5, 3.0, -3.0, np.inf, -np.inf, np.nan])
EXTREME = np.array([[-np.inf, -2.0, -1.0, -0.0, 0.0, 5.5, np.inf, np.nan]]).T

# fmt: off
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add":          (lambda a, b: a + b, (A, B)),
    "subtract":     (lambda a, b: a - b[0] - 2, (A, B)),
    "multiply":     (lambda a, b: a * b[:, :1] * 3.0, (A, B)),
    "divide":       (lambda a, b: a / b, (A, B)),
    "negative":     (lambda a: -a, (A,)),
    "positive":     (lambda a: +a, (A,)),
    "absolute":     (lambda a: np.abs(a), (S,)),
    "square":       (lambda a: np.square(a), (S,)),
    "reciprocal":   (lambda a: np.reciprocal(a), (A,)),
    "sqrt":         (np.sqrt, (A,)),
    "cbrt":         (np.cbrt, (A,)),
    "exp":          (np.exp, (S,)),
    "exp2":         (np.exp2, (S,)),
    "expm1":        (np.expm1, (S,)),
    "log":          (np.log, (A,)),
    "log2":         (np.log2, (A,)),
    "log10":        (np.log10, (A,)),
    "log1p":        (np.log1p, (A,)),
    "sin":          (np.sin, (S,)),
    "cos":          (np.cos, (S,)),
    "tan":          (np.tan, (S,)),
    "arcsin":       (np.arcsin, (S,)),
    "arccos":       (np.arccos, (S,)),
    "arctan":       (np.arctan, (S,)),
    "sinh":         (np.sinh, (S,)),
    "cosh":         (np.cosh, (S,)),
    "tanh":         (np.tanh, (S,)),
    "arcsinh":      (np.arcsinh, (S,)),
    "arccosh":      (lambda a: np.arccosh(1.5 + a), (A,)),
    "arctanh":      (np.arctanh, (S,)),
    "arctan2":      (np.arctan2, (S, B)),
    "hypot":        (np.hypot, (A, B)),
    "power":        (lambda a, b: a**b + a**3 + b**0.5 + a**2, (A, B)),
    "logaddexp":    (np.logaddexp, (A, S)),
    "maximum":      (np.maximum, (A, B)),
    "minimum":      (lambda a, b: np.minimum(a, b) + np.clip(a, 0.5, 1.5), (A, B)),
    "fmax":         (np.fmax, (A, B)),
    "fmin":         (np.fmin, (A, B)),
    "remainder":    (lambda a: a % 0.7, (A,)),
    "deg2rad":      (lambda a: np.deg2rad(a) + np.rad2deg(a), (A,)),
    "where":        (lambda a, b: np.where(a > b, a * b, b - 2 * a), (A, B)),
    "convert":      (lambda a: a.astype(np.float64) * 2, (A,)),
    "broadcast":    (lambda a: np.broadcast_to(a[:1], (2, 3, 4)) * 2, (A,)),
    "transpose":    (lambda t: np.moveaxis(t, 0, -1) * t.transpose(1, 2, 0) + t.swapaxes(0, 2).swapaxes(0, 1), (T,)),
    "reshape":      (lambda t: t.swapaxes(0, 1).reshape(6, 4) * t.reshape(-1, 4), (T,)),
    "slice":        (lambda t: t[1, ::-1, 1:4:2] * t[0, :, None, -1:][:, 0], (T,)),
    "windows":      (lambda t: np.max(np.lib.stride_tricks.sliding_window_view(t, (2, 3), (1, 2))[:, :, ::2], (-2, -1)), (T,)),
    "stop_gradient": (lambda a: a * 2, (A,)),
    "place":        (lambda a: np.pad(a, ((1, 2), (0, 3))) + np.pad(a, ((1, 2), (0, 3)), constant_values=1.5), (A,)),
    "concatenate":  (lambda a, b: np.concatenate([a, b * a, b[:, :2]], axis=1) + np.stack([a, b]).sum(), (A, B)),
    "sum":          (lambda t: t.sum((0, 1)) + t.sum() * t.sum(1, keepdims=True).sum(0), (T,)),
    "prod":         (lambda t: t.prod(1) * (t * (t > -1)).prod((0, 1)), (T,)),
    "max":          (lambda t: t.max(1) * t.max((0, 2)).sum(), (T,)),
    "min":          (lambda t: t.min() * t.min(0), (T,)),
    "cumsum":       (lambda t: np.cumsum(t, 1) * np.cumsum(t).reshape(t.shape), (T,)),
    "einsum":       (lambda a, n, m: (m @ n) @ np.einsum("ij,bjk->bki", a, n[:, :4] * m.sum()), (A, N, M)),
    "conv":         (lambda t, n: graph.conv2d(t[None], n[:, :4].reshape(3, 2, 2, 2), n[0, 4], stride=(1, 2), padding=(1, 2), dilation=(2, 1)), (T, N)),
    "take_along":   (lambda a: np.take_along_axis(a, K, 1) * a + np.take_along_axis(a * a, J, 1), (A,)),
    "add_along":    (lambda t: t[:, IDS] * 2 + t[:, IDS, :1] ** 2 + np.take(t, J, 0).sum((0, 1, 2)), (T,)),
    "of each row":  (lambda t: t[np.arange(2), K[0, :2] - 1] * t[:, np.arange(3), np.array([3, 0, -1])].sum() + t[0, np.arange(3), np.arange(3)][:2, None], (T,)),
    "mean":         (lambda t: t.mean(1, keepdims=True) + t.var((0, 2), keepdims=True) + np.std(t, 2)[:, :, None], (T,)),
    "softmax":      (lambda t: graph.softmax(t) + graph.log_softmax(t, 1) + graph.layer_norm(t, t[0, 0], t[1, 1]), (T,)),
    "batch_norm":   (lambda t, m, v: graph.batch_norm(t, m[0, :3], v[0, :3], m[1, :3], v[1, :3]), (T, S, A)),
    "batch_norm in training": (lambda t, m: graph.batch_norm(t, m[0, :3], m[1, :3], m[2, :3], m[0, 1:], training=True)[0], (T, S)),
    "pooling":      (lambda t: graph.max_pool2d(t, 2) + graph.avg_pool2d(t, 2, 1, 1)[:, 1:2, ::2][:, :, :2], (T,)),
    "attention":    (lambda t, m: graph.attention(t, t[:, :2] * m[:1], t[:, 1:] + 1, causal=True, mask=m[:, :2]), (T, S)),
    "flip":         (lambda t: np.roll(np.flip(t, 1), 2, 2) + np.repeat(t[:, :, :2], 2, 2) + np.tril(t) - np.triu(t, 1), (T,)),
    "stacks":       (lambda a, b: np.vstack([a * b, b[0]]) * np.vstack([a[0], b]) + np.hstack([a[:, :1], b[:, 1:]]).sum(), (A, B)),
    "tile":         (lambda a, b: np.tile(a, (2, 1)) * np.kron(np.diag(b[0])[:2, :1], b)[:6] + np.rot90(a, 2).sum() + np.inner(a, b)[0].sum(), (A, B)),
    "average":      (lambda a, b: np.average(a, 0, b) + np.trapezoid(a, b, axis=0) + np.nanmean(a, 0) * np.nanmax(b, 0) + np.ptp(a, 0), (A, B)),
    "diff":         (lambda t: np.diff(t, axis=1).sum(1) * np.diff(t, 2)[:, 0].sum() + np.hstack([t[0, 0], t[0, 1, :2]])[:4], (T,)),
    "diagonal":     (lambda t: np.trace(t, 1, 1, 2) * t[:, :2, :2].trace(-1, 0, 1) * np.diagonal(t, 0, -1, 0).sum(0)[:2], (T,)),
    "norm":         (lambda t: np.linalg.norm(t, axis=2) * np.linalg.norm(t[0, 0]) / np.linalg.norm(t) + np.linalg.norm(t, axis=(0, 2)), (T,)),
    "norms":        (lambda t: np.linalg.norm(t, 1, 2, True) + np.linalg.norm(t, np.inf, 1)[:, None] + np.linalg.norm(t, -np.inf, 0), (T,)),
    "apart":        (lambda t: t[K[2] % 2, :, K[0]] + t[K[2] % 2, None, 1:, K[0]].sum(2), (T,)),
    "einsum of diagonals": (lambda t, m: np.einsum("iji,kk->jk", t[:, :, :2], m[:4, :4]) + np.einsum("...ii", t[:, :, :3]).sum(), (T, M)),
    "outer":        (lambda a, m: np.multiply.outer(a, m[0]).sum(0) + np.add.accumulate(a, 1)[0, :, None] * np.subtract.outer(m[0, 0], a[1])[:, None], (A, M)),
    "dot":          (lambda a, m: np.dot(a, m[:, 0])[:, None] + np.tensordot(a, m, 1) + np.outer(a[0, :3], m[0]), (A, M)),
}
EXACT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sign":          (lambda a: np.sign(a - 0.1), (S,)),
    "extreme":       (lambda x, p: (np.sign(x), x // x.T, x // p, x % p, np.power(x, p)), (EXTREME, POWERS)),
    "floor":         (lambda t: np.floor(t) + 2 * np.ceil(t) + 4 * np.trunc(t) + 8 * np.rint(t), (T,)),
    "floor_divide":  (lambda t, k: (t // 0.3, k // 2, k // -2, k % 2, k % -2, -t % 0.7), (T, K)),
    "compare":       (lambda a, b: (a < b, a <= b, a > b, a >= b, a == a, a != b), (A, B)),
    "logical":       (lambda k, i: ((k > 0) & (k < 2), (k > 0) | (k < 2), (k > 0) ^ (k < 2), ~(k > 0), np.logical_and(k, k), k & 1, k | 4, k ^ 3), (K, IDS)),
    "shifts":        (lambda k, i: (k << 2, k >> 1, k << i[:4], k.astype(np.uint8) >> np.uint8(3), k.astype(np.uint8) << np.uint8(9), k.astype(np.int8) >> np.int8(8), (k > 0) << (k < 2)), (K, np.array([0, 63, 64, -1, 2]))),
    "special":       (lambda a: (np.isnan(a / 0), np.isinf(a / 0), np.isfinite(a / 0), np.maximum(a, np.nan)), (np.array([0.0, 1, -1]),)),
    "close":         (lambda a, x: (np.isclose(a, a + np.array([0, 1e-9, 1e-3, 1])), np.isclose(x, x.T, equal_nan=True), np.isclose(x, 5, 0.1, 0.2), np.allclose(a, a), np.allclose(a, 2 * a)), (A, EXTREME)),
    "scan":          (lambda t, k: (t.argmax(1), t.argmin(), k.argmax(0), np.cumsum(k, 1), t.argmax(2)), (T, K)),
    "types":         (lambda a, k: (k.sum(), k.mean(0), (a > 1).sum(0), (a > 1).any(1), (a > 1).all(), k / 2, k.max(), k.prod(0)), (A, K)),
    "indices":       (lambda t, k: (t[..., None, 1], t[1], t[-1, 1:, ::-2], t[:, K[0] % 3, K[1]], np.take(t, k % 3, 1), len(t)), (T, K)),
    "index_in":      (lambda x, i: (x[i, -i], x[i - 100, i]), (np.arange(6e4).reshape(300, 200), np.array([100, 0, 127], np.int8))),
    "like":          (lambda a: (np.zeros_like(a), np.full_like(a, 2.5), np.ones_like(a, dtype=np.int32)), (A,)),
    "empty":         (lambda a: (a[:0].sum(0), a[:, :0].sum(1), a[:0] * 2, np.concatenate([a[:0], a]), a[:0] @ a.T, a[:, :0] @ a[:, :0].T), (A,)),
    "scalars":       (lambda a: (a.sum(), a[0, 0] * 2, 3 * a.mean() + 1, a.sum().reshape(1, 1)), (A,)),
}
# fmt: on


def flat(made: Any) -> list[Any]:
    return [np.asarray(each) for each in (made if isinstance(made, tuple | list) else [made])]


def drawn(table: Iterable[str], count: int) -> list[str]:
    """The names of which the normal run has the programs."""
    return [str(name) for name in np.random.default_rng(8).permutation(list(table))[:count]]


def check_values(names: Iterable[str]) -> None:
    """All in one graph: the table's kernels are compiled together."""
    every = {name: {**SMOOTH, **EXACT}[name] for name in names}

    def values(given: dict[str, Any]) -> dict[str, Any]:
        return {name: function(*given[name]) for name, (function, _) in every.items()}

    found = graph.jit(values)({name: arrays for name, (_, arrays) in every.items()})
    for name, (function, arrays) in every.items():
        with np.errstate(all="ignore"):
            wanted = flat(function(*arrays))
        for got, want in zip(flat(found[name]), wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape), name
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14, err_msg=name)


def test_values_are_those_of_numpy() -> None:
    check_values(drawn(SMOOTH, 25) + drawn(EXACT, 7))


@pytest.mark.deep
def test_all_values_are_those_of_numpy() -> None:
    check_values({**SMOOTH, **EXACT})


def weights(made: Any) -> Any:
    """Different ones for each element of a result, so that gradients do not cancel."""
    return np.cos(np.arange(made.size)).reshape(made.shape)


def number(name: str, given: Any) -> Any:
    """The function as one number."""
    made = SMOOTH[name][0](*given)
    return (made * weights(made)).sum()


def one(name: str, given: Any, along: Any) -> Any:
    """The gradient, its product with a direction, that of forward mode, and the product with the Hessian by reverse over
    reverse and by forward over reverse."""
    gradient = graph.grad(lambda xs: number(name, xs))
    inner = lambda xs: sum((g * d).sum() for g, d in zip(gradient(xs), along, strict=True))
    _, tangent = graph.jvp(lambda xs: number(name, xs), (given,), (along,))
    _, curvature = graph.jvp(gradient, (given,), (along,))
    return gradient(given), tangent, graph.grad(inner)(given), curvature


def check_derivatives(names: list[str]) -> None:
    rng = np.random.default_rng(5)
    arrays = {name: SMOOTH[name][1] for name in names}
    along = {name: tuple(rng.uniform(-1, 1, x.shape) for x in each) for name, each in arrays.items()}
    found = graph.jit(lambda a, b: {name: one(name, a[name], b[name]) for name in names})(arrays, along)
    for name in names:
        gradient, tangent, twice, curvature = found[name]
        moved = [[x + s * 1e-5 * d for x, d in zip(arrays[name], along[name], strict=True)] for s in (-1, 1)]
        difference = (number(name, moved[1]) - number(name, moved[0])) / 2e-5
        by_gradient = sum((g * d).sum() for g, d in zip(gradient, along[name], strict=True))
        np.testing.assert_allclose(by_gradient, difference, rtol=2e-7, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(tangent, by_gradient, rtol=1e-10, atol=1e-12, err_msg=name)
        slopes = [graph_gradient(name, each) for each in moved] if name in names[:3] else None
        for i, (a, b) in enumerate(zip(twice, curvature, strict=True)):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9, err_msg=name)
            if slopes is not None:
                wanted = (slopes[1][i] - slopes[0][i]) / 2e-5
                np.testing.assert_allclose(a, wanted, rtol=1e-6, atol=1e-7, err_msg=name)


def graph_gradient(name: str, given: Any) -> Any:
    return graph.grad(lambda xs: number(name, xs))(tuple(given))


NAMES = list(SMOOTH)


def test_derivatives_are_those_of_differences() -> None:
    check_derivatives(drawn(NAMES, 6))


@pytest.mark.deep
@pytest.mark.parametrize("start", range(0, len(NAMES), 10))
def test_all_derivatives_are_those_of_differences(start: int) -> None:
    check_derivatives(NAMES[start : start + 10])


def test_second_derivatives_at_zeros() -> None:
    """Products of which one or two factors are zero, and powers of which exponents are."""
    x, p = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]]), np.array([0.0, 1.0, 2.0])

    def hessians(function: Any, at: Any) -> Any:
        gradient, ways = graph.grad(function), []
        for i in range(at.size):
            along = np.eye(at.size)[i].reshape(at.shape)
            ways.append(
                (
                    graph.grad(lambda z, d=along: (gradient(z) * d).sum())(at),
                    graph.jvp(gradient, (at,), (along,))[1],
                )
            )
        return [np.stack([way[k] for way in ways]) for k in (0, 1)]

    def power(z: Any) -> Any:
        return (z[0] ** z[1]).sum()

    of_product, of_power = graph.jit(
        lambda x, z: (hessians(lambda x: x.prod(1).sum(), x), hessians(power, z))
    )(x, np.stack([x[0] + 1, p]))
    wanted = np.zeros((2, 3, 2, 3))
    for row, i, j in np.ndindex(2, 3, 3):
        wanted[row, i, row, j] = 0 if i == j else np.delete(x[row], [i, j]).prod()
    for found in of_product:
        np.testing.assert_array_equal(found, wanted.reshape(6, 2, 3))
    base = x[0] + 1
    mixed = base ** (p - 1) * (1 + p * np.log(base))
    for found in of_power:
        np.testing.assert_allclose(np.diagonal(found[:3, 1]), mixed, rtol=1e-14)
        np.testing.assert_allclose(np.diagonal(found[3:, 0]), mixed, rtol=1e-14)


@pytest.mark.parametrize("at", [(0, 4), (3, 0), (0, -5), (-4, 0)])
def test_indices_out_of_range_are_reported(at: tuple[int, int]) -> None:
    i, j = np.array(at)[:, None]
    for call in (graph.jit(lambda a: a[i, j]), graph.grad(lambda a: (a[i, j] * 2).sum())):
        with pytest.raises(spy.BoundsError, match="out of range") as caught:
            call(A)
        assert "the graph indexes arrays at test_operators.py:" in caught.value.__notes__[0]


@pytest.mark.parametrize("far", [4, -5])
def test_an_index_out_of_range_is_reported_where_the_gradient_alone_is_computed(far: int) -> None:
    with pytest.raises(spy.BoundsError, match=f"index {far} is out of range"):
        graph.grad(lambda a: np.take_along_axis(a, np.full((3, 1), far), 1).sum())(A)


def test_indices_of_64_bits_are_not_cut_off() -> None:
    """2^32 is no index, also where 0 is one. As in NumPy, the largest uint64 counts from the end."""
    a = np.arange(12.0).reshape(3, 4)
    calls = [
        graph.jit(lambda a, i: np.take(a, i, 1)),
        graph.jit(lambda a, i: a[i].sum()),
        graph.grad(lambda a, i: np.take_along_axis(a, np.stack([i, i, i]), 1).sum()),
    ]
    for call in calls:
        for i in (2**32, -(2**32), 2**31, 2**63 - 1, -(2**63)):
            with pytest.raises(spy.BoundsError, match="out of range"):
                call(a, np.array([0, i]))
    assert calls[0](a, np.array([2**64 - 1], np.uint64)).tolist() == a[:, -1:].tolist()


def test_every_operator_has_a_program() -> None:
    sources = {
        "input",
        "captured",
        "constant",
        "count",
        "slang",
        "threefry",
        "gaussian",
        "product",
        "scan",
        "attend",
        "result",
        "shard",
    }
    sources |= {"all_reduce", "all_gather", "all_to_all", "own_part"}  # of tests/graph/workers
    tested = {
        *SMOOTH,
        *EXACT,
        "ceil",
        "trunc",
        "rint",
        "rad2deg",
        "left_shift",
        "right_shift",
        "invert",
        "argmax",
        "argmin",
        "isnan",
        "isinf",
        "isfinite",
    }
    named = {
        name
        for name in OPS
        if name.startswith(("logical", "bitwise", "less", "greater", "equal", "not_equal"))
    }
    assert OPS.keys() - sources - named <= tested
