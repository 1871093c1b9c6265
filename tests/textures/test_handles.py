"""Handles of buffers, textures and samplers: in structs, in memory, as parameters; what is no handle."""

import numpy as np
import pytest

import slangrad as spy

F = np.float32

TEXT = """
struct Info
{
    StructuredBuffer<float>.Handle numbers;
    RWByteAddressBuffer.Handle bytes;
    Texture2D<float>.Handle image;
    DescriptorHandle<RWTexture2D<float>> written;
    SamplerState.Handle smooth;
    Sampler2D<float>.Handle both;
    float2 uv;
}

float use(Info i)
{
    i.bytes.Store(4, i.numbers[1]);
    i.written[uint2(1, 0)] = 2 * i.image[uint2(1, 0)];
    uint width, height;
    i.written.GetDimensions(width, height);
    Texture2D<float> image = i.image;
    return image.SampleLevel(i.smooth, i.uv, 0) + 10 * i.both.SampleLevel(i.uv, 0) + 100 * float(width);
}

[shader("compute")] [numthreads(4, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, StructuredBuffer<Info> infos, RWStructuredBuffer<float> results)
{
    results[id.x] = use(infos[NonUniformResourceIndex(id.x)]);
}

void add(DescriptorHandle<RWStructuredBuffer<float>> sums, int index) { InterlockedAdd(sums[index % 3], 1.0f); }
float at(DescriptorHandle<Texture2D<float>> image, uint2 p) { return image[p]; }
uint2 words(Texture2D<float>.Handle image) { return uint2(image); }
float again(uint2 words) { return DescriptorHandle<Texture2D<float>>(words).Load(int3(0)); }
bool same(Texture2D<float>.Handle a, Texture2D<float>.Handle b) { return a == b && uint64_t(a) == uint64_t(b); }
int4 sizes()
{
    return int4(sizeof(DescriptorHandle<Texture2D<float>>), alignof(SamplerState.Handle), sizeof(Info), 0);
}
float nowhere(uint2 words, SamplerState there)
{
    Texture2D<float4> image = DescriptorHandle<Texture2D<float4>>(words);
    SamplerState s = DescriptorHandle<SamplerState>(words);
    Sampler2D<float> both = Sampler2D<float>.Handle(words);
    RWTexture2D<float> written = DescriptorHandle<RWTexture2D<float>>(words);
    written[words] = 1;
    uint width, height;
    image.GetDimensions(width, height);
    float4 sum = image.SampleLevel(there, float2(0.3f, 7), 1) + image.Sample(s, float2(-1, 0));
    return sum.x + image.GatherRed(there, 0.5f).y + both.SampleLevel(0.5f, 0) + written[uint2(0)] + float(width);
}
float follows(DescriptorHandle<RWStructuredBuffer<float>> sums) { return (*sums)[1]; }
[Differentiable]
float sampled(no_diff Texture2D<float>.Handle image, no_diff SamplerState.Handle s, float2 uv)
{
    return image.SampleLevel(s, uv, 0);
}
"""


@pytest.fixture
def module(device):
    return spy.Module.load_from_source(device, "handles", TEXT)


def texture_of(device, format, data):
    height, width = data.shape
    return device.create_texture(format=format, width=width, height=height, data=data)


def test_structs_of_handles_in_memory(device, module) -> None:
    smooth = device.create_sampler(address_u=spy.TextureAddressingMode.clamp_to_edge)
    nearest = device.create_sampler(mag_filter=spy.TextureFilteringMode.point)
    image = texture_of(device, spy.Format.r8_unorm, np.array([[0, 255]], np.uint8))
    half = texture_of(device, spy.Format.r16_float, np.array([[1, 3]], np.float16))
    written = texture_of(device, spy.Format.r32_float, np.zeros((1, 2), F))
    numbers = device.create_buffer(data=np.array([3, 4], F), struct_size=4)
    data = device.create_buffer(data=np.zeros(4, F))
    program_layout = module.device_module.layout
    layout = program_layout.get_type_layout(program_layout.find_type_by_name("StructuredBuffer<Info>"))
    infos = device.create_buffer(
        size=4 * layout.element_type_layout.stride, usage=spy.BufferUsage.shader_resource
    )
    cursor = spy.BufferCursor(layout.element_type_layout, infos, load_before_write=False)
    for i in range(4):
        cursor[i].numbers = numbers.descriptor_handle_ro
        cursor[i].bytes = data.descriptor_handle_rw
        cursor[i].image = (image, half)[i % 2].descriptor_handle_ro
        cursor[i].written = written.descriptor_handle_rw
        cursor[i].smooth = (smooth, nearest)[i % 2].descriptor_handle
        cursor[i].both = half.create_view(sampler=smooth).descriptor_handle_combined
        cursor[i].uv = spy.float2(0.5)
    cursor.apply()
    results = device.create_buffer(data=np.zeros(4, F), struct_size=4)
    program = device.link_program([module.device_module], [module.device_module.entry_point("main")])
    device.create_compute_kernel(program).dispatch([4, 1, 1], infos=infos, results=results)
    np.testing.assert_array_equal(results.to_numpy().view(F), [220.5, 223, 220.5, 223])
    assert data.to_numpy().view(F)[1] == 4
    assert written.to_numpy()[0, 1] in (2, 6)


def test_handles_and_resources_as_arguments(device, module) -> None:
    image = texture_of(device, spy.Format.r32_float, np.arange(6, dtype=F).reshape(2, 3))
    part = image.create_view()
    places = np.array([[0, 0], [2, 1]], np.uint32)
    handle = image.descriptor_handle_ro
    assert handle and handle is image.descriptor_handle_ro
    for value in (handle, image, part, part.descriptor_handle_ro):
        np.testing.assert_array_equal(module.at(value, places, _result="numpy"), [0, 5])
    words = module.words(image)
    assert int(words.x) + (int(words.y) << 32) == handle.value
    assert module.again(words) == 0
    assert module.same(handle, image)
    assert not module.same(handle, part)
    assert list(module.sizes()) == [8, 8, 56, 0]


def test_sums_behind_a_handle(device, module) -> None:
    sums = device.create_buffer(data=np.zeros(3, F), struct_size=4)
    module.add(sums, np.arange(3000, dtype=np.int32))
    np.testing.assert_array_equal(sums.to_numpy().view(F), [1000, 1000, 1000])
    assert module.follows(sums) == 1000


def test_derivatives_by_coordinates(device, module) -> None:
    image = texture_of(device, spy.Format.r32_float, np.array([[1, 2, 4, 8]], F))
    smooth = device.create_sampler()
    uv = spy.Tensor.from_numpy(device, np.array([[0.25, 0.5], [0.6, 0.5]], F), dtype="float2").with_grads()
    module.sampled.bwds(image, smooth.descriptor_handle, uv)
    np.testing.assert_allclose(uv.grad.to_numpy()[:, 0], [4, 8])


def test_a_sample_has_the_code_of_conversions_once_for_each_level(device, module) -> None:
    """Only conversions from sRGB have a `pow`; loads of texels that lie as values have none."""
    image = texture_of(device, spy.Format.r32_float, np.ones((1, 1), F))
    smooth = device.create_sampler().descriptor_handle
    compiled = module.sampled.compile(image.descriptor_handle_ro, smooth, spy.float2(0.5))
    assert compiled.text("clean").count(" = pow ") == 2


def test_what_is_no_handle_of_the_resource(device, module) -> None:
    """Large numbers, plain addresses and altered handles stand for nothing, and are not followed."""
    image = texture_of(device, spy.Format.r32_float, np.ones((1, 1), F))
    numbers = device.create_buffer(data=np.zeros(4, F), struct_size=4)
    kinds = spy.DescriptorHandleType
    bogus = (
        spy.DescriptorHandle(kinds.texture, 2**63 + 4096), spy.DescriptorHandle(kinds.texture, 0x7FFF_DEAD_BEC0),
        {"__address": 1}, {"__address": 2**64 - 1},
    )  # fmt: skip
    for wrong in (spy.DescriptorHandle(), numbers.descriptor_handle_ro, *bogus):
        with pytest.raises(spy.PointerError, match="E0907"):
            module.at(wrong, spy.uint2(0, 0))
    smooth, handle = device.create_sampler(), image.descriptor_handle_ro.value
    drawn = np.random.default_rng(1).integers(0, 2**64, 40, np.uint64)
    altered = [handle ^ (1 << bit) for bit in (0, 5, 6, 20, 47, 48, 62, 63)]
    odd = [
        2**64 - 1,
        2**63,
        0xDEADBEEF << 32,
        1 << 47,
        handle & (2**48 - 1),
        handle + 8,
        handle + 64,
        *altered,
    ]
    for bits in ([0, 1, 3], drawn, odd):
        with pytest.raises(spy.PointerError, match="E0907"):
            module.nowhere(np.array(bits, np.uint64).view(np.uint32).reshape(-1, 2), smooth)
    with pytest.raises(spy.CallError, match="E1019"):
        module.at(numbers, spy.uint2(0, 0))
    with pytest.raises(ValueError, match="texels behind a handle are constants"):
        _ = image.with_grads().descriptor_handle_ro
    with pytest.raises(ValueError, match="unordered_access"):
        usage = spy.TextureUsage.shader_resource
        _ = device.create_texture(format=spy.Format.r32_float, usage=usage).descriptor_handle_rw
    with pytest.raises(ValueError, match="with a sampler"):
        _ = image.create_view().descriptor_handle_combined
    with pytest.raises(TypeError, match="expected a Sampler"):
        image.create_view(sampler=3)
