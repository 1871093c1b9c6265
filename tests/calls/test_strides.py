"""Tensors of any strides in calls: what is read, written and accumulated is what NumPy's views show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import Tensor

PROGRAM = """
    [Differentiable] double square(double x) { return x * x; }
    [Differentiable] void halve(double x, out double y) { y = x / 2; }
    [Differentiable] double weighted(double3 v) { return v.x + 2 * v.y + 3 * v.z; }
    [Differentiable] void increase(inout double x) { x = x * x + 1; }

    [Differentiable]
    double total(IDiffTensor<double, 2> t)
    {
        double sum = 0;
        for (uint i = 0; i < t.shape[0]; i++)
            for (uint j = 0; j < t.shape[1]; j++)
                sum += t[i, j] * (1 + i * t.shape[1] + j);
        return sum;
    }

    [Differentiable]
    void twice(IDiffTensor<double, 2> source, IWDiffTensor<double, 2> target, int2 at)
    {
        target[at] = source[at] * 2;
    }

    void count(AtomicTensor<int, 2> t, int2 at) { t.add(at, at.x + 1); }
    double memory(Tensor<double, 2> t, int i) { return t.read_buffer(i); }
    void change(RWTensor<double, 2> t, int i) { t.write_buffer(i, 10 * i); }
"""

# What makes a view of a (6, 8) array; each is applied to a tensor and to an array.
VIEWS = {
    "columns": lambda t: t.T,
    "backwards": lambda t: t[::-1, ::-1],
    "rows backwards": lambda t: t[::-2],
    "gaps": lambda t: t[1::2, ::3],
    "columns backwards": lambda t: t.T[::-1, 1:],
    "repeated": lambda t: (
        np.broadcast_to(t[:1], (6, 8)) if isinstance(t, np.ndarray) else t[:1].broadcast_to((6, 8))
    ),
}
ALONE = [name for name in VIEWS if name != "repeated"]


def numbers() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(6, 8))


@pytest.fixture
def module(load):
    return load(PROGRAM)


@pytest.mark.parametrize("name", VIEWS)
def test_inputs(device, module, name):
    array = numbers()
    view = VIEWS[name](Tensor.from_numpy(device, array))
    expected = VIEWS[name](array)
    assert np.array_equal(module.square(view).to_numpy(), expected**2)
    assert np.array_equal(module.square(view, _result="numpy"), expected**2)
    weights = np.arange(1, expected.size + 1).reshape(expected.shape)
    assert np.isclose(module.total(view), (expected * weights).sum())


@pytest.mark.parametrize("name", ALONE)
def test_outputs(device, module, name):
    array, target = numbers(), Tensor.zeros(device, (6, 8), "double")
    view, expected = VIEWS[name](target), np.zeros((6, 8))
    given = VIEWS[name](array)
    VIEWS[name](expected)[...] = given**2
    module.square(given, _result=view)
    assert np.array_equal(target.to_numpy(), expected)
    module.halve(given, view)
    VIEWS[name](expected)[...] = given / 2
    assert np.array_equal(target.to_numpy(), expected)
    module.increase(view)
    VIEWS[name](expected)[...] = (given / 2) ** 2 + 1
    assert np.array_equal(target.to_numpy(), expected)
    source = Tensor.from_numpy(device, given)
    module.twice(source, view, spy.grid(source.shape))
    VIEWS[name](expected)[...] = 2 * given
    assert np.array_equal(target.to_numpy(), expected)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients(device, module, name):
    array = numbers()
    x = Tensor.from_numpy(device, array).with_grads()
    view = VIEWS[name](x)
    cotangent = np.random.default_rng(3).normal(size=view.shape)
    result = Tensor.from_numpy(device, np.zeros(view.shape)).with_grads(
        grad_in=Tensor.from_numpy(device, cotangent[::-1].copy())[::-1]
    )
    module.square.bwds(view, _result=result)
    expected = np.zeros((6, 8))
    np.add.at(expected, _places(name), 2 * VIEWS[name](array) * cotangent)
    assert np.allclose(x.grad.to_numpy(), expected, rtol=1e-12)
    x.grad.clear()
    module.total.bwds(view, _result=spy.diffPair(d=1.0))
    expected = np.zeros((6, 8))
    np.add.at(expected, _places(name), np.arange(1.0, view.element_count + 1).reshape(view.shape))
    assert np.allclose(x.grad.to_numpy(), expected, rtol=1e-12)


def _places(name):
    """For each element of a view, where it lies in the (6, 8) array."""
    return np.unravel_index(VIEWS[name](np.arange(48).reshape(6, 8)), (6, 8))


@pytest.mark.parametrize("name", ALONE)
def test_gradients_of_what_is_written(device, module, name):
    whole = Tensor.zeros(device, (6, 8), "double")
    target = VIEWS[name](whole)
    cotangent = VIEWS[name](Tensor.from_numpy(device, numbers()))
    source = Tensor.zeros(device, target.shape, "double").with_grads()
    at = spy.grid(source.shape)
    module.twice.bwds(source, target.with_grads(grad_in=cotangent), at)
    assert np.allclose(source.grad.to_numpy(), 2 * VIEWS[name](numbers()), rtol=1e-12)


@pytest.mark.parametrize("name", ALONE)
def test_atomics(device, module, name):
    whole, expected = Tensor.zeros(device, (6, 8), "int"), np.zeros((6, 8), np.int32)
    view = VIEWS[name](whole)
    module.count(view, spy.grid(view.shape))
    VIEWS[name](expected)[...] = np.arange(1, view.shape[1] + 1)
    assert np.array_equal(whole.to_numpy(), expected)


def test_memory_counts_from_the_lowest_address(device, module):
    whole = Tensor.from_numpy(device, np.arange(12.0).reshape(3, 4))
    view = whole[1:, ::-1]
    assert [module.memory(view, i) for i in range(8)] == list(range(4, 12))
    with pytest.raises(spy.BoundsError, match="index 8 is out of range"):
        module.memory(view, 8)
    module.change(whole[::-2], 3)
    assert whole.to_numpy().ravel().tolist() == [0, 1, 2, 30, *range(4, 12)]


def test_trailing_dimensions_backwards(device, module):
    array = numbers()[:, :3]
    view = Tensor.from_numpy(device, array)[:, ::-1]
    assert np.allclose(module.weighted(view).to_numpy(), array[:, ::-1] @ [1, 2, 3])
    x = Tensor.from_numpy(device, array).with_grads()
    module.weighted.bwds(x[:, ::-1])
    assert np.array_equal(x.grad.to_numpy(), np.tile([3.0, 2.0, 1.0], (6, 1)))


@pytest.mark.parametrize("name", ALONE)
def test_overlapping_views_are_read_first(device, module, name):
    array = numbers()
    x = Tensor.from_numpy(device, array)
    expected = array.copy()
    VIEWS[name](expected)[:-1] = VIEWS[name](array)[1:] ** 2
    module.square(VIEWS[name](x)[1:], _result=VIEWS[name](x)[:-1])
    assert np.array_equal(x.to_numpy(), expected)


def test_elements_far_apart(device, load):
    """Strides of more than 32 bits; memory between the elements is never touched."""
    module = load("uint8_t next(uint8_t x) { return uint8_t(x + 1); }")
    row = (5 << 29) + 8
    memory = device.create_buffer(size=3 * row)
    source, last = (Tensor(memory, "uint8_t", (3,), (row,), offset) for offset in (0, row - 1))
    target = last[::-1]
    for i in range(3):
        source[i].copy_from_numpy(np.array([10 * i], np.uint8))
    module.next(source, _result=target)
    assert last.to_numpy().tolist() == [21, 11, 1]
    assert module.next(target[::-1]).to_numpy().tolist() == [22, 12, 2]


STEPS = st.none() | st.integers(-3, 3).filter(bool)
SLICES = st.builds(slice, st.none(), st.none(), STEPS)


@settings(max_examples=25)
@given(st.permutations(range(3)), st.tuples(SLICES, SLICES, SLICES), st.permutations(range(3)))
def test_random_views(device, modules, order, index, axes):
    module = modules.get((device, PROGRAM, "strides"))
    if module is None:
        module = spy.Module.load_from_source(device, "random_views", PROGRAM)
        modules[device, PROGRAM, "strides"] = module
    array = np.random.default_rng(4).normal(size=(3, 4, 5)).transpose(order)
    x = Tensor.from_numpy(device, array).with_grads()
    view, expected = x[index].transpose(axes), array[index].transpose(axes)
    target = Tensor.zeros(device, array.shape, "double")
    written = np.zeros(array.shape)
    written[index].transpose(axes)[...] = expected**2
    module.square(view, _result=target[index].transpose(axes))
    assert np.array_equal(target.to_numpy(), written)
    module.square.bwds(view)
    gradient = np.zeros(array.shape)
    gradient[index].transpose(axes)[...] = 2 * expected
    assert np.array_equal(x.grad.to_numpy(), gradient)


def test_indices_that_are_shifted_right(load) -> None:  # type: ignore[no-untyped-def]
    """Even steps stay even ones; odd ones, and odd beginnings, lose a bit in each lane."""
    text = "float take(Tensor<float, 1> x, int i, int64_t s, int64_t o) { return x[int((int64_t(i) * s + o) >> 1)]; }"
    module, x = load(text), np.arange(1000, dtype=np.float32)
    for s in (0, 1, 2, 3, 4, -1, -2, -3):
        for o in (300, 301):
            for n in (1, 5, 67):
                found = module.take(x, spy.call_id(), s, o, _result=np.zeros(n, np.float32))
                assert found.tolist() == x[(np.arange(n) * s + o) >> 1].tolist()
