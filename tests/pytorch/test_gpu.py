"""Tensors of PyTorch on a GPU: no copies, PyTorch's streams, its graphs, gradients to second order, other libraries."""

import gc

import numpy as np
import pytest
import torch

import slangrad as spy
from slangrad.tensors import gpu_exchange

pytestmark = pytest.mark.cuda

TEXT = """
[Differentiable] float wave(float a, float x) { return sin(a * x) * x; }
[Differentiable] double curve(double a, double x) { return sin(a * x) * exp(-x * x); }
[Differentiable] float3 scaled(float s, float3 v) { return s * v; }
int tripled(int x) { return 3 * x; }
void bump(inout float x) { x += 1; }
float at(RWTensor<float, 1> t, int i) { return t[i]; }
[Differentiable] float total(float3 v) { return v.x * v.y + v.z; }
"""


@pytest.fixture(scope="module")
def module(gpu):
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    return spy.Module.load_from_source(gpu, "torch_on_a_gpu", TEXT)


@pytest.fixture(scope="module")
def on_cpu():
    return spy.Module.load_from_source(spy.create_device("cpu"), "torch_on_a_cpu", TEXT)


def numbers(*shape, dtype=torch.float32, seed=1):
    made = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, dtype=dtype, device="cuda", generator=made)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (7,), (3, 5), (33, 129)])
def test_values_lie_where_the_arguments_do(module, shape):
    x = numbers(*shape)
    y = module.wave(2.0, x)
    assert y.device == x.device and y.shape == x.shape
    torch.testing.assert_close(y, torch.sin(2 * x) * x)


@pytest.mark.parametrize(
    "view",
    [lambda x: x[::2], lambda x: x.T, lambda x: x[1:, 1:], lambda x: x.flip(0), lambda x: x[:1].expand(6, 8)],
)
def test_views_are_used_as_they_lie(module, view):
    x = view(numbers(6, 8))
    torch.testing.assert_close(module.wave(0.5, x), torch.sin(0.5 * x) * x)


def test_other_functions(module):
    x = torch.arange(10, dtype=torch.int32, device="cuda")
    assert torch.equal(module.tripled(x), 3 * x)
    v = numbers(5, 3)
    assert torch.equal(module.scaled(2.0, v), 2 * v)
    y = numbers(9)
    before, version = y.clone(), y._version
    module.bump(y)
    assert torch.equal(y, before + 1) and y._version > version
    assert torch.equal(module.at(y, torch.arange(9, dtype=torch.int32, device="cuda")), y)


def test_arguments_of_both_sides(module):
    """A NumPy array and a tensor of the CPU are copied to the GPU; the result lies with the tensor there."""
    x = numbers(4)
    y = module.wave(np.full(4, 2.0, np.float32), x)
    assert y.is_cuda
    z = module.wave(torch.full((4,), 2.0), x)
    assert z.is_cuda and torch.equal(y, z)
    assert not module.wave(2.0, torch.ones(4)).is_cuda


def test_gradients_to_second_order(module):
    x = numbers(11, dtype=torch.float64).requires_grad_()
    a = torch.tensor(0.7, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(module.curve, (a, x))
    assert torch.autograd.gradgradcheck(module.curve, (a, x))
    wide = numbers(4, 11, dtype=torch.float64)[:, ::2].requires_grad_()
    assert torch.autograd.gradcheck(module.curve, (a, wide))


def test_gradients_are_those_of_the_cpu(module, on_cpu):
    x = numbers(1000, dtype=torch.float64)
    grads = []
    for loaded, device in ((module, "cuda"), (on_cpu, "cpu")):
        here = x.detach().to(device).requires_grad_()
        loaded.curve(1.5, here).square().sum().backward()
        grads.append(here.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)


def test_forward_mode(module):
    x, v = numbers(6, dtype=torch.float64), numbers(6, dtype=torch.float64, seed=2)
    _, tangent = torch.func.jvp(lambda x: module.curve(2.0, x), (x,), (v,))
    x = x.requires_grad_()
    (gradient,) = torch.autograd.grad(module.curve(2.0, x).sum(), x)
    torch.testing.assert_close(tangent, gradient * v)


def test_a_training_step(module):
    """PyTorch's layers on both sides of a call, its optimizer after them."""
    torch.manual_seed(0)
    layer, head = torch.nn.Linear(3, 3).cuda(), torch.nn.Linear(1, 1).cuda()
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.05)
    x, losses = numbers(64, 3), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (head(module.total(layer(x))[:, None]) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_the_current_stream(module):
    """A call waits for what PyTorch has put on its current stream, and PyTorch for the call."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    x = torch.ones(1 << 22, device="cuda")
    torch.cuda.synchronize()
    for turn in range(20):
        stream = streams[turn % 3]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x.clone()
            for _ in range(20):
                y = y + 1
            module.bump(y)
            z = y * 2
        torch.cuda.current_stream().wait_stream(stream)
        assert z.sum().item() == 44 * (1 << 22)


def test_calls_on_two_streams_have_one_order(module, gpu):
    """Tensors of slangrad need no events between streams."""
    t = spy.Tensor.zeros(gpu, (1 << 20,), "float")
    streams = [torch.cuda.Stream() for _ in range(2)]
    for turn in range(50):
        with torch.cuda.stream(streams[turn % 2]):
            module.bump(t)
    assert (t.to_numpy() == 50).all()


def test_a_graph_of_pytorch(module, gpu):
    plain = spy.create_device("cuda")  # the other device waits after each call
    wave = spy.Module.load_from_source(plain, "in_a_graph", TEXT).wave
    x = torch.ones(1000, device="cuda", requires_grad=True)

    def step():
        (gradient,) = torch.autograd.grad(wave(2.0, x).sum(), x)
        return gradient

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradient = step()
    for value in (0.5, -1.25):
        with torch.no_grad():
            x.fill_(value)
        graph.replay()
        expected = step()
        assert torch.equal(gradient, expected)


def test_a_graph_refuses_memory_of_slangrad(module):
    plain = spy.create_device("cuda")
    wave = spy.Module.load_from_source(plain, "not_in_a_graph", TEXT).wave
    x = torch.ones(10, device="cuda")
    wave(2.0, x, _result="tensor")
    graph = torch.cuda.CUDAGraph()
    with (
        pytest.raises(RuntimeError, match=r"E1052.*torch\.cuda\.graph cannot record"),
        torch.cuda.graph(graph),
    ):
        wave(2.0, x, _result="tensor")


def test_memory_is_shared_both_ways(module, gpu):
    t = spy.Tensor.from_numpy(gpu, np.arange(6, dtype=np.float32).reshape(2, 3))
    seen = t.to_torch()
    assert seen.is_cuda and seen.shape == (2, 3)
    seen += 1
    assert (t.to_numpy() == np.arange(1, 7).reshape(2, 3)).all()
    of_torch = numbers(4, 3)
    shared = spy.Tensor.from_dlpack(gpu, of_torch)
    module.bump(shared)
    assert shared.address == of_torch.data_ptr()
    assert np.array_equal(shared.to_numpy(), of_torch.cpu().numpy())
    vectors = spy.Tensor.from_dlpack(gpu, of_torch, dtype="float3")
    assert vectors.shape == (4,)
    copied = spy.Tensor.from_torch(gpu, of_torch)
    assert copied.address != of_torch.data_ptr() and np.array_equal(copied.to_numpy(), of_torch.cpu().numpy())
    copied.copy_from_torch(2 * of_torch)
    assert np.array_equal(copied.to_numpy(), 2 * of_torch.cpu().numpy())


def test_dlpack(gpu):
    t = spy.Tensor.from_numpy(gpu, np.arange(12, dtype=np.float64).reshape(3, 4))
    seen = torch.from_dlpack(t[:, 1:3])
    assert seen.is_cuda and seen.tolist() == [[1, 2], [5, 6], [9, 10]]
    seen *= 2
    assert t.to_numpy()[1].tolist() == [4, 10, 12, 7]
    count = len(gpu_exchange._kept)
    del seen
    gc.collect()
    assert len(gpu_exchange._kept) < count
    assert np.from_dlpack(t, device="cpu").tolist() == t.to_numpy().tolist()


def test_cupy(module, gpu):
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(5, dtype=cupy.float32)
    t = spy.Tensor.from_dlpack(gpu, x)
    module.bump(t)
    assert x.tolist() == [1, 2, 3, 4, 5]
    y = cupy.asarray(t)
    y += 1
    assert t.to_numpy().tolist() == [2, 3, 4, 5, 6]
    assert cupy.from_dlpack(t).tolist() == [2, 3, 4, 5, 6]


def test_jax(module, gpu, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or it takes most of the GPU's memory
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    t = spy.Tensor.from_numpy(gpu, np.arange(5, dtype=np.float32))
    assert (2 * jax.dlpack.from_dlpack(t)).tolist() == [0, 2, 4, 6, 8]
    shared = spy.Tensor.from_dlpack(gpu, jax.numpy.arange(4.0, dtype="float32"))
    assert module.wave(0.0, shared).to_numpy().tolist() == [0, 0, 0, 0]


def test_what_does_not_fit(module, on_cpu, gpu):
    x = numbers(3)
    with pytest.raises(
        spy.CallError, match=r"E1022.*'x'.* lies on 'cuda:0', and calls run on .*\n.*create_device"
    ):
        on_cpu.wave(2.0, x)
    with pytest.raises(spy.CallError, match=r"E1007.*on the device 'cpu' for a tensor on 'cuda:0'"):
        module.wave.bwds(2.0, spy.diff_pair(x, torch.zeros(3)))
    with pytest.raises(BufferError, match="on the GPU cannot be used as it lies"):
        spy.Tensor.from_dlpack(gpu, numbers(4, 6)[:, ::2], dtype="float3")
    with pytest.raises(spy.CallError, match=r"E1007|E1001"):
        module.wave(2.0, x.to("meta"))


def test_devices_by_name():
    assert spy.create_torch_device(torch_device="cuda").type == spy.DeviceType.cuda
    assert spy.create_torch_device("cuda", torch_device=torch.device("cuda:0")).runtime.index == 0
    with pytest.raises(spy.CallError, match=r"E1015.*there is no GPU number 99"):
        spy.create_device("cuda:99")
