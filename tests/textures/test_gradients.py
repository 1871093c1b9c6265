"""Textures with gradients: derivatives of loads, stores and samples by texels, in both modes and nested."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError
from tests.backends import COMPILED
from tests.textures.model import corners

F = np.float32
MODES = {mode.name: mode for mode in spy.TextureAddressingMode}
LINEAR, POINT = spy.TextureFilteringMode.linear, spy.TextureFilteringMode.point
FORMATS = {1: spy.Format.r32_float, 2: spy.Format.rg32_float, 4: spy.Format.rgba32_float}

TEXT = """
[Differentiable] float2 square(Texture2D<float2> t, int2 p) { return t[p] * t.Load(int3(p, 0)); }
[Differentiable] float2 coarse(Texture2D<float2> t, int2 p) { return t.Load(int3(p, 1)); }
[Differentiable] half2 halves(Texture2D<half2> t, int2 p) { return t[p] * t[p]; }
[Differentiable] float4 at1(Texture1D<float4> t, SamplerState s, float u) { return t.Sample(s, u); }
[Differentiable] float2 at2(Texture2D<float2> t, SamplerState s, float2 u) { return t.Sample(s, u); }
[Differentiable] float at3(Texture3D<float> t, SamplerState s, float3 u) { return t.Sample(s, u); }
[Differentiable] float2 at2s(Texture2DArray<float2> t, SamplerState s, float3 u) { return t.SampleLevel(s, u, 0); }
[Differentiable] float2 between(Texture2D<float2> t, SamplerState s, float2 u, float level) { return t.SampleLevel(s, u, level); }
[Differentiable] float2 twice(float2 x) { return x * x; }
[Differentiable] void move(Texture2D<float2> a, RWTexture2D<float2> b, int2 p) { b[p] = a[p] * a[p]; }
[Differentiable] void scale(RWTexture2D<float2> b, int2 p) { b[p] = 3 * b.Load(p); }

[Differentiable] float first(Texture2D<float2> t, SamplerState s, float2 u) { return t.Sample(s, u).x; }
[Differentiable] float slope(Texture2D<float2> t, SamplerState s, float2 u)
{
    return fwd_diff(first)(t, s, diffPair(u, float2(1, 0))).d;
}

struct Scene { Texture2D<float2> image; float gain; }
[Differentiable] float2 look(Scene scene, int2 p) { return scene.gain * scene.image[p]; }
"""


def texture(device, texels, **named):
    """A texture of floats of two dimensions: rows and columns of channels."""
    height, width, channels = texels.shape
    return device.create_texture(format=FORMATS[channels], width=width, height=height, data=texels, **named)


def drawn(*shape, seed=1):
    """Numbers with few bits, so that sums are exact."""
    return (np.random.default_rng(seed).integers(-16, 16, shape) / 4).astype(F)


def test_loads_add_to_gradients(device, load) -> None:
    module, texels = load(TEXT), drawn(3, 4, 2)
    image = texture(device, texels, mip_count=2).with_grads()
    assert isinstance(image.grad, spy.Texture) and image.grad_in is image.grad_out is image.grad
    places = np.array([[1, 1], [3, 2], [1, 1]], np.int32)
    module.square.bwds(image, places)
    expected = np.zeros_like(texels)
    np.add.at(expected, (places[:, 1], places[:, 0]), 2 * texels[places[:, 1], places[:, 0]])
    assert (image.grad.to_numpy() == expected).all() and not image.grad.to_numpy(mip=1).any()
    module.coarse.bwds(image, spy.int2(1, 0))
    assert (image.grad.to_numpy(mip=1) == [[[0, 0], [1, 1]]]).all()
    assert (image.grad.to_numpy() == expected).all()
    with pytest.raises(spy.BoundsError):
        module.square.bwds(image, spy.int2(4, 0))
    assert (image.grad.to_numpy() == expected).all()

    direction = texture(device, drawn(3, 4, 2, seed=2), mip_count=2)
    tangent = module.square.fwds(image.with_grads(direction), places).grad.to_numpy()
    assert (tangent == 2 * (texels * direction.to_numpy())[places[:, 1], places[:, 0]]).all()
    image.grad.clear()
    assert not image.grad.to_numpy(mip=1).any()
    module.look.bwds({"image": image, "gain": 2.0}, spy.int2(3, 0))
    assert image.grad.to_numpy().sum() == 4 and (image.grad.to_numpy()[0, 3] == 2).all()

    small = device.create_texture(
        format=spy.Format.rg16_float, width=2, data=np.array([[[1, 2], [3, 4]]], np.float16)
    )
    small = small.with_grads()
    module.halves.bwds(small, np.array([[1, 0], [1, 0]], np.int32))
    assert small.grad.format == spy.Format.rg16_float
    assert (small.grad.to_numpy() == [[[0, 0], [12, 16]]]).all()


def texel_of_each_call(kind):
    return {"1": "texture_1d", "2": "texture_2d", "3": "texture_3d"}[kind]


@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize(
    "kind", ["2", pytest.param("1", marks=pytest.mark.deep), pytest.param("3", marks=pytest.mark.deep)]
)
def test_samples_add_the_weights_of_the_model(device, load, kind) -> None:
    """A sample is linear in texels, so its gradients are weights, and forward mode is the sample of the tangent."""
    module, rank = load(TEXT), int(kind)
    shape = {"1": (5, 4), "2": (3, 4, 2), "3": (2, 3, 4, 1)}[kind]
    sizes = shape[:-1][::-1]
    inside = [0.3125, 0.9375, -0.1875, 1.1875, -1.3125, 0.5]
    places = np.stack([np.roll(inside, k) for k in range(rank)], -1).astype(F)
    named = dict(zip(("width", "height", "depth"), sizes))
    texels = drawn(*shape)
    image = device.create_texture(
        type=spy.TextureType[texel_of_each_call(kind)], format=FORMATS[shape[-1]],
        data=texels if shape[-1] > 1 else texels[..., 0], **named,
    ).with_grads()  # fmt: skip
    function = getattr(module, f"at{kind}")
    coordinates = places[:, 0] if rank == 1 else places
    for (name, mode), filter in itertools.product(MODES.items(), (LINEAR, POINT)):
        sampler = device.create_sampler(
            min_filter=filter, mag_filter=filter, mip_filter=POINT, address_u=mode, address_v=mode,
            address_w=mode, border_color=(0, 0, 0, 0),
        )  # fmt: skip
        expected = np.zeros(shape)
        for place in places:
            for index, weight in corners(sizes, place, name, filter is LINEAR):
                if index is not None:
                    expected[index] += weight
        image.grad.clear()
        function.bwds(image, sampler, coordinates)
        gradient = image.grad.to_numpy().reshape(shape)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=4e-6, err_msg=f"{name} {filter.name}")
        tangent = function.fwds(image.with_grads(image.detach()), sampler, coordinates).grad.to_numpy()
        assert (tangent == function(image, sampler, coordinates, _result="numpy")).all()


def test_levels_and_layers_have_gradients(device, load) -> None:
    module = load(TEXT)
    image = texture(device, drawn(4, 4, 2), mip_count=2).with_grads()
    clamped = device.create_sampler(address_u=MODES["clamp_to_edge"], address_v=MODES["clamp_to_edge"])
    module.between.bwds(image, clamped, spy.float2(0.5, 0.25), 0.25)
    assert (image.grad.to_numpy()[0, 1:3] == 0.1875).all() and (image.grad.to_numpy()[1, 1:3] == 0.1875).all()
    assert (image.grad.to_numpy(mip=1) == [[[0.125] * 2] * 2, [[0] * 2] * 2]).all()
    pages = device.create_texture(
        type=spy.TextureType.texture_2d_array, format=FORMATS[2], width=2, height=2, array_length=3
    ).with_grads()
    module.at2s.bwds(pages, clamped, spy.float3(0.5, 0.5, 1.2))
    assert [pages.grad.to_numpy(layer=k).sum() for k in range(3)] == [0, 2, 0]


@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize("name", ["first", pytest.param("slope", marks=pytest.mark.deep)])
def test_texels_and_coordinates_together(device, load, name) -> None:
    """Both modes and differences agree for a direction that moves texels and coordinates; once nested."""
    module, texels, step = load(TEXT), drawn(2, 4, 2), 2.0**-6
    moved = drawn(2, 4, 2, seed=3)
    image, direction = texture(device, texels), texture(device, moved)
    sampler = device.create_sampler(address_u=MODES["mirror_repeat"])
    places = np.array([[0.3125, 0.6875], [-0.1875, 0.3125], [1.1875, 0.5625]], F)
    along = np.array([[1, -1], [0.5, 1], [-1, 0.25]], F)
    function = getattr(module, name)
    pair = spy.Tensor.from_numpy(device, places, dtype="float2").with_grads()
    learned = image.with_grads()
    function.bwds(learned, sampler, pair)
    reverse = (learned.grad.to_numpy() * moved).sum() + (pair.grad.to_numpy() * along).sum()
    tangents = spy.Tensor.from_numpy(device, along, dtype="float2")
    forward = function.fwds(image.with_grads(direction), sampler, pair.detach().with_grads(tangents))
    ends = [
        function(texture(device, texels + sign * step * moved), sampler, places + sign * step * along,
                 _result="numpy").sum(dtype=np.float64)
        for sign in (1, -1)
    ]  # fmt: skip
    difference = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(forward.grad.to_numpy().sum(), reverse, rtol=1e-5)
    np.testing.assert_allclose(reverse, difference, rtol=2e-3)


@pytest.mark.deep
def test_derivatives_by_texels_of_a_slope(device, load) -> None:
    learned = texture(device, drawn(2, 4, 2)).with_grads()
    load(TEXT).slope.bwds(learned, device.create_sampler(), spy.float2(0.25, 0.375))
    assert (learned.grad.to_numpy()[..., 0] == [[-3, 3, 0, 0], [-1, 1, 0, 0]]).all()


def test_transforms_take_textures(device, load) -> None:
    module, texels = load(TEXT), drawn(2, 2, 2)
    first = load(
        "[Differentiable] float cube(Texture2D<float2> t, int2 p) { return t[p].x * t[p].x * t[p].x; }"
    ).cube
    image, place = texture(device, texels), spy.int2(1, 0)
    direction = texture(device, np.ones_like(texels))
    x = texels[0, 1, 0]
    gradient = spy.grad(first)(image, place)
    assert isinstance(gradient, spy.Texture) and gradient.to_numpy()[0, 1, 0] == 3 * x * x
    assert image.grad_out is None and np.count_nonzero(gradient.to_numpy()) == 1
    assert spy.hvp(first, (image, place), (direction, None))[0].to_numpy()[0, 1, 0] == 6 * x
    assert spy.grad(spy.grad(first))(image, place).to_numpy()[0, 1, 0] == 6 * x
    assert spy.jvp(first, (image, place), (direction, None)) == (x**3, 3 * x * x)
    assert spy.vjp(first, image, place)[1](2.0)[0].to_numpy()[0, 1, 0] == 6 * x * x
    with pytest.raises(CallError, match=r"E1030.*the tangent does not fit: grad_in: expected a Texture"):
        spy.jvp(first, (image, place), (1.0, None))
    result = module.twice.fwds(image.with_grads(direction), _result="texture")
    assert (result.to_numpy() == texels**2).all() and (result.grad.to_numpy() == 2 * texels).all()
    learned = image.with_grads()
    module.twice.bwds(learned)
    assert (learned.grad.to_numpy() == 2 * texels).all()


def test_stores_take_gradients(device, load) -> None:
    module, texels = load(TEXT), drawn(2, 2, 2)
    source, target = texture(device, texels).with_grads(), texture(device, texels)
    wanted = texture(device, drawn(2, 2, 2, seed=5))
    places = np.stack(np.meshgrid(np.arange(2), np.arange(2)), -1).astype(np.int32)
    module.move.bwds(source, target.with_grads(wanted, target.new_gradient()), places)
    assert (source.grad.to_numpy() == 2 * texels * wanted.to_numpy()).all()
    moved = target.with_grads()
    module.move.fwds(texture(device, texels).with_grads(wanted), moved, places)
    assert (moved.to_numpy() == texels**2).all()
    assert (moved.grad.to_numpy() == 2 * texels * wanted.to_numpy()).all()
    module.scale.fwds(moved, places)
    assert (moved.grad.to_numpy() == 6 * texels * wanted.to_numpy()).all()
    with pytest.raises(CallError, match=r"E1007.*need separate buffers for inputs and outputs"):
        module.scale.bwds(target.with_grads(), places)


def test_gradients_that_do_not_fit(device, load) -> None:
    image = texture(device, drawn(2, 2, 2), mip_count=2)
    for grad, kind, message in (
        (3, TypeError, "grad_in: expected a Texture, not int"),
        (texture(device, drawn(2, 2, 4), mip_count=2), ValueError, "format is rgba32_float, .* has rg32_float"),
        (texture(device, drawn(2, 2, 2)), ValueError, "mip_count is 1, .* has 2"),
        (texture(device, drawn(2, 3, 2), mip_count=2), ValueError, "width is 3, .* has 2"),
        (texture(device, drawn(2, 2, 2), mip_count=2, usage=spy.TextureUsage.shader_resource), ValueError,
         "make it with TextureUsage.unordered_access"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            image.with_grads(grad)
    with pytest.raises(ValueError, match="No derivative type found for uint: this texture has no gradients"):
        device.create_texture(format=spy.Format.r32_uint).with_grads()
    with pytest.raises(RuntimeError, match="Texture has no grad"):
        _ = image.grad
    with pytest.raises(CallError, match=r"(?s)E1007.*'t' is a Texture2D of float2: pass t.with_grads\(\)"):
        load(TEXT).square.bwds(image, spy.int2(0, 0))
    with pytest.raises(CallError, match=r"(?s)E1007.*pass t.with_grads\(tangent\)"):
        load(TEXT).square.fwds(image, spy.int2(0, 0))
    copied = image.with_grads().copy()
    assert copied.grad_in is copied.grad_out and copied.detach().grad_out is None


def two_sums(load, device) -> list[np.ndarray]:
    """The gradient of 16 texels that 20,000 threads add to, of two runs; 2 for each thread."""
    module = load(TEXT)
    image = texture(device, drawn(4, 4, 2)).with_grads()
    places = np.random.default_rng(4).random((20000, 2)).astype(F)
    gradients = []
    for _ in range(2):
        image.grad.clear()
        module.at2.bwds(image, device.create_sampler(), places)
        gradients.append(image.grad.to_numpy())
    return gradients


@pytest.mark.parametrize("device", COMPILED, indirect=True)
def test_many_threads_add_to_few_texels(load, device) -> None:
    for gradient in two_sums(load, device):
        np.testing.assert_allclose(gradient.sum(dtype=np.float64), 40000, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_sums_do_not_depend_on_threads(load, device) -> None:
    """A CPU adds in a fixed order. A GPU does not, as docs/cuda.md says."""
    first, second = two_sums(load, device)
    assert (first == second).all()
    np.testing.assert_allclose(first.sum(dtype=np.float64), 40000, rtol=1e-6)
