"""Keywords of NumPy's functions, borders of types, empty arrays and captured numbers: NumPy's result or an error."""

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph

X = np.array([[1.0, -2.5, 0.0], [3.0, 4.5, -1.0]], np.float32)
INTS, U = np.array([[1, 15, 25], [-7, -15, 3]]), np.array([1, 2**63 + 5, 0], np.uint64)
FAR, U8 = np.array([2**63 - 1, -(2**63), 2**53 + 1]), np.array([0, 1, 255], np.uint8)
B, E = X > 0, np.zeros((0, 3), np.float32)
Case = Callable[..., Any]

SAME: dict[str, tuple[Case, tuple[Any, ...]]] = {
    "dtype of ufuncs": (lambda i, x: [np.add(i, i, dtype=float), np.add(x, 1, dtype="f8", where=True)], (INTS, X)),
    "dtype of matmul": (lambda x: np.matmul(x, x.T, dtype=np.float64), (X,)),
    "reduce": (
        lambda x: [
            np.add.reduce(x), np.add.reduce(x, None), np.maximum.reduce(x, axis=1, keepdims=True),
            np.logical_and.reduce(x), np.logical_or.reduce(x, 1), np.add.reduce(x, dtype=np.float64),
        ], (X,),
    ),
    "sums of truth values": (lambda i: [np.sum(i, dtype=bool), np.prod(i, 0, bool), np.max(i, 0, None, True)], (INTS,)),
    "mean and var": (
        lambda x: [
            x.mean(0, np.float64), np.var(x, 1, correction=1), np.var(x, dtype=np.float64), np.std(x, ddof=1),
            np.mean(x, where=np._NoValue), np.var(x, ddof=7),
        ], (X,),
    ),
    "cumsum": (lambda i: [np.cumsum(i, 1, np.float32), i.cumsum(dtype=np.int32)], (INTS,)),
    "argmax": (lambda x: [np.argmax(x, keepdims=True), x.argmin(1, keepdims=True), np.argmax(x, 0)], (X,)),
    "like": (
        lambda x: [
            np.zeros_like(x, int), np.ones_like(x, np.float64, "K"), np.full_like(x, [1, 2, 3], np.int32),
            np.full_like(x, 2.5), np.zeros_like(x, shape=4),
        ], (X,),
    ),
    "concatenate": (lambda x: [np.concatenate([x, x], dtype="f8"), np.stack([x, x], 1, dtype="f8")], (X,)),
    "copies": (lambda x: [x.copy(order="C"), np.take(x, [1], mode="raise"), x.astype("f8", casting="safe")], (X,)),
    "signs": (
        lambda i, u: [i < u, i >= u, i == u, u > i, u != i, u <= i, i[:, :1] < u],
        (np.array([[-1, 5, 0], [1, -(2**63), 9]]), U),
    ),
    "round": (lambda i, x: [np.round(i, 1), np.round(i, -1), np.round(i), np.round(x, 1), x.round(-1)], (INTS, X)),
    "triangles": (lambda b: [np.tril(b), np.triu(b, 1), np.tril(b[0]), np.triu(b[0], 1)], (B,)),
    "choices": (lambda b: [np.where(b, True, b), np.where(b, b, False), np.where(b, True, 2)], (B,)),
    "empty": (
        lambda e: [
            e.reshape(-1, 3), e.ravel(), e.cumsum(), e.any(), e.all(), e.any(0), e.all(0), e.any(1),
            np.argmax(e, 1), np.logical_or.reduce(e),
        ], (E,),
    ),
    "differences": (lambda i, b: [np.diff(b), np.diff(i, 0), np.diff(i, 5, 0), np.diff(i, axis=0)], (INTS, B)),
    "traces": (
        lambda i, b: [np.trace(i), np.trace(i, 7), np.trace(b), i.trace(0, 1, 0, np.float32), np.diagonal(i, -1)], (INTS, B),
    ),
    "norms": (lambda i, x: [np.linalg.norm(i), np.linalg.norm(x, "fro", (0, 1), True), np.linalg.norm(x[0], 2)], (INTS, X)),
    "stacked": (lambda i, x: [np.vstack([i, x[0]]), np.hstack([i[0, 0], x[0]]), np.hstack([x, x], dtype="f8")], (INTS, X)),
    "close": (lambda i, u, b: [np.isclose(i, u), np.isclose(b, i), np.isclose(u, u, atol=1), np.allclose(i, b)], (INTS, U, B)),
    "roll": (
        lambda x: [np.roll(x, (1, 2), (0, 1)), np.roll(x, 1, (0, -1)), np.roll(x, (1, 2)), np.roll(x, np.int64(-1), 1)], (X,),
    ),
    "split": (
        lambda x: [*np.split(x, np.int64(3), 1), *np.split(x, np.array([-1]), 1), *np.split(x[:0], 2)], (X,),
    ),
    "repeat": (
        lambda x: [np.repeat(x, [1, 2, 0], 1), np.repeat(x, [2], 0), x.repeat(range(6)), np.repeat(x, 0)], (X,),
    ),
    "products": (
        lambda x: [np.einsum("ij,kj", x, x, optimize="greedy"), np.tensordot(x, x.T, np.int64(1))], (X,),
    ),
    "integer powers": (lambda i: [i ** np.int64(3), np.power(i, i.astype(np.uint8) % 5), i**True], (INTS,)),
    "truth values": (
        lambda b: [f(b) for f in (np.floor, np.ceil, np.trunc, np.isnan, np.isinf, np.isfinite)] + [np.fmax(b, ~b), np.fmin(b, b[0])],
        (B,),
    ),
    "integers are whole": (
        lambda i, b: [f(x) for f in (np.floor, np.ceil, np.trunc) for x in (i, b, i.astype(np.uint64))], (FAR, B),
    ),
    "clip": (lambda u, x: [np.clip(u, -1, 3), np.clip(u, 2, 300), u.clip(-5, 999), x.clip(-1, 1)], (U8, X)),
    "divmod": (lambda i, x: [*divmod(i, 4), *divmod(7, x + 9), *np.divmod(x, np.float32(0.7))], (INTS, X)),
    "squares": (lambda b, i: [b**2, b**3, np.power(b, 2), i**2, b**True, X[0] ** 2], (B, INTS)),
    "numbers beyond a type": (
        lambda u, b: [
            each for n in (-1, 256, 3, 2**70, -(2**70)) for each in (u < n, u >= n, n < u, n == u, u != n, b > n)
        ], (U8, U),
    ),
    "einsum of other axes": (
        lambda x, t: [
            np.einsum("...i,ij", x, x.T), np.einsum("i...,ij->...j", x, x), np.einsum("...ij,...kj->...ik", t, x),
            np.einsum("...", x), np.einsum("ij...->...i", t), np.einsum("ij,ij->ij", x[:1], x), t[:1] @ t.swapaxes(1, 2),
            np.einsum("...,...j->j...", x[0, :2], t), np.einsum("ij,jk,...k->...i", x, x.T, t[:, :1, :2]),
        ], (X, np.arange(12.0).reshape(2, 2, 3)),
    ),
    "parts": (
        lambda i, x: [
            *np.array_split(x, 2, 1), *np.array_split(x, [1], 1), *np.array_split(x[0], 5), *np.hsplit(x, 3), *np.hsplit(x[0], 3),
            *np.vsplit(x, 2), *np.dsplit(x[None], 3), np.dstack([i[0], x[0]]), np.dstack([i, x]), np.column_stack([i[:, 0], x]),
            np.append(i, x), np.append(i, x, 1), *np.atleast_1d(x[0, 0], x), np.atleast_2d(x[0]),
            *(np.atleast_3d(y) for y in (x[0, 0], x[0], x, x[None, None])), *np.broadcast_arrays(x, x[:1], i[:, :1]),
        ], (INTS, X),
    ),
    "turned": (
        lambda x: [
            *(np.tile(y, n) for y in (x[0, 0], x, x[:0]) for n in (2, (2, 1), (3, 1, 2), 0)), np.flipud(x), np.fliplr(x),
            *(np.rot90(x, k) for k in range(-1, 5)), np.rot90(x[None], 1, (2, 0)), np.rot90(x[None], 3, (1, 2)),
            *(np.diag(y, k) for y in (x, x[0]) for k in (-2, 0, 1)),
        ], (X,),
    ),
    "chosen": (
        lambda i, x, b: [
            np.select([x > 4, i > 1], [x, i], -1), np.select([b > 0], [np.where(b > 0, x, 2)]), np.count_nonzero(i, 0, keepdims=True),
            np.count_nonzero(b), np.array_equal(x, x + 0), np.array_equal(i, x), np.array_equal(x, x[0]),
        ], (INTS, X, B),
    ),
    "more products": (
        lambda i, x: [
            np.inner(i, x), np.inner(x[0], 2), np.vdot(i, x), np.kron(i, x), np.kron(x[0], i), np.kron(i[0], x[None]),
        ], (INTS, X),
    ),
    "averages": (
        lambda i, x, b: [
            np.average(i), np.average(i, 0), np.average(x, weights=i), np.average(x, -1, x[0], keepdims=True),
            np.average(i, 0, [1, 2]), np.ptp(i, 1), np.ptp(x, keepdims=True), np.trapezoid(x), np.trapezoid(x, x[:, 0], axis=0),
            np.trapezoid(x, x**2, axis=0), np.trapezoid(i, dx=0.5, axis=0),
        ], (INTS, X, B),
    ),
    "NaN": (
        lambda i, y: [
            *(f(z, axis) for f in (np.nansum, np.nanmean, np.nanmax, np.nanmin) for z in (i, y) for axis in (None, 0, 1)),
            np.nanmax(y, keepdims=True), np.nan_to_num(y), np.nan_to_num(y, nan=3, posinf=4, neginf=5), np.nan_to_num(i),
            np.nansum(y, dtype="f8"), np.nanmean(np.stack([i, i]).astype("u8") * 0 + np.uint64(2**63), 0),
        ], (INTS, np.array([[1, np.nan, -np.inf], [np.nan, np.nan, np.inf], [2, np.nan, 3]], np.float32)),
    ),
    "angles": (lambda x: [np.degrees(x), np.radians(x)], (X,)),
    "zeros": (lambda x: 1 / np.cumsum(x), (np.array([-0.0, -0.0, 0.0]),)),
    "an empty list": (lambda x: [x[[]], x[:, []]], (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_numpy_and_graphs_agree(name: str) -> None:
    function, given = SAME[name]
    with np.errstate(all="ignore"):
        expected = function(*given)
    made = graph.jit(function)(*given)
    expected, made = (each if isinstance(each, list) else [each] for each in (expected, made))
    for a, b in zip(made, expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=1e-6)


REFUSED: list[tuple[str, Case]] = [
    *[
        ("E1040", lambda x, f=f: f(x, where=B)) for f in (np.mean, np.var, np.std, np.any, np.all, np.sum, np.max)
    ],
    *[("E1040", lambda x, f=f: f(x, 0, out=np.zeros(3))) for f in (np.mean, np.var, np.any, np.cumsum, np.argmax)],
    ("E1040", lambda x: np.add(x, x, where=B)),
    ("E1040", lambda x: np.maximum.accumulate(x)),
    ("E1040", lambda x: np.add.reduce(x, initial=3)),
    ("E1040", lambda x: np.take(x, [1], mode="wrap")),
    ("E1040", lambda x: np.clip(x, 0, 1, out=X)),
    ("E1040", lambda x: np.round(x, 1, out=X)),
    ("E1042", lambda x: x.astype(int, casting="safe")),
    ("E1042", lambda x: np.concatenate([x, x], dtype=int)),
    ("E1042", lambda x: np.matmul(x, x.T, dtype=int)),
    ("E1042", lambda x: np.var(x, ddof=1, correction=1)),
    ("E1042", lambda x: np.argmax(x[:0], 0)),
    ("E1042", lambda x: np.max(x[:0] > 0)),
    ("E1042", lambda x: x[:0].reshape(-1, 0)),
    ("E1042", lambda x: x.astype(int) ** -1),
    ("E1042", lambda x: np.power(x.astype(int), np.int32(-2))),
    ("E1042", lambda x: x.astype(int) ** x.astype(int)),
    ("E1042", lambda x: x.astype(int) ** np.array([0, 1, 2])),
    ("E1042", lambda x: np.stack([x, x]) @ np.ones((5, 3, 2))),
    ("E1040", lambda x: np.einsum(x, [0, 1])),
    ("E1040", lambda x: np.einsum("1j->j", x)),
    ("E1042", lambda x: np.einsum("...ijk,...jk", x, x)),
    ("E1042", lambda x: np.einsum("...,...", x, x.T)),
    ("E1042", lambda x: np.einsum("...i,...i->", x, x)),
    ("E1040", lambda x: np.cumsum(x.reshape(1, 2, *(1,) * 6, 3), 1)),
    ("E1040", lambda x: np.max(x, 0, np.zeros(3))),
    ("E1042", lambda x: np.tensordot(x, x, 1)),
    ("E1042", lambda x: np.tensordot(x, x, ([0, 1], [0]))),
    ("E1042", lambda x: np.tensordot(x, x, ([0, 0], [0, 0]))),
    *[("E1042", lambda x, w=w: np.pad(x, w)) for w in (-1, 1.5, (1, 2, 3), {0: 1})],
    *[("E1042", lambda x, n=n: np.split(x, n, 1)) for n in (0, -1, 2, 1.5)],
    *[("E1042", lambda x, n=n: np.repeat(x, n, 1)) for n in (-1, [1, 2], 1.5)],
    ("E1042", lambda x: np.roll(x, 1.5)),
    ("E1042", lambda x: np.vsplit(x[0], 1)),
    ("E1042", lambda x: np.inner(x[:, :1], x)),
    ("E1042", lambda x: np.tensordot(x[:1], x, ([0], [0]))),
    ("E1042", lambda x: np.stack([x, x[:1]], None)),
    ("E1042", lambda x: np.sum(x, True)),
    ("E1042", lambda x: np.array_split(x, 0)),
    ("E1042", lambda x: np.rot90(x, 1, (0, 0))),
    ("E1042", lambda x: np.diag(x[None])),
    ("E1042", lambda x: np.average(x, weights=x[0])),
    ("E1040", lambda x: np.average(x, returned=True)),
    ("E1042", lambda x: np.diff(x, -1)),
    ("E1040", lambda x: np.diff(x, prepend=0)),
    ("E1042", lambda x: np.trace(x[0])),
    ("E1042", lambda x: np.diagonal(x, 0, 1, 1)),
    ("E1040", lambda x: np.linalg.norm(x, 2)),
    ("E1040", lambda x: np.linalg.norm(x[0], 3)),
    ("E1042", lambda x: np.linalg.norm(x[None], axis=(0, 1, 2))),
    ("E1042", lambda x: np.vstack([x, x[:, :2]])),
    ("E1042", lambda x: np.expand_dims(x, (0, 0))),
    ("E1042", lambda x: np.moveaxis(x, (0, 1), (0, 0))),
    ("E1042", lambda x: x.reshape(2.0, 3)),
    ("E1041", lambda x: f"{x.sum():.2f}"),
    ("E1041", lambda x: round(x.sum(), 2)),
    ("E1042", lambda x: len(x.sum())),
    ("E1040", lambda x: x.real),
    ("E1042", lambda x: graph.attention(x[:, :0], x[:, :0], x)),
    ("E1043", lambda x: {x}),
    ("E1043", lambda x: (y for y in [x])),
    ("E1043", lambda x: {0: [x]}.items()),
    ("E1043", lambda x: SimpleNamespace(x=x)),
    ("E1043", lambda x: x + np.ma.masked_array(X, B)),
    ("E1043", lambda x: x + np.asmatrix(X)),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_refused(at: int) -> None:
    code, function = REFUSED[at]
    with pytest.raises(graph.GraphError) as error:
        graph.jit(function)(X)
    assert error.value.code == code


def test_what_numpy_says_is_said_with_the_line_and_the_shapes() -> None:
    with pytest.raises(graph.GraphError, match=r"test_keywords.py:\d+: pad of \(2, 3\): .*\(3,\)"):
        graph.jit(lambda x: np.pad(x, (1, 2, 3)))(X)


def test_names_that_are_proposed_are_those_of_numpy() -> None:
    with pytest.raises(
        graph.GraphError, match=r"np.convolve of a traced array is not known\nnote: a Slang function"
    ):
        graph.jit(lambda x: np.convolve(x[0], x[1]))(X)
    with pytest.raises(AttributeError, match="'flat'; did you mean 'flatten'"):
        graph.jit(lambda x: x.flat)(X)
    assert graph.jit(lambda x: x * hasattr(x, "real"))(X).sum() == 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (np.linalg.inv, r"np\.linalg\.inv of .*\nnote: compute it outside"),
        (np.fft.fft, r"np\.fft\.fft of .*\nnote: compute it outside"),
        (np.nancumsum, r"np\.nancumsum of .*\nnote: did you mean np.cumsum\? a Slang function"),
        (np.median, r"np\.median of .*\nnote: a Slang function"),
        (np.gradient, r"np\.gradient of .*\nnote: np.diff"),
        (
            np.linalg.vector_norm if hasattr(np.linalg, "vector_norm") else np.linalg.det,
            r"np\.linalg\.\w+ of ",
        ),
        (np.frompyfunc(abs, 1, 1), r"\d: abs \(vectorized\) of "),
    ],
)
def test_functions_that_are_not_known_have_the_names_that_programs_call(function: Any, said: str) -> None:
    with pytest.raises(graph.GraphError, match=said) as error:
        graph.jit(function)(X)
    assert error.value.code == "E1040"


def test_functions_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    for name, said in (
        ("erf", "float f.float x. . return erf.x."),
        ("expit", "1 / "),
        ("gamma", "a Slang function"),
    ):
        with pytest.raises(graph.GraphError, match=rf"scipy\.special\.{name} of .*\nnote: .*{said}"):
            graph.jit(getattr(special, name))(X)
    module = spy.Module.load_from_source(
        spy.default_device(), "erf_of_slang", "[Differentiable] float f(float x) { return erf(x); }"
    )
    np.testing.assert_allclose(graph.jit(module.f)(X), special.erf(X), rtol=1e-6)
    slope = graph.grad(lambda x: module.f(x).sum())(X)
    np.testing.assert_allclose(slope, 2 / np.sqrt(np.pi) * np.exp(-X * X), rtol=1e-5)


def test_arguments_and_results_are_dicts_of_any_class() -> None:
    given = defaultdict(list, a=X)
    made = graph.jit(lambda p: p)(given)
    assert type(made) is defaultdict and made["b"] == [] and given.keys() == {"a"}
    np.testing.assert_array_equal(made["a"], X)


@pytest.mark.parametrize("given", [np.ma.masked_array(X, B), np.asmatrix(X)])
def test_subclasses_are_no_arguments(given: Any) -> None:
    with pytest.raises(graph.GraphError, match="E1043"):
        graph.jit(lambda x: x + 1)(given)


def test_captured_numbers_are_read_by_each_call() -> None:
    c, d = np.array(2.0), np.float64(3)
    f = graph.jit(lambda a: [a * c + d, np.where(a > c, a, c), c * c])
    for value in (2.0, 10.0):
        c[...] = value
        made = f(X)
        np.testing.assert_allclose(made[0], X * value + 3)
        np.testing.assert_allclose(made[1], np.maximum(X, value))
    assert graph.grad(lambda a: (a * c).sum())(np.ones(2)).tolist() == [10.0, 10.0]


def odd_arrays() -> list[Any]:
    """Arrays whose memory is no tensor: unaligned, steps that are no whole elements, the other order of bytes."""
    unaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
    fields = [np.zeros(4, [("a", np.float64), ("b", kind)])["a"] for kind in (np.int8, "i4,f8")]
    return [unaligned, *fields, *(made[::-2] for made in fields), np.zeros(4, ">f8")[::-1], np.zeros(4)[::-1]]


@pytest.mark.parametrize("at", range(7))
def test_arrays_of_any_memory_are_read_by_each_call(at: int) -> None:
    x = odd_arrays()[at]
    f, g = graph.jit(lambda x: [x * 2, x @ x]), graph.jit(lambda y: y + x)
    for value in (1.0, 2.0):
        x[:] = [value, 3, 4, 5][: len(x)]
        for made, wanted in zip(f(x), (x * 2, x @ x), strict=True):
            np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(g(np.ones(len(x))), x + 1)


def test_captured_tensors_with_lazy_signs() -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert z.is_neg()
    made = graph.jit(lambda a: a + z)(np.zeros(2, np.float32))
    assert made.tolist() == [-2.0, 4.0]
