"""The arithmetic of primitives on plain Python numbers, and the wrapping of a number to its type.

    wrap(I8, 200) = -56        wrap(F16, 0.1) = 0.0999755859375

Float results are computed in double precision and rounded once: for + - * / and sqrt that is the correctly
rounded result of the smaller types, too. Maths functions are Python's, made total: outside their domain they
give NaN or an infinity as C does.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from slangrad.ir.data.small_floats import bits_of_small, round_small, small_of_bits
from slangrad.ir.data.types import F16, F32, F64, SMALL_FLOATS, Scalar

Number = bool | int | float
NAN, INF = math.nan, math.inf


def wrap(t: Scalar, value: Number) -> Number:
    """`value` as a number of type `t`: modulo 2^bits, or rounded to nearest even."""
    return wrapper(t)(value)


def round_float(t: Scalar, value: float) -> float:
    if t is F64:
        return value
    if t is F32:
        return ctypes.c_float(value).value
    if t in SMALL_FLOATS:
        return round_small(t, ctypes.c_float(value).value)
    with np.errstate(over="ignore"):
        return float(np.float16(value))


@cache
def wrapper(t: Scalar) -> Callable[[Number], Number]:
    """`wrap` for one type, made once; the oracle applies it after each op."""
    if t.kind == "bool":
        return bool
    if t is F64:
        return float
    if t.kind == "float":
        return lambda value: round_float(t, value)
    mask, low = (1 << t.bits) - 1, -least(t)
    return lambda value: ((int(value) + low) & mask) - low


def least(t: Scalar) -> int:
    return -(1 << (t.bits - 1)) if t.kind == "signed" else 0


def greatest(t: Scalar) -> int:
    return (1 << (t.bits - (t.kind == "signed"))) - 1


def convert(source: Scalar, target: Scalar, value: Number) -> Number:
    """C's conversion, made total: float to integer saturates, NaN gives 0; anything but zero is true."""
    if target.kind == "bool":
        return value != 0
    if source.kind == "float" and target.kind in ("signed", "unsigned"):
        return _saturate(target, float(value))
    if source.kind in ("signed", "unsigned") and target.kind == "float":
        return _integer_to_float(target, int(value))
    return wrap(target, value)


def _saturate(target: Scalar, value: float) -> int:
    if math.isnan(value):
        return 0
    low, high = least(target), greatest(target)
    return low if value <= low else high if value >= high else int(value)


def _integer_to_float(target: Scalar, value: int) -> float:
    """Rounded once, straight from the integer (64-bit integers have more digits than a double)."""
    if target is F64:
        return float(value)
    if target is F32:
        return float(np.float32(np.int64(value)) if value < 1 << 63 else np.float32(np.uint64(value)))
    if target in SMALL_FLOATS:
        return round_float(target, _integer_to_float(F32, value))
    return round_float(F16, float(value))  # beyond 2^53 a half is infinite anyway


def bitcast(source: Scalar, target: Scalar, value: Number) -> Number:
    """The number of type `target` with the same bits."""
    assert source.bits == target.bits, (source, target)
    if source in SMALL_FLOATS or target in SMALL_FLOATS:
        bits = bits_of_small(source, float(value)) if source in SMALL_FLOATS else int(value)
        return small_of_bits(target, bits) if target in SMALL_FLOATS else wrap(target, bits)
    raw = np.asarray(value, dtype=numpy_dtype(source))
    return raw.view(numpy_dtype(target)).item()  # type: ignore[no-any-return]


def numpy_dtype(t: Scalar) -> np.dtype[np.generic]:
    names = {"bool": "bool", "signed": "int", "unsigned": "uint", "float": "float"}
    return np.dtype(names[t.kind] if t.kind == "bool" else f"{names[t.kind]}{t.bits}")


def divide(t: Scalar, x: Number, y: Number) -> Number:
    if t.kind != "float":
        return 0 if y == 0 else _truncated_quotient(int(x), int(y))
    x, y = float(x), float(y)
    if y != 0.0:
        return x / y
    if x == 0.0 or math.isnan(x) or math.isnan(y):
        return NAN
    return math.copysign(INF, x) * math.copysign(1.0, y)


def scale(t: Scalar, x: float, y: float) -> float:
    """The product, but zero where a factor is; the sign of the zero is not defined."""
    return x * y if x != 0.0 and y != 0.0 else 0.0


def least_normal(t: Scalar) -> float:
    """The smallest normal number of a floating-point type."""
    return {"f16": 2.0**-14, "f64": 2.0**-1022, "e4m3": 2.0**-6, "e5m2": 2.0**-14}.get(t.name, 2.0**-126)


def least_root(t: Scalar) -> float:
    """The square root of that; it is exact, as the exponents are even."""
    return math.sqrt(least_normal(t))


def _truncated_quotient(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def remainder(t: Scalar, x: Number, y: Number) -> Number:
    if t.kind != "float":
        return 0 if y == 0 else int(x) - _truncated_quotient(int(x), int(y)) * int(y)
    if math.isinf(x) or y == 0.0 or math.isnan(x) or math.isnan(y):
        return NAN
    return math.fmod(x, y)


def fused_multiply_add(t: Scalar, x: Number, y: Number, z: Number) -> Number:
    """x * y + z, rounded once; to f32 before, where that is how the type computes."""
    if t in SMALL_FLOATS:
        return round_float(t, float(fused_multiply_add(F32, x, y, z)))
    if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z):
        return z
    if not (math.isfinite(x) and math.isfinite(y)):
        return float(x) * float(y) + float(z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return float(x) * float(y) + float(z)  # the sign of zero is that of the sum
    return _round_fraction(t, exact)


def _round_fraction(t: Scalar, exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return INF if exact > 0 else -INF
    if t is F64:
        return nearest
    # Rounding twice goes wrong only where the double lies exactly between two smaller floats: lean to a side.
    if Fraction(nearest) != exact and round_float(t, nearest) != nearest:
        nearest = math.nextafter(nearest, INF if exact > Fraction(nearest) else -INF)
    return round_float(t, nearest)


def minimum(t: Scalar, x: Number, y: Number) -> Number:
    return x if x < y or y != y else y


def maximum(t: Scalar, x: Number, y: Number) -> Number:
    return x if y < x or y != y else y


def to_integral(rounding: Callable[[float], int]) -> Callable[[Scalar, float], float]:
    """A rounding function that keeps infinities, NaN and the sign of zero."""

    def primal(t: Scalar, x: float) -> float:
        return math.copysign(float(rounding(x)), x) if math.isfinite(x) else x

    return primal


def real(function: Callable[..., float]) -> Callable[..., float]:
    """A maths function that gives NaN outside its domain and an infinity on overflow, as C does."""

    def primal(t: Scalar, *xs: float) -> float:
        try:
            return function(*xs)
        except ValueError:
            return NAN
        except OverflowError:
            return -INF if function is math.sinh and xs[0] < 0 else INF

    return primal


def logarithm(function: Callable[[float], float]) -> Callable[[Scalar, float], float]:
    def primal(t: Scalar, x: float) -> float:
        return -INF if x == 0.0 else function(x) if x > 0.0 else NAN

    return primal


def logarithm_of_sum(t: Scalar, x: float) -> float:
    return -INF if x == -1.0 else real(math.log1p)(t, x)


def _half_turns(x: float) -> tuple[float, int]:
    """The remainder of `x` after n quarters of a turn, in radians, and n modulo 4."""
    n = round(2.0 * math.fmod(x, 2.0))
    return (math.fmod(x, 2.0) - 0.5 * n) * math.pi, n % 4


def sine_of_half_turns(t: Scalar, x: float) -> float:
    """sin(pi x) with C's signs of zeros."""
    if not math.isfinite(x):
        return NAN
    angle, quadrant = _half_turns(x)
    y = (math.sin, math.cos)[quadrant & 1](angle) * (1.0, 1.0, -1.0, -1.0)[quadrant]
    return y if y != 0.0 else math.copysign(0.0, x)


def cosine_of_half_turns(t: Scalar, x: float) -> float:
    if not math.isfinite(x):
        return NAN
    angle, quadrant = _half_turns(x)
    return (math.cos, math.sin)[quadrant & 1](angle) * (1.0, -1.0, -1.0, 1.0)[quadrant] + 0.0


def tangent_of_half_turns(t: Scalar, x: float) -> float:
    """tan(pi x); zeros and poles alternate in sign, as in C."""
    if not math.isfinite(x):
        return NAN
    angle, quadrant = _half_turns(abs(x))
    edge = (0.0, INF, -0.0, -INF)[quadrant]
    tangent = math.tan(angle)
    y = edge if angle == 0.0 else -1.0 / tangent if quadrant & 1 else tangent
    return math.copysign(y, y * math.copysign(1.0, x))


def inverse_tanh(t: Scalar, x: float) -> float:
    return math.copysign(INF, x) if abs(x) == 1.0 else real(math.atanh)(t, x)


def power(t: Scalar, x: float, y: float) -> float:
    """C's pow. (NumPy's takes the square root for y = 0.5, which differs for -0.0 and -infinity.)"""
    negative = math.copysign(1.0, x) < 0.0 and math.isfinite(y) and math.fmod(y, 2.0) in (1.0, -1.0)
    try:
        return math.pow(x, y)
    except ValueError:
        return NAN if x != 0.0 else -INF if negative else INF
    except OverflowError:
        return -INF if negative else INF


def invert(t: Scalar, x: Number) -> Number:
    return not x if t.kind == "bool" else ~int(x)


def _unsigned(t: Scalar, x: int) -> int:
    return x & ((1 << t.bits) - 1)


def population(t: Scalar, x: int) -> int:
    return _unsigned(t, x).bit_count()


def leading_zeros(t: Scalar, x: int) -> int:
    return t.bits - _unsigned(t, x).bit_length()


def trailing_zeros(t: Scalar, x: int) -> int:
    x = _unsigned(t, x)
    return t.bits if x == 0 else (x & -x).bit_length() - 1


def reverse_bits(t: Scalar, x: int) -> int:
    return int(f"{_unsigned(t, x):0{t.bits}b}"[::-1], 2)


def neutral(kind: str, t: Scalar) -> Number:
    """The identity element of a combination. A NaN loses against any number in min and max."""
    return _NEUTRAL[kind](t)


def first_of_scan(kind: str, t: Scalar) -> Number:
    """The value for the first lane of a scan, with which each later one begins. Zeros and infinities, no -0 or NaN."""
    if t.kind == "float" and kind in _FIRST_FLOAT:
        return _FIRST_FLOAT[kind]
    return neutral(kind, t)


_FIRST_FLOAT = {"add": 0.0, "min": math.inf, "max": -math.inf}

_NEUTRAL: dict[str, Callable[[Scalar], Number]] = {
    "add": lambda t: -0.0 if t.kind == "float" else 0,
    "mul": lambda t: 1.0 if t.kind == "float" else 1,
    "min": lambda t: math.nan if t.kind == "float" else greatest(t),
    "max": lambda t: math.nan if t.kind == "float" else least(t),
    "and": lambda t: -1 if t.kind == "signed" else greatest(t),
    "or": lambda t: 0,
    "xor": lambda t: 0,
}
