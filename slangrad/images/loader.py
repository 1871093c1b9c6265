"""Textures that are loaded from image files and bitmaps.

    TextureLoader(device).load_texture("brick.jpg", {"generate_mips": True})   ->   rgba8_unorm_srgb, all levels

The bitmap decides the format; the options say how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from os import PathLike
from typing import ClassVar

import numpy as np

from slangrad.base.records import desc_and_values
from slangrad.images import tasks
from slangrad.images.bitmap import Bitmap, PixelFormat
from slangrad.images.files import PathOf
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.textures.formats import Format
from slangrad.tensors.textures.texture import Texture
from slangrad.tensors.textures.texture_desc import (
    ALL_MIPS,
    TextureDesc,
    TextureType,
    TextureUsage,
    UnsupportedTexture,
)

Source = Bitmap | PathOf


class YAHandling(Enum):
    """What a bitmap of gray and alpha becomes."""

    expand_to_rgba = 0
    preserve_as_rg = 1


@dataclass(slots=True)
class LoaderOptions:
    """How bitmaps become textures. `load_as_normalized`: 8 and 16 bits stand for 0 to 1. `load_as_srgb`: colors of 8
    bits in sRGB stay in sRGB, and samples are linear. `extend_alpha`: three channels become four. `allocate_mips`,
    `generate_mips`: all levels, empty or made from the first."""

    load_as_normalized: bool = True
    load_as_srgb: bool = True
    extend_alpha: bool = True
    ya_handling: YAHandling = YAHandling.expand_to_rgba
    allocate_mips: bool = False
    generate_mips: bool = False
    usage: TextureUsage = TextureUsage.shader_resource


OptionsOf = LoaderOptions | Mapping[str, HostValue] | None
_PREFIXES = {1: "r", 2: "rg", 3: "rgb", 4: "rgba"}


class TextureLoader:
    """Makes textures of a device from bitmaps and image files."""

    Options: ClassVar[type[LoaderOptions]] = LoaderOptions
    YAHandling: ClassVar[type[YAHandling]] = YAHandling

    def __init__(self, device: object) -> None:
        self._device = device

    def load_texture(self, source: Source, options: OptionsOf = None) -> Texture:
        """A texture of a bitmap or of a file. ImageError (E1053) for files that are no images, ValueError for bitmaps
        that no format holds."""
        return self._texture([_opened(source)], _checked(options))

    def load_textures(self, sources: Iterable[Source], options: OptionsOf = None) -> list[Texture]:
        """A texture of each; files are read in threads."""
        checked = _checked(options)
        return [self._texture([bitmap], checked) for bitmap in tasks.in_order(_opened, sources)]

    def load_texture_array(self, sources: Iterable[Source], options: OptionsOf = None) -> Texture:
        """One texture with a layer for each. ValueError where sizes or formats differ, or there are none."""
        bitmaps = tasks.in_order(_opened, sources)
        kinds = {(b.width, b.height, b.pixel_format, b.component_type, b.srgb_gamma) for b in bitmaps}
        if len(kinds) != 1:
            raise ValueError(
                f"load_texture_array: layers need one size and one format, and there are {len(kinds)}"
            )
        return self._texture(bitmaps, _checked(options), is_array=True)

    def _texture(self, bitmaps: list[Bitmap], options: LoaderOptions, is_array: bool = False) -> Texture:
        ready = [_prepared(bitmap, options) for bitmap in bitmaps]
        has_levels = options.allocate_mips or options.generate_mips
        texture = Texture(self._device, TextureDesc(
            type=TextureType.texture_2d_array if is_array else TextureType.texture_2d,
            format=_format_of(ready[0], options), width=ready[0].width, height=ready[0].height,
            array_length=len(ready), mip_count=ALL_MIPS if has_levels else 1, usage=options.usage,
        ))  # fmt: skip
        for layer, bitmap in enumerate(ready):
            texture.copy_from_numpy(np.asarray(bitmap), layer=layer)
        if options.generate_mips:
            texture.generate_mips()
        return texture


def _opened(source: Source) -> Bitmap:
    if isinstance(source, (Bitmap, str, PathLike)):
        return source if isinstance(source, Bitmap) else Bitmap(source)
    raise TypeError(f"expected a Bitmap or a path, not {type(source).__name__}")


def _checked(options: OptionsOf) -> LoaderOptions:
    refusal = "there is no such option; there are"
    start, values = desc_and_values(LoaderOptions, options, {}, refusal, "options")
    return replace(start, **values)


def _prepared(bitmap: Bitmap, options: LoaderOptions) -> Bitmap:
    """With the channels of the texture."""
    if bitmap.pixel_format is PixelFormat.ya and options.ya_handling is YAHandling.expand_to_rgba:
        return bitmap.convert(PixelFormat.rgba)
    if bitmap.pixel_format is PixelFormat.rgb and (
        options.extend_alpha or _name(bitmap, options) not in _NAMES
    ):
        return bitmap.convert(PixelFormat.rgba)
    return bitmap


def _format_of(bitmap: Bitmap, options: LoaderOptions) -> Enum:
    name = _name(bitmap, options)
    is_srgb = options.load_as_srgb and bitmap.srgb_gamma and name == "rgba8_unorm"
    if name not in _NAMES:
        kinds = f"{bitmap.channel_count} channels of {bitmap.component_type.name}"
        raise UnsupportedTexture(f"format: there is none for {kinds}; bitmap.convert(...) makes other pixels")
    return Format[f"{name}_srgb" if is_srgb else name]


def _name(bitmap: Bitmap, options: LoaderOptions) -> str:
    """The format of the numbers, which need not exist."""
    bits = np.asarray(bitmap).dtype.itemsize * 8
    kinds = {"f": "float", "u": "uint", "i": "sint"}
    if options.load_as_normalized and bits < 32:
        kinds |= {"u": "unorm", "i": "snorm"}
    kind = kinds[np.asarray(bitmap).dtype.kind]
    return f"{_PREFIXES.get(bitmap.channel_count, 'many')}{bits}_{kind}"


_NAMES = {format.name for format in Format}
