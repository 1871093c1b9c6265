"""Textures with several samples for each texel."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallCompileError, CallError

F = np.float32
TYPES = spy.TextureType

TEXT = """
struct Sizes { uint3 one; uint4 many; }

Sizes sizes(Texture2DMS<float2> t, Texture2DMSArray<uint, 4> layers)
{
    Sizes result;
    t.GetDimensions(result.one.x, result.one.y, result.one.z);
    layers.GetDimensions(result.many.x, result.many.y, result.many.z, result.many.w);
    return result;
}
float2[4] at(Texture2DMS<float2> t, int2 p, int sample)
{
    return { t.Load(p, sample), t[p, sample], t[p], t.Load(p, sample, int2(1, 0)) };
}
uint[4] layered(Texture2DMSArray<uint> t, int3 p, int sample)
{
    return { t.Load(p, sample), t[p, sample], t[p], t.Load(p, sample, int2(0, 1)) };
}
float depth(DepthTexture2DMS t, int2 p, int sample) { return t.Load(p, sample); }
void put(RWTexture2DMS<float4> t, uint2 p, int sample, float4 value)
{
    t[p, sample].xz = value.xz;
    t.Store(p, sample, t.Load(p, sample) + float4(0, 0, 0, value.w));
}
uint count(RWTexture2DMSArray<uint> t, int3 p, int sample)
{
    uint before;
    InterlockedAdd(t[p, sample], 3, before);
    t[p] = 7;
    return before + t[p, sample];
}
[Differentiable]
float mean(Texture2DMS<float> t, int2 p)
{
    float sum = 0;
    for (int k = 0; k < 4; k++)
        sum += t.Load(p, k) * t.Load(p, k);
    return sum / 4;
}
[Differentiable] void scaled(RWTexture2DMS<float> t, int2 p, int sample, float x) { t[p, sample] = 3 * x * x; }
"""


def texture_of(device, format, data, kind=TYPES.texture_2d_ms):
    """Of samples, rows and columns, of an array after the layers."""
    layers = data.shape[0] if kind is TYPES.texture_2d_ms_array else 1
    samples, height, width = data.shape[1 if kind is TYPES.texture_2d_ms_array else 0 :][:3]
    return device.create_texture(
        type=kind,
        format=format,
        width=width,
        height=height,
        sample_count=samples,
        array_length=layers,
        data=data,
    )


def test_samples_are_read_by_their_numbers(device, load) -> None:
    module, rng = load(TEXT), np.random.default_rng(1)
    texels = rng.random((2, 3, 5, 2)).astype(F)
    pages = rng.integers(0, 99, (3, 4, 2, 6), np.uint32)
    one = texture_of(device, spy.Format.rg32_float, texels)
    many = texture_of(device, spy.Format.r32_uint, pages, TYPES.texture_2d_ms_array)
    assert one.desc.sample_count == 2 and one.mip_count == 1 and (one.to_numpy() == texels).all()
    assert (many.to_numpy(layer=2) == pages[2]).all()
    sizes = module.sizes(one, many)
    assert (sizes["one"], sizes["many"]) == (spy.uint3(5, 3, 2), spy.uint4(6, 2, 3, 4))
    for x, y, sample in ((0, 0, 0), (3, 2, 1), (2, 1, 0)):
        values = np.array([list(v) for v in module.at(one, spy.int2(x, y), sample)])
        assert (values == texels[[sample, sample, 0, sample], y, [x, x, x, x + 1]]).all()
    for x, y, layer, sample in ((5, 0, 2, 3), (0, 0, 1, 2)):
        values = list(module.layered(many, spy.int3(x, y, layer), sample))
        assert values == pages[layer, [sample, sample, 0, sample], [y, y, y, y + 1], x].tolist()
    view = many.create_view(layer=1, layer_count=2)
    values = list(module.layered(view, spy.int3(4, 0, 1), 1))
    assert values[0] == pages[2, 1, 0, 4]
    for place, sample in (((5, 0), 0), ((0, -1), 0), ((0, 0), 2), ((0, 0), -1)):
        with pytest.raises(spy.BoundsError):
            module.at(one, spy.int2(*place), sample)


@pytest.mark.parametrize(
    ("format", "numbers", "values"),
    [
        (spy.Format.d32_float, np.array([0.25, 2], F), [0.25, 2]),
        (spy.Format.r8_unorm, np.array([51, 255], np.uint8), [0.2, 1]),
        (spy.Format.r16_snorm, np.array([-32767, 0], np.int16), [-1, 0]),
        (spy.Format.r16_float, np.array([1.5, -2], np.float16), [1.5, -2]),
    ],
)
def test_samples_are_converted_as_texels_are(device, load, format, numbers, values) -> None:
    texture = texture_of(device, format, numbers.reshape(2, 1, 1))
    read = [load(TEXT).depth(texture, spy.int2(0, 0), k) for k in range(2)]
    assert np.array(read, F).tolist() == np.array(values, F).tolist()


def test_samples_are_written(device, load) -> None:
    module = load(TEXT)
    image = texture_of(device, spy.Format.rgba8_unorm, np.zeros((2, 2, 2, 4), np.uint8))
    module.put(image, spy.uint2(1, 0), 1, spy.float4(1, 1, 0.2, 0.4))
    expected = np.zeros((2, 2, 2, 4), np.uint8)
    expected[1, 0, 1] = [255, 0, 51, 102]
    assert (image.to_numpy() == expected).all()
    pages = texture_of(
        device, spy.Format.r32_uint, np.ones((2, 2, 1, 1), np.uint32), TYPES.texture_2d_ms_array
    )
    assert module.count(pages, spy.int3(0, 0, 1), 1) == 1 + 4
    assert pages.to_numpy(layer=1).ravel().tolist() == [7, 4] and (pages.to_numpy(layer=0) == 1).all()


def test_derivatives_by_samples(device, load) -> None:
    module, texels = load(TEXT), np.arange(24, dtype=F).reshape(4, 2, 3)
    image = texture_of(device, spy.Format.r32_float, texels).with_grads()
    places = np.array([[0, 0], [2, 1], [2, 1]], np.int32)
    result = spy.Tensor.empty(device, (3,), "float").with_grads(
        spy.Tensor.from_numpy(device, np.array([1, 2, 4], F))
    )
    module.mean.bwds(image, places, _result=result)
    expected = np.zeros_like(texels)
    expected[:, 0, 0], expected[:, 1, 2] = texels[:, 0, 0] / 2, texels[:, 1, 2] / 2 * 6
    assert (image.grad.to_numpy() == expected).all()
    written = texture_of(device, spy.Format.r32_float, np.zeros((2, 1, 1), F))
    written.grad_in = written.new_gradient()
    written.grad_in.copy_from_numpy(np.array([[[5]], [[7]]], F))
    x = spy.Tensor.from_numpy(device, np.array([2], F)).with_grads()
    module.scaled.bwds(written, spy.int2(0, 0), 1, x)
    assert x.grad.to_numpy().tolist() == [7 * 6 * 2]


def test_tangents_by_samples(device, load) -> None:
    image = texture_of(device, spy.Format.r32_float, np.arange(4, dtype=F).reshape(4, 1, 1)).with_grads()
    image.grad_in.copy_from_numpy(np.array([1, 2, 3, 4], F).reshape(4, 1, 1))
    result = spy.Tensor.empty(device, (1,), "float").with_grads()
    load(TEXT).mean.fwds(image, np.zeros((1, 2), np.int32), _result=result)
    assert result.grad.to_numpy().tolist() == [(2 * 1 * 2 + 2 * 2 * 3 + 2 * 3 * 4) / 4]


def test_kernels_with_samples(device) -> None:
    module = device.load_module_from_source(
        "resolved",
        """
[shader("compute")] [numthreads(2, 2, 1)]
void resolve(uint3 id : SV_DispatchThreadID, Texture2DMS<float4, 2> samples, RWTexture2D<float4> mean)
{
    mean[id.xy] = (samples.Load(int2(id.xy), 0) + samples.Load(int2(id.xy), 1)) / 2;
}
""",
    )
    texels = np.arange(32, dtype=F).reshape(2, 2, 2, 4)
    mean = device.create_texture(format=spy.Format.rgba32_float, width=2, height=2)
    program = device.link_program([module], [module.entry_point("resolve")])
    kernel = device.create_compute_kernel(program)
    kernel.dispatch([2, 2, 1], samples=texture_of(device, spy.Format.rgba32_float, texels), mean=mean)
    assert (mean.to_numpy() == texels.mean(0)).all()
    with pytest.raises(CallError, match="a Texture2D of float4"):
        kernel.dispatch([2, 2, 1], samples=mean, mean=mean)


def test_copies_take_samples_as_slices(device, load) -> None:
    texels = np.arange(12, dtype=F).reshape(2, 2, 3)
    source = texture_of(device, spy.Format.r32_float, texels)
    target, numbers = device.create_texture(source.desc), device.create_buffer(data=np.zeros(12, F))
    encoder = device.create_command_encoder()
    encoder.copy_texture_to_buffer(numbers, 0, 48, 12, source, 0, 0)
    encoder.copy_texture(target, 0, 0, (0, 0, 1), source, 0, 0, (0, 0, 0))
    device.submit_command_buffer(encoder.finish())
    assert (numbers.to_numpy().view(F) == texels.ravel()).all()
    assert (target.to_numpy()[1] == texels[0]).all() and not target.to_numpy()[0].any()
    doubled = load("float twice(float x) { return 2 * x; }").twice(source, _result="numpy")
    assert (doubled == 2 * texels).all()


HANDLES = """
struct Both { Texture2DMS<float>.Handle read; RWTexture2DMSArray<uint>.Handle written; }
float added(Both both, int2 p, int sample)
{
    uint width, height, layers, samples;
    both.written.GetDimensions(width, height, layers, samples);
    both.written[int3(p, 1), sample] += 5;
    return both.read[p, sample] + 100 * both.written[int3(p, 1), sample] + 10000 * samples;
}
float second(Texture2DMS<float, 2>.Handle t, int2 p) { return t.Load(p, 1); }
float wrong(Texture2D<float>.Handle t) { return t[uint2(0, 0)]; }
"""


def test_handles_of_several_samples(device, load) -> None:
    module = load(HANDLES)
    texels = np.arange(24, dtype=F).reshape(2, 3, 4)
    numbers = np.arange(96, dtype=np.uint32).reshape(2, 4, 3, 4)
    read = texture_of(device, spy.Format.r32_float, texels)
    written = texture_of(device, spy.Format.r32_uint, numbers, TYPES.texture_2d_ms_array)
    both = {"read": read.descriptor_handle_ro, "written": written.descriptor_handle_rw}
    value = module.added(both, spy.int2(1, 2), 1)
    assert value == texels[1, 2, 1] + 100 * (numbers[1, 1, 2, 1] + 5) + 40000
    assert written.to_numpy(layer=1)[1, 2, 1] == numbers[1, 1, 2, 1] + 5
    assert module.second(read, spy.int2(3, 0)) == texels[1, 0, 3]
    with pytest.raises(spy.PointerError):
        module.wrong(read)


def test_bad_uses_of_samples(device, load) -> None:
    module = load(TEXT)
    image = texture_of(device, spy.Format.rg32_float, np.zeros((2, 1, 1, 2), F))
    plain = device.create_texture(format=spy.Format.rg32_float)
    with pytest.raises(CallError, match=r"E1002.*Texture2D of float2 does not fit 'Texture2DMS<float2, 0>'"):
        module.at(plain, spy.int2(0, 0), 0)
    with pytest.raises(CallError, match=r"E1002.*Texture2DMS of uint does not fit"):
        module.depth(
            texture_of(device, spy.Format.r32_uint, np.zeros((1, 1, 1), np.uint32)), spy.int2(0, 0), 0
        )
    with pytest.raises(ValueError, match="no sampler applies to a texture_2d_ms"):
        _ = image.create_view(sampler=device.create_sampler()).descriptor_handle_combined
    with pytest.raises(ValueError, match="to_bitmap: a texture_2d_ms is no image"):
        image.to_bitmap()
    with pytest.raises(ValueError, match="samples of a texture_2d_ms have no rows of their own"):
        image.get_subresource_layout()
    with pytest.raises(ValueError, match="sample_count is 4, and the gradient of this texture has 2"):
        image.with_grads(texture_of(device, spy.Format.rg32_float, np.zeros((4, 1, 1, 2), F)))
    sampled = "float4 f(Texture2DMS<float4> t, SamplerState s) { return t.Sample(s, float2(0)); }"
    with pytest.raises((spy.CompileError, CallCompileError), match="no sampler applies to several samples"):
        load(sampled).f(
            texture_of(device, spy.Format.rgba32_float, np.zeros((1, 1, 1, 4), F)), device.create_sampler()
        )
