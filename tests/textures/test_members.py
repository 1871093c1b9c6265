"""Members of textures that other members explain: least levels, statuses, samplers of a texture's own, `_Texture`, generic
code, and channels of cubes."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallCompileError
from tests.backends import COMPILED
from tests.textures.model import sample

F = np.float32
TYPES = spy.TextureType
compiled_only = pytest.mark.parametrize("device", COMPILED, indirect=True)
compare_greater = {
    "reduction_op": spy.TextureReductionOp.comparison, "comparison_func": spy.ComparisonFunc.greater
}  # fmt: skip

CLAMPED = """
float2[6] clamped(Texture2D<float> t, SamplerState s, SamplerComparisonState c, float2 u, float least, int2 o)
{
    uint status = 0;
    bool before = CheckAccessFullyMapped(status);
    float2 step = float2(0.25, 0.125);
    float level = max(1.25f, least);
    float2 result[6] = {
        float2(t.Sample(s, u, o, least), t.SampleLevel(s, u, least, o)),
        float2(t.SampleBias(s, u, 0.75, o, least), t.SampleLevel(s, u, max(0.75f, least), o)),
        float2(t.SampleGrad(s, u, step, float2(0), o, least), t.SampleLevel(s, u, max(log2(length(step * 8)), least), o)),
        float2(t.SampleCmp(c, u, 0.5, o, least), t.SampleCmpLevel(c, u, 0.5, least, o)),
        float2(t.SampleCmpBias(c, u, 0.5, 0.75, o), t.SampleCmpLevel(c, u, 0.5, 0.75, o)),
        float2(t.SampleCmpGrad(c, u, 0.5, step, float2(0), o), t.SampleCmpLevel(c, u, 0.5, log2(length(step * 8)), o)) };
    if (before)
        result[0] = float2(0, 1);
    return result;
}

float2[11] statuses(Texture2D<float> t, SamplerState s, SamplerComparisonState c, float2 u, float v, int2 o)
{
    uint a, b, d, e, f, g, h, i, j, k, l;
    float2 result[11] = {
        float2(t.Sample(s, u, o, 0, a), t.Sample(s, u, o)), float2(t.SampleBias(s, u, 1, o, 0, b), t.SampleBias(s, u, 1, o)),
        float2(t.SampleGrad(s, u, u, u, o, 0, d), t.SampleGrad(s, u, u, u, o)),
        float2(t.SampleLevel(s, u, 1.5, o, e), t.SampleLevel(s, u, 1.5, o)),
        float2(t.SampleCmp(c, u, v, o, 0, f), t.SampleCmp(c, u, v, o)),
        float2(t.SampleCmpLevelZero(c, u, v, o, g), t.SampleCmpLevelZero(c, u, v, o)),
        float2(t.SampleCmpLevel(c, u, v, 1, o, h), t.SampleCmpLevel(c, u, v, 1, o)),
        float2(t.Gather(s, u, o, i).y, t.Gather(s, u, o).y), float2(t.GatherCmp(c, u, v, o, j).x, t.GatherCmp(c, u, v, o).x),
        float2(t.GatherRed(s, u, o, o, o, o, k).z, t.Gather(s, u, o).w),
        float2(t.Load(int3(2, 1, 0), o, l), t[uint2(int2(2, 1) + o)]) };
    if (!all(bool4(CheckAccessFullyMapped(a & b & d), CheckAccessFullyMapped(e & f & g), CheckAccessFullyMapped(h & i),
        CheckAccessFullyMapped(j & k & l))))
        result[0] = float2(0, 1);
    return result;
}

float2[3] of_buffers(StructuredBuffer<float> numbers, ByteAddressBuffer bytes, int k)
{
    uint a, b, c;
    float2 result[3] = {
        float2(numbers.Load(k, a), numbers[k]), float2(bytes.Load(4 * k, b), bytes.Load(4 * k)),
        bytes.Load2(4 * k, c) };
    return CheckAccessFullyMapped(a & b & c) ? result : { float2(0, 1), float2(0, 1), float2(0, 1) };
}
"""


def levels_of(device, seed: int) -> spy.Texture:
    texels = np.random.default_rng(seed).random((8, 8)).astype(F)
    texture = device.create_texture(
        format=spy.Format.r32_float, width=8, height=8, mip_count=spy.ALL_MIPS, data=texels
    )
    texture.generate_mips()
    return texture


@compiled_only
def test_least_levels_and_statuses(device, load) -> None:
    module, rng = load(CLAMPED), np.random.default_rng(1)
    texture, plain = levels_of(device, 2), device.create_sampler()
    compares = device.create_sampler(**compare_greater)
    places = rng.uniform(-1, 2, (50, 2)).astype(F)
    offset = spy.int2(1, -1)
    for least in (0.0, 0.5, 1.25, 2.0):
        pairs = module.clamped(texture, plain, compares, places, least, offset, _result="numpy")
        assert pairs.shape == (50, 6, 2) and (pairs[..., 0] == pairs[..., 1]).all()
    pairs = module.statuses(texture, plain, compares, places, 0.5, offset, _result="numpy")
    assert (pairs[..., 0] == pairs[..., 1]).all()
    assert pairs.shape == (50, 11, 2) and len(np.unique(pairs[:, 3, 0])) == 50
    numbers = np.arange(6, dtype=F)
    buffer = device.create_buffer(data=numbers)
    words = device.create_buffer(data=numbers.astype(np.uint32))
    read = module.of_buffers(buffer, words, 3)
    assert [list(pair) for pair in read] == [[3, 3], [3, 3], [3, 4]]


LEAST = """
[Differentiable] float plain(Texture2D<float> t, SamplerState s, float2 u, float least) { return t.Sample(s, u, int2(0), least); }
[Differentiable] float biased(Texture2D<float> t, SamplerState s, float2 u, float least)
{
    return t.SampleBias(s, u, 0.25, int2(0), least);
}
"""


@compiled_only
def test_a_least_level_is_within_the_bounds_of_the_sampler_and_has_a_derivative(device, load) -> None:
    module, texture = load(LEAST), levels_of(device, 10)
    at = device.create_sampler(mip_lod_bias=0.5, max_lod=2)
    place = spy.float2(0.3, 0.4)
    levels = [texture.to_numpy(mip=k).astype(float) for k in range(3)]
    values = [sample(level[..., None], (0.3, 0.4), "wrap", True)[0] for level in levels]
    for function, first in ((module.plain, 0.5), (module.biased, 0.75)):
        for least, level in ((-1.0, first), (0.25, first), (1.25, 1.25), (9.0, 2.0)):
            low = min(int(level), 1)
            expected = values[low] + (level - low) * (values[low + 1] - values[low])
            assert function(texture, at, place, least) == pytest.approx(expected, abs=1e-5)
            least_level = spy.Tensor.from_numpy(device, np.array([least], F)).with_grads()
            function.bwds(texture, at, place, least_level)
            slope = values[low + 1] - values[low] if level == 1.25 else 0
            assert least_level.grad.to_numpy()[0] == pytest.approx(slope, abs=1e-5)


COMBINED = """
float2[9] flat(Sampler2D<float> t, float2 u, int2 o)
{
    Texture2D<float> p = t.texture;
    SamplerState s = t.sampler;
    uint2 size, plain;
    uint levels, count, status;
    t.GetDimensions(1, size.x, size.y, levels);
    p.GetDimensions(1, plain.x, plain.y, count);
    float2 g = float2(0.125, 0.25);
    return {
        float2(t.Sample(u, o, 1.5, status), p.SampleLevel(s, u, 1.5, o)), float2(t.SampleBias(u, 0.5, o), p.SampleLevel(s, u, 0.5, o)),
        float2(t.SampleGrad(u, g, g, o), p.SampleGrad(s, u, g, g, o)), float2(t.SampleLevelZero(u, o), p.Sample(s, u, o)),
        float2(t.Gather(u, o).x, p.Gather(s, u, o).x), float2(t.GatherAlpha(u).w, 1),
        float2(t.Load(int3(3, 2, 1)), p.Load(int3(3, 2, 1))), float2(t[int2(5, 6)], p[int2(5, 6)]),
        float2(size.x + 10 * size.y + 100 * levels, plain.x + 10 * plain.y + 100 * count) };
}
float2[7] shadow(Sampler2DShadow t, float2 u, float v, int2 o)
{
    Texture2D<float> p = t.texture;
    SamplerComparisonState s = t.sampler;
    uint status, width, height;
    t.GetDimensions(width, height);
    float2 g = float2(0.125, 0.25);
    return {
        float2(t.SampleCmp(u, v, o), p.SampleCmp(s, u, v, o)), float2(t.SampleCmp(u, v, o, 1, status), p.SampleCmpLevel(s, u, v, 1, o)),
        float2(t.SampleCmpGrad(u, v, g, g), p.SampleCmpGrad(s, u, v, g, g)), float2(t.SampleCmpLevel(u, v, 1), p.SampleCmpLevel(s, u, v, 1)),
        float2(t.GatherCmp(u, v, o).z, p.GatherCmp(s, u, v, o).z), float2(t.SampleCmpBias(u, v, 1, o), p.SampleCmpLevel(s, u, v, 1, o)),
        float2(width, height) };
}
float samples(Sampler2DMS<float> t, int2 p) { return t[p, 1] + 100 * t.Load(p, 0); }
[Differentiable] float combined(Sampler2D<float> t, float2 u) { uint status; return t.SampleLevel(u, 0.5, int2(0), status); }
"""


def test_textures_with_a_sampler_have_the_members_of_textures(device, load) -> None:
    module, texture = load(COMBINED), levels_of(device, 3)
    both = {"texture": texture, "sampler": device.create_sampler()}
    places = np.random.default_rng(4).uniform(-1, 2, (20, 2)).astype(F)
    pairs = module.flat(both, places, spy.int2(-1, 1), _result="numpy")
    assert pairs.shape == (20, 9, 2) and (pairs[..., 0] == pairs[..., 1]).all()
    both = {"texture": texture, "sampler": device.create_sampler(**compare_greater)}
    pairs = module.shadow(both, places, 0.5, spy.int2(-1, 1), _result="numpy")
    assert (pairs[..., 0] == pairs[..., 1]).all() and len(np.unique(pairs[:, 0])) > 3
    texels = np.arange(12, dtype=F).reshape(2, 2, 3)
    sampled = device.create_texture(
        type=TYPES.texture_2d_ms, sample_count=2, format=spy.Format.r32_float, width=3, height=2, data=texels
    )
    value = module.samples({"texture": sampled, "sampler": device.create_sampler()}, spy.int2(2, 1))
    assert value == texels[1, 1, 2] + 100 * texels[0, 1, 2]


def test_a_derivative_through_a_status(device, load) -> None:
    module, texture = load(COMBINED), levels_of(device, 5).with_grads()
    both = {"texture": texture, "sampler": device.create_sampler()}
    module.combined.bwds(both, spy.float2(0.5, 0.5))
    first, second = texture.grad.to_numpy(), texture.grad.to_numpy(mip=1)
    assert first.sum() == second.sum() == 0.5 and (first[3:5, 3:5] == 0.125).all()


GENERIC = """
float2 read<let isShadow : int>(
    _Texture<float, __Shape2D, 0, 0, 0, 0, isShadow, 0, 0> flat, _Texture<float, __Shape3D, 0, 0, 0, 0, 0, 0, 0> solid,
    _Texture<float, __Shape2D, 0, 0, 0, 1, 0, 0, 0> written, int2 p)
{
    written[p] = 7;
    return float2(flat[p] + written[p], solid[int3(p, 1)]);
}
float2 shapes(Texture2D<float> flat, Texture3D<float> solid, RWTexture2D<float> written, int2 p)
{
    return read<0>(flat, solid, written, p) + read<1>(flat, solid, written, p) * 10;
}
float combined(_Texture<float, __Shape2D, 0, 0, 0, 0, 0, 1, 0> t) { return t.Load(int3(1, 2, 0)); }
float of_samples(_Texture<float, __Shape2D, 0, 1, 0, 0, 0, 0, 0> t) { return t[int2(0, 0), 1]; }

T sampled<T : ITexelElement>(Texture2D<T> t, SamplerState s, float2 u) { return t.SampleLevel(s, u, 0); }
float2 pairs(Texture2D<float2> t, SamplerState s, float2 u) { return sampled(t, s, u); }
uint numbers(Texture2D<uint> t, SamplerState s, float2 u) { return sampled(t, s, u); }
uint number(Texture2D<uint> t, SamplerState s, float2 u) { return t.SampleLevel(s, u, 0); }
uint four(TextureCube<uint> t, SamplerState s) { return t.Gather(s, float3(0, 0, 1)).x; }
"""


def test_textures_of_the_generic_type_and_in_generic_code(device, load) -> None:
    module, rng = load(GENERIC), np.random.default_rng(6)
    texels, slices = rng.random((4, 4)).astype(F), rng.random((2, 4, 4)).astype(F)
    flat = device.create_texture(format=spy.Format.r32_float, width=4, height=4, data=texels)
    written = device.create_texture(format=spy.Format.r32_float, width=4, height=4)
    solid = device.create_texture(
        type=TYPES.texture_3d, format=spy.Format.r32_float, width=4, height=4, depth=2, data=slices
    )
    x, y = module.shapes(flat, solid, written, spy.int2(1, 3))
    np.testing.assert_allclose([x, y], 11 * np.array([texels[3, 1] + 7, slices[1, 3, 1]]), rtol=1e-6)
    plain = device.create_sampler()
    assert module.combined({"texture": flat, "sampler": plain}) == texels[2, 1]
    sampled = device.create_texture(
        type=TYPES.texture_2d_ms, sample_count=2, format=spy.Format.r32_float, data=np.array([3, 4], F)
    )
    assert module.of_samples(sampled) == 4
    two = device.create_texture(
        format=spy.Format.rg32_float, width=2, height=1, data=np.array([[[1, 2], [3, 6]]], F)
    )
    assert list(module.pairs(two, plain, spy.float2(0.5, 0.5))) == [2, 4]
    whole = device.create_texture(format=spy.Format.r32_uint, width=2, data=np.array([[1, 3]], np.uint32))
    with pytest.raises(CallCompileError, match=r"E0606.*only floats and vectors of floats are sampled"):
        module.numbers(whole, plain, spy.float2(0.5, 0.5))
    with pytest.raises(CallCompileError, match=r"E9001.*'SampleLevel' of 'Texture2D<uint>' is not supported"):
        module.number(whole, plain, spy.float2(0.5, 0.5))
    faces = device.create_texture(type=TYPES.texture_cube, format=spy.Format.r32_uint, width=2, height=2)
    with pytest.raises(CallCompileError, match=r"E9001.*'Gather' of 'TextureCube<uint>' is not supported"):
        module.four(faces, plain)


@pytest.mark.parametrize(
    "arguments",
    ["__Shape2D, 0, 0, 0, 3, 0, 0, 0", "__Shape3D, 1, 0, 0, 0, 0, 0, 0", "int, 0, 0, 0, 0, 0, 0, 0"],
)
def test_generic_types_that_are_no_textures(device, load, arguments) -> None:
    module = load(f"float f(float x) {{ _Texture<float, {arguments}> t; return t[0]; }}")
    with pytest.raises(CallCompileError, match=r"E9001.*there is no such '_Texture'"):
        module.f(1.0)


CUBES = """
struct Sampled { float4 red; float4 green; float4 blue; float2 blended; }
Sampled channels(TextureCube<float2> t, SamplerState s, float3 d)
{
    return { t.Gather(s, d), t.GatherGreen(s, d), t.GatherBlue(s, d), t.SampleLevel(s, d, 0) };
}
float2[2] compared(TextureCubeArray<float> t, SamplerComparisonState c, float4 d, float v)
{
    uint status;
    float4 four = t.GatherCmp(c, d, v, status);
    return { float2(t.SampleCmp(c, d, v), t.SampleCmpLevel(c, d, v, 0.25)), float2(four.x, four.w) };
}
float leveled(TextureCubeArray<float> t, SamplerComparisonState c, float4 d, float v) { return t.SampleCmpLevel(c, d, v, 1); }
"""


@compiled_only
@pytest.mark.parametrize("size", [1, 3])
def test_channels_of_cubes_blend_to_samples(device, load, size) -> None:
    """The weights of a sample over four texels: those of the place on the face, which only one order gives."""
    module, rng = load(CUBES), np.random.default_rng(7)
    texels = rng.random((6, size, size, 2)).astype(F)
    cube = device.create_texture(
        type=TYPES.texture_cube, format=spy.Format.rg32_float, width=size, height=size, data=texels
    )
    directions = rng.normal(size=(300, 3)).astype(F)
    read = module.channels(cube, device.create_sampler(), directions, _result="numpy")
    axis = np.abs(directions).argmax(1)
    away = np.take_along_axis(directions, axis[:, None], 1)[:, 0].astype(float)
    x, y, z = directions.astype(float).T
    right = np.choose(axis, [-z * np.sign(x), x, x * np.sign(z)]) / np.abs(away)
    down = np.choose(axis, [-y, z * np.sign(y), -y]) / np.abs(away)
    a, b = (((place + 1) / 2 * size - 0.5) % 1 for place in (right, down))
    weights = np.stack([(1 - a) * b, a * b, a * (1 - b), (1 - a) * (1 - b)], 1)
    for channel, name in enumerate(("red", "green")):
        blended = (read[name] * weights).sum(1)
        np.testing.assert_allclose(blended, read["blended"][:, channel], rtol=0, atol=1e-5)
    assert not read["blue"].any()


def test_comparisons_of_cubes_blend_levels(device, load) -> None:
    module, rng = load(CUBES), np.random.default_rng(8)
    texels = rng.random((12, 4, 4)).astype(F)
    cubes = device.create_texture(
        type=TYPES.texture_cube_array, format=spy.Format.r32_float, width=4, height=4, array_length=2, mip_count=2,
        data=texels,
    )  # fmt: skip
    cubes.generate_mips()
    compares = device.create_sampler(**compare_greater)
    directions = np.concatenate([rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 1))], 1).astype(F)
    read = module.compared(cubes, compares, directions, 0.5, _result="numpy")
    second = module.leveled(cubes, compares, directions, 0.5, _result="numpy")
    np.testing.assert_allclose(read[:, 0, 1], 0.75 * read[:, 0, 0] + 0.25 * second, rtol=0, atol=1e-6)
    assert len(np.unique(second)) > 3 and 0 < read[:, 1].mean() < 1


CHANNELS = """
float4[4] channels(Texture2D<float> t, SamplerState s, float2 u)
{
    return { t.GatherRed(s, u), t.GatherGreen(s, u), t.GatherBlue(s, u), t.GatherAlpha(s, u) };
}
float4 apart(Texture2D<float2> t, SamplerState s, float2 u)
{
    return t.GatherAlpha(s, u, int2(0, 0), int2(1, 0), int2(0, 1), int2(1, 1));
}
uint4 blue(Texture2D<uint2> t, SamplerState s, float2 u) { return t.GatherBlue(s, u); }
float4 absent(TextureCube<float> t, SamplerState s) { return t.GatherAlpha(s, float3(1, 0.2, 0.1)); }
"""


def test_channels_that_the_type_does_not_have(device, load) -> None:
    module = load(CHANNELS)
    texels = np.random.default_rng(9).integers(0, 256, (4, 4, 4)).astype(np.uint8)
    image = device.create_texture(format=spy.Format.rgba8_unorm, width=4, height=4, data=texels)
    border = (0.25, 0.5, 0.75, 1.0)
    at = device.create_sampler(address_u=spy.TextureAddressingMode.clamp_to_border, border_color=border)
    inside = [texels[2, 1], texels[2, 2], texels[1, 2], texels[1, 1]]
    for channel, values in enumerate(module.channels(image, at, spy.float2(0.5, 0.5))):
        assert list(values) == [F(texel[channel]) / F(255) for texel in inside]
    for channel, values in enumerate(module.channels(image, at, spy.float2(0, 0.5))):
        inner = [F(texels[row, 0, channel]) / F(255) for row in (2, 1)]
        assert list(values) == [border[channel], *inner, border[channel]]
    alphas = [F(texels[row, column, 3]) / F(255) for row, column in ((1, 1), (1, 2), (2, 1), (2, 2))]
    assert list(module.apart(image, at, spy.float2(0.5, 0.5))) == alphas
    whole = device.create_texture(format=spy.Format.rgba8_uint, width=4, height=4, data=texels)
    assert list(module.blue(whole, at, spy.float2(0.5, 0.5))) == [texel[2] for texel in inside]
    cube = device.create_texture(type=TYPES.texture_cube, format=spy.Format.rg8_unorm, width=2, height=2)
    assert list(module.absent(cube, at)) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("Texture3D<float> t, SamplerState s) { return t.Gather(s, float3(0)).x; }", r"E9001.*'Gather' of.*\n(.|\n)*of cubes"),
        ("RWTexture2D<float> t, SamplerState s) { return t.Gather(s, float2(0)).x; }", r"E9001(.|\n)*without RW"),
        ("Texture2D<float> t, SamplerState s) { return t.Smple(s, float2(0)); }", r"E0304(.|\n)*'Sample'"),
    ],
)  # fmt: skip
def test_members_that_a_texture_does_not_have(device, load, body, message) -> None:
    kinds = {"Texture3D": TYPES.texture_3d}
    image = device.create_texture(type=kinds.get(body[:9], TYPES.texture_2d), format=spy.Format.r32_float)
    with pytest.raises((CallCompileError, spy.CompileError), match=message):
        load(f"float f({body}").f(image, device.create_sampler())
