"""A model of samples in NumPy, written from the rules: centers of texels at halves, indices that a mode of addresses
brings back into the texture, blends of the nearest texels along each dimension."""

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
