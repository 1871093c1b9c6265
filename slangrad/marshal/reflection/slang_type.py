"""A type of a module as users see it: `module.float3`, `module.Particle`, `tensor.dtype`,
`function.parameters`.

    t = module.layout.find_type_by_name("Particle")
    t.full_name;  t.fields["mass"].type;  Tensor.empty(device, (100,), t)
    layout.find_function_by_name("update").parameters[0]   ->   SlangParameter("inout float value")

    t.buffer_layout.fields["mass"].offset      how it lies in memory, made of the type in memory alone

It stands for an element type wherever one is asked for (`ir_type`), and knows its derivative. What kinds of types have
of their own stands in `slang_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from slangrad.base.late import Late
from slangrad.check.model.types import Array, Matrix, Nominal, Type, Vector, is_abstract
from slangrad.ir.data import types as ir
from slangrad.ir.data.forms import part_of, without_room
from slangrad.ir.data.layout import Layout, layout_of
from slangrad.marshal.protocol.marshal import ProgramTypes, Reflected
from slangrad.marshal.protocol.patterns import row_of
from slangrad.marshal.protocol.spelling import full_name, spell
from slangrad.tensors.element_types import slang_name
from slangrad.tensors.shape import Shape


@dataclass(slots=True, eq=False, repr=False)
class SavedType(Type):
    """A declared type that was met in an earlier process: how it is shown, how it is written in a text, its form in
    memory, and its derivative."""

    text: str
    spelled: str
    lowered: ir.Type | None
    tangent: Type | None = None

    def __str__(self) -> str:
        return self.text


class SlangType:
    """A checked type together with the program that knows it. Equal types of one program are equal, and one object
    where the program was asked for them.
    """

    __slots__ = ("_given", "_program", "_types")

    _kind: ClassVar[str] = "none"
    # From type, types and program to a SlangType of its kind; slang_kinds.py has it.
    maker: ClassVar[Callable[..., SlangType]]

    def __init__(self, checked: Type, types: ProgramTypes, program: Reflected = None) -> None:
        self._given = checked
        self._types = types
        self._program = program

    @property
    def checked(self) -> Type:
        if isinstance(self._given, SavedType):
            found = self._types.find(self._given.spelled)
            assert found is not None, f"the program has lost its type '{self._given}'"
            self._given = found
        return self._given

    def _of(self, t: Type) -> SlangType:
        """Another type of the same program."""
        own = self._program
        made: SlangType = SlangType.maker(t, self._types) if own is None else own.type_of(t)
        return made

    def reload(self, checked: Type, types: ProgramTypes) -> None:
        """The type of the same name in a new program."""
        self._given, self._types = checked, types

    def __eq__(self, other: object) -> bool:
        checked = getattr(other, "checked", None)  # a reflected type has one, too
        return checked is self.checked if isinstance(checked, Type) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.checked)

    def __repr__(self) -> str:
        """As SlangPy shows types: its class is `refl::Type` there."""
        return f'refl::Type(full_name="{self.full_name}", kind={self._kind_name}, shape={list(self.shape)})'

    def __str__(self) -> str:
        return self.name

    @property
    def _kind_name(self) -> str:
        """The name of its TypeKind."""
        return self._kind

    @property
    def program(self) -> Reflected:
        """The SlangProgramLayout that knows the type; None for types that need no module."""
        return self._types.program() if self._program is None else self._program

    @property
    def struct(self) -> SlangType:
        return self

    @property
    def type_reflection(self) -> Reflected:
        """The type as kernels reflect it."""
        return self.program.reflection_of(self.checked)

    @property
    def name(self) -> str:
        """The name as Slang spells it."""
        return str(self._given)

    @property
    def spelled(self) -> str:
        """As a text writes it that is outside of all namespaces."""
        return self._given.spelled if isinstance(self._given, SavedType) else spell(self._given)

    @property
    def full_name(self) -> str:
        """The name with all generic arguments: `vector<float,3>`, `Box<float, 4>`."""
        return self._given.text if isinstance(self._given, SavedType) else full_name(self._given)

    vector_type_name = full_name

    @property
    def base_name(self) -> str:
        """The name without generic arguments; empty where the type is not declared by a name."""
        return str(self.checked.declaration.name) if isinstance(self.checked, Nominal) else ""

    @property
    def arguments(self) -> tuple[SlangType | int, ...]:
        """The generic arguments; of vectors and matrices element type and sizes."""
        return tuple(
            self._of(each) if isinstance(each, Type) else each for each in generic_arguments(self.checked)
        )

    @property
    def is_generic(self) -> bool:
        """Whether generic parameters are open in it."""
        return is_abstract(self.checked)

    @property
    def ir_type(self) -> ir.Type | None:
        """The type in memory; None for types that cannot be stored."""
        return self._given.lowered if isinstance(self._given, SavedType) else self._types.lower(self.checked)

    @property
    def element_type(self) -> SlangType:
        """What one index gives; the type itself where nothing can be indexed."""
        element = row_of(self.checked)
        return self if element is None else self._of(element)

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions of a value; zero for sizes that are open, -1 for those that differ from value to
        value.
        """
        return Shape(sizes_of(self.checked))

    @property
    def num_dims(self) -> int:
        """How many dimensions a value has: 0 of scalars and structs, 1 of vectors, 2 of matrices."""
        return len(self.shape)

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self._tangent() is not None

    def _tangent(self) -> Type | None:
        return self._given.tangent if isinstance(self._given, SavedType) else self._types.tangent(self._given)

    @property
    def derivative(self) -> SlangType | None:
        """The type of a tangent or cotangent."""
        found = self._tangent()
        return None if found is None else self._of(found)

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
        """How values lie in buffers."""
        lowered = self.ir_type
        if lowered is None:
            raise TypeError(f"values of type '{self.name}' cannot be stored in memory")
        return ElementLayout(lowered)

    uniform_layout = buffer_layout  # there is one layout

    @property
    def layout(self) -> Layout:
        """Size, alignment and offsets in memory."""
        return layout_of(self.buffer_layout.ir_type)


def sizes_of(t: Type) -> list[int]:
    sizes: list[int] = []
    part: Type | None = t
    while part is not None:
        if isinstance(part, Matrix):
            sizes.append(number(part.rows))
        elif isinstance(part, (Vector, Array)):
            sizes.append(number(part.count))
        part = row_of(part)
    return sizes


def number(count: object) -> int:
    """A size; zero where it is open."""
    return count if isinstance(count, int) else 0


def generic_arguments(t: Type) -> tuple[Any, ...]:  # types, numbers, packs
    """Types and values between the angle brackets of a type's name."""
    if isinstance(t, Vector):
        return (t.element, t.count)
    if isinstance(t, Matrix):
        return (t.element, t.rows, t.columns)
    return t.arguments if isinstance(t, Nominal) else ()


KINDS = Late("slangrad.marshal.reflection.type_kinds")


class IOType(Enum):
    """Whether a parameter is read, written, or both."""

    none = 0
    inn = 1
    out = 2
    inout = 3


_MODIFIERS = {"in": ("inn",), "out": ("out",), "inout": ("inout", "out"), "ref": ("inout", "out")}
_IO_TYPES = {"out": IOType.out, "inout": IOType.inout, "ref": IOType.inout}


class SlangVariable:
    """`direction` is "in", "out", "inout", "ref" or "constref", "" for fields."""

    __slots__ = ("direction", "name", "no_diff", "type")

    def __init__(self, name: str, type: SlangType, direction: str, no_diff: bool) -> None:
        self.name = name
        self.type = type
        self.direction = direction
        self.no_diff = no_diff

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}("{self.declaration}")'

    def __str__(self) -> str:
        return self.declaration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlangVariable) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.__class__, self.name, self.type, self.direction, self.no_diff

    @property
    def program(self) -> Reflected:
        """The SlangProgramLayout that it is from."""
        return self.type.program

    @property
    def modifiers(self) -> set[Reflected]:
        """The ModifierIDs of the words before it; `inout` is `out` as well."""
        words = (*_MODIFIERS.get(self.direction, ()), *(("nodiff",) if self.no_diff else ()))
        return {KINDS.ModifierID[each] for each in words}

    def has_modifier(self, modifier: object) -> bool:
        return modifier in self.modifiers

    @property
    def declaration(self) -> str:
        """As it is written: `no_diff inout float x`."""
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
        found = None if self.no_diff else self.type.derivative
        if found is None:
            raise ValueError(f"'{self.declaration}' is not differentiable")
        return found


class SlangField(SlangVariable):
    """A field of a struct."""

    __slots__ = ()


class SlangParameter(SlangVariable):
    """A parameter of a function: its number, and whether Slang calls may leave it out."""

    __slots__ = ("has_default", "index")

    def __init__(
        self, name: str, type: SlangType, direction: str, no_diff: bool, index: int, has_default: bool
    ) -> None:
        super().__init__(name, type, direction, no_diff)
        self.index = index
        self.has_default = has_default


# fmt: off
_KINDS: dict[type, str] = {
    ir.Scalar: "scalar", ir.Vector: "vector", ir.Matrix: "matrix", ir.Array: "array", ir.Struct: "struct",
    ir.Pointer: "pointer",
}
_SCALARS: dict[ir.Scalar, str] = {
    ir.BOOL: "bool", ir.I8: "int8", ir.I16: "int16", ir.I32: "int32", ir.I64: "int64", ir.U8: "uint8", ir.U16: "uint16",
    ir.U32: "uint32", ir.U64: "uint64", ir.F16: "float16", ir.F32: "float32", ir.F64: "float64",
}
# fmt: on


class ElementLayout:
    """A type and how it lies in memory; of a field also where."""

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
    def reflection(self) -> ElementLayout:
        return self

    @property
    def type(self) -> ElementLayout:
        return self

    type_layout = type

    @property
    def full_name(self) -> str:
        return slang_name(self.ir_type)

    @property
    def kind(self) -> Reflected:
        return KINDS.TypeKind[_KINDS[ir.value_of(self.ir_type).__class__]]

    @property
    def size(self) -> int:
        return layout_of(self.ir_type).size

    @property
    def stride(self) -> int:
        """The distance of elements of an array."""
        return self.size

    @property
    def alignment(self) -> int:
        return layout_of(self.ir_type).alignment

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
        """What an index gives, or a pointer leads to."""
        t = ir.value_of(self.ir_type)
        if isinstance(t, (ir.Vector, ir.Array, ir.Pointer)):
            return ElementLayout(t.element)
        return ElementLayout(ir.vector(t.element, t.columns)) if isinstance(t, ir.Matrix) else None

    @property
    def element_count(self) -> int:
        """Elements of an array, components of a vector; zero for all else."""
        t = ir.value_of(self.ir_type)
        return (t.length or 0) if isinstance(t, (ir.Array, ir.Vector)) else 0

    @property
    def scalar_type(self) -> Reflected:
        """The type of the numbers that a scalar, vector or matrix is made of."""
        found = ir.scalar_of(ir.value_of(self.ir_type))
        return KINDS.ScalarKind["none" if found is None else _SCALARS[found]]

    @property
    def row_count(self) -> int:
        t = ir.value_of(self.ir_type)
        return t.rows if isinstance(t, ir.Matrix) else int(ir.scalar_of(t) is not None)

    @property
    def col_count(self) -> int:
        t = ir.value_of(self.ir_type)
        if isinstance(t, ir.Matrix):
            return t.columns
        return t.length if isinstance(t, ir.Vector) else int(ir.scalar_of(t) is not None)
