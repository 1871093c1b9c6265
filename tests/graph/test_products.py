"""Products of matrices: every class of shapes, strides, batch axes, types; with a map behind them and without."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import new_input
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.lowering.steps import KernelStep
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan

RNG = np.random.default_rng(21)


def R(*shape: int, dtype: str = "d") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


# fmt: off
PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows and columns":  (lambda a, b: a @ b,                                  (R(20, 30), R(30, 100))),
    "nine rows":         (lambda a, b: a @ b,                                  (R(9, 3), R(3, 64))),
    "one":               (lambda a, b: a @ b,                                  (R(1, 1), R(1, 1))),
    "row":               (lambda a, b: a @ b,                                  (R(30), R(30, 65))),
    "column":            (lambda a, b: a @ b,                                  (R(65, 30), R(30))),
    "number":            (lambda a, b: a @ b,                                  (R(1, 30), R(30, 1))),
    "few columns":       (lambda a, b: a @ b,                                  (R(70, 30), R(30, 3))),
    "right transposed":  (lambda a, b: a @ b.T,                                (R(20, 30), R(130, 30))),
    "left transposed":   (lambda a, b: a.T @ b,                                (R(30, 20), R(30, 70))),
    "both transposed":   (lambda a, b: a.T @ b.T,                              (R(30, 20), R(70, 30))),
    "result transposed": (lambda a, b: np.einsum("ij,jk->ki", a, b),           (R(20, 30), R(30, 70))),
    "strides":           (lambda a, b: a[::-1, ::2] @ b[:, ::-3],              (R(20, 10), R(5, 200))),
    "broadcast":         (lambda a, b: np.broadcast_to(a, (9, 5)) @ b,         (R(5), R(5, 70))),
    "batches":           (lambda a, b: a @ b,                                  (R(3, 4, 5, 6), R(3, 1, 6, 70))),
    "heads":             (lambda a, b: np.einsum("bqhd,bkhd->bhqk", a, b),     (R(2, 5, 3, 8), R(2, 66, 3, 8))),
    "heads back":        (lambda a, b: np.einsum("bhqk,bkhd->bqhd", a, b),     (R(2, 3, 5, 6), R(2, 6, 3, 70))),
    "two summed":        (lambda a, b: np.einsum("abc,dcb->ad", a, b),         (R(5, 3, 4), R(70, 4, 3))),
    "two summed, turned": (lambda a, b: np.einsum("abc,dbc->da", a, b),        (R(70, 3, 4), R(5, 3, 4))),
    "all in one":        (lambda a, b: np.einsum("zabc,zdcb->zad", a[:, ::-1], b), (R(2, 9, 3, 4), R(2, 70, 4, 3))),
    "no rows":           (lambda a, b: a @ b,                                  (R(0, 3), R(3, 2))),
    "no sum":            (lambda a, b: a @ b,                                  (R(5, 0), R(0, 70))),
}
# fmt: on


def slang_only(function: Callable[..., Any], *arrays: Any, fused: bool = True) -> tuple[Plan, Any]:
    nodes = [new_input(each.shape, each.dtype) for each in arrays]
    made = function(*map(Array, nodes))
    outputs = [each.node for each in (made if isinstance(made, tuple) else (made,))]
    plan = Plan(outputs, nodes, spy.default_device(), PlanOptions(fused=fused, consistent="bits"))
    return plan, [each.to_numpy() for each in plan.run([as_tensor(plan.device, each) for each in arrays])]


def both(a: Any, b: Any, product: Callable[..., Any]) -> tuple[Any, ...]:
    """The product; and in a map that reads other arrays, too."""
    made = product(a, b)
    return made, np.tanh(product(np.square(a), b)) * a.sum() + np.arange(made.shape[-1] if made.ndim else 1)[
        -1
    ]


def test_products_are_those_of_numpy() -> None:
    def every(*arrays: Any) -> tuple[Any, ...]:
        pairs = zip(PRODUCTS.values(), zip(arrays[::2], arrays[1::2], strict=True), strict=True)
        return tuple(each for (product, _), (a, b) in pairs for each in both(a, b, product))

    arrays = [x for _, given in PRODUCTS.values() for x in given]
    fused, found = slang_only(every, *arrays)
    plain, same = slang_only(every, *arrays, fused=False)
    names = [name for name in PRODUCTS for _ in range(2)]
    for name, got, unfused, want in zip(names, found, same, every(*arrays), strict=True):
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(got, unfused, rtol=1e-13, atol=1e-13, err_msg=name)
    kinds = [group.kind for group in fused.fusion.groups]
    assert sum(group.inner is not None for group in fused.fusion.groups) >= len(PRODUCTS) - 4, kinds
    assert len(fused.fusion.groups) < len(plain.fusion.groups)


@pytest.mark.parametrize(("dtype", "rtol"), [("e", 2e-3), ("f", 2e-6), ("i", 0), ("q", 0), ("?", 0)])
def test_types(dtype: str, rtol: float) -> None:
    a, b = ((each * 4).astype(dtype) if dtype != "?" else each > 0 for each in (R(13, 40), R(40, 77)))
    _, (found, ended) = slang_only(lambda a, b: (a @ b, (a @ b + a[0, 0]) * 2), a, b)
    assert found.dtype == (a @ b).dtype
    wide = (lambda x: x.astype("d")) if dtype == "e" else (lambda x: x)
    want = wide(a) @ wide(b)
    np.testing.assert_allclose(wide(found), want, rtol=rtol, atol=rtol * 50)
    np.testing.assert_allclose(wide(ended), (want + wide(a)[0, 0]) * 2, rtol=2 * rtol, atol=rtol * 200)


def test_what_follows_a_product_is_computed_where_it_is_ready() -> None:
    """Bias, activation and a mask; the kernel's text does not depend on the shape, if there are at least 16 columns."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        h = x @ w + b
        return np.where(h > 0, h, 0.1 * h) * (np.arange(h.shape[1]) % 2 == 0)

    texts = set()
    for shape in ((20, 30, 100), (17, 5, 220)):
        x, w, b = R(*shape[:2]), R(*shape[1:]), R(shape[2])
        plan, (found,) = slang_only(layer, x, w, b)
        np.testing.assert_allclose(found, layer(x, w, b), rtol=1e-12, atol=1e-12)
        assert [group.kind for group in plan.fusion.groups] == ["contract"]
        texts |= {step.text.split("multiply")[0] for step in plan.steps if isinstance(step, KernelStep)}
    assert len(texts) <= 2


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 15, 16, 31, 65, 79, 200])
def test_columns_that_are_left(columns: int) -> None:
    """Fewer than 16 have threads beyond them, whose sums are not stored."""
    for rows in (1, 8, 9, 300):
        a, b, c = R(rows, 20), R(20, columns), R(columns)
        for function in (lambda a, b, c: a @ b, lambda a, b, c: np.maximum(a @ b + c, 0)):
            _, (found,) = slang_only(function, a, b, c)
            np.testing.assert_allclose(found, function(a, b, c), rtol=1e-12, atol=1e-12)


def test_the_optimizer_s_update_ends_the_product_of_its_gradient() -> None:
    p, x = R(12, 70, dtype="f"), R(30, 12, dtype="f")
    step = graph.train(lambda p, x: np.sum(x @ p[0] * np.float32(0.5)), spy.optim.Adam([p], lr=0.1))
    theirs = [p.copy()]
    adam = spy.optim.Adam(theirs, lr=0.1)
    for _ in range(3):
        step(x)
        adam.step([np.repeat(0.5 * x.sum(0)[:, None], 70, 1).astype("f")])
    np.testing.assert_allclose(p, theirs[0], rtol=1e-5, atol=1e-6)


def test_a_parameter_that_a_product_reads_is_not_overwritten_by_it() -> None:
    """The gradient of tr(p p') is a product that reads p."""
    p = R(20, 20)
    before = p.copy()
    graph.train(lambda p: ((p[0] @ p[0]) ** 2).sum() / 2, spy.optim.SGD([p], lr=0.01))()
    y = before @ before
    np.testing.assert_allclose(p, before - 0.01 * (y @ before.T + before.T @ y), rtol=1e-9)


def test_bits_of_a_row_do_not_depend_on_the_number_of_rows() -> None:
    a, b = R(130, 200, dtype="f"), R(200, 150, dtype="f")
    whole = slang_only(lambda a, b: np.tanh(a @ b), a, b)[1][0]
    for rows in (slice(0, 1), slice(3, 10), slice(5, 77)):
        part = slang_only(lambda a, b: np.tanh(a @ b), a[rows].copy(), b)[1][0]
        np.testing.assert_array_equal(part, whole[rows])


def test_products_of_integers() -> None:
    for kind in "bBiIlL":
        x = np.arange(12, dtype=kind).reshape(3, 4)
        np.testing.assert_array_equal(graph.jit(lambda x: x @ x.T + x[:, :3])(x), x @ x.T + x[:, :3])


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_lines_of_a_cache_s_size_apart_are_packed(dtype: str) -> None:
    """A few rows read them where they lie, and have the same bits."""
    wide = 4096 // np.dtype(dtype).itemsize
    a, b = R(2, 70, 130, dtype=dtype), R(2, 130, wide, dtype=dtype)
    plan, (found,) = slang_only(lambda a, b: a @ b[:, :, :100], a, b)
    assert next(step for step in plan.steps if isinstance(step, KernelStep)).name.startswith("pack")
    plan, (few,) = slang_only(lambda a, b: a @ b[:, :, :100], a[:, 3:9].copy(), b)
    assert all(step.name.startswith("product") for step in plan.steps if isinstance(step, KernelStep))
    np.testing.assert_array_equal(found[:, 3:9], few)
    np.testing.assert_allclose(found, (a.astype("d") @ b.astype("d"))[:, :, :100], rtol=1e-2, atol=0.1)


def test_a_left_operand_whose_lines_lie_far_apart_is_copied() -> None:
    """A part of its rows, whose lines lie side by side, gives the same bits."""
    a, b = R(270, 520, dtype="f"), R(270, 256, dtype="f")
    plan, (found,) = slang_only(lambda a, b: a.T @ b, a, b)
    assert "copy" in [step.name.split("_")[0] for step in plan.steps if isinstance(step, KernelStep)]
    np.testing.assert_allclose(found, a.T.astype("d") @ b, rtol=1e-4, atol=1e-4)
    plan, (few,) = slang_only(lambda a, b: a.T @ b, a[:, :20].copy(), b)
    assert all(step.name.startswith("p") for step in plan.steps if isinstance(step, KernelStep))
    np.testing.assert_array_equal(found[:20], few)


def test_numbers_of_kernels_are_short_arrays() -> None:
    """Each thread copies an array of more than 16 numbers into its memory, and the lanes read columns one by one."""
    q, k, v = (R(2, 9, 3, 20, dtype="f") for _ in range(3))

    def heads(q: Any, k: Any, v: Any) -> Any:
        return np.tanh(np.einsum("bqhd,bkhd->bhqk", q, k)) @ v.swapaxes(1, 2) * q.swapaxes(1, 2)

    plan, (found,) = slang_only(heads, q, k, v)
    np.testing.assert_allclose(found, heads(q, k, v), rtol=1e-4, atol=1e-5)
    kernels = [step for step in plan.steps if isinstance(step, KernelStep)]
    lots = [[each for each in step.values.values() if isinstance(each, list)] for step in kernels]
    assert max(map(len, lots)) > 1
    assert max(len(numbers) for step in lots for numbers in step) <= 16


# fmt: off
# Programs of x, y (2, 5, 3, 8), v, w (2, 5, 24) and m, n (24, 7), and how many kernels fill the array that joins.
JOINED: dict[str, tuple[Callable[..., Any], int]] = {
    "columns":         (lambda x, y, v, w, m, n: np.concatenate([v @ m, w @ n], 2), 0),
    "rows":            (lambda x, y, v, w, m, n: np.concatenate([v @ m, w @ n], 1), 0),
    "in a map":        (lambda x, y, v, w, m, n: np.concatenate([v @ m, np.tanh(w @ n) + m[0]], -1), 1),
    "also in a map":   (lambda x, y, v, w, m, n: (lambda p: np.concatenate([p, np.tanh(p)], -1))(v @ m), 2),
    "twice":           (lambda x, y, v, w, m, n: (lambda p: np.concatenate([p, p], -1))(v @ m), 2),
    "heads":           (lambda x, y, v, w, m, n: np.concatenate([np.einsum("bqhd,bkhd->bqhk", x, y).reshape(2, 5, 15), w], 2), 1),
    "turned heads":    (lambda x, y, v, w, m, n: np.concatenate([np.einsum("bqhd,bkhd->bhkq", x, y).transpose(0, 3, 1, 2)
                                                                 .reshape(2, 5, 15), w @ n], 2), 0),
    "turned":          (lambda x, y, v, w, m, n: np.concatenate([(v @ m).swapaxes(0, 1), (w @ n).swapaxes(0, 1)], 1), 0),
    "between others":  (lambda x, y, v, w, m, n: np.concatenate([w, v @ m, w], 2), 2),
    "read backwards":  (lambda x, y, v, w, m, n: np.concatenate([(v @ m)[:, ::-1], w], 2), 2),
    "read elsewhere":  (lambda x, y, v, w, m, n: (lambda p: np.concatenate([p, w], 2) * np.cumsum(p, 1)[:, :, :1])(v @ m), 2),
    "no rows":         (lambda x, y, v, w, m, n: np.concatenate([v[:, :0] @ m, w @ n, x[..., 0] @ n[:3]], 1), 0),
    "one number":      (lambda x, y, v, w, m, n: np.concatenate([v[:1, :1, :1] @ m[:1, :1], n[:1, :1][None]], 2), 1),
}
# fmt: on


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("consistent", [None, "bits"])
def test_products_are_written_where_they_are_joined(name: str, consistent: str | None) -> None:
    """The array that joins them is read, else it would be an output and have memory of its own."""
    function, copies = JOINED[name]
    arrays = *(R(2, 5, 3, 8) for _ in "xy"), *(R(2, 5, 24) for _ in "vw"), *(R(24, 7) for _ in "mn")

    def read(*arrays: Any) -> Any:
        y = function(*arrays)
        return np.cumsum(y, 0), np.cumsum(y, -1)

    run = graph.jit(read, consistent=consistent)
    for got, want in zip(run(*arrays), read(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    plan = run.explain(*arrays).plan
    (joined,) = (group for group in plan.fusion.groups if group.kind == "part")
    assert len(plan.by_group[plan.fusion.groups.index(joined)]) == copies
    limited = graph.jit(read, consistent=consistent, memory="1 MB")
    for got, want in zip(limited(*arrays), read(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    gradient = graph.grad(lambda *arrays: sum(np.sin(0.01 * y).sum() for y in read(*arrays)), range(6))
    d = [RNG.standard_normal(array.shape) for array in arrays]
    value = lambda h: sum(
        np.sin(0.01 * y).sum() for y in read(*(x + h * dx for x, dx in zip(arrays, d, strict=True)))
    )
    slope = sum((g * dx).sum() for g, dx in zip(gradient(*arrays), d, strict=True))
    np.testing.assert_allclose(slope, (value(1e-5) - value(-1e-5)) / 2e-5, rtol=1e-6, atol=1e-6)
