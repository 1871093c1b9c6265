"""Functions that stay functions give what they give inlined: values, gradients, second derivatives, what they write and
report; compiled at several widths, and interpreted. So do all tests of derivatives, a sample of them each time.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import INLINE, KEEP

ROOT = Path(__file__).parents[2]
WIDTHS = (1, 4, 16)
COUNT = 37  # threads: full waves, and one that is not

PROGRAMS = {
    "a chain, each function called twice": """
        [Differentiable] double f0(double x) { return sin(x) * x; }
        [Differentiable] double f1(double x) { return f0(x * 0.9lf) + 0.5lf * f0(x + 0.1lf); }
        [Differentiable] double f2(double x) { return f1(x * 0.8lf) * f1(x - 0.2lf); }
        [Differentiable] double f(double x, int n) { return f2(x) + f2(x * x); }
    """,
    "inout, out and a mutating method": """
        struct Body : IDifferentiable
        {
            double m; double2 v;
            [Differentiable] [mutating] double push(double by) { m = m * by + v.x; v.y += m; return v.y * by; }
        }
        [Differentiable] void swap(inout double a, inout double b, out double c)
        {
            c = a * b; double t = a; a = b * 0.5lf; b = t * t;
        }
        [Differentiable] double f(double x, int n)
        {
            Body body; body.m = x; body.v = double2(0.5lf, x);
            double y = 0.3lf, z, w;
            swap(x, y, z); swap(y, z, w);
            return body.push(y) * body.push(z) + w + x;
        }
    """,
    "arrays in and out, under conditions that differ": """
        [Differentiable] double sum(double a[9], int n)
        {
            double s = 0;
            [MaxIters(9)] for (int i = 0; i < 9; i++) s += a[(i + n) % 9] * i;
            return s;
        }
        [Differentiable] double[9] moved(double a[9], int n, double by)
        {
            [MaxIters(5)] for (int i = 0; i < n % 5; i++) a[(i * 2 + n) % 9] = a[i] * by + 1.0lf;
            return a;
        }
        [Differentiable] double f(double x, int n)
        {
            double a[9];
            for (int i = 0; i < 9; i++) a[i] = x * i;
            double b[9] = a;
            if (n % 3 == 0) b = moved(a, n, x);
            else if (n % 3 == 1) b = moved(b, n + 1, x * 0.5lf);
            return sum(a, 1) + sum(b, n) * sum(moved(b, n, 0.1lf), 2);
        }
    """,
    "loops of which each thread has its own number": """
        [Differentiable] double power(double x, int n)
        {
            double p = 1;
            [MaxIters(6)] for (int i = 0; i < n; i++) { if (p > 3.0lf) break; p *= x; }
            return p;
        }
        [Differentiable] double f(double x, int n)
        {
            double s = 0;
            [MaxIters(4)] for (int i = 0; i < n % 4; i++) s += power(x + i, n % 6) * power(s, 2);
            return s + power(x, 3);
        }
    """,
    "interfaces, generics and recursion": """
        interface IShape : IDifferentiable { [Differentiable] double area(double s); }
        struct Disc : IShape { double r; [Differentiable] double area(double s) { return r * r * s; } }
        struct Box : IShape { double w, h; [Differentiable] double area(double s) { return w * h + s; } }
        [Differentiable] double both<S : IShape>(S shape, double s) { return shape.area(s) * shape.area(s * s); }
        [Differentiable] double down(double x, int n) { return n <= 0 ? x : sin(x) * down(x * 0.5lf, n - 1); }
        [Differentiable] double f(double x, int n)
        {
            Disc d; d.r = x; Box b; b.w = x; b.h = 2.0lf;
            return both(d, x) + both(b, x * 0.3lf) + both(d, 0.2lf) + down(x, n % 4) * down(x, 2);
        }
    """,
    "statics, derivatives inside and given derivatives": """
        static double scale = 0.5lf;
        double scaled(double x) { return x * scale; }
        [BackwardDerivative(cube_back)] [ForwardDerivative(cube_forward)]
        double cube(double x) { return x * x * x; }
        DifferentialPair<double> cube_forward(DifferentialPair<double> x)
        {
            return diffPair(cube(x.p), 3 * x.p * x.p * x.d);
        }
        void cube_back(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3 * x.p * x.p * d); }
        [Differentiable] double slope(double x) { return fwd_diff(curve)(diffPair(x, 1.0lf)).d; }
        [Differentiable] double curve(double x) { return sin(x) * x + hill(x) * hill(x * 0.5lf); }
        [Differentiable] double hill(double x) { return 1.0lf / (1.0lf + x * x); }
        [Differentiable] double f(double x, int n)
        {
            scale = 0.25lf;
            return curve(slope(x)) + slope(x * 0.5lf) * cube(x) + cube(x * 0.5lf) + no_diff scaled(x);
        }
    """,
}

CALLS = """
[Differentiable] double along(double x, int n, no_diff double v) { return fwd_diff(f)(diffPair(x, v), n).d; }
[Differentiable] double gradient(double x, int n)
{
    var p = diffPair(x, 0.0lf);
    bwd_diff(f)(p, n, 1.0lf);
    return p.d;
}
double4 run(double x, int n)
{
    return double4(f(x, n), gradient(x, n), along(x, n, 1.0lf), fwd_diff(gradient)(diffPair(x, 1.0lf), n).d);
}
"""


def results(text: str, calls: str, backend: str = "cpu", lanes: int = 0) -> np.ndarray:
    """Value, gradient by both modes and second derivative, for each thread. Without fused operations only the order of
    sums differs."""
    options = spy.Options(calls=calls, lanes=lanes, contraction=False)
    device = spy.create_device(backend=backend, options=options)
    module = spy.Module.load_from_source(device, "kept", text + CALLS)
    x, n = np.linspace(-1.2, 1.4, COUNT), np.arange(COUNT, dtype=np.int32)
    return module.run(x, n, _result="numpy")


@pytest.mark.parametrize("name", PROGRAMS)
def test_kept_functions_give_the_same(name: str) -> None:
    text = PROGRAMS[name]
    wanted = results(text, INLINE)
    np.testing.assert_allclose(wanted[:, 1], wanted[:, 2], rtol=1e-9, atol=1e-9)
    for lanes in WIDTHS:
        np.testing.assert_allclose(results(text, KEEP, lanes=lanes), wanted, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(results(text, KEEP, "interpreter"), wanted, rtol=1e-11, atol=1e-11)


def test_what_a_kept_function_reads_may_be_written_afterwards() -> None:
    text = """
        [Differentiable] double scaled(RWStructuredBuffer<double> b, double x) { return b[0] * x * x; }
        [Differentiable] double f(RWStructuredBuffer<double> b, double x)
        {
            double y = scaled(b, x); b[0] = 5; return y + scaled(b, x) * y;
        }
        double run(RWStructuredBuffer<double> b, double x)
        {
            b[0] = 2;
            var p = diffPair(x, 0.0lf);
            bwd_diff(f)(b, p, 1.0lf);
            return p.d;
        }
    """
    for calls in (INLINE, KEEP):
        device = spy.create_device(backend="interpreter", options=spy.Options(calls=calls))
        module = spy.Module.load_from_source(device, "rewritten", text)
        memory = spy.NDBuffer.zeros(device, (1,), dtype="double")
        assert module.run(memory.storage, 3.0) == 4 * 3 + 4 * 10 * 3**3


def test_a_result_that_is_stored_keeps_no_function_from_being_kept() -> None:
    """A backward call does not store it once more, so what functions read is as it was."""
    text = """
        [Differentiable] double g(DiffTensor<double, 1> w, double x) { return sin(exp(w[0] * x)) * exp(x); }
        [Differentiable] void f(uint i, DiffTensor<double, 1> w, WDiffTensor<double, 1> o) { o[i] = g(w, g(w, 0.3lf)); }
    """
    device = spy.create_device(backend="interpreter", options=spy.Options(calls=KEEP))
    module = spy.Module.load_from_source(device, "stored", text)
    w, o = (spy.Tensor.from_numpy(device, np.ones(2)).with_grads(zero=True) for _ in range(2))
    reports = device.explain(module.f.bwds, spy.grid((2,)), w, o).reports
    assert any(each.function == "g.011.reverse" for each in reports)


def run_gradients(calls: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Tests of derivatives, where they do not say themselves which functions are kept."""
    folders = [
        "tests/gradients",
        "tests/language",
        "tests/autodiff",
        "--deselect",
        "tests/gradients/test_kept_calls.py",
    ]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *folders, *options]
    environment = {**os.environ, "SLANGRAD_CALLS": calls}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_gradients_with_all_functions_kept() -> None:
    done = run_gradients(KEEP, "--one-in", "32")
    assert done.returncode == 0, done.stdout


@pytest.mark.deep
@pytest.mark.parametrize("calls", (INLINE, KEEP))
def test_all_gradients(calls: str) -> None:
    done = run_gradients(calls, "-n", "2")
    assert done.returncode == 0, done.stdout
