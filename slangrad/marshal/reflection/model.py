"""The model of a type behind both reflections: `SlangType` of calls, and `TypeReflection` of kernels.

    model_of(float3)                 ->   vector, of 3 elements float, of the numbers float32
    model_of(RWTensor<float3, 2>)    ->   struct, of elements float3 in 2 dimensions
    model_of(Texture2D<float4>)      ->   resource, texture_2d, read
    ElementLayout(struct S)          ->   size, alignment, and fields with their offsets

In: a checked type, or a type in memory.   Names distinguish kinds, as a warm start loads no classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from slangrad.base.lazy import LazyModule
from slangrad.base.records import OfClass, record
from slangrad.check.model import types as checked
from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.ir.data.forms import part_of, without_room
from slangrad.ir.data.layout import Layout, layout_of
from slangrad.marshal.containers.buffers import BYTES, STRUCTURED, standard_name
from slangrad.marshal.protocol.program_types import Reflected
from slangrad.marshal.protocol.type_map import lifted
from slangrad.tensors.elements.element_types import slang_name

KINDS = LazyModule("slangrad.marshal.reflection.type_kinds")

UNKNOWN = checked.Plain("Unknown")  # an unknown type
BLOCKS = {
    "ConstantBuffer": "constant_buffer",
    "ParameterBlock": "parameter_block",
}  # aliases with kinds of their own


@dataclass(slots=True, eq=False, repr=False)
class SavedType(Type):
    """A declared type of an earlier process: its displayed name, its name in a text, its form in memory, and its
    derivative."""

    text: str
    spelled: str
    lowered: ir.Type | None
    tangent: Type | None = None

    def __post_init__(self) -> None:
        self.abstract, self.weight = False, 1

    def __str__(self) -> str:
        return self.text


# --- The standard library -----------------------------------------------------------------------------


class TensorType(Enum):
    """Families of tensor types, by the names of their read-only types."""

    tensor = 0
    itensor = 1
    diff_tensor = 2
    idiff_tensor = 3
    primal_tensor = 4
    atomic = 5


class TensorAccess(Enum):
    """The permitted accesses to the elements of a tensor."""

    none = 0
    read = 1
    write = 2
    read_write = 3


# fmt: off
_ACCESSES = {"": TensorAccess.read, "W": TensorAccess.write, "RW": TensorAccess.read_write}
_FAMILIES = {
    TensorType.tensor: "{}Tensor", TensorType.itensor: "I{}Tensor", TensorType.diff_tensor: "{}DiffTensor",
    TensorType.idiff_tensor: "I{}DiffTensor", TensorType.primal_tensor: "{}PrimalTensor",
}
_TEXTURES = {  # their dimensions
    "1D": 1, "1DArray": 2, "2D": 2, "2DArray": 3, "2DMS": 3, "2DMSArray": 4, "3D": 3, "Cube": 3, "CubeArray": 4,
}
# fmt: on
TENSORS = {
    family.format(letters): (kind, access)
    for kind, family in _FAMILIES.items()
    for letters, access in _ACCESSES.items()
}
TENSORS["AtomicTensor"] = (TensorType.atomic, TensorAccess.read_write)
TEXTURES = {
    f"{letters}Texture{name}": (
        dimensions,
        f"texture_{name.lower().replace('array', '_array').replace('ms', '_multisample')}",
    )
    for letters in ("", "RW")
    for name, dimensions in _TEXTURES.items()
}
SAMPLERS = ("SamplerState", "SamplerComparisonState")
_RESOURCES = {
    **TEXTURES,
    **dict.fromkeys(STRUCTURED, (1, "structured_buffer")),
    **dict.fromkeys(BYTES, (1, "byte_address_buffer")),
}


# --- Models -------------------------------------------------------------------------------------------


@record
class TypeModel:
    """`kind`, `scalar`, `shape` and `access` are names in TypeKind, ScalarKind, ShapeKind and TensorAccess. `sizes`
    are the dimensions around `element`: zero for a size that is open, -1 for one that differs from value to
    value."""

    kind: str
    sizes: tuple[int, ...] = ()
    element: Type | None = None
    scalar: str = "none"
    shape: str = "none"
    access: str = "none"


def number(count: object) -> int:
    """A size; zero where it is open."""
    return count if isinstance(count, int) else 0


def scalar_kind(t: Type) -> str:
    """The name of a number's ScalarKind."""
    if not isinstance(t, checked.ScalarType):
        return "void" if t is checked.VOID else "none"
    if t in checked.SMALL_FLOATS:
        return _SMALL_FLOATS[t.name]
    return "bool" if t is checked.BOOL else f"{t.kind}{t.bits}"


_SMALL_FLOATS = {"BFloat16": "bfloat16", "FloatE4M3": "float_e4m3", "FloatE5M2": "float_e5m2"}


def _declared(t: OfClass) -> TypeModel:
    """A struct or an interface, perhaps of the standard library."""
    kind, name = "interface" if isinstance(t, checked.InterfaceType) else "struct", standard_name(t)
    first = t.arguments[0] if t.arguments and isinstance(t.arguments[0], Type) else None
    if name in TENSORS:
        return TypeModel(kind, (-1,) * number(t.arguments[1]), first, access=TENSORS[name][1].name)
    if name not in _RESOURCES:
        return TypeModel("sampler_state" if name in SAMPLERS else kind)
    dimensions, shape = _RESOURCES[name]
    element = checked.UINT8 if name in BYTES else first
    access = "read_write" if name.startswith("RW") else "read"
    return TypeModel("resource", (-1,) * dimensions, element, "none", shape, access)


# fmt: off
MODELS: dict[type, Callable[[OfClass], TypeModel]] = {
    checked.ScalarType:    lambda t: TypeModel("scalar", scalar=scalar_kind(t)),
    checked.EnumType:      lambda t: TypeModel("scalar"),  # its program has the type of its numbers
    checked.VectorType:    lambda t: TypeModel("vector", (number(t.count),), t.element, scalar_kind(t.element)),
    checked.MatrixType:    lambda t: TypeModel("matrix", (number(t.rows),), checked.vector(t.element, t.columns),
                                               scalar_kind(t.element)),
    checked.ArrayType:     lambda t: TypeModel("array", (number(t.count),), t.element),
    checked.PointerType:   lambda t: TypeModel("pointer", (), t.element),
    checked.StructType:    _declared,
    checked.InterfaceType: _declared,
    checked.ParameterType: lambda t: TypeModel("generic_type_parameter"),
    checked.Projection:    lambda t: TypeModel("generic_type_parameter"),
    SavedType:             lambda t: TypeModel("struct" if isinstance(t.lowered, ir.Struct) else "scalar"),
}
_SHORT_NAMES: dict[type, str] = {
    checked.VectorType: "vector", checked.MatrixType: "matrix", checked.ArrayType: "Array", checked.PointerType: "Ptr",
    checked.Tuple: "Tuple",
}
# fmt: on
_INDIRECT = ("pointer", *BLOCKS.values())


def model_of(t: Type) -> TypeModel:
    if t is UNKNOWN:
        return TypeModel("generic_type_parameter")
    make = MODELS.get(type(t))
    return TypeModel("none", scalar=scalar_kind(t)) if make is None else make(t)


def sizes_of(t: Type) -> tuple[int, ...]:
    """The sizes of all dimensions of a value."""
    model = model_of(t)
    if model.element is None or model.kind in _INDIRECT:
        return model.sizes
    return (*model.sizes, *sizes_of(model.element))


def short_name(t: Type) -> str:
    """The name of a type without its arguments."""
    if isinstance(t, (checked.Nominal, checked.Projection)):
        name: str = t.declaration.name
        return name
    return _SHORT_NAMES.get(type(t)) or str(t).partition("<")[0]


def shown(t: ir.Type) -> Type:
    """The type whose values have this form in memory; a struct has a name and a form only."""
    value = lifted(ir.value_of(t), lambda struct: SavedType(struct.name, struct.name, struct))
    return checked.pointer(checked.VOID) if value is None else value  # to a form that only memory has


def scalar_type_of(t: Type, form: Callable[[], ir.Type | None]) -> Reflected:
    """The ScalarKind of a value's numbers; that of an enum comes from its form in memory. `Atomic<T>` has that of T."""
    if (
        isinstance(t, checked.StructType)
        and standard_name(t) == "Atomic"
        and isinstance(t.arguments[0], Type)
    ):
        t = t.arguments[0]
    model = model_of(t)
    lowered = form() if model.kind == "scalar" and model.scalar == "none" else None
    return KINDS.ScalarKind[model.scalar if lowered is None else model_of(shown(lowered)).scalar]


class TypeProperties(ABC):
    """The common properties of both reflections of kernels: of a type by itself, and of one in memory."""

    __slots__ = ()

    @property
    @abstractmethod
    def _shown(self) -> Type:
        """The type of values."""

    @property
    def kind(self) -> Reflected:
        """The TypeKind."""
        return KINDS.TypeKind[model_of(self._shown).kind]

    @property
    def scalar_type(self) -> Reflected:
        """The ScalarKind of the numbers that a scalar, vector or matrix is made of."""
        return KINDS.ScalarKind[model_of(self._shown).scalar]

    @property
    def element_count(self) -> int:
        """Elements of an array, components of a vector; zero for all else."""
        model = model_of(self._shown)
        return model.sizes[0] if model.kind in ("array", "vector") else 0

    @property
    def row_count(self) -> int:
        """Rows of a matrix, 1 of vectors and scalars, else 0."""
        return self._rows_and_columns[0]

    @property
    def col_count(self) -> int:
        """Columns of a matrix, components of a vector, 1 of scalars, else 0."""
        return self._rows_and_columns[1]

    @property
    def _rows_and_columns(self) -> tuple[int, ...]:
        if model_of(self._shown).kind not in ("scalar", "vector", "matrix"):
            return 0, 0
        return (1, 1, *sizes_of(self._shown))[-2:]


# --- Memory -------------------------------------------------------------------------------------------


class InMemory(ABC):
    """Sizes and distances of values of a type in memory, in bytes."""

    __slots__ = ()

    @property
    @abstractmethod
    def memory(self) -> Layout:
        """How a value lies there."""

    @property
    def size(self) -> int:
        """Bytes; a multiple of the alignment. A block has the size of its content."""
        return self.memory.size

    @property
    def alignment(self) -> int:
        """In bytes: addresses of values are multiples of it."""
        return self.memory.alignment

    @property
    def stride(self) -> int:
        """The distance of such elements in an array, in bytes."""
        return self.memory.size


class ElementLayout(TypeProperties, InMemory):
    """A type and its layout in memory, from the form in memory alone; of a field also its offset."""

    __slots__ = ("ir_type", "name", "offset")

    def __init__(self, t: ir.Type, name: str = "", offset: int = 0) -> None:
        self.ir_type = t
        self.name = name or slang_name(t)
        self.offset = offset

    def __repr__(self) -> str:
        return f"ElementLayout({self.name}, size={self.size}, alignment={self.alignment})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ElementLayout):
            return NotImplemented
        return (self.ir_type, self.name, self.offset) == (other.ir_type, other.name, other.offset)

    def __hash__(self) -> int:
        return hash((self.ir_type, self.name, self.offset))

    @property
    def memory(self) -> Layout:
        return layout_of(self.ir_type)

    @property
    def _shown(self) -> Type:
        return shown(self.ir_type)

    @property
    def type(self) -> ElementLayout:
        """Itself: one object serves as SlangPy's type, layout and reflection."""
        return self

    reflection = type_layout = type

    @property
    def full_name(self) -> str:
        """The name of the type; `name` is that of a field."""
        return slang_name(self.ir_type)

    @property
    def fields(self) -> dict[str, ElementLayout]:
        """The fields of a struct."""
        t = without_room(self.ir_type)
        if not isinstance(t, ir.Struct) or part_of(t):
            return {}
        rows = zip(t.fields, layout_of(t).offsets)
        return {name: ElementLayout(part, name, offset) for (name, part), offset in rows}

    @property
    def element_type_layout(self) -> ElementLayout | None:
        """The type of an element, or of a pointee."""
        t = ir.value_of(self.ir_type)
        if isinstance(t, (ir.Vector, ir.Array, ir.Pointer)):
            return ElementLayout(t.element)
        return ElementLayout(ir.vector(t.element, t.columns)) if isinstance(t, ir.Matrix) else None
