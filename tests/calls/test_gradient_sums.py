"""Gradients of arguments that all calls share: sums over the calls, the same in each run."""

import numpy as np
import pytest

import slangrad as spy

F = np.float32

LINE = """
[Differentiable] float line(float a, float b, float x) { return a * x + b; }
[Differentiable] float lookup(DiffTensor<float, 1> table, int index, float x) { return table[index] * x; }
"""


@pytest.fixture(params=["cpu", "interpreter"])
def module(request):
    device = spy.create_device(backend=request.param)
    return spy.Module.load_from_source(device, f"sums_{request.param}", LINE)


def tensor(module, values):
    return spy.Tensor.from_numpy(module.device, np.asarray(values, F)).with_grads()


@pytest.mark.parametrize("size", (1, 7, 1000))
def test_arguments_that_are_repeated(module, size):
    x = np.random.default_rng(1).integers(-8, 9, size).astype(F)
    a, b, xs, y = (tensor(module, v) for v in ([2], [3], x, np.zeros(size)))
    y.grad.copy_from_numpy(np.full(size, 2, F))
    module.line.bwds(a, b, xs, _result=y)
    module.line.bwds(a, b, xs, _result=y)
    assert a.grad.to_numpy().tolist() == [4 * x.sum()]
    assert b.grad.to_numpy().tolist() == [4 * size]
    assert xs.grad.to_numpy().tolist() == [8] * size


def test_rows_and_columns_that_are_repeated(module):
    x = np.random.default_rng(1).integers(-8, 9, (6, 50)).astype(F)
    a, b, xs, y = (tensor(module, v) for v in (np.ones((6, 1)), np.ones(50), x, np.zeros((6, 50))))
    y.grad.copy_from_numpy(np.ones((6, 50), F))
    module.line.bwds(a, b, xs, _result=y)
    assert a.grad.to_numpy().tolist() == x.sum(1, keepdims=True).tolist()
    assert b.grad.to_numpy().tolist() == [6] * 50


@pytest.mark.parametrize("size", (1, 5, 300))
def test_elements_that_are_looked_up(module, size):
    random = np.random.default_rng(2)
    index, x = random.integers(0, size, 1000).astype(np.int32), random.integers(-8, 9, 1000).astype(F)
    table, xs, y = (tensor(module, v) for v in (np.ones(size), x, np.zeros(1000)))
    y.grad.copy_from_numpy(np.ones(1000, F))
    module.lookup.bwds(table, spy.Tensor.from_numpy(module.device, index), xs, _result=y)
    assert table.grad.to_numpy().tolist() == np.bincount(index, x, size).tolist()


def test_a_gradient_that_is_its_own_argument(module):
    memory = spy.Tensor.from_numpy(module.device, np.array([3], F))
    shared = memory.with_grads(grad_in=memory, grad_out=memory)
    x, y = tensor(module, [1, 0, 0]), tensor(module, [0, 0, 0])
    y.grad.copy_from_numpy(np.ones(3, F))
    module.line.bwds(shared, tensor(module, [0]), x, _result=y)
    assert memory.to_numpy().tolist() == [4]
