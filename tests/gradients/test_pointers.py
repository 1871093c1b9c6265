"""Types of pointers that carry derivatives: forward mode = reverse mode = finite differences, oracle and machine."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy
from tests.backends import ALL

PLACE = """
struct Place : IDifferentiablePtrType
{
    typealias Differential = Place;
    double* data;
    int at;

    [Differentiable] Place moved(int by) { Place made = { data, at + by }; return made; }
    [ForwardDerivative(turned_fwd)] Place turned() { return { data, 2 - at }; }
    static DifferentialPtrPair<Place> turned_fwd(DifferentialPtrPair<Place> self) { return { self.p.turned(), self.d.turned() }; }
}

[BackwardDerivative(load_bwd)] [ForwardDerivative(load_fwd)]
double load(Place p) { return p.data[p.at]; }
void load_bwd(DifferentialPtrPair<Place> p, double d) { p.d.data[p.d.at] += d; }
DifferentialPair<double> load_fwd(DifferentialPtrPair<Place> p) { return diffPair(load(p.p), p.d.data[p.d.at]); }
"""

PROGRAM = (
    PLACE
    + """
[Differentiable]
double f(Place p, double x)
{
    Place q = p;
    double s = 0;
    for (int i = 0; i < 3; i++)
    {
        double v = load(q);
        s += v * v * x;
        if (v > 2.5lf) q = p.turned().moved(0); else q = q.moved(1);
    }
    Place both[2] = { p, p.moved(1) };
    return s * load(both[1]) + along(p, x);
}

struct Way : IDifferentiablePtrType { typealias Differential = End; int steps; Place end; double scale; }
struct End : IDifferentiablePtrType { typealias Differential = End; Place end; }

[Differentiable]
double along(Place p, double x)
{
    Way ways[2] = { { 1, p, 2 }, { 0, p.moved(1), 3 } };
    Way way = ways[0];
    double s = x;
    for (int i = 0; i < 3; i++)
    {
        s *= load(way.end) * way.scale;
        way.end = way.end.moved(way.steps);
        way.steps = 0;
        ways[i % 2].end = way.end;
        if (load(way.end) > 2.5lf)
            way = ways[1];
    }
    return s;
}

void reverse(double* data, double* grad, double x)
{
    var p = DifferentialPtrPair<Place>({ data, 0 }, { grad, 0 });
    var px = diffPair(x);
    bwd_diff(f)(p, px, 1.0lf);
    grad[3] = px.d;
}

double forward(double* data, double* grad, double x, double dx)
{
    return fwd_diff(f)(DifferentialPtrPair<Place>({ data, 0 }, { grad, 0 }), diffPair(x, dx)).d;
}

double value(double* data, double x) { return f({ data, 0 }, x); }
"""
)

DATA, X, STEP = np.array([1.5, 3.0, 2.0, 0.0]), 0.7, 1e-6


def buffer(device: spy.Device, numbers: np.ndarray) -> spy.Buffer:
    return device.create_buffer(
        data=np.array(numbers, np.float64), struct_size=8, usage=spy.BufferUsage.unordered_access
    )


@pytest.mark.parametrize("backend", ALL)
def test_modes_agree(backend: str) -> None:
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "places", PROGRAM)
    data, grad = buffer(device, DATA), buffer(device, np.zeros(4))
    module.reverse(data.device_address, grad.device_address, X)
    found = grad.to_numpy().view(np.float64)

    def value(numbers: np.ndarray, x: float) -> float:
        kept = buffer(device, numbers)
        return float(module.value(kept.device_address, x))

    for i in range(3):
        one = np.eye(4)[i]
        slope = (value(DATA + STEP * one, X) - value(DATA - STEP * one, X)) / (2 * STEP)
        tangent = buffer(device, one)
        forward = module.forward(data.device_address, tangent.device_address, X, 0.0)
        np.testing.assert_allclose([forward, slope], found[i], rtol=1e-8)
    slope = (value(DATA, X + STEP) - value(DATA, X - STEP)) / (2 * STEP)
    still = buffer(device, np.zeros(4))
    forward = module.forward(data.device_address, still.device_address, X, 1.0)
    np.testing.assert_allclose([forward, slope], found[3], rtol=1e-8)


def test_second_derivatives_by_what_is_no_pointer() -> None:
    text = (
        PLACE
        + """
    [Differentiable] double f(Place p, double x) { return load(p) * x * x * x; }
    [Differentiable] double slope(no_diff double* data, no_diff double* grad, double x)
    {
        var px = diffPair(x);
        bwd_diff(f)(DifferentialPtrPair<Place>({ data, 0 }, { grad, 0 }), px, 1.0lf);
        return px.d;
    }
    double second(double* data, double* grad, double x) { return fwd_diff(slope)(data, grad, diffPair(x, 1.0lf)).d; }
    """
    )
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "places", text)
    data, grad = buffer(device, DATA), buffer(device, np.array([100.0, 0, 0, 0]))
    assert module.second(data.device_address, grad.device_address, 2.0) == 6 * 1.5 * 2


def refusal(text: str) -> str:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "places", PLACE + text)
    memory = buffer(device, DATA)
    with pytest.raises(ValueError) as caught:
        module.run(memory.device_address)
    return str(caught.value)


def test_a_pointer_whose_derivatives_are_nowhere() -> None:
    text = """
    [Differentiable] double f(Place p, double* other) { Place q = { other, p.at }; return load(q); }
    double run(double* data) { return fwd_diff(f)(DifferentialPtrPair<Place>({ data, 0 }, { data, 0 }), data).d; }
    """
    assert "E0553" in refusal(text)


def test_derivatives_of_derivatives_through_pointers() -> None:
    text = """
    [Differentiable] double f(Place p) { return load(p) * load(p); }
    [Differentiable] double g(Place p) { return fwd_diff(f)(DifferentialPtrPair<Place>(p, p)).d; }
    double run(double* data) { return fwd_diff(g)(DifferentialPtrPair<Place>({ data, 0 }, { data, 0 })).d; }
    """
    assert "E9008" in refusal(text)


def test_handles_and_pairs_of_generic_pointers() -> None:
    text = """
    interface IAddress : IDifferentiablePtrType { [ForwardDifferentiable] This moved(int by); uint index(); }
    struct Address : IAddress
    {
        typealias Differential = Address;
        RWStructuredBuffer<float>.Handle buffer;
        uint at;
        [ForwardDerivative(moved_fwd)] This moved(int by) { return { buffer, at + uint(by) }; }
        static DifferentialPtrPair<This> moved_fwd(DifferentialPtrPair<This> self, int by)
        {
            return DifferentialPtrPair<This>(self.p.moved(by), self.d.moved(by));
        }
        uint index() { return at; }
    }
    [BackwardDerivative(read_bwd)] float read(Address a) { return a.buffer[a.at]; }
    void read_bwd(DifferentialPtrPair<Address> a, float d) { a.d.buffer[a.d.at] += d; }
    [Differentiable] A two<A : IAddress>(A a) { return a.moved(1).moved(1); }
    [Differentiable] float f(Address a, float x) { return x * read(two(a)) * read(a); }
    void run(DescriptorHandle<RWStructuredBuffer<float>> data)
    {
        var x = diffPair(10.0);
        bwd_diff(f)(DifferentialPtrPair<Address>({ data, 0 }, { data, 3 }), x, 1.0);
        data[6] = x.d;
    }
    """
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "handles", text)
    numbers = np.array([2, 0, 5, 0, 0, 0, 0], np.float32)
    data = device.create_buffer(data=numbers, struct_size=4, usage=spy.BufferUsage.unordered_access)
    module.run(data)
    np.testing.assert_array_equal(data.to_numpy().view(np.float32), [2, 0, 5, 50, 0, 20, 10])
