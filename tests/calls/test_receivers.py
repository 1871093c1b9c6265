"""`bwds` without a place for gradients and `fwds` without a tangent are refused; calls with another effect are not."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor, diffPair, float3, floatRef
from slangrad.marshal.errors import CallError

TEXT = """
import "slangpy";
struct S : IDifferentiable { float a; float3 b; }
struct Sum { AtomicTensor<float, 1> into; }
[Differentiable] float number(float x) { return x * x; }
[Differentiable] float vec(float3 x) { return dot(x, x); }
[Differentiable] float arr(float x[2]) { return x[0] * x[1]; }
[Differentiable] float str(S x) { return x.a * x.b.x; }
[Differentiable] float whole(ITensor<float, 1> x) { return x[0] * x[0]; }
[Differentiable] float plain(Tensor<float, 1> x) { return x[0] * x[0]; }
[Differentiable] float told(no_diff float x) { return x; }
[Differentiable] float counted(int x) { return float(x); }
[Differentiable] void changed(inout float x) { x = x * x; }
[Differentiable] float stored(float x, RWTensor<float, 1> y) { y[0] = detach(x); return x; }
[Differentiable] float through(float x, float* y) { *y = detach(x); return x; }
[Differentiable] float at(float x, uint64_t y) { *(float*)y = detach(x); return x; }
[Differentiable] float in_buffer(float x, RWStructuredBuffer<float> y) { y[0] = detach(x); return x; }
[Differentiable] float read(float x, StructuredBuffer<float> y) { return x * detach(y[0]); }
[BackwardDerivative(summed_bwd)] float summed(float x, Sum y) { return x; }
void summed_bwd(inout DifferentialPair<float> x, no_diff Sum y, float d) { y.into.add(0, d); }
"""


@pytest.fixture
def module(device):
    return spy.Module.load_from_source(device, "receivers", TEXT)


def constants(device):
    """Arguments that hold no derivative, by function."""
    x = np.ones(3, np.float32)
    tensor = Tensor.from_numpy(device, x)
    pairs = np.ones((3, 2), np.float32)
    buffer = device.create_buffer(size=16)
    numbers = [1.0, 2, True, np.float32(1), x, x.astype(np.float64), tensor, [1.0, 2.0], spy.rand_float()]
    numbers += [diffPair(1.0, needs_grad=False), spy.grid((3,)), float3(1, 2, 3)]
    rows = [("number", (each,)) for each in numbers]
    rows += [
        ("vec", (each,))
        for each in (float3(1, 2, 3), x, tensor, [1.0, 2.0, 3.0], np.ones((2, 3), np.float32))
    ]
    rows += [("arr", (each,)) for each in ([1.0, 2.0], [x, 1.0], [tensor, tensor], pairs)]
    rows += [
        ("str", (each,))
        for each in ({"a": 1.0, "b": x}, {"a": tensor, "b": float3(1)}, [{"a": 1.0, "b": float3(1)}])
    ]
    rows += [(name, (each,)) for name in ("whole", "plain") for each in (x, tensor)]
    rows += [
        ("told", (tensor.with_grads(),)),
        ("told", (diffPair(1.0),)),
        ("counted", (3,)),
        ("counted", (diffPair(3),)),
    ]
    return [*rows, ("changed", (1.0,)), ("read", (1.0, buffer))]


def test_backward_without_a_place_for_gradients(device, module):
    message = "bwds would do nothing: no argument can receive a gradient"
    for name, arguments in constants(device):
        if all(isinstance(each, (bool, int, float, np.generic)) for each in arguments):
            with pytest.warns(UserWarning, match=message):
                module[name].bwds(*arguments)
            continue
        with pytest.raises(CallError, match=message) as caught:
            module[name].bwds(*arguments)
        assert caught.value.code == "E1007", name


def test_forward_without_a_tangent(device, module):
    for name, arguments in constants(device):
        takes = any(isinstance(each, spy.DiffPair) and not each.needs_grad for each in arguments)
        if name not in ("changed", "read", "told", "counted") and not takes:
            with pytest.raises(CallError, match="fwds would give zeros: no argument has a tangent"):
                module[name].fwds(*arguments)


def test_the_error_names_each_argument(device, module):
    with pytest.raises(CallError) as caught:
        module.str.bwds({"a": 1.0, "b": np.ones(3, np.float32)})
    text = str(caught.value)
    assert "'x.a' is a float: pass diffPair(x.a)" in text
    assert "pass Tensor.from_numpy(device, x.b).with_grads()" in text
    with pytest.raises(CallError, match=r"instead of Tensor, and pass a Tensor with x.with_grads"):
        module.plain.bwds(np.ones(3, np.float32))
    with pytest.raises(CallError, match=r"no_diff, or of types without derivatives"):
        module.told.bwds(np.ones(2, np.float32))


def test_one_receiver_is_enough(device, module):
    pair = diffPair(3.0)
    module.str.bwds({"a": pair, "b": np.full(3, 2, np.float32)})
    assert pair.grad == 2
    x = Tensor.from_numpy(device, np.full(3, 2, np.float32)).with_grads()
    module.arr.bwds([x, 5.0])
    assert x.grad.to_numpy().tolist() == [5, 5, 5]


def test_calls_that_write_elsewhere(device, module):
    """What they write is there, so they are no empty calls."""
    tensor = Tensor.zeros(device, (2,), "float")
    module.stored.bwds(4.0, tensor)
    assert tensor.to_numpy()[0] == 4
    module.through.bwds(5.0, tensor)
    assert tensor.to_numpy()[0] == 5
    module.at.bwds(6.0, int(tensor.storage.device_address))
    assert tensor.to_numpy()[0] == 6
    module.in_buffer.bwds(7.0, tensor)
    assert tensor.to_numpy()[0] == 7
    tensor.clear()
    module.summed.bwds(1.0, {"into": tensor})
    assert tensor.to_numpy()[0] == 1


def test_a_printing_function(device):
    text = '[Differentiable] float f(float x) { printf("%g\\n", x); return x; }'
    assert spy.Module.load_from_source(device, "prints", text).f.bwds(1.0) is None


def test_outputs_are_no_receivers(device, module):
    cotangent = Tensor.zeros(device, (3,), "float").with_grads()
    with pytest.raises(CallError, match="bwds would do nothing"):
        module.number.bwds(np.ones(3, np.float32), _result=cotangent)
    with pytest.raises(CallError, match=r"holds no gradient|has no gradient"):
        module.changed.bwds(floatRef(1.0))


def test_a_struct_without_derivatives_is_told(device):
    text = "struct S { float a; } [Differentiable] float f(S s, float x) { return detach(s.a) * x; }"
    f = spy.Module.load_from_source(device, "plain_struct", text).f
    with pytest.raises(CallError, match="'s' has no derivative: mark 'struct S : IDifferentiable'"):
        f.bwds({"a": 1.0}, 2.0)
    with pytest.raises(CallError, match="has no gradient\\nnote: mark 'struct S : IDifferentiable'"):
        spy.grad(f)({"a": 1.0}, 2.0)


def test_gradients_of_parameters_that_take_none(device, module):
    with pytest.raises(CallError, match="has no gradient\\nnote: declare 'x' ITensor instead of Tensor"):
        spy.grad(module.plain)(np.ones(3, np.float32))
    with pytest.raises(CallError, match="has no gradient\\nnote: declare 'x' without no_diff"):
        spy.grad(module.told)(1.0)
