"""Levels that are made from the first, views of levels and layers, bitmaps of textures and textures of bitmaps."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

F = np.float32
TYPES = spy.TextureType

TEXT = """
float4 twice(float4 x) { return 2 * x; }
float4 at(Texture2D<float4> t, int2 p) { return t[p]; }
float4 paged(Texture2DArray<float4> t, int3 p) { return t[p]; }
void put(RWTexture2D<float4> t, int2 p, float4 value) { t[p] = value; }
[Differentiable] float4 square(Texture2D<float4> t, int2 p) { return t[p] * t[p]; }
uint3 sizes(Texture2D<float4> t)
{
    uint3 result;
    t.GetDimensions(0, result.x, result.y, result.z);
    return result;
}
"""


def textured(device, height=5, width=6, mip_count=spy.ALL_MIPS, **named):
    texels = np.random.default_rng(1).random((height, width, 4)).astype(F)
    texture = device.create_texture(
        format=spy.Format.rgba32_float, width=width, height=height, mip_count=mip_count, data=texels, **named
    )
    return texture, texels


def halves(texels, size, axis):
    """Means along an axis by areas, from the definition: texel by texel."""
    count = texels.shape[axis]
    source = np.moveaxis(texels.astype(np.float64), axis, 0)
    result = np.zeros((size, *source.shape[1:]))
    for target in range(size):
        start, end = target * count / size, (target + 1) * count / size
        for k in range(count):
            result[target] += source[k] * max(0, min(end, k + 1) - max(start, k)) / (end - start)
    return np.moveaxis(result, 0, axis)


@pytest.mark.parametrize("sizes", [(1, 1), (5, 6), (8, 8), (7, 1), (13, 9)])
def test_levels_are_means_of_areas(device, sizes) -> None:
    texture, texels = textured(device, *sizes)
    texture.generate_mips()
    assert (texture.to_numpy() == texels).all()
    expected = texels
    for mip in range(1, texture.mip_count):
        height, width = (max(size >> mip, 1) for size in sizes)
        expected = halves(halves(expected, height, 0), width, 1)
        np.testing.assert_allclose(texture.to_numpy(mip=mip), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        texture.to_numpy(mip=texture.mip_count - 1).mean((0, 1)), expected.mean((0, 1)), atol=1e-6
    )


def test_levels_of_other_kinds_and_formats(device) -> None:
    rng = np.random.default_rng(2)
    cells = device.create_texture(
        type=TYPES.texture_3d, format=spy.Format.r16_float, width=4, height=4, depth=2, mip_count=3,
        data=rng.random((2, 4, 4)).astype(np.float16),
    )  # fmt: skip
    cells.generate_mips()
    assert abs(cells.to_numpy(mip=2).item() - cells.to_numpy().astype(F).mean()) < 2e-3
    pages = device.create_texture(
        type=TYPES.texture_2d_array, format=spy.Format.r32_float, width=2, height=2, array_length=3, mip_count=2,
        data=np.arange(12, dtype=F).reshape(3, 2, 2),
    )  # fmt: skip
    encoder = device.create_command_encoder()
    encoder.generate_mips(pages)
    device.submit_command_buffer(encoder.finish())
    assert [pages.to_numpy(layer=k, mip=1).item() for k in range(3)] == [1.5, 5.5, 9.5]
    colors = np.array([[[0, 255, 0, 0], [0, 255, 255, 255]]], np.uint8)
    image = device.create_texture(format=spy.Format.rgba8_unorm_srgb, width=2, mip_count=2, data=colors)
    image.generate_mips()
    assert image.to_numpy(mip=1).tolist() == [[[0, 255, 188, 128]]]  # half of the light is 188 in sRGB
    whole = device.create_texture(format=spy.Format.r32_uint, width=2, mip_count=2)
    with pytest.raises(ValueError, match=r"E9001.*texels of r32_uint have no mean"):
        whole.generate_mips()


def test_views_of_levels(device, load) -> None:
    module = load(TEXT)
    texture, _ = textured(device)
    texture.generate_mips()
    view = device.create_texture_view(texture, mip=1)
    assert (view.texture, view.mip_count, view.width, view.height) == (texture, 2, 3, 2)
    assert (view.subresource_range.mip, view.subresource_range.mip_count) == (1, 2)
    same = texture.create_view(spy.TextureViewDesc({"subresource_range": spy.SubresourceRange({"mip": 1})}))
    assert same.desc == view.desc
    assert (view.to_numpy() == texture.to_numpy(mip=1)).all() and (
        view.to_numpy(mip=1) == texture.to_numpy(mip=2)
    ).all()
    assert module.sizes(view) == spy.uint3(3, 2, 2)
    assert module.at(view, spy.int2(2, 1)) == spy.float4(*texture.to_numpy(mip=1)[1, 2])
    assert (module.twice(view, _result="numpy") == 2 * texture.to_numpy(mip=1)).all()
    with pytest.raises(spy.BoundsError):
        module.at(view, spy.int2(3, 0))
    before = texture.to_numpy()
    last = texture.create_view({"mip": 2, "mip_count": 1, "label": "last"})
    module.put(last, spy.int2(0, 0), spy.float4(7))
    assert (
        (texture.to_numpy(mip=2) == 7).all() and (texture.to_numpy() == before).all() and last.label == "last"
    )
    module.twice(texture.create_view(mip=1, mip_count=1), _result=texture.create_view(mip=1))
    assert (view.to_numpy() == 2 * halves(halves(before, 2, 0), 3, 1).astype(F)).all() or np.allclose(
        view.to_numpy(), 2 * halves(halves(before, 2, 0), 3, 1), atol=1e-6
    )


def test_views_of_layers(device, load) -> None:
    module = load(TEXT)
    texels = np.random.default_rng(3).random((4, 2, 3, 4)).astype(F)
    pages = device.create_texture(
        type=TYPES.texture_2d_array,
        format=spy.Format.rgba32_float,
        width=3,
        height=2,
        array_length=4,
        data=texels,
    )
    view = pages.create_view(layer=1, layer_count=2)
    assert view.array_length == view.layer_count == 2
    assert (view.to_numpy(layer=1) == texels[2]).all()
    assert module.paged(view, spy.int3(2, 1, 1)) == spy.float4(*texels[2, 1, 2])
    with pytest.raises(spy.BoundsError):
        module.paged(view, spy.int3(0, 0, 2))


def test_gradients_of_views_are_views_of_gradients(device, load) -> None:
    module = load(TEXT)
    texture, _ = textured(device)
    texture.generate_mips()
    learned = texture.with_grads()
    level = learned.create_view(mip=1, mip_count=1)
    assert level.grad_in is level.grad_out
    module.square.bwds(level, spy.int2(1, 1))
    expected = np.zeros((2, 3, 4), F)
    expected[1, 1] = 2 * texture.to_numpy(mip=1)[1, 1]
    assert (learned.grad.to_numpy(mip=1) == expected).all() and not learned.grad.to_numpy().any()
    assert level.detach().grad_out is None and (level.detach().to_numpy() == level.to_numpy()).all()


LAYERS = """
[Differentiable]
float at(Texture2DArray<float> t, SamplerState s, float3 uv, float level) { return t.SampleLevel(s, uv, level); }
float texel(Texture2DArray<float> t, int4 p) { return t.Load(p); }
uint4 sizes(Texture2DArray<float> t)
{
    uint4 result;
    t.GetDimensions(0, result.x, result.y, result.z, result.w);
    return result;
}
float facing(TextureCubeArray<float> t, SamplerState s, float4 d, float level) { return t.SampleLevel(s, d, level); }
float behind(Texture2DArray<float>.Handle t, int4 p) { return t.Load(p); }
float both(Texture2DArray<float> t, RWTexture2DArray<float> out, int2 p)
{
    float value = t.Load(int4(p, 1, 1));
    out[int3(p, 0)] = value + 100;
    return value;
}
float one(float x) { return x; }
"""


def layered(device, layers=5, size=8, mip_count=4, kind=TYPES.texture_2d_array):
    """A texture with a number of its own for each texel."""
    texture = device.create_texture(
        type=kind, format=spy.Format.r32_float, width=size, height=size, mip_count=mip_count,
        array_length=layers // (6 if kind is TYPES.texture_cube_array else 1),
    )  # fmt: skip
    for mip in range(mip_count):
        for layer in range(layers):
            level = texture.to_numpy(layer=layer, mip=mip)
            texture.copy_from_numpy(
                np.arange(level.size, dtype=F).reshape(level.shape) + 64 * layer + 1024 * mip, layer, mip
            )
    return texture


def test_views_of_some_layers_of_several_levels(device, load) -> None:
    module, texture = load(LAYERS), layered(device)
    view = texture.create_view(layer=1, layer_count=4, mip=1)
    inner = view.create_view(layer=1, layer_count=2, mip_count=2)  # layers 2 and 3, levels 1 and 2
    line = inner.create_view(mip=1)
    assert module.sizes(inner) == spy.uint4(4, 4, 2, 2) and module.sizes(line) == spy.uint4(2, 2, 2, 1)
    for part, first, low in ((view, 1, 1), (inner, 2, 1), (line, 2, 2)):
        for mip in range(part.mip_count):
            for layer in range(part.layer_count):
                expected = texture.to_numpy(layer=first + layer, mip=low + mip)
                assert (part.to_numpy(layer=layer, mip=mip) == expected).all()
                y, x = np.indices(expected.shape)
                place = np.stack([x, y, np.full_like(x, layer), np.full_like(x, mip)], -1).astype(np.int32)
                assert (module.texel(part, place, _result="numpy") == expected).all()
                assert (module.behind(part, place, _result="numpy") == expected).all()
    assert (module.one(inner, _result="numpy") == np.stack([texture.to_numpy(k, 1) for k in (2, 3)])).all()
    with pytest.raises(spy.BoundsError):
        module.texel(inner, spy.int4(0, 0, 2, 0))
    with pytest.raises(spy.BoundsError):
        module.texel(inner, spy.int4(0, 0, 0, 2))
    copied = inner.copy()
    inner.copy_from_numpy(np.full((2, 2), 7, F), layer=1, mip=1)
    assert (texture.to_numpy(layer=3, mip=2) == 7).all() and (copied.to_numpy(1, 1) != 7).all()
    assert (texture.to_numpy(layer=2, mip=2) == copied.to_numpy(0, 1)).all()
    inner.generate_mips()
    means = texture.to_numpy(3, 1).reshape(2, 2, 2, 2).mean((1, 3))
    assert (texture.to_numpy(3, 2) == means).all() and texture.to_numpy(3, 0)[0, 0] == 3 * 64


def test_cubes_of_an_array_with_levels(device, load) -> None:
    texture = layered(device, 18, kind=TYPES.texture_cube_array)
    cubes = texture.create_view(layer=6, layer_count=12)
    nearest = device.create_sampler(
        mag_filter=spy.TextureFilteringMode.point, min_filter=spy.TextureFilteringMode.point
    )
    value = load(LAYERS).facing(
        cubes, nearest, spy.float4(0, 0, -1, 1), 1.0
    )  # the last face of the last cube
    assert value == texture.to_numpy(layer=17, mip=1)[2, 2]


def test_gradients_of_some_layers_of_several_levels(device, load) -> None:
    module, texture = load(LAYERS), layered(device)
    smooth = device.create_sampler()
    uv, level = np.array([[0.4, 0.3, 0.6], [0.9, 0.7, 1.0]], F), np.array([0.25, 1.5], F)
    cotangent = spy.Tensor.from_numpy(device, np.array([2, 3], F))

    def gradient(view):
        place = spy.Tensor.from_numpy(device, uv, dtype="float3").with_grads()
        result = spy.Tensor.empty(device, (2,), "float").with_grads(cotangent)
        module.at.bwds(view, smooth, place, level, _result=result)
        return place.grad.to_numpy()

    def numbers(view):
        return [view.to_numpy(k, mip) for mip in range(view.mip_count) for k in range(view.layer_count)]

    compact = layered(device, 2, 8, 3)
    learned = texture.with_grads()
    views = [
        texture.create_view(layer=2, layer_count=2, mip_count=3),
        learned.create_view(layer=2, layer_count=2, mip_count=3),
    ]
    for layer in range(2):
        for mip in range(3):
            compact.copy_from_numpy(texture.to_numpy(2 + layer, mip), layer, mip)
    plain = compact.with_grads()
    slope = gradient(plain)
    for view in (views[0].with_grads(), views[1], views[1].copy()):
        assert (gradient(view) == slope).all()
        for seen, expected in zip(numbers(view.grad), numbers(plain.grad)):
            assert (seen == expected).all()
    assert not learned.grad.to_numpy(0, 0).any() and not learned.grad.to_numpy(4, 2).any()
    assert sum(learned.grad.to_numpy(k, mip).sum() for k in range(5) for mip in range(4)) == pytest.approx(5)
    with pytest.raises(
        ValueError, match=r"a gradient with the same layers in memory; use view.new_gradient\(\)"
    ):
        views[0].with_grads(compact.new_gradient())


def test_layers_that_are_read_and_others_that_are_written(device, load) -> None:
    texture = layered(device)
    before = texture.to_numpy(1, 1)
    read, written = (texture.create_view(layer=k, layer_count=2) for k in (0, 2))
    places = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).astype(np.int32)
    assert (load(LAYERS).both(read, written, places, _result="numpy") == before).all()
    assert (texture.to_numpy(2, 0)[:4, :4] == before + 100).all() and (texture.to_numpy(1, 1) == before).all()


def test_views_that_are_not(device) -> None:
    texture, _ = textured(device)
    pages = device.create_texture(
        type=TYPES.texture_2d_array,
        format=spy.Format.r32_float,
        width=4,
        height=4,
        array_length=4,
        mip_count=2,
    )
    cube = device.create_texture(type=TYPES.texture_cube, format=spy.Format.r32_float, width=2, height=2)
    assert cube.layer_count == 6 and cube.array_length == 1 and cube.to_numpy(layer=5).shape == (2, 2)
    for owner, named, kind, message in (
        (texture, {"mip": 3}, ValueError, "mip: 3 is not among the 3 of this texture"),
        (texture, {"mip": 1, "mip_count": 3}, ValueError, "mip_count: 3 from mip 1 on are not among the 3"),
        (texture, {"mip_count": 0}, ValueError, "mip_count: 0 from mip 0"),
        (
            pages,
            {"layer": 3, "layer_count": 2},
            ValueError,
            "layer_count: 2 from layer 3 on are not among the 4",
        ),
        (
            texture,
            {"format": spy.Format.rgba32_uint},
            CallError,
            "E9001.*a view of rgba32_float as rgba32_uint",
        ),
        (cube, {"layer": 1}, ValueError, "six layers for each cube, not 5"),
        (texture, {"level": 1}, TypeError, "level: a view has no such argument; it has format, "),
        (3, {}, TypeError, "texture: expected a Texture, not int"),
    ):
        with pytest.raises(kind, match=message):
            device.create_texture_view(owner, **named)
    with pytest.raises(TypeError, match="desc: expected a TextureViewDesc or a dict, not 3"):
        texture.create_view(3)


def test_data_without_dimensions_and_uploads(device) -> None:
    texels = np.arange(24, dtype=F)
    texture = device.create_texture(
        format=spy.Format.rgba32_float, width=3, height=2, mip_count=2, data=texels
    )
    assert (texture.to_numpy() == texels.reshape(2, 3, 4)).all()
    line = device.create_texture(format=spy.Format.r32_float, width=3, data=np.ones((1, 3, 1), F))
    assert line.to_numpy().tolist() == [[1, 1, 1]]
    encoder = device.create_command_encoder()
    encoder.upload_texture_data(texture, mip=1, data=np.ones((1, 1, 4), F))
    device.submit_command_buffer(encoder.finish())
    assert (texture.to_numpy(mip=1) == 1).all()
    encoder = device.create_command_encoder()
    encoder.upload_texture_data(texture, [np.full((2, 3, 4), 5, F), np.full((1, 1, 4), 6, F)])
    with pytest.raises(ValueError, match=r"shape of the NumPy array is \(2, 2, 4\)"):
        encoder.upload_texture_data(texture, np.ones((2, 2, 4), F))
    with pytest.raises(CallError, match=r"E1021.*1 arrays for 2 levels"):
        encoder.upload_texture_data(texture, [np.ones((2, 3, 4), F)])
    with pytest.raises(CallError, match=r"E1021.*a texture of the encoder's device is needed"):
        encoder.generate_mips(3)
    device.submit_command_buffer(encoder.finish())
    assert (texture.to_numpy() == 5).all() and (texture.to_numpy(mip=1) == 6).all()


def test_texels_are_copied_between_textures(device) -> None:
    source, texels = textured(device)
    target, _ = textured(device, 3, 4)
    before = target.to_numpy()
    encoder = device.create_command_encoder()
    encoder.copy_texture(
        target, 0, 0, spy.uint3(1, 0, 0), source, 0, 0, spy.uint3(2, 3, 0), spy.uint3(2, 2, 1)
    )
    encoder.copy_texture(target, 0, 1, (0, 0, 0), source, 0, 0, (0, 0, 0))
    for offset, extent in (((3, 0, 0), (2, 2, 1)), ((0, 0, 0), (0, 1, 1)), ((4, 0, 0), None)):
        with pytest.raises(CallError, match=r"E1021.*texels are not in both levels"):
            encoder.copy_texture(target, 0, 0, offset, source, 0, 0, (0, 0, 0), extent)
    with pytest.raises(CallError, match=r"E1021.*one format and as many dimensions"):
        other = device.create_texture(format=spy.Format.r32_float)
        encoder.copy_texture(target, 0, 0, (0, 0, 0), other, 0, 0, (0, 0, 0))
    assert (target.to_numpy() == before).all()
    device.submit_command_buffer(encoder.finish())
    before[:2, 1:3] = texels[3:5, 2:4]
    assert (target.to_numpy() == before).all() and (target.to_numpy(mip=1) == texels[:1, :2]).all()


def test_texels_are_copied_to_buffers_and_back(device) -> None:
    source, texels = textured(device)
    layout = source.get_subresource_layout(row_alignment=256)
    height, width = texels.shape[:2]
    assert layout.size == spy.uint3(width, height, 1) and layout.row_pitch == -(-width * 16 // 256) * 256
    assert (layout.slice_pitch, layout.size_in_bytes) == (layout.row_pitch * height,) * 2
    assert (layout.col_pitch, layout.row_count, layout.block_width) == (16, height, 1)
    size, pitch = layout.size_in_bytes, layout.row_pitch
    buffer = device.create_buffer(size=16 + size, data=np.full(16 + size, 7, np.uint8))
    target, _ = textured(device, 3, 4)
    before = target.to_numpy()
    encoder = device.create_command_encoder()
    encoder.copy_texture_to_buffer(buffer, 16, size, pitch, source, 0, 0)
    encoder.copy_buffer_to_texture(target, 0, 0, spy.uint3(1, 0, 0), buffer, 16, size, pitch, (2, 3, 1))
    for wrong in ((16, size, 16), (16, pitch, pitch), (32, size, pitch)):
        with pytest.raises(CallError, match="E1021"):
            encoder.copy_texture_to_buffer(buffer, *wrong, source, 0, 0)
    with pytest.raises(CallError, match=r"E1021.*texels are not in the level"):
        encoder.copy_buffer_to_texture(target, 0, 0, (9, 0, 0), buffer, 16, size, pitch)
    with pytest.raises(ValueError, match="row_alignment: expected at least 1 byte"):
        source.get_subresource_layout(row_alignment=0)
    device.submit_command_buffer(encoder.finish())
    memory = buffer.to_numpy().view(np.uint8)
    rows = memory[16:].reshape(height, pitch)
    assert (rows[:, : 16 * width].copy().view(F).reshape(height, width, 4) == texels).all()
    assert (memory[:16] == 7).all() and (rows[:, 16 * width :] == 7).all()
    before[:3, 1:3] = texels[:3, :2]
    assert (target.to_numpy() == before).all()


def test_bitmaps_and_textures(device, tmp_path) -> None:
    pytest.importorskip("PIL.Image")
    colors = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    bitmap, loader = spy.Bitmap(colors), spy.TextureLoader(device)
    bitmap.write(tmp_path / "a.png")
    texture = loader.load_texture(tmp_path / "a.png", {"generate_mips": True})
    assert repr(texture) == "Texture(texture_2d, rgba8_unorm_srgb, 4 x 2, 3 levels)" and not texture.writable
    rgba = bitmap.convert(spy.Bitmap.PixelFormat.rgba)
    assert texture.to_bitmap() == rgba and texture.to_bitmap(mip=2).width == 1
    plain = loader.load_texture(bitmap, spy.TextureLoader.Options(load_as_srgb=False))
    assert plain.format == spy.Format.rgba8_unorm and plain.mip_count == 1
    whole = loader.load_texture(bitmap, {"load_as_normalized": False, "allocate_mips": True})
    assert whole.format == spy.Format.rgba8_uint and whole.mip_count == 3
    floats = bitmap.convert(component_type=spy.Bitmap.ComponentType.float32, srgb_gamma=False)
    assert loader.load_texture(floats, {"extend_alpha": False}).format == spy.Format.rgb32_float
    gray = spy.Bitmap(colors[..., 0])
    assert loader.load_texture(gray).format == spy.Format.r8_unorm
    pair = spy.Bitmap(colors[..., :2])
    assert loader.load_texture(pair).format == spy.Format.rgba8_unorm_srgb
    kept = {"ya_handling": spy.TextureLoader.YAHandling.preserve_as_rg}
    assert loader.load_texture(pair, kept).format == spy.Format.rg8_unorm
    array = loader.load_texture_array([bitmap, tmp_path / "a.png"])
    assert (array.type, array.array_length) == (TYPES.texture_2d_array, 2)
    assert array.to_bitmap(layer=1) == rgba
    assert [texture.width for texture in loader.load_textures([bitmap, gray])] == [4, 4]
    blue = device.create_texture(format=spy.Format.bgra8_unorm, data=np.array([[[1, 2, 3, 4]]], np.uint8))
    assert np.asarray(blue.to_bitmap()).tolist() == [[[3, 2, 1, 4]]]
    for make, kind, message in (
        (lambda: loader.load_texture_array([bitmap, gray]), ValueError, "one size and one format, and there are 2"),
        (lambda: loader.load_texture(3), TypeError, "expected a Bitmap or a path, not int"),
        (lambda: loader.load_texture(bitmap, {"mips": True}), TypeError, "mips: there is no such option; there are load_as"),
        (lambda: loader.load_texture(spy.Bitmap(colors.astype(np.float64))), ValueError, "E9001.*4 channels of float64"),
        (lambda: device.create_texture(type=TYPES.texture_1d, format=spy.Format.r8_unorm).to_bitmap(), ValueError,
         "a texture_1d is no image"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            make()
