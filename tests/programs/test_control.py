"""An arm that reaches for a place, and a pole on a cart: gradients through many steps."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, load


@pytest.mark.deep
def test_an_arm() -> None:
    module = load("chain")
    random = np.random.default_rng(1)
    angles, lengths = random.normal(size=5), random.uniform(0.5, 1, 5)
    target = spy.double2(1.2, -0.8)
    place = module.reach(list(angles), list(lengths))
    turned = np.cumsum(angles)
    np.testing.assert_allclose(list(place), [lengths @ np.cos(turned), lengths @ np.sin(turned)], rtol=1e-12)
    slope = spy.grad(module.miss, argnames="angles")
    miss = lambda angles: module.miss(list(angles), list(lengths), target)
    assert_slopes(miss, angles, np.array(slope(list(angles), list(lengths), target)), 1e-6, 1e-7)
    for _ in range(200):
        angles -= 0.05 * np.array(slope(list(angles), list(lengths), target))
    assert miss(angles) < 1e-6


@pytest.mark.deep
def test_a_pole_on_a_cart() -> None:
    module = load("chain")
    gains, steps = np.array([0.5, 1.0, 25.0, 4.0]), 120

    def cost(gains: np.ndarray) -> float:
        return float(module.cost(spy.double4(*gains), 0.2, steps))

    x = speed = turning = total = 0.0
    angle, dt = 0.2, 0.02
    for _ in range(steps):
        force = gains @ (x, speed, angle, turning)
        push = (force + 0.05 * turning**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        speed, turning = speed + dt * (push - 0.05 * turn * np.cos(angle) / 1.1), turning + dt * turn
        x, angle = x + dt * speed, angle + dt * turning
        total += angle**2 + 0.1 * x**2 + 0.001 * force**2
    np.testing.assert_allclose(cost(gains), total / steps, rtol=1e-10)
    slope = spy.grad(module.cost, argnames="gains")
    slopes = np.array(list(slope(spy.double4(*gains), 0.2, steps)))
    assert_slopes(cost, gains, slopes, 1e-6, 1e-6)
    assert cost(gains - 0.5 * slopes / np.linalg.norm(slopes)) < cost(gains)
