"""Image files as arrays of floats.

    photo.png, 8 bits, 640 x 480   <->   float32 (480, 640, 3), from 0 to 1; rows from top to bottom

One to four channels: gray, gray and alpha, colors, colors and alpha. `files.py` has the libraries.
"""

from __future__ import annotations

from os import PathLike

import numpy as np

from slangrad.images.files import NAMES, FileFormat, ImageError, Picture, format_of_name, read, write
from slangrad.tensors.elements.conversion import AnyArray

_WITHOUT_ALPHA = (".ppm", ".pgm")
LUMINANCE = np.array([0.2126, 0.7152, 0.0722], np.float32)


def read_image(
    path: str | PathLike[str], flip_y: bool, linearize: bool, scale: float, offset: float, grayscale: bool
) -> AnyArray:
    """Height, width and, for more than one, channels; float32."""
    picture = read(path)
    numbers = normalized(picture.numbers)
    if numbers.shape[2] > 4:
        raise ImageError(f"{path} has {numbers.shape[2]} channels; Bitmap(path) reads it")
    if linearize and picture.is_srgb:
        colors = colors_of(numbers)
        colors[...] = from_srgb(colors)
    if numbers.shape[2] == 1:
        numbers = numbers[..., 0]
    if grayscale:
        numbers = _gray(numbers)
    if flip_y:
        numbers = numbers[::-1]
    if scale != 1 or offset != 0:
        numbers = numbers * np.float32(scale) + np.float32(offset)
    return np.ascontiguousarray(numbers, np.float32)


def write_image(path: str | PathLike[str], array: AnyArray, flip_y: bool, linear: bool) -> None:
    """Numbers from 0 to 1, in height, width and channels, as 8 bits each; bytes, and floats of EXR and HDR, as they
    are."""
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
    if array.dtype.kind == "f" and format_of_name(path) in (FileFormat.exr, FileFormat.hdr):
        numbers = array.astype(np.float32)
    else:
        numbers = array if array.dtype == np.uint8 else _encoded(array, linear)
    pixels = np.ascontiguousarray(numbers[:: -1 if flip_y else 1])
    channels = pixels[..., None] if pixels.ndim == 2 else pixels
    write(path, Picture(channels, NAMES[channels.shape[2]], True))


def _encoded(array: AnyArray, linear: bool) -> AnyArray:
    """Numbers from 0 to 1 as 0 to 255; smaller and larger ones become the nearest of these."""
    if array.dtype.kind != "f":
        raise ValueError(f"save: floats from 0 to 1 or bytes (uint8_t) are written, not {array.dtype}")
    if np.isnan(array).any():
        raise ValueError("save: NaN is no intensity; np.nan_to_num(tensor.to_numpy()) replaces it")
    numbers = np.clip(array.astype(np.float64), 0, 1)
    if linear:
        colors = colors_of(numbers)
        colors[...] = to_srgb(colors)
    return np.rint(numbers * 255).astype(np.uint8)


def normalized(numbers: AnyArray) -> AnyArray:
    """Whole numbers as 0 to 1, or -1 to 1; floats as they are. float32; float64 stays."""
    if numbers.dtype.kind == "f":
        return numbers.astype(np.float64 if numbers.dtype.itemsize == 8 else np.float32)
    parts: AnyArray = (numbers / np.float32(np.iinfo(numbers.dtype).max)).astype(np.float32)
    return parts


def from_srgb(x: AnyArray) -> AnyArray:
    """Linear intensities of colors in sRGB."""
    return np.where(x <= 0.04045, x / 12.92, ((np.maximum(x, 0) + 0.055) / 1.055) ** 2.4)


def to_srgb(x: AnyArray) -> AnyArray:
    """Colors in sRGB of linear intensities."""
    return np.where(x <= 0.0031308, x * 12.92, 1.055 * np.maximum(x, 0) ** (1 / 2.4) - 0.055)


def colors_of(numbers: AnyArray) -> AnyArray:
    """A view of all channels but alpha."""
    return numbers[..., : numbers.shape[2] - (numbers.shape[2] in (2, 4))] if numbers.ndim == 3 else numbers


def _gray(numbers: AnyArray) -> AnyArray:
    """The luminance; alpha is dropped."""
    if numbers.ndim == 2 or numbers.shape[2] == 2:
        return numbers if numbers.ndim == 2 else numbers[..., 0]
    return np.asarray(numbers[..., :3] @ LUMINANCE)
