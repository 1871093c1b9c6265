"""Buffers as devices make them."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import BufferUsage

F = np.float32


def test_sizes(device, load):
    particle = load("struct Particle { float3 at; double mass; }").Particle
    assert device.create_buffer(size=10).size == 10
    assert device.create_buffer(size=12, struct_size=4).element_count == 3
    assert device.create_buffer(element_count=3, struct_size=8).size == 24
    assert device.create_buffer(element_count=3, struct_type=particle).size == 72
    assert device.create_buffer(element_count=3, struct_type="float3").struct_size == 12
    buffer = device.create_buffer(data=np.arange(6, dtype=np.int16), label="numbers")
    assert (buffer.size, buffer.label) == (12, "numbers")
    assert buffer.desc == spy.BufferDesc(size=12, struct_size=1, label="numbers")
    assert device.create_buffer(spy.BufferDesc(size=5, usage=BufferUsage.shader_resource)).size == 5
    assert isinstance(buffer.device_address, int)


def test_contents(device):
    buffer = device.create_buffer(data=np.array([[1, 2], [3, 4]], F))
    assert buffer.to_numpy().dtype == np.uint8
    assert buffer.to_numpy().view(F).tolist() == [1, 2, 3, 4]
    buffer.copy_from_numpy(np.array([9], F))
    assert buffer.to_numpy().view(F).tolist() == [9, 2, 3, 4]
    with pytest.raises(ValueError, match=r"Numpy array is larger than the buffer \(20 > 16 bytes\)"):
        buffer.copy_from_numpy(np.zeros(5, F))


def test_sizes_that_cannot_be(device):
    with pytest.raises(ValueError, match="size: give a size in bytes, an element_count, or data"):
        device.create_buffer()
    with pytest.raises(ValueError, match="data: 8 bytes were given for a buffer of 9 bytes"):
        device.create_buffer(size=9, data=np.zeros(2, F))
    with pytest.raises(ValueError, match="size: a buffer cannot have -1 bytes"):
        device.create_buffer(size=-1)
    with pytest.raises(ValueError, match="3 elements of 4 bytes do not take 13 bytes"):
        device.create_buffer(size=13, element_count=3, struct_size=4)
    with pytest.raises(ValueError, match="elements of f32x3 take 12 bytes, not 16"):
        device.create_buffer(element_count=3, struct_size=16, struct_type="float3")
    with pytest.raises(TypeError, match=r"size: expected a whole number, not 1\.5"):
        device.create_buffer(size=1.5)
    with pytest.raises(TypeError, match="data: expected a NumPy array, not list"):
        device.create_buffer(data=[1, 2])
    with pytest.raises(ValueError, match="Source Numpy array must be contiguous"):
        device.create_buffer(data=np.zeros((4, 4))[:, 1])


def test_elements_of_a_parameter(device):
    module = device.load_module_from_source(
        "buffer_elements",
        """
        struct Item { float4 a; uint b; }
        StructuredBuffer<Item> items;
        RWStructuredBuffer<float4> colors;
        ByteAddressBuffer raw;
        [shader("compute")] [numthreads(1, 1, 1)] void main() {}
        """,
    )
    program = device.link_program([module], [module.entry_point("main")])
    items = program.reflection.items
    assert device.create_buffer(element_count=2, resource_type_layout=items).size == 40
    colors = program.reflection.colors.type_layout
    assert device.create_buffer(element_count=2, resource_type_layout=colors).struct_size == 16
    with pytest.raises(TypeError, match="'ByteAddressBuffer' is no structured buffer"):
        device.create_buffer(element_count=1, resource_type_layout=program.reflection.raw)
    with pytest.raises(TypeError, match="expected a TypeLayoutReflection or ReflectionCursor"):
        device.create_buffer(element_count=1, resource_type_layout=items.type)


def test_features(device):
    assert device.has_feature(spy.Feature.double)
    assert device.has_feature("half")
    assert device.has_feature(spy.Feature.wave_ops)
    assert not device.has_feature(spy.Feature.ray_tracing)
    assert spy.Feature.pointer in device.features
    assert device.info.type is (spy.DeviceType.cuda if device.backend == "cuda" else spy.DeviceType.cpu)


def test_layouts_of_buffers_are_that_of_c(device, load):
    module = load("""
        struct S { float3 at; float mass; }
        ConstantBuffer<S, ScalarDataLayout> given;

        float total(StructuredBuffer<S, DefaultDataLayout> s, RWStructuredBuffer<float, CDataLayout> o)
        {
            o[0] = s[1].at.y;
            return s[1].mass + sizeof(S, ScalarDataLayout);
        }
    """)
    s, o = device.create_buffer(data=np.arange(8, dtype=F)), device.create_buffer(size=4)
    assert module.total(s, o) == 7 + 16 and o.to_numpy().view(F).tolist() == [5]
    find = module.layout.find_type_by_name
    assert find("StructuredBuffer<float, DefaultDataLayout>") == find("StructuredBuffer<float>")
    blocks = module.device_module.layout
    assert blocks.find_type_by_name("ConstantBuffer<S, CDataLayout>").kind.name == "constant_buffer"
