"""Pictures: a bilateral filter, a soft triangle, lists of fragments."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, buffer, kernel, load


@pytest.mark.deep
def test_a_filter_that_keeps_edges() -> None:
    module = load("pictures")
    image = np.random.default_rng(1).uniform(size=(9, 7)).astype(np.float32)
    ids = spy.grid(image.shape)

    def filtered(image: np.ndarray) -> np.ndarray:
        return module.filtered(ids, spy.Tensor.from_numpy(module.device, image), 1.5, 0.4, _result="numpy")

    expected = np.zeros(image.shape)
    for y, x in np.ndindex(image.shape):
        rows, columns = np.mgrid[max(y - 2, 0) : min(y + 3, 9), max(x - 2, 0) : min(x + 3, 7)]
        near = image[rows, columns].astype(np.float64)
        square = ((rows - y) ** 2 + (columns - x) ** 2) / 1.5**2 + ((near - image[y, x]) / 0.4) ** 2
        expected[y, x] = np.average(near, weights=np.exp(-0.5 * square))
    np.testing.assert_allclose(filtered(image), expected, rtol=1e-4)
    weights = np.random.default_rng(2).normal(size=image.shape).astype(np.float32)
    tensor = spy.Tensor.from_numpy(module.device, image).with_grads(zero=True)
    result = module.filtered(ids, tensor, 1.5, 0.4, _result="tensor").with_grads(zero=True)
    result.grad.copy_from_numpy(weights)
    module.filtered.bwds(ids, tensor, 1.5, 0.4, result)
    assert_slopes(lambda x: (filtered(x) * weights).sum(dtype=np.float64), image, tensor.grad.to_numpy())


@pytest.mark.deep
def test_a_soft_triangle() -> None:
    module = load("pictures")
    corners = np.array([[2, 3], [14, 4], [7, 11]], np.float32)
    ids = spy.grid((13, 16))

    def drawn(corners: np.ndarray) -> np.ndarray:
        return module.covered(ids, corners.tolist(), _result="numpy")

    p = np.stack(np.meshgrid(np.arange(16) + 0.5, np.arange(13) + 0.5), -1)
    expected = np.ones((13, 16))
    for a, b in zip(corners.astype(np.float64), np.roll(corners, -1, 0)):
        side = (b - a)[0] * (p - a)[..., 1] - (b - a)[1] * (p - a)[..., 0]
        expected /= 1 + np.exp(-4 * side / np.hypot(*(b - a)))
    image = drawn(corners)
    np.testing.assert_allclose(image, expected, rtol=1e-3, atol=1e-6)
    area = abs(np.linalg.det((corners - corners[0])[1:])) / 2
    np.testing.assert_allclose(image.sum(), area, rtol=0.05)
    slope = spy.grad(module.covered, argnames="corners")
    slopes = np.zeros_like(corners)
    for y, x in np.ndindex(image.shape):
        slopes += np.array(slope(spy.int2(x, y), corners.tolist()), np.float32) * (image[y, x] - 0.3)
    energy = lambda x: 0.5 * ((drawn(x) - 0.3) ** 2).sum(dtype=np.float64)
    assert_slopes(energy, corners, slopes)


def test_lists_of_fragments() -> None:
    device = spy.create_device()
    random = np.random.default_rng(3)
    count, pixels = 150, 20
    places = random.integers(0, pixels - 1, count).astype(np.int32)
    depths, lights = (
        random.permutation(count).astype(np.float32),
        random.uniform(size=count).astype(np.float32),
    )
    memory = buffer(device, np.zeros(count * 16, np.uint8), 16)
    weights = random.normal(size=pixels).astype(np.float32)
    arguments = {"count": count, "pixels": pixels, "fragments": memory.device_address}
    arguments |= {"places": buffer(device, places), "depths": buffer(device, depths)}
    collect, resolve, spread = (kernel(device, "pictures", name) for name in ("collect", "resolve", "spread"))

    def pictured(lights: np.ndarray) -> np.ndarray:
        arguments["heads"] = buffer(device, np.zeros(pixels, np.uint64))
        arguments["lights"] = buffer(device, lights)
        arguments["results"] = buffer(device, np.zeros(pixels, np.float32))
        collect.dispatch([count, 1, 1], vars=arguments)
        resolve.dispatch([pixels, 1, 1], vars=arguments)
        return arguments["results"].to_numpy().view(np.float32)

    for pixel, light in enumerate(pictured(lights)):
        own = np.flatnonzero(places == pixel)
        ordered = lights[own[np.argsort(depths[own])]]
        np.testing.assert_allclose(light, (ordered * 0.5 ** np.arange(1, len(own) + 1)).sum(), rtol=1e-5)
    arguments["results"] = buffer(device, weights)
    spread.dispatch([pixels, 1, 1], vars=arguments)
    slopes = memory.to_numpy().view(np.float32).reshape(count, 4)[:, 1].copy()
    assert_slopes(lambda x: float(pictured(x) @ weights.astype(np.float64)), lights, slopes, step=1e-1)
