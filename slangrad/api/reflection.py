"""What programs look like from outside: parameters, types, and how they lie in memory, in SlangPy's words.

    layout = program.layout
    layout.globals_type_layout.fields[0].name
    layout.entry_points[0].compute_thread_group_size     ->   [32, 1, 1]

Sizes and offsets are those of memory (ir/layout.py), for parameters as for what buffers hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from slangrad.check import types as checked
from slangrad.check.types import Type
from slangrad.ir import types as ir
from slangrad.ir.layout import Layout, layout_of, round_up
from slangrad.marshal.buffers import BYTES, STRUCTURED, standard_name
from slangrad.syntax import ast

if TYPE_CHECKING:
    from slangrad.api.shader import GlobalParameter, ShaderProgram, ShaderStage, SlangEntryPoint

NOTHING = Layout(0, 1)


class TypeKind(Enum):
    """Kinds of types."""

    none = 0
    struct = 1
    array = 2
    matrix = 3
    vector = 4
    scalar = 5
    constant_buffer = 6
    resource = 7
    sampler_state = 8
    texture_buffer = 9
    shader_storage_buffer = 10
    parameter_block = 11
    generic_type_parameter = 12
    interface = 13
    output_stream = 14
    specialized = 16
    feedback = 17
    pointer = 18
    dynamic_resource = 19


class ScalarKind(Enum):
    """Types of numbers; `none` for what is not made of numbers."""

    none = 0
    void = 1
    bool = 2
    int32 = 3
    uint32 = 4
    int64 = 5
    uint64 = 6
    float16 = 7
    float32 = 8
    float64 = 9
    int8 = 10
    uint8 = 11
    int16 = 12
    uint16 = 13


class ShapeKind(Enum):
    """Shapes of resources."""

    none = 0
    structured_buffer = 1
    byte_address_buffer = 2


class AccessKind(Enum):
    """What may be done with a resource."""

    none = 0
    read = 1
    read_write = 2


_NUMBERS = {
    checked.VOID: ScalarKind.void,
    checked.BOOL: ScalarKind.bool,
    checked.INT8: ScalarKind.int8,
    checked.INT16: ScalarKind.int16,
    checked.INT: ScalarKind.int32,
    checked.INT64: ScalarKind.int64,
    checked.UINT8: ScalarKind.uint8,
    checked.UINT16: ScalarKind.uint16,
    checked.UINT: ScalarKind.uint32,
    checked.UINT64: ScalarKind.uint64,
    checked.HALF: ScalarKind.float16,
    checked.FLOAT: ScalarKind.float32,
    checked.DOUBLE: ScalarKind.float64,
}

# Aliases of the standard library that users see as kinds of their own.
_BLOCKS = {"ConstantBuffer": TypeKind.constant_buffer, "ParameterBlock": TypeKind.parameter_block}


def _block_kind(declared: Any) -> TypeKind | None:
    """The kind that a declaration writes around its type: `ConstantBuffer<T> x`."""
    if isinstance(declared, ast.BufferBlock):
        return TypeKind.constant_buffer
    written = getattr(declared, "value_type", None)
    if isinstance(written, ast.GenericApplication) and isinstance(written.base, ast.Name):
        return _BLOCKS.get(written.base.name)
    return None


class Facts:
    """What reflection asks of a program."""

    def __init__(self, program: ShaderProgram) -> None:
        self.checked: Any = program.session.program
        self.types = program.types

    def layout(self, t: Type) -> Layout:
        lowered = self.types.lower(t)
        return NOTHING if lowered is None else layout_of(lowered)

    def fields(self, t: Type) -> Iterator[tuple[ast.Declaration, Type]]:
        if isinstance(t, checked.StructType):
            for reference, kind in self.checked.fields(t):
                yield reference.declaration, kind


class TypeReflection:
    """A type, without its place in memory. Equal types of one program are equal."""

    Kind = TypeKind
    ScalarType = ScalarKind
    ResourceShape = ShapeKind
    ResourceAccess = AccessKind

    __slots__ = ("_facts", "checked")

    def __init__(self, facts: Facts, t: Type) -> None:
        self.checked = t
        self._facts = facts

    def __repr__(self) -> str:
        return f"TypeReflection({self.name})"

    def __eq__(self, other: object) -> bool:
        return getattr(other, "checked", None) is self.checked

    def __hash__(self) -> int:
        return hash(self.checked)

    @property
    def name(self) -> str:
        return str(self.checked)

    full_name = name

    @property
    def ir_type(self) -> ir.Type | None:
        return self._facts.types.lower(self.checked)

    @property
    def fields(self) -> list[FieldReflection]:
        """The fields of a struct."""
        return [FieldReflection(each.name, self._of(t)) for each, t in self._facts.fields(self.checked)]

    @property
    def element_type(self) -> TypeReflection | None:
        """What an array, vector, matrix, buffer or pointer is made of."""
        element = _element(self.checked)
        return None if element is None else self._of(element)

    def _of(self, t: Type) -> TypeReflection:
        return TypeReflection(self._facts, t)

    @property
    def kind(self) -> TypeKind:
        t = self.checked
        if standard_name(t) in (*STRUCTURED, *BYTES):
            return TypeKind.resource
        return _KINDS.get(type(t), TypeKind.none)

    @property
    def scalar_type(self) -> ScalarKind:
        """The type of the numbers that a scalar, vector or matrix is made of."""
        t = self.checked
        if isinstance(t, checked.EnumType):
            t = self._facts.checked.tag_type(t)
        if isinstance(t, (checked.Vector, checked.Matrix)):
            t = t.element
        return _NUMBERS.get(t, ScalarKind.none)

    @property
    def row_count(self) -> int:
        t = self.checked
        if isinstance(t, checked.Matrix):
            return _number(t.rows)
        return 1 if self.scalar_type is not ScalarKind.none else 0

    @property
    def col_count(self) -> int:
        t = self.checked
        if isinstance(t, checked.Matrix):
            return _number(t.columns)
        if isinstance(t, checked.Vector):
            return _number(t.count)
        return 1 if self.scalar_type is not ScalarKind.none else 0

    @property
    def element_count(self) -> int:
        """Elements of an array, components of a vector; zero for all else."""
        t = self.checked
        return _number(t.count) if isinstance(t, (checked.Array, checked.Vector)) else 0

    @property
    def resource_shape(self) -> ShapeKind:
        name = standard_name(self.checked)
        if name in STRUCTURED:
            return ShapeKind.structured_buffer
        return ShapeKind.byte_address_buffer if name in BYTES else ShapeKind.none

    @property
    def resource_access(self) -> AccessKind:
        written = {**STRUCTURED, **BYTES}.get(standard_name(self.checked))
        if written is None:
            return AccessKind.none
        return AccessKind.read_write if written else AccessKind.read

    @property
    def resource_result_type(self) -> TypeReflection | None:
        element = _element(self.checked)
        return self._of(element) if self.kind is TypeKind.resource and element is not None else None

    def unwrap_array(self) -> TypeReflection:
        t = self.checked
        while isinstance(t, checked.Array):
            t = t.element
        return self._of(t)


@dataclass(frozen=True, slots=True)
class FieldReflection:
    """A field of a type, without its place in memory."""

    name: str
    type: TypeReflection


# fmt: off
_KINDS: dict[type, TypeKind] = {
    checked.Scalar:        TypeKind.scalar,
    checked.EnumType:      TypeKind.scalar,
    checked.Vector:        TypeKind.vector,
    checked.Matrix:        TypeKind.matrix,
    checked.Array:         TypeKind.array,
    checked.Pointer:       TypeKind.pointer,
    checked.StructType:    TypeKind.struct,
    checked.InterfaceType: TypeKind.interface,
    checked.ParameterType: TypeKind.generic_type_parameter,
}
# fmt: on


def _number(count: Any) -> int:
    return count if isinstance(count, int) else 0


def _element(t: Type) -> Type | None:
    """What indexing gives, or following a pointer."""
    if standard_name(t) in STRUCTURED and isinstance(t, checked.StructType):
        found: Any = t.arguments[0]
        return found if isinstance(found, Type) else None
    if isinstance(t, checked.Matrix):
        return checked.vector(t.element, t.columns)
    if isinstance(t, (checked.Vector, checked.Array, checked.Pointer)):
        return t.element
    return None


class TypeLayoutReflection:
    """A type and how it lies in memory; `block`: the constant buffer or parameter block around it."""

    __slots__ = ("_block", "_facts", "_members", "checked")

    def __init__(
        self,
        facts: Facts,
        t: Type,
        block: TypeKind | None = None,
        members: Sequence[tuple[ast.Declaration, Type]] | None = None,
    ) -> None:
        self._facts = facts
        self.checked = t
        self._block = block
        self._members = members

    def __repr__(self) -> str:
        return f"TypeLayoutReflection({self.kind.name} {self.name}, size={self.size})"

    @property
    def kind(self) -> TypeKind:
        if self._block is not None:
            return self._block
        return TypeKind.struct if self._members is not None else self.type.kind

    @property
    def type(self) -> TypeReflection:
        return TypeReflection(self._facts, self.checked)

    @property
    def name(self) -> str:
        return "" if self._members is not None else str(self.checked)

    @property
    def ir_type(self) -> ir.Type | None:
        return None if self._members is not None else self._facts.types.lower(self.checked)

    @property
    def _layout(self) -> Layout:
        if self._members is None:
            return self._facts.layout(self.checked)
        end, alignment, offsets = 0, 1, []
        for declared, t in self._members:
            one = VariableLayoutReflection(self._facts, declared, t, 0).type_layout._layout
            offsets.append(round_up(end, one.alignment))
            end, alignment = offsets[-1] + one.size, max(alignment, one.alignment)
        return Layout(round_up(end, alignment), alignment, tuple(offsets))

    @property
    def size(self) -> int:
        return self._layout.size

    @property
    def alignment(self) -> int:
        return self._layout.alignment

    @property
    def stride(self) -> int:
        """The distance of elements of an array."""
        return self._layout.size

    @property
    def fields(self) -> list[VariableLayoutReflection]:
        """The fields of a struct."""
        if self.kind is not TypeKind.struct:
            return []
        found = self._facts.fields(self.checked) if self._members is None else self._members
        offsets = self._layout.offsets or (0,) * 1_000
        return [
            VariableLayoutReflection(self._facts, declared, t, offset)
            for (declared, t), offset in zip(found, offsets)
        ]

    @property
    def element_type_layout(self) -> TypeLayoutReflection | None:
        """Of an array, vector, matrix, buffer, pointer or block what is in it."""
        if self._block is not None:
            return TypeLayoutReflection(self._facts, self.checked, None, self._members)
        element = _element(self.checked)
        return None if element is None else TypeLayoutReflection(self._facts, element)

    def unwrap_array(self) -> TypeLayoutReflection:
        t = self.checked
        while isinstance(t, checked.Array):
            t = t.element
        return self if t is self.checked else TypeLayoutReflection(self._facts, t)


class VariableLayoutReflection:
    """A parameter or field: its name, its type, and where it lies in what holds it."""

    __slots__ = ("_facts", "declaration", "name", "offset", "type_layout")

    def __init__(self, facts: Facts, declared: ast.Declaration, t: Type, offset: int) -> None:
        self._facts = facts
        self.declaration = declared
        self.name = declared.name
        self.offset = offset
        members = None
        if isinstance(declared, ast.BufferBlock):
            own = [each for each in declared.members if isinstance(each, ast.Variable)]
            members = [(each, facts.checked.info(each).type) for each in own]
        self.type_layout = TypeLayoutReflection(facts, t, _block_kind(declared), members)

    def __repr__(self) -> str:
        return f"VariableLayoutReflection({self.name}: {self.type_layout.name}, offset={self.offset})"

    @property
    def type(self) -> TypeReflection:
        return self.type_layout.type

    @property
    def variable(self) -> VariableLayoutReflection:
        return self

    def has_modifier(self, modifier: Any) -> bool:
        return self.declaration.has(getattr(modifier, "name", str(modifier)).removesuffix("_"))


class EntryPointLayout:
    """An entry point and what the launch gives it."""

    def __init__(self, facts: Facts, entry: SlangEntryPoint) -> None:
        self._facts = facts
        self._entry = entry
        self.name: str = entry.declaration.name
        self.name_override = entry.name

    def __repr__(self) -> str:
        return f"EntryPointLayout({self.name}, {self.stage.name}, {self.compute_thread_group_size})"

    @property
    def stage(self) -> ShaderStage:
        return self._entry.stage

    @property
    def compute_thread_group_size(self) -> list[int]:
        return list(self._entry.group_size)

    @property
    def parameters(self) -> list[VariableLayoutReflection]:
        found, at = [], 0
        for declared, t in self._entry.parameters:
            layout = self._facts.layout(t)
            at = round_up(at, layout.alignment)
            found.append(VariableLayoutReflection(self._facts, declared, t, at))
            at += layout.size
        return found


class ProgramLayout:
    """All parameters and entry points of a program, and its types by name."""

    def __init__(self, program: ShaderProgram) -> None:
        self._program = program
        self._facts = Facts(program)
        self.entry_points = [EntryPointLayout(self._facts, each) for each in program.entry_points]

    def __repr__(self) -> str:
        names = [each.name for each in self.parameters]
        return f"ProgramLayout(parameters={names}, entry_points={self.entry_points})"

    @property
    def globals_type_layout(self) -> TypeLayoutReflection:
        """The parameters outside of functions, as if they were fields of a struct."""
        found = [(each.declaration, self._type_of(each)) for each in self._program.globals]
        return TypeLayoutReflection(self._facts, checked.VOID, None, found)

    def _type_of(self, parameter: GlobalParameter) -> Type:
        if parameter.is_block:
            return checked.VOID
        found: Type = self._facts.checked.info(parameter.declaration).type
        return found

    @property
    def parameters(self) -> list[VariableLayoutReflection]:
        return self.globals_type_layout.fields

    def find_entry_point_by_name(self, name: str) -> EntryPointLayout | None:
        return next((each for each in self.entry_points if name in (each.name, each.name_override)), None)

    def find_type_by_name(self, name: str) -> TypeReflection | None:
        found = self._facts.types.find(name)
        return None if found is None else TypeReflection(self._facts, found)

    def get_type_layout(self, type: TypeReflection) -> TypeLayoutReflection:
        return TypeLayoutReflection(self._facts, type.checked)

    def is_sub_type(self, sub_type: TypeReflection, super_type: TypeReflection) -> bool:
        """Whether one type is the other, or conforms to that interface."""
        if isinstance(super_type.checked, checked.InterfaceType):
            return self._facts.types.view.conforms(sub_type.checked, super_type.checked)
        return sub_type == super_type


def find_type_layout_for_buffer(
    program_layout: ProgramLayout, slang_type: str | TypeReflection | TypeLayoutReflection
) -> TypeLayoutReflection:
    """How values of a type lie in a buffer."""
    if isinstance(slang_type, TypeLayoutReflection):
        return slang_type
    found = program_layout.find_type_by_name(slang_type) if isinstance(slang_type, str) else slang_type
    if found is None:
        raise ValueError(f"the program has no type named '{slang_type}'")
    return program_layout.get_type_layout(found)
