"""Explicit maps, and calls of many shapes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import BoundVariableException, CallError, Tensor

F = np.float32


def test_an_outer_product(load):
    module = load("float mix(float a, float b) { return a + 10 * b; }")
    a, b = np.arange(4, dtype=F), np.arange(3, dtype=F)
    wanted = a[:, None] + 10 * b
    assert module.mix.map((0,), (1,))(a, b).to_numpy().tolist() == wanted.tolist()
    assert module.mix.map(b=(1,), a=(0,))(a, b).to_numpy().tolist() == wanted.tolist()
    assert module.mix.map(b=(1,), a=(0,))(b=b, a=a).to_numpy().tolist() == wanted.tolist()


def test_a_transposed_call(load):
    module = load("float same(float x) { return x; }")
    x = np.arange(12, dtype=F).reshape(4, 3)
    assert module.same.map((1, 0))(x).to_numpy().tolist() == x.T.tolist()


def test_outputs_can_be_mapped(load):
    module = load("void add(float a, float b, out float c) { c = a + 10 * b; }")
    a, b, c = np.arange(4, dtype=F), np.arange(3, dtype=F), np.zeros((3, 4), F)
    module.add.map((1,), (0,))(a, b, c)
    assert c.tolist() == (a + 10 * b[:, None]).tolist()


def test_types(device, load):
    module = load(
        "float first<T>(T x) { return 1; } float total<let N : int>(vector<float, N> v) { return N; }"
    )
    x = Tensor.zeros(device, (5, 3), "float")
    assert module.total.map("float3")(x).shape == (5,)
    assert module.total.map(module.float3)(x).shape == (5,)
    assert module.total.map(spy.float3)(x).shape == (5,)
    assert module.total.map(v=np.float32) is not None
    assert module.first.map((0, 1))(x).shape == (5, 3)
    assert module.first.map(float)(x).shape == (5, 3)


def test_fields(load):
    module = load("struct P { float x; float y; } float mix(P p) { return p.x + 10 * p.y; }")
    p = {"x": np.arange(2, dtype=F), "y": np.arange(3, dtype=F)}
    found = module.mix.map({"x": (0,), "y": (1,)})(p)
    assert found.to_numpy().tolist() == [[0, 10, 20], [1, 11, 21]]
    assert module.mix.map({"$type": "P", "x": (0,), "y": (1,)})(p).shape == (2, 3)


def test_numbers_of_another_type(device, load):
    module = load("""
        float cut(int a) { return a; }
        float first(int2 v, constref int n) { return v.x + 10 * v.y + 100 * n; }
        [Differentiable] float scaled(float x, float w) { return w * w * x; }
        void write(out int a) { a = 3; }
        float either(int a) { return 1; }
        float either(float a) { return 2; }
    """)
    x = Tensor.from_numpy(device, np.array([1.5, -2.5, 3], F))
    assert module.cut.map(float)(x).to_numpy().tolist() == [1, -2, 3]
    assert module.cut.map((0,))(x).to_numpy().tolist() == [1, -2, 3]
    assert module.cut.map("float")(-2.7) == -2
    assert module.first.map("float2", n="double")(np.array([[1.9, 2.9]], F), 3.5).to_numpy().tolist() == [321]
    assert module.either.map("float")(x).to_numpy().tolist() == [2, 2, 2]
    i = Tensor.from_numpy(device, np.array([1, 2, 3], np.int32))
    w = x.with_grads()
    module.scaled.map(x="int").bwds(i, w)
    assert w.grad.to_numpy().tolist() == [3, -10, 18]
    with pytest.raises(CallError, match="cannot receive what is written"):
        module.write.map("float")(x)
    with pytest.raises(CallError, match=r"seen as 'double', as map says.*no derivative reaches it"):
        module.scaled.map(w="double").bwds(1, Tensor.zeros(device, (3,), "double").with_grads())
    with pytest.raises(CallError, match="map says 'float3', the parameter is 'int2'"):
        module.first.map("float3")(np.zeros((2, 3), F), 1)


def test_wrong_maps(load):
    module = load("float same(float x) { return x; }")
    x = np.zeros((4, 3), F)
    with pytest.raises(CallError, match="Too many arguments supplied for explicit vectorization"):
        module.same.map((0,), (1,))(x)
    with pytest.raises(CallError, match="Unknown keyword argument y"):
        module.same.map(y=(0,))(x)
    with pytest.raises(CallError, match="Explicit vectorization raised exception: NotImplementedError"):
        module.same.map(())(None)
    with pytest.raises(BoundVariableException, match="counted from 0"):
        module.same.map((0, -1))(x)
    with pytest.raises(CallError, match="neither a tuple of dimensions nor a type"):
        module.same.map("nothing")(x)
    with pytest.raises(CallError, match="cannot have 1 dimensions, as map says"):
        module.same.map((0,))(x)


SIZES = st.sampled_from([1, 2, 3, 17])


@st.composite
def broadcast_inputs(draw):
    shape = draw(st.lists(SIZES, min_size=0, max_size=4))
    inputs = []
    for _ in range(2):
        rank = draw(st.integers(0, len(shape)))
        own = [draw(st.sampled_from([1, size])) for size in shape[len(shape) - rank :]]
        order = draw(st.permutations(range(rank)))
        values = (np.arange(int(np.prod(own))) % 61).astype(F).reshape([own[i] for i in order])
        inputs.append(values.transpose(np.argsort(order)) if rank else values)
    return inputs


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(broadcast_inputs())
def test_calls_broadcast_as_numpy_does(load, inputs):
    module = load("float mix(float a, float b) { return a + 100 * b; }")
    a, b = (each if each.ndim else float(each) for each in inputs)
    wanted = inputs[0] + 100 * inputs[1]
    found = module.mix(a, b, _result="numpy")
    assert found.shape == wanted.shape
    assert (found == wanted).all()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(broadcast_inputs())
def test_gradients_sum_over_what_was_repeated(device, load, inputs):
    module = load("[Differentiable] float mul(float a, float b) { return a * b; }")
    a, b = (Tensor.from_numpy(device, each if each.ndim else each.reshape(1)).with_grads() for each in inputs)
    module.mul.bwds(a, b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    for own, other in ((a, b), (b, a)):
        wanted = np.broadcast_to(other.to_numpy(), shape).astype(np.float64)
        extra = len(shape) - len(own.shape)
        wanted = wanted.sum(axis=tuple(range(extra)))
        repeated = tuple(i for i, size in enumerate(own.shape) if size != wanted.shape[i])
        assert (own.grad.to_numpy() == wanted.sum(axis=repeated, keepdims=True)).all()  # below 2^24: exact
