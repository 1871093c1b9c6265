"""Quaternions as rotations: from angles, axes and matrices, between each other, and as angles.

    q = quat_from_angle_axis(0.5, float3(0, 0, 1))      mul(q, v) == mul(matrix_from_quat(q), v)

Angles are in radians: pitch, yaw and roll turn around x, y and z.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import Data
from slangrad.marshal.host.vectors import HostQuaternion, HostVector, quaternion_class, vector_class
from slangrad.math.geometry import floats, rounded, wide
from slangrad.math.matrices import Handedness, look_at_axes, quaternion_of

_ELEMENTS = {np.dtype(np.float32): ir.F32, np.dtype(np.float64): ir.F64}


def _quaternion(data: npt.ArrayLike, dtype: np.dtype, name: str) -> HostQuaternion:
    if dtype not in _ELEMENTS:
        raise TypeError(f"{name}: quaternions are of float or double, not {dtype}")
    return quaternion_class(_ELEMENTS[dtype]).of(rounded(data, dtype))


def _host_quaternion(q: object, name: str) -> HostQuaternion:
    if not isinstance(q, HostQuaternion):
        raise TypeError(f"{name}: a quaternion is needed, not {type(q).__name__}")
    return q


def conjugate(x: object) -> HostQuaternion:
    """The turn back, of a quaternion of length 1."""
    x = _host_quaternion(x, "conjugate")
    return x.of(rounded(wide(x.data) * [-1, -1, -1, 1], x.dtype))


def slerp(x: object, y: object, s: float) -> HostQuaternion:
    """Between two turns at constant speed, the shorter way. TypeError for two different types."""
    x, y = _host_quaternion(x, "slerp"), _host_quaternion(y, "slerp")
    if x.dtype != y.dtype:
        raise TypeError(f"slerp: {type(x).__name__} and {type(y).__name__} are of different types")
    a, b = wide(x.data), wide(y.data)
    cosine = float(a @ b)
    if cosine < 0:
        b, cosine = -b, -cosine
    angle = math.acos(min(cosine, 1.0))
    weights = (1 - s, s)
    if cosine <= 1 - np.finfo(x.dtype).eps:
        weights = (math.sin((1 - s) * angle) / math.sin(angle), math.sin(s * angle) / math.sin(angle))
    return x.of(rounded(weights[0] * a + weights[1] * b, x.dtype))


def pitch(x: object) -> float:
    """The angle around x."""
    return _rounded(_pitch, _host_quaternion(x, "pitch"))


def yaw(x: object) -> float:
    """The angle around y, from -pi/2 to pi/2."""
    return _rounded(_yaw, _host_quaternion(x, "yaw"))


def roll(x: object) -> float:
    """The angle around z."""
    return _rounded(_roll, _host_quaternion(x, "roll"))


def euler_angles(x: object) -> HostVector:
    """Pitch, yaw and roll."""
    x = _host_quaternion(x, "euler_angles")
    q = wide(x.data)
    return vector_class(_ELEMENTS[x.dtype], 3).of(rounded([_pitch(q), _yaw(q), _roll(q)], x.dtype))


def _rounded(angle: Callable[[Data], float], x: HostQuaternion) -> float:
    number: float = rounded(angle(wide(x.data)), x.dtype).item()
    return number


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


def quat_from_angle_axis(angle: float, axis: object) -> HostQuaternion:
    """Around an axis of length 1."""
    vector, direction = floats(axis, (3,), "quat_from_angle_axis")
    parts = [*(direction * math.sin(angle / 2)), math.cos(angle / 2)]
    return _quaternion(parts, vector.dtype, "quat_from_angle_axis")


def quat_from_rotation_between_vectors(from_: object, to: object) -> HostQuaternion:
    """The shortest turn of one direction into another, both of length 1."""
    name = "quat_from_rotation_between_vectors"
    vector, a = floats(from_, (3,), name)
    _, b = floats(to, (3,), name, vector.dtype)
    smallest = np.finfo(vector.dtype).eps
    cosine = float(a @ b)
    if cosine < smallest - 1:
        return _quaternion([*_across(a), 0], vector.dtype, name)
    parts = np.array([*np.cross(a, b), 1 + cosine])
    return _quaternion(parts / np.linalg.norm(parts), vector.dtype, name)


def _across(direction: Data) -> Data:
    """Some direction at a right angle, in the plane of x and y if there is one."""
    normal = np.cross([0, 0, 1], direction)
    if normal @ normal < 1e-7:
        normal = np.cross([1, 0, 0], direction)
    unit: Data = normal / np.linalg.norm(normal)
    return unit


def quat_from_euler_angles(angles: object) -> HostQuaternion:
    """From pitch, yaw and roll; the turn around x happens first."""
    vector, data = floats(angles, (3,), "quat_from_euler_angles")
    (sx, sy, sz), (cx, cy, cz) = np.sin(data / 2), np.cos(data / 2)
    parts = [
        sx * cy * cz - cx * sy * sz,
        cx * sy * cz + sx * cy * sz,
        cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz,
    ]
    return _quaternion(parts, vector.dtype, "quat_from_euler_angles")


def quat_from_matrix(m: object) -> HostQuaternion:
    """From a 3x3 rotation."""
    matrix, data = floats(m, (3, 3), "quat_from_matrix")
    return _quaternion(quaternion_of(data), matrix.dtype, "quat_from_matrix")


def quat_from_look_at(
    dir: object, up: object, handedness: Handedness = Handedness.right_handed
) -> HostQuaternion:
    """The turn of -z, or of +z if left-handed, into a direction."""
    vector, direction = floats(dir, (3,), "quat_from_look_at")
    _, above = floats(up, (3,), "quat_from_look_at", vector.dtype)
    axes = look_at_axes(direction, above, handedness, "quat_from_look_at")
    return _quaternion(quaternion_of(axes.T), vector.dtype, "quat_from_look_at")


PUBLIC = {
    function.__name__: function
    for function in (
        conjugate, slerp, pitch, yaw, roll, euler_angles, quat_from_angle_axis, quat_from_rotation_between_vectors,
        quat_from_euler_angles, quat_from_matrix, quat_from_look_at,
    )
}  # fmt: skip
