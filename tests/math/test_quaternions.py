"""Quaternions by the turns they stand for."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import double3, float3, quatd, quatf

m = spy.math
numbers = st.floats(-1, 1)
directions = st.tuples(numbers, numbers, numbers).filter(lambda v: sum(x * x for x in v) > 0.01)
turns = st.tuples(numbers, numbers, numbers, numbers).filter(lambda q: sum(x * x for x in q) > 0.01)
VECTOR = double3(1, -2, 3)


def unit(parts):
    return m.normalize(quatd(*parts) if len(parts) == 4 else double3(*parts))


def close(a, b, tolerance=1e-9):
    return np.allclose(a.data, b.data, rtol=0, atol=tolerance)


@given(turns, turns)
def test_products_turn_one_after_the_other(first, second):
    p, q = unit(first), unit(second)
    assert close(m.mul(m.mul(p, q), VECTOR), m.mul(p, m.mul(q, VECTOR)))
    assert close(m.mul(q, VECTOR), m.mul(m.matrix_from_quat(q), VECTOR))
    assert close(m.matrix_from_quat(m.mul(p, q)), m.matrix_from_quat(p) @ m.matrix_from_quat(q))
    assert close(m.transform_vector(q, VECTOR), m.mul(q, VECTOR))
    assert close(m.mul(q, m.conjugate(q)), quatd())
    assert m.cross(p, q) == m.mul(p, q)


@given(turns)
def test_inverses(parts):
    q = quatd(*parts)
    assert close(m.mul(q, m.inverse(q)), quatd())
    assert close(m.quat_from_matrix(m.matrix_from_quat(unit(parts))), unit(parts)) or close(
        m.quat_from_matrix(m.matrix_from_quat(unit(parts))), -unit(parts)
    )


@given(st.floats(-3, 3), directions)
def test_angles_and_axes(angle, axis):
    q = m.quat_from_angle_axis(angle, unit(axis))
    assert close(m.matrix_from_quat(q), spy.double3x3(m.matrix_from_rotation(angle, unit(axis))))


@given(directions, directions)
def test_turns_between_directions(a, b):
    q = m.quat_from_rotation_between_vectors(unit(a), unit(b))
    assert close(m.mul(q, unit(a)), unit(b), 1e-7)


@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0, -0.8)])
def test_turning_around(direction):
    v = float3(direction)
    q = m.quat_from_rotation_between_vectors(v, -v)
    assert close(m.mul(q, v), -v, 1e-6)
    assert m.quat_from_rotation_between_vectors(v, v) == quatf()


@given(st.floats(-3, 3), st.floats(-1.5, 1.5), st.floats(-3, 3))
def test_euler_angles_come_back(pitch, yaw, roll):
    q = m.quat_from_euler_angles(double3(pitch, yaw, roll))
    assert close(m.euler_angles(q), double3(pitch, yaw, roll), 1e-6)
    assert m.euler_angles(q) == double3(m.pitch(q), m.yaw(q), m.roll(q))
    x, y, z = (m.matrix_from_rotation(angle, double3(axis)) for angle, axis in
               ((pitch, [1, 0, 0]), (yaw, [0, 1, 0]), (roll, [0, 0, 1])))  # fmt: skip
    assert close(m.matrix_from_quat(q), spy.double3x3(z @ y @ x))


@pytest.mark.parametrize("yaw", [math.pi / 2, -math.pi / 2])
def test_angles_straight_up_and_down(yaw):
    q = m.quat_from_euler_angles(double3(0.3, yaw, 0))
    assert m.yaw(q) == pytest.approx(yaw, abs=1e-6)
    assert close(m.matrix_from_quat(m.quat_from_euler_angles(m.euler_angles(q))), m.matrix_from_quat(q), 1e-6)


@settings(max_examples=50)
@given(turns, turns, st.floats(0, 1))
def test_between_two_turns(first, second, s):
    p, q = unit(first), unit(second)
    cosine = abs(m.dot(p, q))
    assume(cosine < 1 - 1e-9)
    made = m.slerp(p, q, s)
    assert m.length(made) == pytest.approx(1, abs=1e-9)
    assert abs(m.dot(p, made)) == pytest.approx(abs(math.cos(s * math.acos(cosine))), abs=1e-7)
    assert close(m.slerp(p, p, s), p)
    assert close(m.lerp(p, q, 0.5), (p + q) / 2)


@pytest.mark.parametrize("handedness", list(m.Handedness))
@pytest.mark.parametrize("direction", [(0, 0, -1), (0.6, 0, 0.8), (0, 0.6, 0.8), (1, 0, 0)])
def test_looking_somewhere(direction, handedness):
    q = m.quat_from_look_at(float3(direction), float3(0, 1, 0), handedness)
    forward = float3(0, 0, -1 if handedness is m.Handedness.right_handed else 1)
    assert close(m.mul(q, forward), float3(direction), 1e-6)
    assert m.mul(q, float3(0, 1, 0)).y >= 0


def test_operators():
    p, q = quatf(1, 2, 3, 4), quatf(xyz=float3(0, 1, 0), w=2)
    assert p + q == quatf(1, 3, 3, 6)
    assert 1 - p == quatf(0, -1, -2, -3)
    assert (p * 2, 2 * p, p / 2) == (quatf(2, 4, 6, 8), quatf(2, 4, 6, 8), quatf(0.5, 1, 1.5, 2))
    assert (p.x, p.w, p[1], list(-p)) == (1, 4, 2, [-1, -2, -3, -4])
    assert (str(quatf()), repr(p), p.shape) == ("{0, 0, 0, 1}", "quatf(1.0, 2.0, 3.0, 4.0)", (4,))
    p.x = 9
    assert p == quatf([9, 2, 3, 4])
    assert m.eq(p, q) == spy.bool4(False, False, False, False)
    for wrong in (lambda: p * q, lambda: 2 / p, lambda: p % 2, lambda: quatf(1), lambda: p + quatd()):
        with pytest.raises(TypeError):
            wrong()


def test_degenerate_quaternions():
    assert m.normalize(quatf(0, 0, 0, 0)) == quatf.identity()
    with pytest.raises(ValueError, match="inverse: the quaternion is zero"):
        m.inverse(quatf(0, 0, 0, 0))
    with pytest.raises(TypeError, match="quaternions are of float or double, not float16"):
        m.quat_from_angle_axis(1.0, spy.float16_t3(1, 0, 0))
    with pytest.raises(TypeError, match="yaw: a quaternion is needed, not float4"):
        m.yaw(spy.float4(0, 0, 0, 1))
