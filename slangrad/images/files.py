"""Image files as arrays of the numbers that they hold.

    photo.png, 8 bits, 640 x 480   ->   uint8 (480, 640, 3), channels R G B, in sRGB

Pillow reads and writes PNG, JPEG, BMP, TGA and what else it has. OpenImageIO serves EXR, HDR and PNG with 16 bits in
several channels. Both are optional: `pip install slangrad[image]`. This file converts no numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.tensors.elements.conversion import AnyArray

PILLOW = LazyModule("PIL.Image")
OIIO = LazyModule("OpenImageIO")

PathOf = str | PathLike[str]
Opened = Any  # an image of Pillow or an input of OpenImageIO, which need not be installed


class FileFormat(Enum):
    """Formats of image files; `auto` takes the ending of the name."""

    unknown = 0
    auto = 1
    png = 2
    jpg = 3
    bmp = 4
    tga = 5
    hdr = 6
    exr = 7


class ImageError(ValueError):
    """A file that is no image, or an image that its format cannot hold."""

    code = "E1053"

    def __init__(self, message: str) -> None:
        super().__init__(f"error[{self.code}]: {message}")


@dataclass(frozen=True, slots=True)
class Picture:
    """Numbers in height, width and channels, the names of channels, and whether colors are in sRGB."""

    numbers: AnyArray
    names: tuple[str, ...]
    is_srgb: bool


NAMES = {1: ("Y",), 2: ("Y", "A"), 3: ("R", "G", "B"), 4: ("R", "G", "B", "A")}

# Pillow's modes that are read as they are, and those that others are converted to.
_MODES = ("L", "LA", "RGB", "RGBA", "I;16", "I;16L", "I;16B", "F")
_OTHERS = {"1": "L", "P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB"}

_INSTALL = "pip install slangrad[image] installs Pillow and OpenImageIO"
_MAGIC = (b"\x76\x2f\x31\x01", b"#?RADIANCE", b"#?RGBE")  # the first bytes of EXR and HDR


# --- Reading ---


def read(path: PathOf) -> Picture:
    """The image in a file. FileNotFoundError where there is none, ImageError where it is no image, ImportError without
    the library that reads it."""
    with open(path, "rb") as file:
        start = file.read(16)
    if start.startswith(_MAGIC):
        return _read_with_openimageio(path)
    try:
        opened = PILLOW.open(path)
    except ImportError:
        raise ImportError(f"{path} needs Pillow: {_INSTALL}") from None
    except (OSError, ValueError):
        raise ImageError(f"{path} is no image that Pillow reads") from None
    with opened as image:
        if _has_deep_channels(image):
            return _read_with_openimageio(path)
        return _of_pillow(image, path)


def _of_pillow(image: Opened, path: object) -> Picture:
    try:
        if image.mode not in _MODES:
            image = image.convert(_target_of(image, path))
        numbers = np.array(image)
    except (OSError, SyntaxError) as error:  # what Pillow raises for files that end early
        raise ImageError(f"{path} cannot be read to its end: {error}") from None
    numbers = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
    if numbers.ndim == 2:
        numbers = numbers[..., None]
    return Picture(numbers, NAMES[numbers.shape[2]], numbers.dtype.kind == "u")


def _target_of(image: Opened, path: object) -> str:
    mode = _OTHERS.get(image.mode)
    if mode is None:
        raise ImageError(f"{path} has pixels of Pillow's mode '{image.mode}', which are not read")
    transparent = mode == "RGB" and "transparency" in image.info
    return "RGBA" if transparent else mode


def _has_deep_channels(image: Opened) -> bool:
    """Whether there are 16 bits in each of several channels: Pillow keeps 8 of them."""
    parts = [part for tile in getattr(image, "tile", ()) for part in np.ravel([str(entry) for entry in tile])]
    return image.mode in ("LA", "RGB", "RGBA") and any(";16" in part for part in parts)


def _read_with_openimageio(path: PathOf) -> Picture:
    try:
        source = OIIO.ImageInput.open(fspath(path))
    except ImportError:
        message = f"{path} has floats, or 16 bits in each of several channels, of which Pillow keeps 8"
        raise ImportError(f"{message}: this needs OpenImageIO; {_INSTALL}") from None
    numbers = None if source is None else source.read_image("unknown")
    if numbers is None:
        reason = (OIIO.geterror() if source is None else source.geterror()).splitlines() or ["no pixels"]
        raise ImageError(f"{path} cannot be read: {reason[0]}")
    names = tuple(source.spec().channelnames)
    source.close()
    integral = numbers.dtype in (np.uint8, np.uint16)
    return Picture(numbers, names, integral)


# --- Writing ---

_WITHOUT_ALPHA = (FileFormat.jpg, FileFormat.bmp)
_ENDINGS = {"jpeg": FileFormat.jpg, **{kind.name: kind for kind in FileFormat if kind.value > 1}}
_BYTES, _WORDS = ("uint8",), ("uint8", "uint16")
_FLOATS = ("float16", "float32", "uint32")
# The types of numbers and the counts of channels that a format holds.
_HELD: dict[FileFormat, tuple[tuple[str, ...], range]] = {
    FileFormat.png: (_WORDS,       range(1, 5)),
    FileFormat.jpg: (_BYTES,       range(1, 4)),
    FileFormat.bmp: (_BYTES,       range(1, 5)),
    FileFormat.tga: (_BYTES,       range(1, 5)),
    FileFormat.hdr: (("float32",), range(1, 5)),
    FileFormat.exr: (_FLOATS,      range(1, 1025)),
}  # fmt: skip


def format_of_name(path: PathOf) -> FileFormat:
    """By the ending of a name; `unknown` for formats that only Pillow has names for."""
    return _ENDINGS.get(fspath(path).rpartition(".")[2].lower(), FileFormat.unknown)


def write(path: PathOf, picture: Picture, format: FileFormat = FileFormat.auto, quality: int = -1) -> None:
    """An image file of the picture's numbers. `quality`: 0 to 100 for JPEG, 0 to 9 for the compression of PNG, -1 for
    the library's own. ImageError where the format does not hold such numbers."""
    if format is FileFormat.auto:
        format = format_of_name(path)
    numbers = np.ascontiguousarray(picture.numbers)
    _check(path, numbers, format)
    if format in (FileFormat.hdr, FileFormat.exr) or (numbers.dtype == np.uint16 and numbers.shape[2] > 1):
        _write_with_openimageio(path, numbers, picture.names)
    else:
        _write_with_pillow(path, numbers, format, quality)


def _check(path: PathOf, numbers: AnyArray, format: FileFormat) -> None:
    types, counts = _HELD.get(format, (_WORDS, range(1, 5)))
    channels = numbers.shape[2]
    if not numbers.size:
        raise ImageError(f"{path}: an image without pixels cannot be written")
    if format in _WITHOUT_ALPHA and channels in (2, 4):
        raise ImageError(f"{path} is of a format without alpha, and there are {channels} channels")
    if numbers.dtype.name not in types:
        message = f"{path}: {format.name} holds {' and '.join(types)}, not {numbers.dtype.name}"
        raise ImageError(f"{message}; bitmap.convert(component_type=...) converts numbers")
    if channels not in counts:
        message = f"{path}: {format.name} does not hold {channels} channels"
        raise ImageError(f"{message}; bitmap.convert(pixel_format=...) chooses others")


def _write_with_pillow(path: PathOf, numbers: AnyArray, format: FileFormat, quality: int) -> None:
    try:
        image = PILLOW.fromarray(numbers[..., 0] if numbers.shape[2] == 1 else numbers)
    except ImportError:
        raise ImportError(f"{path} needs Pillow: {_INSTALL}") from None
    options: dict[str, int] = {}
    if quality >= 0 and format in (FileFormat.jpg, FileFormat.png):
        options = {"quality" if format is FileFormat.jpg else "compress_level": quality}
    kinds = {FileFormat.unknown: None, FileFormat.jpg: "JPEG"}
    try:
        image.save(path, format=kinds.get(format, format.name.upper()), **options)
    except ValueError as error:  # an ending that Pillow has no format for
        raise ImageError(f"{path} cannot be written: {error}") from None


def _write_with_openimageio(path: PathOf, numbers: AnyArray, names: tuple[str, ...]) -> None:
    try:
        target = OIIO.ImageOutput.create(fspath(path))
    except ImportError:
        raise ImportError(f"{path} needs OpenImageIO: {_INSTALL}") from None
    types = {"float16": "half", "float32": "float", "uint32": "uint", "uint16": "uint16"}
    height, width, channels = numbers.shape
    spec = OIIO.ImageSpec(width, height, channels, types[numbers.dtype.name])
    spec.channelnames = names
    written = target is not None and target.open(fspath(path), spec) and target.write_image(numbers)
    if not written or not target.close():
        reason = OIIO.geterror() if target is None else target.geterror()
        raise ImageError(f"{path} cannot be written: {reason}")
