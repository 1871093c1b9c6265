"""Rays: a tree of boxes by pointers, a path tracer in modules that import each other."""

import numpy as np
import pytest

import slangrad as spy
from tests.programs import assert_slopes, buffer, load

NODE = np.dtype(
    [("low", "3f4"), ("high", "3f4"), ("left", "u8"), ("right", "u8"), ("first", "i4"), ("count", "i4")]
)
MISS = 1e30


def tree(centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with the numbers of their children, and the order of the spheres: halves of the longest side."""
    nodes: list[tuple] = []
    order: list[int] = []

    def add(spheres: np.ndarray) -> int:
        index = len(nodes)
        nodes.append(())
        low = (centers[spheres] - radii[spheres, None]).min(0)
        high = (centers[spheres] + radii[spheres, None]).max(0)
        if len(spheres) <= 2:
            nodes[index] = (low, high, -1, -1, len(order), len(spheres))
            order.extend(spheres)
            return index
        halves = np.array_split(spheres[np.argsort(centers[spheres, np.argmax(high - low)])], 2)
        left, right = map(add, halves)
        nodes[index] = (low, high, left, right, 0, 0)
        return index

    add(np.arange(len(centers)))
    links = np.array([node[2:4] for node in nodes])
    table = np.zeros(len(nodes), NODE)
    for row, node in zip(table, nodes):
        row["low"], row["high"], row["first"], row["count"] = node[0], node[1], node[4], node[5]
    return table, links, np.array(order)


@pytest.mark.deep
def test_a_tree_of_boxes() -> None:
    module = load("bvh")
    device = module.device
    random = np.random.default_rng(3)
    centers = random.uniform(-2, 2, (37, 3)).astype(np.float32)
    radii = random.uniform(0.1, 0.5, 37).astype(np.float32)
    table, links, order = tree(centers, radii)
    nodes = buffer(device, table.view(np.uint8), NODE.itemsize)
    base = nodes.device_address
    for side, name in enumerate(("left", "right")):
        table[name] = np.where(links[:, side] < 0, 0, base + links[:, side] * NODE.itemsize)
    nodes.copy_from_numpy(table.view(np.uint8))
    centers, radii = centers[order], radii[order]
    spheres = buffer(device, np.column_stack([centers, radii]), 16)

    origins = random.uniform(-1, 1, (200, 3)).astype(np.float32) + np.array([0, 0, 6], np.float32)
    rays = random.uniform(-2, 2, (200, 3)).astype(np.float32) - origins
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    d = origins[:, None] - centers
    b = (d * rays[:, None]).sum(-1)
    root = b**2 - (d**2).sum(-1) + radii**2
    distances = np.where(root >= 0, -b - np.sqrt(np.maximum(root, 0)), MISS)
    hit = distances.min(1) < MISS
    nearest = module.first(base, spheres.device_address, origins, rays, _result="numpy")
    np.testing.assert_array_equal(nearest, np.where(hit, distances.argmin(1), -1))
    depths = module.depth(base, spheres.device_address, origins, rays, _result="numpy")
    np.testing.assert_allclose(depths[hit], distances.min(1)[hit], rtol=1e-4)
    assert 20 < hit.sum() < 200

    inside = hit & (np.take_along_axis(root, distances.argmin(1)[:, None], 1)[:, 0] > 0.02)
    starts = spy.Tensor.from_numpy(device, origins[inside], dtype="float3").with_grads(zero=True)
    inputs = (base, spheres.device_address, starts, rays[inside])
    result = module.depth(*inputs, _result="tensor").with_grads(zero=True)
    result.grad.copy_from_numpy(np.ones(inside.sum(), np.float32))
    module.depth.bwds(*inputs, result)

    def total(numbers: np.ndarray) -> float:
        values = module.depth(base, spheres.device_address, numbers, rays[inside], _result="numpy")
        return values.sum(dtype=np.float64)

    assert_slopes(total, origins[inside], starts.grad.to_numpy())


@pytest.mark.deep
def test_paths_through_modules_that_import_each_other() -> None:
    module = load("paths")
    shape, samples, seed = (8, 12), 16, 3
    ids, size = spy.grid(shape), spy.int2(12, 8)
    colors = np.array([[0.5, 0.5, 0.5], [0.9, 0.2, 0.1], [0.2, 0.3, 0.9], [1, 0.9, 0.8]], np.float32)

    def tensor(numbers: np.ndarray) -> spy.Tensor:
        return spy.Tensor.from_numpy(module.device, numbers, dtype="float3")

    def picture(colors: np.ndarray) -> np.ndarray:
        return module.draw(ids, size, samples, seed, tensor(colors), _result="numpy")

    image = picture(colors)
    columns, rows = np.meshgrid((np.arange(12) + 0.5) / 12 - 0.5, (np.arange(8) + 0.5) / 8 - 0.5)
    rays = np.stack([2 * columns, -2 * rows * 8 / 12, np.full_like(rows, -1.5)], -1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    free = rays[..., 1] > 0.19  # above the balls: the sky
    assert 5 < free.sum() < 40
    np.testing.assert_allclose(image[free], (0.5 + 0.5 * rays[free][:, 1:2]) * colors[3], rtol=1e-4)
    white = picture(np.ones_like(colors))
    assert white.min() > 0.1 and white.max() < 1
    np.testing.assert_allclose(picture(colors * [[1], [1], [1], [0.5]]), 0.5 * image, rtol=1e-5)

    wanted = np.random.default_rng(1).uniform(size=image.shape).astype(np.float32)
    learned = tensor(colors).with_grads(zero=True)
    module.loss.bwds(ids, size, samples, seed, learned, wanted)

    def loss(numbers: np.ndarray) -> float:
        return ((picture(numbers) - wanted) ** 2).sum(dtype=np.float64)

    assert_slopes(loss, colors, learned.grad.to_numpy())
