"""Derivatives through values of interface types, a type for each thread: both modes, finite differences, second order."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy
from tests.backends import ALL

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


@pytest.mark.parametrize("backend", ALL)
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


BAGS = """
interface IBag : IDifferentiable
{
    associatedtype Item : IDifferentiable;
    [Differentiable] Item first();
    [Differentiable] double weigh(Item x);
}
struct Plain : IBag
{
    typealias Item = double; double n;
    [Differentiable] double first() { return n; }
    [Differentiable] double weigh(double x) { return 10 * x * x * n; }
}
struct Pairs : IBag
{
    typealias Item = double2; double n;
    [Differentiable] double2 first() { return double2(n, n * n); }
    [Differentiable] double weigh(double2 x) { return x.x + sin(x.y) * x.x; }
}
struct More : IBag
{
    typealias Item = double; double n;
    [Differentiable] double first() { return exp(n); }
    [Differentiable] double weigh(double x) { return 0.1lf * x * n; }
}
[Differentiable] IBag pick(int id, double x)
{
    if (id == 0) return Plain(x);
    if (id == 1) return Pairs(x);
    return More(x);
}
[Differentiable] double f(no_diff int i, no_diff int j, double x)
{
    let item = pick(i, x).first();
    return pick(j, x).weigh(item);
}
[Differentiable] double backward(no_diff int i, no_diff int j, double x)
{
    var p = diffPair(x);
    bwd_diff(f)(i, j, p, 1.0lf);
    return p.d;
}
double forward(int i, int j, double x) { return fwd_diff(f)(i, j, diffPair(x, 1.0lf)).d; }
double forward_twice(int i, int j, double x) { return fwd_diff(backward)(i, j, diffPair(x, 1.0lf)).d; }
double backward_twice(int i, int j, double x) { var p = diffPair(x); bwd_diff(backward)(i, j, p, 1.0lf); return p.d; }
"""


@pytest.mark.parametrize("backend", ALL)
def test_values_of_the_same_associated_type_go_to_objects_of_another_type(backend: str) -> None:
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "bags", BAGS)
    i, j = np.array([0, 2, 0, 2, 1], np.int32), np.array([0, 0, 2, 2, 1], np.int32)
    x = np.linspace(0.4, 1.3, 5)

    def run(name: str, at: np.ndarray) -> np.ndarray:
        return np.asarray(getattr(module, name)(i, j, at, _result="numpy"))

    first = (run("f", x + H) - run("f", x - H)) / (2 * H)
    second = (run("backward", x + H) - run("backward", x - H)) / (2 * H)
    np.testing.assert_allclose(run("forward", x), run("backward", x), rtol=1e-12)
    np.testing.assert_allclose(run("backward", x), first, rtol=1e-6)
    np.testing.assert_allclose(run("forward_twice", x), run("backward_twice", x), rtol=1e-11)
    np.testing.assert_allclose(run("backward_twice", x), second, rtol=1e-5)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("name", ["f", "forward", "backward"])
def test_to_objects_of_a_type_with_another_one_they_may_not(backend: str, name: str) -> None:
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "bags", BAGS)
    wrong = (
        r"E0905.*'double' was passed where only a 'double2' can be[\s\S]*return pick\(j, x\).weigh\(item\)"
    )
    with pytest.raises(spy.KernelTypeError, match=wrong):
        getattr(module, name)(np.array([1, 0], np.int32), 1, 0.5)
