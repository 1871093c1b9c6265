"""Groups that work together: prefix sums by waves, histograms, tiles of matrices, sorting, discs in tiles."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, buffer, kernel


def floats(memory: spy.Buffer) -> np.ndarray:
    return memory.to_numpy().view(np.float32)


@pytest.fixture(scope="module")
def device() -> spy.Device:
    return spy.create_device()


def test_prefix_sums(device: spy.Device) -> None:
    scan, finish = (kernel(device, "groups", name) for name in ("scan", "finish"))

    def sums(numbers: np.ndarray) -> np.ndarray:
        groups = -(-len(numbers) // 256)
        arguments = {
            "size": len(numbers),
            "numbers": buffer(device, numbers),
            "results": buffer(device, np.zeros_like(numbers)),
            "totals": buffer(device, np.zeros(groups, np.float32)),
        }
        for step in (scan, finish):
            step.dispatch([groups * 256, 1, 1], vars=arguments)
        return floats(arguments["results"])

    random = np.random.default_rng(1)
    for count in (1, 255, 700):
        numbers = random.normal(size=count).astype(np.float32)
        np.testing.assert_allclose(sums(numbers), np.cumsum(numbers, dtype=np.float64), rtol=1e-4, atol=1e-4)
    # The gradient of weighted prefix sums is the prefix sum of the weights from the end.
    weights = random.normal(size=700).astype(np.float32)
    slopes = sums(weights[::-1].copy())[::-1]
    assert_slopes(lambda x: float(sums(x) @ weights.astype(np.float64)), numbers, slopes, step=1e-1)


def test_a_histogram(device: spy.Device) -> None:
    """Counts are whole numbers, so there is no gradient."""
    numbers = np.random.default_rng(2).beta(2, 5, 1000).astype(np.float32)
    bins = buffer(device, np.zeros(16, np.uint32))
    arguments = {"size": len(numbers), "numbers": buffer(device, numbers), "bins": bins}
    kernel(device, "groups", "histogram").dispatch([1024, 1, 1], vars=arguments)
    np.testing.assert_array_equal(bins.to_numpy().view(np.uint32), np.histogram(numbers, 16, (0, 1))[0])


def test_products_of_matrices_by_tiles(device: spy.Device) -> None:
    multiply = kernel(device, "groups", "multiply")

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = buffer(device, np.zeros_like(a))
        arguments = {"size": len(a), "left": buffer(device, a), "right": buffer(device, b), "results": result}
        rounded = -(-len(a) // 16) * 16
        multiply.dispatch([rounded, rounded, 1], vars=arguments)
        return floats(result).reshape(a.shape)

    a, b, weights = np.random.default_rng(3).normal(size=(3, 37, 37)).astype(np.float32)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-4)
    slopes = product(weights, b.T.copy())
    assert_slopes(lambda x: (product(x, b) * weights).sum(dtype=np.float64), a, slopes, step=1e-1)


def test_sorting(device: spy.Device) -> None:
    sort, unsort = (kernel(device, "groups", name) for name in ("sort", "unsort"))
    random = np.random.default_rng(4)
    numbers = 0.1 * random.permutation(203).astype(np.float32)  # steps of 0.01 leave their order
    weights = random.normal(size=203).astype(np.float32)

    def results(entry: spy.ComputeKernel, numbers: np.ndarray, **more: spy.Buffer) -> np.ndarray:
        memory = buffer(device, np.zeros_like(numbers))
        arguments = {"size": len(numbers), "numbers": buffer(device, numbers), "results": memory, **more}
        entry.dispatch([256, 1, 1], vars=arguments)
        return floats(memory)

    np.testing.assert_array_equal(results(sort, numbers), np.sort(numbers))
    slopes = results(unsort, numbers, totals=buffer(device, weights))
    assert_slopes(lambda x: float(results(sort, x) @ weights.astype(np.float64)), numbers, slopes, step=1e-2)


def test_discs_in_tiles(device: spy.Device) -> None:
    random = np.random.default_rng(5)
    width, height, count = 37, 21, 300
    centers = random.uniform(0, (width, height), (count, 2))
    shapes = np.column_stack([random.uniform(1, 4, count), random.uniform(0.02, 0.5, count)])
    discs = np.hstack([centers, shapes, random.uniform(size=(count, 3))]).astype(np.float32)
    arguments = {"count": count, "size": spy.int2(width, height)}
    threads = [48, 32, 1]
    draw, draw_back = (kernel(device, "tiles", name) for name in ("draw", "draw_back"))

    def drawn(discs: np.ndarray) -> np.ndarray:
        image = buffer(device, np.zeros((height, width, 3), np.float32), 12)
        draw.dispatch(threads, vars=arguments | {"discs": buffer(device, discs, 28), "image": image})
        return floats(image).reshape(height, width, 3)

    places = np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), -1)
    left, expected = np.ones((height, width)), np.zeros((height, width, 3))
    for x, y, size, alpha, *color in discs.astype(np.float64):
        opaque = alpha * np.exp(-0.5 * ((places - (x, y)) ** 2).sum(-1) / size**2)
        expected += (left * opaque)[..., None] * color
        left *= 1 - opaque
    np.testing.assert_allclose(drawn(discs), expected, atol=1e-4)

    weights = random.normal(size=expected.shape).astype(np.float32)
    gradients = buffer(device, np.zeros_like(discs), 28)
    memory = {
        "discs": buffer(device, discs, 28),
        "gradients": gradients,
        "image_gradient": buffer(device, weights, 12),
    }
    draw_back.dispatch(threads, vars=arguments | memory)
    slopes = floats(gradients).reshape(discs.shape)
    assert_slopes(lambda x: (drawn(x) * weights).sum(dtype=np.float64), discs, slopes)
