"""Programs as users write them: each compared with NumPy, and its gradients with differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import slangrad as spy

FOLDER = Path(__file__).parent
GALLERY = FOLDER.parent.parent / "examples" / "gallery"


def load(name: str) -> spy.Module:
    """A program of this folder or of the gallery, with the modules beside it."""
    device = spy.create_device(include_paths=[FOLDER, GALLERY])
    return spy.Module.load_from_file(device, f"{name}.slang")


def kernel(device: spy.Device, name: str, entry: str) -> spy.ComputeKernel:
    """An entry point of a program of this folder."""
    module = device.load_module(str(FOLDER / f"{name}.slang"))
    return device.create_compute_kernel(device.link_program([module], [module.entry_point(entry)]))


def buffer(device: spy.Device, numbers: np.ndarray, size: int = 0) -> spy.Buffer:
    """A buffer of numbers, or of structs with a number of bytes."""
    usage = spy.BufferUsage.unordered_access
    return device.create_buffer(data=numbers, struct_size=size or numbers.dtype.itemsize, usage=usage)


def assert_slopes(
    f: Callable[[np.ndarray], float],
    x: np.ndarray,
    slopes: np.ndarray,
    step: float = 1e-3,
    tolerance: float = 2e-2,
) -> None:
    """Compare the gradient of a number by an array with differences along six random directions."""
    random = np.random.default_rng(0)
    for _ in range(6):
        direction = random.normal(size=x.shape)
        near = (f((x + s * step * direction).astype(x.dtype)) for s in (1, -1))
        difference = (next(near) - next(near)) / (2 * step)
        scale = np.abs(slopes * direction).sum() + 1e-12
        np.testing.assert_allclose((slopes * direction).sum() / scale, difference / scale, atol=tolerance)
