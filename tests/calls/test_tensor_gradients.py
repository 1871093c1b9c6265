"""ITensor and its kin in differentiable functions: gradients go where there are some."""

import warnings

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor
from tests.calls.tensors import tensor

F = np.float32


SQUARE = "[Differentiable] float f(int i, ITensor<float, 1> x) { return x[i] * x[i]; }"


def test_an_itensor_takes_the_gradients_that_there_are(device, load):
    module = load(SQUARE)
    x = tensor(device, [1, 2, 3]).with_grads()
    assert module.f(spy.grid((3,)), x).to_numpy().tolist() == [1, 4, 9]
    module.f.bwds(spy.grid((3,)), x)
    assert x.grad.to_numpy().tolist() == [2, 4, 6]
    module.f.bwds(np.array([1, 1], np.int32), x)
    assert x.grad.to_numpy().tolist() == [2, 12, 6]


def test_without_gradients_it_is_a_constant(device, load):
    module = load("""
        [Differentiable] float scaled(int i, float s, ITensor<float, 1> x) { return s * x[i] * x[i]; }
    """)
    s, x = tensor(device, [2, 3]).with_grads(), tensor(device, [5, 7])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.scaled.bwds(spy.grid((2,)), s, x)
        module.scaled.bwds(spy.grid((2,)), s, np.array([1, 1], F))
    assert s.grad.to_numpy().tolist() == [26, 50]


@pytest.mark.parametrize("dtype, name", [(np.float16, "half"), (F, "float"), (np.float64, "double")])
def test_all_spellings_in_two_and_three_dimensions(device, load, dtype, name):
    module = load(f"""
        [Differentiable] {name} matrix(int r, int c, ITensor<{name}, 2> m)
        {{
            int at[2] = {{ r, c }};
            return m[r, c] * m[int2(c, r)] + m[at] * m.load(r, c) + m.get(r, c);
        }}
        [Differentiable] {name} cube(int i, int j, int k, ITensor<{name}, 3> t)
        {{
            return t[i, j, k] * t[int3(k, j, i)] * t.load(i, j, k);
        }}
    """)
    m = np.arange(1, 7).reshape(2, 3).astype(dtype)
    own = tensor(device, m, dtype).with_grads()
    rows, columns = np.indices((2, 3), np.int32)
    module.matrix.bwds(rows, columns, own)
    assert own.grad.to_numpy().tolist() == (4 * m + 1).tolist()
    t = np.arange(1, 9).reshape(2, 2, 2).astype(dtype)
    own = tensor(device, t, dtype).with_grads()
    module.cube.bwds(*np.indices((2, 2, 2), np.int32), own)
    assert own.grad.to_numpy().tolist() == (3 * t * t).tolist()


def test_gradients_pass_functions_in_between(device, load):
    module = load("""
        [Differentiable] float inner(int i, ITensor<float, 1> x) { return x.load(i) * x[i]; }
        [Differentiable] float generic<X : ITensor<float, 1>>(int i, X x) { return inner(i, x) * x[0]; }
        [Differentiable] float f(int i, ITensor<float, 1> x, IDiffTensor<float, 1> y)
        {
            return generic(i, x) + inner(i, y);
        }
    """)
    x, y = (tensor(device, [2, 3, 4]).with_grads() for _ in range(2))
    module.f.bwds(spy.grid((3,)), x, y)
    assert x.grad.to_numpy().tolist() == [2 * 4 + 4 + 9 + 16, 2 * 3 * 2, 2 * 4 * 2]
    assert y.grad.to_numpy().tolist() == [4, 6, 8]


def test_each_call_gets_a_slice_and_its_gradient(device, load):
    module = load("""
        [Differentiable] float energy(ITensor<float, 1> row, ITensor<float, 1> weights)
        {
            float sum = 0;
            for (int i = 0; i < row.shape[0]; i++)
                sum += weights[i] * row[i] * row[i];
            return sum;
        }
    """)
    random = np.random.default_rng(3)
    m, w = random.normal(size=(4, 3)).astype(F), random.normal(size=3).astype(F)
    rows, weights = tensor(device, m).with_grads(), tensor(device, w).with_grads()
    module.energy.bwds(rows, weights)
    assert np.allclose(rows.grad.to_numpy(), 2 * w * m, rtol=1e-5)
    assert np.allclose(weights.grad.to_numpy(), (m * m).sum(0), rtol=1e-5)


def test_written_tensors(device, load):
    module = load("""
        [Differentiable] void cubes(int i, ITensor<float, 1> x, IWTensor<float, 1> y) { y[i] = x[i] * x[i] * x[i]; }
        [Differentiable] void square(int i, IRWTensor<float, 1> x) { float v = x[i]; x.set(i, v * v); }
    """)
    x, y = tensor(device, [1, 2, 3]).with_grads(), tensor(device, [0, 0, 0]).with_grads()
    module.cubes(spy.grid((3,)), x, y)
    assert y.to_numpy().tolist() == [1, 8, 27]
    y.grad.copy_from_numpy(np.array([1, 10, 100], F))
    module.cubes.bwds(spy.grid((3,)), x, y)
    assert x.grad.to_numpy().tolist() == [3, 120, 2700]
    given, made = tensor(device, [1, 1, 1]), tensor(device, [0, 0, 0])
    both = tensor(device, [1, 2, 3]).with_grads(grad_in=given, grad_out=made)
    module.square.bwds(spy.grid((3,)), both)
    assert made.to_numpy().tolist() == [2, 4, 6]
    with pytest.raises(CallError, match="inout parameter gradients need separate buffers"):
        module.square.bwds(spy.grid((3,)), tensor(device, [1, 2, 3]).with_grads())


def test_structs_as_elements(device, load):
    module = load("""
        struct P : IDifferentiable { float x; float2 v; int n; }
        [Differentiable] float f(int i, ITensor<P, 1> p) { P q = p[i]; return q.x * q.v.x * q.v.y * q.n; }
        [Differentiable] float g(int2 i, ITensor<float3, 2> p) { return dot(p[i], p[i]); }
    """)
    p = Tensor.empty(device, (2,), module.P)
    p.storage.copy_from_numpy(np.array([(2, 3, 4, 1), (5, 6, 7, 2)], "f4,f4,f4,i4"))
    p = p.with_grads()
    module.f.bwds(spy.grid((2,)), p)
    gradient = p.grad.storage.to_numpy().view(F)
    assert gradient.tolist() == [12, 8, 6, 84, 70, 60]
    v = np.arange(12).reshape(2, 2, 3).astype(F)
    t = Tensor.empty(device, (2, 2), "float3")
    t.copy_from_numpy(v)
    t = t.with_grads()
    module.g.bwds(spy.grid((2, 2)), t)
    assert t.grad.to_numpy().tolist() == (2 * v).tolist()


def test_samples_between_elements(device, load):
    module = load("[Differentiable] float f(float2 uv, ITensor<float, 2> t) { return t.sample(uv); }")
    t = tensor(device, [[1, 2], [3, 5]]).with_grads()
    uv = Tensor.from_numpy(device, np.array([[0.5, 0.375]], F)).with_grads()
    module.f.bwds(uv, t)
    assert t.grad.to_numpy().tolist() == [[0.375, 0.375], [0.125, 0.125]]
    assert uv.grad.to_numpy().tolist() == [[2 * (0.75 * 1 + 0.25 * 2), 2 * (0.5 * 2 + 0.5 * 3)]]


def test_no_diff_says_that_it_is_constant(device, load):
    module = load("""
        [Differentiable] float f(int i, no_diff ITensor<float, 1> x, float s) { return x[i] * x[i] * s; }
        [Differentiable] float g(int i, no_diff IDiffTensor<float, 1> x, no_diff Tensor<float, 1> y, float s)
        { return x[i] * y[i] * s; }
    """)
    x = tensor(device, [1, 2, 3]).with_grads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = spy.diffPair(1.0, 1.0)
        module.f.bwds(spy.grid((3,)), x, s)
        module.g.bwds(spy.grid((3,)), x, x, s)
        module.f.fwds(spy.grid((3,)), x, s)
    with pytest.raises(CallError, match="bwds would do nothing") as caught:
        module.f.bwds(spy.grid((3,)), x, 1.0)
    assert "'s' is a float: pass diffPair(s)" in str(caught.value) and "'x'" not in str(caught.value)
    assert x.grad.to_numpy().tolist() == [0, 0, 0]


def test_a_type_that_takes_no_gradients_is_told(device, load):
    module = load("[Differentiable] float f(int i, Tensor<float, 1> x, float s) { return s * x[i] * x[i]; }")
    x, s = tensor(device, [1, 2, 3]), spy.diffPair(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.f.bwds(spy.grid((3,)), x, s)
    with pytest.warns(
        UserWarning, match="'x' has gradients, and a parameter of type 'Tensor<float, 1>' takes none"
    ):
        module.f.bwds(spy.grid((3,)), x.with_grads(), s)
    with pytest.raises(CallError, match="bwds would do nothing"):
        module.f.bwds(spy.grid((3,)), x.with_grads(), 1.0)


def test_derivatives_inside_of_slang(device, load):
    module = load("""
        [Differentiable] float loss(float s, ITensor<float, 1> w) { return s * w[0] * w[0] * w[1]; }
        void step(float s, DiffTensor<float, 1> w) { var p = diffPair(s); bwd_diff(loss)(p, w, 1.0); }
        [Differentiable] float slope(float s, ITensor<float, 1> w)
        {
            var p = diffPair(s);
            bwd_diff(loss)(p, w, 1.0);
            return p.d * p.d;
        }
    """)
    w = tensor(device, [3, 5]).with_grads()
    module.step(2.0, w)
    assert w.grad.to_numpy().tolist() == [2 * 2 * 3 * 5, 2 * 9]
    w.grad.clear()
    module.slope.bwds(spy.diffPair(2.0), w.detach())
    assert w.grad.to_numpy().tolist() == [0, 0]


def test_samples_beyond_the_ends(device, load):
    """Element (row, column) lies at uv = (column + 0.5, row + 0.5) / size; beyond the first and the last one the value
    stays."""
    module = load(
        "[Differentiable] double f(float u, ITensor<double, 2> t) { return t.sample(float2(u, 0)); }"
    )
    t = Tensor.from_numpy(device, np.array([[10.0, 20.0, 30.0]])).with_grads()
    u = np.array([-5, -0.4, 0, 1 / 8, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1, 7], F)
    at = u * 3 - 0.5
    wanted = np.interp(at, [0, 1, 2], [10, 20, 30])
    np.testing.assert_allclose(module.f(u, t).to_numpy(), wanted, rtol=1e-6)
    place = Tensor.from_numpy(device, u).with_grads()
    module.f.bwds(place, t)
    slopes = np.where((at >= 0) & (at < 2), 30, 0)
    np.testing.assert_allclose(place.grad.to_numpy(), slopes, rtol=1e-5)
    weights = [np.interp(at, [0, 1, 2], row).sum() for row in np.eye(3)]
    np.testing.assert_allclose(t.grad.to_numpy(), [weights], rtol=1e-6)
    tangent = module.f.fwds(
        Tensor.from_numpy(device, u).with_grads(Tensor.ones(device, u.shape, "float")), t.detach()
    )
    np.testing.assert_allclose(tangent.grad.to_numpy(), slopes, rtol=1e-5)
