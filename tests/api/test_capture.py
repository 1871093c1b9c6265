"""`device.capture()`: calls that are recorded and run later, on the CPU and on a GPU without one."""

import gc
import threading

import numpy as np
import pytest

import slangrad as spy
from tests.runtime.fake_cuda import fake_gpu

TEXT = """
[Differentiable] float line(float a, float x) { return a * x; }
void bump(inout float x, float by) { x += by; }
float at(RWTensor<float, 1> t, int i) { return t[i]; }
void say(float x) { printf("%f\\n", x); }
[shader("compute")] [numthreads(32, 1, 1)]
void twice(uint3 t : SV_DispatchThreadID, RWTensor<float, 1> x) { if (t.x < x.shape[0]) x[t.x] = 2 * x[t.x]; }
"""


@pytest.fixture(scope="module", params=["cpu", "cuda", pytest.param("gpu", marks=pytest.mark.cuda)])
def device(request):
    if request.param == "gpu":
        gpu = request.getfixturevalue("gpu")
        gpu.driver = None
        yield gpu
        return
    with fake_gpu() as driver:
        device = spy.create_device(request.param)
        device.driver = driver if request.param == "cuda" else None
        yield device


@pytest.fixture(scope="module")
def module(device):
    return spy.Module.load_from_source(device, "captured", TEXT)


def tensor(device, *numbers):
    return spy.Tensor.from_numpy(device, np.float32(numbers))


def test_calls_run_when_the_capture_is_called(device, module):
    x, y = tensor(device, 1, 2, 3), spy.Tensor.zeros(device, (3,), "float")
    with device.capture() as g:
        module.bump(x, 1)
        module.line(10, x, _result=y)
        module.bump(x, 1)
    assert len(g) == 3 and repr(g) == "CapturedCalls(3)"
    assert x.to_numpy().tolist() == [1, 2, 3] and y.to_numpy().tolist() == [0, 0, 0]
    g()
    assert x.to_numpy().tolist() == [3, 4, 5] and y.to_numpy().tolist() == [20, 30, 40]
    x.copy_from_numpy(np.float32([0, 0, 1]))
    g()
    assert x.to_numpy().tolist() == [2, 2, 3] and y.to_numpy().tolist() == [10, 10, 20]


def test_gradients_and_clearing(device, module):
    """A step of training: gradients are cleared, summed over all calls, and subtracted."""
    x, a = tensor(device, *range(40)), tensor(device, 3).with_grads()
    y = spy.Tensor.zeros(device, (40,), "float").with_grads(spy.Tensor.ones(device, (40,), "float"))
    step = module.bump.bind_call(a.detach(), spy.Tensor.ones(device, (1,), "float"))
    step()
    with device.capture() as g:
        a.grad.clear()
        module.line.bwds(a, x, _result=y)
        step()
    for turn in range(3):
        g()
        assert a.grad.to_numpy().tolist() == [780]
        assert a.to_numpy().tolist() == [5 + turn]


def test_results_of_calls_inside(device, module):
    x = tensor(device, 1, 2)
    with device.capture() as g:
        y = module.line(2, x)
        module.bump(module.line(3, y, _result="tensor"), 1)
    del x
    gc.collect()
    others = [tensor(device, 7, 7) for _ in range(4)]
    g()
    assert y.to_numpy().tolist() == [2, 4] and others[0].to_numpy().tolist() == [7, 7]


def test_the_same_call_many_times_inside(device, module):
    """A launch that is prepared for calls with the same objects is recorded as well."""
    x, one = tensor(device, 0), tensor(device, 1)
    for _ in range(5):
        module.bump(x, one)
    with device.capture() as g:
        for _ in range(9):
            module.bump(x, one)
    assert (len(g), x.to_numpy().tolist()) == (9, [5])
    g()
    assert x.to_numpy().tolist() == [14]
    module.bump(x, one)
    assert x.to_numpy().tolist() == [15]


def test_memory_that_overlaps(device, module):
    x = tensor(device, 1, 2, 3, 4)
    with device.capture() as g:
        module.line(2, x[:-1], _result=x[1:])
    g()
    assert x.to_numpy().tolist() == [1, 2, 4, 6]
    g()
    assert x.to_numpy().tolist() == [1, 2, 4, 8]


def test_kernels_and_commands(device):
    loaded = device.load_module_from_source("captured_kernel", TEXT)
    kernel = device.create_compute_kernel(device.link_program([loaded], [loaded.entry_point("twice")]))
    x = tensor(device, *range(1, 5))
    encoder = device.create_command_encoder()
    kernel.dispatch((4, 1, 1), x=x, command_encoder=encoder)
    with device.capture() as g:
        kernel.dispatch((4, 1, 1), x=x)
        device.submit_command_buffer(encoder.finish())
    g()
    assert x.to_numpy().tolist() == [4, 8, 12, 16]


def test_what_cannot_be_recorded(device, module):
    x = tensor(device, 1, 2)
    for wrong in (
        x.to_numpy,
        device.synchronize,
        lambda: module.line(2.0, 3.0),
        lambda: x.copy_from_numpy(np.float32([1, 2])),
        lambda: tensor(device, 1),
        lambda: device.capture().__enter__(),
    ):
        with pytest.raises(RuntimeError, match=r"E1052.*device\.capture\(\)"), device.capture() as g:
            wrong()
        with pytest.raises(RuntimeError, match=r"E1052.*has not ended well"):
            g()
    assert x.to_numpy().tolist() == [1, 2] and module.line(2.0, 3.0) == 6
    if device.type == spy.DeviceType.cuda:
        with pytest.raises(RuntimeError, match=r"E1052.*prints"), device.capture():
            module.say(x)
        with device.capture() as g, pytest.raises(RuntimeError, match="E1052"):
            module.say(x)
        assert len(g) == 0
    with device.capture() as g:
        pass
    g()
    with pytest.raises(RuntimeError, match=r"E1052.*make another one"), g:
        pass


def test_steps_of_optimizers(device):
    a = tensor(device, 1, 2).with_grads(tensor(device, 1, 1))
    descent = spy.optim.SGD([a], lr=0.5, momentum=0.5)
    with device.capture() as g:
        descent.step()
    g()
    g()
    assert a.to_numpy().tolist() == [-0.25, 0.75]
    adam = spy.optim.Adam([a])
    with pytest.raises(RuntimeError, match=r"E1052.*steps of Adam depend on their number"), device.capture():
        adam.step()


def test_errors_of_kernels(device, module):
    x, y, i = (
        tensor(device, 1, 2),
        spy.Tensor.zeros(device, (1,), "float"),
        spy.Tensor.zeros(device, (1,), "int"),
    )
    with device.capture() as g:
        module.at(x, i, _result=y)
    g()
    assert y.to_numpy().tolist() == [1]
    i.copy_from_numpy(np.int32([2]))
    with pytest.raises(spy.BoundsError, match="index 2 is out of range"):
        g()
        device.synchronize()
    i.copy_from_numpy(np.int32([1]))
    g()
    assert y.to_numpy().tolist() == [2]


def test_other_threads_run_their_calls(device, module):
    x, y = tensor(device, 1), tensor(device, 1)
    with device.capture() as g:
        thread = threading.Thread(target=module.bump, args=(y, 1))
        thread.start()
        thread.join()
        module.bump(x, 1)
    assert y.to_numpy().tolist() == [2] and x.to_numpy().tolist() == [1] and len(g) == 1


def test_many_launches_are_one_call_of_the_driver(device, module):
    if device.driver is None:
        pytest.skip("the calls of a driver are counted on the fake one")
    x = tensor(device, *range(3))
    with device.capture() as g:
        for _ in range(20):
            module.bump(x, 1)
    g()
    device.driver.calls.clear()
    before = device.driver.graph_launches
    g()
    assert device.driver.graph_launches == before + 1
    assert set(device.driver.calls) <= {"cuLaunchKernel", "cuCtxSetCurrent"}
    del g
    gc.collect()
    assert device.driver.calls[-1] == "cuGraphExecDestroy"


def test_a_kernel_without_arguments(device, capsys):
    """Its block of arguments has no bytes, and that of a GPU's kernel one."""
    text = """
    groupshared uint sum;
    [shader("compute")] [numthreads(2, 1, 1)]
    void hello(uint3 t : SV_GroupThreadID)
    {
        if (t.x == 0) sum = 0;
        GroupMemoryBarrierWithGroupSync();
        InterlockedAdd(sum, t.x + 20);
        GroupMemoryBarrierWithGroupSync();
        if (t.x == 0) printf("sum %u\\n", sum);
    }
    """
    module = device.load_module_from_source("without_arguments", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("hello")]))
    for _ in range(2):
        kernel.dispatch([2, 1, 1])
    device.wait()
    assert capsys.readouterr().out.splitlines() == ["sum 41"] * 2
