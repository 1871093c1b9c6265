"""The dtypes that users write, as IR types; and IR types as NumPy sees them.

    "float3", module.float3, np.float32, float, torch.float32   ->   f32x3, ..., f32, f32, f32
    f32x3x4 -> np.float32 with trailing dimensions (3, 4)       struct -> np.uint8 with its size

Objects with an attribute `ir_type` (reflected types, structs, host vectors) stand for that type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.base.type_names import shaped_name
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import (
    BF16,
    BOOL,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    SMALL_FLOATS,
    U8,
    U16,
    U32,
    U64,
    Array,
    Lanes,
    Matrix,
    Pointer,
    Scalar,
    Struct,
    Type,
    Vector,
    array,
    components,
    is_float,
    matrix,
    pointer,
    vector,
)

NumpyType = np.dtype[np.generic]

# fmt: off
_ROWS: tuple[tuple[Scalar, type[np.generic], str], ...] = (
    # type  NumPy        names; the first is what messages say
    (BOOL, np.bool_,   "bool"),
    (I8,   np.int8,    "int8_t int8"),
    (I16,  np.int16,   "int16_t int16"),
    (I32,  np.int32,   "int int32_t int32"),
    (I64,  np.int64,   "int64_t int64"),
    (U8,   np.uint8,   "uint8_t uint8"),
    (U16,  np.uint16,  "uint16_t uint16"),
    (U32,  np.uint32,  "uint uint32_t uint32"),
    (U64,  np.uint64,  "uint64_t uint64"),
    (F16,  np.float16, "half float16_t float16"),
    (F32,  np.float32, "float float32_t float32"),
    (F64,  np.float64, "double float64_t float64"),
)
# NumPy's types of these are names of the package ml_dtypes, and those of PyTorch are the last names.
_SMALL_ROWS: tuple[tuple[Scalar, str, str], ...] = (
    (BF16, "bfloat16",      "BFloat16 bfloat16"),
    (E4M3, "float8_e4m3fn", "FloatE4M3 float8_e4m3fn"),
    (E5M2, "float8_e5m2",   "FloatE5M2 float8_e5m2"),
)
# fmt: on
_ML_DTYPES = LazyModule("ml_dtypes")


class _NumpyTypes(dict[Scalar, NumpyType]):
    """Those of small floats are loaded when they are first asked for."""

    def __missing__(self, scalar: Scalar) -> NumpyType:
        name = next(name for small, name, _ in _SMALL_ROWS if small is scalar)
        try:
            dtype: NumpyType = np.dtype(getattr(_ML_DTYPES, name))
        except ModuleNotFoundError:
            raise ImportError(
                f"NumPy has no {SCALAR_NAMES[scalar]}; the package ml_dtypes brings it: pip install slangrad[ml_dtypes]"
            ) from None
        self[scalar] = dtype
        return dtype


SCALARS_BY_NAME = {name: scalar for scalar, _, names in (*_ROWS, *_SMALL_ROWS) for name in names.split()}
SCALAR_NAMES = {scalar: names.split()[0] for scalar, _, names in (*_ROWS, *_SMALL_ROWS)}
NUMPY_TYPES = _NumpyTypes({scalar: np.dtype(kind) for scalar, kind, _ in _ROWS})
_SMALL_NAMES = {name: scalar for scalar, name, _ in _SMALL_ROWS}
_FROM_NUMPY = {dtype: scalar for scalar, dtype in NUMPY_TYPES.items()}
_PYTHON: dict[object, Scalar] = {bool: BOOL, int: I32, float: F32}

_SCALAR = "|".join(sorted(SCALARS_BY_NAME, key=len, reverse=True))
# Compiled when they are first used: many programs name no type.
_PLAIN = rf"({_SCALAR})(?:([1-4])(?:x([1-4]))?)?"
_GENERIC = r"(vector|matrix|Array)<(.*)>"
_SUFFIX = r"\[(\d+)\]"


def element_type(wanted: object, argument: str = "dtype") -> Type:
    """The IR type that `given` stands for; TypeError or ValueError, naming the argument, if there is none."""
    if wanted is None:
        raise ValueError(f"{argument}: Element type (dtype) must be specified, for example dtype='float'")
    t = _find(wanted)
    if t is None:
        raise TypeError(
            f"{argument}: {wanted!r} is no element type; give a name such as 'float3', a type of a module "
            "(module.float3), or a NumPy dtype"
        )
    if not _storable(t):
        raise ValueError(f"{argument}: values of type {slang_name(t)} cannot be stored in memory")
    return t


def _find(wanted: object) -> Type | None:
    if isinstance(wanted, Type):
        return wanted
    declared = getattr(wanted, "ir_type", None)
    if isinstance(declared, Type):
        return declared
    if isinstance(wanted, str):
        return _by_name(wanted)
    if isinstance(wanted, type) and wanted in _PYTHON:
        return _PYTHON[wanted]
    if type(wanted).__module__ == "torch":
        return SCALARS_BY_NAME.get(str(wanted).removeprefix("torch."))
    if isinstance(wanted, np.dtype) or (isinstance(wanted, type) and issubclass(wanted, np.generic)):
        return from_numpy_type(np.dtype(wanted))
    return None


@cache
def _by_name(text: str) -> Type:
    """`float`, `float3`, `float3x4`, `vector<float,3>`, `float3[2]`, `float*`; arrays of arrays grow rightwards."""
    name = text.replace(" ", "")
    if name.endswith("*"):
        return pointer(_by_name(name[:-1]))
    start = name.find("[", name.rfind(">") + 1)
    base, suffix = (name, "") if start < 0 else (name[:start], name[start:])
    t = _plain(base) or _generic(base)
    if t is None or re.sub(_SUFFIX, "", suffix):
        raise ValueError(f"dtype: unknown type name {text!r}; for a type of a module give module.Name")
    for length in re.findall(_SUFFIX, suffix):
        t = array(t, int(length))
    return t


def _plain(name: str) -> Type | None:
    if name in SCALARS_BY_NAME:
        return SCALARS_BY_NAME[name]
    match = re.fullmatch(_PLAIN, name)
    if match is None:
        return None
    scalar, first, second = SCALARS_BY_NAME[match[1]], int(match[2]), match[3]
    return vector(scalar, first) if second is None else matrix(scalar, first, int(second))


def _generic(name: str) -> Type | None:
    match = re.fullmatch(_GENERIC, name)
    if match is None:
        return None
    arguments = match[2].rsplit(",", 2 if match[1] == "matrix" else 1)
    if not all(size.isdecimal() for size in arguments[1:]):
        return None
    element, sizes = _by_name(arguments[0]), [int(size) for size in arguments[1:]]
    if match[1] == "Array" and len(sizes) == 1:
        return array(element, sizes[0])
    if not isinstance(element, Scalar):
        return None
    if match[1] == "vector" and len(sizes) == 1:
        return vector(element, sizes[0])
    return matrix(element, sizes[0], sizes[1]) if match[1] == "matrix" and len(sizes) == 2 else None


@cache
def _storable(t: Type) -> bool:
    if isinstance(t, Lanes) or (isinstance(t, Array) and t.length is None):
        return False
    return all(_storable(part) for part in components(t))


def from_numpy_type(dtype: NumpyType) -> Type | None:
    """The type of a NumPy dtype in any byte order, subarrays included; None for structured ones."""
    base = dtype.base
    t: Type | None = _FROM_NUMPY.get(base.newbyteorder("=")) or _SMALL_NAMES.get(base.name)
    for size in reversed(dtype.shape):
        t = t and array(t, size)
    return t


def is_small_dtype(dtype: NumpyType) -> bool:
    """Whether a dtype is that of a small float, which NumPy has from another package."""
    return dtype.name in _SMALL_NAMES


def dtype_text(dtype: NumpyType) -> str:
    """A text for the dtype of numbers, from which `dtype_from` makes it."""
    return dtype.name if dtype.name in _SMALL_NAMES else dtype.str


def dtype_from(text: str) -> NumpyType:
    """The dtype of a `dtype_text`."""
    return NUMPY_TYPES[_SMALL_NAMES[text]] if text in _SMALL_NAMES else np.dtype(text)


@cache
def numpy_layout(t: Type) -> tuple[NumpyType, tuple[int, ...]]:
    """The scalar dtype of a type's memory, and the dimensions one element adds: structs are bytes."""
    if isinstance(t, Scalar):
        return NUMPY_TYPES[t], ()
    if isinstance(t, Vector):
        return NUMPY_TYPES[t.element], (t.length,)
    if isinstance(t, Matrix):
        return NUMPY_TYPES[t.element], (t.rows, t.columns)
    if isinstance(t, Array) and t.length is not None:
        dtype, inner = numpy_layout(t.element)
        return dtype, (t.length, *inner)
    if isinstance(t, Pointer):
        return np.dtype(np.uint64), ()
    return np.dtype(np.uint8), (layout_of(t).size,)


@cache
def structured_dtype(t: Type) -> NumpyType:
    """The NumPy dtype with the fields of a struct at their places in memory."""
    if isinstance(t, Array) and t.length is not None:
        inner = structured_dtype(t.element)
        return np.dtype(
            (inner.base, (t.length, *inner.shape))
        )  # NumPy shows the outer shape of nested ones alone
    if not isinstance(t, Struct):
        return np.dtype(numpy_layout(t))
    layout = layout_of(t)
    names = [name for name, _ in t.fields]
    formats = [structured_dtype(field) for _, field in t.fields]
    offsets = list(layout.offsets)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": layout.size})


def scalar_and_sizes(t: Type) -> tuple[Scalar, tuple[int, ...]]:
    """The scalar type of a type without structs, and the dimensions that one value adds."""
    dtype, inner = numpy_layout(t)
    return _FROM_NUMPY.get(dtype) or _SMALL_NAMES[dtype.name], inner


def holds_structs(t: Type) -> bool:
    """Whether elements are structs or arrays of structs, which NumPy sees as bytes."""
    return isinstance(t, Struct) or (isinstance(t, Array) and holds_structs(t.element))


def derivative_type(t: Type) -> Type | None:
    """The type of a derivative: floating-point types are their own; None for integers, and for structs, whose
    derivative types only the program knows."""
    if isinstance(t, Array):
        element = derivative_type(t.element)
        return None if element is None else array(element, t.length)
    if isinstance(t, (Vector, Matrix)):
        return t if is_float(t.element) else None
    return t if is_float(t) else None


def slang_name(t: Type) -> str:
    """A type as Slang writes it: float3, float[4][2], Particle."""
    if isinstance(t, Scalar):
        return SCALAR_NAMES[t]
    if isinstance(t, (Vector, Matrix)):
        extents = (t.length,) if isinstance(t, Vector) else (t.rows, t.columns)
        return shaped_name(SCALAR_NAMES[t.element], extents, t.element not in SMALL_FLOATS, ",")
    if isinstance(t, Array):
        return f"{slang_name(t.element)}[{'' if t.length is None else t.length}]"
    if isinstance(t, Pointer):
        return f"{slang_name(t.element)}*"
    return t.name if isinstance(t, Struct) else str(t)


class TypeView:
    """How types are shown to users: as IR types, until the public API puts its reflected types here."""

    show: ClassVar[Callable[[Type], object]] = lambda t: t
