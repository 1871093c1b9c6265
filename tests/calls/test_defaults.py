"""Default arguments of Slang: calls and derivatives may leave the last parameters out."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import ResolveException

TEXT = """
static const int N = 4;
[Differentiable] float f(float x, float y = 2.0, int n = 3) { return x * y * n; }
float other(float x) { return 1; }
float other(float x, float y = 3) { return 2; }
struct S : IDifferentiable
{
    float a;
    __init(float q = 7) { a = q; }
    [Differentiable] float of(float x, float k = N) { return a * x * k; }
    static float3 start(float3 v = float3(1, 2, 3)) { return v; }
}
[Differentiable] void scale(no_diff float by, inout float x, float k = 5) { x *= by * k; }
T product<T : IFloat>(T x, T y = T(2)) { return x * y; }
[Differentiable] double cubed(double x, double k = 3.0) { return k * x * x * x; }
"""


@pytest.fixture
def module(device):
    return spy.Module.load_from_source(device, "defaults", TEXT)


def test_values(device, module):
    x = np.full(3, 3, np.float32)
    assert module.f(x).to_numpy().tolist() == [18, 18, 18]
    assert (module.f(3.0), module.f(3.0, 1), module.f(x=1.0, y=4.0), module.f(1.0, 1.0, 1)) == (18, 9, 12, 1)
    assert module.S.of({"a": 2.0}, 3.0) == 24
    assert module.S.start().y == 2
    assert module.S() == {"a": 7}
    assert module.product(3.0) == 6


def test_an_overload_without_defaults_is_preferred(module):
    assert (module.other(1.0), module.other(1.0, 2.0)) == (1, 2)


def test_derivatives(device, module):
    x = spy.Tensor.from_numpy(device, np.full(3, 3, np.float32)).with_grads()
    module.f.bwds(x)
    assert x.grad.to_numpy().tolist() == [6, 6, 6]
    module.S.of.bwds({"a": x}, 2.0)
    assert x.grad.to_numpy().tolist() == [14, 14, 14]
    assert module.f.fwds(spy.diffPair(1.0, 1.0)).grad == 6
    pair = spy.diffPair(3.0, 1.0)
    module.scale.bwds(2.0, pair)
    assert pair.grad == 10


def test_derivatives_of_derivatives(module):
    spy.check_gradients(module.cubed, 2.0)
    assert spy.grad(module.cubed)(2.0) == 36
    assert spy.grad(spy.grad(module.cubed))(2.0) == 36
    assert spy.hvp(module.cubed, (2.0,), (1.0,)) == (36,)


def test_only_the_last_can_be_left_out(module):
    with pytest.raises(ResolveException, match="Parameter 'y' not specified: only the last ones"):
        module.f(1.0, n=2)
    with pytest.raises(ResolveException, match="Parameter 'x' not specified"):
        module.f(y=2.0)
