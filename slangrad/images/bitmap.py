"""Bitmaps: images in memory of the host, from files and back, with conversions.

    image = Bitmap("photo.jpg").convert(component_type=Bitmap.ComponentType.float32, srgb_gamma=False)
    np.asarray(image).shape == (480, 640, 3)          image.write("photo.exr")

A bitmap's memory is a NumPy array; `np.array(bitmap, copy=False)` is that memory. Bitmaps of 8 and 16 bits are in sRGB
unless told otherwise, those of floats are linear; alpha is always linear.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from io import BytesIO
from os import PathLike
from typing import Any, ClassVar, TypeAlias

import numpy as np

from slangrad.images import files, tasks
from slangrad.images.files import FileFormat, ImageError, PathOf, Picture
from slangrad.images.pixels import LUMINANCE, from_srgb, normalized, to_srgb
from slangrad.tensors.elements.conversion import AnyArray
from slangrad.tensors.textures.formats import DataType


class PixelFormat(Enum):
    """The channels of a pixel: gray (y), gray and alpha, one to four colors, or any channels by name."""

    y = 0
    ya = 1
    r = 2
    rg = 3
    rgb = 4
    rgba = 5
    multi_channel = 6


# Their names inside of the class that has them as attributes.
Channels: TypeAlias = PixelFormat
FileKind: TypeAlias = FileFormat

_CHANNELS: dict[PixelFormat, tuple[str, ...]] = {
    PixelFormat.y: ("Y",), PixelFormat.ya: ("Y", "A"), PixelFormat.r: ("R",), PixelFormat.rg: ("R", "G"),
    PixelFormat.rgb: ("R", "G", "B"), PixelFormat.rgba: ("R", "G", "B", "A"),
}  # fmt: skip
_BY_COUNT = {1: PixelFormat.y, 2: PixelFormat.ya, 3: PixelFormat.rgb, 4: PixelFormat.rgba}
_BY_NAMES = {names: kind for kind, names in _CHANNELS.items()}
_TYPES: dict[DataType, np.dtype[Any]] = {  # dtypes of several kinds
    kind: np.dtype(kind.name) for kind in DataType if kind not in (DataType.void, DataType.bool)
}
_TYPE_OF = {dtype: kind for kind, dtype in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class PixelField:
    """A channel of a pixel: its name, its type, and its offset in bytes."""

    name: str
    type: DataType
    offset: int


class Bitmap:
    """An image in memory of the host.

    `Bitmap(path)` reads a file. `Bitmap(array)` copies numbers in height, width and channels. `Bitmap(pixel_format=...,
    component_type=..., width=..., height=...)` has zeros. `channel_names` are those of the format
    `multi_channel`. `srgb_gamma`: whether colors are in sRGB; without it, those of uint8 and uint16 are.

    TypeError and ValueError for arrays that are no images, ImageError (E1053) for files that are none,
    FileNotFoundError where there is no file, ImportError without the library that reads it.
    """

    PixelFormat: ClassVar[type[Channels]] = PixelFormat
    ComponentType: ClassVar[type[DataType]] = DataType
    FileFormat: ClassVar[type[FileKind]] = FileFormat

    def __init__(
        self,
        data: AnyArray | PathOf | Channels | None = None,
        component_type: DataType | None = None,
        width: int | None = None,
        height: int | None = None,
        channel_count: int = 0,
        channel_names: Sequence[str] | None = None,
        *,
        pixel_format: Channels | None = None,
        srgb_gamma: bool | None = None,
        path: PathOf | None = None,
    ) -> None:
        source = path if data is None else data
        if isinstance(source, PixelFormat):
            source, pixel_format = None, source
        names = tuple(channel_names or ())
        if isinstance(source, (str, PathLike)):
            picture = files.read(source)
            self._set(picture.numbers, picture.names, _BY_NAMES.get(picture.names), picture.is_srgb)
        elif source is None:
            numbers, kind = _zeros(pixel_format, component_type, width, height, channel_count or len(names))
            self._set(numbers, names, kind, srgb_gamma)
        else:
            self._set(_copied(source), names, pixel_format, srgb_gamma)

    def _set(
        self, numbers: AnyArray, names: tuple[str, ...], kind: Channels | None, is_srgb: bool | None
    ) -> None:
        """Numbers in height, width and channels, whose memory becomes that of the bitmap."""
        count = numbers.shape[2]
        if kind is None:
            kind = PixelFormat.multi_channel if names else _BY_COUNT.get(count, PixelFormat.multi_channel)
        names = _CHANNELS.get(kind) or names or tuple(f"channel{k}" for k in range(count))
        if len(names) != count:
            raise ValueError(
                f"pixel_format: {kind.name} has {len(names)} channels, and the pixels have {count}"
            )
        self._numbers = np.ascontiguousarray(numbers)
        self._format, self._names = kind, names
        self.srgb_gamma = numbers.dtype in (np.uint8, np.uint16) if is_srgb is None else bool(is_srgb)

    def __repr__(self) -> str:
        kinds = f"{self._format.name}, {self.component_type.name}"
        return f"Bitmap({kinds}, {self.width} x {self.height}, srgb_gamma={self.srgb_gamma})"

    # --- Facts ---

    @property
    def pixel_format(self) -> Channels:
        """Which channels there are."""
        return self._format

    @property
    def component_type(self) -> DataType:
        """The type of a channel's numbers."""
        return _TYPE_OF[self._numbers.dtype]

    @property
    def pixel_struct(self) -> list[PixelField]:
        """The channels of a pixel in order."""
        size = self._numbers.itemsize
        return [PixelField(name, self.component_type, k * size) for k, name in enumerate(self._names)]

    @property
    def width(self) -> int:
        """Pixels of a row."""
        return int(self._numbers.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self._numbers.shape[0])

    @property
    def pixel_count(self) -> int:
        """Width times height."""
        return self.width * self.height

    @property
    def channel_count(self) -> int:
        """Numbers of a pixel."""
        return len(self._names)

    @property
    def channel_names(self) -> list[str]:
        """The names of channels in order, such as R, G, B, A."""
        return list(self._names)

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes of all channels of a pixel."""
        return self.channel_count * self._numbers.itemsize

    @property
    def buffer_size(self) -> int:
        """Bytes of all pixels."""
        return self._numbers.nbytes

    def has_alpha(self) -> bool:
        """Whether a channel is named A."""
        return "A" in self._names

    def empty(self) -> bool:
        """Whether there are no pixels."""
        return not self._numbers.size

    @property
    def __array_interface__(self) -> dict[str, object]:
        """For NumPy: the memory itself, without a dimension of one channel."""
        interface: dict[str, object] = self._array().__array_interface__
        return interface

    def _array(self) -> AnyArray:
        return self._numbers[..., 0] if self.channel_count == 1 else self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bitmap):
            return NotImplemented
        same = (self._names, self._format, self.srgb_gamma, self._numbers.dtype, self._numbers.shape) == (
            other._names, other._format, other.srgb_gamma, other._numbers.dtype, other._numbers.shape,
        )  # fmt: skip
        return same and self._numbers.tobytes() == other._numbers.tobytes()

    __hash__ = None  # type: ignore[assignment]

    # --- Changes ---

    def clear(self) -> None:
        """Make all numbers zero."""
        self._numbers[...] = 0

    def vflip(self) -> None:
        """Turn the image upside down, in place."""
        self._numbers[...] = self._numbers[::-1].copy()

    def copy(self) -> Bitmap:
        """The same image in memory of its own."""
        return _bitmap(self._numbers.copy(), self._names, self._format, self.srgb_gamma)

    def split(self) -> list[tuple[str, Bitmap]]:
        """The parts of the channel names before a last dot, each with its channels: `("albedo", bitmap)` of
        `albedo.R`, `albedo.G`, `albedo.B`. The part of names without a dot is `<root>`."""
        parts: dict[str, list[int]] = {}
        for k, name in enumerate(self._names):
            parts.setdefault(name.rpartition(".")[0], []).append(k)
        return [(name or "<root>", self._part(indices)) for name, indices in parts.items()]

    def _part(self, indices: list[int]) -> Bitmap:
        names = tuple(self._names[k].rpartition(".")[2] for k in indices)
        ordered = next((row for row in _BY_NAMES if sorted(row) == sorted(names)), names)
        numbers = self._numbers[..., [indices[names.index(name)] for name in ordered]]
        return _bitmap(numbers, ordered, _BY_NAMES.get(ordered), self.srgb_gamma)

    def convert(
        self,
        pixel_format: Channels | None = None,
        component_type: DataType | None = None,
        srgb_gamma: bool | None = None,
    ) -> Bitmap:
        """A bitmap with other channels, another type of numbers, or colors in sRGB or linear; without an argument it
        keeps the property. Whole numbers stand for 0 to 1 (with a sign: -1 to 1), and floats beyond become the ends.
        Gray of colors is their luminance, colors of gray are gray, a new alpha is 1. ImageError (E1053) for channels
        that do not convert."""
        kind = self._format if pixel_format is None else PixelFormat(pixel_format)
        target = self._numbers.dtype if component_type is None else _TYPES[DataType(component_type)]
        is_srgb = self.srgb_gamma if srgb_gamma is None else bool(srgb_gamma)
        names = self._names if kind is self._format else _channels_of(kind)
        same_numbers = target == self._numbers.dtype and is_srgb == self.srgb_gamma
        if same_numbers and set(names) <= set(self._names):
            chosen = self._numbers[..., [self._names.index(name) for name in names]]
            return _bitmap(chosen, names, kind, is_srgb)
        values = normalized(self._numbers).astype(np.float64)
        if self.srgb_gamma:
            _recolor(values, self._names, from_srgb)
        values = _mixed(values, self._names, names)
        if is_srgb:
            _recolor(values, names, to_srgb)
        return _bitmap(_numbers_of(values, target), names, kind, is_srgb)

    # --- Files ---

    def write(self, path: PathOf, format: FileKind = FileFormat.auto, quality: int = -1) -> None:
        """Write an image file, in the format of the name's ending if none is given. `quality`: 0 to 100 for JPEG, 0 to
        9 for PNG. ImageError (E1053) where the format does not hold such pixels: convert them before."""
        files.write(path, Picture(self._numbers, self._names, self.srgb_gamma), format, quality)

    def write_async(self, path: PathOf, format: FileKind = FileFormat.auto, quality: int = -1) -> None:
        """The same in a thread, with the pixels of now. `slangrad.thread.wait_for_tasks()` waits, and raises the error
        of a file that could not be written; the program's end waits too."""
        tasks.start(self.copy().write, path, format, quality)

    @staticmethod
    def read_multiple(paths: Iterable[PathOf], format: FileKind = FileFormat.auto) -> list[Bitmap]:
        """The bitmaps of several files, read in threads. The files' first bytes decide their formats."""
        return tasks.in_order(Bitmap, paths)

    @staticmethod
    def load_from_file(path: PathOf) -> Bitmap:
        """The bitmap of a file."""
        return Bitmap(path)

    def _repr_html_(self) -> str | None:
        """For notebooks: the image as PNG."""
        if self._format is PixelFormat.multi_channel or self.empty():
            return None
        kind = PixelFormat.rgba if self.has_alpha() else PixelFormat.rgb
        shown = self.convert(kind, DataType.uint8, True)
        stream = BytesIO()
        files.PILLOW.fromarray(shown._numbers).save(stream, format="PNG")
        return f'<img src="data:image/png;base64, {b64encode(stream.getvalue()).decode()}" width="{self.width}"/>'


def _bitmap(numbers: AnyArray, names: tuple[str, ...], kind: PixelFormat | None, is_srgb: bool) -> Bitmap:
    bitmap = Bitmap.__new__(Bitmap)
    bitmap._set(numbers, names, kind, is_srgb)
    return bitmap


def _channels_of(kind: PixelFormat) -> tuple[str, ...]:
    if kind is PixelFormat.multi_channel:
        raise ImageError(
            "convert: pixels of another format have no channels for multi_channel; name them in Bitmap(...)"
        )
    return _CHANNELS[kind]


def _zeros(
    kind: PixelFormat | None, component: DataType | None, width: int | None, height: int | None, count: int
) -> tuple[AnyArray, PixelFormat]:
    if kind is None or component is None or width is None or height is None:
        raise TypeError("Bitmap: give a path, an array, or pixel_format, component_type, width and height")
    if DataType(component) not in _TYPES:
        raise ValueError(f"component_type: pixels have numbers, not {component.name}")
    channels = count if kind is PixelFormat.multi_channel else len(_CHANNELS[kind])
    if min(width, height) < 0 or channels < 1:
        raise ValueError(f"Bitmap: {width} x {height} pixels of {channels} channels are no image")
    numbers: AnyArray = np.zeros((height, width, channels), _TYPES[component])
    return numbers, kind


def _copied(data: object) -> AnyArray:
    array: AnyArray = np.array(data)
    if array.ndim not in (2, 3):
        raise ValueError(
            f"data: an image has height, width and perhaps channels, not the shape {array.shape}"
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype not in _TYPE_OF:
        raise TypeError(f"data: pixels are numbers, not {array.dtype}")
    return native if native.ndim == 3 else native[..., None]


def _recolor(values: AnyArray, names: tuple[str, ...], change: object) -> None:
    """Change all channels but alpha."""
    assert callable(change)
    for k, name in enumerate(names):
        if name != "A":
            values[..., k] = change(values[..., k])


def _mixed(values: AnyArray, names: tuple[str, ...], wanted: tuple[str, ...]) -> AnyArray:
    """The wanted channels of linear values."""
    channels = {name: values[..., k] for k, name in enumerate(names)}
    if {"R", "G", "B"} <= channels.keys():
        channels.setdefault("Y", sum(weight * channels[name] for weight, name in zip(LUMINANCE, "RGB")))
    elif "Y" in channels:
        channels = {**dict.fromkeys("RGB", channels["Y"]), **channels}
    elif names == ("R",):
        channels["Y"] = channels["R"]
    if "R" in channels:
        channels = {**dict.fromkeys("GB", np.zeros(values.shape[:2])), **channels}
    channels.setdefault("A", np.ones(values.shape[:2]))
    missing = [name for name in wanted if name not in channels]
    if missing:
        raise ImageError(f"convert: there is no channel {missing[0]} among {', '.join(names)}")
    return np.stack([channels[name] for name in wanted], -1)


def _numbers_of(values: AnyArray, target: np.dtype[Any]) -> AnyArray:  # of any kind
    if target.kind == "f":
        return values.astype(target)
    largest = int(np.iinfo(target).max)
    inside = np.clip(np.nan_to_num(values), -1 if target.kind == "i" else 0, 1)
    if target.itemsize == 8:  # the largest number is no double
        parts = (np.minimum(inside, 1 - 2**-53) * float(largest)).astype(target)
        ends: AnyArray = np.where(inside == 1, target.type(largest), parts)
        return ends
    nearest: AnyArray = np.rint(inside * largest).astype(target)
    return nearest
