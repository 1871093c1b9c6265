"""Formats of numbers, and buffers of them."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Format, FormatChannels, FormatType
from slangrad.ir.data import types as ir
from slangrad.tensors.textures.formats import element_of


def test_formats_of_plain_numbers():
    info = spy.get_format_info(Format.rg16_uint)
    assert (info.name, info.type, info.bytes_per_block, info.channel_count) == (
        "rg16_uint",
        FormatType.uint,
        4,
        2,
    )
    assert (info.channel_bit_count, info.get_channels()) == ([16, 16, 0, 0], FormatChannels.rg)
    assert (info.get_channel_bits(FormatChannels.rgb), info.has_equal_channel_bits()) == (32, True)
    assert (info.is_integer_format(), info.is_float_format(), info.is_normalized_format()) == (
        True,
        False,
        False,
    )
    assert element_of(Format.rg16_uint) is ir.vector(ir.U16, 2)
    assert element_of(Format.r32_float) is ir.F32
    assert element_of(Format.r64_sint) is ir.I64
    assert element_of(Format.undefined) is None


def test_other_formats():
    depth = spy.get_format_info(Format.d32_float_s8_uint)
    assert (depth.is_depth, depth.is_stencil, depth.is_depth_stencil(), depth.bytes_per_block) == (
        True,
        True,
        True,
        8,
    )
    blocks = spy.get_format_info(Format.bc7_unorm_srgb)
    assert (blocks.is_compressed, blocks.block_width, blocks.block_height) == (True, 4, 4)
    assert blocks.is_srgb_format()
    assert not spy.get_format_info(Format.b5g6r5_unorm).has_equal_channel_bits()
    for each in Format:
        info = spy.get_format_info(each)
        if not info.is_compressed and not info.is_stencil and info.channel_count:
            assert sum(info.channel_bit_count) == 8 * info.bytes_per_block
    for name in ("rgba8_unorm", "r11g11b10_float", "bc1_unorm", "d32_float", "rgb10a2_uint"):
        with pytest.raises(ValueError, match=f"format: no type of Slang has numbers as in {name}"):
            element_of(Format[name])
    with pytest.raises(TypeError, match="format: expected a Format, not 'r32_float'"):
        spy.get_format_info("r32_float")


def test_buffers_of_a_format(device):
    buffer = device.create_buffer(element_count=3, format=Format.rgb32_float)
    assert (buffer.size, buffer.struct_size, buffer.element_type) == (36, 12, ir.vector(ir.F32, 3))
    assert device.create_buffer(size=8, format=Format.undefined).struct_size == 1
    with pytest.raises(ValueError, match="no type of Slang has numbers as in r8_unorm"):
        device.create_buffer(size=8, format=Format.r8_unorm)


def test_buffers_as_torch_tensors(device):
    torch = pytest.importorskip("torch")
    buffer = device.create_buffer(data=np.arange(6, dtype=np.float32), usage=spy.BufferUsage.shared)
    shown = buffer.to_torch(spy.DataType.float32)
    assert shown.tolist() == list(range(6))
    shown[1] = 10
    assert buffer.to_numpy().view(np.float32)[1] == 10
    assert buffer.to_torch().dtype == torch.uint8
    assert buffer.to_torch(shape=[24]).shape == (24,)
    assert buffer.to_torch("float", [2, 3]).tolist() == [[0, 10, 2], [3, 4, 5]]
    assert buffer.to_torch(np.float32, [3, 2], [1, 3]).tolist() == [[0, 3], [10, 4], [2, 5]]
    assert buffer.to_torch(torch.float32, offset=16).tolist() == [4, 5]
    kept = buffer.to_torch("float", [2], offset=8)
    del buffer
    assert kept.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("float", (7,)), r"the requested shape \(7,\) exceeds the buffer size of 24 bytes"),
        (("float", (2, 3), (1,)), "strides: 2 are needed, not 1"),
        (("float", (), (), 2), "offset: 2 is no multiple of 4"),
        (("float", (), (), 28), "offset: 28 is no multiple of 4 in a buffer of 24"),
        (("float", (3,), (4,)), "exceeds the buffer size"),
    ],
)
def test_views_of_buffers_that_do_not_fit(device, arguments, message):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=message):
        device.create_buffer(size=24).to_torch(*arguments)
    with pytest.raises(TypeError, match="type: a type of numbers is needed, not float3"):
        device.create_buffer(size=24).to_torch("float3")


def test_names_of_types_in_a_layout(device, load):
    module = load("struct Pair { int a; float b; }  float f(Pair p) { return p.b; }")
    pairs = spy.Tensor.zeros(device, (3,), "Pair", program_layout=module.layout)
    assert module.f(pairs).to_numpy().tolist() == [0, 0, 0]
    assert spy.Tensor.empty(device, (2,), "float3", program_layout=module.layout).element_type is ir.vector(
        ir.F32, 3
    )
    rows = spy.Tensor.from_numpy(device, pairs.to_numpy(), program_layout=module.layout, dtype="Pair")
    assert rows.element_type is pairs.element_type
    with pytest.raises(ValueError, match="unknown type name 'Triple'"):
        spy.Tensor.empty(device, (2,), "Triple", program_layout=module.layout)


def test_tensors_that_are_too_large_for_a_parameter(device):
    source = """
        import slangpy;
        [shader("compute")] [numthreads(1, 1, 1)]
        void first(uniform Tensor<uint8_t, 1> t, RWStructuredBuffer<uint> found) { found[0] = t[0]; }
    """
    module = device.load_module_from_source("too_large", source)
    program = device.link_program([module], [module.entry_point("first")])
    kernel = device.create_compute_kernel(program)
    found = device.create_buffer(size=4)
    one = spy.Tensor.full(device, (1,), 7, "uint8_t")
    kernel.dispatch([1, 1, 1], t=one.broadcast_to((1 << 31) - 1), found=found)
    assert found.to_numpy().view(np.uint32)[0] == 7
    ends = spy.Tensor(device.create_buffer(size=(1 << 31) + 1), "uint8_t", (2,), (1 << 31,))
    for huge in (one.broadcast_to((1 << 31,)), ends):
        with pytest.raises(ValueError, match="a tensor parameter takes less than 2147483648 elements"):
            kernel.dispatch([1, 1, 1], t=huge, found=found)


def test_numbers_in_files():
    numbers = {each.name: spy.get_format_info(each) for each in spy.Format}
    assert all(each.dxgi_format or each.vk_format or name == "undefined" for name, each in numbers.items())
    known = [each.dxgi_format for each in numbers.values() if each.dxgi_format]
    assert len(set(known)) == len(known) == len(numbers) - 9  # Direct3D has neither r64 nor astc
    found = [
        numbers[name]
        for name in ("rgba8_unorm_srgb", "r32_float", "bc7_unorm_srgb", "rgba16_float", "bgrx8_unorm")
    ]
    assert [(each.dxgi_format, each.vk_format) for each in found] == [
        (29, 43),
        (41, 100),
        (99, 146),
        (10, 97),
        (88, 0),
    ]
