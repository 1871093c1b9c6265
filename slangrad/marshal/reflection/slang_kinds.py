"""Kinds of Slang types, and what each has of its own.

    layout.find_type_by_name("float3x4")            ->   MatrixType: rows, cols, inner_element_type
    layout.find_type_by_name("RWTensor<float, 2>")  ->   ITensorType: dtype, dims, access

`slang_type_of(checked, types, program)` makes one.
"""

from __future__ import annotations

from enum import Enum

from slangrad.base.late import Late
from slangrad.check.model import types as checked
from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.marshal.containers.buffers import BYTES, STRUCTURED
from slangrad.marshal.protocol.marshal import ProgramTypes, Reflected
from slangrad.marshal.reflection.slang_type import ElementLayout, SavedType, SlangType, number
from slangrad.tensors.shape import Shape

KINDS = Late("slangrad.marshal.reflection.type_kinds")

UNKNOWN = checked.Plain("Unknown")  # a type that nothing is said about
# fmt: off
TEXTURES = {
    "Texture1D": 1, "Texture1DArray": 2, "Texture2D": 2, "Texture2DArray": 3, "Texture3D": 3, "TextureCube": 3,
    "TextureCubeArray": 4, "RWTexture1D": 1, "RWTexture1DArray": 2, "RWTexture2D": 2, "RWTexture2DArray": 3,
    "RWTexture3D": 3,
}
# fmt: on


class UnknownType(SlangType):
    """A generic parameter that is open, or no type at all."""

    __slots__ = ()

    _kind = "generic_type_parameter"


class UnhandledType(SlangType):
    """A type of a kind that has no name here."""

    __slots__ = ()


class VoidType(SlangType):
    """The type of functions without a result."""

    __slots__ = ()


class _Numbers(SlangType):
    """What is made of numbers."""

    __slots__ = ()

    @property
    def slang_scalar_type(self) -> Reflected:
        """The kind of its numbers, of an enum that of its tag: a TypeReflection.ScalarType."""
        lowered = self.ir_type
        return KINDS.ScalarKind.none if lowered is None else ElementLayout(lowered).scalar_type

    @property
    def scalar_type(self) -> SlangType:
        """The type of its numbers."""
        inner: SlangType = self
        while inner.element_type is not inner:
            inner = inner.element_type
        return inner


class ScalarType(_Numbers):
    """A number or bool; an enum has the kind of its numbers."""

    __slots__ = ()

    _kind = "scalar"


class VectorType(_Numbers):
    """`float3`."""

    __slots__ = ()

    _kind = "vector"

    @property
    def num_elements(self) -> int:
        """How many components; zero where that is open."""
        assert isinstance(self.checked, checked.Vector)
        return number(self.checked.count)


class MatrixType(_Numbers):
    """`float3x4`: rows that are vectors."""

    __slots__ = ()

    _kind = "matrix"

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def cols(self) -> int:
        return self.shape[1]

    @property
    def inner_element_type(self) -> SlangType:
        return self.scalar_type


class ArrayType(SlangType):
    """`float[4]`, `float[4][3]`."""

    __slots__ = ()

    _kind = "array"

    @property
    def num_elements(self) -> int:
        """The outermost size; zero where that is open."""
        assert isinstance(self.checked, checked.Array)
        return number(self.checked.count)

    @property
    def array_shape(self) -> Shape:
        """The sizes of all arrays inside of each other, outermost first."""
        return Shape(self.shape[: self.array_dims])

    @property
    def array_dims(self) -> int:
        inner = self.element_type
        return 1 + (inner.array_dims if isinstance(inner, ArrayType) else 0)

    @property
    def any_generic_dims(self) -> bool:
        """Whether a size is open."""
        return 0 in self.array_shape

    @property
    def inner_element_type(self) -> SlangType:
        """What is in the innermost array."""
        inner = self.element_type
        return inner.inner_element_type if isinstance(inner, ArrayType) else inner


class PointerType(SlangType):
    """`float*`."""

    __slots__ = ()

    _kind = "pointer"

    @property
    def target_type(self) -> SlangType:
        assert isinstance(self.checked, checked.Pointer)
        return self._of(self.checked.element)

    element_type = target_type

    @property
    def slang_scalar_type(self) -> Reflected:
        """An address is a number of this kind."""
        return KINDS.ScalarKind.uint64


class StructType(SlangType):
    """A struct of a module or of the standard library."""

    __slots__ = ()

    _kind = "struct"


class InterfaceType(SlangType):
    """An interface."""

    __slots__ = ()

    _kind = "interface"


class _Holder(SlangType):
    """What holds values of the type that is its first generic argument."""

    __slots__ = ()

    @property
    def dtype(self) -> SlangType:
        """The type of these."""
        found = self.arguments[0]
        return found if isinstance(found, SlangType) else self

    element_type = dtype


class DifferentialPairType(SlangType):
    """`DifferentialPair<float>`."""

    __slots__ = ()

    _kind = "struct"

    @property
    def primal(self) -> SlangType:
        found = self.arguments[0]
        return found if isinstance(found, SlangType) else self


class ResourceType(SlangType):
    """Memory of the launch: buffers and textures."""

    __slots__ = ()

    _kind = "resource"

    @property
    def resource_shape(self) -> Reflected:
        """A TypeReflection.ResourceShape."""
        return self.type_reflection.resource_shape

    @property
    def resource_access(self) -> Reflected:
        """A TypeReflection.ResourceAccess."""
        return KINDS.AccessKind.read_write if self.writable else KINDS.AccessKind.read

    @property
    def writable(self) -> bool:
        return self.base_name.startswith("RW")

    @property
    def shape(self) -> Shape:
        element = self.element_type
        return Shape((-1, *(() if element is self else element.shape)))


class StructuredBufferType(_Holder, ResourceType):
    """`StructuredBuffer<T>`, `RWStructuredBuffer<T>`."""

    __slots__ = ()


class ByteAddressBufferType(ResourceType):
    """`ByteAddressBuffer`, `RWByteAddressBuffer`: bytes."""

    __slots__ = ()

    @property
    def element_type(self) -> SlangType:
        return self._of(checked.UINT8)


class TextureType(_Holder, ResourceType):
    """A texture, known by name only: nothing reads it."""

    __slots__ = ()

    @property
    def texture_dims(self) -> int:
        return TEXTURES[self.base_name]

    @property
    def usage(self) -> Reflected:
        """The TextureUsage that a texture for it has."""
        usage = KINDS.TextureUsage
        return usage.unordered_access if self.writable else usage.shader_resource

    @property
    def shape(self) -> Shape:
        return Shape((*([-1] * self.texture_dims), *self.element_type.shape))


class SamplerStateType(SlangType):
    """`SamplerState`, known by name only."""

    __slots__ = ()

    _kind = "sampler_state"


class TensorType(Enum):
    """Families of tensor types, by the names of their read-only types."""

    tensor = 0
    itensor = 1
    diff_tensor = 2
    idiff_tensor = 3
    primal_tensor = 4
    atomic = 5


class TensorAccess(Enum):
    """What may be done with the elements of a tensor."""

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
# fmt: on
TENSORS = {
    family.format(letters): (kind, access)
    for kind, family in _FAMILIES.items()
    for letters, access in _ACCESSES.items()
}
TENSORS["AtomicTensor"] = (TensorType.atomic, TensorAccess.read_write)


def tensor_name(kind: TensorType, access: TensorAccess) -> str:
    """The name of a tensor type; atomic tensors are read and written."""
    wanted = TensorAccess.read_write if kind is TensorType.atomic else access
    return next(name for name, row in TENSORS.items() if row == (kind, wanted))


class ITensorType(_Holder):
    """`Tensor<float, 2>` and its kin, interfaces too."""

    __slots__ = ()

    Kind = TensorType
    Access = TensorAccess

    @property
    def _kind_name(self) -> str:
        return "interface" if self.base_name.startswith("I") else "struct"

    @property
    def tensor_kind(self) -> TensorType:
        return TENSORS[self.base_name][0]

    tensor_type = tensor_kind

    @property
    def access(self) -> TensorAccess:
        return TENSORS[self.base_name][1]

    @property
    def readable(self) -> bool:
        return self.access is not TensorAccess.write

    @property
    def writable(self) -> bool:
        return self.access is not TensorAccess.read

    @property
    def diff_tensor(self) -> bool:
        """Whether it knows gradients."""
        return self.tensor_kind in (TensorType.diff_tensor, TensorType.idiff_tensor)

    difftensor = diff_tensor

    @property
    def has_grad_in(self) -> bool:
        """Whether gradients are read from it."""
        return self.diff_tensor and self.writable

    @property
    def has_grad_out(self) -> bool:
        """Whether gradients are added to it."""
        return self.diff_tensor and self.readable

    @property
    def dims(self) -> int:
        """The rank; zero where that is open."""
        return number(self.arguments[1])

    @property
    def shape(self) -> Shape:
        return Shape((*([-1] * self.dims), *self.dtype.shape))


class TensorViewType(_Holder):
    """`TensorView<float>`."""

    __slots__ = ()

    _kind = "struct"


class DiffTensorViewType(TensorViewType):
    """`DiffTensorView<float>`."""

    __slots__ = ()


# fmt: off
_KINDS: dict[type, type[SlangType]] = {
    checked.Scalar:        ScalarType,
    checked.EnumType:      ScalarType,
    checked.Vector:        VectorType,
    checked.Matrix:        MatrixType,
    checked.Array:         ArrayType,
    checked.Pointer:       PointerType,
    checked.StructType:    StructType,
    checked.InterfaceType: InterfaceType,
    checked.ParameterType: UnknownType,
    checked.AssociatedType: UnknownType,
}
_STANDARD: dict[str, type[SlangType]] = {
    "DifferentialPair": DifferentialPairType,
    "SamplerState": SamplerStateType,
    "SamplerComparisonState": SamplerStateType,
    "TensorView": TensorViewType,
    "DiffTensorView": DiffTensorViewType,
    **dict.fromkeys(STRUCTURED, StructuredBufferType),
    **dict.fromkeys(BYTES, ByteAddressBufferType),
    **dict.fromkeys(TEXTURES, TextureType),
    **dict.fromkeys(TENSORS, ITensorType),
}
# fmt: on


def slang_type_of(t: Type, types: ProgramTypes, program: object = None) -> SlangType:
    """A type as an object of its kind."""
    if t is checked.VOID:
        return VoidType(t, types, program)
    if t is UNKNOWN:
        return UnknownType(t, types, program)
    if isinstance(t, SavedType):
        return (StructType if isinstance(t.lowered, ir.Struct) else SlangType)(t, types, program)
    made = _KINDS.get(type(t), UnhandledType)
    if isinstance(t, checked.Nominal) and t.declaration.span.source.is_library:
        made = _STANDARD.get(t.declaration.name, made)
    return made(t, types, program)


SlangType.maker = slang_type_of
SlangLayout = ElementLayout


def is_unknown(t: SlangType | None) -> bool:
    return isinstance(t, UnknownType)


def is_known(t: SlangType | None) -> bool:
    if t is None:
        raise ValueError("Type is None")
    return not is_unknown(t)


def is_known_or_none(t: SlangType | None) -> bool:
    return not is_unknown(t)


def is_matching_array_type(a: SlangType, b: SlangType, allow_generics: bool = True) -> bool:
    """Whether two types are arrays of the same sizes and elements; open ones fit all others if that is allowed."""
    if not isinstance(a, ArrayType) or not isinstance(b, ArrayType):
        return False
    if allow_generics and any(
        each.any_generic_dims or is_unknown(each.inner_element_type) for each in (a, b)
    ):
        return True
    return a.array_shape == b.array_shape and a.inner_element_type == b.inner_element_type
