"""Tensors whose rank is known when running: what slang-torch's programs are written with."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import CallError, ResolveException, Tensor

F = np.float32
PROGRAM = """
    void copy(TensorView<float> a, TensorView<float> b) { for (uint i = 0; i < a.size(0); i++) b.store(i, a.load(i)); }
    void copyPairs(TensorView<float2> a, TensorView<float2> b) { for (uint i = 0; i < a.size(0); i++) b[i] = a[i]; }

    float at(TensorView<float> t, int i, int j)
    {
        return t[i, j] + 10 * t[uint2(i, j)] + 100 * t.load(int2(i, j)) + 1000 * t.load(i, j);
    }

    int last(TensorView<int> t, int[5] i) { return t[i[0], i[1], i[2], i[3], i[4]]; }
    uint4 facts(TensorView<double> t) { return uint4(t.dims(), t.size(0), t.stride(0), t.stride(1)); }
    T first<T : IFloat>(TensorView<T> t) { return t[0]; }

    void count(int i, TensorView<int> t)
    {
        int old;
        t.InterlockedAdd(i % 3, 1, old);
        t.InterlockedMax(uint1(3), i, old);
        t.InterlockedOr(4, 1 << (i % 3), old);
        t.InterlockedCompareExchange(5, 0, 7);
    }

    [CUDAKernel]
    void number(uint count, TensorView<int> numbers)
    {
        uint i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
        if (i < count)
            numbers[i] = int(i);
    }

    [Differentiable]
    void wave(int i, DiffTensorView<double> x, DiffTensorView<double> y)
    {
        y[i] = sin(x[i]) * x.load(0);
    }

    [CUDAKernel] [Differentiable]
    void square(uint count, DiffTensorView x, DiffTensorView y)
    {
        uint i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
        if (i >= count)
            return;
        float value = x.loadOnce(i);
        y.storeOnce(i, value * value);
    }

    [Differentiable]
    void twice(int i, DiffTensorView<float> x, DiffTensorView<float> y)
    {
        y[i] = 100 * x[i];
        y[i] = 3 * x[i];
    }
"""


@pytest.fixture
def module(load):
    return load(PROGRAM)


def test_arrays_and_tensors_lie_as_they_are(device, module):
    x = np.arange(6, dtype=F)
    y = np.zeros(6, F)
    module.copy(x[::-1], y)
    assert y.tolist() == [5, 4, 3, 2, 1, 0]
    whole = Tensor.zeros(device, (3, 3), "float")
    module.copy(x[:3], whole[:, 1])
    assert whole.to_numpy().tolist() == [[0, 0, 0], [0, 1, 0], [0, 2, 0]]


def test_indices_are_outermost_first(device, module):
    t = Tensor.from_numpy(device, np.arange(12, dtype=F).reshape(3, 4))
    assert module.at(t, 1, 2) == 6 * 1111
    assert module.at(t.T, 1, 2) == 9 * 1111
    five = np.arange(32, dtype=np.int32).reshape(2, 2, 2, 2, 2)
    assert module.last(five, [1, 1, 1, 0, 1]) == 29


def test_a_view_knows_its_form(device, module):
    t = Tensor.zeros(device, (3, 4), "double")
    assert list(module.facts(t)) == [2, 3, 32, 8]
    assert list(module.facts(t.T)) == [2, 4, 8, 32]


def test_generic_elements(module):
    assert module.first(np.array([2.5])) == 2.5
    assert module.first(np.array([1.5], F)) == 1.5


def test_last_dimensions_make_vectors(device, module):
    x, y = np.arange(6, dtype=F).reshape(3, 2), Tensor.zeros(device, (3,), "float2")
    module.copyPairs(x, y)
    assert y.to_numpy().tolist() == x.tolist()
    wide = np.zeros((3, 3), F)
    module.copyPairs(x, wide[:, 1:])  # rows of 12 bytes
    assert wide.tolist() == [[0, 0, 1], [0, 2, 3], [0, 4, 5]]


def test_atomics(device, module):
    counts = Tensor.zeros(device, (6,), "int")
    module.count(spy.grid((100,)), counts)
    assert counts.to_numpy().tolist() == [34, 33, 33, 99, 7, 7]


def test_threads_number_themselves(device, module):
    numbers = np.full(700, -1, np.int32)
    module.number(600, numbers, _thread_count=700)
    assert np.array_equal(numbers, np.where(np.arange(700) < 600, np.arange(700), -1))


def test_a_kernel_has_its_own_groups(device):
    module = device.load_module_from_source(
        "groups_of_threads",
        """
        [shader("compute")] [numthreads(8, 2, 1)]
        void main(TensorView<int> t)
        {
            uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
            t[i.y, i.x] = int(100 * cudaBlockIdx().x + 10 * cudaThreadIdx().x + cudaBlockDim().y);
        }
        """,
    )
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    t = Tensor.zeros(device, (2, 16), "int")
    kernel.dispatch([16, 2, 1], t=t)
    row = [100 * (x // 8) + 10 * (x % 8) + 2 for x in range(16)]
    assert t.to_numpy().tolist() == [row, row]


def test_gradients(device, module):
    x, cotangent = np.linspace(0.5, 2, 7), np.linspace(1, -1, 7)
    tensor = Tensor.from_numpy(device, x).with_grads()
    y = Tensor.zeros(device, (7,), "double").with_grads()
    module.wave(spy.grid((7,)), tensor, y)
    assert np.allclose(y.to_numpy(), np.sin(x) * x[0])
    wanted = np.cos(x) * x[0] * cotangent
    wanted[0] += (np.sin(x) * cotangent).sum()
    for times in (1, 2):  # what is loaded is added to, what is stored is used up
        y.grad.copy_from_numpy(cotangent)
        module.wave.bwds(spy.grid((7,)), tensor, y)
        assert np.allclose(tensor.grad.to_numpy(), times * wanted)
        assert np.array_equal(y.grad.to_numpy(), np.zeros(7))


def test_forward_mode_agrees_with_differences(device, module):
    x, direction = np.linspace(0.5, 2, 7), np.linspace(-1, 3, 7)

    def f(x):
        y = np.zeros(7)
        module.wave(spy.grid((7,)), x.copy(), y)
        return y

    tensor = Tensor.from_numpy(device, x).with_grads(Tensor.from_numpy(device, direction))
    y = Tensor.zeros(device, (7,), "double").with_grads()
    module.wave.fwds(spy.grid((7,)), tensor, y)
    step = 1e-6
    assert np.allclose(
        y.grad.to_numpy(), (f(x + step * direction) - f(x - step * direction)) / (2 * step), atol=1e-8
    )


def test_gradients_of_elements_that_are_met_once(device, module):
    x = Tensor.from_numpy(device, np.array([1, 2, 3], F)).with_grads()
    y = Tensor.zeros(device, (3,), "float").with_grads(Tensor.ones(device, (3,), "float"))
    x.grad.copy_from_numpy(np.full(3, 9, F))
    module.square.bwds(3, x, y, _thread_count=5)
    assert x.grad.to_numpy().tolist() == [2, 4, 6]  # stored, not added
    assert y.grad.to_numpy().tolist() == [1, 1, 1]


def test_what_is_overwritten_has_no_derivative(device, module):
    x = Tensor.from_numpy(device, np.array([1, 2, 3], F)).with_grads()
    y = Tensor.zeros(device, (3,), "float").with_grads(Tensor.ones(device, (3,), "float"))
    module.twice.bwds(spy.grid((3,)), x, y)
    assert x.grad.to_numpy().tolist() == [3, 3, 3]


def test_extensions_of_a_program(device, load):
    """As programs add loads of their own, with another way to add gradients up."""
    module = load(
        """
        extension<T : __BuiltinFloatingPointType, A : IDiffTensorWrapper> DiffTensorView<T, A>
        {
            [BackwardDerivative(__shared_backward)] [NoDiffThis]
            T loadShared(uint i) { return primal.load(i); }

            void __shared_backward(uint i, T.Differential d)
            {
                T sum = WaveActiveSum(reinterpret<T, T.Differential>(d));
                if (WaveIsFirstLane())
                    diff.load_backward<T>(i, sum);
            }
        }

        [Differentiable]
        void scale(int i, DiffTensorView<float> factor, DiffTensorView<float> y) { y[i] = factor.loadShared(0) * i; }
        """
    )
    factor = Tensor.ones(device, (1,), "float").with_grads()
    y = Tensor.zeros(device, (50,), "float").with_grads(Tensor.ones(device, (50,), "float"))
    module.scale.bwds(spy.grid((50,)), factor, y)
    assert factor.grad.to_numpy().tolist() == [sum(range(50))]


def test_an_index_out_of_range(device, module):
    t = Tensor.zeros(device, (3, 4), "float")
    with pytest.raises(spy.BoundsError, match="index 4 is out of range: there are 4 elements"):
        module.at(t, 0, 4)
    with pytest.raises(spy.BoundsError, match="index -1 is out of range"):
        module.at(t, -1, 0)


def test_what_does_not_fit(device, module):
    x = Tensor.zeros(device, (3,), "float")
    with pytest.raises(ResolveException, match="element type int to tensor with element type float"):
        module.copy(np.zeros(3, np.int32), x)
    with pytest.raises(ResolveException, match="takes at most 5"):
        module.copy(np.zeros((1,) * 6, F), x)
    with pytest.raises(CallError, match=r"the end, \(3,\), does not match the expected shape \(2,\)"):
        module.copyPairs(np.zeros((4, 3), F), np.zeros((4, 2), F))
    frozen = np.zeros(3, F)
    frozen.flags.writeable = False
    with pytest.raises(ResolveException, match="Can't pass a read-only"):
        module.copy(frozen, x)
    with pytest.raises(CallError, match="has no gradient, and a DiffTensorView requires one in bwds"):
        module.twice.bwds(spy.grid((3,)), x, x.with_grads())
    two = x.with_grads(Tensor.zeros(device, (3,), "float"), Tensor.zeros(device, (3,), "float"))
    with pytest.raises(CallError, match="has one gradient"):
        module.twice.bwds(spy.grid((3,)), two, x.with_grads())


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=2),
    st.permutations([0, 1]),
    st.lists(st.sampled_from([1, -1, 2]), min_size=2, max_size=2),
)
def test_any_strides(sizes, axes, steps):
    module, device = _prepared()
    whole = np.arange(np.prod(sizes), dtype=F).reshape(sizes)
    cut = tuple(slice(None, None, step) for step in steps)
    view = Tensor.from_numpy(device, whole).transpose(*axes)[cut]
    expected = whole.transpose(*axes)[cut]
    i, j = (size - 1 for size in expected.shape)
    assert module.at(view, i, j) == 1111 * expected[i, j]


@cache
def _prepared():
    device = spy.create_device()
    return spy.Module.load_from_source(device, "views", PROGRAM), device
