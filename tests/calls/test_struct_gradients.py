"""Gradients of tensors of structs: nested, of several number types, with fields that have none; all ways to load them."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

F = np.float32

SOURCE = """
    struct In : IDifferentiable { half h; double d; }
    struct P : IDifferentiable { float x; In inner; float2 v[2]; int n; no_diff float c; }
    P make(float x)
    {
        P p;
        p.x = x;
        p.inner.h = half(2);
        p.inner.d = 3;
        p.v[0] = float2(1, 2);
        p.v[1] = float2(3, 4);
        p.n = 2;
        p.c = 5;
        return p;
    }
    [Differentiable] float value(P p)
    {
        return p.x * float(p.inner.h) * float(p.inner.d) * p.v[0].y * p.v[1].x * p.n * p.c;
    }
    [Differentiable] float plain(int i, ITensor<P, 1> t) { return value(t[i]); }
    [Differentiable] float once(int i, DiffTensor<P, 1> t) { int at[1] = { i }; return value(t.load_once(at)); }
    [Differentiable] float uniformly(int i, DiffTensor<P, 1> t, float s)
    {
        int at[1] = { 0 };
        return value(t.load_uniform(at)) * s;
    }
    [Differentiable] P grow(P p, float s) { p.x = p.x * s; p.v[0] = p.v[0] * s; return p; }
"""


def gradient(tensor):
    return tensor.grad.to_numpy(structured=True)


def expected(x):
    """Gradients of `value`: x, inner.h, inner.d, v."""
    x = np.asarray(x, float)
    v = np.zeros((*x.shape, 2, 2))
    v[..., 0, 1], v[..., 1, 0] = 180 * x, 120 * x
    return 360 + 0 * x, 180 * x, 120 * x, v


def check(found, x, times=1):
    values = found["x"], found["inner"]["h"], found["inner"]["d"], found["v"]
    for one, other in zip(values, expected(x)):
        assert one.tolist() == (times * other).tolist()


@pytest.mark.parametrize("size", [0, 1, 5])
def test_all_ways_to_load(load, size):
    module = load(SOURCE)
    x = np.arange(1, size + 1, dtype=F)
    points, grid = module.make(x), spy.grid((size,))
    for call in (
        lambda p: module.value.bwds(p),
        lambda p: module.plain.bwds(grid, p),
        lambda p: module.once.bwds(grid, p),
    ):
        own = points.with_grads()
        call(own)
        check(gradient(own), x)


def test_what_all_calls_load(device, load):
    module = load(SOURCE)
    one = module.make(np.array([2], F)).with_grads()
    module.uniformly.bwds(spy.grid((33,)), one, np.ones(33, F))
    check(gradient(one), [2], times=33)
    module.value.bwds(one)
    check(gradient(one), [2], times=34)


def test_load_once_replaces(device, load):
    module = load(
        "[Differentiable] float f(int i, DiffTensor<float, 1> t) { int at[1] = { i }; return t.load_once(at) * 3; }"
    )
    t = Tensor.ones(device, (7,), "float").with_grads()
    for _ in range(2):
        module.f.bwds(spy.grid((7,)), t)
    assert t.grad.to_numpy().tolist() == [3] * 7


def test_views_and_broadcasting(device, load):
    module = load(SOURCE)
    whole = module.make(np.arange(12, dtype=F).reshape(4, 3)).with_grads()
    module.value.bwds(whole[::2, 1:])
    assert gradient(whole)["x"].tolist() == [[0, 360, 360], [0, 0, 0], [0, 360, 360], [0, 0, 0]]
    one, s = module.make(np.array([2], F)).with_grads(), Tensor.ones(device, (7,), "float").with_grads()
    made = module.grow(one, s).with_grads()
    cotangent = np.zeros(7, gradient(one).dtype)
    cotangent["x"] = 1
    made.grad.copy_from_numpy(cotangent)
    module.grow.bwds(one, s, made)
    assert gradient(one)["x"].tolist() == [7] and s.grad.to_numpy().tolist() == [2] * 7


def test_as_values(device, load):
    module = load(SOURCE)
    points = module.make(np.array([1, 2, 3], F))
    spy.check_gradients(module.value, points, directions=1)
    direction = spy.jvp(module.grow, (points, 2.0), (None, 1.0))[1]
    assert direction.to_numpy(structured=True)["x"].tolist() == [1, 2, 3]
    (product,) = spy.hvp(module.value, (points,), (direction,))
    found, x = product.to_numpy(structured=True), np.array([1.0, 2, 3])
    assert found["x"].tolist() == (180 * 2 * np.ones(3)).tolist()  # v[0].y moves by itself
    assert found["inner"]["d"].tolist() == (120 * x + 60 * x * 2).tolist()
