"""Functions of numbers: values against Python's, derivatives by both modes against finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.autodiff.calculus import check
from tests.std.programs import call, differentiated, lowered

Point = tuple[float, ...]
Reference = Callable[..., float]


def step(edge: float, x: float) -> float:
    return 0.0 if x < edge else 1.0


def smoothstep(low: float, high: float, x: float) -> float:
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)


def clamp(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


INNER: list[Point] = [(-0.7,), (-0.2,), (0.1,), (0.4,), (0.9,)]
REAL: list[Point] = [(-2.6,), (-0.9,), (-0.3,), (0.2,), (0.7,), (1.4,), (3.3,)]
POSITIVE: list[Point] = [(0.01,), (0.3,), (0.9,), (1.2,), (7.0,)]
PAIRS: list[Point] = [(-1.3, 0.4), (0.6, -2.1), (0.2, 0.9), (2.5, 1.7)]
TRIPLES: list[Point] = [(0.3, 0.5, 0.9), (0.8, 0.2, 1.3), (1.7, 0.4, 1.1), (-0.4, 0.2, 0.6)]

# fmt: off
FUNCTIONS: list[tuple[str, Reference, list[Point]]] = [
    ("sin",        math.sin,                                REAL),
    ("cos",        math.cos,                                REAL),
    ("tan",        math.tan,                                INNER),
    ("asin",       math.asin,                               INNER),
    ("acos",       math.acos,                               INNER),
    ("atan",       math.atan,                               REAL),
    ("sinh",       math.sinh,                               REAL),
    ("cosh",       math.cosh,                               REAL),
    ("tanh",       math.tanh,                               REAL),
    ("asinh",      math.asinh,                              REAL),
    ("acosh",      math.acosh,                              [(1.2,), (3.0,), (40.0,)]),
    ("atanh",      math.atanh,                              INNER),
    ("exp",        math.exp,                                REAL),
    ("exp2",       math.exp2,                               REAL),
    ("exp10",      lambda x: 10.0**x,                       REAL),
    ("expm1",      math.expm1,                              [*REAL, (1e-9,)]),
    ("log",        math.log,                                POSITIVE),
    ("log2",       math.log2,                               POSITIVE),
    ("log10",      math.log10,                              POSITIVE),
    ("log1p",      math.log1p,                              [*INNER, (1e-9,), (12.0,)]),
    ("sqrt",       math.sqrt,                               POSITIVE),
    ("rsqrt",      lambda x: 1 / math.sqrt(x),              POSITIVE),
    ("cbrt",       math.cbrt,                               REAL),
    ("rcp",        lambda x: 1 / x,                         REAL),
    ("abs",        abs,                                     REAL),
    ("floor",      math.floor,                              REAL),
    ("ceil",       math.ceil,                               REAL),
    ("trunc",      math.trunc,                              REAL),
    ("round",      round,                                   REAL),
    ("rint",       round,                                   REAL),
    ("frac",       lambda x: x - math.floor(x),             REAL),
    ("fract",      lambda x: x - math.floor(x),             REAL),
    ("saturate",   lambda x: clamp(x, 0, 1),                REAL),
    ("radians",    math.radians,                            REAL),
    ("degrees",    math.degrees,                            INNER),
    ("sinpi",      lambda x: math.sin(math.pi * x),         REAL),
    ("cospi",      lambda x: math.cos(math.pi * x),         REAL),
    ("tanpi",      lambda x: math.tan(math.pi * x),         [(-0.3,), (0.2,), (1.1,)]),
    ("erf",        math.erf,                                [*REAL, (0.001,), (5.0,)]),
    ("erfc",       math.erfc,                               [*REAL, (0.001,), (5.0,)]),
    ("pow",        math.pow,                                [(0.3, 2.0), (2.5, -1.5), (1.7, 0.0), (4.0, 0.5)]),
    ("powr",       math.pow,                                [(0.3, 2.0), (2.5, -1.5), (1.7, 0.3)]),
    ("atan2",      math.atan2,                              PAIRS),
    ("fmod",       math.fmod,                               [(5.3, 2.0), (-5.3, 2.1), (5.3, -1.7), (0.4, 1.1)]),
    ("min",        min,                                     PAIRS),
    ("max",        max,                                     PAIRS),
    ("fmin",       min,                                     PAIRS),
    ("fmax",       max,                                     PAIRS),
    ("fdim",       lambda x, y: max(x - y, 0.0),            PAIRS),
    ("step",       step,                                    PAIRS),
    ("copysign",   math.copysign,                           PAIRS),
    ("hypot",      math.hypot,                              PAIRS),
    ("ldexp",      lambda x, y: x * 2.0**y,                 PAIRS),
    ("fma",        lambda x, y, z: x * y + z,               TRIPLES),
    ("mad",        lambda x, y, z: x * y + z,               TRIPLES),
    ("lerp",       lambda x, y, s: x + s * (y - x),         TRIPLES),
    ("clamp",      clamp,                                   TRIPLES),
    ("smoothstep", smoothstep,                              [(0.1, 0.9, 0.4), (0.2, 1.4, 0.3), (0.0, 1.0, 1.7)]),
    ("min3",       min,                                     TRIPLES),
    ("max3",       max,                                     TRIPLES),
    ("fmin3",      min,                                     TRIPLES),
    ("fmax3",      max,                                     TRIPLES),
    ("median3",    lambda *xs: sorted(xs)[1],               TRIPLES),
    ("fmedian3",   lambda *xs: sorted(xs)[1],               TRIPLES),
]
# fmt: on


@pytest.mark.parametrize(("name", "reference", "points"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_numbers(name: str, reference: Reference, points: list[Point]) -> None:
    names = ["x", "y", "z"][: len(points[0])]
    parameters = ", ".join(f"double {each}" for each in names)
    program = lowered(f"[Differentiable] double f({parameters}) {{ return {name}({', '.join(names)}); }}")
    for point in points:
        assert call(program, "f", *point) == pytest.approx(reference(*point), rel=1e-14, abs=1e-15)
        check(program, "f", point)


@pytest.mark.parametrize(("name", "reference", "points"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_vectors_and_matrices(name: str, reference: Reference, points: list[Point]) -> None:
    """A double2 and a double2x2 of the first points."""
    names = ["x", "y", "z"][: len(points[0])]
    text = "".join(
        f"[Differentiable] {t} {f}({', '.join(f'{t} {each}' for each in names)}) {{ return {name}({', '.join(names)}); }}"
        for t, f in (("double2", "v"), ("double2x2", "m"))
    )
    program = lowered(text)
    a, b, c = points[:3]
    vectors = tuple(zip(a, b))
    values = (reference(*a), reference(*b))
    assert call(program, "v", *vectors) == pytest.approx(values, rel=1e-14, abs=1e-15)
    check(program, "v", vectors)
    matrices = tuple(((p, q), (r, p)) for p, q, r in zip(a, b, c))
    rows = call(program, "m", *matrices)
    assert isinstance(rows, tuple)
    assert rows[0] == pytest.approx(values, rel=1e-14, abs=1e-15)
    assert rows[1] == pytest.approx((reference(*c), values[0]), rel=1e-14, abs=1e-15)
    check(program, "m", matrices)


@pytest.mark.parametrize(
    "name", ["sin", "exp", "tanh", "sqrt", "rsqrt", "cbrt", "expm1", "log1p", "erf", "lerp", "hypot"]
)
def test_second_derivatives(name: str) -> None:
    count = {"lerp": 3, "hypot": 2}.get(name, 1)
    names = ["x", "y", "z"][:count]
    parameters = ", ".join(f"double {each}" for each in names)
    program = lowered(f"[Differentiable] double f({parameters}) {{ return {name}({', '.join(names)}); }}")
    check(program, "f", (0.6, 0.3, 0.8)[:count], order=2)


def test_float_and_half() -> None:
    program = lowered(
        "float f(float x) { return sin(x); }  half h(half x) { return exp(x) + lerp(x, 2, 0.5h); }"
    )
    assert call(program, "f", 0.5) == 0.4794255495071411
    assert call(program, "h", 1.0) == 4.21875


def test_integers() -> None:
    program = lowered("""
        int a(int x) { return abs(x); }
        uint b(uint x, uint y) { return max(x, y); }
        int3 c(int3 x) { return clamp(x, int3(-1), int3(5)); }
        int d(int x, int y, int z) { return median3(x, y, z); }
        int e(int x) { return mad(x, 3, 4); }
        int16_t g(int16_t x) { return min(x, int16_t(7)); }
    """)
    assert call(program, "a", -7) == 7
    assert call(program, "b", 3, 4_000_000_000) == 4_000_000_000
    assert call(program, "c", (-9, 2, 9)) == (-1, 2, 5)
    assert call(program, "d", 5, -2, 9) == 5
    assert call(program, "e", 5) == 19
    assert call(program, "g", -3) == -3


def test_sign_is_an_integer() -> None:
    program = lowered("""
        int a(float x) { return sign(x); }
        int b(int x) { return sign(x); }
        int3 c(double3 x) { return sign(x); }
        int2x2 d(float2x2 x) { return sign(x); }
    """)
    assert [call(program, "a", x) for x in (-2.5, 0.0, 3.0, math.nan)] == [-1, 0, 1, 0]
    assert [call(program, "b", x) for x in (-2, 0, 3)] == [-1, 0, 1]
    assert call(program, "c", (-1.0, 0.0, 2.0)) == (-1, 0, 1)
    assert call(program, "d", ((1.0, -1.0), (0.0, 4.0))) == ((1, -1), (0, 1))


def test_several_results() -> None:
    program = lowered("""
        [Differentiable] double2 a(double x) { double s, c; sincos(x, s, c); return double2(s, c); }
        [Differentiable] double2 b(double x) { double whole; double part = modf(x, whole); return double2(part, whole); }
        [Differentiable] double c(double x) { int e; return frexp(x, e); }
        int d(double x) { int e; frexp(x, e); return e; }
        [Differentiable] double e(double x, no_diff int n) { return ldexp(x, n); }
        [Differentiable] double3 g(double3 x) { int3 n; return frexp(x, n) * double3(n); }
    """)
    assert call(program, "a", 0.7) == pytest.approx((math.sin(0.7), math.cos(0.7)))
    assert call(program, "b", -2.75) == (-0.75, -2.0)
    assert call(program, "c", 40.0) == 0.625
    assert [call(program, "d", x) for x in (40.0, -0.3, 0.0, 5e-324, math.inf)] == [6, -1, 0, -1073, 0]
    assert [call(program, "e", 3.0, n) for n in (4, -3, 2000, -2000)] == [48.0, 0.375, math.inf, 0.0]
    assert call(program, "g", (6.0, 0.7, -9.0)) == (0.75 * 3, 0.0, -0.5625 * 4)
    for name, point in (("a", 0.7), ("b", -2.75), ("c", 40.1)):
        check(program, name, (point,))
    check(program, "e", (3.0, 4))


def test_tests() -> None:
    program = lowered("""
        bool3 a(float3 x) { return isnan(x); }
        bool3 b(float3 x) { return isinf(x); }
        bool3 c(float3 x) { return isfinite(x); }
        bool d(half x) { return isfinite(x); }
    """)
    odd = (math.nan, -math.inf, 3e38)
    assert call(program, "a", odd) == (True, False, False)
    assert call(program, "b", odd) == (False, True, False)
    assert call(program, "c", odd) == (False, False, True)
    assert call(program, "d", 65504.0) is True


def test_ends_of_the_range() -> None:
    program = lowered("""
        double root(double x) { return cbrt(x); }
        double expm(double x) { return expm1(x); }
        double logp(double x) { return log1p(x); }
        double length2(double x, double y) { return hypot(x, y); }
        double signed(double x, double y) { return copysign(x, y); }
        double error(double x) { return erf(x); }
        double rest(double x) { return erfc(x); }
    """)
    assert [call(program, "root", x) for x in (0.0, math.inf, -math.inf, -27.0)] == [
        0.0,
        math.inf,
        -math.inf,
        -3.0,
    ]
    assert [call(program, "expm", x) for x in (-800.0, -math.inf, math.inf, 1e-20)] == [
        -1.0,
        -1.0,
        math.inf,
        1e-20,
    ]
    assert [call(program, "logp", x) for x in (-1.0, math.inf, 1e-20)] == [-math.inf, math.inf, 1e-20]
    assert call(program, "length2", 3e200, 4e200) == pytest.approx(5e200)
    assert [call(program, "length2", *p) for p in ((0.0, 0.0), (math.inf, 1.0))] == [0.0, math.inf]
    assert math.copysign(1.0, call(program, "signed", 0.0, -0.0)) == -1.0  # type: ignore[arg-type]
    assert [call(program, "error", x) for x in (-math.inf, 0.0, math.inf)] == [-1.0, 0.0, 1.0]
    assert [call(program, "rest", x) for x in (-math.inf, 0.0, math.inf)] == [2.0, 1.0, 0.0]
    assert call(program, "rest", 20.0) == pytest.approx(math.erfc(20.0), rel=1e-14)
    for name in ("root", "expm", "logp", "error", "rest"):
        assert math.isnan(call(program, name, math.nan))  # type: ignore[arg-type]


def test_conventions_at_kinks() -> None:
    """Ties of min and max split; clamp gives x the derivative on its bounds; copysign at zero and hypot at the
    origin have none; that of sqrt is cut off below the smallest normal number."""
    program = differentiated("""
        [Differentiable] double tie(double x, double y) { return max(x, y); }
        [Differentiable] double held(double x, double y) { return clamp(x, y, y + 1.0); }
        double2 of_tie(double x, double y)
        {
            var p = diffPair(x, 0.0lf);
            var q = diffPair(y, 0.0lf);
            bwd_diff(tie)(p, q, 1.0lf);
            return double2(p.d, q.d);
        }
        double2 of_held(double x, double y)
        {
            var p = diffPair(x, 0.0lf);
            var q = diffPair(y, 0.0lf);
            bwd_diff(held)(p, q, 1.0lf);
            return double2(p.d, q.d);
        }
        double2 of_hypot(double x, double y)
        {
            var p = diffPair(x, 0.0lf);
            var q = diffPair(y, 0.0lf);
            bwd_diff(hypot)(p, q, 1.0lf);
            return double2(p.d, q.d);
        }
        double of_copysign(double x, double y) { return fwd_diff(copysign)(diffPair(x, 1.0lf), diffPair(y, 0.0lf)).d; }
        double of_sqrt(double x) { return fwd_diff(sqrt)(diffPair(x, 1.0lf)).d; }
        double of_rcp(double x) { return fwd_diff(rcp)(diffPair(x, 1.0lf)).d; }
    """)
    assert call(program, "of_tie", 2.0, 2.0) == (0.5, 0.5)
    assert [call(program, "of_held", x, 1.0) for x in (1.0, 2.0)] == [(1.0, 0.0), (1.0, 0.0)]
    assert [call(program, "of_held", x, 1.0) for x in (0.9, 2.1)] == [(0.0, 1.0), (0.0, 1.0)]
    assert call(program, "of_hypot", 0.0, 0.0) == (0.0, 0.0)
    assert [call(program, "of_copysign", *p) for p in ((-2.0, 1.0), (0.0, 1.0), (2.0, 0.0))] == [
        -1.0,
        0.0,
        0.0,
    ]
    assert [call(program, "of_sqrt", x) for x in (0.0, 1e-8)] == pytest.approx([2.0**510, 5e3])
    assert [call(program, "of_rcp", x) for x in (0.5, 1e-6)] == pytest.approx([-4.0, -1e12])


def test_integers_where_floats_are_meant() -> None:
    program = lowered("""
        float a(int x) { return sqrt(x) + pow(2, 3) + max(x, 1.5); }
        float3 b(float3 x) { return max(x, 1) + lerp(x, 2, 0.5) + pow(x, 2) + step(1, x); }
        double c(double x) { return clamp(x, 0, 1) + fmod(x, 2); }
    """)
    assert call(program, "a", 4) == 2.0 + 8.0 + 4.0
    assert call(program, "b", (1.0, 2.0, 3.0)) == (1 + 1.5 + 1 + 1, 2 + 2 + 4 + 1, 3 + 2.5 + 9 + 1)
    assert call(program, "c", 2.5) == 1.5


def test_users_may_use_the_names() -> None:
    program = lowered("""
        float clamp(float x, float low, float high) { return 42; }
        struct Mass { float value; float sqrt() { return ::sqrt(value) + 1; } }
        float a(float x) { return clamp(x, 0, 1); }
        float3 b(float3 x) { return clamp(x, 0, 1); }
        float c(float x) { Mass m = { x }; return m.sqrt(); }
    """)
    assert call(program, "a", 3.0) == 42.0
    assert call(program, "b", (3.0, -1.0, 0.5)) == (1.0, 0.0, 0.5)
    assert call(program, "c", 4.0) == 3.0


def test_min_and_max_of_what_can_be_compared() -> None:
    program = lowered("""
        T smaller<T : IArithmetic>(T x, T y) { return min(x, y); }
        float a(float x) { return smaller(x, 2.0f) + max(x, 3.0); }
        int b(int x) { return smaller(x, 2) + max(x, 1); }
    """)
    assert call(program, "a", 5.0) == 7.0
    assert call(program, "b", 7) == 9
