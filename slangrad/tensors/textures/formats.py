"""Formats of numbers in memory, in SlangPy's words: `Format.rgba32_float` is four floats of 32 bits.

    get_format_info(Format.rg16_uint).channel_bit_count  ->  [16, 16, 0, 0]
    element_of(Format.rgb32_float)                       ->  f32x3, what a buffer of that format holds

Textures have normalized and packed formats as well (`texel_form`); compressed formats and stencils have names and facts
only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Any

from slangrad.ir.data import types as ir
from slangrad.ir.data.types import Type, vector
from slangrad.tensors.elements.element_types import element_type, slang_name


class DataType(Enum):
    """Types of numbers; `void` for bytes."""

    void = 0
    bool = 1
    int8 = 2
    int16 = 3
    int32 = 4
    int64 = 5
    uint8 = 6
    uint16 = 7
    uint32 = 8
    uint64 = 9
    float16 = 10
    float32 = 11
    float64 = 12


class FormatType(Enum):
    """How the numbers of a format are read."""

    unknown = 0
    float = 1
    unorm = 2
    unorm_srgb = 3
    snorm = 4
    uint = 5
    sint = 6


class FormatChannels(IntFlag):
    """Which channels there are."""

    none = 0
    r = 1
    g = 2
    b = 4
    a = 8
    rg = 3
    rgb = 7
    rgba = 15


Row = tuple[Any, ...]  # the fields of FormatInfo behind the format


_CHANNELS = {"r": 1, "rg": 2, "rgb": 3, "rgba": 4, "bgra": 4, "bgrx": 4}
_PLAIN = """
    r8_uint r8_sint r8_unorm r8_snorm rg8_uint rg8_sint rg8_unorm rg8_snorm rgba8_uint rgba8_sint rgba8_unorm
    rgba8_unorm_srgb rgba8_snorm bgra8_unorm bgra8_unorm_srgb bgrx8_unorm bgrx8_unorm_srgb r16_uint r16_sint r16_unorm
    r16_snorm r16_float rg16_uint rg16_sint rg16_unorm rg16_snorm rg16_float rgba16_uint rgba16_sint rgba16_unorm
    rgba16_snorm rgba16_float r32_uint r32_sint r32_float rg32_uint rg32_sint rg32_float rgb32_uint rgb32_sint
    rgb32_float rgba32_uint rgba32_sint rgba32_float r64_uint r64_sint
"""


def _plain(name: str) -> Row:
    """A row of the formats whose names say it all."""
    match = re.fullmatch(r"([rgbax]+)(\d+)_(\w+)", name)
    assert match is not None, name
    channels, bits = _CHANNELS[match[1]], int(match[2])
    return FormatType[match[3]], (bits,) * channels, channels * bits // 8


_F = FormatType
# fmt: off
_ROWS: dict[str, Row] = {
    "undefined":          (_F.unknown,    (),              0),
    **{name: _plain(name) for name in _PLAIN.split()},
    "bgra4_unorm":        (_F.unorm,      (4, 4, 4, 4),    2),
    "b5g6r5_unorm":       (_F.unorm,      (5, 6, 5),       2),
    "bgr5a1_unorm":       (_F.unorm,      (5, 5, 5, 1),    2),
    "rgb9e5_ufloat":      (_F.float,      (9, 9, 9, 5),    4),
    "rgb10a2_uint":       (_F.uint,       (10, 10, 10, 2), 4),
    "rgb10a2_unorm":      (_F.unorm,      (10, 10, 10, 2), 4),
    "r11g11b10_float":    (_F.float,      (11, 11, 10),    4),
    "d32_float":          (_F.float,      (32,),           4,  1, True),
    "d16_unorm":          (_F.unorm,      (16,),           2,  1, True),
    "d32_float_s8_uint":  (_F.float,      (32, 8),         8,  1, True, True),
    "bc1_unorm":          (_F.unorm,      (64, 0, 0),      8,  4),
    "bc1_unorm_srgb":     (_F.unorm_srgb, (64, 0, 0),      8,  4),
    "bc2_unorm":          (_F.unorm,      (128, 0, 0, 0),  16, 4),
    "bc2_unorm_srgb":     (_F.unorm_srgb, (128, 0, 0, 0),  16, 4),
    "bc3_unorm":          (_F.unorm,      (128, 0, 0, 0),  16, 4),
    "bc3_unorm_srgb":     (_F.unorm_srgb, (128, 0, 0, 0),  16, 4),
    "bc4_unorm":          (_F.unorm,      (64,),           8,  4),
    "bc4_snorm":          (_F.snorm,      (64,),           8,  4),
    "bc5_unorm":          (_F.unorm,      (128, 0),        16, 4),
    "bc5_snorm":          (_F.snorm,      (128, 0),        16, 4),
    "bc6h_ufloat":        (_F.float,      (128, 0, 0),     16, 4),
    "bc6h_sfloat":        (_F.float,      (128, 0, 0),     16, 4),
    "bc7_unorm":          (_F.unorm,      (128, 0, 0, 0),  16, 4),
    "bc7_unorm_srgb":     (_F.unorm_srgb, (128, 0, 0, 0),  16, 4),
    "astc4x4_unorm":      (_F.unorm,      (128, 0, 0, 0),  16, 4),
    "astc4x4_unorm_srgb": (_F.unorm_srgb, (128, 0, 0, 0),  16, 4),
    "astc6x6_unorm":      (_F.unorm,      (128, 0, 0, 0),  16, 6),
    "astc6x6_unorm_srgb": (_F.unorm_srgb, (128, 0, 0, 0),  16, 6),
    "astc8x8_unorm":      (_F.unorm,      (128, 0, 0, 0),  16, 8),
    "astc8x8_unorm_srgb": (_F.unorm_srgb, (128, 0, 0, 0),  16, 8),
}
# fmt: on

Format = Enum("Format", {name: i for i, name in enumerate(_ROWS)})  # type: ignore[misc]
Format.__doc__ = "Formats of numbers in memory."

_SCALARS: dict[tuple[FormatType, int], ir.Scalar] = {
    (_F.uint, 8): ir.U8, (_F.uint, 16): ir.U16, (_F.uint, 32): ir.U32, (_F.uint, 64): ir.U64,
    (_F.sint, 8): ir.I8, (_F.sint, 16): ir.I16, (_F.sint, 32): ir.I32, (_F.sint, 64): ir.I64,
    (_F.float, 16): ir.F16, (_F.float, 32): ir.F32,
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class FormatInfo:
    """Facts about a format: how numbers are read (`type`), bits of each channel, bytes of a pixel, and whether it
    has depths or stencils. In compressed formats the bytes are those of a block of `block_width` times
    `block_width` pixels."""

    format: Enum
    type: FormatType
    bits: tuple[int, ...]
    bytes_per_block: int
    block_width: int = 1
    is_depth: bool = False
    is_stencil: bool = False

    def __repr__(self) -> str:
        return f"FormatInfo({self.name}, {self.bytes_per_block} bytes)"

    @property
    def name(self) -> str:
        """The format's name."""
        return self.format.name

    @property
    def block_height(self) -> int:
        """Pixels of a block from top to bottom: as many as from left to right."""
        return self.block_width

    @property
    def channel_count(self) -> int:
        """How many channels a pixel has."""
        return len(self.bits)

    @property
    def channel_bit_count(self) -> list[int]:
        """Bits of each of four channels."""
        return [*self.bits, 0, 0, 0, 0][:4]

    @property
    def is_compressed(self) -> bool:
        """Whether pixels are compressed in blocks."""
        return self.block_width > 1

    @property
    def dxgi_format(self) -> int:
        """Its number in Direct3D; zero for none."""
        return NATIVE[self.name][0]

    @property
    def vk_format(self) -> int:
        """Its number in Vulkan; zero for none."""
        return NATIVE[self.name][1]

    def is_depth_stencil(self) -> bool:
        """Whether it has depths or stencils."""
        return self.is_depth or self.is_stencil

    def is_float_format(self) -> bool:
        """Whether numbers are floats."""
        return self.type is FormatType.float

    def is_integer_format(self) -> bool:
        """Whether numbers are integers, with or without a sign."""
        return self.type in (FormatType.uint, FormatType.sint)

    def is_normalized_format(self) -> bool:
        """Whether integers stand for 0 to 1, or -1 to 1."""
        return self.type in (FormatType.unorm, FormatType.unorm_srgb, FormatType.snorm)

    def is_srgb_format(self) -> bool:
        """Whether intensities are in sRGB."""
        return self.type is FormatType.unorm_srgb

    def get_channels(self) -> FormatChannels:
        """Which channels there are."""
        return FormatChannels((1 << self.channel_count) - 1)

    def get_channel_bits(self, channels: FormatChannels) -> int:
        """Bits of some channels together."""
        return sum(bits for i, bits in enumerate(self.channel_bit_count) if channels & (1 << i))

    def has_equal_channel_bits(self) -> bool:
        """Whether all channels have as many bits."""
        return len(set(self.bits)) <= 1


def get_format_info(format: Enum) -> FormatInfo:
    """Facts about a format. TypeError for other objects than a Format."""
    if not isinstance(format, Format):
        raise TypeError(f"format: expected a Format, not {format!r}")
    return FormatInfo(format, *_ROWS[format.name])


def element_of(format: Enum) -> Type | None:
    """The element type of a buffer of this format; None for `undefined`, ValueError where Slang has none."""
    info = get_format_info(format)
    if info.type is FormatType.unknown:
        return None
    scalar = _SCALARS.get((info.type, info.channel_bit_count[0]))
    if scalar is None or not info.has_equal_channel_bits() or info.is_depth_stencil() or info.is_compressed:
        raise ValueError(
            f"format: no type of Slang has numbers as in {format.name}; give a struct_type instead"
        )
    return scalar if info.channel_count == 1 else vector(scalar, info.channel_count)


# The kinds of numbers in `std/texel_format.slang`, and the types that hold them in memory.
CODES: dict[tuple[FormatType, int], tuple[int, ir.Scalar]] = {
    (_F.unorm, 8): (1, ir.U8), (_F.snorm, 8): (2, ir.I8), (_F.unorm_srgb, 8): (3, ir.U8), (_F.unorm, 16): (4, ir.U16),
    (_F.snorm, 16): (5, ir.I16), (_F.float, 16): (6, ir.F16), (_F.float, 32): (7, ir.F32), (_F.uint, 8): (8, ir.U8),
    (_F.sint, 8): (9, ir.I8), (_F.uint, 16): (10, ir.U16), (_F.sint, 16): (11, ir.I16), (_F.uint, 32): (12, ir.U32),
    (_F.sint, 32): (13, ir.I32),
}  # fmt: skip

# Formats that have all channels in one number: its kind, its type, and the bits of each channel from the lowest on.
FIRST_PACKED = 32
PACKED: dict[str, tuple[int, ir.Scalar, tuple[int, ...]]] = {
    "bgra4_unorm":     (32, ir.U16, (4, 4, 4, 4)),
    "b5g6r5_unorm":    (33, ir.U16, (5, 6, 5)),
    "bgr5a1_unorm":    (34, ir.U16, (5, 5, 5, 1)),
    "rgb9e5_ufloat":   (35, ir.U32, (9, 9, 9, 5)),
    "rgb10a2_unorm":   (36, ir.U32, (10, 10, 10, 2)),
    "rgb10a2_uint":    (36, ir.U32, (10, 10, 10, 2)),
    "r11g11b10_float": (37, ir.U32, (11, 11, 10)),
}  # fmt: skip
EXCHANGED, UNUSED = 1 << 16, 1 << 17  # blue comes first; a fourth number has no meaning


@dataclass(frozen=True, slots=True)
class TexelForm:
    """Texels of a format. `stored`: their type in memory; `value`: the type that programs see first; `others`: types
    to which programs have them converted; `code`: the format's number in the library."""

    stored: Type
    value: Type
    others: tuple[Type, ...]
    code: int

    def code_for(self, texel: object) -> int:
        """The number for programs that see texels as values of a type; zero if these lie in memory."""
        is_packed = self.code & 0xFF >= FIRST_PACKED
        return 0 if texel is self.stored and not is_packed else self.code


def texel_form(format: Enum) -> TexelForm | None:
    """None for `undefined`, ValueError for formats of which there are no textures."""
    info = get_format_info(format)
    if info.type is FormatType.unknown:
        return None
    if info.name in PACKED:
        return _packed_form(info)
    row = CODES.get((info.type, info.channel_bit_count[0]))
    odd = not info.has_equal_channel_bits() or info.is_stencil or info.is_compressed
    if row is None or odd:
        element = element_of(format)
        assert element is not None
        return TexelForm(element, element, (), 0)
    number, scalar = row
    stored, count = _several(scalar, info.channel_count), channels(info)
    others = _seen(info, count)
    value = others[0] if info.is_normalized_format() else stored
    code = number | count << 8 | (EXCHANGED if blue_first(info) else 0)
    code |= UNUSED if count < info.channel_count else 0
    return TexelForm(stored, value, tuple(t for t in others if t is not value), code)


def _packed_form(info: FormatInfo) -> TexelForm:
    code, scalar, _ = PACKED[info.name]
    count = channels(info)
    first, *others = _seen(info, count)
    return TexelForm(scalar, first, tuple(others), code | count << 8 | (EXCHANGED if blue_first(info) else 0))


def channels(info: FormatInfo) -> int:
    """How many channels a program sees."""
    return 3 if info.name.startswith(("bgrx", "rgb9")) else info.channel_count


def blue_first(info: FormatInfo) -> bool:
    """Whether the channels are stored as blue, green, red."""
    return info.name.startswith(("bgr", "b5"))


def _seen(info: FormatInfo, count: int) -> list[Type]:
    """The types as which programs see texels, the one with all channels first."""
    scalar = {_F.uint: ir.U32, _F.sint: ir.I32}.get(info.type, ir.F32)
    types = [_several(scalar, size) for size in sorted(range(1, 5), key=lambda size: (size != count, -size))]
    return types + [_several(ir.F16, size) for size in range(1, 5) if info.type is _F.float]


def _several(scalar: ir.Scalar, count: int) -> Type:
    return scalar if count == 1 else vector(scalar, count)


def scalar_of(wanted: object) -> ir.Scalar:
    """The type of numbers that a DataType, or any dtype of numbers, stands for; nothing and `void` are bytes."""
    if wanted is None or wanted is DataType.void:
        return ir.U8
    t = element_type(wanted.name if isinstance(wanted, DataType) else wanted, "type")
    if not isinstance(t, ir.Scalar):
        raise TypeError(f"type: a type of numbers is needed, not {slang_name(t)}; give a shape as well")
    return t


# Each row: formats, their first number in DXGI, their first in Vulkan; those that follow have the numbers that follow.
# fmt: off
_RUNS: tuple[tuple[str, int, int], ...] = (
    ("rgba32_float", 2, 109), ("rgba32_uint rgba32_sint", 3, 107), ("rgb32_float", 6, 106),
    ("rgb32_uint rgb32_sint", 7, 104),
    ("rgba16_float", 10, 97), ("rgba16_unorm", 11, 91), ("rgba16_uint", 12, 95), ("rgba16_snorm", 13, 92),
    ("rgba16_sint", 14, 96), ("rg32_float", 16, 103), ("rg32_uint rg32_sint", 17, 101),
    ("d32_float_s8_uint", 20, 130), ("rgb10a2_unorm", 24, 64), ("rgb10a2_uint", 25, 68), ("r11g11b10_float", 26, 122),
    ("rgba8_unorm", 28, 37), ("rgba8_unorm_srgb", 29, 43), ("rgba8_uint", 30, 41), ("rgba8_snorm", 31, 38),
    ("rgba8_sint", 32, 42), ("rg16_float", 34, 83), ("rg16_unorm", 35, 77), ("rg16_uint", 36, 81),
    ("rg16_snorm", 37, 78),
    ("rg16_sint", 38, 82), ("d32_float", 40, 126), ("r32_float", 41, 100), ("r32_uint r32_sint", 42, 98),
    ("rg8_unorm", 49, 16), ("rg8_uint", 50, 20), ("rg8_snorm", 51, 17), ("rg8_sint", 52, 21), ("r16_float", 54, 76),
    ("d16_unorm", 55, 124), ("r16_unorm", 56, 70), ("r16_uint", 57, 74), ("r16_snorm", 58, 71), ("r16_sint", 59, 75),
    ("r8_unorm", 61, 9), ("r8_uint", 62, 13), ("r8_snorm", 63, 10), ("r8_sint", 64, 14), ("rgb9e5_ufloat", 67, 123),
    ("bc1_unorm bc1_unorm_srgb", 71, 131), ("bc2_unorm bc2_unorm_srgb", 74, 135), ("bc3_unorm bc3_unorm_srgb", 77, 137),
    ("bc4_unorm bc4_snorm", 80, 139), ("bc5_unorm bc5_snorm", 83, 141), ("b5g6r5_unorm", 85, 5),
    ("bgr5a1_unorm", 86, 7),
    ("bgra8_unorm", 87, 44), ("bgra8_unorm_srgb", 91, 50), ("bgrx8_unorm", 88, 0), ("bgrx8_unorm_srgb", 93, 0),
    ("bc6h_ufloat bc6h_sfloat", 95, 143), ("bc7_unorm bc7_unorm_srgb", 98, 145), ("bgra4_unorm", 115, 3),
    ("r64_uint", 0, 110), ("r64_sint", 0, 111), ("astc4x4_unorm", 0, 157), ("astc4x4_unorm_srgb", 0, 158),
    ("astc6x6_unorm", 0, 165), ("astc6x6_unorm_srgb", 0, 166), ("astc8x8_unorm", 0, 171),
    ("astc8x8_unorm_srgb", 0, 172),
)
# fmt: on

NATIVE: dict[str, tuple[int, int]] = {
    name: (dxgi and dxgi + i, vulkan and vulkan + i)
    for names, dxgi, vulkan in _RUNS
    for i, name in enumerate(names.split())
}
NATIVE["undefined"] = (0, 0)
