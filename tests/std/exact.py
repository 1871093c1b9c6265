"""THE TABLE of the floating-point functions of `std`: exact values, exact partials, promised errors.

    ROWS["log1p"].value(m, x)          the exact value in the arithmetic `m`, WIDE, LONG or MP
    reference(row, formula, inputs)    the exact numbers for inputs of any type: doubles, and what is left in units of their
                                       last place, which may be too small for a double

WIDE is NumPy's float64: it has more digits and a wider range than half and float, and it knows what C says of
infinities, NaN and the signs of zeros. For double, LONG is C's long double with eleven bits more, enough to tell which
results are far from a limit, and MP is mpmath with 320 bits for the others. A formula is written once for all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath
import numpy as np

BITS = 320
EXACT = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.MPContext()
EXACT.prec = BITS


class Wide:
    """Functions of float64 arrays."""

    sin, cos, tan, asin, acos, atan, atan2 = (
        np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2,
    )  # fmt: skip
    sinh, cosh, tanh, asinh, acosh, atanh = (
        np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh,
    )  # fmt: skip
    exp, exp2, expm1, log, log2, log10, log1p = (
        np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p,
    )  # fmt: skip
    sqrt, cbrt, hypot, pow, floor, ceil, trunc, round = (
        np.sqrt, np.cbrt, np.hypot, np.power, np.floor, np.ceil, np.trunc, np.rint,
    )  # fmt: skip
    abs, sign, rem, where, copysign = np.abs, np.sign, np.fmod, np.where, np.copysign
    min, max = np.fmin, np.fmax
    erf, erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])
    number, pi = np.float64, math.pi

    @staticmethod
    def mul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A term of a sum: the product of finite numbers is finite."""
        p = np.asarray(x * y)
        return np.where(
            np.isinf(p) & np.isfinite(x) & np.isfinite(y), np.copysign(np.finfo(p.dtype).max, p), p
        )

    @staticmethod
    def ldexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By the whole part of `y`."""
        n = np.trunc(np.clip(np.nan_to_num(y), -5000, 5000)).astype(int)
        return np.ldexp(x, n)

    @staticmethod
    def frexp(x: np.ndarray) -> np.ndarray:
        return np.frexp(x)[0]

    @classmethod
    def sinpi(cls, x: np.ndarray) -> np.ndarray:
        n = np.rint(x)
        turned = np.sin((x - n) * cls.pi) * np.where(np.fmod(n, 2) == 0, 1.0, -1.0)
        return np.where((x == n) & np.isfinite(x), np.copysign(0.0, x), turned)

    @classmethod
    def cospi(cls, x: np.ndarray) -> np.ndarray:
        n = np.rint(x)
        r = np.abs(x - n)
        turned = np.where(r > 0.25, np.sin((0.5 - r) * cls.pi), np.cos(r * cls.pi))
        return turned * np.where(np.fmod(n, 2) == 0, 1.0, np.where(r == 0.5, 1.0, -1.0))

    @classmethod
    def tanpi(cls, x: np.ndarray) -> np.ndarray:
        """With the signs of C23: they alternate at zeros and at poles."""
        n = np.rint(x)
        even = np.fmod(n, 2) == 0
        zero = np.copysign(0.0, np.where(even, x, -x))
        pole = np.where(np.fmod(np.floor(x), 2) == 0, np.inf, -np.inf)
        r = x - n
        steep = np.abs(r) > 0.25
        near = np.tan(np.where(steep, np.copysign(0.5, r) - r, r) * cls.pi)
        y = np.where(steep, 1.0 / near, near)
        return np.where(r == 0, zero, np.where(np.abs(r) == 0.5, pole, np.where(np.isinf(x), np.nan, y)))

    @classmethod
    def fma(cls, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The product is exact; the sum is rounded to odd, so that rounding it again is rounding it once."""
        p = cls.mul(x, y)
        s = p + z
        with np.errstate(all="ignore"):
            other = s - p
            rest = (p - (s - other)) + (z - other)
            inexact = np.isfinite(s) & (rest != 0) & np.isfinite(rest)
            even = (np.ascontiguousarray(s).view(np.int64) & 1) == 0
            odd = np.nextafter(s, np.where(rest > 0, np.inf, -np.inf))
        return np.where(inexact & even, odd, s)


class Long(Wide):
    """The same functions of arrays of long doubles."""

    number, pi = np.longdouble, np.longdouble("3.14159265358979323846264")

    @staticmethod
    def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Not known where terms cancel."""
        p = x * y
        s = p + z
        return np.where(np.abs(s) < np.maximum(np.abs(p), np.abs(z)) / 4, np.nan, s)

    @classmethod
    def erf(cls, x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < 1, cls._near_erf(x), np.copysign(1 - cls._far_erfc(np.abs(x)), x))

    @classmethod
    def erfc(cls, x: np.ndarray) -> np.ndarray:
        far = cls._far_erfc(np.abs(x))
        return np.where(np.abs(x) < 1, 1 - cls._near_erf(x), np.where(x < 0, 2 - far, far))

    @staticmethod
    def _near_erf(x: np.ndarray) -> np.ndarray:
        slope = _fit(lambda z: EXACT.erf(EXACT.sqrt(z)) / EXACT.sqrt(z), 0.0, 1.0, 20)
        return x * np.polyval(slope, x * x)

    @staticmethod
    def _far_erfc(x: np.ndarray) -> np.ndarray:
        """From 1 on; 0 as a double from 28 on."""
        x = np.clip(x, 1, 28)
        head = x.astype(np.float32)  # its square is exact
        power = np.exp(-np.square(head.astype(x.dtype))) * np.exp((head - x) * (head + x))
        return power * np.polyval(_fit(_scaled_erfc, -0.5, 0.81, 28), (x - 3) / (x + 3)) / x


def _scaled_erfc(t: Any) -> Any:
    x = 3 * (1 + t) / (1 - t)
    return x * EXACT.exp(x * x) * EXACT.erfc(x)


@cache
def _fit(function: Callable[[Any], Any], low: float, high: float, terms: int) -> np.ndarray:
    """The coefficients of a polynomial, highest first."""
    found = EXACT.chebyfit(function, [low, high], terms)
    return np.array([np.longdouble(EXACT.nstr(each, 25)) for each in found])


class Mp:
    """The same functions of one exact number."""

    number, pi = EXACT.mpf, EXACT.pi
    sin, cos, tan, asin, acos, atan = (
        EXACT.sin, EXACT.cos, EXACT.tan, EXACT.asin, EXACT.acos, EXACT.atan,
    )  # fmt: skip
    sinh, cosh, tanh, asinh, acosh, atanh = (
        EXACT.sinh, EXACT.cosh, EXACT.tanh, EXACT.asinh, EXACT.acosh, EXACT.atanh,
    )  # fmt: skip
    exp, expm1, log, log10, log1p = EXACT.exp, EXACT.expm1, EXACT.log, EXACT.log10, EXACT.log1p
    sqrt, hypot, pow, erf, erfc = EXACT.sqrt, EXACT.hypot, EXACT.power, EXACT.erf, EXACT.erfc
    floor, ceil, round, sign = EXACT.floor, EXACT.ceil, EXACT.nint, EXACT.sign
    sinpi, cospi, min, max = EXACT.sinpi, EXACT.cospi, min, max
    abs, mul = staticmethod(abs), staticmethod(operator.mul)

    @staticmethod
    def atan2(y: Any, x: Any) -> Any:
        if x == y == 0:
            raise ZeroDivisionError("the signs of the zeros matter")
        return EXACT.atan2(y, x)

    @staticmethod
    def ldexp(x: Any, y: Any) -> Any:
        return EXACT.ldexp(x, int(min(max(y, -5000), 5000)))

    @staticmethod
    def frexp(x: Any) -> Any:
        return EXACT.mpf(math.frexp(float(x))[0])

    @staticmethod
    def exp2(x: Any) -> Any:
        return EXACT.power(2, x)

    @staticmethod
    def log2(x: Any) -> Any:
        return EXACT.log(x) / EXACT.ln2

    @staticmethod
    def cbrt(x: Any) -> Any:
        return EXACT.sign(x) * EXACT.cbrt(abs(x))

    @staticmethod
    def tanpi(x: Any) -> Any:
        return EXACT.sinpi(x) / EXACT.cospi(x)

    @staticmethod
    def trunc(x: Any) -> Any:
        return EXACT.floor(x) if x > 0 else EXACT.ceil(x)

    @staticmethod
    def where(test: bool, yes: Any, no: Any) -> Any:
        return yes if test else no

    @staticmethod
    def copysign(x: Any, y: Any) -> Any:
        return EXACT.mpf(math.copysign(float(x), float(y)))

    @staticmethod
    def rem(x: Any, y: Any) -> Any:
        return EXACT.mpf(math.fmod(float(x), float(y)))

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        return EXACT.fadd(EXACT.fmul(x, y, exact=True), z, exact=True)


WIDE, LONG, MP = Wide, Long, Mp
EXTENDED = np.finfo(np.longdouble).nmant >= 63
Formula = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A function of `arity` numbers. `call` is its Slang text. `ulp` is what is promised: units in the last place of
    half, float and double. Where terms cancel, the promise is in units of `of`, the size of the terms."""

    name: str
    arity: int
    value: Formula
    partials: tuple[Formula, ...] | None = None
    ulp: tuple[float, float, float] = (2.0, 2.0, 2.0)
    call: str = ""
    of: Formula | None = None
    native: bool = False  # `value` takes arrays of the type itself
    zero_sign: bool = True  # whether the sign of a zero is defined


ROWS: dict[str, Row] = {}
ONCE = (0.5, 0.5, 0.5)  # rounded once
VIA_FLOAT = (0.51, 2.0, 2.0)  # half is computed as float and rounded again


def row(name: str, arity: int, value: Formula, *partials: Formula, **rest: Any) -> None:
    ROWS[name] = Row(name, arity, value, partials or None, **rest)


def ln2(m: Any) -> Any:
    return m.log(m.number(2))


def ln10(m: Any) -> Any:
    return m.log(m.number(10))


def zero(m: Any, *xs: Any) -> Any:
    return xs[0] * 0


def two_over_root_pi(m: Any) -> Any:
    return 2 / m.sqrt(m.pi)


def nan_wins(m: Any, value: Any, *xs: Any) -> Any:
    """NaN where an operand is; C says so of `fdim`."""
    if m is Mp:
        return value
    return np.where(np.any([np.isnan(x) for x in xs], axis=0), np.nan, value)


def takes(index: int, first: Callable[[Any, Any], Any]) -> Formula:
    """The slope of min and max by operand `index`: 1 if `first` of it and the other, half at a tie; a number is taken
    beside NaN."""

    def slope(m: Any, *operands: Any) -> Any:
        x, other = operands[index], operands[1 - index]
        if m is Mp:
            return EXACT.mpf(1 if first(x, other) else 0.5 if x == other else 0)
        beside_nan = np.where(np.isnan(other), np.where(np.isnan(x), np.nan, 1.0), 0.0)
        return np.where(first(x, other), 1.0, np.where(x == other, 0.5, beside_nan))

    return slope


# fmt: off
# --- Arithmetic
row("abs",      1, lambda m, x: m.abs(x),                lambda m, x: m.sign(x), ulp=ONCE)
row("fabs",     1, lambda m, x: m.abs(x),                lambda m, x: m.sign(x), ulp=ONCE)
row("floor",    1, lambda m, x: m.floor(x),              zero, ulp=ONCE)
row("ceil",     1, lambda m, x: m.ceil(x),               zero, ulp=ONCE)
row("trunc",    1, lambda m, x: m.trunc(x),              zero, ulp=ONCE)
row("round",    1, lambda m, x: m.round(x),              zero, ulp=ONCE)
row("rint",     1, lambda m, x: m.round(x),              zero, ulp=ONCE)
row("frac",     1, lambda m, x: x - m.floor(x),          lambda m, x: 1 + x * 0, ulp=ONCE)
row("fract",    1, lambda m, x: x - m.floor(x),          lambda m, x: 1 + x * 0, ulp=ONCE)
row("modf",     1, lambda m, x: x - m.trunc(x) if m is Mp else m.copysign(np.where(np.isinf(x), 0.0, x - np.trunc(x)), x),
                                                         lambda m, x: 1 + x * 0, ulp=ONCE, call="{ T whole; return modf(x, whole); }")
row("modf_whole", 1, lambda m, x: m.trunc(x),            zero, ulp=ONCE, call="{ T whole; modf(x, whole); return whole; }")
row("saturate", 1, lambda m, x: min(max(x, 0), 1) if m is Mp else np.where(x > 0, np.minimum(x, 1.0), 0.0),
                                                         lambda m, x: m.where((x >= 0) & (x <= 1), 1.0, 0.0), ulp=ONCE, zero_sign=False)
row("rcp",      1, lambda m, x: 1 / x,                   lambda m, x: -1 / (x * x), ulp=ONCE)
row("sqrt",     1, lambda m, x: m.sqrt(x),               lambda m, x: 0.5 / m.sqrt(x), ulp=ONCE)
row("rsqrt",    1, lambda m, x: 1 / m.sqrt(x),           lambda m, x: -0.5 / (x * m.sqrt(x)))
row("cbrt",     1, lambda m, x: m.cbrt(x),               lambda m, x: 1 / (3 * m.cbrt(x) * m.cbrt(x)))
row("radians",  1, lambda m, x: x * (m.pi / 180),        lambda m, x: m.pi / 180 + x * 0)
row("degrees",  1, lambda m, x: x * (180 / m.pi),        lambda m, x: 180 / m.pi + x * 0)
row("min",      2, lambda m, x, y: m.min(x, y),          takes(0, operator.lt), takes(1, operator.lt), ulp=ONCE, zero_sign=False)
row("max",      2, lambda m, x, y: m.max(x, y),          takes(0, operator.gt), takes(1, operator.gt), ulp=ONCE, zero_sign=False)
row("fmin",     2, ROWS["min"].value,                    *ROWS["min"].partials, ulp=ONCE, zero_sign=False)
row("fmax",     2, ROWS["max"].value,                    *ROWS["max"].partials, ulp=ONCE, zero_sign=False)
row("fmod",     2, lambda m, x, y: m.rem(x, y),          lambda m, x, y: 1 + x * 0, lambda m, x, y: -m.round((x - m.rem(x, y)) / y), ulp=ONCE)
row("fdim",     2, lambda m, x, y: nan_wins(m, m.where(x > y, x - y, 0.0), x, y),
                   lambda m, x, y: m.where(x > y, 1.0, 0.0), lambda m, x, y: m.where(x > y, -1.0, 0.0), ulp=ONCE, zero_sign=False)
row("copysign", 2, lambda m, x, y: m.copysign(x, y),     lambda m, x, y: m.sign(x) * m.sign(y), zero, ulp=ONCE)
row("step",     2, lambda m, x, y: m.where(y < x, 0.0, 1.0), zero, zero, ulp=ONCE)
row("hypot",    2, lambda m, x, y: m.hypot(x, y),        lambda m, x, y: x / m.hypot(x, y), lambda m, x, y: y / m.hypot(x, y))
row("ldexp",    2, lambda m, x, y: m.ldexp(x, y),        ulp=ONCE, call="{ return ldexp(x, int(y)); }")
row("frexp",    1, lambda m, x: m.frexp(x),              ulp=ONCE, call="{ int n; return frexp(x, n); }")
row("nextafter", 2, lambda m, x, y: np.nextafter(x, y),  ulp=ONCE, native=True, zero_sign=False)
row("min3",     3, lambda m, x, y, z: m.min(m.min(x, y), z), ulp=ONCE, zero_sign=False)
row("max3",     3, lambda m, x, y, z: m.max(m.max(x, y), z), ulp=ONCE, zero_sign=False)
row("fmin3",    3, lambda m, x, y, z: m.min(m.min(x, y), z), ulp=ONCE, zero_sign=False)
row("fmax3",    3, lambda m, x, y, z: m.max(m.max(x, y), z), ulp=ONCE, zero_sign=False)
row("median3",  3, lambda m, x, y, z: m.max(m.min(x, y), m.min(m.max(x, y), z)), ulp=ONCE, zero_sign=False)
row("fmedian3", 3, lambda m, x, y, z: m.max(m.min(x, y), m.min(m.max(x, y), z)), ulp=ONCE, zero_sign=False)
row("clamp",    3, lambda m, x, y, z: m.where(m.where(x >= y, x, y) > z, z, m.where(x >= y, x, y)), ulp=ONCE, zero_sign=False)
row("fma",      3, lambda m, x, y, z: m.fma(x, y, z),    lambda m, x, y, z: y, lambda m, x, y, z: x, lambda m, x, y, z: 1 + z * 0, ulp=ONCE)
row("mad",      3, lambda m, x, y, z: m.fma(x, y, z),    lambda m, x, y, z: y, lambda m, x, y, z: x, lambda m, x, y, z: 1 + z * 0,
                   of=lambda m, x, y, z: m.abs(x * y) + m.abs(z), ulp=(1.5, 1.5, 1.5), zero_sign=False)
row("lerp",     3, lambda m, x, y, s: m.mul(x, 1 - s) + m.mul(y, s), lambda m, x, y, s: 1 - s, lambda m, x, y, s: s, lambda m, x, y, s: y - x,
                   of=lambda m, x, y, s: m.abs(x * (1 - s)) + m.abs(y * s), ulp=(2.5, 2.0, 2.0), zero_sign=False)
# --- Exponentials and logarithms
row("exp",      1, lambda m, x: m.exp(x),                lambda m, x: m.exp(x), ulp=VIA_FLOAT)
row("exp2",     1, lambda m, x: m.exp2(x),               lambda m, x: m.exp2(x) * ln2(m), ulp=VIA_FLOAT)
row("exp10",    1, lambda m, x: m.pow(10.0, x),          lambda m, x: m.pow(10.0, x) * ln10(m), ulp=VIA_FLOAT)
row("expm1",    1, lambda m, x: m.expm1(x),              lambda m, x: m.exp(x), ulp=VIA_FLOAT)
row("log",      1, lambda m, x: m.log(x),                lambda m, x: 1 / m.where(x >= 0, x, np.nan), ulp=VIA_FLOAT)
row("log2",     1, lambda m, x: m.log2(x),               lambda m, x: 1 / (m.where(x >= 0, x, np.nan) * ln2(m)), ulp=VIA_FLOAT)
row("log10",    1, lambda m, x: m.log10(x),              lambda m, x: 1 / (m.where(x >= 0, x, np.nan) * ln10(m)), ulp=VIA_FLOAT)
row("log1p",    1, lambda m, x: m.log1p(x),              lambda m, x: 1 / (1 + m.where(x >= -1, x, np.nan)), ulp=VIA_FLOAT)
row("pow",      2, lambda m, x, y: m.pow(x, y),          lambda m, x, y: y * m.pow(x, y - 1), lambda m, x, y: m.pow(x, y) * m.log(x), ulp=VIA_FLOAT)
row("powr",     2, lambda m, x, y: m.pow(x, y),          lambda m, x, y: y * m.pow(x, y - 1), lambda m, x, y: m.pow(x, y) * m.log(x), ulp=VIA_FLOAT)
row("erf",      1, lambda m, x: m.erf(x),                lambda m, x: two_over_root_pi(m) * m.exp(-x * x), ulp=VIA_FLOAT)
row("erfc",     1, lambda m, x: m.erfc(x),               lambda m, x: -two_over_root_pi(m) * m.exp(-x * x), ulp=(0.51, 3.0, 3.0))
# --- Angles
row("sin",      1, lambda m, x: m.sin(x),                lambda m, x: m.cos(x), ulp=VIA_FLOAT)
row("cos",      1, lambda m, x: m.cos(x),                lambda m, x: -m.sin(x), ulp=VIA_FLOAT)
row("tan",      1, lambda m, x: m.tan(x),                lambda m, x: 1 / m.cos(x) ** 2, ulp=VIA_FLOAT)
row("sincos_s", 1, lambda m, x: m.sin(x),                lambda m, x: m.cos(x), ulp=VIA_FLOAT, call="{ T s, c; sincos(x, s, c); return s; }")
row("sincos_c", 1, lambda m, x: m.cos(x),                lambda m, x: -m.sin(x), ulp=VIA_FLOAT, call="{ T s, c; sincos(x, s, c); return c; }")
row("asin",     1, lambda m, x: m.asin(x),               lambda m, x: 1 / m.sqrt((1 - x) * (1 + x)), ulp=VIA_FLOAT)
row("acos",     1, lambda m, x: m.acos(x),               lambda m, x: -1 / m.sqrt((1 - x) * (1 + x)), ulp=VIA_FLOAT)
row("atan",     1, lambda m, x: m.atan(x),               lambda m, x: 1 / (1 + x * x), ulp=VIA_FLOAT)
row("atan2",    2, lambda m, x, y: m.atan2(x, y),        lambda m, y, x: x / (x * x + y * y), lambda m, y, x: -y / (x * x + y * y), ulp=VIA_FLOAT)
row("sinh",     1, lambda m, x: m.sinh(x),               lambda m, x: m.cosh(x), ulp=VIA_FLOAT)
row("cosh",     1, lambda m, x: m.cosh(x),               lambda m, x: m.sinh(x), ulp=VIA_FLOAT)
row("tanh",     1, lambda m, x: m.tanh(x),               lambda m, x: 1 / m.cosh(x) ** 2, ulp=VIA_FLOAT)
row("asinh",    1, lambda m, x: m.asinh(x),              lambda m, x: 1 / m.sqrt(x * x + 1), ulp=VIA_FLOAT)
row("acosh",    1, lambda m, x: m.acosh(x),              lambda m, x: 1 / (m.sqrt(x - 1) * m.sqrt(x + 1)), ulp=VIA_FLOAT)
row("atanh",    1, lambda m, x: m.atanh(x),              lambda m, x: 1 / m.where(m.abs(x) <= 1, (1 - x) * (1 + x), np.nan), ulp=VIA_FLOAT)
row("sinpi",    1, lambda m, x: m.sinpi(x),              lambda m, x: m.pi * m.cospi(x), ulp=VIA_FLOAT)
row("cospi",    1, lambda m, x: m.cospi(x),              lambda m, x: -m.pi * m.sinpi(x), ulp=VIA_FLOAT)
row("tanpi",    1, lambda m, x: m.tanpi(x),              lambda m, x: m.pi / m.cospi(x) ** 2, ulp=VIA_FLOAT)
# fmt: on


def _smooth_ratio(m: Any, low: Any, high: Any, x: Any) -> Any:
    """The place of `x` between the bounds, from 0 to 1. Where they are equal that is a step, and 0 on it."""
    if m is Mp:
        return min(max((x - low) / (high - low), 0), 1)
    factor = np.where(np.isinf(high - low), 0.25, 1.0)  # bounds may be further apart than the greatest number
    ratio = (x * factor - low * factor) / (high * factor - low * factor)
    on_step = (x == low) & (high == low) & np.isfinite(x)
    return np.where(np.isnan(ratio) & ~on_step, np.nan, np.where(ratio > 0, np.minimum(ratio, 1.0), 0.0))


def _smoothstep(m: Any, low: Any, high: Any, x: Any) -> Any:
    t = _smooth_ratio(m, low, high, x)
    return t * t * (3 - 2 * t)


row("smoothstep", 3, _smoothstep, zero_sign=False)


# --- References ---------------------------------------------------------------------------------------

Pair = tuple[np.ndarray, np.ndarray]


Doubt = Callable[[Pair], np.ndarray]


def reference(each: Row, formula: Formula, inputs: Sequence[np.ndarray], doubt: Doubt | None = None) -> Pair:
    """The exact numbers as head + tail: float64 for half and float, and where inputs are not finite. For double, `doubt`
    tells for which of the close ones of long double mpmath is asked; it takes a thousand times as long."""
    double = inputs[0].dtype == np.float64
    with np.errstate(all="ignore"):
        if each.native:
            wide = np.asarray(formula(Wide, *inputs), np.float64)
        else:
            given = [x.astype(np.float64) for x in inputs]
            wide = np.array(np.broadcast_to(formula(Wide, *given), given[0].shape), np.float64)
        if each.native or not double:
            return wide, np.zeros_like(wide)
        finite = np.all([np.isfinite(x) for x in inputs], axis=0)
        head, tail = wide.copy(), np.zeros_like(wide)
        if doubt and EXTENDED:
            close, rest = _by_long_double(formula, inputs)
            head, tail = np.where(finite, close, wide), np.where(finite, rest, 0.0)
            finite &= doubt((head, tail)) | (np.isnan(head) & ~np.isnan(wide))
        for i in np.flatnonzero(finite):
            head[i], tail[i] = _exact(formula, [float(x[i]) for x in inputs], float(wide[i]))
    return head, tail


def _by_long_double(formula: Formula, inputs: Sequence[np.ndarray]) -> Pair:
    exact = np.asarray(formula(Long, *(x.astype(np.longdouble) for x in inputs)), np.longdouble)
    exact = np.broadcast_to(exact, inputs[0].shape)
    head = exact.astype(np.float64)
    tail = ((exact - head) / np.abs(np.spacing(head))).astype(np.float64)
    return head, np.where(np.isfinite(head), tail, 0.0)


def _exact(formula: Formula, xs: list[float], wide: float) -> tuple[float, float]:
    """One number by mpmath. At poles, outside of the domain and for the sign of a zero, C's answer stands."""
    try:
        y = formula(Mp, *(EXACT.mpf(x) for x in xs))
    except (ZeroDivisionError, ValueError, OverflowError, EXACT.NoConvergence):
        return wide, 0.0
    if isinstance(y, (int, float)):
        y = EXACT.mpf(y)
    if not isinstance(y, EXACT.mpf) or EXACT.isnan(y) or EXACT.isinf(y):
        return wide, 0.0
    head = float(y)
    if head == 0.0 and y == 0:
        return (wide, 0.0) if wide == 0 else (0.0, 0.0)
    if 0.0 in xs and wide == wide:
        y, head = (y, head) if (wide < 0) == (head < 0) else (-y, -head)
    return head, (float((y - EXACT.mpf(head)) / math.ulp(head)) if math.isfinite(head) else 0.0)
