"""The kernels of examples/mlp against a model in NumPy, and trainings."""

from functools import cache

import numpy as np
import pytest

from tests.network.model import losses_and_gradients, train

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


@cache
def kernels(dtype, backend="cpu"):
    return train.Kernels(dtype, backend=backend)


def points_of(count, seed=7):
    return np.random.default_rng(seed).uniform(0, 1, (count, 2)).astype(np.float32)


def gradients_of(training):
    return training.gradients.to_numpy().view(training.kernels.dtype)


def parameters_of(training):
    return training.parameters.to_numpy().view(training.kernels.dtype)


@BACKENDS
@pytest.mark.parametrize("count", [1, 5, 37])
def test_gradients_of_the_float_network_are_those_of_the_model(backend, count):
    training, points = train.Training(kernels(np.float32, backend), seed=3), points_of(count)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points)
    np.testing.assert_allclose(gradients_of(training), gradients, rtol=2e-5, atol=2e-5)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_of_many_points():
    training, points = train.Training(kernels(np.float32), seed=3), points_of(1000)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points)
    np.testing.assert_allclose(gradients_of(training), gradients, rtol=1e-4, atol=1e-3)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_add_up_over_launches():
    training, points = train.Training(kernels(np.float32), seed=3), points_of(7)
    training.learn(points)
    once = gradients_of(training).copy()
    training.learn(points)
    np.testing.assert_allclose(gradients_of(training), 2 * once, rtol=1e-5)


@BACKENDS
@pytest.mark.parametrize("seed", [1, 2, 3])  # of 0, one unit is so near zero that rounding chooses its slope
def test_gradients_of_the_half_network_are_near_those_of_the_model(backend, seed):
    training, points = train.Training(kernels(np.float16, backend), seed), points_of(4, seed)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points.astype(np.float16))
    scale = np.abs(gradients).max()
    np.testing.assert_allclose(gradients_of(training), gradients, atol=0.01 * scale)
    assert largest == pytest.approx(losses.max(), rel=0.02)


def test_one_point_in_half_is_the_same_bit_for_bit():
    """One thread adds to each gradient once, so no order of additions matters."""
    compiled, interpreted = (
        train.Training(kernels(np.float16, backend), seed=1) for backend in ("cpu", "interpreter")
    )
    assert compiled.learn(points_of(1)) == interpreted.learn(points_of(1))
    assert gradients_of(compiled).tobytes() == gradients_of(interpreted).tobytes()


@BACKENDS
def test_a_step_of_gradient_descent(backend):
    training = train.Training(kernels(np.float16, backend), seed=0)
    gradients = np.linspace(-8, 8, train.COUNT).astype(np.float16)
    training.gradients.copy_from_numpy(gradients)
    expected = parameters_of(training) - gradients * np.float16(0.01)
    training.adjust("descent")
    assert (parameters_of(training) == expected).all() and not gradients_of(training).any()


@BACKENDS
def test_a_step_of_adam(backend):
    training = train.Training(kernels(np.float32, backend), seed=0)
    before = parameters_of(training).copy()
    gradients = np.linspace(-8, 8, train.COUNT).astype(np.float32)
    training.gradients.copy_from_numpy(gradients)
    training.adjust("adam")
    np.testing.assert_allclose(parameters_of(training), before - 0.01 * np.sign(gradients), atol=1e-6)
    assert not gradients_of(training).any()
    assert (training.states.to_numpy().view(train.STATE)["iteration"] == 1).all()


@BACKENDS
def test_a_gradient_that_is_no_number_is_dropped(backend):
    training = train.Training(kernels(np.float16, backend), seed=0)
    before = parameters_of(training).copy()
    training.gradients.copy_from_numpy(np.full(train.COUNT, np.nan, np.float16))
    training.adjust("adam")
    assert (parameters_of(training) == before).all() and not gradients_of(training).any()


@pytest.mark.parametrize(
    ("dtype", "optimizer", "count"),
    [(np.float16, "adam", 256), (np.float32, "adam", 256), (np.float32, "descent", 16)],
)
def test_the_largest_loss_falls_below_two_hundredths(dtype, optimizer, count):
    training, points = train.Training(kernels(dtype), seed=1), points_of(count, seed=101)
    assert training.learn(points) > 1
    training.gradients.copy_from_numpy(np.zeros(train.COUNT, dtype))
    assert train.steps_to(training, points, optimizer, wanted=0.02, most=2000) is not None
