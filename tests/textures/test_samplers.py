"""Samples of textures, compared with the model."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallCompileError, CallError, ResolveException
from tests.backends import COMPILED
from tests.textures.model import sample as model

F = np.float32
MODES = {mode.name: mode for mode in spy.TextureAddressingMode}
FILTERS = spy.TextureFilteringMode
TYPES = spy.TextureType
BORDER = (0.25, 0.5, 0.75, 1.0)


def sampler(device, mode="wrap", kind=FILTERS.linear, **named):
    return device.create_sampler(
        min_filter=kind, mag_filter=kind, mip_filter=FILTERS.point,
        address_u=MODES[mode], address_v=MODES[mode], address_w=MODES[mode], border_color=BORDER, **named,
    )  # fmt: skip


# Three tests have kernels enough for one backend; the others run interpreted, too.
compiled_only = pytest.mark.parametrize("device", COMPILED, indirect=True)

TEXT = """
[Differentiable] float4 at1(Texture1D<float4> t, SamplerState s, float u) { return t.Sample(s, u); }
[Differentiable] float2 at2(Texture2D<float2> t, SamplerState s, float2 u) { return t.Sample(s, u); }
[Differentiable] float at3(Texture3D<float> t, SamplerState s, float3 u) { return t.Sample(s, u); }
[Differentiable]
float4 leveled(Texture2D<float4> t, SamplerState s, float2 u, float level) { return t.SampleLevel(s, u, level); }
float4[3] others(Texture2D<float4> t, SamplerState s, float2 u, float bias, float2 x, float2 y)
{
    return { t.SampleBias(s, u, bias), t.SampleGrad(s, u, x, y), t.Sample(s, u, int2(1, -2)) };
}
float4 layered(Texture2DArray<float4> t, SamplerState s, float3 u) { return t.SampleLevel(s, u, 0, int2(0, 1)); }
float lined(Texture1DArray<float> t, SamplerState s, float2 u) { return t.Sample(s, u); }
"""

# Inside, at centers, at edges of texels and of the texture, far outside.
PLACES = [0.4375, 0.5, 0.0, 1.0, -0.0625, 1.03125, -0.71875, 1.8125, -2.3125, 7.59375]


@pytest.mark.parametrize(
    "name", [pytest.param("1", marks=pytest.mark.deep), "2", pytest.param("3", marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("kind", [FILTERS.point, FILTERS.linear])
def test_samples_of_every_mode_and_dimension(device, load, kind, name) -> None:
    module, linear = load(TEXT), kind is FILTERS.linear
    rng = np.random.default_rng(5)
    rank, shape = int(name), {"1": (5, 4), "2": (3, 4, 2), "3": (2, 3, 4, 1)}[name]
    texels = rng.integers(0, 64, shape).astype(F) / 8
    names = dict(zip(("width", "height", "depth"), shape[:-1][::-1]))
    format = {4: spy.Format.rgba32_float, 2: spy.Format.rg32_float, 1: spy.Format.r32_float}[shape[-1]]
    made = device.create_texture(
        type=TYPES[f"texture_{name}d"], format=format, data=texels[..., 0] if rank == 3 else texels, **names
    )
    places = np.stack([np.roll(PLACES, 3 * k) for k in range(rank)], -1).astype(F)
    for mode in MODES:
        values = getattr(module, f"at{name}")(
            made, sampler(device, mode, kind), places[:, 0] if rank == 1 else places, _result="numpy"
        )
        expected = [model(texels.astype(float), place, mode, linear) for place in places.astype(float)]
        values = values.reshape(len(PLACES), -1)
        np.testing.assert_allclose(values, expected, rtol=0, atol=3e-6, err_msg=f"{name} {mode}")


def test_edges_are_exact(device, load) -> None:
    texels = np.array([[1, 2, 4, 8]], F)
    line = device.create_texture(format=spy.Format.r32_float, width=4, data=texels)
    module = load(
        "float at(Texture2D<float> t, SamplerState s, float u) { return t.Sample(s, float2(u, 0.5)); }"
    )
    places = np.array([0, 0.125, 0.25, 0.875, 1, -0.125, 1.125, -0.25, 1.25], F)
    expected = {
        "wrap": [4.5, 1, 1.5, 8, 4.5, 8, 1, 6, 1.5],
        "clamp_to_edge": [1, 1, 1.5, 8, 8, 1, 8, 1, 8],
        "clamp_to_border": [0.625, 1, 1.5, 8, 4.125, 0.25, 0.25, 0.25, 0.25],
        "mirror_repeat": [1, 1, 1.5, 8, 8, 1, 8, 1.5, 6],
        "mirror_once": [1, 1, 1.5, 8, 8, 1, 8, 1.5, 8],
    }
    for mode, values in expected.items():
        assert module.at(line, sampler(device, mode), places, _result="numpy").tolist() == values, mode
    nearest = sampler(device, "wrap", FILTERS.point)
    assert module.at(line, nearest, places, _result="numpy").tolist() == [1, 1, 2, 8, 1, 8, 1, 8, 2]


@compiled_only
def test_offsets_layers_and_levels(device, load) -> None:
    module = load(TEXT)
    rng = np.random.default_rng(6)
    levels = [rng.random((4 >> k, 8 >> k, 4)).astype(F) for k in range(3)]
    made = device.create_texture(
        format=spy.Format.rgba32_float, width=8, height=4, mip_count=3, data=levels[0]
    )
    for mip, level in enumerate(levels):
        made.copy_from_numpy(level, mip=mip)
    place = (0.84375, -0.15625)

    def near(value, expected):
        np.testing.assert_allclose(np.array(list(value)), expected, rtol=0, atol=2e-6)

    for mode in MODES:
        at = sampler(device, mode)
        values = [model(level, place, mode, True) for level in levels]
        near(module.leveled(made, at, spy.float2(*place), 1.4), values[1])
        between = device.create_sampler(at.desc, mip_filter=FILTERS.linear, mip_lod_bias=0.25, max_lod=1.75)
        near(module.leveled(made, between, spy.float2(*place), 0.5), values[0] * 0.25 + values[1] * 0.75)
        near(module.leveled(made, between, spy.float2(*place), 9.0), values[1] * 0.25 + values[2] * 0.75)
        near(module.leveled(made, between, spy.float2(*place), -9.0), values[0])
        steps = spy.float2(0.25, 0), spy.float2(0, 0.25)  # two texels of the first level, and one
        biased, graded, moved = module.others(made, between, spy.float2(*place), 1.0, *steps)
        near(biased, values[1] * 0.75 + values[2] * 0.25)
        near(graded, values[1] * 0.75 + values[2] * 0.25)
        near(moved, sum(
            part * model(level, place, mode, True, (1, -2)) for part, level in ((0.75, levels[0]), (0.25, levels[1]))
        ))  # fmt: skip
        biased, graded, moved = module.others(made, at, spy.float2(*place), 1.0, spy.float2(0), spy.float2(0))
        near(graded, values[0])
        near(moved, model(levels[0], place, mode, True, (1, -2)))
    magnified = device.create_sampler(sampler(device).desc, mag_filter=FILTERS.point)
    near(module.leveled(made, magnified, spy.float2(*place), 0.0), model(levels[0], place, "wrap", False))
    near(module.leveled(made, magnified, spy.float2(*place), 1.0), model(levels[1], place, "wrap", True))

    pages = rng.random((3, 4, 8, 4)).astype(F)
    array = device.create_texture(
        type=TYPES.texture_2d_array,
        format=spy.Format.rgba32_float,
        width=8,
        height=4,
        array_length=3,
        data=pages,
    )
    for number, layer in ((-1.0, 0), (0.4, 0), (0.6, 1), (1.5, 2), (9.0, 2)):
        value = module.layered(array, sampler(device), spy.float3(*place, number))
        near(value, model(pages[layer], place, "wrap", True, (0, 1)))
    lines = rng.random((2, 8)).astype(F)
    array = device.create_texture(
        type=TYPES.texture_1d_array, format=spy.Format.r32_float, width=8, array_length=2, data=lines
    )
    near(
        [module.lined(array, sampler(device), spy.float2(0.3, 1.0))],
        model(lines[1][:, None], [F(0.3)], "wrap", True),
    )


@compiled_only
def test_derivatives_by_the_place(device, load) -> None:
    """Between two texels a sample is linear in each coordinate, so differences of numbers with few bits are exact."""
    function, step = load(TEXT).at2, 2.0**-6
    texels = np.random.default_rng(7).integers(0, 32, (2, 4, 2)).astype(F)
    made = device.create_texture(format=spy.Format.rg32_float, width=4, height=2, data=texels)
    near = np.array([0.3125, 0.6875, -0.1875, 1.1875, -1.3125], F)
    places = np.stack([near, np.roll(near, 1)], -1)
    for mode in MODES:
        at = sampler(device, mode)
        pair = spy.Tensor.from_numpy(device, places, dtype="float2").with_grads()
        function.bwds(made, at, pair)
        for k in range(2):
            direction = np.zeros_like(places)
            direction[:, k] = 1
            ends = [function(made, at, places + sign * step * direction, _result="numpy") for sign in (1, -1)]
            difference = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(
                pair.grad.to_numpy()[:, k], difference.sum(-1), atol=2e-4, err_msg=mode
            )
            tangent = spy.Tensor.from_numpy(device, direction, dtype="float2")
            forward = function.fwds(made, at, pair.detach().with_grads(tangent))
            np.testing.assert_allclose(forward.grad.to_numpy(), difference, atol=2e-4, err_msg=mode)
    pair = spy.Tensor.from_numpy(device, places, dtype="float2").with_grads()
    function.bwds(made, sampler(device, "wrap", FILTERS.point), pair)
    assert not pair.grad.to_numpy().any()


@pytest.mark.deep
def test_derivatives_by_a_third_coordinate(device, load) -> None:
    module, rng = load(TEXT), np.random.default_rng(8)
    cells = device.create_texture(
        type=TYPES.texture_3d,
        format=spy.Format.r32_float,
        width=4,
        height=2,
        depth=2,
        data=rng.random((2, 2, 4)).astype(F),
    )
    at, place = sampler(device, "mirror_repeat"), np.array([0.3125, 0.625, -0.1875], F)
    pair = spy.Tensor.from_numpy(device, place[None], dtype="float3").with_grads()
    module.at3.bwds(cells, at, pair)
    steps = 2.0**-6 * np.eye(3, dtype=F)
    ends = [module.at3(cells, at, place + sign * steps, _result="numpy") for sign in (1, -1)]
    np.testing.assert_allclose(pair.grad.to_numpy()[0], (ends[0] - ends[1]) * 32, atol=2e-4)


@compiled_only
def test_derivatives_by_the_level(device, load) -> None:
    module, rng = load(TEXT), np.random.default_rng(9)
    made = device.create_texture(
        format=spy.Format.rgba32_float, width=4, height=4, mip_count=2, data=rng.random((4, 4, 4)).astype(F)
    )
    made.copy_from_numpy(rng.random((2, 2, 4)).astype(F), mip=1)
    at, place = device.create_sampler(), spy.float2(0.4, 0.3)
    level = spy.Tensor.from_numpy(device, np.array([0.25, -1, 1.5], F)).with_grads()
    module.leveled.bwds(made, at, place, level)
    first, second = (module.leveled(made, at, place, np.array([k], F), _result="numpy") for k in (0, 1))
    np.testing.assert_allclose(level.grad.to_numpy(), [(second - first).sum(), 0, 0], atol=1e-5)


def test_numbers_that_are_none_and_far_away(device, load) -> None:
    made = device.create_texture(format=spy.Format.rg32_float, width=4, height=4, data=np.ones((4, 4, 2), F))
    places = np.array([[1e30, -1e30], [np.inf, 0.5], [np.nan, 0.5], [-3e9, 3e9]], F)
    for mode in MODES:
        for kind in FILTERS:
            values = load(TEXT).at2(made, sampler(device, mode, kind), places, _result="numpy")
            border = mode == "clamp_to_border"
            wanted = BORDER[:2] if border else (1, 1)
            assert np.isnan(values[[0, 3]]).sum() == 0 and (values[3] == wanted).all(), (mode, kind)


def test_samplers_and_what_they_refuse(device, load) -> None:
    made = sampler(device, "mirror_repeat", label="tiles")
    assert (made.desc.address_v, made.label, made.device) == (MODES["mirror_repeat"], "tiles", device)
    assert repr(made) == "Sampler(linear, mirror_repeat)"
    for named, kind, message in (
        ({"min_filter": "linear"}, TypeError, "min_filter: expected a TextureFilteringMode, not 'linear'"),
        ({"address_u": 1}, TypeError, "address_u: expected a TextureAddressingMode"),
        ({"mip_lod_bias": "0"}, TypeError, "mip_lod_bias: expected a number"),
        ({"border_color": (1, 2)}, ValueError, "border_color: expected four numbers"),
        ({"border_color": 1}, ValueError, "border_color: expected four numbers, not 1"),
        ({"min_lod": 2, "max_lod": 1}, ValueError, "min_lod: 2 is above max_lod, 1"),
        ({"filter": 1}, TypeError, "filter: a sampler has no such argument"),
        ({"max_anisotropy": 16}, CallError, "E9001.*max_anisotropy: 16 is not supported"),
        ({"comparison_func": spy.ComparisonFunc.less}, ValueError, "comparison_func: such a sampler needs"),
        ({"reduction_op": spy.TextureReductionOp.minimum}, CallError, "E9001.*minimum is not supported"),
    ):
        with pytest.raises(kind, match=f"(?s){message}"):
            device.create_sampler(**named)
    with pytest.raises(TypeError, match="desc: expected a SamplerDesc or a dict, not 3"):
        device.create_sampler(3)
    module = load(TEXT)
    image = device.create_texture(format=spy.Format.rg32_float)
    with pytest.raises(ResolveException, match="Texture2D of float2 does not fit 'SamplerState'"):
        module.at2(image, image, spy.float2(0))
    with pytest.raises(ResolveException, match="type 'SamplerState' does not fit 'Texture2D<float2>'"):
        module.at2(made, made, spy.float2(0))
    with pytest.raises(
        CallCompileError, match=r"E9002.*threads have neighbors in kernels whose group has quads only"
    ):
        load(
            "float g(Texture2D<float> t, SamplerState s) { return t.CalculateLevelOfDetail(s, float2(0)); }"
        ).g(device.create_texture(format=spy.Format.r32_float), made)
    with pytest.raises(
        CallCompileError, match=r"(?s)E9001.*'Sample' of 'Texture2D<uint>'.*only floats .* are blended"
    ):
        load("uint g(Texture2D<uint> t, SamplerState s) { return t.Sample(s, float2(0)); }").g(
            device.create_texture(format=spy.Format.r32_uint), made
        )
    with pytest.raises(
        CallCompileError, match=r"(?s)E9001.*'Sample' of 'RWTexture2D<float>'.*declare it without RW"
    ):
        load("float g(RWTexture2D<float> t, SamplerState s) { return t.Sample(s, float2(0)); }").g(
            device.create_texture(format=spy.Format.r32_float, usage=spy.TextureUsage.unordered_access), made
        )
    with pytest.raises(CallError, match=r"E9001.*max_anisotropy: 16"):
        spy.Sampler(device, spy.SamplerDesc(max_anisotropy=16))


def test_kernels_take_samplers(device, kernel) -> None:
    resize = kernel("""
        Texture2D<float> image;
        SamplerState smooth;
        RWTexture2D<float> result;

        [shader("compute")] [numthreads(4, 4, 1)]
        void main(uint3 id : SV_DispatchThreadID)
        {
            uint width, height;
            result.GetDimensions(width, height);
            if (id.x < width && id.y < height)
                result[id.xy] = image.SampleLevel(smooth, (id.xy + 0.5) / float2(width, height), 0);
        }
    """)
    texels = np.array([[1, 3], [5, 7]], F)
    image = device.create_texture(format=spy.Format.r32_float, width=2, height=2, data=texels)
    result = device.create_texture(format=spy.Format.r32_float, width=4, height=1)
    made = sampler(device, "clamp_to_edge")
    resize.dispatch([4, 1, 1], vars={"image": image, "smooth": made, "result": result})
    assert result.to_numpy().tolist() == [[3, 3.5, 4.5, 5]]
