"""`bwds` and `fwds`."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, ResolveException, Tensor
from tests.calls.tensors import tensor

F = np.float32

POLYNOMIAL = """
    [Differentiable]
    float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
"""


def grads(device, values, cotangent=None):
    """A tensor with gradients, which are `cotangent`, or zero."""
    made = tensor(device, values).with_grads()
    if cotangent is not None:
        made.grad.copy_from_numpy(np.asarray(cotangent, F))
    return made


def test_gradients_accumulate(device, load):
    module = load(POLYNOMIAL)
    x = grads(device, [1, 2, 3, 4])
    result = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
    assert result.to_numpy().tolist() == [9, 23, 41, 63]
    result = result.with_grads()
    result.grad.copy_from_numpy(np.ones(4, F))
    module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
    assert x.grad.to_numpy().tolist() == [12, 16, 20, 24]
    assert module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result) is None
    assert x.grad.to_numpy().tolist() == [24, 32, 40, 48]


def test_without_a_result_the_cotangent_is_ones(device, load):
    module = load(POLYNOMIAL)
    x = grads(device, [1, 2])
    module.polynomial.bwds(2, 8, -1, x)
    assert x.grad.to_numpy().tolist() == [12, 16]


def test_the_last_positional_argument_may_be_the_result(device, load):
    module = load(POLYNOMIAL)
    x = grads(device, [1, 2])
    module.polynomial.bwds(2, 8, -1, x, grads(device, [0, 0], [1, 10]))
    assert x.grad.to_numpy().tolist() == [12, 160]


def test_pairs(load):
    module = load(POLYNOMIAL)
    a, x = spy.diffPair(2.0), spy.diffPair(3.0)
    assert module.polynomial(a, 8, -1, x) == 41
    module.polynomial.bwds(a, 8, -1, x, spy.diffPair(d=1.0))
    assert a.grad == 9
    assert x.grad == 20
    module.polynomial.bwds(a, 8, -1, x, spy.floatDiffPair())
    assert x.grad == 20


def test_a_pair_sums_over_the_calls(device, load):
    module = load(POLYNOMIAL)
    a, constant = spy.diffPair(2.0), spy.diffPair(8.0, needs_grad=False)
    module.polynomial.bwds(a, constant, -1, tensor(device, [1, 2, 3]))
    assert a.grad == 14
    assert constant.grad == 0


def test_broadcast_gradients_sum(device, load):
    module = load("[Differentiable] float mul(float a, float b) { return a * b; }")
    a = grads(device, np.ones((4, 3)))
    b = grads(device, [1, 2, 3])
    c = grads(device, [[1], [2], [3], [4]])
    module.mul.bwds(a, b)
    assert a.grad.to_numpy().tolist() == [[1, 2, 3]] * 4
    assert b.grad.to_numpy().tolist() == [4, 4, 4]
    module.mul.bwds(c, b)
    assert c.grad.to_numpy().tolist() == [[6]] * 4
    assert b.grad.to_numpy().tolist() == [14, 14, 14]


def test_out_and_inout_parameters(device, load):
    module = load("""
        [Differentiable] void square(float x, out float y) { y = x * x; }
        [Differentiable] void double_it(inout float x) { x = 3 * x; }
    """)
    x, y = grads(device, [1, 2, 3]), grads(device, [0, 0, 0], [1, 10, 100])
    module.square.bwds(x, y)
    assert x.grad.to_numpy().tolist() == [2, 40, 600]
    assert y.to_numpy().tolist() == [0, 0, 0]
    both = tensor(device, [1, 2]).with_grads(tensor(device, [1, 10]), tensor(device, [100, 100]))
    module.double_it.bwds(both)
    assert both.grad_out.to_numpy().tolist() == [103, 130]
    assert both.to_numpy().tolist() == [1, 2]


def test_inout_gradients_need_two_buffers(device, load):
    module = load("[Differentiable] void double_it(inout float x) { x = 3 * x; }")
    with pytest.raises(CallError, match="inout param") as caught:
        module.double_it.bwds(grads(device, [1, 2]))
    assert caught.value.code == "E1007"


def test_vectors(device, load):
    module = load("[Differentiable] float3 f(float3 a, float3 b) { return a * a + b; }")
    a, b = grads(device, np.arange(6).reshape(2, 3)), grads(device, np.ones((2, 3)))
    module.f.bwds(a, b, grads(device, np.zeros((2, 3)), np.full((2, 3), 2)))
    assert a.grad.to_numpy().tolist() == [[0, 4, 8], [12, 16, 20]]
    assert b.grad.to_numpy().tolist() == [[2, 2, 2], [2, 2, 2]]
    wide = Tensor.from_numpy(device, np.arange(6, dtype=F).reshape(2, 3), dtype="float3").with_grads()
    module.f.bwds(wide, spy.float3(1, 2, 3))
    assert wide.grad.to_numpy().tolist() == [[0, 2, 4], [6, 8, 10]]


def test_fields_of_dicts(device, load):
    module = load("""
        struct P : IDifferentiable { float2 at; float weight; int n; }
        [Differentiable] float value(P p) { return (p.at.x * p.at.y) * p.weight * p.n; }
    """)
    at, weight = grads(device, [[1, 2], [3, 4]]), grads(device, [10, 20])
    module.value.bwds({"at": at, "weight": weight, "n": 2})
    assert at.grad.to_numpy().tolist() == [[40, 20], [160, 120]]
    assert weight.grad.to_numpy().tolist() == [4, 24]


def test_components_and_lists(device, load):
    module = load("""
        [Differentiable] float volume(float3 v) { return v.x * v.y * v.z; }
        [Differentiable] float weighted(float x[2]) { return x[0] + 10 * x[1]; }
    """)
    x = grads(device, [1, 2])
    module.volume.bwds({"x": x, "y": 3.0, "z": 4.0})
    assert x.grad.to_numpy().tolist() == [12, 12]
    module.weighted.bwds([x, x])
    assert x.grad.to_numpy().tolist() == [23, 23]


def test_struct_tensors(device, load):
    module = load("""
        struct P : IDifferentiable { float x; float y; }
        [Differentiable] float product(P p) { return p.x * p.y; }
        P make(float x) { P p; p.x = x; p.y = 10; return p; }
    """)
    points = module.make(np.arange(1, 3, dtype=F)).with_grads()
    module.product.bwds(points)
    assert points.grad.to_numpy(structured=True)["x"].tolist() == [10, 10]
    assert points.grad.to_numpy(structured=True)["y"].tolist() == [1, 2]


def test_what_carries_no_derivative(device, load):
    module = load("""
        [Differentiable] float scaled(float x, no_diff float s, int n) { return x * s * n; }
        [Differentiable] void count(float x, out int n, out float y) { n = 3; y = 2 * x; }
    """)
    x, s = grads(device, [1, 2]), grads(device, [3, 4])
    module.scaled.bwds(x, s, np.array([1, 2], np.int32))
    assert x.grad.to_numpy().tolist() == [3, 8]
    assert s.grad.to_numpy().tolist() == [0, 0]
    n = spy.intRef(7)
    module.count.bwds(x, n, grads(device, [0, 0], [1, 1]))
    assert x.grad.to_numpy().tolist() == [5, 10]
    assert n.value == 7


def test_tensors_without_gradients_are_constant(device, load):
    module = load("[Differentiable] float mul(float a, float b) { return a * b; }")
    a = grads(device, [1, 2])
    module.mul.bwds(a, tensor(device, [3, 4]))
    module.mul.bwds(a, np.array([3, 4], F))
    assert a.grad.to_numpy().tolist() == [6, 8]


def test_missing_gradients_are_named(device, load):
    module = load("[Differentiable] float square(float x) { return x * x; }")
    x = grads(device, [1, 2])
    for result in (tensor(device, [0, 0]), np.zeros(2, F)):
        with pytest.raises(CallError, match=r"argument '_result'.* has no input gradient") as caught:
            module.square.bwds(x, _result=result)
        assert caught.value.code == "E1007"
    only_in = tensor(device, [1, 2])
    only_in.grad_in = tensor(device, [1, 1])
    with pytest.raises(CallError, match=r"argument 'x'.* has no output gradient"):
        module.square.bwds(only_in)
    with pytest.raises(CallError, match="float holds no gradient"):
        module.square.bwds(x, _result=1.0)


def test_numbers_only(load):
    module = load(POLYNOMIAL)
    message = r"'polynomial': bwds would do nothing: no argument can receive a gradient: 'a' is an int: pass"
    with pytest.warns(UserWarning, match=message) as caught:
        assert module.polynomial.bwds(1, 2, 3, 4, 5.0) is None
    assert caught[0].filename == __file__


def test_functions_without_derivative(device, load):
    module = load("float square(float x) { return x * x; }")
    message = "Could not call function 'square': Function is not differentiable"
    with pytest.raises(ResolveException, match=message) as caught:
        module.square.bwds(grads(device, [1, 2]))
    assert caught.value.code == "E1006"


def test_ones_of_a_struct_are_refused(device, load):
    module = load("""
        struct P : IDifferentiable { float x; }
        [Differentiable] P make(float x) { P p; p.x = x; return p; }
    """)
    with pytest.raises(CallError, match="bwds needs a cotangent of type 'P'"):
        module.make.bwds(grads(device, [1, 2]))


def test_gradients_in_one_buffer(device, load):
    module = load("[Differentiable] float mul(float a, float b) { return a * b; }")
    x = grads(device, [1, 2, 3])
    module.mul.bwds(x, x)
    assert x.grad.to_numpy().tolist() == [2, 4, 6]
    x.grad.clear()
    module.mul.bwds(x[:2], x[1:])
    assert x.grad.to_numpy().tolist() == [2, 4, 2]


def test_a_cotangent_in_the_buffer_of_gradients_is_refused(device, load):
    module = load("[Differentiable] float square(float x) { return x * x; }")
    x = grads(device, [1, 2])
    with pytest.raises(CallError, match="separate buffers"):
        module.square.bwds(x, _result=x)


def test_gradients_through_gaps(device, load):
    module = load("[Differentiable] float3 f(float3 a) { return a * a; }")
    x = grads(device, np.arange(6).reshape(3, 2))
    turned = x.transpose()
    module.f.bwds(turned)
    assert x.grad.to_numpy().tolist() == [[0, 2], [4, 6], [8, 10]]


def test_methods(device, load):
    module = load("""
        struct Line : IDifferentiable
        {
            float slope; float start;
            [Differentiable] float at(float x) { return slope * x + start; }
        }
    """)
    slope, x = grads(device, [2]), grads(device, [1, 2, 3])
    line = {"slope": slope, "start": 1.0}
    assert module.Line.at(line, x).to_numpy().tolist() == [3, 5, 7]
    module.Line.at.bwds(line, x)
    assert slope.grad.to_numpy().tolist() == [6]
    assert x.grad.to_numpy().tolist() == [2, 2, 2]


def test_loops_and_branches(device, load):
    module = load("""
        [Differentiable]
        float f(float x, int n)
        {
            float y = 1;
            for (int i = 0; i < n; i++)
            {
                if (y > 100) break;
                y *= x;
            }
            return y;
        }
    """)
    x = grads(device, [2, 3, 10])
    n = np.array([3, 2, 9], np.int32)
    assert module.f(x, n).to_numpy().tolist() == [8, 9, 1000]
    module.f.bwds(x, n)
    assert x.grad.to_numpy().tolist() == [12, 6, 300]


def test_forward_mode(device, load):
    module = load(
        POLYNOMIAL
        + """
        [Differentiable] void square(float x, out float y) { y = x * x; }
    """
    )
    pair = module.polynomial.fwds(2, 8, -1, spy.diffPair(3.0, 1.0))
    assert (pair.primal, pair.grad) == (41, 20)
    x = grads(device, [1, 2], [1, 10])
    y = module.polynomial.fwds(2, 8, -1, x)
    assert y.to_numpy().tolist() == [9, 23]
    assert y.grad.to_numpy().tolist() == [12, 160]
    y = module.polynomial.fwds(spy.diffPair(2.0, 1.0), 8, -1, tensor(device, [1, 2]))
    assert y.grad.to_numpy().tolist() == [1, 4]
    out = spy.diffPair()
    module.square.fwds(spy.diffPair(3.0, 2.0), out)
    assert (out.primal, out.grad) == (9, 12)
    with pytest.raises(CallError, match="no place for the derivative"):
        module.polynomial.fwds(2, 8, -1, x, _result="numpy")


DECLARED = """
DifferentialPair<float> f_fwd(DifferentialPair<float> x) { return diffPair(2 * x.p, 3 * x.d); }
[ForwardDerivative(f_fwd)] float f(float x);
float itself(float x) { return f(x); }
float forward(float x) { return fwd_diff(f)(diffPair(x, 1.0)).d; }
float backward(float x) { var p = diffPair(x); bwd_diff(f)(p, 1.0); return p.d; }
"""


@pytest.mark.parametrize(("name", "code"), [("itself", "E0708"), ("backward", "E0551")])
def test_what_is_declared_only_has_the_derivatives_that_were_given(name, code):
    module = spy.Module.load_from_source(spy.create_device(), "declared", DECLARED)
    assert module.forward(2.0) == 3.0
    with pytest.raises(ValueError, match=code):
        getattr(module, name)(2.0)
