"""Matrices: transposes, determinants, inverses, and transformations of points in two and three dimensions.

    mul(matrix_from_translation(t), matrix_from_rotation_z(0.5)) == rotate(matrix_from_translation(t), 0.5, z)

Points are column vectors, so the last factor applies first. Angles are in radians; depth goes from 0 to 1.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import numpy.typing as npt

from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import Data
from slangrad.marshal.host.vectors import HostArray, HostMatrix, HostQuaternion, HostVector, matrix_class
from slangrad.math.geometry import floats, mul, rounded, wide
from slangrad.tensors.elements.conversion import HostValue


class Handedness(Enum):
    """The direction of view along the z axis: against it, or along it."""

    right_handed = "right_handed"
    left_handed = "left_handed"


def _matrix(data: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> HostMatrix:
    """Doubles as a matrix of floats of a dtype."""
    numbers = np.asarray(data)
    element = _ELEMENTS[np.dtype(dtype)]
    return matrix_class(element, *numbers.shape).of(rounded(numbers, np.dtype(dtype)))


_ELEMENTS = {np.dtype(np.float16): ir.F16, np.dtype(np.float32): ir.F32, np.dtype(np.float64): ir.F64}


def _host_matrix(x: object, name: str) -> HostMatrix:
    if not isinstance(x, HostMatrix):
        raise TypeError(f"{name}: there is none for {type(x).__name__}")
    return x


def _square(x: object, name: str) -> HostMatrix:
    matrix = _host_matrix(x, name)
    if matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind != "f":
        raise TypeError(f"{name}: a square matrix of floats is needed, not {type(x).__name__}")
    return matrix


def transpose(x: object) -> HostMatrix:
    """Rows become columns."""
    matrix = _host_matrix(x, "transpose")
    element = ir.scalar_of(matrix.ir_type)
    assert element is not None
    return matrix_class(element, *matrix.shape[::-1]).of(matrix.data.T.copy())


def determinant(x: object) -> float:
    """The determinant of a square matrix."""
    matrix = _square(x, "determinant")
    value: float = rounded(np.linalg.det(wide(matrix.data)), matrix.dtype).item()
    return value


def inverse(x: object) -> HostArray:
    """The inverse matrix; of a quaternion the turn back. ValueError where there is none."""
    if isinstance(x, HostQuaternion):
        data = wide(x.data)
        size = data @ data
        if size == 0:
            raise ValueError("inverse: the quaternion is zero")
        return type(x).of(rounded(data * [-1, -1, -1, 1] / size, x.dtype))
    matrix = _square(x, "inverse")
    try:
        return matrix.of(rounded(np.linalg.inv(wide(matrix.data)), matrix.dtype))
    except np.linalg.LinAlgError:
        raise ValueError("inverse: the matrix is singular") from None


# --- Points and directions ----------------------------------------------------------------------------


def transform_point(m: object, v: object) -> HostArray:
    """A point under a 4x4 matrix; the last row is ignored."""
    matrix, data = floats(m, (4, 4), "transform_point")
    point, place = floats(v, (3,), "transform_point", matrix.dtype)
    return point.of(rounded(data[:3, :3] @ place + data[:3, 3], point.dtype))


def transform_vector(m: object, v: object) -> HostArray:
    """A direction under a 3x3 or 4x4 matrix, or turned by a quaternion."""
    if isinstance(m, HostQuaternion):
        return mul(m, v)
    size = getattr(m, "shape", (4, 4))
    matrix, data = floats(m, size if size == (3, 3) else (4, 4), "transform_vector")
    vector, direction = floats(v, (3,), "transform_vector", matrix.dtype)
    return vector.of(rounded(data[:3, :3] @ direction, vector.dtype))


# --- Transformations ----------------------------------------------------------------------------------


def _moved(v: Data) -> Data:
    moved = np.eye(len(v) + 1)
    moved[:-1, -1] = v
    return moved


def _scaled(v: Data) -> Data:
    return np.diag([*v, 1.0])


def _turned(angle: float, axis: Data) -> Data:
    """Around an axis, which need not have length 1."""
    x, y, z = axis / np.linalg.norm(axis)
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turned = np.eye(4)
    turned[:3, :3] += math.sin(angle) * across + (1 - math.cos(angle)) * (across @ across)
    return turned


def _turned_2d(angle: float) -> Data:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _with(m: object, size: int, right: Data, name: str) -> HostArray:
    """A matrix times a transformation."""
    matrix, data = floats(m, (size, size), name)
    return matrix.of(rounded(data @ right, matrix.dtype))


def translate(m: object, v: object) -> HostArray:
    """m times a translation."""
    return _with(m, 4, _moved(floats(v, (3,), "translate")[1]), "translate")


def translate_2d(m: object, v: object) -> HostArray:
    """m, 3x3, times a translation of the plane."""
    return _with(m, 3, _moved(floats(v, (2,), "translate_2d")[1]), "translate_2d")


def rotate(m: object, angle: float, axis: object) -> HostArray:
    """m times a rotation around an axis."""
    return _with(m, 4, _turned(angle, floats(axis, (3,), "rotate")[1]), "rotate")


def rotate_2d(m: object, angle: float) -> HostArray:
    """m, 3x3, times a rotation of the plane."""
    return _with(m, 3, _turned_2d(angle), "rotate_2d")


def scale(m: object, v: object) -> HostArray:
    """m times a scaling."""
    return _with(m, 4, _scaled(floats(v, (3,), "scale")[1]), "scale")


def scale_2d(m: object, v: object) -> HostArray:
    """m, 3x3, times a scaling of the plane."""
    return _with(m, 3, _scaled(floats(v, (2,), "scale_2d")[1]), "scale_2d")


def matrix_from_translation(v: object) -> HostMatrix:
    """The 4x4 matrix that moves points by a vector of three."""
    vector, data = floats(v, (3,), "matrix_from_translation")
    return _matrix(_moved(data), vector.dtype)


def matrix_from_translation_2d(v: object) -> HostMatrix:
    """The 3x3 matrix that moves points of a plane by a vector of two."""
    vector, data = floats(v, (2,), "matrix_from_translation_2d")
    return _matrix(_moved(data), vector.dtype)


def matrix_from_scaling(v: object) -> HostMatrix:
    """The 4x4 matrix that scales each coordinate by a component of a vector of three."""
    vector, data = floats(v, (3,), "matrix_from_scaling")
    return _matrix(_scaled(data), vector.dtype)


def matrix_from_scaling_2d(v: object) -> HostMatrix:
    """The 3x3 matrix that scales each coordinate of a plane by a component of a vector of two."""
    vector, data = floats(v, (2,), "matrix_from_scaling_2d")
    return _matrix(_scaled(data), vector.dtype)


def matrix_from_rotation(angle: float, axis: object) -> HostMatrix:
    """The 4x4 matrix that turns around an axis by an angle in radians."""
    vector, data = floats(axis, (3,), "matrix_from_rotation")
    return _matrix(_turned(angle, data), vector.dtype)


def matrix_from_rotation_2d(angle: float) -> HostMatrix:
    """The 3x3 matrix that turns a plane by an angle in radians."""
    return _matrix(_turned_2d(angle))


_X, _Y, _Z = np.eye(3)


def matrix_from_rotation_x(angle: float) -> HostMatrix:
    """The 4x4 matrix that turns around the x axis by an angle in radians."""
    return _matrix(_turned(angle, _X))


def matrix_from_rotation_y(angle: float) -> HostMatrix:
    """The 4x4 matrix that turns around the y axis by an angle in radians."""
    return _matrix(_turned(angle, _Y))


def matrix_from_rotation_z(angle: float) -> HostMatrix:
    """The 4x4 matrix that turns around the z axis by an angle in radians."""
    return _matrix(_turned(angle, _Z))


def matrix_from_rotation_xyz(
    angle_x: HostValue = None,  # an angle, or a vector of three
    angle_y: float | None = None,
    angle_z: float | None = None,
    *,
    angles: object = None,
) -> HostMatrix:
    """The product of rotations around x, y and z, which happen in the order z, y, x. Three angles, or a vector."""
    together = angles if angle_x is None else angle_x
    if angle_y is None and angle_z is None:
        vector, (x, y, z) = floats(together, (3,), "matrix_from_rotation_xyz")
        dtype = vector.dtype
    else:
        x, y, z, dtype = float(angle_x), float(angle_y or 0.0), float(angle_z or 0.0), np.dtype(np.float32)
    return _matrix(_turned(x, _X) @ _turned(y, _Y) @ _turned(z, _Z), dtype)


def matrix_4x4_from_3x4(m: object) -> HostMatrix:
    """With 0, 0, 0, 1 as the last row."""
    matrix, data = floats(m, (3, 4), "matrix_4x4_from_3x4")
    return _matrix([*data, [0, 0, 0, 1]], matrix.dtype)


def matrix_from_quat(q: object) -> HostMatrix:
    """The 3x3 rotation of a quaternion of length 1. TypeError for other objects than quaternions."""
    if not isinstance(q, HostQuaternion):
        raise TypeError(f"matrix_from_quat: a quaternion is needed, not {type(q).__name__}")
    x, y, z, w = wide(q.data)
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return _matrix(np.eye(3) + 2 * (w * across + across @ across), q.dtype)


# --- Cameras ------------------------------------------------------------------------------------------


def matrix_from_look_at(
    eye: object, center: object, up: object, handedness: Handedness = Handedness.right_handed
) -> HostMatrix:
    """The view from `eye` towards `center`, which lies on -z, or on +z if left-handed."""
    vector, place = floats(eye, (3,), "matrix_from_look_at")
    _, target = floats(center, (3,), "matrix_from_look_at", vector.dtype)
    _, above = floats(up, (3,), "matrix_from_look_at", vector.dtype)
    axes = look_at_axes(target - place, above, handedness, "matrix_from_look_at")
    view = np.eye(4)
    view[:3, :3], view[:3, 3] = axes, -axes @ place
    return _matrix(view, vector.dtype)


def look_at_axes(direction: Data, up: Data, handedness: Handedness, name: str) -> Data:
    """Right, up and forward as rows."""
    forward = -direction if handedness is Handedness.right_handed else direction
    right = np.cross(up, forward)
    if not np.any(right):
        raise ValueError(f"{name}: the directions of view and `up` must not be the same or zero")
    forward, right = forward / np.linalg.norm(forward), right / np.linalg.norm(right)
    return np.array([right, np.cross(forward, right), forward])


def perspective(fovy: float, aspect: float, z_near: float, z_far: float) -> HostMatrix:
    """A right-handed perspective projection; `fovy` is the angle from top to bottom. ValueError for `aspect` zero, or
    `z_near` equal to `z_far`.
    """
    if aspect == 0 or z_near == z_far:
        raise ValueError("perspective: `aspect` is not zero, and `z_near` and `z_far` differ")
    height = 1 / math.tan(fovy / 2)
    depth = z_far / (z_near - z_far)
    projection = np.diag([height / aspect, height, depth, 0.0])
    projection[2, 3], projection[3, 2] = depth * z_near, -1
    return _matrix(projection)


def ortho(left: float, right: float, bottom: float, top: float, z_near: float, z_far: float) -> HostMatrix:
    """A right-handed projection without perspective. ValueError where opposite sides are equal."""
    low, high = np.array([left, bottom, z_near]), np.array([right, top, z_far])
    size = high - low
    if not np.all(size):
        raise ValueError("ortho: opposite sides must differ")
    projection = np.diag([*(np.array([2.0, 2.0, -1.0]) / size), 1.0])
    projection[:3, 3] = -np.array([left + right, bottom + top, z_near]) / size
    return _matrix(projection)


# --- Taking apart -------------------------------------------------------------------------------------


def decompose(
    model_matrix: object,
    scale: HostVector,
    orientation: HostQuaternion,
    translation: HostVector,
    skew: HostVector,
    perspective: HostVector,
) -> bool:
    """Write the parts of a 4x4 matrix into vectors and a quaternion; False if it has no inverse.

    The matrix is perspective * translation * rotation * skew * scale, up to a factor.
    """
    matrix, data = floats(model_matrix, (4, 4), "decompose")
    _check_parts(matrix, (scale, translation, skew), perspective, orientation)
    smallest = float(np.finfo(matrix.dtype).eps)
    if abs(data[3, 3]) < smallest:
        return False
    data = data / data[3, 3]
    affine = np.vstack([data[:3], [0, 0, 0, 1]])
    if abs(np.linalg.det(affine)) < smallest**3:
        return False
    rotation, upper = _orthogonal(affine[:3, :3])
    scale.data[:] = sizes = np.diag(upper)
    skew.data[:] = np.array([upper[1, 2], upper[0, 2], upper[0, 1]]) / sizes[[2, 2, 1]]
    translation.data[:] = affine[:3, 3]
    flat = bool(np.all(np.abs(data[3, :3]) < smallest))
    perspective.data[:] = [0, 0, 0, 1] if flat else np.linalg.inv(affine).T @ data[3]
    orientation.data[:] = quaternion_of(rotation)
    return True


def _check_parts(
    matrix: HostArray, vectors: tuple[object, ...], perspective: object, orientation: object
) -> None:
    for part, size in ((vectors[0], 3), (vectors[1], 3), (vectors[2], 3), (perspective, 4)):
        if not isinstance(part, HostVector) or (part.shape, part.dtype) != ((size,), matrix.dtype):
            raise TypeError(
                f"decompose: a vector of {size} components of {matrix.dtype} is needed, not {part!r}"
            )
    if not isinstance(orientation, HostQuaternion) or orientation.dtype != matrix.dtype:
        raise TypeError(f"decompose: a quaternion of {matrix.dtype} is needed, not {orientation!r}")


def _orthogonal(data: Data) -> tuple[Data, Data]:
    """A rotation and an upper triangle; all of its diagonal is negative if the matrix mirrors."""
    rotation, upper = np.linalg.qr(data)
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    rotation, upper = rotation * signs, upper * signs[:, None]
    return (rotation, upper) if np.linalg.det(rotation) > 0 else (-rotation, -upper)


def quaternion_of(rotation: Data) -> Data:
    """x, y, z, w of a 3x3 rotation, by the largest of the four, so that no divisor is small."""
    across = rotation - rotation.T
    both = rotation + rotation.T
    trace = np.trace(rotation)
    four_squares = 1 + np.array([*(2 * np.diag(rotation) - trace), trace])
    largest = int(np.argmax(four_squares))
    turn = np.array([across[2, 1], across[0, 2], across[1, 0]])
    if largest == 3:
        row = np.array([*turn, four_squares[3]])
    else:
        row = np.array([*both[largest], turn[largest]])
        row[largest] = four_squares[largest]
    quaternion: Data = row / (2 * math.sqrt(four_squares[largest]))
    return quaternion


PUBLIC = {
    function.__name__: function
    for function in (
        transpose, determinant, inverse, transform_point, transform_vector, translate, translate_2d, rotate, rotate_2d,
        scale, scale_2d, matrix_from_translation, matrix_from_translation_2d, matrix_from_scaling,
        matrix_from_scaling_2d, matrix_from_rotation, matrix_from_rotation_2d, matrix_from_rotation_x,
        matrix_from_rotation_y, matrix_from_rotation_z, matrix_from_rotation_xyz, matrix_4x4_from_3x4, matrix_from_quat,
        matrix_from_look_at, perspective, ortho, decompose,
    )
}  # fmt: skip
