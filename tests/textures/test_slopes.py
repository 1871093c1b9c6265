"""Derivatives of samples by coordinates and texels, for formats, dimensions, modes and filters: both modes of
differentiation, compared with differences and weights of the model."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from tests.backends import COMPILED
from tests.textures.model import corners, sample
from tests.textures.test_formats import BORDER, FILTERS, MODES, numbers_of, texture, values

F = np.float32
FORMATS = {
    "r32_float": 1, "rg16_snorm": 2, "rgba8_unorm": 4, "rgba8_unorm_srgb": 4, "bgra8_unorm": 4, "rgba16_unorm": 4,
    "b5g6r5_unorm": 3, "bgr5a1_unorm": 4, "rgb10a2_unorm": 4, "rgb9e5_ufloat": 3, "r11g11b10_float": 3,
}  # fmt: skip
WEIGHTS = (1, -0.5, 2, 0.75)  # of channels

# Texels of sizes 3, 4 and 5 have no kink there.
PLACES = [0.3125, 0.9375, -0.1875, 1.1875, -1.3125, 0.5625]
STEP = 2.0**-10


def text(rank, count):
    texel, place = ("float" if n == 1 else f"float{n}" for n in (count, rank))
    total = " + ".join(f"{w} * x{'' if count == 1 else '.' + c}" for w, c in zip(WEIGHTS[:count], "xyzw"))
    return f"""
[Differentiable] float at(Texture{rank}D<{texel}> t, SamplerState s, {place} u)
{{
    {texel} x = t.SampleLevel(s, u, 0);
    return {total};
}}
"""


def mean(colors, place, mode, is_linear):
    """The function in the model."""
    count = colors.shape[-1]
    return sample(colors, place, mode, is_linear, border=BORDER) @ np.array(WEIGHTS[:count])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("device", COMPILED, indirect=True)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_slopes_of_every_mode_and_filter(device, load, rank, format) -> None:
    count, shape = FORMATS[format], (4, 3, 5)[3 - rank :]
    at, numbers = load(text(rank, count)).at, numbers_of(format, np.random.default_rng(rank), shape)
    image = texture(device, format, numbers, rank).with_grads()
    colors = values(format, numbers)[..., :count].astype(np.float64)
    places = np.stack([np.roll(PLACES, k) for k in range(rank)], -1)
    along = np.random.default_rng(7).integers(-4, 5, places.shape) / 4
    rows = [row[:, 0] if rank == 1 else row for row in (places, along)]
    dtype = "float" if rank == 1 else f"float{rank}"
    tangents = spy.Tensor.from_numpy(device, rows[1].astype(F), dtype=dtype)
    for (name, mode), filter in itertools.product(MODES.items(), FILTERS):
        is_linear, smooth = filter is FILTERS.linear, device.create_sampler(
            min_filter=filter, mag_filter=filter, address_u=mode, address_v=mode, address_w=mode,
            border_color=BORDER,
        )  # fmt: skip
        slopes, weights = np.zeros(places.shape), np.zeros(colors.shape)
        for i, place in enumerate(places):
            for k, step in enumerate(STEP * np.eye(rank)):
                ends = [mean(colors, place + sign * step, name, is_linear) for sign in (1, -1)]
                slopes[i, k] = (ends[0] - ends[1]) / (2 * STEP)
            for index, weight in corners(shape[::-1], place, name, is_linear):
                if index is not None:
                    weights[index] += weight * np.array(WEIGHTS[:count])
        pair = spy.Tensor.from_numpy(device, rows[0].astype(F), dtype=dtype).with_grads()
        image.grad.clear()
        at.bwds(image, smooth, pair)
        reverse = pair.grad.to_numpy().reshape(places.shape)
        where = f"{format} {name} {filter.name}"
        np.testing.assert_allclose(reverse, slopes, rtol=2e-5, atol=2e-4, err_msg=where)
        gradient = image.grad.to_numpy().reshape(colors.shape)
        np.testing.assert_allclose(gradient, weights, rtol=0, atol=2e-5, err_msg=where)
        forward = at.fwds(image.detach(), smooth, pair.detach().with_grads(tangents)).grad.to_numpy()
        np.testing.assert_allclose(forward, (slopes * along).sum(-1), rtol=2e-5, atol=4e-4, err_msg=where)
