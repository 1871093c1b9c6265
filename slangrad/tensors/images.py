"""Image files as arrays of floats, read by Pillow.

    photo.png, 8 bits, 640 x 480   ->   float32 (480, 640, 3), from 0 to 1; rows from top to bottom

One to four channels: gray, gray and alpha, colors, colors and alpha. Pillow is not installed with the package:
`pip install pillow`.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from slangrad.base.late import Late
from slangrad.tensors.conversion import AnyArray

PILLOW = Late("PIL.Image")

# Pillow's modes that are read as they are: the largest number, or None where they are numbers already.
_MODES: dict[str, int | None] = {
    "L": 255, "LA": 255, "RGB": 255, "RGBA": 255,
    "I;16": 65535, "I;16L": 65535, "I;16B": 65535,
    "F": None,
}  # fmt: skip
_OTHERS = {"1": "L", "P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB"}
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722], np.float32)


def read_image(
    path: str | PathLike[str], flip_y: bool, linearize: bool, scale: float, offset: float, grayscale: bool
) -> AnyArray:
    """Height, width and, for more than one, channels; float32."""
    numbers, encoded = _opened(path)
    if linearize and encoded:
        _linearize(numbers)
    if grayscale:
        numbers = _gray(numbers)
    if flip_y:
        numbers = numbers[::-1]
    if scale != 1 or offset != 0:
        numbers = numbers * np.float32(scale) + np.float32(offset)
    return np.ascontiguousarray(numbers, np.float32)


def _opened(path: str | PathLike[str]) -> tuple[AnyArray, bool]:
    """The numbers, and whether they are encoded as sRGB is: whole numbers are."""
    try:
        opened = PILLOW.open(path)
    except ImportError:
        raise ImportError(
            "load_from_image needs Pillow: pip install pillow, or read the file with another library and "
            "pass its array to Tensor.from_numpy()"
        ) from None
    with opened as image:
        _check_depth(image, path)
        if image.mode not in _MODES:
            image = image.convert(_target_of(image, path))
        largest = _MODES[image.mode]
        found = np.array(image)
    if largest is None:
        return found.astype(np.float32), False
    return (found / np.float32(largest)).astype(np.float32), True


def _target_of(image: Any, path: object) -> str:
    mode = _OTHERS.get(image.mode)
    if mode is None:
        raise ValueError(f"path: {path} has pixels of Pillow's mode '{image.mode}', which are not read")
    transparent = mode == "RGB" and "transparency" in image.info
    return "RGBA" if transparent else mode


def _check_depth(image: Any, path: object) -> None:
    """Pillow reads 16 bits of one channel only, and cuts off those of several."""
    layout = [part for tile in getattr(image, "tile", ()) for part in np.ravel([str(each) for each in tile])]
    if image.mode in ("LA", "RGB", "RGBA") and any(";16" in part for part in layout):
        raise ValueError(
            f"path: {path} has 16 bits for each of several channels, of which Pillow keeps 8; read it with another "
            "library and pass its array to Tensor.from_numpy()"
        )


def _linearize(numbers: AnyArray) -> None:
    """From sRGB to linear intensities, in place; alpha is linear already."""
    colors = numbers[..., : numbers.shape[2] - (numbers.shape[2] in (2, 4))] if numbers.ndim == 3 else numbers
    colors[...] = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)


def _gray(numbers: AnyArray) -> AnyArray:
    """The luminance; alpha is dropped."""
    if numbers.ndim == 2 or numbers.shape[2] == 2:
        return numbers if numbers.ndim == 2 else numbers[..., 0]
    return np.asarray(numbers[..., :3] @ _LUMINANCE)
