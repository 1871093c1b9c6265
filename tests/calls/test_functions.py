"""Functions as objects: other ways to call them, what they are turned into, older names in Slang."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Module, Tensor

F = np.float32

TEXT = """
    import "slangpy";
    struct P { float x; int n; float sum(float y) { return x + n + y; } }
    float f(P p) { return p.x; }
    float twice(float x) { return 2 * x; }
    void noted(GradInTensor<float, 1> a, GradInOutTensor<float, 1> b) {}
    [Differentiable] float read(GradOutTensor<float, 1> a, int i) { return 2 * a.getv(i); }
    void copied(NDBuffer<float, 1> from, RWNDBuffer<float, 1> to, int i) { to.set({i}, from.get({i}) + 1); }
"""


@pytest.fixture
def module(device):
    return Module.load_from_source(device, "functions", TEXT)


def test_call_is_a_call(module):
    assert module.twice.call(2.0) == 4
    assert module.twice.call(x=np.array([1, 2], F), _result="numpy").tolist() == [2, 4]


def test_this_by_name_first_or_bound(module):
    this = {"x": 1.0, "n": np.array([1, 2], np.int32)}
    total = module.P.sum
    expected = [12, 13]
    for call in (
        lambda: total(this, 10.0),
        lambda: total(_this=this, y=10.0),
        lambda: total.bind(this)(10.0),
    ):
        assert call().to_numpy().tolist() == expected


def test_functions_and_types_tell_what_they_are(module):
    assert module.twice.as_func() is module.twice or module.twice.as_func()(1.0) == 2
    assert module.P.as_struct().name == "P"
    with pytest.raises(ValueError, match="Cannot convert type 'P' to a function"):
        module.P.as_func()
    with pytest.raises(ValueError, match="Cannot convert function 'twice' to a type"):
        module.twice.as_struct()


def test_texts(device, module):
    assert str(module) == repr(module) == "Module(name='functions', linked_modules=[])"
    assert (str(module.P), repr(module.twice)) == ("P", "Function(twice)")
    assert str(device) == f"Device(type={device.type.name}, backend='{device.backend}')"


def test_a_module_of_a_module_that_is_loaded(device):
    loaded = device.load_module_from_source("loaded_first", "int four() { return 4; }")
    assert (Module(loaded).four(), Module.load_from_module(device, loaded).four()) == (4, 4)


def test_a_map_names_the_type_of_a_dict(module):
    given = {"x": np.array([1, 2, 3], F), "n": 1}
    for mapped in (module.f.map({"x": (0,), "$type": "P"}), module.f.map(p={"$type": module.P})):
        assert mapped(given).to_numpy().tolist() == [1, 2, 3]


def test_older_names_of_tensors(device, module):
    x = Tensor.from_numpy(device, np.array([1, 2, 3], F))
    to = spy.NDBuffer.zeros(device, (3,), "float")
    module.copied(x, to, spy.grid((3,)))
    assert to.to_numpy().tolist() == [2, 3, 4]
    x = x.with_grads()
    assert module.read(x, 1) == 4
    module.read.bwds(x, np.array([0, 2, 2], np.int32))
    assert x.grad.to_numpy().tolist() == [2, 0, 4]


@pytest.mark.parametrize(
    ("name", "message"),
    [("cuda_stream", "there is no CUDA"), ("ray_tracing", "there is no ray tracing hardware")],
)
def test_what_a_cpu_has_not(module, name, message):
    with pytest.raises(AttributeError, match=f"a function has no '{name}': {message}"):
        getattr(module.twice, name)
    assert not hasattr(module.twice, name) and not hasattr(module.twice, "nothing")


def test_lanes_are_chosen_for_a_function(load) -> None:  # type: ignore[no-untyped-def]
    module = load("float half_of(float x) { return x / 2; }")
    x = np.arange(100, dtype=np.float32)
    for count in (1, 8, 64):
        function = module.half_of.lanes(count)
        np.testing.assert_array_equal(function(x, _result="numpy"), x / 2)
        compiled = function.compile(x)
        if "lanes" in compiled.listings and count > 1:  # not of the interpreter
            assert f"lanes={count}" in compiled.text("lanes")
        assert f".lanes({count})" in repr(function)
    with pytest.raises(ValueError, match="power of two up to 64, not 3"):
        module.half_of.lanes(3)
