"""Structs with arrays of any length by value: gradients against finite differences, one struct for all threads and one
for each; code that does not grow with the length."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import slangrad as spy

# Each has a struct W, of doubles only, and `double f(W p, double x)`; N is the length.
PROGRAMS = {
    "a row": """
        struct W : IDifferentiable { double w[N]; double b; }
        [Differentiable] double f(W p, double x)
        {
            double sum = p.b;
            for (int i = 0; i < N; i++)
                sum += sin(p.w[i]) * x * (i + 1);
            return sum * sum;
        }""",
    "rows": """
        struct W : IDifferentiable { double b; double w[N][3]; double v[2][N]; }
        [Differentiable] double row(double r[N], double x)
        {
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += r[i] * r[i] * x;
            return sum;
        }
        [Differentiable] double f(W p, double x)
        {
            double sum = row(p.v[0], x) * p.b + row(p.v[1], 2 * x);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < 3; j++)
                    sum += p.w[i][j] * p.w[i][(j + 1) % 3];
            return sum;
        }""",
    "structs": """
        struct P : IDifferentiable { double3 v; double m; }
        struct W : IDifferentiable { P p[N]; double b; }
        [Differentiable] double f(W p, double x)
        {
            double sum = p.b * x;
            for (int i = 0; i < N; i++)
                sum += dot(p.p[i].v, p.p[i].v.yzx) * x * p.p[i].m;
            return sum;
        }""",
    "changed": """
        struct W : IDifferentiable { double w[N]; double b; }
        [Differentiable] W turned(W p, double x)
        {
            W q = p;
            for (int i = 0; i < N; i++)
                q.w[i] = sin(p.w[(i + 1) % N]) * x;
            return q;
        }
        [Differentiable] double f(W p, double x)
        {
            W q = p;
            for (int k = 0; k < 3; k++)
                q = turned(q, x);
            if (x > 1)
                q = p;
            else
                q.b = x;
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += q.w[i] * p.w[i] * q.b;
            return sum;
        }""",
    "a derivative": """
        struct W : IDifferentiable { double w[N]; double b; }
        [Differentiable] double inner(W p, double x)
        {
            double sum = p.b * p.b * x;
            for (int i = 0; i < N; i++)
                sum += p.w[i] * p.w[i] * p.w[i] * x * x;
            return sum;
        }
        [Differentiable] double f(W p, double x)
        {
            var dp = diffPair(p);
            var dx = diffPair(x);
            bwd_diff(inner)(dp, dx, 1.0lf);
            double sum = dx.d * dp.d.b;
            for (int i = 0; i < N; i++)
                sum += dp.d.w[i] * p.b;
            return sum;
        }""",
}
THREADS, STEP = 11, 1e-5
DEVICES = ("interpreter", 0), ("cpu", 1), ("cpu", 4), ("cpu", 16)


@cache
def device_of(backend: str, lanes: int) -> spy.Device:
    return spy.create_device(
        backend=backend, options=replace(spy.Options.from_environment(), lanes=lanes, optimize=0)
    )


@cache
def load(device: spy.Device, name: str, length: int) -> spy.Module:
    text = f"static const int N = {length};\n{PROGRAMS[name]}"
    return spy.Module.load_from_source(device, f"large_{length}", text)


def structs(device: spy.Device, module: spy.Module, values: np.ndarray) -> spy.Tensor:
    made = spy.Tensor.zeros(device, values.shape[:1], module.W).with_grads()
    made.storage.copy_from_numpy(values)
    return made


def doubles(tensor: spy.Tensor, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(tensor.storage.to_numpy().tobytes(), np.float64).reshape(shape)


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("backend", "lanes"), DEVICES)
@pytest.mark.parametrize("count", [1, THREADS])
@pytest.mark.parametrize("length", [1, 17, 65])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, length: int, count: int, backend: str, lanes: int) -> None:
    device = device_of(backend, lanes)
    module = load(device, name, length)
    draw = np.random.default_rng(length)
    size = module.W.struct.layout.size // 8
    values, x = draw.uniform(0.2, 1, (count, size)), draw.uniform(0.5, 1.5, THREADS)
    along, along_x = draw.uniform(-1, 1, values.shape), draw.uniform(-1, 1, THREADS)

    p, at = structs(device, module, values), spy.Tensor.from_numpy(device, x).with_grads()
    module.f.bwds(p, at)
    found = np.sum(doubles(p.grad, values.shape) * along) + np.sum(at.grad.to_numpy() * along_x)

    def total(step: float) -> float:
        moved = structs(device, module, values + step * along)
        return float(np.sum(module.f(moved, x + step * along_x, _result="numpy")))

    wanted = (total(STEP) - total(-STEP)) / (2 * STEP)
    assert found == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize(("backend", "lanes"), DEVICES)
def test_no_elements(backend: str, lanes: int) -> None:
    device = device_of(backend, lanes)
    module = load(device, "a row", 0)
    p = structs(device, module, np.array([[3.0]]))
    module.f.bwds(p, np.ones(THREADS))
    assert doubles(p.grad, (1,)).tolist() == [6 * THREADS]


def sizes(name: str, length: int, mode: str) -> dict[str, int]:
    """How many lines the code of each stage has."""
    device = device_of("cpu", 8)
    module = load(device, name, length)
    p = spy.Tensor.zeros(device, (1,), module.W).with_grads()
    x = spy.Tensor.zeros(device, (THREADS,), "double").with_grads()
    compiled = getattr(module.f, mode).compile(p, x)
    return {stage: compiled.text(stage).count("\n") for stage in compiled.stages}


COMMON = ["lowered", "autodiff", "inlined", "clean", "flat", "math"]


@pytest.mark.parametrize("mode", ["bwds", "fwds"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_code_does_not_grow(name: str, mode: str) -> None:
    short, long, longer = (sizes(name, length, mode) for length in (96, 2048, 4096))
    for stage in COMMON:
        assert short[stage] == long[stage] == longer[stage], stage
    for stage in ("delayed", "lanes"):
        assert long[stage] == longer[stage], stage
    assert longer["llvm"] < 1.2 * long["llvm"]


NET = """
struct Layer<let I : int, let O : int> : IDifferentiable
{
    double w[O][I];
    double b[O];

    [Differentiable] double[O] apply(double x[I])
    {
        double y[O];
        for (int i = 0; i < O; i++)
        {
            double sum = b[i];
            for (int j = 0; j < I; j++)
                sum += w[i][j] * x[j];
            y[i] = tanh(sum);
        }
        return y;
    }
}

struct Net : IDifferentiable
{
    Layer<4, H> a;
    Layer<H, H> b;
    Layer<H, 1> c;

    [Differentiable] double eval(double x[4]) { return c.apply(b.apply(a.apply(x)))[0]; }
}

[Differentiable] double f(Net net, double x[4]) { return net.eval(x); }
"""


@pytest.mark.parametrize("width", [3, 24])
def test_a_network(width: int) -> None:
    """Weights by value, against the same sums in NumPy."""
    device = device_of("cpu", 0)
    module = spy.Module.load_from_source(device, "network", f"static const int H = {width};\n{NET}")
    shapes = [(width, 4), (width,), (width, width), (width,), (1, width), (1,)]
    draw = np.random.default_rng(1)
    parts, x = [draw.uniform(-0.5, 0.5, shape) for shape in shapes], draw.uniform(-1, 1, (THREADS, 4))
    net = spy.Tensor.zeros(device, (1,), module.Net).with_grads()
    net.storage.copy_from_numpy(np.concatenate([each.ravel() for each in parts]))
    module.f.bwds(net, spy.Tensor.from_numpy(device, x, dtype="double[4]"))

    outputs = [x]
    for w, b in zip(parts[::2], parts[1::2], strict=True):
        outputs.append(np.tanh(outputs[-1] @ w.T + b))
    wanted, given = [], np.ones((THREADS, 1))
    for w, before, after in zip(parts[-2::-2], outputs[-2::-1], outputs[:0:-1], strict=True):
        given = given * (1 - after * after)
        wanted = [given.T @ before, given.sum(0), *wanted]
        given = given @ w
    found = np.frombuffer(net.grad.storage.to_numpy().tobytes(), np.float64)
    np.testing.assert_allclose(
        found, np.concatenate([each.ravel() for each in wanted]), rtol=1e-10, atol=1e-12
    )
