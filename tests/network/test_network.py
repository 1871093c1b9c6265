"""The kernels of examples/mlp against a model in NumPy, and short trainings."""

import numpy as np
import pytest

from slangrad.pipeline import CPU, INTERPRETER
from tests.network.training import Network, losses_and_gradients


def points_of(count, seed=7):
    return np.random.default_rng(seed).uniform(0, 1, (count, 2)).astype(np.float32)


@pytest.mark.parametrize("target", [CPU, INTERPRETER])
@pytest.mark.parametrize("count", [1, 5])
def test_gradients_of_the_float_network_are_those_of_the_model(target, count):
    net, points = Network(np.float32, seed=3, target=target), points_of(count)
    largest = net.learn(points)
    losses, gradients = losses_and_gradients(net.parameters, points)
    np.testing.assert_allclose(net.gradients, gradients, rtol=2e-5, atol=2e-5)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_of_many_points():
    net, points = Network(np.float32, seed=3), points_of(1000)
    largest = net.learn(points)
    losses, gradients = losses_and_gradients(net.parameters, points)
    np.testing.assert_allclose(net.gradients, gradients, rtol=1e-4, atol=1e-3)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_add_up_over_launches():
    net, points = Network(np.float32, seed=3), points_of(7)
    net.learn(points)
    once = net.gradients.copy()
    net.learn(points)
    np.testing.assert_allclose(net.gradients, 2 * once, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_the_half_network_are_near_those_of_the_model(seed):
    net, points = Network(np.float16, seed), points_of(4, seed)
    largest = net.learn(points)
    losses, gradients = losses_and_gradients(net.parameters, points.astype(np.float16))
    scale = np.abs(gradients).max()
    np.testing.assert_allclose(net.gradients, gradients, atol=0.01 * scale)
    assert largest == pytest.approx(losses.max(), rel=0.02)
    assert net.gradients.dtype == np.float16


def test_a_step_of_gradient_descent():
    net = Network(np.float16)
    net.gradients[:] = np.linspace(-8, 8, len(net.gradients)).astype(np.float16)
    rate = np.float16(0.01)
    expected = net.parameters - net.gradients * rate
    net.adjust()
    assert (net.parameters == expected).all() and not net.gradients.any()


def test_a_step_of_adam():
    net = Network(np.float32)
    before = net.parameters.copy()
    net.gradients[:] = np.linspace(-8, 8, len(net.gradients))
    signs = np.sign(net.gradients)
    net.adjust("adam")
    np.testing.assert_allclose(net.parameters, before - 0.01 * signs, atol=1e-6)
    assert not net.gradients.any() and (net.states["iteration"] == 1).all()


def test_a_gradient_that_is_no_number_is_dropped():
    net = Network(np.float32)
    before = net.parameters.copy()
    net.gradients[:] = np.nan
    net.adjust("adam")
    assert (net.parameters == before).all() and not net.gradients.any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_adam_learns(dtype):
    net, points = Network(dtype, seed=0), points_of(256)
    first = net.learn(points)
    for _ in range(100):
        net.adjust("adam")
        largest = net.learn(points)
    assert largest < first / 20
