"""A model of samples in NumPy, written from the rules: centers of texels at halves, indices that a mode of addresses
brings back into the texture, blends of the nearest texels along each dimension. Packed texels by the definitions of
DXGI_FORMAT, one number at a time."""

import itertools

import numpy as np


def texel_index(index, size, mode):
    """The index of a texel; -1 for the border."""
    if mode == "wrap":
        return index % size
    if mode == "mirror_repeat":
        turn = index % (2 * size)
        return turn if turn < size else 2 * size - 1 - turn
    if mode == "mirror_once":
        return min(index if index >= 0 else -1 - index, size - 1)
    if mode == "clamp_to_edge":
        return min(max(index, 0), size - 1)
    return index if 0 <= index < size else -1


def corners(sizes, place, mode, linear, offset=None):
    """The texels around a place along x, y, z: of each the index, rows first, or None for the border, and its weight."""
    at = [float(u) * size - (0.5 if linear else 0) for u, size in zip(place, sizes)]
    low = [int(np.floor(x)) for x in at]
    for corner in itertools.product((0, 1) if linear else (0,), repeat=len(sizes)):
        weight, index = 1.0, []
        for k, step in enumerate(corner):
            part = at[k] - low[k] if linear else 0
            weight *= part if step else 1 - part
            index.append(texel_index(low[k] + step + (offset[k] if offset else 0), sizes[k], mode))
        yield (tuple(reversed(index)) if min(index) >= 0 else None), weight


def sample(texels, place, mode, linear, offset=None, border=(0.25, 0.5, 0.75, 1.0)):
    """A sample of one level: texels with rows first and channels last."""
    sizes = texels.shape[:-1][::-1]
    outside = np.array(border[: texels.shape[-1]])
    return sum(
        weight * (outside if index is None else texels[index])
        for index, weight in corners(sizes, place, mode, linear, offset)
    )


# Of packed formats: the channels from the lowest bit on, and their bits; X has no meaning.
PACKED = {
    "bgra4_unorm": "B4 G4 R4 A4",
    "b5g6r5_unorm": "B5 G6 R5",
    "bgr5a1_unorm": "B5 G5 R5 A1",
    "rgb9e5_ufloat": "R9 G9 B9 E5",
    "rgb10a2_unorm": "R10 G10 B10 A2",
    "r11g11b10_float": "R11 G11 B10",
    "bgrx8_unorm": "B8 G8 R8 X8",
    "bgrx8_unorm_srgb": "B8 G8 R8 X8",
}


def unpacked(format, word):
    """The color of a packed texel."""
    parts, word = {}, int(word)
    for channel, *bits in PACKED[format].split():
        count = int("".join(bits))
        parts[channel] = (word & ((1 << count) - 1), count)
        word >>= count
    color = [channel_value(format, *parts[name], parts) if name in parts else 1.0 for name in "RGBA"]
    return np.array(color)


def channel_value(format, number, count, parts):
    if format == "rgb9e5_ufloat":
        return number / 2**9 * 2.0 ** (parts["E"][0] - 15)
    if format == "r11g11b10_float":
        exponent, part = divmod(number, 1 << (count - 5))
        fraction = part / (1 << (count - 5))
        if exponent == 31:
            return np.nan if part else np.inf
        return (1 + fraction) * 2.0 ** (exponent - 15) if exponent else fraction * 2.0**-14
    value = number / ((1 << count) - 1)
    if format.endswith("srgb"):
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
    return value
