"""Which function takes some arguments, asked without a call."""

import numpy as np
import pytest
from slangrad.bindings import BindContext, BoundCall
from slangrad.core.native import CallMode
from slangrad.reflection.typeresolution import ResolutionDiagnostic, resolve_function

import slangrad as spy

TEXT = """
    struct Point { float3 at; }
    float take(float3 v, float s) { return s; }
    float take(float v) { return v; }
    vector<T, 2> pair<T : __BuiltinFloatingPointType>(vector<T, 2> v) { return v; }
    T same<T>(T x) { return x; }
    float far(Point p, RWTensor<float, 1> cells) { return p.at.x; }
"""
F = np.float32


@pytest.fixture(scope="module")
def module():
    device = spy.create_device()
    yield spy.Module.load_from_source(device, "resolved", TEXT)
    device.close()


def resolve(module, name, *args, **kwargs):
    context = BindContext(module.layout, CallMode.prim, module.device_module)
    told = ResolutionDiagnostic()
    function = module.layout.require_function_by_name(name)
    return resolve_function(context, function, BoundCall(context, *args, **kwargs), told), str(told)


def test_the_overload_that_takes_the_arguments(module):
    found, _ = resolve(module, "take", np.ones((5, 3), F), s=2.0)
    assert [each.full_name for each in found.args] == ["vector<float,3>"]
    assert {name: each.full_name for name, each in found.kwargs.items()} == {"s": "float"}
    assert found.dimensions == (1, 0) and len(found.function.parameters) == 2
    assert resolve(module, "take", 1.0)[0].return_type is module.layout.find_type_by_name("float")
    far, _ = resolve(module, "far", {"at": [1, 2, 3]}, spy.Tensor.zeros(module.device, (4,), "float"))
    assert [each.full_name for each in far.args] == ["Point", "RWTensor<float, 1>"]


def test_generics_are_filled_in(module):
    found, _ = resolve(module, "pair", spy.Tensor.zeros(module.device, (4, 2), "half"))
    assert [each.type.full_name for each in found.params] == ["vector<half,2>"]
    assert (found.return_type.full_name, found.dimensions) == ("vector<half,2>", (1,))


def test_why_nothing_fits(module):
    found, told = resolve(module, "take", {"_type": "Point"}, 1.0)
    assert found is None
    assert "float take(float v)\n    Too many arguments: expected 1, got 2" in told
    assert "Argument 0 could not be resolved ('v')" in told
    found, told = resolve(module, "same", np.ones(3, F))
    assert found is None and "the arguments can be seen in several ways" in told
    assert resolve(module, "take", object())[0] is None
