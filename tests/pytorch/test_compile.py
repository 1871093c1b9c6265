"""Operators of PyTorch: functions inside of compiled graphs, with gradients that equal those of ordinary calls."""

import pytest
import torch

import slangrad as spy

TEXT = """
[Differentiable] float wave(float a, float x) { return sin(a * x) * x; }
[Differentiable] double curve(double a, double x) { return sin(a * x) * exp(-x * x); }
[Differentiable] float3 scaled(float s, float3 v) { return s * v; }
int tripled(int x) { return 3 * x; }
void bump(inout float x) { x += 1; }
"""


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def place(request):
    if request.param == "cuda":
        request.getfixturevalue("gpu")
        if not torch.cuda.is_available():
            pytest.skip("this PyTorch has no GPU")
    return request.param


@pytest.fixture(scope="module")
def module(place):
    return spy.Module.load_from_source(spy.create_device(place), "compiled_ops", TEXT)


def numbers(place, *shape, dtype=torch.float32):
    return (
        torch.linspace(-1, 2, max(torch.Size(shape).numel(), 1), dtype=dtype)[: torch.Size(shape).numel()]
        .reshape(shape)
        .to(place)
    )


@pytest.mark.parametrize("backend", [pytest.param("eager", marks=pytest.mark.deep), "aot_eager"])
def test_graphs_do_not_break(module, place, backend):
    wave = module.wave.torch_op(a=2.0)
    scaled = module.scaled.torch_op()

    def step(x, v):
        return (wave(x * 2) + 1).sum() * scaled(x[:3, 0], v)

    x, v = numbers(place, 5, 4), numbers(place, 3, 3)
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    results = []
    for run in (step, compiled):
        leaf, other = x.clone().requires_grad_(), v.clone().requires_grad_()
        y = run(leaf, other)
        y.square().sum().backward()
        results.append([y.detach(), leaf.grad, other.grad])
    plain_x, plain_v = x.clone().requires_grad_(), v.clone().requires_grad_()
    y = (module.wave(2.0, plain_x * 2) + 1).sum() * module.scaled(plain_x[:3, 0], plain_v)
    y.square().sum().backward()
    for ours, eager, plain in zip(results[1], results[0], [y.detach(), plain_x.grad, plain_v.grad]):
        assert torch.equal(ours, eager) and torch.equal(eager, plain)


def test_shapes_and_types(module, place):
    wave, tripled = module.wave.torch_op(), module.tripled.torch_op()
    compiled = torch.compile(lambda a, x: wave(a, x), backend="eager", fullgraph=True)
    a = torch.tensor(3.0, device=place)
    for x in (
        numbers(place),
        numbers(place, 1),
        numbers(place, 0),
        numbers(place, 7),
        numbers(place, 6, 4).T[::2],
    ):
        assert torch.equal(compiled(a, x), module.wave(a, x)) and compiled(a, x).shape == x.shape
    columns = numbers(place, 4, 1)
    assert torch.equal(compiled(columns, numbers(place, 3)), module.wave(columns, numbers(place, 3)))
    whole = torch.arange(4, dtype=torch.int32, device=place)
    assert torch.equal(
        torch.compile(lambda x: tripled(x) + 1, backend="eager", fullgraph=True)(whole), 3 * whole + 1
    )
    assert not tripled(whole).requires_grad


def test_gradients_to_second_order_outside_of_graphs(module, place):
    curve = module.curve.torch_op()
    a = torch.tensor(0.7, dtype=torch.float64, device=place, requires_grad=True)
    x = numbers(place, 2, 2, dtype=torch.float64)[:, ::2].clone().requires_grad_()
    assert torch.autograd.gradcheck(curve, (a, x))
    assert torch.autograd.gradgradcheck(curve, (a, x))
    (first,) = torch.autograd.grad(curve(a, x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    (first,) = torch.autograd.grad(module.curve(a, x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    assert torch.equal(third, torch.autograd.grad(second.sum(), x)[0])


def test_the_rules_of_operators_hold(module, place):
    x = numbers(place, 4).requires_grad_()
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(module.wave.torch_op(a=0.5), (x,), test_utils=checks)


def test_what_is_no_operator(module, place):
    with pytest.raises(spy.CallError, match=r"E1007.*'bump' writes its parameter 'x'"):
        module.bump.torch_op()
    with pytest.raises(spy.CallError, match=r"E1007.*'wave' has no parameter 'b'"):
        module.wave.torch_op(b=1.0)
    wave = module.wave.torch_op(a=1.0)
    with pytest.raises(Exception, match=r"E1001.*torch\.complex64 have no Slang type"):
        torch.compile(lambda x: wave(x), backend="eager", fullgraph=True)(
            numbers(place, 3).to(torch.complex64)
        )
