"""`check_gradients`: derivatives that are right pass, each kind of wrong one is told."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, GradientError, Tensor


@pytest.mark.parametrize("name", ["half", "float", "double"])
def test_right_derivatives_pass(device, load, name):
    module = load(f"""
        struct P : IDifferentiable {{ {name} a; vector<{name}, 2> v; int n; }}
        P make({name} x) {{ P p; p.a = x; p.v = vector<{name}, 2>(x * x, 2); p.n = 2; return p; }}
        [Differentiable] vector<{name}, 2> f(P p, {name} s, no_diff {name} c, ITensor<{name}, 1> t, int i)
        {{
            return p.v * (sin(p.a) * s * t[i] * c) + p.n * t[0];
        }}
    """)
    p = module.make(np.array([0.5, 1, 1.5, 0.25]).astype({"half": "f2", "float": "f4", "double": "f8"}[name]))
    t = Tensor.from_numpy(
        device, np.array([1, -1, 0.5, 2]).astype({"half": "f2", "float": "f4", "double": "f8"}[name])
    )
    spy.check_gradients(module.f, p, 1.5, 2.0, t, i=spy.grid((4,)), directions=1)


def test_dicts_lists_and_views(load):
    f = load("""
        struct P : IDifferentiable { double a; double2 v; int n; }
        [Differentiable] double f(P p, double s) { return p.v.x * p.v.y * sin(p.a) * s * p.n; }
    """).f
    p = {"a": np.linspace(0, 1, 6).reshape(3, 2)[::-2, 1], "v": [1.0, 2.0], "n": 3}
    spy.check_gradients(f, p, [1.5, 0.5], directions=1)


WRONG = """
    [BackwardDerivative(back)] [ForwardDerivative(ahead)]
    double square(double x) {{ return x * x; }}
    void back(inout DifferentialPair<double> x, double d) {{ x = diffPair(x.p, {0} * x.p * d); }}
    DifferentialPair<double> ahead(DifferentialPair<double> x) {{ return diffPair(x.p * x.p, {1} * x.p * x.d); }}
    [Differentiable] double f(double s, double x) {{ return s * square(x); }}
"""


@pytest.mark.parametrize(
    "back, ahead, message",
    [
        ("3", "3", "reverse mode and finite differences disagree"),
        ("3", "2", "forward and reverse mode disagree"),
        ("2", "3", "forward and reverse mode disagree"),
        ("2.001", "2.001", "reverse mode and finite differences disagree"),
        ("(x.p / 0.0)", "2", "it is not finite"),
    ],
)
def test_wrong_derivatives_are_told(load, back, ahead, message):
    f = load(WRONG.format(back, ahead)).f
    with pytest.raises(GradientError, match=f"the derivative by argument 1 .*{message}") as caught:
        spy.check_gradients(f, 2.0, np.array([1.0, 2.0, 3.0]))
    assert caught.value.code == "E1031"
    assert "reverse mode" in str(caught.value)


def test_a_single_wrong_element_is_found(load):
    f = load("""
        [BackwardDerivative(back)]
        float read(float x, int i) { return x * x; }
        void back(inout DifferentialPair<float> x, int i, float d) { x = diffPair(x.p, i == 7 ? 0 : 2 * x.p * d); }
        [Differentiable] float f(float x, int i) { return read(x, i); }
    """).f
    with pytest.raises(GradientError, match="argument 0"):
        spy.check_gradients(f, np.linspace(1, 2, 32, dtype=np.float32), spy.grid((32,)))


def test_tolerances(load):
    f = load(WRONG.format("2.001", "2.001")).f
    spy.check_gradients(f, 2.0, np.array([1.0, 2.0]), rtol=1e-2)
    spy.check_gradients(f, 2.0, np.array([1.0, 2.0]), atol=1.0)
    f = load(WRONG.format("2", "2")).f
    spy.check_gradients(f, 2.0, np.array([1.0, 2.0]), rtol=1e-7)


def test_nothing_to_check_is_an_error(load):
    module = load("""
        [Differentiable] float f(int n, no_diff float x) { return n * x; }
        [Differentiable] int g(float x) { return int(x); }
    """)
    for arguments in ((1, 2.0), (1, 2)):
        with pytest.raises(CallError, match=r"check_gradients: no (parameter|argument) has a derivative"):
            spy.check_gradients(module.f, *arguments)
    with pytest.raises(CallError, match="returns nothing that has a derivative"):
        spy.check_gradients(module.g, 1.0)
