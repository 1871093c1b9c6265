"""Floats that lie in memory only, as numbers and as bits: bf16, e4m3 and e5m2.

    round_small(E4M3, 0.3) = 0.3125      bits_of_small(BF16, 3.0) = 0x4040      small_of_bits(E5M2, 0x42) = 3.0

bf16 has the exponent of f32. e4m3 has no infinity and a single NaN of each sign. Numbers of 8 bits that are too
large become the largest one, as on NVIDIA GPUs. All round to nearest, ties to even.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from slangrad.ir.data.types import BF16, E4M3, E5M2, Scalar


@dataclass(frozen=True, slots=True)
class SmallFormat:
    """Bits of the fraction, the bias of the exponent, the largest number and the bits of NaN."""

    fraction: int
    bias: int
    greatest: float
    nan: int

    @property
    def least_exponent(self) -> int:
        """Of normal numbers."""
        return 1 - self.bias


FORMATS = {
    BF16: SmallFormat(7, 127, 2.0**127 * (2 - 2.0**-7), 0x7FC0),
    E4M3: SmallFormat(3, 7, 448.0, 0x7F),
    E5M2: SmallFormat(2, 15, 57344.0, 0x7E),
}


def round_small(t: Scalar, value: float) -> float:
    """The number of type `t` next to a number of f32."""
    form = FORMATS[t]
    if value == 0.0 or math.isnan(value):
        return value
    if math.isfinite(value):
        exponent = max(math.frexp(value)[1] - 1, form.least_exponent)
        unit = math.ldexp(1.0, exponent - form.fraction)
        value = math.copysign(round(value / unit) * unit, value)
    if abs(value) > form.greatest:
        return math.copysign(math.inf if t is BF16 else form.greatest, value)
    return value


def bits_of_small(t: Scalar, value: float) -> int:
    """The bits of a number of type `t`."""
    form = FORMATS[t]
    sign = (1 << (t.bits - 1)) if math.copysign(1.0, value) < 0.0 else 0
    if math.isnan(value):
        return sign | form.nan
    size = abs(value)
    if math.isinf(size):
        return sign | (_exponents(t) - 1) << form.fraction
    exponent = max(math.frexp(size)[1] - 1, form.least_exponent) if size else form.least_exponent
    digits = round(math.ldexp(size, form.fraction - exponent))
    if digits >= 1 << form.fraction:  # the first digit of a normal number is not stored
        digits += (exponent - form.least_exponent) << form.fraction
    return sign | digits


@cache
def small_of_bits(t: Scalar, bits: int) -> float:
    """The number that has these bits."""
    form, bits = FORMATS[t], bits & ((1 << t.bits) - 1)
    sign = -1.0 if bits >> (t.bits - 1) else 1.0
    exponent, digits = (bits >> form.fraction) & (_exponents(t) - 1), bits & ((1 << form.fraction) - 1)
    if t is E4M3 and exponent == 15 and digits == 7:
        return math.copysign(math.nan, sign)
    if t is not E4M3 and exponent == _exponents(t) - 1:
        return math.copysign(math.nan if digits else math.inf, sign)
    if exponent:
        digits, exponent = digits | 1 << form.fraction, exponent - 1
    return sign * math.ldexp(digits, exponent + form.least_exponent - form.fraction)


def _exponents(t: Scalar) -> int:
    return 1 << (t.bits - 1 - FORMATS[t].fraction)
