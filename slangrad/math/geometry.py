"""Products and lengths: of vectors, of matrices, of quaternions.

    dot(int2(1, 2), int2(3, 4)) -> 11      mul(float3x4(...), float4(...)) -> float3      length(float2(3, 4)) -> 5.0

Sums of products are computed in double precision and rounded once (whole numbers wrap around as they do in Slang).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import Data, converted
from slangrad.marshal.host.vectors import (
    HostArray,
    HostMatrix,
    HostQuaternion,
    HostVector,
    class_of_array,
)
from slangrad.math.componentwise import model_of, operands


def wide(data: Data) -> Data:
    """Floats in double precision."""
    return data.astype(np.float64) if data.dtype.kind == "f" else data


def rounded(data: npt.ArrayLike, dtype: np.dtype) -> Data:
    with np.errstate(over="ignore"):
        return np.asarray(data).astype(dtype)


def _numbers(name: str, *values: object) -> tuple[HostArray, list[Data]]:
    """The arrays of values of one type, which have no truth values."""
    model = model_of(name, values)
    if model is None or model.dtype.kind == "b":
        raise TypeError(f"{name}: there is none for {', '.join(type(value).__name__ for value in values)}")
    return model, operands(name, model, values)


def _floats(name: str, *values: object) -> tuple[HostArray, list[Data]]:
    model, data = _numbers(name, *values)
    if model.dtype.kind != "f":
        raise TypeError(f"{name}: there is none for {type(model).__name__}")
    return model, data


def dot(x: object, y: object) -> float:
    """The sum of the products of components."""
    model, (a, b) = _numbers("dot", x, y)
    product: float = rounded(np.sum(wide(a) * wide(b), dtype=wide(a).dtype), model.dtype).item()
    return product


def length(x: object) -> float:
    """The square root of dot(x, x)."""
    model, (a,) = _floats("length", x)
    norm: float = rounded(np.sqrt(np.sum(wide(a) ** 2)), model.dtype).item()
    return norm


def normalize(x: object) -> HostArray:
    """A vector of length 1; NaN for zero, as in Slang. A quaternion of zeros becomes the identity."""
    model, (a,) = _floats("normalize", x)
    size = np.sqrt(np.sum(wide(a) ** 2))
    if isinstance(x, HostQuaternion) and size == 0:
        return type(x)()
    with np.errstate(all="ignore"):
        return model.of(rounded(wide(a) / size, model.dtype))


def cross(x: object, y: object) -> HostArray:
    """The vector that is orthogonal to two of three components; of quaternions their product. TypeError for other
    numbers of components.
    """
    if isinstance(x, HostQuaternion) and isinstance(y, HostQuaternion):
        return mul(x, y)
    model, (a, b) = _numbers("cross", x, y)
    if model.shape != (3,):
        raise TypeError(f"cross: vectors of three components are needed, not {type(model).__name__}")
    a, b = wide(a), wide(b)
    product = a[[1, 2, 0]] * b[[2, 0, 1]] - a[[2, 0, 1]] * b[[1, 2, 0]]
    return model.of(rounded(product, model.dtype))


def reflect(i: object, n: object) -> HostArray:
    """A direction after a mirror with the normal n of length 1."""
    model, (a, b) = _floats("reflect", i, n)
    return model.of(rounded(wide(a) - 2 * np.sum(wide(a) * wide(b)) * wide(b), model.dtype))


def mul(x: object, y: object) -> HostArray:
    """The product of matrices, of a matrix and a column vector, of a row vector and a matrix; of quaternions; of a
    quaternion and a vector, which it turns. TypeError for other types, ValueError where columns and rows differ in
    number.
    """
    if isinstance(x, HostQuaternion):
        return _quaternion_product(x, y)
    if not isinstance(x, (HostMatrix, HostVector)) or not isinstance(y, (HostMatrix, HostVector)):
        raise TypeError(f"mul: there is none for {type(x).__name__} and {type(y).__name__}")
    if (
        x.dtype != y.dtype
        or x.dtype.kind == "b"
        or not (isinstance(x, HostMatrix) or isinstance(y, HostMatrix))
    ):
        raise TypeError(f"mul: there is none for {type(x).__name__} and {type(y).__name__}")
    if x.shape[-1] != y.shape[0]:
        raise ValueError(
            f"mul: {type(x).__name__} has {x.shape[-1]} columns, {type(y).__name__} {y.shape[0]} rows"
        )
    element = ir.scalar_of(x.ir_type)
    assert element is not None
    return class_of_array(element, rounded(wide(x.data) @ wide(y.data), x.dtype))


def _quaternion_product(x: HostQuaternion, y: object) -> HostArray:
    if isinstance(y, HostQuaternion) and y.dtype == x.dtype:
        a, b = wide(x.data), wide(y.data)
        turned = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
        return type(x).of(rounded([*turned, a[3] * b[3] - a[:3] @ b[:3]], x.dtype))
    if isinstance(y, HostVector) and (y.shape, y.dtype) == ((3,), x.dtype):
        axis, v = wide(x.data)[:3], wide(y.data)
        twice = 2 * np.cross(axis, v)
        return y.of(rounded(v + wide(x.data)[3] * twice + np.cross(axis, twice), y.dtype))
    raise TypeError(f"mul: there is none for {type(x).__name__} and {type(y).__name__}")


def floats(
    value: object, shape: tuple[int, ...], name: str, dtype: np.dtype | None = None
) -> tuple[HostArray, Data]:
    """A vector or matrix of floats of a shape: its class and its components in double precision. Lists stand for
    vectors of `float`."""
    if isinstance(value, (list, tuple, np.ndarray)):
        data = converted(np.asarray(value), np.dtype(np.float32), name)
        value = class_of_array(ir.F32, data) if data.ndim in (1, 2) else value
    wanted = "x".join(map(str, shape))
    if not isinstance(value, HostArray) or value.shape != shape or value.dtype.kind != "f":
        raise TypeError(f"{name}: {wanted} floats are needed, not {type(value).__name__}")
    if dtype is not None and value.dtype != dtype:
        raise TypeError(f"{name}: {value.dtype} and {dtype} are mixed")
    return value, wide(value.data)


PUBLIC = {function.__name__: function for function in (dot, length, normalize, cross, reflect, mul)}
