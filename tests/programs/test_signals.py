"""A spectrum in shared memory, and a picture in a network."""

import numpy as np

import slangrad as spy
from tests.programs import assert_slopes, buffer, kernel, load


def test_a_spectrum() -> None:
    device = spy.create_device()
    entry = kernel(device, "spectrum", "transform")
    random = np.random.default_rng(3)
    rows = random.normal(size=(3, 256)).astype(np.complex64)

    def transformed(rows: np.ndarray, direction: float) -> np.ndarray:
        memory = buffer(device, rows.astype(np.complex64), 8)
        entry.dispatch([rows.size, 1, 1], vars={"numbers": memory, "direction": direction})
        return memory.to_numpy().view(np.complex64).reshape(rows.shape)

    spectrum = transformed(rows, -1)
    np.testing.assert_allclose(spectrum, np.fft.fft(rows), atol=2e-4)
    np.testing.assert_allclose(transformed(spectrum, 1) / 256, rows, atol=1e-5)

    # The power within a band, and its gradient by the numbers: the transform back of the band.
    band = np.zeros(256)
    band[[3, 4, 5, 251, 252, 253]] = 1 / 256
    power = lambda x: float((band * np.abs(transformed(x, -1).astype(np.complex128)) ** 2).sum())
    slopes = 2 * transformed(band * spectrum, 1).real
    assert_slopes(power, rows.real, slopes, step=1e-2)


def test_a_picture_in_a_network() -> None:
    module = load("neural_texture")
    device = module.device
    random = np.random.default_rng(4)
    places = random.uniform(size=(300, 2)).astype(np.float32)
    waves = np.sin(places @ [[5, 2, 0], [0, 3, 6]])
    wanted = (0.5 + 0.4 * waves).astype(np.float32)
    grid = random.normal(scale=0.3, size=(6, 6, 4)).astype(np.float32)
    weights = random.normal(scale=0.5, size=module.weightCount()).astype(np.float32)

    def step(grid: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        features = spy.Tensor.from_numpy(device, grid).with_grads(zero=True)
        memory, slopes = buffer(device, weights), buffer(device, np.zeros_like(weights))
        addresses = memory.device_address, slopes.device_address
        losses = module.train(features, *addresses, places, wanted, _result="numpy")
        return losses, features.grad.to_numpy(), slopes.to_numpy().view(np.float32)

    at = places * 5
    low = np.clip(at.astype(int), 0, 4)
    t = at - low
    corners = [
        (i, j, (t[:, 1] if i else 1 - t[:, 1]) * (t[:, 0] if j else 1 - t[:, 0]))
        for i in (0, 1)
        for j in (0, 1)
    ]
    features = sum(w[:, None] * grid[low[:, 1] + i, low[:, 0] + j] for i, j, w in corners)
    w1, b1, w2, b2 = np.split(weights.astype(np.float64), np.cumsum([32, 8, 24]))
    hidden = features @ w1.reshape(8, 4).T + b1
    colors = 1 / (1 + np.exp(-(np.where(hidden < 0, 0.01, 1) * hidden @ w2.reshape(3, 8).T + b2)))
    losses, by_grid, by_weights = step(grid, weights)
    np.testing.assert_allclose(losses, ((colors - wanted) ** 2).sum(-1), rtol=1e-3, atol=1e-5)
    assert_slopes(lambda x: step(x, weights)[0].sum(dtype=np.float64), grid, by_grid)
    assert_slopes(lambda x: step(grid, x)[0].sum(dtype=np.float64), weights, by_weights)

    for _ in range(200):
        _, by_grid, by_weights = step(grid, weights)
        grid, weights = grid - 0.01 * by_grid, weights - 0.002 * by_weights
    assert step(grid, weights)[0].mean() < 0.2 * losses.mean()
