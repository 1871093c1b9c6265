"""The text of generated kernels."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import SlangCompileError, Tensor

F = np.float32


def body(module, function, *args, **kwargs):
    """The statements of the kernel of a call."""
    function(*args, **kwargs)
    entries = function._caller._plans.values()
    (compiled,) = list(entries)[-1].plan._kernels.values()
    text = compiled.stages.text("kernel")
    inside = text[text.index("{") + 1 : text.rindex("}")]
    return [line.strip() for line in inside.splitlines() if line.strip()], text


def test_a_forward_call(load):
    module = load("float poly(float a, float x) { return a * x; }")
    lines, text = body(module, module.poly, 2, np.zeros(3, F))
    assert lines == ["CallId<1> id = shape.locate(thread);", "_result.store(id, poly(a, x.load(id)));"]
    assert "uniform float a," in text
    assert "uniform ContiguousElements<float, 1> x," in text


def test_a_backward_call(device, load):
    module = load("[Differentiable] float poly(float a, float x) { return a * x; }")
    x = Tensor.zeros(device, (3,), "float").with_grads()
    lines, _ = body(module, module.poly.bwds, 2, x)
    assert lines == [
        "CallId<1> id = shape.locate(thread);",
        "var a_pair = diffPair(a);",
        "var x_pair = diffPair(x.load(id));",
        "bwd_diff(poly)(a_pair, x_pair, float(1));",
        "x_grad.addAlone(id, x_pair.d);",
    ]


def test_shared_gradients_are_added_atomically(device, load):
    module = load("[Differentiable] float poly(float a, float x) { return a * x; }")
    a = Tensor.zeros(device, (1,), "float").with_grads()
    lines, text = body(module, module.poly.bwds, a, np.zeros(3, F))
    assert "a_grad.add(id, a_pair.d);" in lines
    assert "uniform RepeatedElements<float, 1> a_grad," in text


def test_names_collide_with_nothing(load):
    module = load("""
        uniform float x_grad;
        float f(float f, float shape, float id, float thread, float x, float x_value) { return f + shape + id + thread + x + x_value; }
    """)
    assert module.f(1, 2, 4, 8, 16, 32) == 63
    assert module.f(np.array([1, 2], F), 2, 4, 8, 16, 32).to_numpy().tolist() == [63, 64]


def test_elements_move_along_the_lanes_in_three_ways(load):
    module = load("float add(float a, float b, float c) { return a + b + c; }")
    strided = np.zeros((40, 2), F)[:, 0]
    _, text = body(module, module.add, np.zeros(40, F), strided, np.zeros((1,), F))
    assert "uniform ContiguousElements<float, 1> a," in text
    assert "uniform StridedElements<float, 1> b," in text
    assert "uniform RepeatedElements<float, 1> c," in text


def test_other_sizes_use_the_same_kernel(load):
    module = load("float add(float a, float b) { return a + b; }")
    for size in (1, 3, 100):
        module.add(np.zeros(size, F), 1)
    module.add(np.zeros((4, 5), F), np.zeros((4, 5), F))
    module.add(np.zeros((40, 50), F), np.zeros((40, 50), F))
    plans = [entry.plan for entry in module.add._caller._plans.values()]
    assert [len(plan._kernels) for plan in plans] == [1, 1]


def test_dump(load, capsys, monkeypatch):
    device = spy.Device(backend="interpreter", options=spy.Options(dump=("kernel",)))
    module = spy.Module.load_from_source(device, "dump", "float twice(float x) { return 2 * x; }")
    assert module.twice(3) == 6
    assert "_result.store(id, twice(x));" in capsys.readouterr().out


def test_errors_in_the_page_name_the_argument(load):
    module = load("""
        struct P { private float x; float y; }
        float value(P p) { return p.y; }
    """)
    with pytest.raises(SlangCompileError, match="argument 'p'") as caught:
        module.value({"x": np.zeros(3, F), "y": 2.0})
    assert caught.value.code == "E1016"
    assert "in the generated kernel:" in str(caught.value)
