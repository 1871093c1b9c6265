"""Image files as arrays of floats, read and written by Pillow.

    photo.png, 8 bits, 640 x 480   <->   float32 (480, 640, 3), from 0 to 1; rows from top to bottom

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
_WITHOUT_ALPHA = (".jpg", ".jpeg", ".bmp", ".ppm", ".pgm")
_PILLOW_MISSING = "needs Pillow: pip install pillow, or"
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722], np.float32)
Picture = Any  # an image of Pillow, which need not be installed


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


def write_image(path: str | PathLike[str], array: AnyArray, flip_y: bool, linear: bool) -> None:
    """Numbers from 0 to 1, in height, width and channels, as 8 bits each; bytes as they are."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and not 1 <= array.shape[2] <= 4) or not array.size:
        raise ValueError(
            f"save: an image has height and width, and one to four channels, not the dimensions {array.shape}"
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim == 3 and array.shape[2] in (2, 4) and str(path).lower().endswith(_WITHOUT_ALPHA):
        raise ValueError(
            f"path: {path} is of a format without alpha, and there are {array.shape[2]} channels"
        )
    pixels = np.ascontiguousarray(
        (array if array.dtype == np.uint8 else _encoded(array, linear))[:: -1 if flip_y else 1]
    )
    try:
        image = PILLOW.fromarray(pixels)
    except ImportError:
        message = f"save {_PILLOW_MISSING} pass tensor.to_numpy() to another library"
        raise ImportError(message) from None
    image.save(path)


def _encoded(array: AnyArray, linear: bool) -> AnyArray:
    """Numbers from 0 to 1 as 0 to 255; smaller and larger ones become the nearest of these."""
    if array.dtype.kind != "f":
        raise ValueError(f"save: floats from 0 to 1 or bytes (uint8_t) are written, not {array.dtype}")
    if np.isnan(array).any():
        raise ValueError("save: NaN is no intensity; np.nan_to_num(tensor.to_numpy()) replaces it")
    numbers = np.clip(array.astype(np.float64), 0, 1)
    if linear:
        colors = _colors(numbers)
        colors[...] = np.where(colors <= 0.0031308, colors * 12.92, 1.055 * colors ** (1 / 2.4) - 0.055)
    return np.rint(numbers * 255).astype(np.uint8)


def _opened(path: str | PathLike[str]) -> tuple[AnyArray, bool]:
    """The numbers, and whether they are in sRGB: whole numbers are."""
    try:
        opened = PILLOW.open(path)
    except ImportError:
        raise ImportError(
            f"load_from_image {_PILLOW_MISSING} read the file with another library and pass its array to "
            "Tensor.from_numpy()"
        ) from None
    with opened as image:
        _check_depth(image, path)
        if image.mode not in _MODES:
            image = image.convert(_target_of(image, path))
        largest = _MODES[image.mode]
        pixels = np.array(image)
    if largest is None:
        return pixels.astype(np.float32), False
    return (pixels / np.float32(largest)).astype(np.float32), True


def _target_of(image: Picture, path: object) -> str:
    mode = _OTHERS.get(image.mode)
    if mode is None:
        raise ValueError(f"path: {path} has pixels of Pillow's mode '{image.mode}', which are not read")
    transparent = mode == "RGB" and "transparency" in image.info
    return "RGBA" if transparent else mode


def _check_depth(image: Picture, path: object) -> None:
    """Pillow reads 16 bits of one channel only, and cuts off those of several."""
    layout = [
        part for tile in getattr(image, "tile", ()) for part in np.ravel([str(entry) for entry in tile])
    ]
    if image.mode in ("LA", "RGB", "RGBA") and any(";16" in part for part in layout):
        raise ValueError(
            f"path: {path} has 16 bits for each of several channels, of which Pillow keeps 8; read it with another "
            "library and pass its array to Tensor.from_numpy()"
        )


def _linearize(numbers: AnyArray) -> None:
    """From sRGB to linear intensities, in place; alpha is linear already."""
    colors = _colors(numbers)
    colors[...] = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)


def _colors(numbers: AnyArray) -> AnyArray:
    """A view of all channels but alpha."""
    return numbers[..., : numbers.shape[2] - (numbers.shape[2] in (2, 4))] if numbers.ndim == 3 else numbers


def _gray(numbers: AnyArray) -> AnyArray:
    """The luminance; alpha is dropped."""
    if numbers.ndim == 2 or numbers.shape[2] == 2:
        return numbers if numbers.ndim == 2 else numbers[..., 0]
    return np.asarray(numbers[..., :3] @ _LUMINANCE)
