"""Host vectors and matrices: `float3(1, 2, 3)`, `int2(4)`, `float3x4.identity()`.

In: numbers, sequences, arrays.   Out: small mutable values, rounded to their element type.

    v = float3(1, 2, 3);  v.x + 1;  v * 2.0;  v == float3(1, 2, 3)  (a bool: all components)

They are values to pass to kernels and get from them; heavier maths is NumPy's: `v.to_numpy()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from slangrad.ir import types as ir

NUMPY_TYPES: dict[ir.Scalar, np.dtype[Any]] = {
    ir.BOOL: np.dtype(np.bool_),
    **{t: np.dtype(f"int{t.bits}") for t in (ir.I8, ir.I16, ir.I32, ir.I64)},
    **{t: np.dtype(f"uint{t.bits}") for t in (ir.U8, ir.U16, ir.U32, ir.U64)},
    **{t: np.dtype(f"float{t.bits}") for t in (ir.F16, ir.F32, ir.F64)},
}

_PYTHON_KINDS: dict[str, type] = {"bool": bool, "signed": int, "unsigned": int, "float": float}


class HostArray:
    """What vectors and matrices share: components in a small array."""

    __slots__ = ("data",)

    ir_type: ClassVar[ir.Type]
    dtype: ClassVar[np.dtype[Any]]
    shape: ClassVar[tuple[int, ...]]
    element_type: ClassVar[type]

    data: np.ndarray[Any, Any]

    def __init__(self, *parts: Any) -> None:
        if not parts:
            self.data = np.zeros(self.shape, self.dtype)
        elif len(parts) == 1 and np.ndim(_plain(parts[0])) == 0:
            self.data = np.full(self.shape, _plain(parts[0]), self.dtype)
        else:
            self.data = self._joined(parts)

    def _joined(self, parts: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        flat = np.concatenate([np.ravel(_plain(each)) for each in parts])
        count = int(np.prod(self.shape))
        if flat.size != count:
            raise ValueError(f"{type(self).__name__} takes {count} components, not {flat.size}")
        made: np.ndarray[Any, Any] = flat.astype(self.dtype).reshape(self.shape)
        return made

    @classmethod
    def of(cls, data: np.ndarray[Any, Any]) -> Any:
        """Wrap an array without a copy."""
        made = cls.__new__(cls)
        made.data = data
        return made

    def to_numpy(self) -> np.ndarray[Any, Any]:
        return self.data.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.data.astype(self.dtype if dtype is None else dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = _plain(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HostArray) and other.shape != self.shape:
            return False
        if not isinstance(other, (HostArray, int, float)):
            return NotImplemented
        return bool(np.all(self.data == _plain(other)))

    def __hash__(self) -> int:
        return hash((self.shape, *self.data.ravel().tolist()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.data.ravel().tolist()))})"

    def __neg__(self) -> Any:
        return self.of(-self.data)

    def __pos__(self) -> Any:
        return self.of(+self.data)


class HostVector(HostArray):
    """Base of `float3` and the like."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = self.data[index]
        return found.item() if np.ndim(found) == 0 else found.tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data.tolist())

    def __str__(self) -> str:
        return "{" + ", ".join(f"{each:g}" for each in self.data.tolist()) + "}"

    def __lt__(self, other: HostVector) -> bool:
        return tuple(self) < tuple(other)

    def __le__(self, other: HostVector) -> bool:
        return tuple(self) <= tuple(other)

    def __gt__(self, other: HostVector) -> bool:
        return tuple(self) > tuple(other)

    def __ge__(self, other: HostVector) -> bool:
        return tuple(self) >= tuple(other)


class HostMatrix(HostArray):
    """Base of `float3x4` and the like; rows first."""

    __slots__ = ()

    @classmethod
    def identity(cls) -> Any:
        return cls.of(np.eye(*cls.shape, dtype=cls.dtype))

    @classmethod
    def zeros(cls) -> Any:
        return cls()

    def __getitem__(self, index: Any) -> Any:
        found = self.data[index]
        if np.ndim(found) == 0:
            return found.item()
        return vector_class(_scalar_of(self.ir_type), found.size).of(found) if np.ndim(found) == 1 else found

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(self.shape[0]))

    def __matmul__(self, other: Any) -> Any:
        product = self.data @ _plain(other)
        return (
            product if not isinstance(other, HostArray) else class_of_array(_scalar_of(self.ir_type), product)
        )

    def __str__(self) -> str:
        return "{" + ", ".join(str(row) for row in self) + "}"


def class_of_array(element: ir.Scalar, data: np.ndarray[Any, Any]) -> Any:
    """A one- or two-dimensional array as a host vector or matrix."""
    made = vector_class(element, len(data)) if data.ndim == 1 else matrix_class(element, *data.shape)
    return made.of(data)


# --- Arithmetic ---------------------------------------------------------------------------------------


def _divide(left: Any, right: Any) -> Any:
    quotient = np.true_divide(left, right)
    whole = all(np.asarray(each).dtype.kind in "iub" for each in (left, right))
    return np.trunc(quotient) if whole else quotient


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": _divide,
    "mod": np.fmod,
}


def _operator(name: str, operation: Callable[[Any, Any], Any], reflected: bool) -> Callable[[Any, Any], Any]:
    def apply(self: HostArray, other: Any) -> Any:
        if not isinstance(other, (HostArray, int, float)) or np.ndim(_plain(other)) not in (
            0,
            len(self.shape),
        ):
            return NotImplemented
        left, right = (_plain(other), self.data) if reflected else (self.data, _plain(other))
        return self.of(np.asarray(operation(left, right)).astype(self.dtype))

    apply.__name__ = f"__{'r' if reflected else ''}{name}__"
    return apply


for _name, _operation in _OPERATORS.items():
    for _reflected in (False, True):
        _method = _operator(_name, _operation, _reflected)
        setattr(HostArray, _method.__name__, _method)


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, HostArray) else value


def _scalar_of(t: ir.Type) -> ir.Scalar:
    found = ir.scalar_of(t)
    assert found is not None
    return found


# --- Classes ------------------------------------------------------------------------------------------

SCALAR_WORDS: dict[ir.Scalar, str] = {
    ir.BOOL: "bool",
    ir.I8: "int8_t",
    ir.I16: "int16_t",
    ir.I32: "int",
    ir.I64: "int64_t",
    ir.U8: "uint8_t",
    ir.U16: "uint16_t",
    ir.U32: "uint",
    ir.U64: "uint64_t",
    ir.F16: "float16_t",
    ir.F32: "float",
    ir.F64: "double",
}

_classes: dict[ir.Type, Any] = {}


def vector_class(element: ir.Scalar, length: int) -> Any:
    """The class of vectors of an element type: `float3` for f32 and 3."""
    t = ir.vector(element, length)
    return _classes.get(t) or _make_class(HostVector, f"{SCALAR_WORDS[element]}{length}", t, (length,))


def matrix_class(element: ir.Scalar, rows: int, columns: int) -> Any:
    """The class of matrices: `float3x4` for f32, 3 and 4."""
    t = ir.matrix(element, rows, columns)
    name = f"{SCALAR_WORDS[element]}{rows}x{columns}"
    return _classes.get(t) or _make_class(HostMatrix, name, t, (rows, columns))


def _make_class(base: type[HostArray], name: str, t: ir.Type, shape: tuple[int, ...]) -> Any:
    element = _scalar_of(t)
    body: dict[str, Any] = {
        "__slots__": (),
        "__module__": "slangrad",
        "ir_type": t,
        "dtype": NUMPY_TYPES[element],
        "shape": shape,
        "element_type": _PYTHON_KINDS[element.kind],
    }
    if base is HostVector:
        body.update((letter, _component(i)) for i, letter in enumerate("xyzw"[: shape[0]]))
    made = _classes[t] = type(name, (base,), body)
    return made


def _component(index: int) -> property:
    def get(self: HostArray) -> Any:
        return self.data[index].item()

    def put(self: HostArray, value: Any) -> None:
        self.data[index] = value

    return property(get, put)


EXPORTED: dict[str, Any] = {
    made.__name__: made
    for element in (ir.F32, ir.I32, ir.U32, ir.BOOL, ir.F16, ir.F64)
    for made in (
        *(vector_class(element, n) for n in (1, 2, 3, 4)),
        *(matrix_class(element, rows, columns) for rows in (2, 3, 4) for columns in (2, 3, 4)),
    )
}
