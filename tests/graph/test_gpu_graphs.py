"""Graphs whose kernels run on a GPU: on a driver without one, and (marked cuda) on a real one. Numbers are the CPU's."""

from contextlib import ExitStack

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from tests.runtime.fake_cuda import fake_gpu


@pytest.fixture(scope="module", params=["fake", pytest.param("gpu", marks=pytest.mark.cuda)])
def device(request):
    with ExitStack() as stack:
        if request.param == "gpu":
            yield request.getfixturevalue("gpu")
            return
        stack.enter_context(fake_gpu())
        yield spy.create_device("cuda")


@pytest.fixture(scope="module")
def cpu():
    return spy.Device("cpu")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def on(device, *arrays):
    return [spy.Tensor.from_numpy(device, array) for array in arrays]


FUNCTIONS = {
    "map and sum": (lambda x, y: (np.sin(x) * y).sum(axis=1) + 1, [(3, 5), (3, 5)]),
    "product": (lambda x, y: np.maximum(x @ y, 0) * 2, [(3, 5), (5, 4)]),
    "softmax": (lambda x, y: np.exp(x - x.max(axis=1, keepdims=True)) / y.T, [(2, 3), (3, 2)]),
    "views": (lambda x, y: np.concatenate([x[::2].T, y[:, :2]], axis=0), [(3, 4), (2, 5)]),
    "reduced twice": (lambda x, y: x.mean() + (y * x).max(), [(7,), (7,)]),
    "no elements": (lambda x, y: x.sum(axis=0) + y, [(0, 3), (3,)]),
    "one of each row": (lambda x, y: (x[np.arange(3), np.array([1, 0, 1])] * y) ** 2, [(3, 2), (3,)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(device, cpu, name):
    function, shapes = FUNCTIONS[name]
    arrays = [numbers(*shape, seed=i) + (name == "softmax") * 2 for i, shape in enumerate(shapes)]
    loss = lambda x, y: (function(x, y) ** 2).sum()
    for f in (function, graph.grad(loss, argnums=(0, 1))):
        results = [graph.jit(f, device=d)(*on(d, *arrays)) for d in (device, cpu)]
        pairs = zip(*[r if isinstance(r, tuple) else (r,) for r in results], strict=True)
        for ours, expected in pairs:
            assert isinstance(ours, spy.Tensor) and ours.device is device
            np.testing.assert_allclose(ours.to_numpy(), expected.to_numpy(), rtol=2e-5, atol=1e-6)


def test_calls_in_a_row(device):
    """Memory of earlier calls, NumPy's arrays that change, and captured ones."""
    weights = numbers(4)
    f = graph.jit(lambda x: x * weights + 1, device=device)
    x = numbers(3, 4)
    for turn in range(3):
        x[0, 0], weights[1] = turn, 2 * turn
        found = f(x)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, x * weights + 1, rtol=1e-6)
    tensor = on(device, x)[0]
    for _ in range(3):
        tensor = f(tensor)
    np.testing.assert_allclose(tensor.to_numpy(), f(f(f(x))), rtol=1e-6)


def test_training(device, cpu):
    """The same losses and parameters as on the CPU, with NumPy's batches and with tensors on the GPU."""
    x, y = numbers(8, 3), numbers(8, seed=1)

    def loss(parameters, x, y):
        hidden = np.tanh(x @ parameters["w"] + parameters["b"])
        return ((hidden @ parameters["v"] - y) ** 2).mean()

    histories = []
    for d, batch in ((device, (x, y)), (device, on(device, x, y)), (cpu, (x, y))):
        arrays = {"w": numbers(3, 4, seed=2), "b": np.zeros(4, np.float32), "v": numbers(4, seed=3)}
        parameters = {name: spy.Tensor.from_numpy(d, array) for name, array in arrays.items()}
        step = graph.train(loss, spy.optim.Adam(parameters, lr=0.05))
        losses = [float(step(*batch)) for _ in range(4)]
        histories.append([*losses, *(parameters[name].to_numpy().ravel() for name in parameters)])
    for history in histories[:2]:
        np.testing.assert_allclose(np.hstack(history), np.hstack(histories[2]), rtol=2e-4, atol=1e-5)
    assert histories[0][3] < histories[0][0]


def test_slang_functions_in_graphs(device):
    text = "[Differentiable] float bump(float x, float w) { return exp(-w * x * x); }"
    module = spy.Module.load_from_source(device, "bumps_on_a_gpu", text)
    x, w = numbers(5), numbers(5, seed=1)
    found = graph.jit(lambda x, w: module.bump(x, w) + 1)(*on(device, x, w)).to_numpy()
    np.testing.assert_allclose(found, np.exp(-w * x * x) + 1, rtol=1e-5)


def test_torch_tensors_of_the_host(device):
    torch = pytest.importorskip("torch")
    x = torch.linspace(0, 1, 6).reshape(2, 3)
    found = graph.jit(lambda x: (x * 2).sum(axis=0), device=device)(x)
    assert isinstance(found, torch.Tensor) and not found.is_cuda
    torch.testing.assert_close(found, (2 * x).sum(0))


def test_what_runs_on_the_cpu_only(device, cpu):
    def summed(xs):
        return graph.scan(lambda total, x: (total + x, total), np.float32(0) * xs[0], xs)[0]

    with pytest.raises(
        graph.GraphError, match=r"E1043.*graph\.scan and exchanges of workers run on the CPU only"
    ):
        graph.jit(summed, device=device)(*on(device, numbers(300)))
    with pytest.raises(graph.GraphError, match=r"E1022.*another device"):
        graph.jit(lambda x, y: x + y)(*on(device, numbers(3)), *on(cpu, numbers(3)))
