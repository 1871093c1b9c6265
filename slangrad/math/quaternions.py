"""Quaternions as rotations: from angles, axes and matrices, between each other, and as angles.

    q = quat_from_angle_axis(0.5, float3(0, 0, 1))      mul(q, v) == mul(matrix_from_quat(q), v)

Angles are in radians: pitch, yaw and roll turn around x, y and z.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slangrad.ir import types as ir
from slangrad.marshal.components import Data
from slangrad.marshal.vectors import HostQuaternion, quaternion_class, vector_class
from slangrad.math.geometry import floats, rounded, wide
from slangrad.math.matrices import Handedness, look_at_axes, quaternion_of

_ELEMENTS = {np.dtype(np.float32): ir.F32, np.dtype(np.float64): ir.F64}


def _quaternion(data: Any, dtype: np.dtype[Any], name: str) -> Any:
    if dtype not in _ELEMENTS:
        raise TypeError(f"{name}: quaternions are of float or double, not {dtype}")
    return quaternion_class(_ELEMENTS[dtype]).of(rounded(data, dtype))


def _given(q: Any, name: str) -> Data:
    if not isinstance(q, HostQuaternion):
        raise TypeError(f"{name}: a quaternion is needed, not {type(q).__name__}")
    return wide(q.data)


def _both(x: Any, y: Any, name: str) -> tuple[Data, Data]:
    made = _given(x, name), _given(y, name)
    if x.dtype != y.dtype:
        raise TypeError(f"{name}: {type(x).__name__} and {type(y).__name__} are of different types")
    return made


def conjugate(x: Any) -> Any:
    """The turn back, of a quaternion of length 1."""
    return type(x).of(rounded(_given(x, "conjugate") * [-1, -1, -1, 1], x.dtype))


def slerp(x: Any, y: Any, s: float) -> Any:
    """Between two turns at constant speed, the shorter way."""
    a, b = _both(x, y, "slerp")
    cosine = float(a @ b)
    if cosine < 0:
        b, cosine = -b, -cosine
    angle = math.acos(min(cosine, 1.0))
    weights = (1 - s, s)
    if cosine <= 1 - np.finfo(x.dtype).eps:
        weights = (math.sin((1 - s) * angle) / math.sin(angle), math.sin(s * angle) / math.sin(angle))
    return type(x).of(rounded(weights[0] * a + weights[1] * b, x.dtype))


def pitch(x: Any) -> float:
    """The angle around x."""
    return _number(_pitch(_given(x, "pitch")), x)


def yaw(x: Any) -> float:
    """The angle around y, from -pi/2 to pi/2."""
    return _number(_yaw(_given(x, "yaw")), x)


def roll(x: Any) -> float:
    """The angle around z."""
    return _number(_roll(_given(x, "roll")), x)


def euler_angles(x: Any) -> Any:
    """Pitch, yaw and roll."""
    q = _given(x, "euler_angles")
    return vector_class(_ELEMENTS[x.dtype], 3).of(rounded([_pitch(q), _yaw(q), _roll(q)], x.dtype))


def _number(value: float, x: Any) -> float:
    found: float = rounded(value, x.dtype).item()
    return found


def _pitch(q: Data) -> float:
    x, y, z, w = map(float, q)
    across, along = 2 * (y * z + w * x), w * w - x * x - y * y + z * z
    if abs(across) < 1e-7 and abs(along) < 1e-7:  # straight up or down: pitch and roll are one
        return 2 * math.atan2(x, w)
    return math.atan2(across, along)


def _yaw(q: Data) -> float:
    x, y, z, w = map(float, q)
    return math.asin(max(-1.0, min(1.0, 2 * (w * y - x * z))))


def _roll(q: Data) -> float:
    x, y, z, w = map(float, q)
    return math.atan2(2 * (x * y + w * z), w * w + x * x - y * y - z * z)


def quat_from_angle_axis(angle: float, axis: Any) -> Any:
    """Around an axis of length 1."""
    given, direction = floats(axis, (3,), "quat_from_angle_axis")
    made = [*(direction * math.sin(angle / 2)), math.cos(angle / 2)]
    return _quaternion(made, given.dtype, "quat_from_angle_axis")


def quat_from_rotation_between_vectors(from_: Any, to: Any) -> Any:
    """The shortest turn of one direction into another, both of length 1."""
    name = "quat_from_rotation_between_vectors"
    given, a = floats(from_, (3,), name)
    _, b = floats(to, (3,), name, given.dtype)
    smallest = np.finfo(given.dtype).eps
    cosine = float(a @ b)
    if cosine < smallest - 1:
        return _quaternion([*_across(a), 0], given.dtype, name)
    made = np.array([*np.cross(a, b), 1 + cosine])
    return _quaternion(made / np.linalg.norm(made), given.dtype, name)


def _across(direction: Data) -> Data:
    """Some direction at a right angle, in the plane of x and y if there is one."""
    found = np.cross([0, 0, 1], direction)
    if found @ found < 1e-7:
        found = np.cross([1, 0, 0], direction)
    made: Data = found / np.linalg.norm(found)
    return made


def quat_from_euler_angles(angles: Any) -> Any:
    """From pitch, yaw and roll; the turn around x happens first."""
    given, data = floats(angles, (3,), "quat_from_euler_angles")
    (sx, sy, sz), (cx, cy, cz) = np.sin(data / 2), np.cos(data / 2)
    made = [
        sx * cy * cz - cx * sy * sz,
        cx * sy * cz + sx * cy * sz,
        cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz,
    ]
    return _quaternion(made, given.dtype, "quat_from_euler_angles")


def quat_from_matrix(m: Any) -> Any:
    """From a 3x3 rotation."""
    given, data = floats(m, (3, 3), "quat_from_matrix")
    return _quaternion(quaternion_of(data), given.dtype, "quat_from_matrix")


def quat_from_look_at(dir: Any, up: Any, handedness: Handedness = Handedness.right_handed) -> Any:
    """The turn of -z, or of +z if left-handed, into a direction."""
    given, direction = floats(dir, (3,), "quat_from_look_at")
    _, above = floats(up, (3,), "quat_from_look_at", given.dtype)
    axes = look_at_axes(direction, above, handedness, "quat_from_look_at")
    return _quaternion(quaternion_of(axes.T), given.dtype, "quat_from_look_at")


PUBLIC = {
    each.__name__: each
    for each in (
        conjugate, slerp, pitch, yaw, roll, euler_angles, quat_from_angle_axis, quat_from_rotation_between_vectors,
        quat_from_euler_angles, quat_from_matrix, quat_from_look_at,
    )
}  # fmt: skip
