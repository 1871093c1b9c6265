"""The public type of a module: `module.float3`, `module.Particle`, `tensor.dtype`, `function.parameters`.

    t = module.layout.find_type_by_name("Particle")
    t.full_name;  t.fields["mass"].type;  Tensor.empty(device, (100,), t)
    layout.find_function_by_name("update").parameters[0]   ->   SlangParameter("inout float value")

    t.buffer_layout.fields["mass"].offset      how it lies in memory, made of the type in memory alone

It can be passed as an element type (`ir_type`), and has its derivative. `model.py` has the model of a type; the
classes of kinds of types have SlangPy's names.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from slangrad.base.lazy import LazyModule
from slangrad.base.records import record
from slangrad.check.model import types as checked
from slangrad.check.model.types import Nominal, Type, is_abstract
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import Layout
from slangrad.marshal.containers.buffers import BYTES, STRUCTURED, standard_name
from slangrad.marshal.protocol.program_types import ProgramTypes, Reflected
from slangrad.marshal.protocol.spelling import full_name, spell
from slangrad.marshal.reflection.model import (
    KINDS,
    SAMPLERS,
    TENSORS,
    TEXTURES,
    ElementLayout,
    SavedType,
    TensorAccess,
    TensorType,
    TypeModel,
    model_of,
    scalar_type_of,
    sizes_of,
)
from slangrad.tensors.elements.shape import Shape

TEXTURE_WORDS = LazyModule("slangrad.tensors.textures.texture_desc")


class SlangType:
    """A checked type together with its program. Equal types of one program are equal, and one object if the program
    returned them.
    """

    __slots__ = ("_checked", "_program", "_types")

    def __init__(self, checked: Type, types: ProgramTypes, program: Reflected = None) -> None:
        self._checked = checked
        self._types = types
        self._program = program

    @property
    def checked(self) -> Type:
        """The type as the checker sees it."""
        if isinstance(self._checked, SavedType):
            parsed = self._types.find(self._checked.spelled)
            assert parsed is not None, f"the program has lost its type '{self._checked}'"
            self._checked = parsed
        return self._checked

    def _of(self, t: Type) -> SlangType:
        """Another type of the same program."""
        program = self._program
        other: SlangType = slang_type_of(t, self._types) if program is None else program.type_of(t)
        return other

    @property
    def _model(self) -> TypeModel:
        return model_of(self._checked)

    def reload(self, checked: Type, types: ProgramTypes) -> None:
        """The type of the same name in a new program."""
        self._checked, self._types = checked, types

    def __eq__(self, other: object) -> bool:
        checked = getattr(other, "checked", None)  # a reflected type has one, too
        return checked is self.checked if isinstance(checked, Type) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.checked)

    def __repr__(self) -> str:
        """SlangPy's text of types: its class is `refl::Type` there."""
        return f'refl::Type(full_name="{self.full_name}", kind={self._model.kind}, shape={list(self.shape)})'

    def __str__(self) -> str:
        return self.name

    @property
    def program(self) -> Reflected:
        """The SlangProgramLayout of the type; None for types that need no module."""
        return self._types.program() if self._program is None else self._program

    @property
    def struct(self) -> SlangType:
        """The type itself, as methods of Struct have it."""
        return self

    @property
    def type_reflection(self) -> Reflected:
        """The type as kernels reflect it."""
        return self.program.reflection_of(self.checked)

    @property
    def name(self) -> str:
        """The name as Slang spells it."""
        return str(self._checked)

    @property
    def spelled(self) -> str:
        """The name in a text outside of all namespaces."""
        return self._checked.spelled if isinstance(self._checked, SavedType) else spell(self._checked)

    @property
    def full_name(self) -> str:
        """The name with all generic arguments: `vector<float,3>`, `Box<float, 4>`."""
        return self._checked.text if isinstance(self._checked, SavedType) else full_name(self._checked)

    vector_type_name = full_name

    @property
    def base_name(self) -> str:
        """The name without generic arguments; empty where the type is not declared by a name."""
        return str(self.checked.declaration.name) if isinstance(self.checked, Nominal) else ""

    @property
    def arguments(self) -> tuple[SlangType | int, ...]:
        """The generic arguments; of vectors and matrices element type and sizes."""
        arguments = generic_arguments(self.checked)
        return tuple(self._of(part) if isinstance(part, Type) else part for part in arguments)

    @property
    def is_generic(self) -> bool:
        """Whether generic parameters are open in it."""
        return is_abstract(self.checked)

    @property
    def ir_type(self) -> ir.Type | None:
        """The type in memory; None for types that cannot be stored."""
        return (
            self._checked.lowered if isinstance(self._checked, SavedType) else self._types.lower(self.checked)
        )

    @property
    def element_type(self) -> SlangType:
        """The type of an element; the type itself if it cannot be indexed."""
        element = self._model.element
        return self if element is None else self._of(element)

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions of a value; zero for sizes that are open, -1 for those that differ from value to
        value.
        """
        return Shape(sizes_of(self._checked))

    @property
    def num_dims(self) -> int:
        """How many dimensions a value has: 0 of scalars and structs, 1 of vectors, 2 of matrices."""
        return len(self.shape)

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self._tangent() is not None

    def _tangent(self) -> Type | None:
        return (
            self._checked.tangent
            if isinstance(self._checked, SavedType)
            else self._types.tangent(self._checked)
        )

    @property
    def derivative(self) -> SlangType | None:
        """The type of a tangent or cotangent."""
        tangent = self._tangent()
        return None if tangent is None else self._of(tangent)

    @property
    def fields(self) -> dict[str, SlangField]:
        """The fields of a struct, components of a vector."""
        no_diff = self._types.no_diff_fields(self.checked)
        return {
            name: SlangField(name, self._of(t), "", name in no_diff)
            for name, t in self._types.fields(self.checked)
        }

    @property
    def buffer_layout(self) -> ElementLayout:
        """How values lie in buffers. TypeError for types that have no form in memory."""
        lowered = self.ir_type
        if lowered is None:
            raise TypeError(f"values of type '{self.name}' cannot be stored in memory")
        return ElementLayout(lowered)

    uniform_layout = buffer_layout  # there is one layout

    @property
    def layout(self) -> Layout:
        """Size, alignment and offsets in memory."""
        return self.buffer_layout.memory


def generic_arguments(t: Type) -> tuple[Any, ...]:  # types, numbers, packs
    """Types and values between the angle brackets of a type's name."""
    if isinstance(t, (checked.VectorType, checked.MatrixType)):
        return (t.element, *checked.extents_of(t))
    return t.arguments if isinstance(t, Nominal) else ()


# --- Variables ----------------------------------------------------------------------------------------


class IOType(Enum):
    """Whether a parameter is read, written, or both."""

    none = 0
    inn = 1
    out = 2
    inout = 3


# The names of ModifierIDs of a direction; `inout` is `out` as well.
DIRECTIONS = {"in": ("inn",), "out": ("out",), "inout": ("inout", "out"), "ref": ("inout", "out")}
_IO_TYPES = {"out": IOType.out, "inout": IOType.inout, "ref": IOType.inout}


@record
class SlangVariable:
    """`direction` is "in", "out", "inout", "ref" or "constref", "" for fields."""

    name: str
    type: SlangType
    direction: str
    no_diff: bool

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}("{self.declaration}")'

    def __str__(self) -> str:
        return self.declaration

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SlangVariable) or type(other) is not type(self):
            return False
        return self.declaration == other.declaration and self.type == other.type

    def __hash__(self) -> int:
        return hash((self.declaration, self.type))

    @property
    def program(self) -> Reflected:
        """The SlangProgramLayout that it is from."""
        return self.type.program

    @property
    def modifiers(self) -> set[Reflected]:
        """The ModifierIDs of the words before it; `inout` is `out` as well."""
        words = (*DIRECTIONS.get(self.direction, ()), *(("nodiff",) if self.no_diff else ()))
        return {KINDS.ModifierID[word] for word in words}

    def has_modifier(self, modifier: object) -> bool:
        return modifier in self.modifiers

    @property
    def declaration(self) -> str:
        """As source text: `no_diff inout float x`."""
        words = ["no_diff"] if self.no_diff else []
        words += [self.direction] if self.direction not in ("", "in") else []
        return " ".join([*words, self.type.name, self.name])

    @property
    def io_type(self) -> IOType:
        return _IO_TYPES.get(self.direction, IOType.inn)

    @property
    def differentiable(self) -> bool:
        """Whether a derivative goes through it."""
        return not self.no_diff and self.type.differentiable

    @property
    def derivative(self) -> SlangType:
        """The type of its derivative."""
        derivative = None if self.no_diff else self.type.derivative
        if derivative is None:
            raise ValueError(f"'{self.declaration}' is not differentiable")
        return derivative


class SlangField(SlangVariable):
    """A field of a struct."""

    __slots__ = ()


@record
class SlangParameter(SlangVariable):
    """A parameter of a function: its number, and whether Slang calls may leave it out."""

    has_default: bool
    index: int


# --- Kinds of types -----------------------------------------------------------------------------------


def _scalar_type(t: Any) -> Reflected:  # of a class that has the property, as all functions of the table
    return (
        KINDS.ScalarKind.uint64
        if t._model.kind == "pointer"
        else scalar_type_of(t._checked, lambda: t.ir_type)
    )


def innermost_type(t: SlangType) -> SlangType:
    """The innermost element: the numbers of a vector or matrix."""
    inner = t.element_type
    return t if inner is t else innermost_type(inner)


def _inside_arrays(t: SlangType) -> SlangType:
    inner: SlangType = t.element_type
    return _inside_arrays(inner) if isinstance(inner, ArrayType) else inner


def _array_dims(t: SlangType) -> int:
    return 1 + _array_dims(t.element_type) if isinstance(t, ArrayType) else 0


def _argument(t: Any) -> SlangType:  # of a class with `arguments`
    argument = t.arguments[0]
    return argument if isinstance(argument, SlangType) else t


def _usage(t: Any) -> Reflected:  # of a class with `writable`
    usage = TEXTURE_WORDS.TextureUsage
    return usage.unordered_access if t.writable else usage.shader_resource


_GRADIENTS = (TensorType.diff_tensor, TensorType.idiff_tensor)
# Properties of SlangPy's classes besides those of all types.
# fmt: off
_PROPERTIES: dict[str, tuple[Callable[[Any], object], str]] = {
    "slang_scalar_type":  (_scalar_type, "The TypeReflection.ScalarType of its numbers, of an enum that of its tag."),
    "scalar_type":        (innermost_type, "The type of its numbers."),
    "num_elements":       (lambda t: t.shape[0], "The outermost size; zero where it is open."),
    "rows":               (lambda t: t.shape[0], "The number of rows; zero where it is open."),
    "cols":               (lambda t: t.shape[1], "The number of columns; zero where it is open."),
    "array_dims":         (_array_dims, "How many arrays are inside of each other."),
    "array_shape":        (lambda t: Shape(t.shape[: t.array_dims]), "Their sizes, outermost first."),
    "any_generic_dims":   (lambda t: 0 in t.array_shape, "Whether a size is open."),
    "inner_element_type": (_inside_arrays, "The innermost element."),
    "target_type":        (lambda t: t.element_type, "The type of the pointee."),
    "primal":             (_argument, "The type of the value in the pair."),
    "dtype":              (_argument, "The type of the elements."),
    "element_type":       (_argument, "The type of the elements."),
    "resource_shape":     (lambda t: KINDS.ShapeKind[t._model.shape], "A TypeReflection.ResourceShape."),
    "resource_access":    (lambda t: KINDS.AccessKind[t._model.access], "A TypeReflection.ResourceAccess."),
    "texture_dims":       (lambda t: len(t._model.sizes), "The number of dimensions, that of the layers included."),
    "usage":              (_usage, "The TextureUsage that a texture for it has."),
    "tensor_kind":        (lambda t: TENSORS[t.base_name][0], "The family, a TensorType."),
    "tensor_type":        (lambda t: t.tensor_kind, "The family, a TensorType."),
    "access":             (lambda t: TensorAccess[t._model.access], "A TensorAccess."),
    "readable":           (lambda t: "read" in t._model.access, "Whether elements are read."),
    "writable":           (lambda t: "write" in t._model.access, "Whether elements are written."),
    "diff_tensor":        (lambda t: t.tensor_kind in _GRADIENTS, "Whether it has gradients."),
    "difftensor":         (lambda t: t.diff_tensor, "Whether it has gradients."),
    "has_grad_in":        (lambda t: t.diff_tensor and t.writable, "Whether gradients are read from it."),
    "has_grad_out":       (lambda t: t.diff_tensor and t.readable, "Whether gradients are added to it."),
    "dims":               (lambda t: len(t._model.sizes), "The rank; zero where that is open."),
}
# fmt: on


def _kind(
    name: str, text: str, properties: str = "", base: type[SlangType] = SlangType, **more: object
) -> type[SlangType]:
    """A class of types, which have some of the properties."""
    rows = {key: _PROPERTIES[key] for key in properties.split()}
    shown = {key: property(function, doc=doc) for key, (function, doc) in rows.items()}
    return type(name, (base,), {"__doc__": text, "__slots__": (), **shown, **more})


# fmt: off
UnknownType = _kind("UnknownType", "A generic parameter that is open, or no type at all.")
UnhandledType = _kind("UnhandledType", "A type of a kind that has no name here.")
VoidType = _kind("VoidType", "The type of functions without a result.")
StructType = _kind("StructType", "A struct of a module or of the standard library.")
InterfaceType = _kind("InterfaceType", "An interface.")
ScalarType = _kind("ScalarType", "A number or bool; an enum has the kind of its numbers.",
                   "slang_scalar_type scalar_type")
VectorType = _kind("VectorType", "`float3`.", "slang_scalar_type scalar_type num_elements")
MatrixType = _kind("MatrixType", "`float3x4`: rows that are vectors.", "slang_scalar_type scalar_type rows cols",
                   inner_element_type=property(innermost_type, doc="The type of its numbers."))
ArrayType = _kind("ArrayType", "`float[4]`, `float[4][3]`.",
                  "num_elements array_shape array_dims any_generic_dims inner_element_type")
PointerType = _kind("PointerType", "`float*`. An address is a number of the kind `slang_scalar_type`.",
                    "target_type slang_scalar_type")
DifferentialPairType = _kind("DifferentialPairType", "`DifferentialPair<float>`.", "primal")
SamplerStateType = _kind("SamplerStateType", "`SamplerState`.")
ResourceType = _kind("ResourceType", "Memory of the launch: buffers and textures.",
                     "resource_shape resource_access writable")
StructuredBufferType = _kind("StructuredBufferType", "`StructuredBuffer<T>`, `RWStructuredBuffer<T>`.", "dtype",
                             ResourceType)
ByteAddressBufferType = _kind("ByteAddressBufferType", "`ByteAddressBuffer`, `RWByteAddressBuffer`: bytes.", "",
                              ResourceType)
TextureType = _kind("TextureType", "`Texture2D<float4>` and its kin.", "dtype texture_dims usage",
                    ResourceType)
TensorViewType = _kind("TensorViewType", "`TensorView<float>`.", "dtype element_type")
DiffTensorViewType = _kind("DiffTensorViewType", "`DiffTensorView<float>`.", "", TensorViewType)
ITensorType = _kind("ITensorType", "`Tensor<float, 2>` and its kin, interfaces too.",
                    "dtype dims tensor_kind tensor_type access readable writable diff_tensor difftensor has_grad_in "
                    "has_grad_out", Kind=TensorType, Access=TensorAccess)

_KINDS = {
    "scalar": ScalarType, "vector": VectorType, "matrix": MatrixType, "array": ArrayType, "pointer": PointerType,
    "struct": StructType, "interface": InterfaceType, "generic_type_parameter": UnknownType,
}
# fmt: on
_STANDARD = {
    "DifferentialPair": DifferentialPairType,
    "TensorView": TensorViewType,
    "DiffTensorView": DiffTensorViewType,
    **dict.fromkeys(SAMPLERS, SamplerStateType),
    **dict.fromkeys(STRUCTURED, StructuredBufferType),
    **dict.fromkeys(BYTES, ByteAddressBufferType),
    **dict.fromkeys(TEXTURES, TextureType),
    **dict.fromkeys(TENSORS, ITensorType),
}


def slang_type_of(t: Type, types: ProgramTypes, program: object = None) -> SlangType:
    """A type as an object of its kind."""
    usual = VoidType if t is checked.VOID else _KINDS.get(model_of(t).kind, UnhandledType)
    return _STANDARD.get(standard_name(t), usual)(t, types, program)
