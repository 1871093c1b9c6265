"""One channel of four texels, comparisons, cubes, textures with samplers of their own, other names: compared with models
in NumPy that are written from the rules of Direct3D and Vulkan."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import ResolveException
from slangrad.runtime.reports import ConvertedTexelError
from tests.backends import COMPILED
from tests.textures.model import corners, texel_index

F = np.float32
MODES = {mode.name: mode for mode in spy.TextureAddressingMode}
FILTERS, TYPES, COMPARISONS = spy.TextureFilteringMode, spy.TextureType, spy.ComparisonFunc
BORDER = (0.25, 0.5, 0.75, 1.0)
compiled_only = pytest.mark.parametrize("device", COMPILED, indirect=True)

TEXT = """
float4 reds(Texture2D<float2> t, SamplerState s, float2 u) { return t.Gather(s, u); }
float4 greens(Texture2D<float2> t, SamplerState s, float2 u) { return t.GatherGreen(s, u, int2(1, -1)); }
float4[3] absent(Texture2D<float2> t, SamplerState s, float2 u)
{
    return { t.GatherRed(s, u), t.GatherBlue(s, u), t.GatherAlpha(s, u) };
}
uint4 whole(Texture2DArray<uint> t, SamplerState s, float3 u) { return t.Gather(s, u); }
float4 apart(Texture2D<float2> t, SamplerState s, float2 u)
{
    return t.GatherRed(s, u, int2(0, 1), int2(2, 0), int2(0, 0), int2(-1, -1));
}

[Differentiable] float share(Texture2D<float> t, SamplerComparisonState s, float2 u, float v) { return t.SampleCmp(s, u, v); }
float4 each(DepthTexture2D t, SamplerComparisonState s, float2 u, float v) { return t.GatherCmp(s, u, v); }
float other(DepthTexture2DArray t, SamplerComparisonState s, float3 u, float v)
{
    return t.SampleCmpLevelZero(s, u, v, int2(1, 0)) + 10 * t.SampleCmpLevel(s, u, v, 1);
}

[Differentiable] float2 around(TextureCube<float2> t, SamplerState s, float3 d) { return t.SampleLevel(s, d, 0); }
float2[3] leveled(TextureCubeArray<float2> t, SamplerState s, float4 d)
{
    return { t.SampleLevel(s, d, 0.5), t.Sample(s, d), t.SampleGrad(s, d, float3(0, 0.5, 0), float3(0)) };
}
float dark(DepthTextureCube t, SamplerComparisonState s, float3 d, float v) { return t.SampleCmp(s, d, v); }
uint4 sizes(TextureCubeArray<float2> t)
{
    uint4 result;
    t.GetDimensions(1, result.x, result.y, result.z, result.w);
    return result;
}

float shadow(Sampler2DShadow t, float2 u, float v) { return t.SampleCmp(u, v) + 10 * t.SampleCmpLevel(u, v, 0); }
[Differentiable] float4 combined(Sampler2D t, float2 u) { return t.Sample(u) + t.SampleLevel(u, 0, int2(1, 0)); }
void put(WTexture2D<float> t, int2 p, float v) { t[p] = v; }
void count(RWTexture2D<uint> t) { InterlockedAdd(t[uint2(0, 0)], 3u); }
"""

PLACES = np.stack(
    [np.roll([0.4375, 0.5, 0.03, 1.0, -0.0625, 1.03125, -0.71875, 2.8125], 3 * k) for k in range(2)], -1
)


def texture(device, texels, format="rg32_float", **named):
    return device.create_texture(
        format=spy.Format[format], width=texels.shape[1], height=texels.shape[0], data=texels, **named
    )


def sampler(device, mode="wrap", kind=FILTERS.linear, **named):
    return device.create_sampler(
        min_filter=kind, mag_filter=kind, mip_filter=kind, address_u=MODES[mode], address_v=MODES[mode],
        border_color=BORDER, **named,
    )  # fmt: skip


def four(texels, place, mode, offset=(0, 0), channel=0):
    """The texels at left below, right below, right above, left above."""
    height, width = texels.shape[:2]
    x, y = (int(np.floor(u * size - 0.5)) + by for u, size, by in zip(place, (width, height), offset))
    result = []
    for dx, dy in ((0, 1), (1, 1), (1, 0), (0, 0)):
        column, row = texel_index(x + dx, width, mode), texel_index(y + dy, height, mode)
        result.append(BORDER[channel] if min(column, row) < 0 else texels[row, column, channel])
    return result


def test_four_texels(device, load) -> None:
    module = load(TEXT)
    texels = np.random.default_rng(1).integers(0, 64, (3, 5, 2)).astype(F) / 8
    image = texture(device, texels)
    places = PLACES.astype(F)
    for mode in MODES:
        at = sampler(device, mode)
        found = module.reds(image, at, places, _result="numpy")
        assert found.tolist() == [four(texels, place, mode) for place in PLACES], mode
        found = module.greens(image, at, places, _result="numpy")
        assert found.tolist() == [four(texels, place, mode, (1, -1), 1) for place in PLACES], mode
        first, blue, alpha = module.absent(image, at, spy.float2(0.4, 0.3))
        assert list(first) == four(texels, (0.4, 0.3), mode)
        assert (list(blue), list(alpha)) == ([0] * 4, [1] * 4)
        offsets = [(0, 1), (2, 0), (0, 0), (-1, -1)]
        expected = [four(texels, (0.4, 0.3), mode, offset)[3] for offset in offsets]
        assert list(module.apart(image, at, spy.float2(0.4, 0.3))) == expected
    numbers = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
    pages = device.create_texture(
        type=TYPES.texture_2d_array,
        format=spy.Format.r32_uint,
        width=4,
        height=3,
        array_length=2,
        data=numbers,
    )
    expected = four(numbers[1][..., None], (0.5, 0.4), "clamp_to_edge")
    assert list(module.whole(pages, sampler(device, "clamp_to_edge"), spy.float3(0.5, 0.4, 1))) == expected


HOLDS = {
    "never": lambda v, t: False, "less": np.less, "equal": np.equal, "less_equal": np.less_equal,
    "greater": np.greater, "not_equal": np.not_equal, "greater_equal": np.greater_equal,
    "always": lambda v, t: True,
}  # fmt: skip


@compiled_only
def test_comparisons_of_every_kind(device, load) -> None:
    module = load(TEXT)
    depths = np.random.default_rng(2).integers(0, 4, (3, 5, 1)).astype(F) / 4
    depths[1, 2] = np.nan
    image = texture(device, depths[..., 0], "r32_float")
    for (name, holds), mode, kind in itertools.product(HOLDS.items(), MODES, FILTERS):
        at = sampler(
            device,
            mode,
            kind,
            reduction_op=spy.TextureReductionOp.comparison,
            comparison_func=COMPARISONS[name],
        )
        for value in (0.5, 0.3):
            found = module.share(image, at, PLACES.astype(F), value, _result="numpy")
            expected = [
                sum(
                    weight * bool(holds(value, BORDER[0] if index is None else depths[index][0]))
                    for index, weight in corners((5, 3), place, mode, kind is FILTERS.linear)
                )
                for place in PLACES
            ]
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=3e-6, err_msg=f"{name} {mode} {kind.name}"
            )
            found = module.each(image, at, PLACES.astype(F), value, _result="numpy")
            expected = [
                [bool(holds(value, texel)) for texel in four(depths, place, mode)] for place in PLACES
            ]
            assert found.tolist() == expected, (name, mode)


def test_comparisons_of_layers_and_their_slope(device, load) -> None:
    module = load(TEXT)
    pages = device.create_texture(
        type=TYPES.texture_2d_array, format=spy.Format.r32_float, width=4, height=2, array_length=2, mip_count=2,
        data=np.arange(16, dtype=F).reshape(2, 2, 4),
    )  # fmt: skip
    pages.generate_mips()
    compare = {"reduction_op": spy.TextureReductionOp.comparison, "comparison_func": COMPARISONS.greater}
    at = sampler(device, "clamp_to_edge", **compare)
    # Layer 1: rows 8 to 11 and 12 to 15; moved by one, the place is between columns 2 and 3. Level 1: 10.5 and 12.5.
    assert module.other(pages, at, spy.float3(0.5, 0.25, 1), 10.5) == 0.5 + 10 * 0
    assert module.other(pages, at, spy.float3(0.5, 0.25, 1), 11.5) == 1 + 10 * 0.5
    image = texture(device, np.array([[0, 1, 1, 0]], F), "r32_float")
    place = spy.Tensor.from_numpy(device, np.array([[0.25, 0.5], [0.5, 0.5]], F), dtype="float2").with_grads()
    module.share.bwds(image, at, place, 0.5)
    assert place.grad.to_numpy().tolist() == [[-4, 0], [0, 0]]  # from 1 to 0 within a texel of 1/4
    with pytest.raises(ResolveException, match="SamplerState"):
        module.share(image, sampler(device), spy.float2(0), 0.5)
    with pytest.raises(ResolveException, match="SamplerComparisonState"):
        module.reds(image, at, spy.float2(0))


# --- Cubes ---

# Of each face: the directions to the right, downwards and away from the center (the table of Vulkan's specification).
FACES = np.array([
    [[0, 0, -1], [0, -1, 0], [1, 0, 0]], [[0, 0, 1], [0, -1, 0], [-1, 0, 0]],
    [[1, 0, 0], [0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 0, -1], [0, -1, 0]],
    [[1, 0, 0], [0, -1, 0], [0, 0, 1]], [[-1, 0, 0], [0, -1, 0], [0, 0, -1]],
])  # fmt: skip


def center(face, x, y, size):
    """The direction of a texel's center, of length 1; x and y may lie outside of the face."""
    s, t = (2 * x + 1) / size - 1, (2 * y + 1) / size - 1
    direction = s * FACES[face][0] + t * FACES[face][1] + FACES[face][2]
    return direction / np.linalg.norm(direction)


def cube_corners(direction, size, linear):
    """The texels of a sample as (face, row, column), and their weights. A texel outside of a face is the one whose center
    has the nearest direction; the one outside of a corner is the mean of the three others."""
    face = max(range(6), key=lambda k: (round(float(FACES[k][2] @ direction), 12), [0, 0, 1, 1, 2, 2][k]))
    right, down, away = FACES[face] @ direction
    x, y = ((part / away + 1) / 2 * size - (0.5 if linear else 0) for part in (right, down))
    if not linear:
        return [((face, min(int(y), size - 1), min(int(x), size - 1)), 1.0)]
    result, missing = [], 0.0
    for dx, dy in itertools.product((0, 1), repeat=2):
        column, row = int(np.floor(x)) + dx, int(np.floor(y)) + dy
        weight = (x % 1 if dx else 1 - x % 1) * (y % 1 if dy else 1 - y % 1)
        outside = [not 0 <= part < size for part in (column, row)]
        if all(outside):
            missing = weight
        elif any(outside):
            wanted = center(face, column, row, size)
            others = [k for k in itertools.product(range(6), range(size), range(size)) if k[0] != face]
            result.append((max(others, key=lambda k: center(k[0], k[2], k[1], size) @ wanted), weight))
        else:
            result.append(((face, row, column), weight))
    if missing or len(result) == 3:
        result = [(index, weight + missing / 3) for index, weight in result]
    return result


def cube(device, size, mips=1, cubes=None, seed=3):
    faces = 6 * (cubes or 1)
    texels = np.random.default_rng(seed).integers(0, 64, (faces, size, size, 2)).astype(F) / 8
    kind = TYPES.texture_cube if cubes is None else TYPES.texture_cube_array
    made = device.create_texture(
        type=kind, format=spy.Format.rg32_float, width=size, height=size, mip_count=mips, data=texels,
        array_length=cubes or 1,
    )  # fmt: skip
    return made, texels


def directions(count, seed=4):
    drawn = np.random.default_rng(seed).normal(size=(count, 3)) * 3
    axes = np.concatenate([np.eye(3), -np.eye(3)]) * 2
    edges = np.array(list(itertools.product((0.9, -0.9), (0.95, -0.95), (1, -1))))
    return np.concatenate([drawn, axes, edges, edges[:, ::-1]]).astype(F)


@compiled_only
@pytest.mark.parametrize("size", [3, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2, 8))])
def test_cubes_sample_across_faces(device, load, size) -> None:
    module = load(TEXT)
    made, texels = cube(device, size)
    made = made.with_grads()
    places = directions(200)
    for kind in FILTERS:
        at, linear = sampler(device, kind=kind), kind is FILTERS.linear
        found = module.around(made, at, places, _result="numpy")
        rows = [cube_corners(place.astype(float), size, linear) for place in places]
        expected = [sum(weight * texels[index] for index, weight in row) for row in rows]
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
        made.grad.clear()
        module.around.bwds(made, at, places)
        weights = np.zeros_like(texels, dtype=float)
        for row in rows:
            for index, weight in row:
                weights[index] += weight
        gradient = np.stack([made.grad.to_numpy(layer=k).reshape(size, size, 2) for k in range(6)])
        np.testing.assert_allclose(gradient, weights, rtol=0, atol=2e-5 * max(1, weights.max()))


@compiled_only
def test_derivatives_of_cubes_by_the_direction(device, load) -> None:
    module = load(TEXT)
    made, texels = cube(device, 3)
    places = directions(30, seed=5)[:30]
    at = sampler(device)
    pair = spy.Tensor.from_numpy(device, places, dtype="float3").with_grads()
    module.around.bwds(made, at, pair)

    def value(place):
        return sum(weight * texels[index] for index, weight in cube_corners(place, 3, True)).sum()

    step = 1e-6
    for k, place in enumerate(places.astype(float)):
        near = [value(place + sign * step * axis) for axis in np.eye(3) for sign in (1, -1)]
        slopes = (np.array(near[::2]) - np.array(near[1::2])) / (2 * step)
        np.testing.assert_allclose(
            pair.grad.to_numpy()[k], slopes, rtol=2e-3, atol=2e-3 * np.abs(slopes).max()
        )
        along = spy.Tensor.from_numpy(device, np.array([[1, -2, 0.5]], F), dtype="float3")
        here = spy.Tensor.from_numpy(device, places[k : k + 1], dtype="float3").with_grads(along)
        if k < 4:
            forward = module.around.fwds(made, at, here).grad.to_numpy().sum()
            np.testing.assert_allclose(forward, pair.grad.to_numpy()[k] @ [1, -2, 0.5], rtol=1e-4, atol=1e-4)


def test_cubes_in_arrays_levels_and_comparisons(device, load) -> None:
    module = load(TEXT)
    made, texels = cube(device, 4, mips=2, cubes=2)
    made.generate_mips()
    assert module.sizes(made) == spy.uint4(2, 2, 2, 2)
    at = sampler(device)
    direction = np.array([0.2, 0.1, 1])
    first, second = (
        sum(weight * level[6:][index] for index, weight in cube_corners(direction, size, True))
        for size, level in (
            (4, texels),
            (2, np.stack([made.to_numpy(layer=k, mip=1) for k in range(12)])),
        )
    )
    between, plain, graded = module.leveled(made, at, spy.float4(0.2, 0.1, 1, 1.2))
    np.testing.assert_allclose(list(plain), first, atol=1e-5)
    np.testing.assert_allclose(list(between), (first + second) / 2, atol=1e-5)
    np.testing.assert_allclose(
        list(graded), first, atol=1e-5
    )  # half of a face is a step of one texel: level 0
    depths = np.arange(24, dtype=F).reshape(6, 2, 2)
    dark = device.create_texture(
        type=TYPES.texture_cube, format=spy.Format.r32_float, width=2, height=2, data=depths
    )
    compare = sampler(
        device, reduction_op=spy.TextureReductionOp.comparison, comparison_func=COMPARISONS.less
    )
    assert module.dark(dark, compare, spy.float3(0, 0, 1), 17.5) == 0.5
    assert module.dark(dark, compare, spy.float3(0, 0, 1), 15.5) == 1
    near = device.create_texture(type=TYPES.texture_cube, format=spy.Format.d16_unorm, width=1, height=1)
    assert module.dark(near, compare, spy.float3(0, 0, 1), -0.5) == 1
    assert module.sizes(cube(device, 4, mips=2)[0]) == spy.uint4(2, 2, 1, 2)  # a cube is an array of one
    for odd in (spy.float3(0), spy.float3(np.nan), spy.float3(np.inf, 1, 1)):
        assert 0 <= module.dark(dark, compare, odd, 5.5) <= 1 or np.isnan(
            module.dark(dark, compare, odd, 5.5)
        )


# --- Other names, atomic operations ---


def test_textures_with_samplers_of_their_own(device, load) -> None:
    module = load(TEXT)
    texels = np.arange(8, dtype=F).reshape(1, 2, 4)
    image, at = texture(device, texels, "rgba32_float"), sampler(device)
    pair = {"texture": image, "sampler": at}
    assert module.combined(pair, spy.float2(0.25, 0.5)) == spy.float4(*(texels[0, 0] + texels[0, 1]))
    learned = image.with_grads()
    module.combined.bwds({"texture": learned, "sampler": at}, spy.float2(0.25, 0.5))
    assert (learned.grad.to_numpy() == 1).all()
    target = device.create_texture(format=spy.Format.r32_float, width=2)
    module.put(target, spy.int2(1, 0), 7)
    assert target.to_numpy().tolist() == [[0, 7]]
    compare = {"reduction_op": spy.TextureReductionOp.comparison, "comparison_func": COMPARISONS.greater}
    pair = {"texture": target, "sampler": sampler(device, "clamp_to_edge", **compare)}
    assert module.shadow(pair, spy.float2(0.5, 0.5), 3) == 0.5 + 10 * 0.5
    with pytest.raises(ResolveException, match="SamplerState"):
        module.shadow({"texture": target, "sampler": at}, spy.float2(0), 1)


def test_atomic_operations_need_texels_as_they_lie(device, load) -> None:
    module = load(TEXT)
    plain = device.create_texture(format=spy.Format.r32_uint)
    module.count(plain)
    assert plain.to_numpy().item() == 3
    for format in ("r8_uint", "r16_uint", "rg32_uint"):
        converted = device.create_texture(format=spy.Format[format])
        with pytest.raises(
            ConvertedTexelError, match=r"E0909.*atomic operations need texels that are stored"
        ):
            module.count(converted)
        assert not converted.to_numpy().any()
