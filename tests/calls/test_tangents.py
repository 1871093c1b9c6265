"""`fwds`: tangents of values and of whole tensors."""

import warnings

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor
from tests.calls.tensors import tensor

F, D = np.float32, np.float64


def tangents(device, values, direction, dtype=F):
    return tensor(device, values, dtype).with_grads(tensor(device, direction, dtype))


SUM = """
    [Differentiable] {0} f(int i, ITensor<{0}, 1> x, {0} s) {{ return s * x[i] * x[i] * x[0]; }}
"""


@pytest.mark.parametrize("dtype, name", [(np.float16, "half"), (F, "float"), (D, "double")])
def test_a_tensor_parameter_has_the_tangent_in_grad_in(device, load, dtype, name):
    module = load(SUM.format(name))
    x = tangents(device, [1, 2, 3], [1, 0, 2], dtype)
    y = module.f.fwds(spy.grid((3,)), x, 2.0)
    assert y.to_numpy().tolist() == [2, 8, 18]
    assert y.grad.to_numpy().tolist() == [6, 8, 18 + 24]
    assert x.grad.to_numpy().tolist() == [1, 0, 2]
    y = module.f.fwds(spy.grid((3,)), x, spy.diffPair(2.0, 1.0))
    assert y.grad.to_numpy().tolist() == [7, 12, 51]


def test_without_a_tangent_a_tensor_is_a_constant(device, load):
    module = load(SUM.format("float"))
    x, s = tensor(device, [1, 2]), tangents(device, [2, 3], [1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = module.f.fwds(spy.grid((2,)), x, s)
        assert y.grad.to_numpy().tolist() == [1, 4]
        x.grad_out = tensor(device, [5, 5])
        assert module.f.fwds(spy.grid((2,)), x, s).grad.to_numpy().tolist() == [1, 4]
        s.grad_in = None
        with pytest.raises(CallError, match="fwds would give zeros: no argument has a tangent"):
            module.f.fwds(spy.grid((2,)), x, s)


def test_slices_vectors_and_structs(device, load):
    module = load("""
        struct P : IDifferentiable { double x; double2 v; int n; }
        [Differentiable] double f(ITensor<P, 1> row, IDiffTensor<double3, 1> v, int i)
        {
            P p = row[i];
            return p.x * p.v.y * p.n * dot(v[0], v[int(i)]);
        }
    """)
    random = np.random.default_rng(1)
    P = module.P
    rows, moved = Tensor.empty(device, (2, 2), P), Tensor.zeros(device, (2, 2), P.derivative)
    records = np.zeros((2, 2), "f8,f8,f8,i8")
    for name in ("f0", "f1", "f2"):
        records[name] = random.normal(size=(2, 2))
    records["f3"] = [[1, 2], [3, 4]]
    rows.storage.copy_from_numpy(records)
    by = random.normal(size=(2, 2, 3))
    moved.storage.copy_from_numpy(by)
    v, dv = random.normal(size=(2, 3)), random.normal(size=(2, 3))
    vectors = Tensor.from_numpy(device, v, dtype="double3")
    vectors = vectors.with_grads(Tensor.from_numpy(device, dv, dtype="double3"))
    y = module.f.fwds(rows.with_grads(moved), vectors, np.array([0, 1], np.int32))

    def f(t):
        x, z = records["f0"] + t * by[..., 0], records["f2"] + t * by[..., 2]
        own = [
            (x[i, i] * z[i, i] * records["f3"][i, i]) * ((v + t * dv)[0] @ (v + t * dv)[i]) for i in (0, 1)
        ]
        return np.array(own)

    assert np.allclose(y.to_numpy(), f(0), rtol=1e-12)
    assert np.allclose(y.grad.to_numpy(), (f(1e-6) - f(-1e-6)) / 2e-6, rtol=1e-7)


def test_written_tensors_get_tangents(device, load):
    module = load("""
        [Differentiable] void cube(int i, ITensor<float, 1> x, IWTensor<float, 1> y) { y[i] = x[i] * x[i] * x[i]; }
        [Differentiable] void twice(int i, IRWTensor<float, 1> x) { x.set(i, x[i] * x[i]); x.set(i, 3 * x[i]); }
    """)
    x, y = tangents(device, [1, 2, 3], [1, 1, 10]), tensor(device, [0, 0, 0]).with_grads()
    module.cube.fwds(spy.grid((3,)), x, y)
    assert (y.to_numpy().tolist(), y.grad.to_numpy().tolist()) == ([1, 8, 27], [3, 12, 270])
    module.twice.fwds(spy.grid((3,)), x)
    assert (x.to_numpy().tolist(), x.grad.to_numpy().tolist()) == ([3, 12, 27], [6, 12, 180])
    apart = tensor(device, [1]).with_grads(tensor(device, [1]), tensor(device, [0]))
    with pytest.raises(
        CallError, match="tangents of a tensor that is read and written lie in one buffer"
    ) as caught:
        module.twice.fwds(spy.grid((1,)), apart)
    assert caught.value.code == "E1007"


def test_inout_values(device, load):
    module = load("[Differentiable] void step(inout float x, float rate) { x = x - rate * x * x; }")
    x = tangents(device, [1, 2], [1, 10])
    module.step.fwds(x, 0.25)
    assert (x.to_numpy().tolist(), x.grad.to_numpy().tolist()) == ([0.75, 1], [0.5, 0])
    pair = spy.diffPair(2.0, 1.0)
    module.step.fwds(pair, 0.5)
    assert (pair.primal, pair.grad) == (0, -1)


def test_types_that_carry_no_tangents_are_refused(device, load):
    module = load("""
        [Differentiable] float f(int i, DiffTensor<float, 1> x) { return x[i] * x[i]; }
        [Differentiable] float g(int i, Tensor<float, 1> x, float y) { return x[i] * x[i] * y; }
    """)
    x = tangents(device, [1, 2], [1, 1])
    with pytest.raises(
        CallError, match=r"fwds carries no derivatives through a parameter of type 'DiffTensor'"
    ):
        module.f.fwds(spy.grid((2,)), x)
    with pytest.warns(
        UserWarning, match="'x' has gradients, and a parameter of type 'Tensor<float, 1>' takes none"
    ):
        module.g.fwds(spy.grid((2,)), x, spy.diffPair(1.0, 1.0))
    with pytest.raises(
        CallError, match=r"no argument has a tangent\n.*declare the parameter ITensor instead of Tensor"
    ):
        module.g.fwds(spy.grid((2,)), x, 1.0)


@pytest.mark.parametrize("shape", [(0,), (1,), (17,), (5, 3)])
def test_odd_sizes_and_views(device, load, shape):
    module = load("[Differentiable] double f(double x, double y) { return sin(x) * y; }")
    random = np.random.default_rng(2)
    x, dx = random.normal(size=(*shape, 2)), random.normal(size=(*shape, 2))
    whole = tangents(device, x, dx, D)
    y = module.f.fwds(whole[..., 1], 2.0)
    x, dx = (each[..., 1].reshape(-1) for each in (x, dx))
    assert np.allclose(y.to_numpy().ravel(), 2 * np.sin(x)) and np.allclose(
        y.grad.to_numpy().ravel(), 2 * np.cos(x) * dx
    )
