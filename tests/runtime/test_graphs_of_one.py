"""Bound calls on a GPU become graphs of one kernel after some runs: on a driver without a GPU, and (marked cuda) on one."""

from types import SimpleNamespace

import numpy as np
import pytest

import slangrad as spy
from slangrad.runtime.cuda import device as devices
from slangrad.runtime.cuda.graph import RUNS_BEFORE_GRAPH
from tests.runtime.fake_cuda import Result, fake_gpu

TEXT = """
void bump(inout float x, float by) { x += by; }
[Differentiable] float line(float a, float b, float x) { return a * x + b; }
float at(RWTensor<float, 1> t, int i) { return t[i]; }
void say(float x) { printf("%f\\n", x); }
"""


@pytest.fixture
def fake():
    with fake_gpu() as driver:
        yield driver


@pytest.fixture(params=["fake", pytest.param("gpu", marks=pytest.mark.cuda)])
def device(request):
    """A device whose calls do not wait."""
    if request.param == "fake":
        request.getfixturevalue("fake")
    else:
        request.getfixturevalue("gpu")
    return spy.create_device("cuda")


def loaded(device):
    return spy.Module.load_from_source(device, "graphs_of_one", TEXT)


def tensor(device, *numbers):
    return spy.Tensor.from_numpy(device, np.float32(numbers))


def run(call, count=RUNS_BEFORE_GRAPH + 1):
    for _ in range(count):
        call()


def graphs(device):
    return len(device.runtime._graphs_of_one)


def test_later_runs_are_graphs(device):
    module, x, y = loaded(device), tensor(device, 1, 2, 3), tensor(device, 0, 0)
    bound = module.bump.bind_call(x, 1)
    run(bound, RUNS_BEFORE_GRAPH - 1)
    assert not graphs(device)
    run(bound, 3)
    assert graphs(device) == 1
    assert x.to_numpy().tolist() == [19, 20, 21]
    x.copy_from_numpy(np.float32([0, 0, 0]))
    bound()
    with device.capture() as steps:
        bound()
    assert x.to_numpy().tolist() == [1, 1, 1]
    steps()
    bound.rebind(x=y)
    bound()
    assert x.to_numpy().tolist() == [2, 2, 2] and y.to_numpy().tolist() == [1, 1]
    run(bound)
    assert y.to_numpy().tolist() == [18, 18] and x.to_numpy().tolist() == [2, 2, 2]
    del bound
    assert not graphs(device)


def test_sums_of_all_threads(device):
    """Two kernels in a graph."""
    line = loaded(device).line
    x = tensor(device, *range(300))
    a, b = (tensor(device, n).with_grads() for n in (2, 1))
    y = spy.Tensor.empty_like(x).with_grads(tensor(device, *[1] * 300))
    bound, count = line.bwds.bind_call(a, b, x, _result=y), RUNS_BEFORE_GRAPH + 1
    run(bound, count)
    assert graphs(device) == 1
    assert a.grad.to_numpy().tolist() == [count * sum(range(300))]
    assert b.grad.to_numpy().tolist() == [count * 300]


def test_ordinary_calls_with_the_same_objects(device):
    module, x = loaded(device), tensor(device, 1, 2)
    run(lambda: module.bump(x, 1), 3 * RUNS_BEFORE_GRAPH)
    assert graphs(device) == 1
    assert x.to_numpy().tolist() == [49, 50]


def test_reports_name_the_call(device):
    module, t = loaded(device), tensor(device, 1, 2)
    index, result = spy.Tensor.from_numpy(device, np.int32([0, 1])), tensor(device, 0, 0)
    bound = module.at.bind_call(t, index, _result=result)
    run(bound)
    index.copy_from_numpy(np.int32([0, 5]))
    bound()
    with pytest.raises(IndexError, match=r"E0901.*index 5.*there are 2 elements"):
        device.synchronize()
    index.copy_from_numpy(np.int32([1, 0]))
    bound()
    assert result.to_numpy().tolist() == [2, 1]


def test_calls_that_are_no_graphs(device, capfd):
    """A print, and a call that needs more than a launch."""
    module, x = loaded(device), tensor(device, 1)
    run(module.say.bind_call(x))
    device.synchronize()
    run(module.line.bind_call(1, 2, 3))
    assert not graphs(device)
    assert capfd.readouterr().out == "1.000000\n" * (RUNS_BEFORE_GRAPH + 1)


def test_few_graphs_and_no_memory_for_one(fake, monkeypatch):
    device = spy.create_device("cuda")
    monkeypatch.setattr(devices, "MOST_GRAPHS_OF_ONE", 2)
    x = tensor(device, 0)
    calls = [loaded(device).bump.bind_call(x, 1) for _ in range(4)]
    monkeypatch.setattr(
        fake, "cuGraphInstantiate", lambda graph, flags: (Result.CUDA_ERROR_OUT_OF_MEMORY, 0), raising=False
    )
    run(calls[0])
    assert not graphs(device)
    monkeypatch.undo()
    monkeypatch.setattr(devices, "MOST_GRAPHS_OF_ONE", 2)
    for call in calls[1:]:
        run(call)
    assert graphs(device) == 2
    assert x.to_numpy().tolist() == [4 * (RUNS_BEFORE_GRAPH + 1)]


def test_streams_of_pytorch(fake):
    """Graphs run on its current stream, and a graph that it records gets the kernel."""
    fake.torch = SimpleNamespace(
        cuda=SimpleNamespace(is_initialized=lambda: True, is_available=lambda: True),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: stream),
    )
    stream = 0
    device = spy.create_device("cuda")
    x = tensor(device, 0)
    bound = loaded(device).bump.bind_call(x, 1)
    run(bound)
    assert graphs(device) == 1
    stream = 7
    bound()
    assert fake.used[-1] == ("stream", 7) and fake.waits[-1] == (("stream", 7), ("stream", 0))
    stream, fake.capturing, launched = 5, {("stream", 5)}, fake.graph_launches
    bound()
    assert fake.used[-1] == ("stream", 5) and fake.graph_launches == launched
    fake.capturing, stream = set(), 0
    bound()
    assert fake.graph_launches == launched + 1
