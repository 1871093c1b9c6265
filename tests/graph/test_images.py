"""Convolutions, pooling, batch norm: values and gradients are those of torch; sizes that do not fit are named."""

from typing import Any

import numpy as np
import pytest

from slangrad import graph

RNG = np.random.default_rng(4)

# Shapes of x and w, and what else is said: all classes of kernels, odd sizes, batches of 0 and 1.
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "1x1": ((2, 5, 4, 4), (3, 5, 1, 1), {}),
    "1x1 with stride": ((2, 5, 5, 4), (3, 5, 1, 1), {"stride": 2}),
    "3x3": ((2, 3, 7, 9), (9, 3, 3, 3), {"padding": 1}),
    "5x5": ((1, 2, 9, 6), (4, 2, 5, 5), {"padding": "same"}),
    "7x7": ((1, 3, 15, 13), (5, 3, 7, 7), {"stride": 2, "padding": 3}),
    "groups": ((2, 4, 8, 8), (6, 2, 3, 3), {"padding": 1, "stride": 2, "groups": 2}),
    "depthwise": ((3, 4, 6, 5), (8, 1, 3, 3), {"groups": 4, "padding": "same"}),
    "dilation": ((2, 3, 9, 9), (2, 3, 2, 3), {"dilation": (2, 3), "stride": (3, 1), "padding": (0, 2)}),
    "more padding than kernel": ((2, 3, 5, 5), (4, 3, 2, 2), {"padding": 3, "stride": 2}),
    "wide rows": ((2, 3, 6, 50), (9, 3, 3, 3), {"padding": 1}),
    "wide rows in groups": (
        (1, 4, 5, 70),
        (6, 2, 3, 2),
        {"groups": 2, "padding": (2, 1), "dilation": (1, 3)},
    ),
    "wide rows of each channel": ((2, 3, 9, 64), (3, 1, 3, 3), {"groups": 3}),
    "wide rows of pairs of channels": ((2, 4, 6, 48), (14, 2, 3, 3), {"groups": 2, "padding": 1}),
    "steps over pixels that padding has": ((2, 1, 1, 3), (2, 1, 1, 2), {"stride": (3, 1), "padding": (2, 2)}),
    "one pixel": ((1, 1, 1, 1), (1, 1, 1, 1), {"padding": "valid"}),
    "no images": ((0, 2, 5, 5), (3, 2, 3, 3), {}),
}
POOLS = [(2, None, 0), (3, 2, 1), (3, 1, 0), ((2, 3), (3, 2), 0)]


def weights(made: Any) -> Any:
    return np.cos(np.arange(made.size)).reshape(made.shape)


@pytest.mark.parametrize(
    ("dtype", "rtol", "names"),
    [
        ("d", 1e-10, ["3x3", "dilation", "wide rows in groups", "one pixel", "no images"]),
        ("f", 2e-4, ["7x7", "wide rows"]),
        pytest.param("d", 1e-10, list(CASES), marks=pytest.mark.deep),
    ],
)
def test_convolutions_are_those_of_torch(dtype: str, rtol: float, names: list[str]) -> None:
    torch = pytest.importorskip("torch")
    cases = {name: CASES[name] for name in names}
    arrays = {
        name: tuple(RNG.standard_normal(shape).astype(dtype) for shape in (x, w, w[:1]))
        for name, (x, w, _) in cases.items()
    }
    loss = lambda rest: (
        lambda a: (np.sin(made := graph.conv2d(*a, **rest)) * weights(made).astype(dtype)).sum()
    )
    found = graph.jit(
        lambda given: {
            name: (graph.conv2d(*given[name], **rest), graph.grad(loss(rest))(given[name]))
            for name, (_, _, rest) in cases.items()
        }
    )(arrays)
    for name, (_, _, rest) in cases.items():
        leaves = [torch.from_numpy(each).requires_grad_() for each in arrays[name]]
        wanted = torch.nn.functional.conv2d(*leaves, **rest)
        (
            torch.sin(wanted) * torch.from_numpy(weights(wanted.detach().numpy()).astype(dtype))
        ).sum().backward()
        got, gradients = found[name]
        given = {"rtol": rtol, "atol": rtol, "err_msg": name}
        np.testing.assert_allclose(got, wanted.detach().numpy(), **given)
        np.testing.assert_allclose(graph.conv2d(*arrays[name], **rest), got, **given)
        assert (got.dtype, got.shape) == (np.dtype(dtype), tuple(wanted.shape))
        for ours, leaf in zip(gradients, leaves, strict=True):
            np.testing.assert_allclose(ours, leaf.grad.numpy(), **given)


@pytest.mark.parametrize("width", [9, 56])
def test_what_follows_a_convolution_is_one_kernel_with_it(width: int) -> None:
    """Bias, batch norm, a residual and relu: products of windows, and wide rows."""

    def block(x: Any, w: Any, bias: Any, norm: Any, more: Any) -> Any:
        return np.maximum(graph.batch_norm(graph.conv2d(x, w, bias, padding=1), *norm) + more, 0)

    x, w, more = (RNG.standard_normal(s) for s in ((2, 3, 6, width), (5, 3, 3, 3), (2, 5, 6, width)))
    bias, norm = RNG.standard_normal(5), tuple(RNG.uniform(0.5, 1, (4, 5)))
    run = graph.jit(block)
    np.testing.assert_allclose(
        run(x, w, bias, norm, more), block(x, w, bias, norm, more), rtol=1e-9, atol=1e-11
    )
    plan = run.explain(x, w, bias, norm, more).plan
    assert any(group.inner and group.inner.op == "conv" for group in plan.fusion.groups)
    turned = graph.jit(lambda *a: block(*a[:4], a[4].swapaxes(2, 3)[:, :, :, ::-1]))
    there = np.ascontiguousarray(np.swapaxes(more[:, :, :, ::-1], 2, 3))
    np.testing.assert_allclose(
        turned(x, w, bias, norm, there), block(x, w, bias, norm, more), rtol=1e-9, atol=1e-11
    )


def test_other_types() -> None:
    x, w = RNG.integers(-9, 9, (2, 3, 6, 6)), RNG.integers(-9, 9, (4, 3, 3, 3))
    made = graph.jit(lambda x, w: graph.conv2d(x, w, padding=1))
    wanted = graph.conv2d(x.astype(float), w.astype(float), padding=1)
    np.testing.assert_array_equal(made(x, w), wanted)
    half = made(x.astype("e") / 8, w.astype("e") / 8)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, wanted / 64, rtol=2e-3, atol=2e-2)


def test_pools_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, functions = RNG.standard_normal((2, 3, 8, 9)), torch.nn.functional
    pairs = [(graph.max_pool2d, functions.max_pool2d), (graph.avg_pool2d, functions.avg_pool2d)]
    every = [(ours, theirs, given) for ours, theirs in pairs for given in POOLS]
    found = graph.jit(
        lambda x: [
            (f(x, *given), graph.grad(lambda x, f=f, g=given: (f(x, *g) ** 2).sum())(x))
            for f, _, given in every
        ]
    )(x)
    for (ours, theirs, given), (value, gradient) in zip(every, found, strict=True):
        leaf = torch.from_numpy(x).requires_grad_()
        wanted = theirs(leaf, *given)
        (wanted**2).sum().backward()
        np.testing.assert_allclose(value, wanted.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(ours(x, *given), value, rtol=1e-12)
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_batch_norm_in_training() -> None:
    torch = pytest.importorskip("torch")
    x, (m, v, g, b) = RNG.standard_normal((5, 3, 4, 2)), RNG.uniform(0.5, 1, (4, 3))
    mean, variance = torch.from_numpy(m.copy()), torch.from_numpy(v.copy())
    leaves = [torch.from_numpy(each).requires_grad_() for each in (x, g, b)]
    wanted = torch.nn.functional.batch_norm(
        leaves[0], mean, variance, *leaves[1:], training=True, momentum=0.2
    )
    (wanted * torch.from_numpy(weights(x))).sum().backward()

    def run(x: Any, g: Any, b: Any) -> Any:
        return graph.batch_norm(x, m, v, g, b, training=True, momentum=0.2)

    for found in (run(x, g, b), graph.jit(run)(x, g, b)):
        for got, want in zip(found, (wanted.detach(), mean, variance), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-12)
    gradients = graph.grad(lambda a: (run(*a)[0] * weights(x)).sum())((x, g, b))
    for got, leaf in zip(gradients, leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


X, W = np.ones((2, 4, 5, 6)), np.ones((6, 4, 3, 3))
REFUSED = {
    "rank of x": (lambda: graph.conv2d(X[0], W), r"x has shape \(4, 5, 6\), not \(batch"),
    "rank of w": (lambda: graph.conv2d(X, W[0]), r"w has shape \(4, 3, 3\), not \(outputs"),
    "channels": (lambda: graph.conv2d(X, W[:, :2]), r"has 4 channels a group, and w \(6, 2, 3, 3\) takes 2"),
    "groups": (lambda: graph.conv2d(X, W, groups=3), "3 groups do not divide 4 channels"),
    "bias": (lambda: graph.conv2d(X, W, W[0, 0, 0]), r"bias has shape \(3,\), and w \(6, 4, 3, 3\) has 6"),
    "kernel": (lambda: graph.conv2d(X, W, dilation=3), "is larger than x"),
    "same": (lambda: graph.conv2d(X, W, stride=2, padding="same"), "padding='same' with stride"),
    "word": (lambda: graph.conv2d(X, W, padding="full"), "padding='full'"),
    "stride": (lambda: graph.conv2d(X, W, stride=0), "stride=0 is neither"),
    "pool": (lambda: graph.max_pool2d(X, 7), "has no window"),
    "truth values": (lambda: graph.jit(graph.conv2d)(X > 0, W > 0), "truth values"),
    "channels of norm": (
        lambda: graph.batch_norm(X[:, :1], X[0, 0, 0], 1),
        r"x \(2, 1, 5, 6\) and \(6,\), \(\)",
    ),
    "rank of norm": (lambda: graph.jit(graph.batch_norm)(X[0, 0, 0], 0, 1), r"x \(6,\)"),
    "variance": (lambda: graph.batch_norm(X[:1, :, :1, :1], 0, 1, training=True), "one value a channel"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit(name: str) -> None:
    call, said = REFUSED[name]
    with pytest.raises(graph.GraphError, match=said) as caught:
        call()
    assert caught.value.code == "E1042"
    assert "test_images.py:" in str(caught.value)


def test_groups_that_would_fit_are_named() -> None:
    with pytest.raises(graph.GraphError) as caught:
        graph.conv2d(X, W[:, :2])
    assert "groups=2 would fit" in caught.value.note
