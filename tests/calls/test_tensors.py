"""Whole tensors and buffers as parameters."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, ResolveException, Tensor
from tests.calls.tensors import tensor

F = np.float32


def test_tensor_types(device, load):
    module = load("""
        float read(int i, Tensor<float, 1> t) { return t[i]; }
        float any(int i, ITensor<float, 1> t) { return t[i] * t.shape[0]; }
        void write(int i, IWTensor<float, 1> t) { t[i] = 10 * i; }
        void both(int i, IRWTensor<float, 1> t) { t[i] = t[i] + 1; }
        float at(int2 i, ITensor<float, 2> t) { return t[i]; }
    """)
    t = tensor(device, [1, 2, 3])
    assert module.read(spy.grid((3,)), t).to_numpy().tolist() == [1, 2, 3]
    assert module.any(2, t) == 9
    assert module.any(2, np.array([1, 2, 4], F)) == 12
    module.both(spy.grid((3,)), t)
    assert t.to_numpy().tolist() == [2, 3, 4]
    module.write(spy.grid((3,)), t)
    assert t.to_numpy().tolist() == [0, 10, 20]
    m = tensor(device, np.arange(6).reshape(2, 3))
    assert module.at(spy.grid((2, 3)), m).to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_each_call_gets_a_slice(device, load):
    module = load("""
        float total(ITensor<float, 1> t)
        {
            float sum = 0;
            for (int i = 0; i < t.shape[0]; i++)
                sum += t[i];
            return sum;
        }
    """)
    m = tensor(device, np.arange(12).reshape(4, 3))
    assert module.total(m).to_numpy().tolist() == [3, 12, 21, 30]
    assert module.total.map((0,))(m).to_numpy().tolist() == [3, 12, 21, 30]
    assert module.total(m.transpose()).to_numpy().tolist() == [18, 22, 26]
    assert module.total(np.arange(12, dtype=F).reshape(4, 3)[:, ::-1]).to_numpy().tolist() == [3, 12, 21, 30]


def test_elements_and_ranks_are_inferred(device, load):
    module = load("""
        T first<T, let N : int>(ITensor<T, N> t)
        {
            int i[N];
            for (int k = 0; k < N; k++)
                i[k] = 0;
            return t.load(i);
        }
    """)
    assert module.first(tensor(device, [[5, 6], [7, 8]])) == 5
    assert module.first(tensor(device, [3, 4], np.int32)) == 3


def test_an_element_of_another_type_is_refused(device, load):
    module = load("float read(int i, ITensor<float, 1> t) { return t[i]; }")
    with pytest.raises(ResolveException, match="Argument 1 could not be resolved"):
        module.read(0, tensor(device, [1, 2], np.int32))


def test_read_only_tensors(device, load):
    module = load("void write(int i, IWTensor<float, 1> t) { t[i] = 1; }")
    read_only = Tensor.zeros(device, (3,), "float", usage=spy.BufferUsage.shader_resource)
    with pytest.raises(ResolveException, match="Can't pass a read-only Tensor"):
        module.write(0, read_only)
    module = load("float one() { return 1; }")
    with pytest.raises(CallError, match="Can't pass a read-only Tensor"):
        module.one(_result=read_only)


def test_an_index_out_of_range_is_reported(device, load):
    module = load("float read(int i, ITensor<float, 1> t) { return t[i]; }")
    with pytest.raises(spy.BoundsError, match="index 3 is out of range"):
        module.read(3, tensor(device, [1, 2, 3]))


DIFFERENTIABLE = """
    [Differentiable]
    void polynomial(int i, float a, float b, float c, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> result)
    {
        float v = x[i];
        result[i] = a * v * v + b * v + c;
    }
"""


def test_differentiable_tensors(device, load):
    module = load(DIFFERENTIABLE)
    x = tensor(device, [1, 2, 3, 4])
    result = Tensor.empty(device, x.shape, spy.float32)
    module.polynomial(i=spy.grid(x.shape), a=2, b=8, c=-1, x=x, result=result)
    assert result.to_numpy().tolist() == [9, 23, 41, 63]
    x, result = x.with_grads(), result.with_grads()
    result.grad.copy_from_numpy(np.ones(4, F))
    module.polynomial.bwds(i=spy.grid(x.shape), a=2, b=8, c=-1, x=x, result=result)
    assert x.grad.to_numpy().tolist() == [12, 16, 20, 24]


def test_differentiable_tensors_need_gradients_in_bwds(device, load):
    module = load(DIFFERENTIABLE)
    x, result = tensor(device, [1, 2]), tensor(device, [0, 0])
    with pytest.raises(
        CallError, match=r"argument 'x'.* requires a tensor with an associated output gradient"
    ):
        module.polynomial.bwds(spy.grid((2,)), 1, 2, 3, x, result.with_grads())
    with pytest.raises(
        CallError, match=r"argument 'result'.* requires a tensor with an associated input gradient"
    ):
        module.polynomial.bwds(spy.grid((2,)), 1, 2, 3, x.with_grads(), result)


def test_concrete_differentiable_tensors_need_gradients_always(device, load):
    module = load("float read(int i, DiffTensor<float, 1> t) { return t.load(i); }")
    t = tensor(device, [1, 2])
    with pytest.raises(CallError, match="requires a tensor with an associated output gradient"):
        module.read(0, t)
    assert module.read(1, t.with_grads()) == 2


def test_in_place(device, load):
    module = load("""
        [Differentiable]
        void process(int i, IRWDiffTensor<float, 1> data) { float v = data[i]; data[i] = v * v; }
    """)
    x = tensor(device, [1, 2, 3, 4])
    ones, zeros = Tensor.ones(device, (4,), float), Tensor.zeros(device, (4,), float)
    both = x.with_grads(grad_in=ones, grad_out=zeros)
    module.process.bwds(i=spy.grid((4,)), data=both)
    assert zeros.to_numpy().tolist() == [2, 4, 6, 8]
    with pytest.raises(CallError, match="inout param"):
        module.process.bwds(spy.grid((4,)), x.with_grads())


def test_custom_derivatives_of_tensor_functions(device, load):
    module = load("""
        [Differentiable] [BackwardDerivative(smooth_backward)]
        float smooth(int i, DiffTensor<float, 1> t) { float x = t.load(i); return x * x * x; }

        void smooth_backward(int i, DiffTensor<float, 1> t, float d)
        {
            float x = t._primal.load(i);
            t._grad_out.add(i, 3 * x * x * d);
        }
    """)
    t = tensor(device, [1, 2, 3]).with_grads()
    module.smooth.bwds(spy.grid((3,)), t)
    assert t.grad.to_numpy().tolist() == [3, 12, 27]


def test_a_linear_layer(device, load):
    module = load("""
        [Differentiable]
        void linear(int i, IDiffTensor<float, 2> weights, IDiffTensor<float, 1> bias,
                    IDiffTensor<float, 1> input, IWDiffTensor<float, 1> output)
        {
            uint count = weights.shape[1];
            float sum = bias[i];
            for (uint k = 0; k < count; k++)
                sum += weights[i, k] * input[k];
            output[i] = sum;
        }
    """)
    random = np.random.default_rng(1)
    w, b, v = random.normal(size=(3, 5)), random.normal(size=3), random.normal(size=5)
    weights, bias, x = (tensor(device, each).with_grads() for each in (w, b, v))
    y = Tensor.empty(device, shape=(3,), dtype=float).with_grads()
    module.linear(spy.grid(shape=(3,)), weights, bias, x, y)
    assert np.allclose(y.to_numpy(), w @ v + b, rtol=1e-5)
    d = random.normal(size=3)
    y.grad.copy_from_numpy(d.astype(F))
    module.linear.bwds(spy.grid(shape=(3,)), weights, bias, x, y)
    assert np.allclose(weights.grad.to_numpy(), np.outer(d, v), rtol=1e-5)
    assert np.allclose(bias.grad.to_numpy(), d, rtol=1e-5)
    assert np.allclose(x.grad.to_numpy(), d @ w, rtol=1e-4)


def test_structured_buffers(device, load):
    module = load("""
        float read(StructuredBuffer<float> b, int i) { return b[i]; }
        void write(RWStructuredBuffer<float> b, int i, float x) { b[i] = x; }
        uint bytes(ByteAddressBuffer b) { uint size; b.GetDimensions(size); return size; }
        float at(float* p, int i) { return p[i]; }
    """)
    t = tensor(device, [1, 2, 3])
    assert module.read(t, np.arange(3, dtype=np.int32)).to_numpy().tolist() == [1, 2, 3]
    module.write(t.storage, 1, 20.0)
    assert t.to_numpy().tolist() == [1, 20, 3]
    assert module.bytes(t) == 12
    assert module.at(t, 2) == 3
    assert module.at(t.storage.device_address, 1) == 20
    with pytest.raises(spy.BoundsError):
        module.read(t.storage, 3)
    with pytest.raises(ResolveException):
        module.read(tensor(device, [1, 2], np.int32), 0)
    with pytest.raises(CallError, match="with gaps cannot be"):
        module.at(tensor(device, [[1, 2], [3, 4]]).transpose(), 0)


def test_a_pointer_for_each_call(device, load):
    module = load("float first(float* p) { return p[0]; }")
    t = tensor(device, [1, 2, 3])
    addresses = np.array([t.address, t.address + 8], np.uint64)
    assert module.first(Tensor.from_numpy(device, addresses)).to_numpy().tolist() == [1, 3]


def test_an_unconstrained_generic_is_ambiguous(device, load):
    module = load("int one<T>(T x) { return 1; } T some<T : IFloat>(T x) { return x; }")
    with pytest.raises(ResolveException, match="Ambiguous call") as caught:
        module.one(tensor(device, [1, 2]))
    assert caught.value.code == "E1003"
    assert module.one.map("float")(tensor(device, [1, 2])).to_numpy().tolist() == [1, 1]
    assert module.one.map(())(tensor(device, [1, 2])) == 1
    assert module.some(tensor(device, [1, 2])).to_numpy().tolist() == [1, 2]


ELSEWHERE = """
[Differentiable] float square(float x) { return x * x; }
float first(RWTensor<float, 1> x) { return x[0]; }
float at(int i, StructuredBuffer<float> x) { return x[i]; }
"""


def test_memory_of_another_device_is_refused(load) -> None:
    """Also by a call whose plan is there already."""
    module, other = load(ELSEWHERE), spy.create_device()
    here, there = (spy.Tensor.from_numpy(each, np.arange(3, dtype=F)) for each in (module.device, other))
    assert module.square(here, _result="numpy").tolist() == [0, 1, 4]
    assert module.first(here) == 0
    assert module.at(1, here.storage) == 1
    calls = [
        lambda: module.square(there),
        lambda: module.square(here, _result=there),
        lambda: module.square.bwds(there.with_grads()),
        lambda: module.first(there),
        lambda: module.at(1, there.storage),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"E1022.*argument '\w+': the (Tensor|Buffer) lies on another device"
        ):
            call()
    with pytest.raises(ValueError, match="grad_out: the output gradient lies on another device"):
        here.with_grads(grad_out=there)


def test_tensors_of_pointers(device, load):
    module = load(
        """
        struct Row { float* start; int count; }
        float second(float* p) { return p[1]; }
        float* next(float* p, int by) { return p + by; }
        float total(Row row) { float sum = 0; for (int i = 0; i < row.count; i++) sum += row.start[i]; return sum; }
        """
    )
    memory = device.create_buffer(data=np.arange(6, dtype=np.float32))
    places = Tensor.zeros(device, (3,), "float*")
    assert (str(places.dtype), places.to_numpy().dtype) == ("float*", np.uint64)
    places.copy_from_numpy(memory.device_address + 4 * np.array([0, 2, 4], np.uint64))
    assert module.second(places, _result="numpy").tolist() == [1, 3, 5]
    later = module.next(places, 1)
    assert str(later.dtype) == "float*" and module.second(later[:2], _result="numpy").tolist() == [2, 4]
    rows = {"start": places, "count": np.array([1, 2, 2], np.int32)}
    assert module.total(rows, _result="numpy").tolist() == [0, 5, 9]
