"""Host vectors, matrices and quaternions: `float3(1, 2, 3)`, `int2(4)`, `float3x4.identity()`, `quatf()`.

In: numbers, sequences, arrays.   Out: small mutable values, rounded to their element type.

    v = float3(1, 2, 3);  v.x + 1;  v.zy;  v * 2.0;  v == float3(1, 2, 3)  (a bool: all components)

They are arguments and results of kernels; functions of them are in `slangrad.math`. NumPy shares their memory
(`np.asarray(v)`); operators are componentwise, and `@` is the product of matrices.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from slangrad.base.records import OfClass
from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import BINARY, UNARY, Data, Operation, converted, fits, gathered
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import NUMPY_TYPES, SCALAR_NAMES, slang_name

_PYTHON_KINDS: dict[str, type] = {"bool": bool, "signed": int, "unsigned": int, "float": float}
LETTERS = "xyzw"
HOST_NUMBERS = (int, float, np.number, np.bool_)


class HostArray:
    """The base of vectors, matrices and quaternions: components in a small array."""

    __slots__ = ("data",)
    __array_priority__ = 1000  # NumPy's numbers leave operators to us

    ir_type: ClassVar[ir.Type]
    dtype: ClassVar[np.dtype]
    shape: ClassVar[tuple[int, ...]]
    element_type: ClassVar[type]

    data: np.ndarray

    def __init__(self, *parts: object, **named: object) -> None:
        """Numbers, vectors and arrays that make up all components; one number for all; nothing for the default.
        By name: `scalar` or `a`, or components in order: x=1, yz=v."""
        if named:
            parts = (*parts, *self._ordered(named, parts))
        if not parts:
            self.data = self._default()
        elif len(parts) == 1 and np.ndim(plain_data(parts[0])) == 0:
            self.data = np.full(
                self.shape, gathered([plain_data(parts[0])], self.dtype, self._name()), self.dtype
            )
        else:
            self.data = self._joined([plain_data(part) for part in parts])

    @classmethod
    def _name(cls) -> str:
        return cls.__name__

    @classmethod
    def _default(cls) -> np.ndarray:
        return np.zeros(cls.shape, cls.dtype)

    @classmethod
    def zeros(cls) -> Self:
        return cls.of(np.zeros(cls.shape, cls.dtype))

    def _ordered(self, named: Mapping[str, object], parts: tuple[object, ...]) -> list[object]:
        if not parts and len(named) == 1 and next(iter(named)) in ("scalar", "a"):
            return list(named.values())
        names = sorted(named, key=LETTERS.find)
        if len(self.shape) != 1 or not LETTERS[: self.shape[0]].endswith("".join(names)) or "" in names:
            wanted = ", ".join(LETTERS[: self.shape[0]]) if len(self.shape) == 1 else "a"
            raise TypeError(f"{self._name()} takes {wanted} by name, not {', '.join(named)}")
        return [named[name] for name in names]

    def _joined(self, parts: list[object]) -> np.ndarray:
        flat = gathered(parts, self.dtype, self._name())
        count = int(np.prod(self.shape))
        if flat.size != count:
            raise ValueError(f"{self._name()} takes {count} components, not {flat.size}")
        return flat.reshape(self.shape)

    @classmethod
    def of(cls, data: np.ndarray) -> Self:
        """Wrap an array without a copy."""
        array = cls.__new__(cls)
        array.data = data
        return array

    def to_numpy(self) -> np.ndarray:
        return self.data.copy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """The memory itself, unless a copy or another type is asked for."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"copy: {self.dtype} cannot become {np.dtype(dtype)} without a copy")
            return self.data.astype(dtype)
        return self.data.copy() if copy else self.data

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.data)  # type: ignore[arg-type]

    def __dlpack__(self, **options: HostValue) -> object:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, index: HostValue, value: object) -> None:
        """Components or rows; numbers are checked as those that a value is made from."""
        target = self.data[index]
        flat = gathered([plain_data(value)], self.dtype, self._name())
        if flat.size not in (1, np.size(target)):
            raise ValueError(f"{self._name()}: {np.size(target)} components are set, not {flat.size}")
        self.data[index] = flat.reshape(np.shape(target)) if flat.size > 1 else flat[0]

    def __eq__(self, other: object) -> bool:
        """Whether all components are equal; a list or tuple stands for a value of this type."""
        if isinstance(other, HostArray):
            return other.shape == self.shape and bool(np.all(self.data == other.data))
        if isinstance(other, HOST_NUMBERS):
            return bool(np.all(self.data == other))
        if isinstance(other, (list, tuple)):
            return self._equals_sequence(other)
        return NotImplemented

    def _equals_sequence(self, other: object) -> bool:
        try:
            array = np.array(other)
        except ValueError:  # rows of different lengths
            return False
        if array.dtype.kind not in "biuf" or array.size != self.data.size:
            return False
        if self.dtype.kind == "f":
            array = array.astype(self.dtype)
        return bool(np.all(array.ravel() == self.data.ravel()))

    def __hash__(self) -> int:
        return hash((self.shape, *self.data.ravel().tolist()))

    def _compared(self, other: object, compare: Callable[[list[float], list[float]], bool]) -> object:
        if not isinstance(other, HostArray) or other.shape != self.shape:
            return NotImplemented
        return compare(self.data.ravel().tolist(), other.data.ravel().tolist())

    def __lt__(self, other: object) -> object:
        return self._compared(other, operator.lt)

    def __le__(self, other: object) -> object:
        return self._compared(other, operator.le)

    def __gt__(self, other: object) -> object:
        return self._compared(other, operator.gt)

    def __ge__(self, other: object) -> object:
        return self._compared(other, operator.ge)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.data.ravel().tolist(),)

    def __repr__(self) -> str:
        return f"{self._name()}({', '.join(map(str, self.data.ravel().tolist()))})"


class HostRow(HostArray):
    """Components in a row, which are Python numbers."""

    __slots__ = ()

    def __getitem__(self, index: HostValue) -> HostValue:
        part = self.data[index]
        return part.item() if np.ndim(part) == 0 else part.tolist()

    def __iter__(self) -> Iterator[float]:
        return iter(self.data.tolist())

    def __str__(self) -> str:
        return "{" + ", ".join(map(_text, self.data)) + "}"


class HostVector(HostRow):
    """Base of `float3` and the like."""

    __slots__ = ()

    def __getattr__(self, name: str) -> HostValue:
        """Swizzles: v.zyx is another vector."""
        places = [LETTERS.find(letter) for letter in name] if len(name) <= 4 else []
        if not places or not all(0 <= place < self.shape[0] for place in places):
            raise AttributeError(f"{self._name()} has no component or attribute '{name}'")
        return vector_class(_scalar_of(self.ir_type), len(places)).of(self.data[places])


class HostMatrix(HostArray):
    """Base of `float3x4` and the like; rows first. Without components it is the identity."""

    __slots__ = ()

    def __init__(self, *parts: object, **named: object) -> None:
        """As vectors; from a matrix of another size the common part, with the rest of the identity."""
        if len(parts) == 1 and isinstance(parts[0], HostMatrix) and parts[0].shape != self.shape:
            self.data = self._default()
            rows, columns = map(min, self.shape, parts[0].shape)
            inner = parts[0].data[:rows, :columns]
            self.data[:rows, :columns] = gathered([inner], self.dtype, self._name()).reshape(rows, columns)
            return
        super().__init__(*parts, **named)

    @classmethod
    def _default(cls) -> np.ndarray:
        return np.eye(*cls.shape, dtype=cls.dtype)

    @classmethod
    def identity(cls) -> Self:
        return cls()

    def __getitem__(self, index: HostValue) -> HostValue:
        """A component, or a row that shares the matrix' memory."""
        part = self.data[index]
        if np.ndim(part) == 0:
            return part.item()
        return vector_class(_scalar_of(self.ir_type), part.size).of(part) if np.ndim(part) == 1 else part

    def get_row(self, row: int) -> HostVector:
        return self.of_row(self.data[row].copy())

    def set_row(self, row: int, value: object) -> None:
        self[row] = value

    def get_col(self, col: int) -> HostVector:
        return self.of_row(self.data[:, col].copy())

    def set_col(self, col: int, value: object) -> None:
        self[:, col] = value

    @classmethod
    def of_row(cls, data: np.ndarray) -> HostVector:
        """A vector of the matrix' element type."""
        return vector_class(_scalar_of(cls.ir_type), data.size).of(data)

    def __iter__(self) -> Iterator[HostVector]:
        return (self[row] for row in range(self.shape[0]))

    def __matmul__(self, other: object) -> HostArray | np.ndarray:
        if isinstance(other, HostArray) and other.dtype != self.dtype:
            return NotImplemented
        if not isinstance(other, (HostMatrix, HostVector, np.ndarray)):
            return NotImplemented
        product = self.data @ plain_data(other)
        return product if isinstance(other, np.ndarray) else class_of_array(_scalar_of(self.ir_type), product)

    def __str__(self) -> str:
        return "{" + ", ".join(str(row) for row in self) + "}"


class HostQuaternion(HostRow):
    """Base of `quatf`: x, y, z and w, where w is the real part. Without components it is the identity."""

    __slots__ = ()

    def __init__(self, *parts: object, **named: object) -> None:
        if (len(parts), len(named)) in ((1, 0), (0, 1)) and np.ndim(
            plain_data([*parts, *named.values()][0])
        ) == 0:
            raise TypeError(f"{self._name()} takes x, y, z and w, not one number")
        super().__init__(*parts, **named)

    @classmethod
    def _default(cls) -> np.ndarray:
        return np.array([0, 0, 0, 1], cls.dtype)

    @classmethod
    def identity(cls) -> Self:
        return cls()


def class_of_array(element: ir.Scalar, data: np.ndarray) -> HostVector | HostMatrix:
    """A one- or two-dimensional array as a host vector or matrix."""
    host_class = vector_class(element, len(data)) if data.ndim == 1 else matrix_class(element, *data.shape)
    return host_class.of(data)


def _text(component: object) -> str:
    """The fewest digits that distinguish the number from its neighbors."""
    if isinstance(component, np.bool_):
        return str(bool(component)).lower()
    if not isinstance(component, np.floating) or not np.isfinite(component):
        return str(component)
    if component == 0 or 1e-4 <= abs(float(component)) < 1e16:
        return np.format_float_positional(component, trim="-")
    return np.format_float_scientific(component, trim="-", exp_digits=2)


# --- Arithmetic ---------------------------------------------------------------------------------------
Binary = Callable[[HostArray, object], object]


def _binary(name: str, reflected: bool) -> Binary:
    kinds, operation = BINARY[name]

    def apply(self: HostArray, other: object) -> object:
        if isinstance(other, np.ndarray) and other.ndim:
            return _with_array(operation, self, other, reflected)
        right = _operand(self, other, kinds)
        if right is None:
            return NotImplemented
        left, right = (right, self.data) if reflected else (self.data, right)
        return self.of(operation(left, right).astype(self.dtype, copy=False))

    return apply


def _with_array(operation: Operation, value: HostArray, other: Data, reflected: bool) -> Data:
    """With a NumPy array by NumPy's rules."""
    return operation(other, value.data) if reflected else operation(value.data, other)


def _in_place(name: str) -> Binary:
    kinds, operation = BINARY[name]

    def apply(self: HostArray, other: object) -> object:
        right = _operand(self, other, kinds)
        if right is None:
            return NotImplemented
        self.data[...] = operation(self.data, right)
        return self

    return apply


def _operand(value: HostArray, other: object, kinds: str) -> Data | None:
    """The other operand as an array of the same element type; None where there is no such operator."""
    if value.dtype.kind not in kinds:
        return None
    if isinstance(other, HostArray):
        same = other.dtype == value.dtype and other.shape == value.shape
        return other.data if same else None
    if not isinstance(other, HOST_NUMBERS) or not fits(other, value.dtype):
        return None
    return converted(other, value.dtype, value._name())


def _unary(name: str) -> Callable[[HostArray], object]:
    kinds, operation = UNARY[name]

    def apply(self: HostArray) -> object:
        if self.dtype.kind not in kinds:
            raise TypeError(f"{self._name()} has no such operator")
        return self.of(operation(self.data))

    return apply


def _with_numbers_only(method: Binary) -> Binary:
    def apply(self: HostArray, other: object) -> object:
        return NotImplemented if isinstance(other, HostArray) else method(self, other)

    return apply


def _install(cls: type[HostArray], names: Iterable[str], in_place: bool) -> None:
    for name in names:
        methods = {"": _binary(name, False), "r": _binary(name, True)}
        if in_place:
            methods["i"] = _in_place(name)
        for prefix, method in methods.items():
            setattr(cls, f"__{prefix}{name}__", method)


for _class in (HostVector, HostMatrix):
    _install(_class, BINARY, in_place=True)
# The product of quaternions is mul(p, q), as in Slang.
_install(HostQuaternion, ("add", "sub"), in_place=False)
for _method in ("mul", "rmul", "truediv"):
    _operator = _binary(_method.removeprefix("r"), _method.startswith("r"))
    setattr(HostQuaternion, f"__{_method}__", _with_numbers_only(_operator))
for _name in UNARY:
    setattr(HostArray, f"__{_name}__", _unary(_name))


def plain_data(value: object) -> HostValue:
    """The array of a host vector; other values as they are."""
    return value.data if isinstance(value, HostArray) else value


def _scalar_of(t: ir.Type) -> ir.Scalar:
    scalar = ir.scalar_of(t)
    assert scalar is not None
    return scalar


# --- Classes ------------------------------------------------------------------------------------------

SCALAR_WORDS = {**SCALAR_NAMES, ir.F16: "float16_t"}

_Host = TypeVar("_Host", bound=HostArray)
_classes: dict[tuple[type, ir.Type], OfClass] = {}  # classes of the base that stands in the key


def vector_class(element: ir.Scalar, length: int) -> type[HostVector]:
    """The class of vectors of an element type: `float3` for f32 and 3."""
    t = ir.vector(element, length)
    known_class: type[HostVector] | None = _classes.get((HostVector, t))
    name = slang_name(t) if element in ir.SMALL_FLOATS else f"{SCALAR_WORDS[element]}{length}"
    return known_class or _make_class(HostVector, name, t, (length,))


def matrix_class(element: ir.Scalar, rows: int, columns: int) -> type[HostMatrix]:
    """The class of matrices: `float3x4` for f32, 3 and 4."""
    t = ir.matrix(element, rows, columns)
    known_class: type[HostMatrix] | None = _classes.get((HostMatrix, t))
    name = slang_name(t) if element in ir.SMALL_FLOATS else f"{SCALAR_WORDS[element]}{rows}x{columns}"
    return known_class or _make_class(HostMatrix, name, t, (rows, columns))


def quaternion_class(element: ir.Scalar) -> type[HostQuaternion]:
    """The class of quaternions: `quatf` for f32. Kernels see a vector of four."""
    t = ir.vector(element, 4)
    known_class: type[HostQuaternion] | None = _classes.get((HostQuaternion, t))
    return known_class or _make_class(HostQuaternion, QUATERNIONS[element], t, (4,))


def _make_class(base: type[_Host], name: str, t: ir.Type, shape: tuple[int, ...]) -> type[_Host]:
    element = _scalar_of(t)
    body: dict[str, object] = {
        "__slots__": (),
        "__module__": "slangrad",
        "ir_type": t,
        "dtype": NUMPY_TYPES[element],
        "shape": shape,
        "element_type": _PYTHON_KINDS[element.kind],
    }
    if base is not HostMatrix:
        body.update((letter, _component(i)) for i, letter in enumerate(LETTERS[: shape[0]]))
    host_class = _classes[base, t] = type(name, (base,), body)
    return host_class


def _component(index: int) -> property:
    def get(self: HostArray) -> object:
        """A component, as a number of Python."""
        return self.data[index].item()

    def put(self: HostArray, value: object) -> None:
        self[index] = value

    return property(get, put)


# --- Classes by name ----------------------------------------------------------------------------------

QUATERNIONS = {ir.F32: "quatf", ir.F64: "quatd"}
_WORDS = {word: element for element, word in SCALAR_WORDS.items() if element not in ir.SMALL_FLOATS}
_NAME = rf"({'|'.join(_WORDS)})([1-4])(?:x([1-4]))?"  # compiled when it is first used


def class_named(name: str) -> type[HostArray] | None:
    """The class that a name like `float3`, `uint8_t4x4` or `quatf` means; None for other names."""
    for element, quaternion in QUATERNIONS.items():
        if name == quaternion:
            return quaternion_class(element)
    match = re.fullmatch(_NAME, name)
    if match is None:
        return None
    element, first = _WORDS[match[1]], int(match[2])
    return vector_class(element, first) if match[3] is None else matrix_class(element, first, int(match[3]))


def class_names() -> list[str]:
    """All these names; there are no matrices of one row or column among them."""
    sizes = [str(n) for n in range(1, 5)] + [f"{r}x{c}" for r in range(2, 5) for c in range(2, 5)]
    return [word + size for word in _WORDS for size in sizes] + list(QUATERNIONS.values())
