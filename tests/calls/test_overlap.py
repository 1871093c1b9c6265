"""Overlapping memory of one call."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor
from slangrad.call.overlap import Region, find_conflicts, pairs_of
from slangrad.marshal.errors import CallError


def region(label, place, size=16, reads=False, writes=False, adds=False, strides=(4,), injective=True):
    return Region(label, place, 0, size, reads, writes, adds, strides, injective)


def conflicts(values, *regions):
    return find_conflicts(pairs_of(regions), values)


def test_inputs_may_overlap():
    assert pairs_of([region("x", 0, reads=True), region("y", 1, reads=True)]) == []


def test_separate_memory_is_no_conflict():
    assert conflicts([0, 16], region("x", 0, reads=True), region("y", 1, writes=True)) is None


def test_in_place_is_fine():
    found = conflicts([0, 0], region("x", 0, reads=True), region("y", 1, writes=True))
    assert found is not None
    assert found.copies == [] and not found.shared


def test_a_shifted_input_is_copied():
    x = region("x", 0, reads=True)
    found = conflicts([0, 4], x, region("y", 1, writes=True))
    assert found.copies == [x]


def test_an_input_with_other_strides_is_copied():
    x = region("x", 0, reads=True, strides=(0,), injective=False)
    assert conflicts([0, 0], x, region("y", 1, writes=True)).copies == [x]


def test_two_outputs_are_refused():
    with pytest.raises(CallError, match="'y' and 'z' overlap") as caught:
        conflicts([0, 0], region("y", 0, writes=True), region("z", 1, writes=True))
    assert caught.value.code == "E1008"


def test_gradients_of_one_buffer_are_shared():
    assert conflicts([0, 4], region("x", 0, adds=True), region("y", 1, adds=True)).shared


def test_the_same_gradient_element_of_one_thread_is_not_shared():
    assert not conflicts([0, 0], region("x", 0, adds=True), region("y", 1, adds=True)).shared


def test_whole_tensors_may_overlap_in_what_they_write():
    first = region("x", 0, reads=True, writes=True, strides=None)
    second = region("y", 1, reads=True, writes=True, strides=None)
    assert pairs_of([first, second]) == []


def test_a_whole_input_is_copied():
    whole = region("t", 0, reads=True, strides=None)
    assert conflicts([0, 0], whole, region("y", 1, writes=True)).copies == [whole]


def test_a_cotangent_must_not_lie_where_gradients_are_added():
    taken = Region("y", 0, 0, 16, True, False, False, (4,), True, takes=True)
    with pytest.raises(CallError, match="separate buffers") as caught:
        conflicts([0, 0], taken, region("x", 1, adds=True))
    assert caught.value.code == "E1007"


SQUARE = """
    [Differentiable] float f(float x) { return x * x; }
    [Differentiable] void g(int i, ITensor<float, 1> x, IWTensor<float, 1> y) { y[i] = x[i] * x[i]; }
    [Differentiable] float h(float x, float y) { return x * y; }
"""


def test_an_input_that_the_call_has_overwritten(device, load):
    module = load(SQUARE)
    x = Tensor.from_numpy(device, np.array([1, 2, 3, 4], np.float32))
    ones = Tensor.ones(device, (4,), "float")
    module.f(x, _result=x)
    assert x.to_numpy().tolist() == [1, 4, 9, 16]
    input, output = x.with_grads(), x.with_grads(grad_in=ones)
    message = "'x' and '{}' overlap in memory: the call has written '{}'"
    with pytest.raises(CallError, match=message.format("_result", "_result")) as caught:
        module.f.bwds(input, _result=output)
    assert caught.value.code == "E1008"
    with pytest.raises(CallError, match=message.format("y", "y")):
        module.g.bwds(spy.grid((4,)), input, output)
    with pytest.raises(CallError, match="overlap"):
        module.f.bwds(input[:3], _result=output[1:])
    module.f.bwds(input[:2], _result=output[2:])
    module.f.bwds(input[::2], _result=output[1::2])
    assert input.grad.to_numpy().tolist() == [2 + 2, 8, 18, 0]
    module.h.bwds(input, x, _result=Tensor.zeros_like(x).with_grads(grad_in=ones))


def test_one_buffer_of_gradients_for_two_arguments(device, load):
    module = load(SQUARE)
    a = Tensor.from_numpy(device, np.array([1, 2, 3], np.float32))
    b = Tensor.from_numpy(device, np.array([4, 5, 6], np.float32))
    shared = Tensor.zeros(device, (3,), "float")
    module.h.bwds(a.with_grads(grad_out=shared), b.with_grads(grad_out=shared))
    assert shared.to_numpy().tolist() == [5, 7, 9]
    own = a.with_grads(grad_out=a)
    module.h.bwds(own, b)
    assert a.to_numpy().tolist() == [5, 7, 9]
