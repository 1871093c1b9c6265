"""Bodies that attract each other; a fluid on a grid."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, load


def acceleration(positions: np.ndarray, masses: np.ndarray) -> np.ndarray:
    d = positions[None] - positions[:, None]
    square = (d**2).sum(-1) + 0.05
    return (masses[None, :, None] * d / square[..., None] ** 1.5).sum(1)


@pytest.mark.deep
def test_a_step_of_bodies() -> None:
    module = load("bodies")
    random = np.random.default_rng(1)
    count, dt = 13, 0.01
    positions, velocities = random.normal(size=(2, count, 3))
    masses = random.uniform(0.5, 2, count)
    where = spy.Tensor.from_numpy(module.device, positions, dtype="double3")
    weights = spy.Tensor.from_numpy(module.device, masses)
    ids = np.arange(count, dtype=np.int32)
    middle = module.kick(ids, velocities, where, weights, dt, _result="numpy")
    np.testing.assert_allclose(middle, velocities + 0.5 * dt * acceleration(positions, masses), rtol=1e-12)
    moved = module.drift(positions, middle, dt, _result="numpy")
    np.testing.assert_allclose(moved, positions + dt * middle, rtol=1e-14)

    def energy(numbers: np.ndarray) -> float:
        placed = spy.Tensor.from_numpy(module.device, numbers, dtype="double3")
        return module.energy(ids, velocities, placed, weights, _result="numpy").sum()

    where = where.with_grads(zero=True)
    result = module.energy(ids, velocities, where, weights, _result="tensor").with_grads(zero=True)
    result.grad.copy_from_numpy(np.ones(count))
    module.energy.bwds(ids, velocities, where, weights, result)
    slopes = where.grad.to_numpy()
    np.testing.assert_allclose(slopes, -masses[:, None] * acceleration(positions, masses), rtol=1e-9)
    assert_slopes(energy, positions, slopes, step=1e-6, tolerance=1e-7)


@pytest.mark.deep
def test_a_step_of_a_fluid() -> None:
    module = load("fluid")
    random = np.random.default_rng(2)
    shape, dt = (9, 7), 0.4
    field, u, v = random.normal(size=(3, *shape)).astype(np.float32)
    rows, columns = np.mgrid[: shape[0], : shape[1]].astype(np.int32)
    ids = spy.grid(shape)

    def tensor(numbers: np.ndarray) -> spy.Tensor:
        return spy.Tensor.from_numpy(module.device, numbers)

    flow = module.advect(ids, tensor(field), tensor(u), tensor(v), dt, _result="numpy")
    x, y = columns - dt * u, rows - dt * v
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    s, t = x - left, y - top
    corner = lambda i, j: field[(top + i) % shape[0], (left + j) % shape[1]]
    expected = (1 - t) * ((1 - s) * corner(0, 0) + s * corner(0, 1)) + t * (
        (1 - s) * corner(1, 0) + s * corner(1, 1)
    )
    np.testing.assert_allclose(flow, expected, rtol=1e-4, atol=1e-5)

    sources = module.divergence(ids, tensor(u), tensor(v), _result="numpy")
    wide = np.roll(u, -1, 1) - np.roll(u, 1, 1) + np.roll(v, -1, 0) - np.roll(v, 1, 0)
    np.testing.assert_allclose(sources, wide / 2, atol=1e-6)
    sources -= sources.mean()
    pressure = np.zeros(shape, np.float32)
    for _ in range(300):
        pressure = module.relax(ids, tensor(pressure), tensor(sources), _result="numpy")
    around = sum(np.roll(pressure, by, axis) for by in (1, -1) for axis in (0, 1))
    np.testing.assert_allclose(around - 4 * pressure, sources, atol=1e-3)

    weights = random.normal(size=shape).astype(np.float32)
    speeds = tensor(u).with_grads(zero=True)
    inputs = (ids, tensor(field), speeds, tensor(v), dt)
    result = module.advect(*inputs, _result="tensor").with_grads(zero=True)
    result.grad.copy_from_numpy(weights)
    module.advect.bwds(*inputs, result)

    def total(numbers: np.ndarray) -> float:
        moved = module.advect(ids, tensor(field), tensor(numbers), tensor(v), dt, _result="numpy")
        return float((moved * weights).sum(dtype=np.float64))

    assert_slopes(total, u, speeds.grad.to_numpy())
