"""Forward mode, batches and the transforms of torch.func."""

from itertools import product

import pytest

import slangrad as spy

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad, gradcheck  # noqa: E402
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402

TEXT = """
import slangpy;
[Differentiable] double poly(double a, double x) { return a * a * x * x + sin(x); }
[Differentiable] double3 scaled(double3 v, double s) { return v * v * s * s; }
[Differentiable] double row(int i, ITensor<double, 1> w, double x) { return w[i] * w[i] * sin(x) * w[0]; }
[Differentiable] void filled(double x, out double y) { y = x * x; }
int whole(double x) { return int(x); }
"""
CALLS = {
    "values": (lambda m, a, x: m.poly(a, x), [(), (3,)]),
    "vectors": (lambda m, v, s: m.scaled(v, s), [(4, 3), (4,)]),
    "whole tensors": (lambda m, w, x: m.row(spy.grid((3,)), w, x), [(3,), (3,)]),
}


@pytest.fixture(scope="session")
def device():
    return spy.create_device(backend="cpu")


@pytest.fixture
def module(load):
    return load(TEXT)


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5


def case(module, name):
    call, shapes = CALLS[name]
    return (lambda *given: call(module, *given)), [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]


def given(module, x, y):
    module.filled(x, y)
    return y


@pytest.mark.parametrize("name", CALLS)
def test_forward_mode(module, name):
    f, inputs = case(module, name)
    assert gradcheck(
        f, [each.requires_grad_() for each in inputs], check_forward_ad=True, check_backward_ad=False
    )


@pytest.mark.parametrize("name", CALLS)
def test_transforms(module, name):
    f, (a, x) = case(module, name)
    total = lambda a: f(a, x).sum()
    expected = torch.autograd.functional.hessian(total, a)
    assert torch.allclose(grad(total)(a), torch.autograd.functional.jacobian(total, a))
    assert torch.allclose(hessian(total)(a), expected)
    assert torch.allclose(jacrev(grad(total))(a), expected)
    outputs = lambda a: f(a, x)
    jacobian = torch.autograd.functional.jacobian(outputs, a)
    assert torch.allclose(jacrev(outputs)(a), jacobian)
    assert torch.allclose(jacfwd(outputs)(a), jacobian)
    value, tangent = jvp(outputs, (a,), (torch.ones_like(a),))
    assert torch.allclose(tangent, torch.tensordot(jacobian, torch.ones_like(a), a.dim()))
    _, pull = vjp(outputs, a)
    assert torch.allclose(
        pull(torch.ones_like(value))[0], torch.tensordot(torch.ones_like(value), jacobian, value.dim())
    )


@pytest.mark.parametrize(("name", "order"), [("values", 3), ("whole tensors", 2)])
def test_modes_nest_as_deep_as_is_wanted(module, name, order):
    """Derivatives in a direction, by each way to nest forward and reverse mode."""
    f, (a, x) = case(module, name)
    theirs = (lambda a: a * a * x * x + x.sin()) if name == "values" else lambda a: a * a * x.sin() * a[0]
    v = torch.ones_like(a)
    forward = lambda f: lambda a: jvp(f, (a,), (v,))[1]
    reverse = lambda f: lambda a: (grad(lambda a: f(a).sum())(a) * v).sum()
    for modes in product((forward, reverse), repeat=order):
        nested, wanted = lambda a: f(a, x).square(), lambda a: theirs(a).square()
        for mode in modes:
            nested, wanted = mode(nested), reverse(wanted)
        assert torch.allclose(nested(a).sum(), wanted(a), rtol=1e-10)


def test_batches(module):
    a, x = numbers(), numbers(5, 3, seed=1)
    assert torch.equal(vmap(module.poly, (None, 0))(a, x), module.poly(a, x))
    assert torch.equal(vmap(module.poly, (None, 1), 1)(a, x), module.poly(a, x))
    each = vmap(grad(lambda a, x: module.poly(a, x).sum()), (None, 0))(a, x)
    assert torch.allclose(each, (2 * a * x * x).sum(1))


def test_what_is_no_operation_of_forward_mode(module):
    x = numbers(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        assert forward_ad.unpack_dual(module.whole(dual)).tangent is None
        filled = torch.zeros_like(x)
        module.filled(dual, filled)
        assert torch.allclose(forward_ad.unpack_dual(filled).tangent, 2 * x)
        leaf = x.clone().requires_grad_()
        held = forward_ad.make_dual(leaf, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(module.poly(2.0, held)).tangent
        (gradient,) = torch.autograd.grad(tangent.sum(), leaf)
        assert torch.allclose(gradient, 8 - x.sin())
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda x: given(module, x, torch.zeros((), dtype=torch.float64)))(x)
    filled = torch.zeros_like(x)
    vmap(lambda x, y: given(module, x, y))(x, filled)
    assert torch.allclose(filled, x * x)
