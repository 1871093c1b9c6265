"""Parameters that are fitted: the colors of texture blocks, a network of distances."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, buffer, load


def decoded(low: np.ndarray, high: np.ndarray, picks: np.ndarray) -> np.ndarray:
    t = (picks[:, None] >> (2 * np.arange(16, dtype=np.uint32)) & 3) / 3
    return low[:, None] + t[..., None] * (high - low)[:, None]


def test_texture_compression() -> None:
    module = load("blocks")
    random = np.random.default_rng(4)
    count = 5
    ends = random.uniform(size=(2, count, 1, 3))
    texels = ends[0] + random.uniform(size=(count, 16, 1)) * (ends[1] - ends[0])
    texels = (texels + random.normal(scale=0.01, size=texels.shape)).astype(np.float32)
    low, high = texels.min(1), texels.max(1)

    def errors(numbers: np.ndarray) -> np.ndarray:
        return module.error(numbers[0], numbers[1], picks, texels, _result="numpy")

    colors = np.stack([low, high])
    history = []
    for _ in range(8):
        blocks = [
            {"low": list(map(float, a)), "high": list(map(float, b)), "picks": 0} for a, b in zip(*colors)
        ]
        chosen = [int(module.choose(block, texel)) for block, texel in zip(blocks, texels)]
        picks = np.array(chosen, np.uint32)
        history.append(errors(colors))
        np.testing.assert_allclose(
            history[-1], ((decoded(*colors, picks) - texels) ** 2).sum((1, 2)), rtol=1e-3, atol=1e-6
        )
        tensors = [
            spy.Tensor.from_numpy(module.device, each, dtype="float3").with_grads(zero=True)
            for each in colors
        ]
        result = module.error(*tensors, picks, texels, _result="tensor").with_grads(zero=True)
        result.grad.copy_from_numpy(np.ones(count, np.float32))
        module.error.bwds(*tensors, picks, texels, result)
        slopes = np.stack([tensor.grad.to_numpy() for tensor in tensors])
        if len(history) == 1:
            assert_slopes(lambda x: errors(x).sum(dtype=np.float64), colors, slopes)
        colors = (colors - 0.05 * slopes).astype(np.float32)
    assert history[-1].sum() < 0.6 * history[0].sum()


@pytest.mark.deep
def test_a_network_of_distances() -> None:
    module = load("distances")
    device = module.device
    random = np.random.default_rng(6)
    places = random.uniform(-1, 1, (256, 2)).astype(np.float32)
    wanted = (np.hypot(*places.T) - 0.6).astype(np.float32)
    numbers = random.normal(scale=0.4, size=module.parameterCount()).astype(np.float32)

    def losses(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parameters, gradients = buffer(device, numbers), buffer(device, np.zeros_like(numbers))
        values = module.train(
            places, wanted, parameters.device_address, gradients.device_address, _result="numpy"
        )
        return values, gradients.to_numpy().view(np.float32) / len(places)

    w1, b1, w2, b2, w3, b3 = np.split(numbers, np.cumsum([24, 12, 144, 12, 12]))
    hidden = np.tanh(np.sin(places @ w1.reshape(12, 2).T + b1) @ w2.reshape(12, 12).T + b2)
    values, slopes = losses(numbers)
    np.testing.assert_allclose(values, (hidden @ w3 + b3 - wanted) ** 2, rtol=1e-3, atol=1e-5)
    assert_slopes(lambda x: losses(x)[0].mean(dtype=np.float64), numbers, slopes)

    first, square, mean = values.mean(), 0, 0
    for step in range(1, 151):
        values, slopes = losses(numbers)
        mean, square = 0.9 * mean + 0.1 * slopes, 0.99 * square + 0.01 * slopes**2
        rate = 0.02 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        numbers = (numbers - rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
    assert values.mean() < first / 50
    parameters, unused = buffer(device, numbers), buffer(device, np.zeros_like(numbers))
    near = [np.array(p, np.float32) for p in ([[0.6, 0]], [[0, -0.6]])]
    normals = [
        module.normal(p, parameters.device_address, unused.device_address, _result="numpy")[0] for p in near
    ]
    np.testing.assert_allclose(normals, [[1, 0], [0, -1]], atol=0.25)
