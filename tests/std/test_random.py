"""Random numbers: known words, ranges, moments."""

from __future__ import annotations

import numpy as np

from tests.std.programs import call, lowered


def test_wang_hash() -> None:
    """The words that rand_float and wang_hash of the Python side are made of."""
    program = lowered("uint f(uint x) { return wang_hash(x); }")
    seed = call(program, "f", 2640457667)
    assert isinstance(seed, int)
    words = [call(program, "f", i ^ seed) for i in range(6)]
    floats = [10 * (w & 0x7FFFFF) / 2**23 for w in words]  # type: ignore[operator]
    assert np.round(floats, 6).tolist() == [0.995516, 7.371677, 8.215282, 7.882788, 5.385604, 1.988356]


def test_philox_is_the_published_one() -> None:
    program = lowered("uint4 f(uint4 c, uint2 k) { return philox(c, k); }")
    assert call(program, "f", (0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert call(program, "f", (ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def test_distributions() -> None:
    program = lowered("""
        float uniform(uint i) { return random_float(pcg_hash(i)); }
        float2 normal(uint i) { return random_normal(philox(uint4(i, 0, 0, 0), uint2(1, 2)).xy); }
    """)
    flat = np.array([call(program, "uniform", i) for i in range(400)])
    assert flat.min() >= 0 and flat.max() < 1
    assert abs(flat.mean() - 0.5) < 0.05 and abs(flat.var() - 1 / 12) < 0.02
    bell = np.array([call(program, "normal", i) for i in range(300)])
    assert abs(bell.mean()) < 0.12 and abs(bell.std() - 1) < 0.12
