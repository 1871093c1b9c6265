"""The peer for benchmarks on a GPU, without one: its gradients of small workloads against finite differences."""

import sys
from importlib import util
from math import prod
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.runtime.fake_cuda import fake_gpu

FILE = Path(__file__).parents[2] / "benchmarks" / "peer_slangrad_gpu.py"
SIDE, G = 4, 3
random = np.random.default_rng(3)


@pytest.fixture(scope="module")
def peer():
    work = ModuleType("work")
    vars(work).update(A=2.0, B=8.0, C=-1.0, LR=0.5, SIDE=SIDE, G=G, sl=lambda array: array, ATT={"H": 2})
    spec = util.spec_from_file_location("slangrad_", FILE)
    module, path = util.module_from_spec(spec), list(sys.path)
    with pytest.MonkeyPatch.context() as patch, fake_gpu():
        patch.setitem(sys.modules, "work", work)
        spec.loader.exec_module(module)
        yield module
    sys.path[:] = path


def outputs(peer, workload, inputs):
    """Of each variant, after one run."""
    for make in peer.CASES[workload].values():
        run, read = make(inputs)
        run()
        peer.sync()
        yield read()
    peer.cleanup()


def differences(loss, point):
    """The gradient of a loss by central differences."""
    gradient = np.zeros_like(point, np.float64)
    for place in np.ndindex(point.shape):
        step = np.zeros_like(gradient)
        step[place] = 1e-5
        gradient[place] = (loss(point + step) - loss(point - step)) / 2e-5
    return gradient


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def test_functions_of_one_element(peer):
    inputs = {"x": floats(9), "gy": floats(9)}
    for result in outputs(peer, "W1.fwd", inputs):
        np.testing.assert_allclose(result["y"], 2 * inputs["x"] ** 2 + 8 * inputs["x"] - 1, rtol=1e-5)
    for result in outputs(peer, "W1.bwd", inputs):
        np.testing.assert_allclose(result["gx"], inputs["gy"] * (4 * inputs["x"] + 8), rtol=1e-5)
    arrays = dict(zip("abcd", floats(4, 9), strict=True))
    for result in outputs(peer, "W7c", arrays):
        expected = arrays["d"] + (arrays["a"] + arrays["b"]) * arrays["c"]
        np.testing.assert_allclose(result["e"], expected, rtol=1e-5)


def test_gradients_of_a_table(peer):
    inputs = {"table": floats(5), "idx": random.integers(0, 5, 20, dtype=np.int32), "w": floats(20)}
    for result in outputs(peer, "W4.16", inputs):
        expected = np.bincount(inputs["idx"], inputs["w"], 5)
        np.testing.assert_allclose(result["g"], expected, rtol=1e-5, atol=1e-6)


def test_a_step_of_training(peer):
    p, xy = floats(148) / 2, floats(5, 2)
    x, y = xy.T.astype(np.float64)
    goals = np.stack([(x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y], 1)

    def loss(numbers):
        values = np.stack([x, y, x * x, y * y], 1)
        for weights, biases in ((numbers[:64], numbers[64:80]), (numbers[80:144], numbers[144:])):
            values = values @ weights.reshape(len(biases), -1).T + biases
            values = np.where(values < 0, 0.01 * values, values)
        return ((values - goals) ** 2).sum() / len(xy)

    (result,) = outputs(peer, "W3.14", {"p": p, "xy": xy})
    np.testing.assert_allclose(result["grad"], differences(loss, p), rtol=1e-3, atol=1e-4)


def test_gradients_of_gaussians(peer):
    q = np.concatenate(
        [random.uniform(0, SIDE, (G, 2)), [[0.5, 0.1, 0.4]] * G, random.uniform(0.2, 0.8, (G, 4))], 1
    )
    target = random.uniform(0, 1, (SIDE, SIDE, 3)).astype(np.float32)

    def loss(numbers):
        ys, xs = np.mgrid[:SIDE, :SIDE] + 0.5
        color, light = np.zeros((SIDE, SIDE, 3)), np.ones((SIDE, SIDE, 1))
        for mx, my, a, b, c, *rgb, opacity in numbers:
            dx, dy = xs - mx, ys - my
            alpha = (opacity * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy))[..., None]
            color, light = color + light * alpha * rgb, light * (1 - alpha)
        return ((color - target) ** 2).mean()

    for result in outputs(peer, "W6", {"q": q.astype(np.float32), "target": target}):
        np.testing.assert_allclose(result["grad"], differences(loss, q), rtol=1e-3, atol=1e-5)


def test_a_network_of_halves(peer):
    shapes = (4, 6), (4, 4), (3, 4)
    inputs = {"x": floats(7, 6).astype(np.float16), "gy": floats(7, 3).astype(np.float16)}
    inputs["W"] = [floats(*shape).astype(np.float16) for shape in shapes]
    sizes = np.cumsum([0, *(prod(shape) for shape in shapes)])

    def network(flat):
        x = inputs["x"].astype(np.float64)
        weights = [flat[i:j].reshape(s) for i, j, s in zip(sizes, sizes[1:], shapes, strict=False)]
        for weight in weights[:-1]:
            x = np.maximum(x @ weight.T, 0)
        return x @ weights[-1].T

    flat = np.concatenate([weight.ravel() for weight in inputs["W"]]).astype(np.float64)
    for result in outputs(peer, "W3L.fwd", inputs):
        np.testing.assert_allclose(result["y"], network(flat), rtol=1e-2, atol=5e-3)
    for result in outputs(peer, "W3L.grad", inputs):
        expected = differences(lambda point: (network(point) * inputs["gy"]).sum(), flat)
        np.testing.assert_allclose(result["grad"], expected, rtol=2e-2, atol=2e-2)


def test_attention_and_its_gradients(peer):
    arrays = {"x": floats(2, 3, 4), "wqkv": floats(4, 12), "wo": floats(4, 4), "gy": floats(2, 3, 4)}
    inputs = {name: x.astype(np.float16).astype(np.float32) for name, x in arrays.items()}

    def layer(x):
        q, k, v = np.moveaxis((x @ inputs["wqkv"]).reshape(2, 3, 3, 2, 2), 2, 0).swapaxes(2, 3)
        scores = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(2))
        mixed = scores / scores.sum(3, keepdims=True) @ v
        return mixed.swapaxes(1, 2).reshape(2, 3, 4) @ inputs["wo"]

    x = inputs["x"].astype(np.float64)
    for result in outputs(peer, "W7a", inputs):
        np.testing.assert_allclose(result["y"], layer(x)[0], rtol=1e-2, atol=1e-2)
        expected = differences(lambda point: (layer(point) * inputs["gy"]).sum(), x)
        np.testing.assert_allclose(result["dx"], expected[0], rtol=2e-2, atol=2e-2)


def test_a_convolution_with_its_normalization(peer):
    arrays = {"x": floats(2, 3, 4, 4), "w": floats(3, 3, 3, 3), "v": abs(floats(3)) + 1}
    arrays |= {name: floats(3) for name in "gbm"}
    inputs = {name: x.astype(np.float16).astype(np.float32) for name, x in arrays.items()}
    padded = np.pad(inputs["x"][0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    y = np.einsum("chwij,ocij->ohw", windows.astype(np.float64), inputs["w"])
    m, v, g, b = (inputs[name][:, None, None] for name in "mvgb")
    for result in outputs(peer, "W7b", inputs):
        expected = np.maximum((y - m) * g / np.sqrt(v + 1e-5) + b, 0)
        np.testing.assert_allclose(result["y"], expected, rtol=1e-2, atol=1e-2)
