"""Programs as users write them, from start to end."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

POLYNOMIAL = """
    import "slangpy";
    [Differentiable]
    float polynomial(float a, float b, float c, float x) {
    return a * x * x + b * x + c;
    }
"""


def test_the_polynomial(device, tmp_path):
    (tmp_path / "example.slang").write_text(POLYNOMIAL)
    device = spy.create_device(include_paths=[tmp_path], backend=device.backend)
    module = spy.Module.load_from_file(device, "example.slang")
    with pytest.warns(DeprecationWarning):
        x = spy.Tensor.numpy(device, np.array([1, 2, 3, 4], dtype=np.float32)).with_grads(zero=True)
    result: spy.Tensor = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
    assert result.to_numpy().tolist() == [9, 23, 41, 63]
    result = spy.Tensor(device, element_type=module.float, shape=(4,))
    module.polynomial(a=2, b=8, c=-1, x=x, _result=result)
    assert result.to_numpy().tolist() == [9, 23, 41, 63]
    result: spy.Tensor = module.polynomial.return_type(Tensor)(a=2, b=8, c=-1, x=x)
    result = result.with_grads()
    result.grad.storage.copy_from_numpy(np.array([1, 1, 1, 1], dtype=np.float32))
    module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
    assert x.grad.to_numpy().tolist() == [12, 16, 20, 24]


SQUARE = """
    [Differentiable]
    float square(float x, float y)
    {
        return x * x + y * y;
    }

    void forward() {
        let x = diffPair(3.0, 1.0);
        let y = diffPair(4.0, 0.0);
        let result = fwd_diff(square)(x, y);
        printf("dResult: %f\\n", result.d);
    }

    void backward() {
        var x = diffPair(3.0, 0.0);
        var y = diffPair(4.0, 0.0);
        let dL_dSquare = 1.0f;
        bwd_diff(square)(x, y, dL_dSquare);
        printf("dL/dx: %f, dL/dy: %f\\n", x.d, y.d);
    }
"""


def test_derivatives_in_the_language(load, capsys):
    module = load(SQUARE)
    module.forward()
    module.backward()
    assert capsys.readouterr().out == "dResult: 6.000000\ndL/dx: 6.000000, dL/dy: 8.000000\n"


BUFFERS = """
    RWStructuredBuffer<float> paramBuffer;
    RWStructuredBuffer<Atomic<float>> gradBuffer;

    float getParam(int idx) {
    return paramBuffer[idx];
    }

    [BackwardDerivativeOf(getParam)]
    void getParamBwd(int idx, float dOut) {
    gradBuffer[idx] += dOut;
    }

    [Differentiable]
    float compute(int idx) {
    float w = getParam(idx);
    return w * w;
    }
"""


def test_gradients_of_buffers(device, load):
    module = load(BUFFERS)
    weights = Tensor.from_numpy(device, np.array([1, 2, 3], np.float32))
    gradients = Tensor.zeros(device, (3,), "float")
    indices = np.array([0, 1, 2, 2], np.int32)
    assert module.compute.set(paramBuffer=weights)(indices).to_numpy().tolist() == [1, 4, 9, 9]
    module.compute.set(paramBuffer=weights, gradBuffer=gradients).bwds(indices)
    assert gradients.to_numpy().tolist() == [2, 4, 12]


def test_training_a_line(device, load):
    module = load("""
        struct Line : IDifferentiable { float slope; float start; }
        [Differentiable] float predict(Line line, float x) { return line.slope * x + line.start; }
        [Differentiable] float loss(Line line, no_diff float x, no_diff float y)
        {
            float d = predict(line, x) - y;
            return d * d;
        }
    """)
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    y = 3 * x + 0.5
    parameters = {
        "slope": Tensor.zeros(device, (1,), "float").with_grads(),
        "start": Tensor.zeros(device, (1,), "float").with_grads(),
    }
    for _ in range(60):
        for each in parameters.values():
            each.grad.clear()
        module.loss.bwds(parameters, x, y)
        for each in parameters.values():
            each.copy_from_numpy(each.to_numpy() - np.float32(0.4 / 32) * each.grad.to_numpy())
    assert abs(float(parameters["slope"].to_numpy()[0]) - 3) < 1e-3
    assert abs(float(parameters["start"].to_numpy()[0]) - 0.5) < 1e-3


def test_looking_for_what_is_not_there() -> None:
    """`find_field` gives a cursor that says so; an index and all else is an error."""
    device = spy.create_device()
    module = device.load_module_from_source(
        "looked", "StructuredBuffer<float> given; [numthreads(1, 1, 1)] void main() {}"
    )
    reflection = device.link_program([module], [module.entry_point("main")]).reflection
    assert reflection.find_field("given").is_valid()
    nothing = reflection.find_field("missing")
    assert not nothing.is_valid()
    for use in (lambda: nothing.type, lambda: nothing.has_field("x"), lambda: reflection["missing"]):
        with pytest.raises(spy.CallError, match=r"E1012.*'missing'"):
            use()
