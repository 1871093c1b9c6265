"""`grad`, `value_and_grad`, `jvp`, `vjp`, `hvp`, `check_gradients` of torch tensors, compared with PyTorch's own."""

import numpy as np
import pytest

import slangrad as spy

torch = pytest.importorskip("torch")

TEXT = """
    [Differentiable] double loss(double x, double w) { return x * x * x * w * w + sin(w); }
    [Differentiable] float3 scaled(float3 v, float s) { return v * v * s; }
    [Differentiable] double row(int i, ITensor<double, 1> w, double x) { return w[i] * w[i] * sin(x) * w[0]; }
    struct Pair : IDifferentiable { double a; double b; }
    [Differentiable] double product(Pair p) { return p.a * p.b * p.b; }
    [BackwardDerivative(wrong)] double bad(double x) { return x * x; }
    void wrong(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, x.p * d); }
"""


@pytest.fixture(scope="module")
def module():
    return spy.Module.load_from_source(
        spy.create_device(backend="cpu", options=spy.Options(optimize=0)), "gradients", TEXT
    )


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5


def near(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0, check_stride=False)


def loss(x, w):
    return x**3 * w * w + torch.sin(w)


SHAPES = {"elements": ((4, 3), (3,)), "no dimensions": ((), ())}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_gradients_and_products(module, shapes):
    x, w = (numbers(*reversed(shape), seed=i) for i, shape in enumerate(shapes))
    x, way = x.permute(tuple(range(x.dim())[::-1])), numbers(*shapes[1], seed=5)  # x lies column by column
    total = lambda x, w: loss(x, w).sum()
    wanted = torch.func.grad(total, (0, 1))(x, w)
    near(spy.grad(module.loss, (0, 1))(x, w), wanted)
    value, gradients = spy.value_and_grad(module.loss, argnames=("x", "w"))(x=x, w=w)
    near((value, gradients["x"], gradients["w"]), (total(x, w), *wanted))
    mean, slope = spy.value_and_grad(module.loss, 1, reduction="mean")(x, w)
    near((mean, slope), (loss(x, w).mean(), wanted[1] / max(loss(x, w).numel(), 1)))
    near(spy.jvp(module.loss, (x, w), (None, way)), torch.func.jvp(lambda w: loss(x, w), (w,), (way,)))
    y, pullback = spy.vjp(module.loss, x, w)
    ct = numbers(*y.shape, seed=7)
    own, theirs = torch.func.vjp(loss, x, w)
    near((y, *pullback(ct)), (own, *theirs(ct)))
    product = torch.func.jvp(lambda w: torch.func.grad(total, (0, 1))(x, w), (w,), (way,))[1]
    near(spy.hvp(module.loss, (x, w), (None, way)), product)
    near(
        spy.grad(spy.grad(module.loss, 1), 1)(x, torch.full_like(w, 2.0)), second(x, torch.full_like(w, 2.0))
    )


def second(x, w):
    slope = lambda w: torch.func.grad(lambda w: loss(x, w).sum())(w).sum()
    return torch.func.grad(slope)(w)


def test_vectors_keep_their_dimension(module):
    v = numbers(4, 3).float()
    y, pullback = spy.vjp(module.scaled, v, 2.0)
    ct = numbers(4, 3, seed=1).float()
    torch.testing.assert_close(y, 2 * v * v)
    dv, ds = pullback(ct)
    torch.testing.assert_close(dv, 4 * v * ct)
    assert ds == pytest.approx((v * v * ct).sum().item(), rel=1e-6) and isinstance(ds, float)
    y, dy = spy.jvp(module.scaled, (v[0], 2.0), (ct[0], None))
    torch.testing.assert_close((y, dy), (2 * v[0] ** 2, 4 * v[0] * ct[0]))
    assert spy.vjp(module.scaled, v[0], 2.0)[1](ct[0])[0].tolist() == (4 * v[0] * ct[0]).tolist()


def test_whole_tensors_dicts_and_arrays_beside_them(module):
    w, x = numbers(3), numbers(3, seed=1)
    row = lambda w: (w * w * torch.sin(x) * w[0]).sum()
    near(spy.grad(module.row, 1)(spy.grid((3,)), w, x), torch.func.grad(row)(w))
    near(
        spy.hvp(module.row, (spy.grid((3,)), w, x), (None, x, None))[1],
        torch.func.jvp(torch.func.grad(row), (w,), (x,))[1],
    )
    found = spy.grad(module.product)({"a": w, "b": x})
    near((found["a"], found["b"]), (x * x, 2 * w * x))
    mixed = spy.grad(module.loss, (0, 1))(w.numpy(), x)
    assert isinstance(mixed[0], np.ndarray)
    near((torch.from_numpy(mixed[0]), mixed[1]), torch.func.grad(lambda w, x: loss(w, x).sum(), (0, 1))(w, x))


def test_what_the_caller_has_is_left_alone(module):
    """Parameters with gradients of their own; values that are overwritten between the call and the cotangent."""
    x = numbers(3).requires_grad_()
    kept, version = x.detach().clone(), x._version
    gradient = spy.grad(module.loss)(x, 2.0)
    assert x.grad is None and x._version == version and not gradient.requires_grad
    y, pullback = spy.vjp(module.loss, x, 2.0)
    with torch.no_grad():
        x.zero_()
    near(pullback(torch.ones(3, dtype=torch.float64))[0], 12 * kept**2)
    assert not y.requires_grad
    assert isinstance(spy.value_and_grad(module.loss.return_type("torch"))(np.ones(3), 2.0)[0], torch.Tensor)


def test_checks_and_errors(module):
    spy.check_gradients(module.loss, numbers(4), torch.tensor(0.3, dtype=torch.float64))
    with pytest.raises(spy.GradientError):
        spy.check_gradients(module.bad, numbers(4))
    with pytest.raises(spy.CallError, match=r"torch\.complex64 has no Slang type"):
        spy.grad(module.loss)(torch.ones(3, dtype=torch.complex64), 1.0)
    with pytest.raises(spy.CallError, match=r"the tangent has shape \(2,\), the argument \(3,\)"):
        spy.jvp(module.loss, (numbers(3), 1.0), (numbers(2), None))
    with pytest.raises(spy.CallError, match="has no memory of its own"):
        torch.func.vmap(lambda x: spy.grad(module.loss)(x, 1.0))(numbers(3))
    with pytest.raises(spy.CallError, match="has no gradient"):
        spy.grad(module.row)(torch.tensor([0, 1], dtype=torch.int32), numbers(3), 1.0)
