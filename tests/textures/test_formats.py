"""Formats of texels that are converted: every one with all filters, modes and dimensions, compared with a model that is
written from the rules of Direct3D and Vulkan."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError, ResolveException
from tests.backends import COMPILED
from tests.textures.model import PACKED, corners, unpacked

F = np.float32
MODES = {mode.name: mode for mode in spy.TextureAddressingMode}
FILTERS = spy.TextureFilteringMode
BORDER = (0.25, 0.5, 0.75, 1.0)
CHANNELS = {"r": 1, "d": 1, "rg": 2, "rgb": 3, "rgba": 4, "bgra": 4}
COLORS = [
    f"{channels}{bits}_{kind}"
    for bits, kinds in ((8, ("unorm", "snorm")), (16, ("unorm", "snorm", "float")), (32, ("float",)))
    for kind in kinds
    for channels in ("r", "rg", "rgba")
] + ["rgb32_float", "d32_float", "d16_unorm", "rgba8_unorm_srgb", "bgra8_unorm", "bgra8_unorm_srgb", *PACKED]
INTEGERS = [
    f"{channels}{bits}_{kind}"
    for bits in (8, 16, 32) for kind in ("uint", "sint") for channels in ("r", "rg", "rgba")
]  # fmt: skip

SHADER = """
TextureND<float4> image;
RWTextureND<float4> target;
SamplerState smooth;
StructuredBuffer<Place> places;
StructuredBuffer<float4> colors;
RWStructuredBuffer<float4> results;

[shader("compute")] [numthreads(8, 1, 1)]
void sampled(uint3 id : SV_DispatchThreadID)
{
    results[id.x] = image.SampleLevel(smooth, places[id.x], 0);
}

[shader("compute")] [numthreads(32, 1, 1)]
void stored(uint3 id : SV_DispatchThreadID)
{
    Index index = Index(0);
    INDEX = int(id.x);
    target[index] = colors[id.x];
}
"""


def shader(rank):
    place, index = ("float", "int") if rank == 1 else (f"float{rank}", f"int{rank}")
    text = SHADER.replace("INDEX", "index" if rank == 1 else "index.x").replace("Place", place)
    return text.replace("Index", index).replace("ND", f"{rank}D")


def parts(format):
    """Channels, bits and the kind of numbers."""
    name, _, kind = format.partition("_")
    channels = name.rstrip("0123456789")
    return CHANNELS[channels], int(name[len(channels) :]), kind, channels == "bgra"


def dtype(bits, kind):
    signs = {"unorm": "u", "unorm_srgb": "u", "uint": "u", "snorm": "i", "sint": "i", "float": "f"}
    return np.dtype(f"{signs[kind]}{bits // 8}")


def values(format, numbers):
    """The colors that the rules give to numbers in memory; the last dimension has as many as the format channels."""
    if format in PACKED:
        words = numbers if numbers.shape[-1] == 1 else numbers.view(np.uint32)
        return np.array([unpacked(format, word) for word in words.ravel()]).reshape(*words.shape[:-1], 4)
    count, bits, kind, exchanged = parts(format)
    colors = numbers.astype(np.float64)
    if kind.startswith("unorm"):
        colors = colors / (2**bits - 1)
    if kind == "snorm":
        colors = np.maximum(colors / (2 ** (bits - 1) - 1), -1)
    if exchanged:
        colors = colors[..., [2, 1, 0, 3]]
    if kind == "unorm_srgb":
        color = colors[..., :3]
        colors[..., :3] = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    absent = np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*colors.shape[:-1], 4))
    return np.concatenate([colors, absent[..., count:]], -1)


def numbers_of(format, rng, shape):
    if format in PACKED:
        return packed_numbers(format, rng, shape)
    count, bits, kind, _ = parts(format)
    drawn = rng.integers(0, 256, (*shape, count * bits // 8)).astype(np.uint8)
    if kind == "float":
        return rng.normal(size=(*shape, count)).astype(dtype(bits, kind))
    return drawn.view(dtype(bits, kind))


def packed_numbers(format, rng, shape):
    """Words of 16 or 32 bits, bytes where a channel is one; finite numbers up to 2."""
    if format.startswith("bgrx8"):
        return rng.integers(0, 256, (*shape, 4)).astype(np.uint8)
    bits = sum(int(part[1:]) for part in PACKED[format].split())
    words = rng.integers(0, 1 << bits, (*shape, 1)).astype(np.uint16 if bits == 16 else np.uint32)
    if format == "r11g11b10_float":
        return words & np.uint32(sum(0b01111_111111 << low for low in (0, 11)) | 0b01111_11111 << 22)
    return words & np.uint32((1 << 31) - 1) if format == "rgb9e5_ufloat" else words


def texture(device, format, numbers, rank):
    names = dict(zip(("width", "height", "depth"), numbers.shape[:rank][::-1]))
    return device.create_texture(
        type=spy.TextureType[f"texture_{rank}d"], format=spy.Format[format],
        data=numbers if numbers.shape[-1] > 1 else numbers[..., 0], **names,
    )  # fmt: skip


def buffer(device, array):
    return device.create_buffer(
        data=array, usage=spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access,
        struct_size=array.itemsize * array.shape[-1],
    )  # fmt: skip


@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize(
    "rank", [1, pytest.param(2, marks=pytest.mark.deep), pytest.param(3, marks=pytest.mark.deep)]
)
def test_samples_of_every_format(device, kernel, rank) -> None:
    main = kernel(shader(rank), "sampled")
    rng = np.random.default_rng(rank)
    inside = [0.4375, 0.5, 0.0, 1.0, -0.0625, 1.03125, -0.71875, 2.8125]
    places = np.stack([np.roll(inside, 3 * k) for k in range(rank)], -1).astype(F)
    at, results = buffer(device, places), buffer(device, np.zeros((len(places), 4), F))
    shape = (4, 3, 5)[3 - rank :]
    numbers = {format: numbers_of(format, rng, shape) for format in COLORS}
    images = {format: texture(device, format, numbers[format], rank) for format in COLORS}
    for format, image in images.items():
        assert (image.to_numpy().reshape(numbers[format].shape) == numbers[format]).all()
    for (name, mode), filter in itertools.product(MODES.items(), FILTERS):
        smooth = device.create_sampler(
            min_filter=filter, mag_filter=filter, address_u=mode, address_v=mode, address_w=mode,
            border_color=BORDER,
        )  # fmt: skip
        weights, outside = np.zeros((len(places), *shape)), np.zeros(len(places))
        for k, place in enumerate(places):
            for index, weight in corners(shape[::-1], place, name, filter is FILTERS.linear):
                if index is None:
                    outside[k] += weight
                else:
                    weights[(k, *index)] += weight
        for format, image in images.items():
            main.dispatch(
                [len(places), 1, 1],
                vars={"image": image, "smooth": smooth, "places": at, "results": results},
            )
            colors = values(format, numbers[format])
            expected = np.tensordot(weights, colors, rank) + np.outer(outside, BORDER)
            found = results.to_numpy().view(F).reshape(-1, 4)
            np.testing.assert_allclose(found, expected, atol=3e-6, err_msg=f"{format} {name} {filter.name}")


@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize(
    "rank", [2, pytest.param(1, marks=pytest.mark.deep), pytest.param(3, marks=pytest.mark.deep)]
)
def test_stores_take_the_nearest_number(device, kernel, rank) -> None:
    """What lies outside becomes an end of the range, and NaN zero."""
    main, rng = kernel(shader(rank), "stored"), np.random.default_rng(9)
    odd = [[0, 0.5, 1, 2], [-0.1, -1, -3, 0.3], [np.nan, np.inf, -np.inf, 0.25], [1e-4, 0.002, 0.5, 0.999]]
    colors = np.concatenate([odd, rng.uniform(-1.2, 1.2, (28, 4))]).astype(F)
    for format in COLORS:
        named = {"height": 1} if rank > 1 else {}
        image = device.create_texture(
            type=spy.TextureType[f"texture_{rank}d"], format=spy.Format[format], width=32, **named
        )
        main.dispatch([32, 1, 1], vars={"target": image, "colors": buffer(device, colors)})
        if format in PACKED:
            assert_nearest(
                format, values(format, image.to_numpy().reshape(32, -1)), colors.astype(np.float64)
            )
            continue
        count, bits, kind, exchanged = parts(format)
        stored = image.to_numpy().reshape(32, count)
        if kind == "float":
            wanted = colors[:, :count].astype(dtype(bits, kind))
            assert np.array_equal(stored, wanted, equal_nan=True), format
            continue
        wanted = np.nan_to_num(colors.astype(np.float64))[:, :count]
        wanted = np.clip(wanted, -1 if kind == "snorm" else 0, 1)
        if kind == "unorm_srgb":
            color = wanted[:, :3]
            wanted[:, :3] = np.where(color <= 0.0031308, color * 12.92, 1.055 * color ** (1 / 2.4) - 0.055)
        wanted = wanted[:, [2, 1, 0, 3]] if exchanged else wanted
        most = 2 ** (bits - (kind == "snorm")) - 1
        assert np.abs(stored - wanted * most).max() < 0.51, format


def assert_nearest(format, stored, colors):
    """No value of the format is nearer than half of its step at the color."""
    channels = [part[0] for part in PACKED[format].split() if part[0] in "RGBA"]
    for channel, bits in ((part[0], int(part[1:])) for part in PACKED[format].split() if part[0] in channels):
        at = "RGBA".index(channel)
        color, value = colors[:, at], stored[:, at]
        if format == "r11g11b10_float":
            assert (np.isnan(color) == np.isnan(value)).all() and (value[color == np.inf] == np.inf).all()
            finite = np.isfinite(color)
            error = np.abs(value[finite] - np.maximum(color[finite], 0))
            assert (error <= np.maximum(color[finite] * 2.0 ** (4 - bits), 2.0 ** (-9 - bits))).all()
        elif format == "rgb9e5_ufloat":
            inside = np.clip(np.nan_to_num(colors[:, :3], posinf=65408), 0, 65408)
            error = np.abs(value - inside[:, at])
            assert (error <= np.maximum(inside.max(-1) * 2.0**-9, 2.0**-25)).all()
        else:
            inside, most = np.clip(np.nan_to_num(color), 0, 1), 2**bits - 1
            if format.endswith("srgb") and channel != "A":
                inside, value = (
                    np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055)
                    for c in (inside, value)
                )
            assert np.abs(value - inside).max() <= 0.51 / most, format


TEXT = """
float4 color(Texture2D<float4> t, int2 p) { return t[p]; }
float red(Texture2D<float> t, int2 p) { return t[p]; }
T any<T : ITexelElement>(Texture2D<T> t, int2 p) { return t[p]; }
uint4 natural(Texture2D<uint4> t, int2 p) { return t[p]; }
int4 whole(Texture2D<int4> t, int2 p) { return t[p]; }
void put_natural(RWTexture2D<uint4> t, int2 p, uint4 v) { t[p] = v; }
void put_whole(RWTexture2D<int4> t, int2 p, int4 v) { t[p] = v; }
float4 half_of(float4 x) { return x / 2; }
float3 half_of_three(float3 x) { return x / 2; }
[Differentiable] float4 at(Texture2D<float4> t, SamplerState s, float2 u) { return t.SampleLevel(s, u, 0); }
[Differentiable] float4 twice(float4 x) { return 2 * x; }
"""


@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize(
    "format", [pytest.param(f, marks=pytest.mark.deep) for f in INTEGERS if f != "rg8_sint"] + ["rg8_sint"]
)
def test_integers_are_widened_and_clamped(device, load, format) -> None:
    module, rng = load(TEXT), np.random.default_rng(3)
    count, _, kind, _ = parts(format)
    numbers = numbers_of(format, rng, (2, 3))
    image = texture(device, format, numbers, 2)
    read, write = (module.natural, module.put_natural) if kind == "uint" else (module.whole, module.put_whole)
    places = np.stack(np.meshgrid(np.arange(3), np.arange(2)), -1).astype(np.int32)
    found = read(image, places, _result="numpy")
    assert (found[..., :count] == numbers).all()
    assert (found[..., count:] == [0, 0, 0, 1][count:]).all()
    ends = np.iinfo(numbers.dtype)
    values = [300, 70000, 2**31 - 1, 5] if kind == "uint" else [-(2**31), 300, -70000, 2**31 - 1]
    write(image, spy.int2(1, 1), (spy.uint4 if kind == "uint" else spy.int4)(*values))
    stored = image.to_numpy().reshape(2, 3, count)[1, 1]
    assert stored.tolist() == np.clip(values, int(ends.min), int(ends.max)).tolist()[:count]


@pytest.mark.parametrize("device", COMPILED, indirect=True)
def test_packed_texels_in_calls(device, load) -> None:
    """Words, integers of ten bits, bitmaps, means and texels for each call."""
    module = load(TEXT)
    place = spy.int2(0, 0)
    image = device.create_texture(
        format=spy.Format.rgb10a2_uint, data=np.array([[3 | 1023 << 10 | 5 << 20 | 2 << 30]], np.uint32)
    )
    assert list(module.natural(image, place)) == [3, 1023, 5, 2]
    module.put_natural(image, place, spy.uint4(7, 1024, 0, 9))
    assert image.to_numpy().tolist() == [[7 | 1023 << 10 | 3 << 30]]
    words = np.array([[0x3C0 | 0x3C0 << 11 | 0x1E0 << 22, 0]], np.uint32)  # one and zero
    image = device.create_texture(
        format=spy.Format.r11g11b10_float, width=2, data=words, mip_count=spy.ALL_MIPS
    )
    assert list(module.color(image, place)) == [1, 1, 1, 1] and module.red(image, spy.int2(1, 0)) == 0
    image.generate_mips()
    assert image.to_numpy(mip=1).tolist() == [[0x380 | 0x380 << 11 | 0x1C0 << 22]]
    assert (np.array(image.to_bitmap()) == [[[1] * 3, [0] * 3]]).all()
    assert (module.half_of_three(image, _result="numpy") == [[[0.5] * 3, [0] * 3]]).all()
    image = device.create_texture(format=spy.Format.bgrx8_unorm, data=np.array([[[255, 0, 51, 9]]], np.uint8))
    np.testing.assert_allclose(list(module.color(image, place)), [0.2, 0, 1, 1], atol=1e-7)
    for format in ("bc1_unorm", "d32_float_s8_uint", "astc4x4_unorm"):
        with pytest.raises(ValueError, match=f"E9001.*{format} is not supported"):
            device.create_texture(format=spy.Format[format])


def test_calls_see_values(device, load) -> None:
    module = load(TEXT)
    numbers = np.array([[[0, 51, 102, 255], [255, 204, 153, 0]]], np.uint8)
    image = texture(device, "rgba8_unorm", numbers, 2)
    expected = numbers / F(255)
    for function in (module.color, module.any):
        np.testing.assert_allclose(list(function(image, spy.int2(1, 0))), expected[0, 1], atol=1e-7)
    assert module.red(image, spy.int2(1, 0)) == 1
    np.testing.assert_allclose(module.half_of(image, _result="numpy"), expected / 2, atol=1e-7)
    assert module.half_of(image, _result=image) is image
    assert np.abs(image.to_numpy() - numbers / 2).max() <= 0.5
    with pytest.raises(ResolveException, match=r"Texture2D of float4 does not fit 'Texture2D<uint4>'"):
        module.natural(image, spy.int2(0, 0))
    one = device.create_texture(format=spy.Format.r8_unorm, width=2, data=np.array([[255, 0]], np.uint8))
    assert module.color(one, spy.int2(0, 0)) == spy.float4(1, 0, 0, 1)


@pytest.mark.parametrize("device", COMPILED, indirect=True)
def test_texels_of_eight_bits_have_gradients(device, load) -> None:
    module, numbers = load(TEXT), np.array([[[0, 51, 102, 255], [255, 204, 153, 0]]], np.uint8)
    image = texture(device, "rgba8_unorm", numbers, 2).with_grads()
    assert image.grad.format == spy.Format.rgba32_float
    module.at.bwds(image, device.create_sampler(), spy.float2(0.375, 0.5))
    assert (image.grad.to_numpy() == [[[0.75] * 4, [0.25] * 4]]).all()
    module.twice.bwds(image)
    assert (image.grad.to_numpy() == [[[2.75] * 4, [2.25] * 4]]).all()
    one = device.create_texture(format=spy.Format.r8_unorm).with_grads()
    with pytest.raises(CallError, match=r"(?s)E1007.*texels of type float.*declare it Texture2D<float>"):
        module.at.bwds(one, device.create_sampler(), spy.float2(0.5))
