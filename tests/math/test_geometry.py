"""Products and lengths of vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slangrad as spy
from slangrad import double3, float2, float3, float16_t3, int2, int3, uint2

m = spy.math
components = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@given(components, components)
def test_products_are_numpys(a, b):
    x, y = double3(a), double3(b)
    assert m.dot(x, y) == pytest.approx(np.dot(a, b), abs=1e-12)
    assert np.allclose(m.cross(x, y).data, np.cross(a, b), atol=1e-12)
    assert m.length(x) == pytest.approx(np.linalg.norm(a))


@pytest.mark.parametrize("kind", [float16_t3, float3, double3])
def test_lengths(kind):
    v = kind(2, -3, 6)
    assert m.length(v) == 7
    assert m.length(m.normalize(v)) == pytest.approx(1, abs=1e-3)
    assert m.reflect(kind(1, -1, 0), kind(0, 1, 0)) == kind(1, 1, 0)
    assert np.isnan(m.normalize(kind(0)).data).all()


def test_whole_numbers():
    assert m.dot(int3(1, 2, 3), int3(4, -5, 6)) == 12
    assert m.cross(int3(1, 0, 0), int3(0, 1, 0)) == int3(0, 0, 1)
    assert m.dot(uint2(1 << 31, 1), uint2(2, 3)) == 3  # wraps, as in Slang
    with pytest.raises(TypeError, match="length: there is none for int2"):
        m.length(int2(3, 4))


def test_what_is_refused():
    with pytest.raises(TypeError, match="cross: vectors of three components are needed, not float2"):
        m.cross(float2(1), float2(2))
    with pytest.raises(TypeError, match="dot: float3 and int3 are of different types"):
        m.dot(float3(1), int3(1))
    with pytest.raises(TypeError, match="dot: there is none for bool3, bool3"):
        m.dot(spy.bool3(True), spy.bool3(True))


def test_the_module():
    assert spy.math.float3 is float3
    assert {"mul", "float4x4", "quat_from_matrix", "Handedness"} <= set(dir(spy.math))
    assert all(callable(getattr(spy.math, name)) for name in spy.math.__all__)
    with pytest.raises(AttributeError, match=r"module 'slangrad.math' has no attribute 'sine'"):
        getattr(spy.math, "sine")  # noqa: B009
