"""Matrices against NumPy, for each size; transformations by what they do to points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import double3, double4x4, float2, float3, float4, float4x4

m = spy.math
SIZES = [(rows, columns) for rows in (2, 3, 4) for columns in (2, 3, 4)]
numbers = st.floats(-4, 4, width=32)


def random_matrix(rows, columns, kind="float", seed=0):
    made = getattr(spy, f"{kind}{rows}x{columns}")
    return made(np.random.default_rng(seed).normal(size=(rows, columns)).astype(made.dtype))


@pytest.mark.parametrize("kind", ["float16_t", "float", "double", "int"])
@pytest.mark.parametrize("size", SIZES)
def test_products(kind, size):
    rows, columns = size
    made = getattr(spy, f"{kind}{rows}x{columns}")
    a = made(np.arange(rows * columns).reshape(size) - 3)
    for inner in (2, 3, 4):
        other = getattr(spy, f"{kind}{columns}x{inner}")(np.arange(columns * inner))
        product = m.mul(a, other)
        assert type(product).__name__ == f"{kind}{rows}x{inner}"
        assert np.array_equal(product.data, a.data @ other.data)
        assert a @ other == product
    v, w = getattr(spy, f"{kind}{columns}")(range(columns)), getattr(spy, f"{kind}{rows}")(range(rows))
    assert np.array_equal(m.mul(a, v).data, a.data @ v.data)
    assert np.array_equal((a @ v).data, a.data @ v.data)
    assert np.array_equal(m.mul(w, a).data, w.data @ a.data)
    assert np.array_equal(m.transpose(a).data, a.data.T)
    assert type(m.transpose(a)).__name__ == f"{kind}{columns}x{rows}"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_inverses_and_determinants(size):
    a = random_matrix(size, size, "double")
    assert m.determinant(a) == pytest.approx(np.linalg.det(a.data), rel=1e-13)
    assert np.allclose((a @ m.inverse(a)).data, np.eye(size), atol=1e-13)
    single = random_matrix(size, size)
    assert np.allclose((single @ m.inverse(single)).data, np.eye(size), atol=1e-5)
    with pytest.raises(ValueError, match="inverse: the matrix is singular"):
        m.inverse(type(a).zeros())
    with pytest.raises(TypeError, match="a square matrix of floats is needed, not float2x3"):
        m.determinant(spy.float2x3())


def test_products_that_do_not_fit():
    with pytest.raises(ValueError, match="mul: float2x3 has 3 columns, float2 2 rows"):
        m.mul(spy.float2x3(), float2(1))
    with pytest.raises(TypeError, match="mul: there is none for float3x3 and double3"):
        m.mul(spy.float3x3(), double3(1))
    with pytest.raises(TypeError, match="mul: there is none for float3 and float3"):
        m.mul(float3(1), float3(1))
    with pytest.raises(TypeError):
        spy.float2x2() @ spy.double2x2()


def test_moving_scaling_and_turning():
    v = float3(1, 2, 3)
    assert m.transform_point(m.matrix_from_translation(v), float3(1, 1, 1)) == float3(2, 3, 4)
    assert m.transform_vector(m.matrix_from_translation(v), float3(1, 1, 1)) == float3(1, 1, 1)
    assert m.transform_point(m.matrix_from_scaling(v), float3(1, 1, 1)) == v
    assert m.transform_vector(spy.float3x3(m.matrix_from_scaling(v)), float3(1, 1, 1)) == v
    quarter = np.pi / 2
    for turn, expected in (
        (m.matrix_from_rotation_x(quarter), (1, -3, 2)),
        (m.matrix_from_rotation_y(quarter), (3, 2, -1)),
        (m.matrix_from_rotation_z(quarter), (-2, 1, 3)),
        (m.matrix_from_rotation(quarter, float3(0, 0, 7)), (-2, 1, 3)),
    ):
        assert np.allclose(m.transform_point(turn, v).data, expected, atol=1e-6)
    plane = m.matrix_from_rotation_2d(quarter)
    assert np.allclose(m.mul(plane, float3(1, 0, 1)).data, (0, 1, 1), atol=1e-6)
    assert m.mul(m.matrix_from_translation_2d(float2(5, 6)), float3(1, 1, 1)) == float3(6, 7, 1)
    assert m.mul(m.matrix_from_scaling_2d(float2(5, 6)), float3(1, 1, 1)) == float3(5, 6, 1)


def test_steps_are_multiplied_from_the_right():
    a, v = random_matrix(4, 4), float3(1, 2, 3)
    pairs = [
        (m.translate(a, v), m.matrix_from_translation(v)),
        (m.scale(a, v), m.matrix_from_scaling(v)),
        (m.rotate(a, 0.7, v), m.matrix_from_rotation(0.7, v)),
    ]
    for made, right in pairs:
        assert np.allclose(made.data, (a @ right).data, rtol=1e-5, atol=1e-6)
    b, w = random_matrix(3, 3), float2(2, 3)
    pairs = [
        (m.translate_2d(b, w), m.matrix_from_translation_2d(w)),
        (m.scale_2d(b, w), m.matrix_from_scaling_2d(w)),
        (m.rotate_2d(b, 0.7), m.matrix_from_rotation_2d(0.7)),
    ]
    for made, right in pairs:
        assert np.allclose(made.data, (b @ right).data, rtol=1e-5, atol=1e-6)


def test_three_angles():
    x, y, z = (m.matrix_from_rotation_x(0.3), m.matrix_from_rotation_y(-0.4), m.matrix_from_rotation_z(0.5))
    expected = (x @ y @ z).data
    assert np.allclose(m.matrix_from_rotation_xyz(0.3, -0.4, 0.5).data, expected, atol=1e-6)
    assert np.allclose(m.matrix_from_rotation_xyz(float3(0.3, -0.4, 0.5)).data, expected, atol=1e-6)
    assert type(m.matrix_from_rotation_xyz(angles=double3(0.3, -0.4, 0.5))) is double4x4


@pytest.mark.parametrize("handedness", list(m.Handedness))
def test_looking_at_something(handedness):
    eye, center = float3(1, 2, 3), float3(4, -1, 5)
    view = m.matrix_from_look_at(eye, center, float3(0, 1, 0), handedness)
    assert np.allclose(m.transform_point(view, eye).data, 0, atol=1e-6)
    seen = m.transform_point(view, center)
    distance = m.length(center - eye)
    side = -1 if handedness is m.Handedness.right_handed else 1
    assert np.allclose(seen.data, [0, 0, side * distance], atol=1e-5)
    assert m.determinant(view) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="must not be the same or zero"):
        m.matrix_from_look_at(eye, eye, float3(0, 1, 0))


def test_projections():
    p = m.perspective(1.2, 1.5, 0.1, 100.0)
    near, far = m.mul(p, float4(0, 0, -0.1, 1)), m.mul(p, float4(0, 0, -100, 1))
    assert (near.z / near.w, far.z / far.w) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    top = m.mul(p, float4(0, 2 * np.tan(0.6), -2, 1))
    assert top.y / top.w == pytest.approx(1, abs=1e-5)
    o = m.ortho(-2, 4, -1, 5, 1, 11)
    assert np.allclose(m.transform_point(o, float3(-2, -1, -1)).data, [-1, -1, 0], atol=1e-6)
    assert np.allclose(m.transform_point(o, float3(4, 5, -11)).data, [1, 1, 1], atol=1e-6)
    with pytest.raises(ValueError, match="opposite sides must differ"):
        m.ortho(1, 1, 0, 1, 0, 1)


@settings(max_examples=60)
@given(st.lists(numbers, min_size=15, max_size=15))
def test_taking_matrices_apart(parts):
    """Any matrix is what its parts make together."""
    given = double4x4([*parts, 1.5])
    if abs(np.linalg.det(np.vstack([given.data[:3] / 1.5, [0, 0, 0, 1]]))) < 1e-3:
        return
    scale, translation, skew = double3(), double3(), double3()
    orientation, perspective = spy.quatd(), spy.double4()
    assert m.decompose(given, scale, orientation, translation, skew, perspective)
    assert m.length(orientation) == pytest.approx(1, abs=1e-12)
    sheared = np.eye(3)
    sheared[1, 2], sheared[0, 2], sheared[0, 1] = skew
    inner = m.matrix_from_quat(orientation).data @ sheared @ np.diag(scale.data)
    affine = np.vstack([np.column_stack([inner, translation.data]), [0, 0, 0, 1]])
    made = np.vstack([affine[:3], perspective.data @ affine])
    assert np.allclose(made * 1.5, given.data, rtol=1e-8, atol=1e-8)


def test_matrices_without_parts():
    parts = float3(), spy.quatf(), float3(), float3(), float4()
    assert not m.decompose(float4x4.zeros(), *parts)
    assert not m.decompose(m.matrix_from_scaling(float3(1, 0, 1)), *parts)
    with pytest.raises(TypeError, match="a vector of 3 components of float32 is needed"):
        m.decompose(float4x4(), double3(), *parts[1:])


def test_a_row_is_added():
    affine = spy.float3x4(np.arange(12))
    assert m.matrix_4x4_from_3x4(affine) == float4x4(affine)
    assert m.matrix_4x4_from_3x4(affine)[3] == float4(0, 0, 0, 1)
