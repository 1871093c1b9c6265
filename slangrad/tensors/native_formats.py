"""The numbers of formats in other libraries, which pictures have in their headers: DDS files those of DXGI, KTX files
those of Vulkan. Zero where there is none."""

from __future__ import annotations

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
