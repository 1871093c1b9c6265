"""Functions that call `bwd_diff` themselves and add to an AtomicTensor: the same gradients as `bwds`, at all widths."""

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
struct Net : IDifferentiable { double w[5]; double2x3 m; double3 v[2]; }

[Differentiable] double loss(double x, Net n)
{
    double sum = 0;
    for (int k = 0; k < 5; k++)
        sum += n.w[k] * (k * x) / (k + x * x + 1);
    double2 row = mul(n.m, double3(x, 1, n.w[2]));
    return sum * sum + dot(row, row) * n.v[1].y + dot(n.v[0], n.v[1]) * x;
}

Net read(Tensor<double, 1> w, Tensor<double, 2> m, Tensor<double3, 1> v)
{
    Net n;
    for (int k = 0; k < 5; k++)
        n.w[k] = w[k];
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++)
            n.m[r][c] = m[r, c];
    for (int k = 0; k < 2; k++)
        n.v[k] = v[k];
    return n;
}

void add(Net.Differential n, AtomicTensor<double, 1> w, AtomicTensor<double, 2> m, AtomicTensor<double3, 1> v)
{
    for (int k = 0; k < 5; k++)
        w.add(k, n.w[k]);
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++)
            m.add(int2(c, r), n.m[r][c]);
    for (int k = 0; k < 2; k++)
        v.add(k, n.v[k]);
}

void byHand(int i, Tensor<double, 1> x, Tensor<double, 1> w, Tensor<double, 2> m, Tensor<double3, 1> v,
    AtomicTensor<double, 1> gx, AtomicTensor<double, 1> gw, AtomicTensor<double, 2> gm, AtomicTensor<double3, 1> gv)
{
    var at = diffPair(x[i]);
    var net = diffPair(read(w, m, v));
    bwd_diff(loss)(at, net, 1.0);
    gx.add(i, at.d);
    add(net.d, gw, gm, gv);
}

[Differentiable] void gradients(double x, Net n, out double gx, out Net gn)
{
    var at = diffPair(x);
    var net = diffPair(n);
    bwd_diff(loss)(at, net, 1.0);
    gx = at.d;
    gn = net.d;
}

// The derivative of the gradient in the direction of the tensors dx, dw, dm, dv.
void nested(int i, Tensor<double, 1> x, Tensor<double, 1> w, Tensor<double, 2> m, Tensor<double3, 1> v,
    Tensor<double, 1> dx, Tensor<double, 1> dw, Tensor<double, 2> dm, Tensor<double3, 1> dv,
    AtomicTensor<double, 1> gx, AtomicTensor<double, 1> gw, AtomicTensor<double, 2> gm, AtomicTensor<double3, 1> gv)
{
    DifferentialPair<double> at;
    DifferentialPair<Net> net;
    fwd_diff(gradients)(diffPair(x[i], dx[i]), diffPair(read(w, m, v), read(dw, dm, dv)), at, net);
    gx.add(i, at.d);
    add(net.d, gw, gm, gv);
}
"""

COUNT = 77
SHAPES = {"x": (COUNT,), "w": (5,), "m": (2, 3), "v": (2, 3)}


def loss(x, w, m, v):
    k = np.arange(5)
    total = (np.outer(x, k) / (np.add.outer(x * x, k) + 1)) @ w
    row = np.stack([x, np.ones_like(x), np.full_like(x, w[2])], 1) @ m.T
    return np.sum(total**2 + np.sum(row * row, 1) * v[1, 1] + v[0] @ v[1] * x)


def draw(seed):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape) for name, shape in SHAPES.items()}


class Called:
    """The functions on a device; `uneven`: elements of tensors do not follow each other."""

    def __init__(self, lanes, uneven=False):
        self.device = spy.create_device(options=spy.Options(lanes=lanes))
        self.module = spy.Module.load_from_source(self.device, "by_hand", SOURCE)
        self.uneven = uneven

    def tensor(self, name, values):
        """Also in memory with gaps."""
        kind, apart = ("double3", 1) if name == "v" else ("double", 0)
        shape = values.shape[: values.ndim - apart]
        wide = spy.Tensor.zeros(self.device, (*shape, 2) if self.uneven else shape, kind)
        if not self.uneven:
            wide.copy_from_numpy(values)
            return wide
        both = np.zeros((*shape, 2, *values.shape[len(shape) :]))
        both[(slice(None),) * len(shape) + (0,)] = values
        wide.copy_from_numpy(both)
        return wide[(slice(None),) * len(shape) + (0,)]

    def call(self, name, *given):
        inputs = [self.tensor(key, values) for each in given for key, values in each.items()]
        sums = {key: self.tensor(key, np.zeros(shape)) for key, shape in SHAPES.items()}
        getattr(self.module, name)(spy.grid((COUNT,)), *inputs, *sums.values())
        return {key: each.to_numpy() for key, each in sums.items()}

    def bwds(self, at):
        made = {key: self.tensor(key, values).with_grads() for key, values in at.items()}
        w, m, v = (np.asarray(at[key]) for key in "wmv")
        net = {"_type": "Net", "w": w.tolist(), "m": spy.double2x3(m), "v": [spy.double3(*row) for row in v]}
        self.module.loss.bwds(made["x"], net)
        return made["x"].grad.to_numpy()


def inner(a, b):
    return sum(np.sum(a[key] * b[key]) for key in SHAPES)


def moved(at, direction, h):
    return {key: at[key] + h * direction[key] for key in SHAPES}


@pytest.fixture(scope="module")
def points():
    return draw(1), draw(2)


@pytest.fixture(scope="module", params=[(1, False), (4, False), (8, True), (16, False)])
def called(request):
    return Called(*request.param)


def test_gradients(called, points):
    at, direction = points
    made, h = called.call("byHand", at), 1e-6
    change = (loss(**moved(at, direction, h)) - loss(**moved(at, direction, -h))) / (2 * h)
    assert inner(made, direction) == pytest.approx(change, rel=1e-7)
    assert made["x"] == pytest.approx(called.bwds(at), rel=1e-12)


def test_derivatives_of_gradients(called, points):
    at, direction = points
    made, h = called.call("nested", at, direction), 1e-5
    high, low = (called.call("byHand", moved(at, direction, step)) for step in (h, -h))
    for key in SHAPES:
        assert made[key] == pytest.approx((high[key] - low[key]) / (2 * h), rel=1e-6, abs=1e-6), key
