"""Modules, structs, functions, devices."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Function, Struct, Tensor

F = np.float32

TEXT = """
    struct Particle
    {
        float2 at;
        float mass;

        __init(float2 at, float mass) { this.at = at; this.mass = mass; }
        float energy(float speed) { return 0.5 * mass * speed * speed; }
        [mutating] void move(float2 by) { at += by; }
        static float twice(float x) { return 2 * x; }
        struct Inner { int n; }
    }
    struct Lens { float length; int sizes[2]; float area() { return length * sizes[0] * sizes[1]; } }
    float sum<let N : int>(float values[N]) { float s = 0; for (int i = 0; i < N; i++) s += values[i]; return s; }
    float add(float a, float b) { return a + b; }
    float add(float a, float b, float c) { return a + b + c; }
    namespace tools { float half_of(float x) { return x / 2; } }
"""


def test_look_ups(load):
    module = load(TEXT)
    assert isinstance(module.add, Function)
    assert module.add is module["add"]
    assert module.find_function("nothing") is None
    assert module.find_struct("nothing") is None
    assert module.require_function("add").name == "add"
    assert isinstance(module.Particle, Struct)
    assert module.require_struct("Particle") is module.Particle
    assert module.Particle.Inner.name == "Particle.Inner"
    assert module.float3.name == "float3"
    assert module["tools::half_of"](5) == 2.5
    assert module.find_function_in_struct("Particle", "energy").name == "energy"
    assert module.find_function_in_struct("Nothing", "energy") is None


def test_what_is_not_there(load):
    module = load(TEXT)
    with pytest.raises(AttributeError, match="has no function or type named 'foo'"):
        module.foo  # noqa: B018
    with pytest.raises(AttributeError, match="has no method or sub-type named 'foo'"):
        module.Particle.foo  # noqa: B018
    with pytest.raises(ValueError, match="Could not find struct 'Foo'"):
        module.require_struct("Foo")
    with pytest.raises(ValueError, match="Could not find function 'foo'"):
        module.require_function("foo")
    assert not hasattr(module, "__foo__")


def test_structs_without_a_constructor_take_their_fields(load):
    module = load(TEXT)
    assert module.Lens(2, [3, 4]) == {"length": 2, "sizes": [3, 4]}
    assert module.Lens.area(module.Lens(sizes=[3, 4], length=2)) == 24
    lenses = module.Lens(np.array([1, 2], dtype=F), [3, 4])
    assert (str(lenses.dtype), lenses.shape) == ("Lens", (2,))
    assert module.Lens.area(lenses).to_numpy().tolist() == [12, 24]
    filled = spy.InstanceTensor(module.Lens, (2,))
    filled.construct(np.array([1, 2], dtype=F), [3, 4])
    assert filled.area().to_numpy().tolist() == [12, 24]
    with pytest.raises(CallError, match="No parameter named 'size'; did you mean 'sizes'"):
        module.Lens(length=1, size=2)


def test_generic_arguments_in_names(load):
    module = load(TEXT)
    values = np.arange(6, dtype=F).reshape(2, 3)
    assert module["sum<3>"](values).to_numpy().tolist() == [3, 12]
    assert module["sum<2>"]([1, 2]) == 3
    assert module.sum([1, 2, 3, 4]) == 10


def test_overloads(load):
    module = load(TEXT)
    assert module.add(1, 2) == 3
    assert module.add(1, 2, 3) == 6
    with pytest.raises(ValueError, match="no overload fits") as caught:
        module.add(1)
    assert "float add(float a, float b)" in str(caught.value)
    assert str(caught.value).count("Parameter 'b' not specified") == 2


def test_structs(load):
    module = load(TEXT)
    particle = module.Particle(spy.float2(1, 2), 3.0)
    assert particle == {"at": spy.float2(1, 2), "mass": 3.0}
    assert module.Particle.energy(particle, 2.0) == 6
    assert module.Particle.energy(_this=particle, speed=2.0) == 6
    assert module.Particle.energy(2.0, _this=particle) == 6
    assert module.Particle.twice(4.0) == 8
    ref = spy.ValueRef(particle)
    module.Particle.move(ref, spy.float2(10, 20))
    assert ref.value["at"] == spy.float2(11, 22)
    assert set(module.Particle.fields) == {"at", "mass"}
    assert module.Particle.fields["at"].type.name == "float2"
    assert {"energy", "move", "twice"} <= set(module.Particle.methods)


def test_struct_tensors_have_methods(device, load):
    module = load(TEXT)
    particles = module.Particle(np.arange(4, dtype=F).reshape(2, 2), np.array([2, 4], F))
    assert particles.dtype == module.Particle
    assert module.Particle.energy(particles, 1.0).to_numpy().tolist() == [1, 2]
    module.Particle.move(particles, spy.float2(1, 1))
    assert particles.to_numpy(structured=True)["at"].tolist() == [[1, 2], [3, 4]]
    assert Tensor.zeros(device, (3,), module.Particle).element_size == 12


def test_types_as_values(load):
    module = load(TEXT + "struct D : IDifferentiable { float x; int n; }")
    assert module.float3.shape == (3,)
    assert module.float3.element_type == module.float
    assert module.float.differentiable
    assert module.int.derivative is None
    assert module.D.derivative.name == "D.Differential"
    assert module["float[4]"].shape == (4,)


def test_values_outside_of_functions(device, load):
    module = load("""
        uniform float scale;
        uniform float3 offset;
        StructuredBuffer<float> table;
        float apply(float x) { return x * scale + offset.y; }
        float look(int i) { return table[i]; }
    """)
    with pytest.raises(CallError, match=r"the module's value '(scale|offset)' is not set") as caught:
        module.apply(1.0)
    assert caught.value.code == "E1013"
    ready = module.apply.set(scale=3, offset=spy.float3(1, 2, 3))
    assert ready(4.0) == 14
    assert module.apply.set({"scale": 3}).set(offset=spy.float3(0, 1, 0))(
        np.ones(2, F)
    ).to_numpy().tolist() == [4, 4]
    values = iter([1.0, 2.0])
    later = module.apply.set(offset=spy.float3(0, 0, 0)).set(lambda: {"scale": next(values)})
    assert later(10.0) == 10
    assert later(10.0) == 20
    table = Tensor.from_numpy(device, np.array([5, 6, 7], F))
    assert module.look.set(table=table)(np.array([2, 0], np.int32)).to_numpy().tolist() == [7, 5]
    with pytest.raises(CallError, match="Set accepts either positional or keyword arguments, not both"):
        module.apply.set({"scale": 1}, offset=2)
    with pytest.raises(CallError, match="no global value 'nothing'"):
        module.apply.set(nothing=1)(1.0)
    with pytest.raises(CallError, match="set: 'scale' of type 'float'"):
        module.apply.set(scale=spy.float3(1, 2, 3), offset=spy.float3(1, 2, 3))(1.0)


def test_modules_of_one_name(device):
    first = spy.Module.load_from_source(device, "twin", "float value(float x) { return x + 1; }")
    second = spy.Module.load_from_source(device, "twin", "float value(float x) { return x + 2; }")
    again = spy.Module.load_from_source(device, "twin", "float value(float x) { return x + 2; }")
    assert (first.value(0), second.value(0), again.value(0)) == (1, 2, 2)


def test_files_and_imports(device, tmp_path):
    (tmp_path / "base.slang").write_text("float twice(float x) { return 2 * x; }")
    (tmp_path / "top.slang").write_text("import base;\nfloat more(float x) { return twice(x) + 1; }")
    own = spy.create_device(backend=device.backend, include_paths=[tmp_path])
    module = spy.Module.load_from_file(own, "top.slang")
    assert module.more(3) == 7
    assert module.twice(3) == 6
    assert spy.Module.load_from_module(own, module, {"strict_broadcasting": True}).more(3) == 7


def test_errors_of_a_module_show_the_place(device):
    with pytest.raises(spy.CompileError, match=r"broken:1:\d+"):
        spy.Module.load_from_source(device, "broken", "float f(float x) { return y; }")


def test_strict_broadcasting(load):
    module = load("float add(float a, float b) { return a + b; }", strict_broadcasting=True)
    with pytest.raises(CallError, match="Strict broadcasting is enabled"):
        module.add(np.zeros((4, 3), F), np.zeros(3, F))
    assert module.add(np.zeros((4, 3), F), 1.0).shape == (4, 3)


def test_devices(monkeypatch):
    assert spy.create_device().backend == "cpu"
    assert spy.create_device(spy.DeviceType.cpu, enable_print=True).type is spy.DeviceType.cpu
    monkeypatch.setenv("SLANGRAD_BACKEND", "interpreter")
    assert spy.create_device().backend == "interpreter"
    with pytest.raises(CallError, match="there is no backend for 'vulkan'"):
        spy.create_device(spy.DeviceType.vulkan)
    with pytest.raises(CallError, match="unknown backend 'quantum'"):
        spy.create_device(backend="quantum")
    with pytest.raises(TypeError, match="unexpected keyword argument 'enable_magic'"):
        spy.create_device(enable_magic=True)
    with pytest.raises(TypeError, match="enable_print"):
        spy.create_device(enable_print="yes")
