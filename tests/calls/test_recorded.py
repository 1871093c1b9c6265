"""Calls that are recorded and run later."""

import numpy as np
import pytest

from slangrad import CallError, ResolveException, Tensor, diffPair

F = np.float32
SQUARE = "[Differentiable] float square(float x, float k) { return k * x * x; }"


def test_recorded_calls_run_when_they_are_submitted(device, load):
    square = load(SQUARE).square
    x = Tensor.from_numpy(device, np.array([1, 2], F)).with_grads()
    y = Tensor.zeros(device, (2,), "float").with_grads()
    y.grad.copy_from_numpy(np.ones(2, F))
    encoder = device.create_command_encoder()
    square.append_to(encoder, x, 3.0, _result=y)
    square.bwds(x, 3.0, _result=y, _append_to=encoder)
    square(x, 5.0, _append_to=None)
    x.copy_from_numpy(np.array([2, 3], F))
    assert y.to_numpy().tolist() == [0, 0]
    device.submit_command_buffer(encoder.finish())
    assert y.to_numpy().tolist() == [12, 27]
    assert x.grad.to_numpy().tolist() == [12, 18]


def test_methods_with_their_object_are_recorded(device, load):
    module = load("struct Scale { float by; float apply(float x) { return by * x; } }")
    apply = module.Scale.apply.bind({"by": 2.0})
    y, encoder = Tensor.zeros(device, (2,), "float"), device.create_command_encoder()
    apply(np.array([1, 2], F), _result=y, _append_to=encoder)
    device.submit_command_buffer(encoder.finish())
    assert y.to_numpy().tolist() == [2, 4]


def test_numbers_and_lists_are_those_of_the_recording(device, load):
    module = load("float total(float x[2]) { return x[0] + x[1]; }")
    y, x = Tensor.zeros(device, (1,), "float"), [1.0, 2.0]
    encoder = device.create_command_encoder()
    module.total.append_to(encoder, x, _result=y)
    x[0] = 100.0
    device.submit_command_buffer(encoder.finish())
    assert y.to_numpy().tolist() == [3]


def test_mistakes_are_found_when_a_call_is_recorded(device, load):
    square = load(SQUARE).square
    encoder = device.create_command_encoder()
    with pytest.raises(ResolveException, match="Too many arguments"):
        square.append_to(encoder, 1.0, 2.0, 3.0)
    with pytest.raises(CallError, match="Shape mismatch"):
        square.append_to(encoder, np.zeros(3, F), np.zeros(4, F))
    encoder.finish()
    with pytest.raises(CallError, match="Command encoder is finished"):
        square.append_to(encoder, 1.0, 2.0)


def test_bound_methods_can_be_recorded(device, load):
    module = load("struct S { float a; float times(float k) { return a * k; } }")
    y = Tensor.zeros(device, (2,), "float")
    encoder = device.create_command_encoder()
    module.S.times.bind({"a": np.array([1, 2], F)}).append_to(encoder, 10.0, _result=y)
    device.submit_command_buffer(encoder.finish())
    assert y.to_numpy().tolist() == [10, 20]


def test_pairs_receive_gradients_later(device, load):
    a = diffPair(3.0)
    encoder = device.create_command_encoder()
    load(SQUARE).square.bwds.append_to(encoder, a, 2.0, diffPair(d=1.0))
    device.submit_command_buffer(encoder.finish())
    assert a.grad == 12


def test_commands_see_what_those_before_them_wrote(device, load):
    square = load(SQUARE).square
    x, y = Tensor.from_numpy(device, np.array([2], F)), Tensor.zeros(device, (1,), "float")
    encoder = device.create_command_encoder()
    square.append_to(encoder, x, 1.0, _result=y)
    encoder.global_barrier()
    encoder.set_buffer_state(y.storage, None)
    square.append_to(encoder, y, 1.0, _result=x)
    device.submit_command_buffer(encoder.finish())
    assert x.to_numpy().tolist() == [16]
