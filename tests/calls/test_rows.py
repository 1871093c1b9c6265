"""Lists of values that hold tensors and buffers: one call for each element."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, ResolveException, Tensor, pack

F = np.float32

ROWS = """
    struct Row { Tensor<float, 1> x; int k; float2 shift; RWStructuredBuffer<float> out; }
    float read(Row row, float y) { row.out[0] = row.x[1]; return row.x[0] * row.k + row.shift.y + y; }
    float total(Tensor<float, 1> t)
    {
        float sum = 0;
        for (int i = 0; i < t.shape[0]; i++) sum += t[i];
        return sum;
    }
    float both(Tensor<float, 1> t[2]) { return t[0][0] * t[1][0]; }
    float twice(float x) { return 2 * x; }
"""


def tensor(device, *values):
    return Tensor.from_numpy(device, np.array(values, F))


def test_a_call_for_each_dict(device, load):
    read = load(ROWS).read
    buffers = [device.create_buffer(size=4, struct_size=4) for _ in range(3)]
    rows = [
        {"x": tensor(device, i, 10 * i, 7), "k": i, "shift": [0, 1], "out": buffer}
        for i, buffer in enumerate(buffers, 1)
    ]
    assert read(rows, 100.0).to_numpy().tolist() == [102, 105, 110]
    assert [each.to_numpy().view(F)[0] for each in buffers] == [10, 20, 30]
    y = np.array([0, 1000], F)
    assert read.map((1,), (0,))(rows, y).to_numpy().tolist() == [[2, 5, 10], [1002, 1005, 1010]]
    rows[0] = {"x": tensor(device, 9, 9), "k": 1, "shift": [0, 0], "out": buffers[0]}
    assert read(pack(read.module, rows), 0.0).to_numpy().tolist() == [9, 5, 10]


def test_a_call_for_each_tensor(device, load):
    module = load(ROWS)
    x = tensor(device, 1, 2, 3, 4)
    assert module.total([x, x[1:], x[::2]]).to_numpy().tolist() == [10, 9, 4]
    x.copy_from_numpy(np.array([5, 5, 5, 5], F))
    assert module.total([x]).to_numpy().tolist() == [20]
    assert module.both([x, tensor(device, 3)]) == 15


def test_lists_that_have_no_rows(device, load):
    module = load(ROWS)
    with pytest.raises(
        CallError, match="diffPair of float cannot stand in a list with one call for each element"
    ):
        module.twice([spy.diffPair(1.0), spy.diffPair(2.0)])
    with pytest.raises(ResolveException, match="list of 2 does not fit 'float'"):
        module.twice([tensor(device, 1), tensor(device, 2)])
    assert module.total([]).shape == (0,)


def test_gradients_of_the_tensors_of_a_list(device, load):
    module = load(
        "[Differentiable] float first(DiffTensor<float, 1> t, float k) { return k * t.load(0) * t.load(0); }"
    )
    tensors = [tensor(device, 3, 0).with_grads(), tensor(device, 4).with_grads()]
    module.first.bwds(tensors, 10.0)
    assert [each.grad.to_numpy().tolist() for each in tensors] == [[60, 0], [80]]


def test_elements_of_tensors_make_arrays(device, load):
    module = load("float weighted(float x[2]) { return x[0] + 10 * x[1]; }")
    assert module.weighted([tensor(device, 1, 2), tensor(device, 3, 4)]).to_numpy().tolist() == [31, 42]


def test_lists_that_are_too_short_or_too_long_for_a_vector(load):
    module = load("float last(float2 v) { return v.y; } float second(float2 v[2]) { return v[1].x; }")
    assert module.last([1, 2]) == 2
    assert module.last([[1, 2], [3, 4], [5, 6]]).to_numpy().tolist() == [2, 4, 6]
    with pytest.raises(ResolveException, match="a list of 3 elements does not fit 'float2'"):
        module.last([1, 2, 3])
    with pytest.raises(ResolveException, match="element 0: a list of 1 elements does not fit 'float2'"):
        module.second([[1], [2]])
