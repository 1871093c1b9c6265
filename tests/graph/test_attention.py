"""Attention is that of torch, with its gradients; the same written out by hand."""

import sys
from typing import Any

import numpy as np
import pytest

from slangrad import graph
from slangrad.graph.lowering.steps import KernelStep

RNG = np.random.default_rng(9)


def arrays(n: int, m: int, d: int, e: int, batch: tuple[int, ...] = (2, 3)) -> Any:
    return tuple(RNG.standard_normal((*batch, *shape)) for shape in ((n, d), (m, d), (m, e)))


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (arrays(5, 7, 4, 3), {}),
    "causal": (arrays(6, 6, 4, 4), {"causal": True}),
    "booleans": (arrays(5, 7, 4, 3), {"mask": RNG.random((5, 7)) < 0.7}),
    "numbers": (arrays(5, 7, 4, 3), {"mask": RNG.standard_normal((3, 5, 7)), "scale": 0.3}),
    "matrices": (arrays(1, 1, 2, 5, ()), {}),
    "no queries": (arrays(0, 3, 2, 2), {}),
}


def test_attention_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    loss = lambda rest: lambda a: (np.sin(graph.attention(*a, **rest))).sum()
    found = graph.jit(
        lambda given: {
            name: (graph.attention(*given[name], **rest), graph.grad(loss(rest))(given[name]))
            for name, (_, rest) in CASES.items()
        }
    )({name: each for name, (each, _) in CASES.items()})
    for name, (given, rest) in CASES.items():
        leaves = [torch.from_numpy(each).requires_grad_() for each in given]
        mask = None if "mask" not in rest else torch.from_numpy(rest["mask"])
        wanted = torch.nn.functional.scaled_dot_product_attention(
            *leaves, attn_mask=mask, is_causal=rest.get("causal", False), scale=rest.get("scale")
        )
        torch.sin(wanted).sum().backward()
        value, gradients = found[name]
        np.testing.assert_allclose(value, wanted.detach().numpy(), rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(graph.attention(*given, **rest), value, rtol=1e-10, err_msg=name)
        for got, leaf in zip(gradients, leaves, strict=True):
            np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


def slopes(given: Any, along: Any, **rest: Any) -> Any:
    """The value, its gradient, the derivative along a direction, and the product with the Hessian."""
    loss = lambda a: np.sin(graph.attention(*a, **rest)).sum()
    gradient = graph.grad(loss)
    twice = graph.grad(lambda a: sum((g * d).sum() for g, d in zip(gradient(a), along, strict=True)))
    _, tangent = graph.jvp(lambda *a: loss(a), given, along)
    return graph.attention(*given, **rest), gradient(given), tangent, twice(given)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("n", "m", "causal"), [(67, 130, False), (70, 70, True)])
def test_without_scores_in_memory(n: int, m: int, causal: bool, monkeypatch: Any) -> None:
    """More queries than a block and keys that are no whole steps; heads that are views."""
    given, along = arrays(n, m, 4, 3), arrays(n, m, 4, 3)
    turned = lambda xs: tuple(x.swapaxes(0, 1) for x in xs)
    run = lambda: graph.jit(lambda xs, ds: slopes(turned(xs), turned(ds), causal=causal, scale=0.4))
    value, gradient, tangent, twice = run()(given, along)
    monkeypatch.setattr(sys.modules["slangrad.graph.attention"], "CACHED", 0)
    kernels = [each.name for each in run().explain(given, along).plan.steps if isinstance(each, KernelStep)]
    assert sum(name.startswith("attention") for name in kernels) >= 3
    found = run()(given, along)
    np.testing.assert_allclose(found[0], value, rtol=1e-11)
    np.testing.assert_allclose(found[2], tangent, rtol=1e-10)
    for ours, theirs in ((found[1], gradient), (found[3], twice)):
        for got, want in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def by_hand(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, heads: int = 2) -> Any:
    split = lambda t: t.reshape(*t.shape[:2], heads, -1).swapaxes(1, 2)
    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
    p = graph.softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
    return (p @ v).swapaxes(1, 2).reshape(x.shape) @ wo


def test_a_block_written_out_by_hand() -> None:
    x, *w = RNG.standard_normal((2, 5, 8)), *RNG.standard_normal((4, 8, 8))
    split = lambda t: t.reshape(2, 5, 2, 4).swapaxes(1, 2)
    made = graph.attention(*(split(x @ each) for each in w[:3])).swapaxes(1, 2).reshape(x.shape) @ w[3]
    np.testing.assert_allclose(graph.jit(by_hand)(x, *w), made, rtol=1e-10)
    np.testing.assert_allclose(by_hand(x, *w), made, rtol=1e-10)


Q = np.ones((2, 5, 4))
REFUSED = {
    "rank": (lambda: graph.attention(Q, Q[0, 0], Q), r"k \(4,\).*stack of matrices"),
    "length": (lambda: graph.attention(Q, Q[..., :3], Q), "other lengths"),
    "values": (lambda: graph.attention(Q, Q, Q[:, :3]), "5 keys and 3 values"),
    "batch": (lambda: graph.attention(Q, np.ones((3, 5, 4)), Q), "in front do not fit"),
    "mask": (lambda: graph.attention(Q, Q, Q, mask=np.ones((4, 4))), r"mask \(4, 4\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit(name: str) -> None:
    call, said = REFUSED[name]
    with pytest.raises(graph.GraphError, match=said) as caught:
        call()
    assert caught.value.code == "E1042"
