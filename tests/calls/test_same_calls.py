"""Calls with the same objects as the last one skip to the launch, and notice all that may have changed."""

import gc
import weakref

import numpy as np
import pytest

import slangrad as spy

TEXT = """
[Differentiable] float poly(float a, float x) { return a * x + 1; }
void bump(inout float x) { x += 1; }
float at(RWTensor<float, 1> t, int i) { return t[i]; }
"""


@pytest.fixture
def module(load):
    return load(TEXT)


def tensor(device, *values):
    return spy.Tensor.from_numpy(device, np.array(values, np.float32))


def is_ready(function, *args, **kwargs):
    """Whether the next such call would skip to the launch."""
    result = kwargs.get("_result")
    return function._same.ready(function._calls.now, args, result) is not None


def test_numbers_and_contents(device, module):
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    poly = module.poly
    a = 2.0
    for turn in range(4):
        assert poly(a, x, _result=y) is y
        assert y.to_numpy().tolist() == [3 + 2 * turn, 5 + 2 * turn]
        module.bump(x)
    assert is_ready(poly, a, x, _result=y)
    for b in (-0.0, 0.0, 3, True):
        poly(b, x, _result=y)
        assert y.to_numpy().tolist() == [b * 5 + 1, b * 6 + 1]
    assert np.array_equal(poly(a, x).to_numpy(), [11, 13])


def test_a_tensor_that_is_pointed_elsewhere(device, module):
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    poly, a = module.poly, 2.0
    for _ in range(4):
        poly(a, x, _result=y)
    x.point_to(tensor(device, 10, 20))
    poly(a, x, _result=y)
    assert y.to_numpy().tolist() == [21, 41]
    elsewhere = tensor(device, 0, 0)
    for _ in range(8):
        poly(a, x, _result=y)
    y.point_to(elsewhere)
    poly(a, x, _result=y)
    assert elsewhere.to_numpy().tolist() == [21, 41]


def test_gradients_that_are_exchanged(device, module):
    x = tensor(device, 1, 2).with_grads()
    y = tensor(device, 0, 0).with_grads(tensor(device, 1, 1))
    backward, a = module.poly.bwds, 2.0
    for turn in range(1, 5):
        assert backward(a, x, _result=y) is None
        assert x.grad.to_numpy().tolist() == [2 * turn, 2 * turn]
    assert is_ready(backward, a, x, _result=y)
    x.grad_out = tensor(device, 100, 100)
    backward(a, x, _result=y)
    assert x.grad.to_numpy().tolist() == [102, 102]
    y.grad_in = tensor(device, 10, 10)
    backward(a, x, _result=y)
    assert x.grad.to_numpy().tolist() == [122, 122]


def test_no_tensor_is_kept_alive(device, module):
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    for _ in range(4):
        module.poly(2.0, x, _result=y)
    found = weakref.ref(x)
    del x
    gc.collect()
    assert found() is None
    z = tensor(device, 5, 6)  # perhaps at the same address
    module.poly(2.0, z, _result=y)
    assert y.to_numpy().tolist() == [11, 13]


def test_errors_come_in_each_call(device, module):
    t, i, y = tensor(device, 1, 2), 1, tensor(device, 0)
    for _ in range(4):
        module.at(t, spy.Tensor.from_numpy(device, np.array([1], np.int32)), _result=y)
    index = spy.Tensor.from_numpy(device, np.array([1], np.int32))
    for _ in range(4):
        module.at(t, index, _result=y)
    assert is_ready(module.at, t, index, _result=y)
    index.copy_from_numpy(np.array([7], np.int32))
    for _ in range(2):
        with pytest.raises(IndexError, match="E0901"):
            module.at(t, index, _result=y)
    index.copy_from_numpy(np.array([0], np.int32))
    module.at(t, index, _result=y)
    assert y.to_numpy().tolist() == [i]


def test_check_mode(device, module):
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    infinity = float("inf")
    for _ in range(4):
        module.poly(infinity, x, _result=y)
    with device.check_mode(), pytest.raises(spy.NotFiniteError):
        module.poly(infinity, x, _result=y)
    module.poly(infinity, x, _result=y)


def test_overlaps_are_as_in_other_calls(device, module):
    x = tensor(device, 1, 2, 3, 4)
    first, second = x[:-1], x[1:]
    for _ in range(4):
        module.poly(1.0, first, _result=second)
    assert x.to_numpy().tolist() == [1, 2, 3, 4]


def test_a_device_that_is_closed():
    device = spy.create_device("cpu")
    module = spy.Module.load_from_source(device, "closed", TEXT)
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    for _ in range(4):
        module.poly(2.0, x, _result=y)
    device.close()
    with pytest.raises(RuntimeError, match="E1023"):
        module.poly(2.0, x, _result=y)


def test_a_module_that_is_loaded_anew(tmp_path):
    file = tmp_path / "changing.slang"
    file.write_text("float f(float x) { return x + 1; }")
    device = spy.create_device("cpu")
    module = spy.Module.load_from_file(device, str(file))
    x, y = tensor(device, 1, 2), tensor(device, 0, 0)
    for _ in range(4):
        module.f(x, _result=y)
    file.write_text("float f(float x) { return x + 100; }")
    device.reload_all_programs()
    module.f(x, _result=y)
    assert y.to_numpy().tolist() == [101, 102]
