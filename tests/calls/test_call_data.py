"""What calls are made of: debug_build_call_data, and kernels that are printed or written to files."""

import numpy as np
import pytest
from slangrad.core.native import AccessType, CallMode, NativeCallRuntimeOptions

import slangrad as spy
from slangrad.marshal.errors import CallError

TEXT = """
    uniform float gain;
    struct Point { float3 at; float mass; }
    [Differentiable] float scaled(float3 v, float s) { return (v.x + v.y + v.z) * s; }
    float weight(Point p) { return p.mass * p.at.x; }
    void fill(int i, RWTensor<float, 1> cells) { cells[i] = i; }
    float loud(float x) { return gain * x; }
"""
F = np.float32


@pytest.fixture(scope="module")
def module():
    device = spy.create_device()
    yield spy.Module.load_from_source(device, "built", TEXT)
    device.close()


def test_what_is_known_about_a_call(module):
    rows = np.ones((4, 3), F)
    data = module.scaled.debug_build_call_data(rows, s=2.0)
    assert (data.call_shape, data.call_dimensionality, data.call_mode) == ((4,), 1, CallMode.prim)
    assert 'import "built";' in data.code and "scaled(" in data.code
    (v,), s, result = data.bindings.args, data.bindings.kwargs["s"], data.bindings.kwargs["_result"]
    assert (v.name, v.vector_type.full_name, v.vector_mapping) == ("v", "vector<float,3>", (0,))
    assert v.vector_type is module.layout.find_type_by_name("float3")
    assert (v.call_dimensionality, s.call_dimensionality, result.call_dimensionality) == (1, 0, 1)
    assert (v.param_index, s.param_index, s.vector_type.name) == (0, 1, "float")
    assert v.access == (AccessType.read, AccessType.none)
    assert result.access == (AccessType.write, AccessType.none)
    assert data.call(NativeCallRuntimeOptions(), rows, s=2.0).to_numpy().tolist() == [6, 6, 6, 6]
    assert "numpy float32" in repr(v) and "[4]" in repr(data)


def test_derivatives_maps_and_parts(module):
    x = spy.Tensor.from_numpy(module.device, np.ones((5, 3), F)).with_grads()
    data = module.scaled.bwds.debug_build_call_data(x, 2.0, spy.diffPair(d=1.0))
    assert data.call_mode is CallMode.bwds and data.call_shape == (5,)
    assert data.bindings.args[0].access == (AccessType.read, AccessType.write)
    assert data.bindings.kwargs["_result"].access[1] is AccessType.read
    outer = module.scaled.map((0,), (1,)).debug_build_call_data(x, np.ones(7, F))
    assert outer.call_shape == (5, 7) and outer.bindings.args[1].vector_mapping == (1,)
    assert [each.call_dimensionality for each in outer.bindings.args] == [1, 2]
    assert outer.bindings.args[1].explicitly_vectorized
    point = {"at": spy.float3(1, 2, 3), "mass": np.ones(3, F)}
    (p,) = module.weight.debug_build_call_data(point).bindings.args
    assert p.vector_type is module.Point.struct and set(p.children) == {"at", "mass"}
    assert [each.path for each in p.get_input_list([])] == ["p.at", "p.mass"]
    assert p.children["mass"].vector_mapping == (0,)


def test_calls_of_one_kind_are_equal(module):
    build = module.scaled.debug_build_call_data
    first, second = build(np.ones((4, 3), F), 1.0), build(np.zeros((2, 3), F), 5.0)
    assert first == second and hash(first) == hash(second) and first.call_shape != second.call_shape
    assert first != build(spy.float3(1, 2, 3), 1.0)
    mapped = module.scaled.map((0,)).debug_build_call_data(np.ones((4, 3), F), 1.0)
    assert mapped != first and mapped.code == first.code
    first.call(None, np.zeros((2, 3), F), 1.0)
    assert first.last_call_shape == (2,)
    with pytest.raises(CallError, match="is called with arguments of other kinds"):
        first.call(None, spy.float3(1, 2, 3), 1.0)
    with pytest.raises(CallError, match="the first argument is a NativeCallRuntimeOptions or None"):
        first.call(np.zeros((2, 3), F), 1.0)


def test_values_outside_of_functions(module):
    options = NativeCallRuntimeOptions()
    options.uniforms.append({"gain": 3.0})
    assert module.loud.debug_build_call_data(2.0).call(options, 2.0) == 6


def test_whole_arguments_and_methods(module):
    cells = spy.Tensor.zeros(module.device, (4,), "float")
    data = module.fill.debug_build_call_data(spy.grid((4,)), cells)
    assert data.call_shape == (4,) and data.bindings.args[1].call_dimensionality == 0
    assert data.bindings.args[1].vector_type.full_name == "RWTensor<float, 1>"
    assert cells.to_numpy().tolist() == [0, 0, 0, 0]
    bound = module.fill.bind(2).debug_build_call_data(cells)
    assert bound.call_shape == () and [each.name for each in bound.bindings.args] == ["i", "cells"]


@pytest.fixture
def showing():
    yield
    for change in (
        spy.set_print_generated_shaders,
        spy.set_dump_generated_shaders,
        spy.set_dump_slang_intermediates,
    ):
        change(False)


def test_kernels_are_printed(module, capsys, showing):
    spy.set_print_generated_shaders(True)
    module.scaled(spy.float3(1, 2, 3), 1)
    shown = capsys.readouterr().out
    assert shown.splitlines()[1] == "GENERATED SHADER: scaled" and "void kernel(" in shown
    module.scaled(spy.float3(4, 5, 6), 2)  # has been met
    spy.set_print_generated_shaders(False)
    module.scaled(spy.float2(1, 2).xyx, np.float32(1))
    assert capsys.readouterr().out == ""


def test_kernels_are_written_to_files(module, tmp_path, monkeypatch, showing):
    monkeypatch.chdir(tmp_path)
    spy.set_dump_generated_shaders(True)
    spy.set_dump_slang_intermediates(True)
    module.weight({"at": spy.float3(1, 2, 3), "mass": 2.0})
    (text,) = (tmp_path / ".temp").glob("weight_*.slang")
    assert "weight(" in text.read_text()
    assert "func" in (tmp_path / ".temp" / f"{text.stem}.lowered.txt").read_text()
