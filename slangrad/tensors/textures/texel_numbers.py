"""Texels on the host: numbers in memory and their values, as `std/texel_format.slang` converts them.

    decoded(Format.rgba8_unorm, [0, 51, 102, 255])    ->  [0, 0.2, 0.4, 1]
    decoded(Format.r11g11b10_float, 0x3C0)            ->  [1, 0, 0]

Colors of sRGB become linear. Numbers that a format does not have become the nearest one.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from slangrad.tensors.elements.conversion import AnyArray
from slangrad.tensors.elements.element_types import numpy_layout
from slangrad.tensors.textures.formats import (
    CODES,
    PACKED,
    FormatInfo,
    FormatType,
    blue_first,
    channels,
    get_format_info,
)

MOST_SHARED = 511 / 512 * 2**16  # of three channels with one exponent


def decoded(format: Enum, numbers: AnyArray) -> AnyArray:
    """The values of numbers in memory. The last dimension has the channels that programs see; packed texels are one
    number each."""
    info = get_format_info(format)
    if info.name in PACKED:
        return _unpacked(info, numbers.astype(np.uint32))
    bits = info.channel_bit_count[0] - (info.type is FormatType.snorm)
    values = np.maximum(numbers / np.float32(2**bits - 1), np.float32(-1)).astype(np.float32)
    if info.is_srgb_format():
        low, color = values[..., :3] <= 0.04045, values[..., :3].astype(np.float64)
        values[..., :3] = np.where(low, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    ordered = _in_order(info, values)
    return ordered[..., :3] if channels(info) < info.channel_count else ordered


def encoded(format: Enum, values: AnyArray) -> AnyArray:
    """The nearest numbers of values."""
    info = get_format_info(format)
    if info.name in PACKED:
        return _packed(info, values)
    is_signed = info.type is FormatType.snorm
    bits = info.channel_bit_count[0] - is_signed
    colors = np.clip(np.nan_to_num(values.astype(np.float64)), -1 if is_signed else 0, 1)
    if channels(info) < info.channel_count:
        colors = np.concatenate([colors, np.ones_like(colors[..., :1])], -1)
    colors = _in_order(info, colors)
    if info.is_srgb_format():
        color = colors[..., :3]
        colors[..., :3] = np.where(color <= 0.0031308, color * 12.92, 1.055 * color ** (1 / 2.4) - 0.055)
    row = CODES[info.type, info.channel_bit_count[0]]
    numbers: AnyArray = np.rint(colors * (2**bits - 1)).astype(numpy_layout(row[1])[0])
    return numbers


def _in_order(info: FormatInfo, values: AnyArray) -> AnyArray:
    ordered: AnyArray = values[..., [2, 1, 0, 3]] if blue_first(info) else values
    return ordered


# --- Words that have all channels ---


def _fields(info: FormatInfo) -> list[tuple[int, int]]:
    """The lowest bit of each channel and its bits, red first."""
    widths = PACKED[info.name][2]
    fields = [(sum(widths[:k]), width) for k, width in enumerate(widths)]
    return [fields[2], fields[1], fields[0], *fields[3:]] if blue_first(info) else fields


def _unpacked(info: FormatInfo, words: AnyArray) -> AnyArray:
    bits = [(words >> low) & (2**width - 1) for low, width in _fields(info)]
    if info.name == "rgb9e5_ufloat":
        parts = [np.ldexp(part.astype(np.float32), bits[3].astype(np.int32) - 24) for part in bits[:3]]
    elif info.type is FormatType.float:
        widths = [width for _, width in _fields(info)]
        halves = [(part << (15 - width)).astype(np.uint16) for part, width in zip(bits, widths)]
        parts = [half.view(np.float16).astype(np.float32) for half in halves]
    elif info.type is FormatType.uint:
        parts = bits
    else:
        parts = [
            part.astype(np.float32) / np.float32(2**width - 1)
            for part, (_, width) in zip(bits, _fields(info))
        ]
    return np.stack(parts, -1)


def _packed(info: FormatInfo, values: AnyArray) -> AnyArray:
    if info.name == "rgb9e5_ufloat":
        parts = _with_shared_exponent(values)
    elif info.type is FormatType.float:
        parts = [
            _small_float(values[..., k].astype(np.float32), width - 5)
            for k, (_, width) in enumerate(_fields(info))
        ]
    else:
        ranges = [2**width - 1 for _, width in _fields(info)]
        scales = [1 if info.type is FormatType.uint else most for most in ranges]
        numbers = np.nan_to_num(values.astype(np.float64))
        parts = [
            np.rint(np.clip(numbers[..., k], 0, most / scale) * scale).astype(np.uint32)
            for k, (scale, most) in enumerate(zip(scales, ranges))
        ]
    words = np.zeros(values.shape[:-1], np.uint32)
    for part, (low, _) in zip(parts, _fields(info)):
        words |= part << np.uint32(low)
    return words.astype(numpy_layout(PACKED[info.name][1])[0])


def _with_shared_exponent(values: AnyArray) -> list[AnyArray]:
    """Three channels of 9 bits and their exponent, of which the largest channel decides."""
    colors = np.clip(np.nan_to_num(values[..., :3].astype(np.float64), posinf=MOST_SHARED), 0, MOST_SHARED)
    most = colors.max(-1)
    exponent = np.where(most > 0, np.maximum(np.frexp(most)[1] - 1, -16), -16) + 16
    exponent += np.floor(np.ldexp(most, 24 - exponent) + 0.5) >= 512
    numbers = np.floor(np.ldexp(colors, 24 - exponent[..., None]) + 0.5).astype(np.uint32)
    return [*np.moveaxis(numbers, -1, 0), exponent.astype(np.uint32)]


def _small_float(values: AnyArray, fraction: int) -> AnyArray:
    """Bits of floats without a sign, with 5 bits of exponent: negative numbers become zero, NaN stays."""
    inside = np.maximum(np.nan_to_num(values, posinf=np.inf), 0).astype(np.float64)
    step = np.ldexp(1.0, np.maximum(np.frexp(np.minimum(inside, 2.0**17))[1] - 1, -14) - fraction)
    with np.errstate(over="ignore"):
        halves = (np.rint(inside / step) * step).astype(np.float16)
    bits = halves.view(np.uint16).astype(np.uint32) >> (10 - fraction)
    return np.where(np.isnan(values), np.uint32(31 << fraction | 1), bits)
