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


def share(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: Any, k: Any) -> Any:
    return q @ k.swapaxes(-1, -2)


SQUARE = np.s_[0, 0, :4]  # one matrix
STREAMED: dict[str, Any] = {
    "plain": lambda q, k, v: graph.softmax(scores(q, k)) @ v,
    "scaled": lambda q, k, v: graph.softmax(0.6 * (scores(q, k) / np.sqrt(4)) * 1.5) @ v,
    "scaled before": lambda q, k, v: share((q * 0.5) @ k.swapaxes(-1, -2)) @ v,
    "letters": lambda q, k, v: np.einsum(
        "bhnm,bhmd->bhnd", share(np.einsum("bhnd,bhmd->bhnm", q, k) * 0.5), v
    ),
    "other order": lambda q, k, v: np.einsum(
        "bhmd,bhnm->bhnd", v, share(np.einsum("bhmd,bhnd->bhnm", k, q) / 3)
    ),
    "matrices": lambda q, k, v: share(q[0, 0] @ k[0, 0].T) @ v[0, 0],
}
STORED: dict[str, Any] = {
    "softmax of columns": lambda q, k, v: graph.softmax(scores(q, k), -2) @ v,
    "sums of other rows": lambda q, k, v: (
        ((e := np.exp((s := q[SQUARE] @ k[SQUARE].T) - s.max(-1, keepdims=True))) / e.sum(-1)) @ v[SQUARE]
    ),
    "largest of other rows": lambda q, k, v: (
        ((e := np.exp((s := q[SQUARE] @ k[SQUARE].T) - s.max(-1))) / e.sum(-1, keepdims=True)) @ v[SQUARE]
    ),
    "mask": lambda q, k, v: graph.softmax(scores(q, k) + q[..., :1]) @ v,
    "scale of a call": lambda q, k, v: share(scores(q, k) * q[:1, :1, :1, :1]) @ v,
    "result turned": lambda q, k, v: np.einsum("bhnm,bhmd->bhdn", share(scores(q, k)), v),
    "common values": lambda q, k, v: share(scores(q, k)) @ v[:, :1],
}


def values_and_slopes(programs: dict[str, Any], primal: Any) -> Any:
    return {
        name: (program(*primal), graph.grad(lambda *a, f=program: np.sin(f(*a)).sum(), (0, 1, 2))(*primal))
        for name, program in programs.items()
    }


def drawn() -> Any:
    rng = np.random.default_rng(12)
    return [rng.standard_normal((2, 3, *shape)) for shape in ((9, 4), (7, 4), (7, 5))]


def passes_of(run: Any, *args: Any) -> int:
    steps = run.explain(*args).plan.steps
    return sum(isinstance(step, KernelStep) and step.name.startswith("attention") for step in steps)


def test_attention_by_hand_keeps_no_scores(monkeypatch: Any) -> None:
    """It is the same function with the same gradients, by three passes."""
    monkeypatch.setattr(sys.modules["slangrad.graph.attention"], "CACHED", 0)
    primal, rng = drawn(), np.random.default_rng(13)
    along = [rng.standard_normal(x.shape) for x in primal]
    run = graph.jit(lambda primal: values_and_slopes(STREAMED, primal))
    assert passes_of(run, primal) == 3 * len(STREAMED)
    for name, (value, gradient) in run(primal).items():
        program = STREAMED[name]
        np.testing.assert_allclose(value, program(*primal), rtol=1e-11, atol=1e-13, err_msg=name)
        for x, d, slope in zip(primal, along, gradient, strict=True):
            moved = ([p + h * d if p is x else p for p in primal] for h in (1e-6, -1e-6))
            above, below = (np.sin(program(*arguments)).sum() for arguments in moved)
            wanted = (above - below) / 2e-6
            np.testing.assert_allclose((slope * d).sum(), wanted, rtol=1e-6, atol=1e-7, err_msg=name)


def test_other_products_of_quotients_stay_as_they_are(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.modules["slangrad.graph.attention"], "CACHED", 0)
    primal = drawn()
    run = graph.jit(lambda primal: {name: program(*primal) for name, program in STORED.items()})
    assert not passes_of(run, primal)
    for name, value in run(primal).items():
        np.testing.assert_allclose(value, STORED[name](*primal), rtol=1e-11, atol=1e-13, err_msg=name)


def test_attention_by_hand_of_infinities_is_numpys(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.modules["slangrad.graph.attention"], "CACHED", 0)
    q, k, v = arrays(5, 7, 4, 3)
    for place, value in (((0, 0, 0, 0), np.inf), ((0, 1, 0, slice(4)), -np.inf), ((1, 1, 1), np.nan)):
        q[place] = value
    v[1, 2, 2, 1], v[1, 0, 2, 0] = np.inf, np.nan
    program = STREAMED["plain"]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(graph.jit(program)(q, k, v), program(q, k, v), rtol=1e-11)
        np.testing.assert_allclose(graph.jit(program)(k * 1e4, k, v), program(k * 1e4, k, v), rtol=1e-11)


def test_attention_by_hand_needs_large_scores() -> None:
    """Of 16 MiB and more; an arena of less than the scores shows that they are not stored."""
    program = STREAMED["plain"]
    few, many = ([np.ones((1, 1, n, 8), np.float32)] * 3 for n in (512, 3000))
    stored, streamed = (graph.jit(program).explain(*xs).plan for xs in (few, many))
    assert stored.peak >= 512 * 512 * 4
    assert streamed.peak < 3000 * 3000 * 4 / 10


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
