"""Derivatives through values of interface types, a type for each thread: both modes, finite differences, second order."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy

SHAPES = """
interface IShape : IDifferentiable { [Differentiable] double area(double k); [Differentiable] This grown(double k); }
struct Circle : IShape
{
    double r;
    [Differentiable] double area(double k) { return 3.0lf * r * r * k; }
    [Differentiable] This grown(double k) { return Circle(r * k); }
}
struct Box : IShape
{
    double a; double b; int n;
    [Differentiable] double area(double k) { return a * b * exp(k); }
    [Differentiable] This grown(double k) { return Box(a + k, b * b, n); }
}
struct Flat : IShape
{
    int n;
    [Differentiable] double area(double k) { return sin(k) * n; }
    [Differentiable] This grown(double k) { return this; }
}

[Differentiable] IShape make(int id, double x)
{
    if (id == 0)
        return Circle(x);
    if (id == 1)
        return Box(x, x * x, id);
    return Flat(7);
}

[Differentiable] double f(no_diff int id, double x)
{
    IShape shapes[2] = { make(id, x), make((id + 1) % 3, 0.5lf * x) };
    IShape s = shapes[0].grown(x);
    double sum = 0;
    for (int i = 0; i < id + 2; i++)
    {
        sum += s.area(0.1lf * x) * shapes[1].area(x);
        s = s.grown(0.9lf);
    }
    return sum;
}

[Differentiable] double backward(no_diff int id, double x) { var p = diffPair(x); bwd_diff(f)(id, p, 1.0lf); return p.d; }
double forward(int id, double x) { return fwd_diff(f)(id, diffPair(x, 1.0lf)).d; }
double forward_twice(int id, double x) { return fwd_diff(backward)(id, diffPair(x, 1.0lf)).d; }
double backward_twice(int id, double x) { var p = diffPair(x); bwd_diff(backward)(id, p, 1.0lf); return p.d; }
"""
H = 1e-6


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_types_differ_from_thread_to_thread(backend: str) -> None:
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "shapes", SHAPES)
    count = 40 if backend == "cpu" else 6
    ids = np.arange(count, dtype=np.int32) % 3
    x = np.linspace(0.4, 1.3, count)

    def run(name: str, at: np.ndarray) -> np.ndarray:
        return np.asarray(getattr(module, name)(ids, at, _result="numpy"))

    first = (run("f", x + H) - run("f", x - H)) / (2 * H)
    second = (run("backward", x + H) - run("backward", x - H)) / (2 * H)
    np.testing.assert_allclose(run("forward", x), run("backward", x), rtol=1e-12)
    np.testing.assert_allclose(run("backward", x), first, rtol=1e-6)
    np.testing.assert_allclose(run("forward_twice", x), run("backward_twice", x), rtol=1e-11)
    np.testing.assert_allclose(run("backward_twice", x), second, rtol=1e-5)
