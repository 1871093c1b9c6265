"""Graphs whose kernels run on a GPU: on a driver without one, and (marked cuda) on a real one. Numbers are the CPU's."""

from contextlib import ExitStack

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.devices import array_of
from slangrad.graph.planning import plan, ready
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


def recurrent(w, h, xs):
    """A carry of two arrays, one of integers, rows of views, numbers that all steps read, and an array from outside."""

    def step(carry, x):
        h = np.tanh(carry["h"] @ w + x) * np.float32(0.5)
        return {"h": h, "n": carry["n"] + 1}, (h[:2] * carry["n"], x)

    last, (y, z) = graph.scan(step, {"h": h, "n": np.int64(0)}, xs[::2].T)
    return last["h"], last["n"], y, z


def test_loops(device, cpu):
    """Values, and gradients by all inputs. Rows of elements that have gaps are copied first."""
    arrays = numbers(3, 3), numbers(3, seed=1), numbers(6, 4, seed=2)

    def loss(w, h, xs):
        last, _, y, z = recurrent(w, h, xs)
        return (last**2).sum() + (np.sin(y) * z[:, :2]).sum()

    for f in (recurrent, graph.grad(loss, argnums=(0, 1, 2))):
        ours, expected = (graph.jit(f, device=d)(*on(d, *arrays)) for d in (device, cpu))
        for a, b in zip(ours, expected, strict=True):
            assert a.device is device and tuple(a.shape) == tuple(b.shape)
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=2e-5, atol=1e-6)


def test_loops_in_loops_and_without_steps(device):
    def total(x):
        inner = lambda a, b: (a * np.cos(b), None)
        return graph.scan(lambda c, _: (graph.scan(inner, c, x)[0] + 1, c), x[0], length=3)

    x = numbers(4)
    for ours, expected in zip(graph.jit(total, device=device)(x), total(x), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
    running = graph.jit(lambda c, x: graph.scan(lambda c, x: (c + x, c * x), c, x), device=device)
    last, rows = running(x[0], x[:0])
    assert last == x[0] and rows.shape == (0,)
    last, rows = running(numbers(0), numbers(2, 0))
    assert last.shape == (0,) and rows.shape == (2, 0)


@pytest.fixture
def replays(device, monkeypatch):
    """The graphs of the driver that the device has made of runs; None for a run that has none."""
    graphs, make = [], device.runtime.replay_of
    monkeypatch.setattr(
        device.runtime, "replay_of", lambda calls: graphs.append(make(calls)) or graphs[-1], raising=False
    )
    return graphs


def test_runs_are_replayed(device, replays):
    """Memory is that of the first runs, numbers are new ones; a view of other memory is another run."""
    f = graph.jit(lambda x, y: (np.sin(x @ y).sum(axis=1), (x * 2).sum()))
    x, y = on(device, numbers(3, 5), numbers(5, 4))
    for turn in range(16):
        x.copy_from_numpy(numbers(3, 5, seed=turn))
        total, scaled = f(x, y)
        expected = np.sin(numbers(3, 5, seed=turn) @ numbers(5, 4)).sum(axis=1)
        np.testing.assert_allclose(total.to_numpy(), expected, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(scaled.item(), 2 * numbers(3, 5, seed=turn).sum(), rtol=1e-4, atol=1e-5)
    assert replays and None not in replays
    count = len(replays)
    kept = [f(x, y) for _ in range(8)]
    assert len({total.address for total, _ in kept}) == 8 and len(replays) == count
    for total, _ in kept:
        np.testing.assert_array_equal(total.to_numpy(), kept[0][0].to_numpy())


def test_loops_are_replayed(device, replays, monkeypatch):
    """As one graph, and the bodies of long loops as graphs of their own."""
    f = graph.jit(recurrent)
    arrays = numbers(3, 3), numbers(3, seed=1), numbers(6, 4, seed=2)
    expected = graph.jit(recurrent)(*arrays)
    for most in (ready.MOST_REPLAYED, 20):
        monkeypatch.setattr(plan, "MOST_REPLAYED", most)
        replays.clear()
        f = graph.jit(recurrent)
        inputs = on(device, *arrays)
        for _ in range(12):
            for a, b in zip(f(*inputs), expected, strict=True):
                np.testing.assert_allclose(
                    np.asarray(a.to_numpy()).reshape(np.shape(b)), b, rtol=2e-5, atol=1e-6
                )
        assert replays and None not in replays


def test_training_is_replayed(device, cpu, replays):
    x, y = numbers(8, 3), numbers(8, seed=1)
    loss = lambda p, x, y: ((np.tanh(x @ p["w"]) @ p["v"] - y) ** 2).mean()
    histories = []
    for d in (device, cpu):
        arrays = {"w": numbers(3, 4, seed=2), "v": numbers(4, seed=3)}
        parameters = {name: spy.Tensor.from_numpy(d, array) for name, array in arrays.items()}
        step = graph.train(loss, spy.optim.SGD(parameters, lr=0.05))
        batch = on(d, x, y)
        histories.append([float(step(*batch)) for _ in range(12)])
    np.testing.assert_allclose(*histories, rtol=2e-4)
    assert replays and None not in replays


def test_runs_that_a_capture_records(device, replays):
    x = on(device, numbers(5))[0]
    f = graph.jit(lambda x: x * 3)
    f(x)
    with device.capture() as steps:
        results = [f(x) for _ in range(12)]
    assert not replays
    steps()
    for result in results:
        np.testing.assert_array_equal(result.to_numpy(), numbers(5) * 3)


def test_replayed_functions_are_reloaded(device, replays, tmp_path):
    """A file that changes is seen, as by other calls."""
    file = tmp_path / "halves_on_a_gpu.slang"
    file.write_text("public float halved(float x) { return x / 2; }")
    other = spy.create_device("cuda", include_paths=[tmp_path])
    make = other.runtime.replay_of
    other.runtime.replay_of = lambda calls: replays.append(make(calls)) or replays[-1]
    module = spy.Module.load_from_file(other, file.name)
    x, f = on(other, numbers(5))[0], graph.jit(lambda x: module.halved(x) + 1)
    for _ in range(10):
        np.testing.assert_array_equal(f(x).to_numpy(), numbers(5) / 2 + 1)
    assert replays and None not in replays
    count = len(replays)
    file.write_text("public float halved(float x) { return x / 4; }")
    other.hot_reload_check()
    for _ in range(10):
        np.testing.assert_array_equal(f(x).to_numpy(), numbers(5) / 4 + 1)
    assert len(replays) > count
    other.close()


def test_what_runs_on_the_cpu_only(device, cpu):
    with pytest.raises(graph.GraphError, match=r"E1022.*another device"):
        graph.jit(lambda x, y: x + y)(*on(device, numbers(3)), *on(cpu, numbers(3)))
    with pytest.raises(BufferError, match="the host cannot reach"):
        array_of(*on(device, numbers(3)))
