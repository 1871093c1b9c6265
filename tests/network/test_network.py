"""The kernels of examples/mlp against a model in NumPy, and trainings."""

from functools import cache

import numpy as np
import pytest

from tests.network.model import losses_and_gradients, train

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


@cache
def kernels(number, backend="cpu"):
    return train.NetworkKernels(number, backend=backend)


def points_of(count, seed=7):
    return np.random.default_rng(seed).uniform(0, 1, (count, 2)).astype(np.float32)


def gradients_of(training):
    return training.gradients.to_numpy().view(training.kernels.dtype)


def parameters_of(training):
    return training.values.to_numpy().view(training.kernels.dtype)


@BACKENDS
@pytest.mark.parametrize("count", [1, 5, 37])
def test_gradients_of_the_float_network_are_those_of_the_model(backend, count):
    training, points = train.Training(kernels("float", backend), seed=3), points_of(count)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points)
    np.testing.assert_allclose(gradients_of(training), gradients, rtol=2e-5, atol=2e-5)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_of_many_points():
    training, points = train.Training(kernels("float"), seed=3), points_of(1000)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points)
    np.testing.assert_allclose(gradients_of(training), gradients, rtol=1e-4, atol=1e-3)
    assert largest == pytest.approx(losses.max(), rel=1e-5)


def test_gradients_add_up_over_launches():
    training, points = train.Training(kernels("float"), seed=3), points_of(7)
    training.learn(points)
    once = gradients_of(training).copy()
    training.learn(points)
    np.testing.assert_allclose(gradients_of(training), 2 * once, rtol=1e-5)


@BACKENDS
@pytest.mark.parametrize("seed", [1, 2, 3])  # of 0, one unit is so near zero that rounding chooses its slope
def test_gradients_of_the_half_network_are_near_those_of_the_model(backend, seed):
    training, points = train.Training(kernels("half", backend), seed=seed), points_of(4, seed)
    largest = training.learn(points)
    losses, gradients = losses_and_gradients(parameters_of(training), points.astype(np.float16))
    scale = np.abs(gradients).max()
    np.testing.assert_allclose(gradients_of(training), gradients, atol=0.01 * scale)
    assert largest == pytest.approx(losses.max(), rel=0.02)


def test_one_point_in_half_is_the_same_bit_for_bit():
    """One thread adds to each gradient once, so no order of additions matters."""
    compiled, interpreted = (
        train.Training(kernels("half", backend), seed=1) for backend in ("cpu", "interpreter")
    )
    assert compiled.learn(points_of(1)) == interpreted.learn(points_of(1))
    assert gradients_of(compiled).tobytes() == gradients_of(interpreted).tobytes()


@BACKENDS
def test_a_step_of_descent(backend):
    training = train.Training(kernels("half", backend), "Descent")
    gradients = np.linspace(-8, 8, training.count).astype(np.float16)
    training.gradients.copy_from_numpy(gradients)
    expected = parameters_of(training) - (gradients.astype(np.float32) * np.float32(0.01)).astype(np.float16)
    training.adjust()
    assert (parameters_of(training) == expected).all() and not gradients_of(training).any()


@BACKENDS
def test_steps_of_adam(backend):
    """Two steps along gradients of one sign have the length of the rate; the averages are those of the paper."""
    training = train.Training(kernels("float", backend), "Adam")
    before = parameters_of(training).copy()
    gradients = np.linspace(-8, 8, training.count).astype(np.float32)
    for _ in range(2):
        training.gradients.copy_from_numpy(gradients)
        training.adjust()
    np.testing.assert_allclose(parameters_of(training), before - 0.02 * np.sign(gradients), atol=1e-6)
    assert not gradients_of(training).any()
    memory = training.memory.to_numpy().view([("mean", "f4"), ("square", "f4"), ("count", "i4")])
    np.testing.assert_allclose(memory["mean"], (1 - 0.9**2) * gradients, rtol=1e-5)
    np.testing.assert_allclose(memory["square"], (1 - 0.999**2) * gradients**2, rtol=1e-4)
    assert (memory["count"] == 2).all()


@BACKENDS
@pytest.mark.parametrize("rule", ["Adam", "Descent"])
def test_a_gradient_that_is_no_number_is_dropped(backend, rule):
    training = train.Training(kernels("half", backend), rule)
    before = parameters_of(training).copy()
    training.gradients.copy_from_numpy(np.full(training.count, np.nan, np.float16))
    training.adjust()
    assert (parameters_of(training) == before).all() and not gradients_of(training).any()


@BACKENDS
def test_a_loss_that_is_no_number_is_the_largest(backend):
    training, points = train.Training(kernels("float", backend), seed=3), points_of(37)
    points[20, 0] = np.nan
    assert np.isnan(training.learn(points))


@BACKENDS
def test_predictions_are_those_of_the_model(backend):
    training, points = train.Training(kernels("float", backend), seed=3), points_of(37)
    losses, _ = losses_and_gradients(parameters_of(training), points)
    predicted = training.predict(points)
    assert predicted.shape == (37, 4)
    np.testing.assert_allclose(((predicted - train.goals_at(points)) ** 2).sum(axis=1), losses, rtol=1e-4)


def test_sizes_that_python_asks_for():
    assert train.first_parameters(0).size == 148
    assert [kernels("half").size_of(name) for name in ("Adam", "Descent", "Parameters")] == [12, 0, 16]


@pytest.mark.parametrize(("number", "rule"), [("half", "Adam"), ("float", "Adam"), ("float", "Descent")])
def test_the_largest_loss_falls_below_two_hundredths(number, rule):
    training = train.Training(kernels(number), rule, seed=1)
    points = points_of({"Adam": 256, "Descent": 16}[rule], seed=101)
    losses = [training.step(points) for _ in range(1500)]
    assert losses[0] > 1 and min(losses) < 0.02


def test_the_example_prints_what_it_has_learned(capsys):
    train.main(steps=200)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("step    20   largest loss ") and len(printed) == 10 + 4
    assert all(float(line.split()[-1]) < 0.2 for line in printed[10:])
