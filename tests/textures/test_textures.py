"""Textures: made, filled and read by Python; as arguments of calls and kernels; texels, levels and sizes in Slang."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError, ResolveException

F = np.float32
FLOATS = {
    1: spy.Format.r32_float,
    2: spy.Format.rg32_float,
    3: spy.Format.rgb32_float,
    4: spy.Format.rgba32_float,
}
TYPES = spy.TextureType


def ramp(*shape, dtype=F):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.fixture
def texture(device):
    """A texture of float4 with two dimensions, and its texels."""

    def make(height=3, width=4, **named):
        texels = ramp(height, width, 4)
        return device.create_texture(
            format=FLOATS[4], width=width, height=height, data=texels, **named
        ), texels

    return make


# --- In Python ---


@pytest.mark.parametrize(
    "kind, sizes, layers",
    [
        ("texture_1d", (8,), 1),
        ("texture_1d_array", (8,), 3),
        ("texture_2d", (5, 8), 1),
        ("texture_2d_array", (5, 8), 3),
        ("texture_3d", (4, 5, 8), 1),
    ],
)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_levels_and_layers_are_written_and_read(device, kind, sizes, layers, channels) -> None:
    names = dict(zip(("width", "height", "depth"), sizes[::-1]))
    made = device.create_texture(
        type=TYPES[kind], format=FLOATS[channels], array_length=layers, mip_count=spy.ALL_MIPS, **names
    )
    assert (made.mip_count, made.layer_count, made.subresource_count) == (4, layers, 4 * layers)
    expected = {}
    for layer in range(layers):
        for mip in range(4):
            shape = [max(size >> mip, 1) for size in sizes] + [channels] * (channels > 1)
            assert not made.to_numpy(layer, mip).any() and made.to_numpy(layer, mip).shape == tuple(shape)
            expected[layer, mip] = ramp(*shape) + 100 * mip + 1000 * layer
            made.copy_from_numpy(expected[layer, mip].astype(F), layer=layer, mip=mip)
    for (layer, mip), texels in expected.items():
        assert (made.to_numpy(layer=layer, mip=mip) == texels).all()


def test_facts_of_a_texture(device) -> None:
    desc = spy.TextureDesc()
    desc.type, desc.format, desc.width, desc.height, desc.depth = TYPES.texture_3d, FLOATS[1], 6, 4, 2
    desc.mip_count, desc.label = spy.ALL_MIPS, "cells"
    made = device.create_texture(desc)
    assert (made.type, made.format, made.width, made.height, made.depth) == (
        TYPES.texture_3d,
        FLOATS[1],
        6,
        4,
        2,
    )
    assert made.mip_count == made.desc.mip_count == 3 and desc.mip_count == spy.ALL_MIPS
    assert (made.label, made.array_length, made.device) == ("cells", 1, device)
    assert made.usage == spy.TextureUsage.shader_resource | spy.TextureUsage.unordered_access
    assert made.get_mip_size(1) == spy.uint3(3, 2, 1) and made.get_mip_width(2) == 1
    assert repr(made) == "Texture(texture_3d, r32_float, 6 x 4 x 2, 3 levels)"
    same = device.create_texture({"format": FLOATS[2], "width": 3}, height=2)
    assert (same.width, same.height, same.to_numpy().shape) == (3, 2, (2, 3, 2))


@pytest.mark.parametrize(
    "named, kind, message",
    [
        ({}, ValueError, "format: a texture needs one"),
        ({"format": "rgba"}, TypeError, "format: expected a Format"),
        ({"format": spy.Format.astc4x4_unorm}, CallError, "E9001.*astc4x4_unorm is not supported"),
        ({"format": spy.Format.bc1_unorm}, CallError, "E9001.*bc1_unorm is not supported"),
        ({"sample_count": 2}, ValueError, "sample_count: a texture_2d has 1, not 2; there is texture_2d_ms"),
        (
            {"type": TYPES.texture_2d_ms, "sample_count": 3},
            ValueError,
            "sample_count: .* 1, 2, 4, 8 or 16 .*, not 3",
        ),
        (
            {"type": TYPES.texture_2d_ms, "width": 4, "mip_count": 2},
            ValueError,
            "mip_count: .* 1 to 1 levels, not 2",
        ),
        ({"type": TYPES.texture_cube, "width": 2}, ValueError, "faces of a cube are squares, not 2 x 1"),
        ({"width": 0}, ValueError, "width: a texture cannot have 0"),
        ({"width": 1.5}, TypeError, "width: expected a whole number, not 1.5"),
        ({"height": -1}, ValueError, "height: a texture cannot have -1"),
        ({"depth": 2}, ValueError, "depth: a texture_2d has 1, not 2"),
        ({"array_length": 2}, ValueError, "array_length: a texture_2d has 1, not 2"),
        ({"type": TYPES.texture_1d, "height": 2}, ValueError, "height: a texture_1d has 1, not 2"),
        ({"width": 4, "mip_count": 4}, ValueError, "has 1 to 3 levels, not 4"),
        ({"mip_count": 0}, ValueError, "has 1 to 1 levels, not 0"),
        ({"width": 1 << 20, "height": 1 << 20}, ValueError, "E1005"),
        ({"wdth": 4}, TypeError, "wdth: a texture has no such argument"),
        ({"data": [1.0]}, TypeError, "data: expected a NumPy array"),
        ({"data": np.zeros((1, 2), F)}, ValueError, r"data: the shape .* is \(1, 2\), .* need \(1, 1\) here"),
        ({"data": np.full((1, 1), 1e300)}, ValueError, "do not all fit into float32"),
    ],
)
def test_what_makes_no_texture(device, named, kind, message) -> None:
    usual = {} if not named else {"format": FLOATS[1]}
    with pytest.raises(kind, match=f"(?s){message}"):
        device.create_texture(**{**usual, **named})


def test_textures_that_are_made_without_create_texture(device) -> None:
    with pytest.raises(ValueError, match=r"error\[E9001\]: format: "):
        spy.Texture(device, spy.TextureDesc(format=spy.Format.bc1_unorm))


def test_levels_that_are_not_there(texture) -> None:
    made, _ = texture()
    with pytest.raises(ValueError, match="mip: 1 is not among the 1 of this texture"):
        made.to_numpy(mip=1)
    with pytest.raises(ValueError, match="layer: -1 is not among the 1"):
        made.copy_from_numpy(ramp(3, 4, 4), layer=-1)
    with pytest.raises(ValueError, match=r"need \(3, 4, 4\) here"):
        made.copy_from_numpy(ramp(4, 3, 4))
    with pytest.raises(TypeError, match="desc: expected a TextureDesc or a dict, not 3"):
        made.device.create_texture(3)


# --- Calls ---

TEXELS = """
float4 at2(Texture2D<float4> t, int2 p) { return t[p]; }
float4 load2(Texture2D<float4> t, int3 p) { return t.Load(p) + t.Load(p, int2(1, 0)); }
float at1(Texture1D<float> t, uint p) { return t[p] + 10 * t.Load(int2(p, 1)); }
void copy1(int1 p, Texture1D<float> a, RWTexture1D<float> b) { b[p] = a[p]; InterlockedAdd(b[p], 1.0); }
float at1s(Texture1DArray<float> t, int2 p) { return t[p] + 10 * t.Load(int3(p, 1), -1); }
float3 at2s(Texture2DArray<float3> t, uint3 p) { return t[p] + 10 * t.Load(int4(p, 1)); }
float2 at3(Texture3D<float2> t, int3 p) { return t[p] + 10 * t.Load(int4(p, 1), int3(0, -1, 0)); }
uint at2u(Texture2D<uint> t, int2 p) { return t[p]; }
float4 twice(float4 x) { return 2 * x; }
T pick<T : ITexelElement>(Texture2D<T> t, int2 p) { return t[p]; }

struct Scene { Texture2D<float4> image; float gain; }
float4 look(Scene scene, int2 p) { return scene.gain * scene.image[p]; }

void copy(int2 p, Texture2D<float4> a, RWTexture2D<float4> b) { b[p] = a[p]; }
void paint(RWTexture2D<float4> t, uint2 p) { t[p] = 1; t[p].y = 2; t[p].zw += t.Load(p).xy; t.Store(p + uint2(1, 0), 7); }
void count(RWTexture3D<uint> t, RWTexture1D<float> sum, uint3 p)
{
    uint before;
    InterlockedAdd(t[p], 1u, before);
    sum.InterlockedAddF32(0u, float(before));
}
float[5] sizes(Texture2D<float> t, RWTexture2DArray<float> u)
{
    uint w, h, levels, layers;
    float width, height, count;
    t.GetDimensions(w, h);
    u.GetDimensions(w, h, layers);
    t.GetDimensions(1, width, height, count);
    t.GetDimensions(3, w, h, levels);
    return { width, height, count, float(w + h), float(layers) };
}
"""


def test_texels_of_all_dimensions(device, load) -> None:
    module = load(TEXELS)
    whole = device.create_texture(format=FLOATS[4], width=4, height=3, mip_count=2, data=ramp(3, 4, 4))
    small = ramp(1, 2, 4) + 100
    whole.copy_from_numpy(small, mip=1)
    places = np.stack(np.meshgrid(np.arange(4), np.arange(3)), -1).astype(np.int32)
    assert (module.at2(whole, places, _result="numpy") == ramp(3, 4, 4)).all()
    assert module.load2(whole, spy.int3(1, 2, 0)) == spy.float4(*(ramp(3, 4, 4)[2, 1] + ramp(3, 4, 4)[2, 2]))
    assert module.load2(whole, spy.int3(0, 0, 1)) == spy.float4(*(small[0, 0] + small[0, 1]))

    def leveled(kind, channels, first, second, **sizes):
        made = device.create_texture(
            type=TYPES[kind], format=FLOATS[channels], mip_count=2, data=first, **sizes
        )
        for layer in range(made.layer_count):
            made.copy_from_numpy(second[layer] if made.layer_count > 1 else second, layer=layer, mip=1)
        return made

    line = leveled("texture_1d", 1, ramp(5), ramp(2) + 1, width=5)
    assert module.at1(line, 1) == 1 + 10 * 2
    target = device.create_texture(type=TYPES.texture_1d, format=FLOATS[1], width=5)
    module.copy1(np.arange(5, dtype=np.int32)[:, None], line, target)
    assert (target.to_numpy() == ramp(5) + 1).all()
    lines = leveled("texture_1d_array", 1, ramp(3, 4), ramp(3, 2) + 1, width=4, array_length=3)
    assert module.at1s(lines, spy.int2(1, 2)) == ramp(3, 4)[2, 1] + 10 * (ramp(3, 2)[2, 0] + 1)
    pages = leveled(
        "texture_2d_array", 3, ramp(2, 3, 4, 3), ramp(2, 1, 2, 3), width=4, height=3, array_length=2
    )
    expected = ramp(2, 3, 4, 3)[1, 0, 1] + 10 * ramp(2, 1, 2, 3)[1, 0, 1]
    assert module.at2s(pages, spy.uint3(1, 0, 1)) == spy.float3(*expected)
    cells = leveled("texture_3d", 2, ramp(4, 4, 4, 2), ramp(2, 2, 2, 2), width=4, height=4, depth=4)
    expected = ramp(4, 4, 4, 2)[1, 1, 0] + 10 * ramp(2, 2, 2, 2)[1, 0, 0]
    assert module.at3(cells, spy.int3(0, 1, 1)) == spy.float2(*expected)
    whole_numbers = device.create_texture(
        format=spy.Format.r32_uint, width=2, data=np.array([[3, 4]], np.uint32)
    )
    assert module.at2u(whole_numbers, spy.int2(1, 0)) == 4


def test_out_of_range_reads_zero_and_is_reported(load, texture) -> None:
    made, texels = texture()
    module = load(TEXELS)
    for index, size, place in ((4, 4, (4, 0)), (-1, 3, (0, -1))):
        with pytest.raises(
            spy.BoundsError, match=f"index {index} is out of range: there are {size} elements"
        ):
            module.at2(made, spy.int2(*place))
    with pytest.raises(spy.BoundsError, match="index 1 is out of range: there is 1 element"):
        module.load2(made, spy.int3(0, 0, 1))
    results = spy.Tensor.empty(made.device, (2,), "float4")
    with pytest.raises(spy.BoundsError):
        module.at2(made, np.array([[9, 9], [1, 1]], np.int32), _result=results)
    assert (results.to_numpy() == [[0, 0, 0, 0], texels[1, 1]]).all()
    with pytest.raises(spy.BoundsError):
        module.paint(made, spy.uint2(3, 0))
    assert (made.to_numpy()[0, 3] == [1, 2, 2, 3]).all() and (made.to_numpy()[1:] == texels[1:]).all()


def test_texels_are_written_and_added_to(device, load, texture) -> None:
    module = load(TEXELS)
    made, texels = texture()
    module.paint(made, spy.uint2(1, 1))
    texels[1, 1:3] = [[1, 2, 2, 3], [7, 7, 7, 7]]
    assert (made.to_numpy() == texels).all()
    cells = device.create_texture(
        type=TYPES.texture_3d, format=spy.Format.r32_uint, width=2, height=3, depth=4
    )
    total = device.create_texture(type=TYPES.texture_1d, format=FLOATS[1])
    module.count(cells, total, np.array([[1, 2, 3]] * 3 + [[0, 0, 0]], np.uint32))
    assert cells.to_numpy()[3, 2, 1] == 3 and cells.to_numpy()[0, 0, 0] == 1 and cells.to_numpy().sum() == 4
    assert total.to_numpy()[0] == 0 + 1 + 2 + 0


def test_sizes_are_told(device, load) -> None:
    plain = device.create_texture(format=FLOATS[1], width=7, height=3, mip_count=2)
    pages = device.create_texture(
        type=TYPES.texture_2d_array, format=FLOATS[1], width=2, height=2, array_length=5
    )
    assert load(TEXELS).sizes(plain, pages) == [3, 1, 2, 0, 5]


def test_calls_take_and_give_texels(device, load, texture) -> None:
    module = load(TEXELS)
    made, texels = texture(mip_count=2)
    assert module.twice(made).shape == (3, 4)
    assert (module.twice(made, _result="numpy") == 2 * texels).all()
    target, _ = texture()
    assert module.twice(made, _result=target) is target and (target.to_numpy() == 2 * texels).all()
    for result in (module.twice(made, _result="texture"), module.twice.return_type(spy.Texture)(made)):
        assert isinstance(result, spy.Texture) and (result.type, result.format) == (
            TYPES.texture_2d,
            FLOATS[4],
        )
        assert (result.to_numpy() == 2 * texels).all()
    assert module.pick(made, spy.int2(3, 2)) == spy.float4(*texels[2, 3])
    assert module.look({"image": made, "gain": 2.0}, spy.int2(3, 2)) == spy.float4(*(2 * texels[2, 3]))
    empty = device.create_texture(format=FLOATS[4], width=4, height=3)
    places = np.stack(np.meshgrid(np.arange(4), np.arange(3)), -1).astype(np.int32)
    module.copy(places, made, empty)
    assert (empty.to_numpy() == texels).all()


def test_what_does_not_fit(device, load, texture) -> None:
    module = load(TEXELS)
    made, _ = texture()
    read_only, _ = texture(usage=spy.TextureUsage.shader_resource)
    unused, _ = texture(usage=spy.TextureUsage.copy_source)
    numbers = device.create_texture(format=spy.Format.rgba32_uint, width=2)
    line = device.create_texture(type=TYPES.texture_1d, format=FLOATS[4], width=2)
    place = spy.int2(0, 0)
    for arguments, message in (
        ((place, unused, made), "its usage has neither shader_resource nor unordered_access"),
        ((place, made, read_only), "Can't pass a read-only Texture2D .* TextureUsage.unordered_access"),
        (
            (place, numbers, made),
            "Texture2D of uint4 does not fit 'Texture2D<float4>': such texels are not converted",
        ),
        ((place, line, made), "Texture1D of float4 does not fit 'Texture2D<float4>'"),
        ((place, ramp(2, 2, 4), made), r"pass a Texture, .* or declare it as ITensor<float4, 2>"),
    ):
        with pytest.raises(ResolveException, match=f"(?s){message}"):
            module.copy(*arguments)
    with pytest.raises(CallError, match=r"(?s)E1011.*Can't write to a read-only.*unordered_access"):
        module.twice(made, _result=read_only)
    with pytest.raises(CallError, match=r"E1011.*a texture has 1 to 3 dimensions, and the call has 0"):
        module.twice(spy.float4(1), _result="texture")
    with pytest.raises(CallError, match=r"E1001.*calls know values of Texture by themselves"):
        spy.register_type(spy.Texture, lambda value: 1)


def test_derivatives_go_around_a_texture(load, texture) -> None:
    module = load(
        "[Differentiable] float4 scaled(Texture2D<float4> t, int2 p, float s) { return s * s * t[p]; }"
    )
    made, texels = texture()
    at = spy.Tensor.from_numpy(made.device, np.array([3], F)).with_grads()
    module.scaled.bwds(made, spy.int2(1, 2), at)
    assert at.grad.to_numpy() == 6 * texels[2, 1].sum()
    with made.device.check_mode():
        pair = module.scaled.fwds(made, spy.int2(1, 2), spy.diffPair(3.0, 1.0))
    assert pair.grad == spy.float4(*(6 * texels[2, 1]))
    module = load("[Differentiable] float4 scaled(float4 x, float s) { return s * x; }")
    with pytest.raises(CallError, match=r"(?s)E1007.*'x' is a Texture2D of float4: pass x.with_grads\(\)"):
        module.scaled.bwds(made, 2.0)
    with pytest.raises(CallError, match=r"(?s)E1007.*attach one: _result = _result.with_grads\(\)"):
        module.scaled.bwds(made, at, _result=made)


# --- Kernels ---


def test_kernels_read_and_write_textures(device, kernel, texture) -> None:
    brighten = kernel("""
        Texture2D<float4> image;
        RWTexture2D<float4> result;

        [shader("compute")] [numthreads(4, 4, 1)]
        void main(uint3 id : SV_DispatchThreadID, uniform float gain)
        {
            uint width, height;
            image.GetDimensions(width, height);
            if (id.x < width && id.y < height)
                result[id.xy] = gain * image[id.xy];
        }
    """)
    image, texels = texture()
    result = device.create_texture(format=FLOATS[4], width=4, height=3)
    brighten.dispatch([4, 3, 1], vars={"image": image, "result": result}, gain=2)
    assert (result.to_numpy() == 2 * texels).all()
    read_only, _ = texture(usage=spy.TextureUsage.shader_resource)
    integers = device.create_texture(format=spy.Format.rgba16_uint, width=4, height=3)
    for value, message in (
        (read_only, "E1019.*make it with TextureUsage.unordered_access"),
        (integers, "E1019.*it is a Texture2D of uint16_t4, and such texels are not converted"),
        (ramp(3, 4, 4), "E1019.*pass a Texture, as device.create_texture"),
    ):
        with pytest.raises(CallError, match=f"(?s){message}"):
            brighten.dispatch([4, 3, 1], vars={"image": image, "result": value}, gain=2)
    with pytest.raises(CallError, match=r"E1018.*'result' of type 'RWTexture2D<float4>' has no value"):
        brighten.dispatch([4, 3, 1], vars={"image": image}, gain=2)


def test_a_texture_of_another_device(load) -> None:
    there = spy.create_device().create_texture(format=spy.Format.r32_float, data=np.ones((1, 1), F))
    with pytest.raises(
        ValueError, match=r"E1022.*the Texture lies on another device\n.*create_texture\(x\.desc"
    ) as error:
        load("float f(Texture2D<float> t) { return t[uint2(0, 0)]; }").f(there)
    here = spy.create_device()
    copy = here.create_texture(there.desc, data=there.to_numpy())
    assert copy.to_numpy() == 1 and "note: copy it: device.create_texture" in str(error.value)
