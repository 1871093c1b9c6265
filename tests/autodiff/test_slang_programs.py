"""Slang programs in double: forward, reverse and numeric derivatives, to second order.

Each is a shape that is easily differentiated wrongly; none has a loop attribute.
"""

from __future__ import annotations

import math
from functools import cache

import pytest

from slangrad.ir.ops.core import Program
from tests.autodiff.calculus import check, derivative
from tests.std.programs import lowered

LOOPS = """
[Differentiable]
double skipAndBreak(double x, no_diff int n)
{
    double s = x;
    for (int i = 0; i < n; i++)
    {
        if (s > 2.0) { s = s * 0.5; continue; }
        s = s * s + 0.3 * x;
        if (s > 5.0) break;
        for (int j = 0; j < i; j++)
            s += sin(s + j);
    }
    return s * x;
}

[Differentiable]
double breakInWhile(double x)
{
    double s = x, product = 1.0;
    while (true)
    {
        s = s * 0.9 + 0.2 * x * x;
        product *= 0.6 * s;
        if (product < 0.1) break;
        s = sin(s) + s * 0.1;
    }
    return s * product;
}

[Differentiable]
double differentTrips(double x)
{
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 2; j++)
            x = tanh(x);
    return x;
}

[Differentiable]
double triangle(double x, no_diff uint n)
{
    double total = 0.0;
    for (uint i = 0; i < n; i += 2)
    {
        double power = 1.0;
        for (int j = int(i); j >= 0; j--)
        {
            power *= x;
            if (j == 2) total += cos(power);
        }
        total += power;
    }
    return total;
}

[Differentiable]
double conditionsOfWhile(double x, no_diff int n)
{
    int i = 0;
    double s = x;
    while (i < n && s < 3.0 || i < 1)
    {
        s = s * s + 0.4;
        i++;
    }
    do { s *= 0.8; } while (s > 1.0 || i-- > 5);
    return s;
}

[Differentiable]
double returnInWhile(double x, no_diff int n)
{
    double s = x;
    if (n < 2)
        s *= 2.0;
    else
        while (s < 10.0)
        {
            s = s * s + 1.0;
            return s * x;
        }
    return s;
}
"""

SWITCH = """
[Differentiable]
double fallThrough(double x, no_diff int n)
{
    double y = x;
    switch (n)
    {
        case 0: y = y * y;
        case 1: y = sin(y); break;
        case 2:
        default: y = y * 3.0;
        case 3: y += x * x * x;
    }
    switch (n) { case 1: case 2: }
    return y * x;
}
"""

AGGREGATES = """
[Differentiable]
double productOfElements(double a[4], no_diff int i, no_diff int j) { return a[i] * a[j]; }

[Differentiable]
double inPlace(double x, no_diff int n)
{
    double a[4] = { x, x * x, 1.0, 2.0 };
    for (int i = 0; i < n; i++)
        a[i % 4] = a[i % 4] * a[(i * 3 + 1) % 4] + 0.1 * sin(a[0]);
    return a[0] * a[1] + a[2] * a[3];
}

[Differentiable]
double vectorAfterLoop(double x, no_diff int n)
{
    double y = x;
    for (int i = 0; i < n; i++)
        y = y * y + 0.2;
    double2 z = y * double2(y, y);
    return z.x * z.y;
}

struct Pair : IDifferentiable { double a; double b; }

[Differentiable]
double twoOfOneType(Pair p, Pair q, no_diff int n)
{
    for (int i = 0; i < n; i++)
    {
        double product = p.a * q.b;
        p.b = sin(product);
        q.a = product;
        Pair t = p; p = q; q = t;
    }
    return p.a * q.b + p.b * q.a;
}

struct Body : IDifferentiable { double x; double3 v; int n; no_diff double mass; }

[Differentiable]
Body step(Body b, double h)
{
    b.x += h * dot(b.v, b.v) / b.mass;
    b.v = normalize(b.v) * h + cross(b.v, double3(h, b.x, 1.0));
    return b;
}

[Differentiable]
double orbit(Body b, no_diff int n)
{
    Body c = b;
    do { c = step(c, 0.1); n--; } while (n > 0);
    return c.x * c.v.y + c.v.z * b.mass;
}

[Differentiable]
double blend(double x)
{
    double3 a = double3(x, x * x, 1.0), b = double3(1.0, sin(x), x);
    return dot(lerp(a, b, double3(x, 0.5, x)), a);
}

[Differentiable]
void swapAndScale(inout double x, inout double y, out double z, no_diff double k)
{
    double t = x;
    x = y * k;
    y = t * x;
    z = t * t;
}
"""

MATHS = """
[Differentiable]
double remainder(double x, double y) { return fmod(x, y) * y; }

[Differentiable]
double saturated(double x) { return tanh(x); }

[Differentiable]
double cut(double x, double y) { return detach(x) * x + no_diff(sin(y)) * y + int(x) * y; }
"""

DERIVATIVES = """
[Differentiable]
double energy(double x, no_diff int n)
{
    double s = x;
    for (int i = 0; i < n; i++)
        s = s * sin(s) + 0.5;
    return s;
}

[Differentiable]
double slope(double x, no_diff int n)
{
    var pair = diffPair(x, 0.0);
    bwd_diff(energy)(pair, n, 1.0);
    return pair.d;
}

[Differentiable]
double descend(double x, no_diff int n)
{
    for (int i = 0; i < n; i++)
        x -= 0.1 * slope(x, n);
    return fwd_diff(energy)(diffPair(x, 1.0), n).d * x;
}

[BackwardDerivative(cubeBackward)] [ForwardDerivative(cubeForward)]
double cube(double x) { return x * x * x; }

[Differentiable]
DifferentialPair<double> cubeForward(DifferentialPair<double> x)
{
    return diffPair(cube(x.p), 3.0 * x.p * x.p * x.d);
}

[Differentiable]
void cubeBackward(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3.0 * x.p * x.p * d); }

[Differentiable]
double cubes(double x, no_diff int n)
{
    double s = x;
    for (int i = 0; i < n; i++)
        s = sin(cube(s) + x);
    return cube(s) * x;
}
"""


@cache
def program(text: str) -> Program:
    return lowered(text)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("name", ["skipAndBreak", "triangle", "conditionsOfWhile", "returnInWhile"])
def test_loops(name, n):
    check(program(LOOPS), name, (0.7, n), order=2, tolerance=1e-3)


@pytest.mark.parametrize("x", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", ["breakInWhile", "differentTrips"])
def test_loops_that_end_by_themselves(name, x):
    check(program(LOOPS), name, (x,), order=3, tolerance=1e-3)


@pytest.mark.parametrize("n", range(5))
def test_switch(n):
    check(program(SWITCH), "fallThrough", (0.7, n), order=2)


@pytest.mark.parametrize("n", [0, 1, 3, 9])
@pytest.mark.parametrize("name", ["inPlace", "vectorAfterLoop"])
def test_arrays_and_vectors_in_loops(name, n):
    check(program(AGGREGATES), name, (0.7, n), order=2, tolerance=1e-3)


def test_an_element_times_itself():
    a = (0.5, -0.3, 0.8, 1.1)
    check(program(AGGREGATES), "productOfElements", (a, 1, 1), order=2)
    made = derivative(program(AGGREGATES), "productOfElements", "vjp", (a, 1, 1, 1.0))
    assert made == ((0.0, -0.6, 0.0, 0.0),)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_structs(n):
    check(program(AGGREGATES), "twoOfOneType", ((0.4, 0.9), (-0.7, 1.2), n), order=2)
    check(program(AGGREGATES), "orbit", ((0.5, (0.3, 0.4, -0.6), 3, 2.0), n), order=2)


def test_lerp_of_vectors():
    check(program(AGGREGATES), "blend", (0.3,), order=3)


def test_parameters_that_are_written():
    check(program(AGGREGATES), "swapAndScale", (0.7, -0.4, 2.0), order=2)


def test_remainder_depends_on_its_divisor():
    for point in [(5.3, 2.0), (-5.3, 2.0), (5.3, -1.7)]:
        check(program(MATHS), "remainder", point, order=2)


def test_the_second_derivative_of_tanh_is_finite_everywhere():
    check(program(MATHS), "saturated", (0.4,), order=3)
    check(program(MATHS), "saturated", (1000.0,), order=3)


def test_what_is_cut_has_no_derivative():
    x, y = 2.5, 0.3
    dx, dy = derivative(program(MATHS), "cut", "vjp", (x, y, 1.0))
    assert (dx, dy) == pytest.approx((2.5, math.sin(0.3) + 2.0))
    assert derivative(program(MATHS), "cut", "jvp", (x, y, 1.0, 10.0))[1] == pytest.approx(dx + 10 * dy)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("name", ["slope", "descend", "cubes"])
def test_derivatives_of_derivatives(name, n):
    check(program(DERIVATIVES), name, (0.8, n), order=2)
