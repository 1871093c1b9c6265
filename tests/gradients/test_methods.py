"""Differentiable methods of the library, the ways into tensors, and functions that have no finite differences."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import slangrad as spy
from tests.gradients.library import METHODS, methods

# fmt: off
READS = (
    "t.load(at)", "t.load(int2(2, 1))", "t.load(1, 2)", "t.load(uint2(2, 1))",
    "t[at]", "t[int2(2, 1)]", "t[1, 2]",
    "t.get(at)", "t.get(1, 2)", "t.getv(int2(2, 1))", "t.get({ 1, 2 })", "t.getv({ 2, 1 })",
    "t.load_once(at)", "t.load_once(int2(2, 1))", "t.load_uniform(at)", "t.load_uniform(int2(2, 1))",
)
WRITES = (
    "t.store(at, y)", "t.store(int2(2, 1), y)", "t.store(1, 2, y)",
    "t[at] = y", "t[int2(2, 1)] = y", "t[1, 2] = y",
    "t.set(at, y)", "t.set(1, 2, y)", "t.setv(int2(2, 1), y)", "t.set({ 1, 2 }, y)", "t.setv({ 2, 1 }, y)",
)
# fmt: on

METHODS_OF_NUMBERS = """
struct Twice : IDifferentiableFunc<double, double>
{
    [Differentiable] double operator()(double x) { return 2.0lf * x * x; }
}

[Differentiable] T applied<T : IFloat, F : IDifferentiableFunc<T, T>>(F f, T x) { return f(x); }
[Differentiable] float first<T : IFloat>(T x) { return (x * x).toFloat(); }
[Differentiable] T element<T, A : IRWArray<T>>(no_diff int i, A values, T other) { values[i + 1] = other; return values[i]; }

[Differentiable] T scaled<T : IFloat>(T x, double k) { return x.scale(k) * T(float(k)); }

[Differentiable] double called(double x) { return applied(Twice(), x) * x; }
[Differentiable] double number(double x) { return double(first(x)); }
[Differentiable] double vector(double x) { return double(first(double3(x * x, x, 1.0lf))); }
[Differentiable] double scale(double x) { return scaled(double2(x, 1.0lf), x).x; }
[Differentiable] double pair(double x) { let p = diffPair(x * x, sin(x)); return p.getPrimal() * p.getDifferential(); }
[Differentiable] double half_pair(double x) { let p = diffPair(x * x); return p.getPrimal() + p.getDifferential(); }
[Differentiable] double tuple(double x) { let t = makeTuple(x, x * x, 3.0lf, x * x * x); return t._0 * t._1 + t._3 * t._2; }
[Differentiable] double triple(double x) { let t = makeTuple(x, x * x, x); return t._0 * t._1 * t._2; }
[Differentiable] double couple(double x) { let t = makeTuple(x, x * x); return t._0 * t._1; }
[Differentiable] double joined(double x) { let t = concat(makeTuple(x, x * x), makeTuple(sin(x))); return t._0 * t._1 + t._2; }
[Differentiable] double ignored(double x) { double y = x * x; unused(y); return y * x; }
[Differentiable] double array(double x) { double a[3] = { x, x * x, 2.0lf }; return element(1, a, x) * element(0, a, x); }
[Differentiable] double swizzled(double x) { double2 a = double2(x, x * x); return element(0, a, x) * a.y; }
[Differentiable] double detached(double x) { return detach(x) * x + detach(sin(x)); }
[Differentiable] float lighted(float x) { return dot(lit(x, x * x, 3.0f), float4(1, 2, 3, 4)); }
"""

# fmt: off
WANTED = {
    "called":    lambda x: 6 * x**2,
    "number":    lambda x: 2 * x,
    "vector":    lambda x: 4 * x**3,
    "scale":     lambda x: 3 * x**2,
    "pair":      lambda x: 2 * x * np.sin(x) + x**2 * np.cos(x),
    "half_pair": lambda x: 2 * x,
    "tuple":     lambda x: 3 * x**2 + 9 * x**2,
    "triple":    lambda x: 4 * x**3,
    "couple":    lambda x: 3 * x**2,
    "joined":    lambda x: 3 * x**2 + np.cos(x),
    "ignored":   lambda x: 3 * x**2,
    "array":     lambda x: 3 * x**2,
    "swizzled":  lambda x: 3 * x**2,
    "detached":  lambda x: x,
    "lighted":   lambda x: 2 + 18 * x**5,
}
# fmt: on


def test_each_method_has_a_test() -> None:
    assert methods() == METHODS


@cache
def device() -> spy.Device:
    return spy.create_device()


def gradients(kind: str, statement: str) -> tuple[np.ndarray, np.ndarray]:
    """Of `f(t, x)` by the elements of t and by x, when the elements of t have the gradients 1, 2, ... 6."""
    text = (
        f"[Differentiable] double f({kind}<double, 2> t, double x) {{ int at[2] = {{ 1, 2 }}; {statement} }}"
    )
    module = spy.Module.load_from_source(device(), "tensors", text)
    numbers = np.arange(1.0, 7.0).reshape(2, 3)
    t = spy.Tensor.from_numpy(device(), 10 * numbers)
    grad_in, grad_out = (spy.Tensor.from_numpy(device(), each) for each in (numbers, np.zeros((2, 3))))
    x = spy.Tensor.from_numpy(device(), np.array([3.0])).with_grads()
    result = spy.Tensor.from_numpy(device(), np.zeros(1)).with_grads()
    result.grad.copy_from_numpy(np.ones(1))
    module.f.bwds(t.with_grads(grad_in, grad_out, zero=False), x, _result=result)
    return grad_out.to_numpy(), x.grad.to_numpy()


@pytest.mark.parametrize("read", READS)
def test_reading_a_tensor(read: str) -> None:
    wanted = np.zeros((2, 3))
    wanted[1, 2] = 5.0 * 3.0
    of_tensor, of_x = gradients("DiffTensor", f"return {read} * x * 5.0lf;")
    np.testing.assert_array_equal(of_tensor, wanted)
    np.testing.assert_array_equal(of_x, [300.0])


@pytest.mark.parametrize("write", WRITES)
def test_writing_a_tensor(write: str) -> None:
    """The cotangent of what is stored is the gradient of the element, here 6."""
    of_tensor, of_x = gradients("WDiffTensor", f"double y = x * x; {write}; return x;")
    np.testing.assert_array_equal(of_tensor, np.zeros((2, 3)))
    np.testing.assert_array_equal(of_x, [6.0 * 6.0 + 1.0])


def test_sampling_a_tensor() -> None:
    """Between columns 1 and 2 of both rows; the place moves along with x."""
    of_tensor, of_x = gradients("DiffTensor", "return t.sample(float2((float(x) + 1) / 6, 0.5f)) * 8.0lf;")
    np.testing.assert_array_equal(of_tensor, [[0, 2, 2], [0, 2, 2]])
    np.testing.assert_allclose(of_x, [8.0 * 10.0 * 0.5], rtol=1e-6)


@cache
def numbers() -> spy.Module:
    both = "".join(
        f"""
        double {name}_forward(double x) {{ return fwd_diff({name})(diffPair({kind}(x), {kind}(1))).d; }}
        double {name}_reverse(double x) {{ var p = diffPair({kind}(x)); bwd_diff({name})(p, {kind}(1)); return p.d; }}
        """
        for name, kind in ((name, "float" if name == "lighted" else "double") for name in WANTED)
    )
    return spy.Module.load_from_source(device(), "numbers", METHODS_OF_NUMBERS + both)


@pytest.mark.parametrize("name", WANTED)
def test_methods_of_numbers(name: str) -> None:
    x = np.array([0.3, 0.7, 1.5])
    wanted = WANTED[name](x)
    tolerance = 1e-6 if name in ("number", "vector", "scale", "lighted") else 1e-14
    for mode in ("forward", "reverse"):
        found = getattr(numbers(), f"{name}_{mode}")(x, _result="numpy")
        np.testing.assert_allclose(found, wanted, rtol=tolerance)
