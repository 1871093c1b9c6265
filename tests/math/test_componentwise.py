"""Functions of components against NumPy and Python, for each type of element."""

import math

import numpy as np
import pytest

import slangrad as spy
from slangrad import bool2, bool3, double3, float3, float16_t3, int2, int3, uint2, uint3
from slangrad.math.componentwise import ROWS

FLOATS = [float16_t3, float3, double3]
VALUES = [0.25, 0.5, 0.875]

# What Python computes for a number in [0.25, 0.875].
REFERENCE = {
    "abs": abs, "sign": lambda x: 1.0, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "round": lambda x: 0.0 if x < 0.5 else 1.0, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "rcp": lambda x: 1 / x, "exp": math.exp, "exp2": lambda x: 2**x, "log": math.log, "log2": math.log2,
    "log10": math.log10, "radians": math.radians, "degrees": math.degrees, "sin": math.sin, "cos": math.cos,
    "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh,
    "tanh": math.tanh, "frac": lambda x: x, "saturate": lambda x: x, "isfinite": math.isfinite,
    "isinf": math.isinf, "isnan": math.isnan,
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_one_value(name, kind):
    made = getattr(spy.math, name)(kind(VALUES))
    expected = [REFERENCE[name](x) for x in VALUES]
    assert type(made) is (bool3 if isinstance(expected[0], bool) else kind)
    epsilon = float(np.finfo(kind.dtype).eps)
    assert np.allclose(made.data, expected, rtol=4 * epsilon, atol=0)


@pytest.mark.parametrize("name", REFERENCE)
def test_functions_of_a_number(name):
    for x in VALUES:
        made = getattr(spy.math, name)(x)
        assert type(made) is type(made + 0.0) or isinstance(made, bool)
        assert made == pytest.approx(REFERENCE[name](x), rel=1e-15)


def test_every_row_is_tested():
    several = {
        "eq",
        "ne",
        "lt",
        "gt",
        "le",
        "ge",
        "min",
        "max",
        "pow",
        "fmod",
        "step",
        "atan2",
        "clamp",
        "lerp",
    }
    assert set(ROWS) == set(REFERENCE) | several | {"smoothstep"}


@pytest.mark.parametrize("kind", [*FLOATS, int3, uint3])
def test_comparisons(kind):
    a, b = kind(1, 2, 3), kind(2, 2, 2)
    assert spy.math.eq(a, b) == bool3(False, True, False)
    assert spy.math.ne(a, b) == bool3(True, False, True)
    assert spy.math.lt(a, b) == bool3(True, False, False)
    assert spy.math.ge(a, 2) == bool3(False, True, True)
    assert spy.math.gt(2, a) == bool3(True, False, False)
    assert spy.math.le(a, b) == bool3(True, True, False)
    assert (spy.math.lt(1, 2), spy.math.eq(1.5, 2)) == (True, False)


@pytest.mark.parametrize("kind", [*FLOATS, int3, uint3])
def test_extremes(kind):
    a, b = kind(1, 5, 3), kind(2, 2, 4)
    assert spy.math.min(a, b) == kind(1, 2, 3)
    assert spy.math.max(a, 3) == kind(3, 5, 3)
    assert spy.math.clamp(a, 2, 4) == kind(2, 4, 3)
    assert spy.math.clamp(x=a, min=b, max=b) == b
    assert spy.math.min(3, 1.5) == 1.5


def test_what_cannot_be_compared():
    nan = float("nan")
    assert spy.math.min(float3(nan, 1, nan), 2.0)[0] == 2
    assert np.isnan(spy.math.max(float3(1), float3(nan)).x)


@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_several_values(kind):
    a, b = kind(2, 3, 0.5), kind(3, 2, 2)
    assert spy.math.pow(a, b) == kind(8, 9, 0.25)
    assert spy.math.pow(a, 2.0) == kind(4, 9, 0.25)
    assert spy.math.fmod(kind(7, -7, 0.5), 2.0) == kind(1, -1, 0.5)
    assert spy.math.step(a, 2.0) == kind(1, 1, 0)
    assert spy.math.lerp(a, b, 0.5) == kind(2.5, 2.5, 1.25)
    assert spy.math.lerp(a, b, kind(0, 1, 0)) == kind(2, 2, 0.5)
    assert spy.math.smoothstep(kind(0), kind(4), kind(1, 2, 5)) == kind(0.15625, 0.5, 1)
    assert np.allclose(spy.math.atan2(y=a, x=b).data, np.arctan2(a.data, b.data), rtol=1e-3)
    assert spy.math.frac(kind(1.25, -1.25, 3)) == kind(0.25, 0.75, 0)


def test_rounding_halves_and_their_neighbors():
    below = math.nextafter(0.5, 0)
    given = [0.5, -0.5, 1.5, 2.5, -2.5, below, 2.0**52 + 1, -(2.0**53)]
    assert [spy.math.round(x) for x in given] == [1, -1, 2, 3, -3, 0, 2.0**52 + 1, -(2.0**53)]


def test_truths():
    some = bool2(True, False)
    assert (spy.math.any(some), spy.math.all(some), spy.math.none(some)) == (True, False, False)
    assert spy.math.none(bool2(False))
    assert spy.math.select(some, int2(1, 2), int2(3, 4)) == int2(1, 4)
    assert spy.math.select(some, int2(1, 2), 7) == int2(1, 7)
    assert spy.math.select(True, int2(1, 2), int2(3, 4)) == int2(1, 2)
    assert spy.math.select(False, 1, 2) == 2
    with pytest.raises(TypeError, match="select: a condition of 2 components for float3"):
        spy.math.select(some, float3(1), float3(2))
    with pytest.raises(TypeError, match="any: a vector of truth values is needed, not int2"):
        spy.math.any(int2(1))


def test_bits():
    assert spy.math.asuint(1.0) == 0x3F800000
    assert spy.math.asuint(spy.float2(1, -2)) == uint2(0x3F800000, 0xC0000000)
    assert spy.math.asint(-0.0) == -(2**31)
    assert spy.math.asfloat(0x40490FDB) == np.float32(np.pi)
    assert spy.math.asfloat(-1 << 31) == 0
    assert spy.math.asfloat(int3(0x3F800000)) == float3(1)
    assert spy.math.asuint16(spy.float16_t(1)) == 0x3C00
    assert spy.math.asfloat16(0x3C00) == 1
    assert spy.math.f32tof16(1.5) == 0x3E00
    assert spy.math.f32tof16(spy.float2(1, 1e6)) == uint2(0x3C00, 0x7C00)
    assert spy.math.f16tof32(0xFFFF3C00) == 1
    assert spy.math.f16tof32(uint3(0x3C00, 0x4000, 0)) == float3(1, 2, 0)
    with pytest.raises(TypeError, match="asuint: there is none for double3"):
        spy.math.asuint(double3(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.sin(int2(1)), "sin: there is none for int2"),
        (lambda m: m.sin("x"), "sin: str is no number or vector"),
        (lambda m: m.sin(spy.float2x2()), "sin: there is none for float2x2"),
        (lambda m: m.min(float3(1), double3(1)), "float3 and double3 are of different types"),
        (lambda m: m.min(float3(1), spy.float2(1)), "float3 and float2 are of different types"),
        (lambda m: m.max(int2(1), 1.5), "max: 1.5 is no component of int2"),
        (lambda m: m.clamp(float3(1), 2), r"clamp\(\) takes 3 arguments \(x, min, max\), not 2"),
        (lambda m: m.sin(x=1.0, y=2.0), r"sin\(\) got an unexpected argument 'y'"),
        (lambda m: m.sin(spy.quatf()), "sin: there is none for quatf"),
        (lambda m: m.lt(bool2(True), bool2(False)), "lt: there is none for bool2"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(spy.math)


def test_unsigned_numbers_do_not_wrap_on_the_way_in():
    with pytest.raises(OverflowError, match="max: -1 is not from 0 to 4294967295"):
        spy.math.max(uint2(1, 2), -1)
