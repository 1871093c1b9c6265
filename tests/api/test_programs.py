"""Programs as users write them, from start to end."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

LAMP = """
    import "slangpy";

    [Differentiable] float brightness(float power, float distance) { return power / (distance * distance); }
"""


def test_a_program_from_its_file_to_its_gradient(device, tmp_path):
    """With the names that SlangPy has had for the same things."""
    (tmp_path / "lamp.slang").write_text(LAMP)
    device = spy.create_device(include_paths=[tmp_path], backend=device.backend)
    module = spy.Module.load_from_file(device, "lamp.slang")
    with pytest.warns(DeprecationWarning):
        distance = Tensor.numpy(device, np.float32([1, 2, 4])).with_grads(zero=True)
    made = module.brightness(power=64, distance=distance, _result="tensor")
    given = Tensor(device, element_type=module.float, shape=(3,))
    module.brightness(power=64, distance=distance, _result=given)
    chosen = module.brightness.return_type(Tensor)(power=64, distance=distance)
    assert made.to_numpy().tolist() == given.to_numpy().tolist() == chosen.to_numpy().tolist() == [64, 16, 4]
    chosen = chosen.with_grads()
    chosen.grad.storage.copy_from_numpy(np.float32([1, 10, 100]))
    module.brightness.bwds(power=64, distance=distance, _result=chosen)
    assert distance.grad.to_numpy().tolist() == [-128, -160, -200]


MODES = """
    [Differentiable] float area(float width, float height) { return width * height; }

    void grow(float more)
    {
        let grown = fwd_diff(area)(diffPair(5.0, more), diffPair(2.0, 0.0));
        printf("%f and %f more\\n", grown.p, grown.d);
    }

    void edges(float weight)
    {
        var width = diffPair(5.0, -1.0);
        var height = diffPair(2.0, 1000.0);
        bwd_diff(area)(width, height, weight);
        printf("%f and %f\\n", width.d, height.d);
    }
"""


def test_derivatives_in_the_language(load, capsys):
    module = load(MODES)
    module.grow(0.5)
    module.edges(3.0)
    assert capsys.readouterr().out == "10.000000 and 1.000000 more\n6.000000 and 15.000000\n"


SPRINGS = """
    RWStructuredBuffer<float> stiffness;
    RWStructuredBuffer<Atomic<float>> stiffnessGradients;

    float stiffnessOf(int spring) { return stiffness[spring]; }

    [BackwardDerivativeOf(stiffnessOf)]
    void addGradient(int spring, float gradient) { stiffnessGradients[spring] += gradient; }

    [Differentiable] float energy(int spring, no_diff float stretch) { return 0.5 * stiffnessOf(spring) * stretch * stretch; }
"""


def test_gradients_of_buffers(device, load):
    module = load(SPRINGS)
    stiffness, gradients = Tensor.from_numpy(device, np.float32([2, 4])), Tensor.zeros(device, (2,), "float")
    springs, stretches = np.array([0, 1, 1], np.int32), np.float32([2, 2, 4])
    found = module.energy.set(stiffness=stiffness)(springs, stretches)
    assert found.to_numpy().tolist() == [4, 8, 32]
    module.energy.set(stiffness=stiffness, stiffnessGradients=gradients).bwds(springs, stretches)
    assert gradients.to_numpy().tolist() == [2, 10]


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
