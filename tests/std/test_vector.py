"""Products, lengths, matrices: values against NumPy's, derivatives against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slangrad.ir.oracle.memory import Datum
from tests.autodiff.calculus import check, derivative
from tests.std.programs import call, lowered

A3, B3, C3 = (0.4, -1.2, 2.1), (1.3, 0.7, -0.5), (0.9, 0.2, 1.1)
M22 = ((1.2, 0.4), (-0.7, 2.1))
M23 = ((0.3, -1.1, 0.8), (1.7, 0.2, -0.6))
M33 = ((1.1, 0.2, -0.4), (0.5, 2.3, 0.9), (-0.8, 0.3, 1.7))
M44 = ((1.4, 0.2, -0.4, 0.7), (0.5, 2.3, 0.9, -0.2), (-0.8, 0.3, 1.7, 0.1), (0.6, -0.5, 0.4, 2.2))


def flat(value: Datum) -> list[float]:
    return np.asarray(value, dtype=float).ravel().tolist()  # type: ignore[no-any-return]


def refracted(i: np.ndarray, n: np.ndarray, eta: float) -> np.ndarray:
    c = n @ i
    k = 1 - eta * eta * (1 - c * c)
    return np.zeros(3) if k < 0 else eta * i - (eta * c + math.sqrt(k)) * n


UNIT_I = np.asarray(A3) / np.linalg.norm(A3)
UNIT_N = np.asarray(B3) / np.linalg.norm(B3)

# fmt: off
FUNCTIONS = [
    ("double   dot(double3 x, double3 y)",                 (A3, B3),         np.dot),
    ("double3  cross(double3 x, double3 y)",               (A3, B3),         np.cross),
    ("double   length(double3 x)",                         (A3,),            np.linalg.norm),
    ("double   length(double x)",                          (-1.5,),          abs),
    ("double   distance(double3 x, double3 y)",            (A3, B3),         lambda x, y: np.linalg.norm(x - y)),
    ("double3  normalize(double3 x)",                      (A3,),            lambda x: x / np.linalg.norm(x)),
    ("double3  reflect(double3 x, double3 y)",             (A3, B3),         lambda x, n: x - 2 * (x @ n) * n),
    ("double3  refract(double3 x, double3 y, double z)",   (tuple(UNIT_I.tolist()), tuple(UNIT_N.tolist()), 0.8), refracted),
    ("double3  faceforward(double3 x, double3 y, double3 z)", (A3, B3, C3),  lambda n, i, r: n if r @ i < 0 else -n),
    ("double2x3 outerProduct(double2 x, double3 y)",       ((0.3, 2.0), B3), np.outer),
    ("double   trace(double3x3 x)",                        (M33,),           np.trace),
    ("double   mul(double x, double y)",                   (0.3, 2.0),       lambda x, y: x * y),
    ("double3  mul(double3 x, double y)",                  (A3, 2.0),        lambda x, y: x * y),
    ("double3  mul(double x, double3 y)",                  (2.0, A3),        lambda x, y: x * y),
    ("double   mul(double3 x, double3 y)",                 (A3, B3),         np.dot),
    ("double2x3 mul(double2x3 x, double y)",               (M23, 0.7),       lambda x, y: x * y),
    ("double2x3 mul(double x, double2x3 y)",               (0.7, M23),       lambda x, y: x * y),
    ("double3  mul(double2 x, double2x3 y)",               ((0.3, 2.0), M23), np.matmul),
    ("double2  mul(double2x3 x, double3 y)",               (M23, A3),        np.matmul),
    ("double2x3 mul(double2x2 x, double2x3 y)",            (M22, M23),       np.matmul),
    ("double3x2 transpose(double2x3 x)",                   (M23,),           np.transpose),
    ("double   determinant(double2x2 x)",                  (M22,),           np.linalg.det),
    ("double   determinant(double3x3 x)",                  (M33,),           np.linalg.det),
    ("double   determinant(double4x4 x)",                  (M44,),           np.linalg.det),
    ("double2x2 inverse(double2x2 x)",                     (M22,),           np.linalg.inv),
    ("double3x3 inverse(double3x3 x)",                     (M33,),           np.linalg.inv),
    ("double4x4 inverse(double4x4 x)",                     (M44,),           np.linalg.inv),
]
# fmt: on


@pytest.mark.parametrize(("header", "inputs", "reference"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_values_and_derivatives(header: str, inputs: tuple[Datum, ...], reference) -> None:  # type: ignore[no-untyped-def]
    result, rest = header.split(maxsplit=1)
    name, parameters = rest.split("(")
    names = ", ".join(["x", "y", "z"][: len(inputs)])
    program = lowered(f"[Differentiable] {result} f({parameters} {{ return {name}({names}); }}")
    arrays = [np.asarray(each) if isinstance(each, tuple) else each for each in inputs]
    assert flat(call(program, "f", *inputs)) == pytest.approx(flat(reference(*arrays)), rel=1e-13, abs=1e-14)
    check(program, "f", inputs)


def test_integers() -> None:
    program = lowered("""
        int a(int3 x, int3 y) { return dot(x, y); }
        uint2 b(uint2x2 m, uint2 v) { return mul(m, v); }
        int3 c(int3 x, int3 y) { return cross(x, y); }
        int d(int2x2 m) { return determinant(m); }
        int3x2 e(int2x3 m) { return transpose(m); }
        bool2x1 g(bool1x2 m) { return transpose(m); }
    """)
    assert call(program, "a", (1, 2, 3), (4, 5, -6)) == -4
    assert call(program, "b", ((1, 2), (3, 4)), (5, 6)) == (17, 39)
    assert call(program, "c", (1, 0, 0), (0, 1, 0)) == (0, 0, 1)
    assert call(program, "d", ((3, 1), (4, 2))) == 2
    assert call(program, "e", ((1, 2, 3), (4, 5, 6))) == ((1, 4), (2, 5), (3, 6))
    assert call(program, "g", ((True, False),)) == ((True,), (False,))


def test_all_and_any() -> None:
    program = lowered("""
        bool a(bool3 x) { return all(x); }
        bool b(int2 x) { return any(x); }
        bool c(float2x2 x) { return all(x); }
        bool d(float x) { return any(x); }
        bool2 e(bool2 x, bool2 y) { return or(x, and(y, bool2(true, false))); }
    """)
    assert [call(program, "a", x) for x in ((True, True, True), (True, False, True))] == [True, False]
    assert [call(program, "b", x) for x in ((0, 0), (0, 3))] == [False, True]
    assert [call(program, "c", x) for x in (((1.0, 2.0), (3.0, 0.5)), ((1.0, 0.0), (3.0, 0.5)))] == [
        True,
        False,
    ]
    assert call(program, "d", 0.0) is False
    assert call(program, "e", (False, False), (True, True)) == (True, False)


def test_length_at_zero_has_no_gradient() -> None:
    program = lowered("[Differentiable] double f(double3 x) { return length(x); }")
    (gradient,) = derivative(program, "f", "vjp", ((0.0, 0.0, 0.0), 1.0))
    assert gradient == (0.0, 0.0, 0.0)


def test_total_reflection() -> None:
    program = lowered("float2 f(float2 i, float2 n, float eta) { return refract(i, n, eta); }")
    assert call(program, "f", (0.8, -0.6), (0.0, 1.0), 1.5) == (0.0, 0.0)


def test_lit() -> None:
    program = lowered("float4 f(float a, float b, float c) { return lit(a, b, c); }")
    assert call(program, "f", 0.5, 0.5, 2.0) == (1.0, 0.5, 0.25, 1.0)
    assert call(program, "f", -0.5, 0.5, 2.0) == (1.0, 0.0, 0.0, 1.0)
