"""Programs from outside: parameters, types, and how they lie in memory, in SlangPy's words.

    layout = program.layout
    layout.globals_type_layout.fields[0].name
    layout.entry_points[0].compute_thread_group_size     ->   uint3(32, 1, 1)
    layout.find_function_by_name("scale")
    program.reflection["main"]["count"].type             of a parameter of an entry point, by names and indices

Sizes and offsets are those of memory (ir/data/layout.py), for parameters as for elements of buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from slangrad.api.reflection.functions import FunctionReflection, constructor_of_fields, reflect_functions
from slangrad.api.reflection.types import (
    BaseReflectionObject,
    BlockType,
    ReflectionContext,
    TypeReflection,
    VariableReflection,
    declared_type,
    element_of,
    expect,
    value_type,
)
from slangrad.base.prints.brace_formats import text_hash
from slangrad.base.suggestions import suggestion
from slangrad.call.binding.module_index import reachable
from slangrad.check.interfaces.lookup import base_of
from slangrad.check.model.declref import Declared
from slangrad.check.model.types import ArrayType, InterfaceType, StructType, Type, innermost, unstored
from slangrad.check.reflect import CONSTRUCTOR, is_launch_parameter
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import Layout, round_up
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.vectors import HostVector, vector_class
from slangrad.marshal.protocol.program_types import Reflected
from slangrad.marshal.protocol.spelling import parse_generic_signature, spell
from slangrad.marshal.reflection.model import BLOCKS, InMemory
from slangrad.marshal.reflection.type_kinds import ShapeKind, TypeKind
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

if TYPE_CHECKING:
    from slangrad.api.kernels.shader import ShaderProgram, ShaderStage, SlangEntryPoint
    from slangrad.call.binding.program import ModuleTypes

Result = TypeVar("Result")


class TypeLayoutReflection(BaseReflectionObject, InMemory):
    """A type and how it lies in memory."""

    __slots__ = ("_type",)

    def __init__(self, context: ReflectionContext, t: Type) -> None:
        super().__init__(context)
        self._type = t

    def __repr__(self) -> str:
        return f"TypeLayoutReflection({self.kind.name} {self.type.full_name}, size={self.size})"

    @property
    def checked(self) -> Type:
        """The type of values in memory; a block has that of its content."""
        return value_type(self._type)

    @property
    def kind(self) -> TypeKind:
        """What kind of type it is."""
        kind: TypeKind = self.type.kind
        return kind

    @property
    def type(self) -> TypeReflection:
        """The type itself. A handle is laid out as its resource, so it has the resource's type, as in SlangPy."""
        return self._context.type_of(laid_out(self._type))

    @property
    def name(self) -> str:
        """Without generic arguments; `type.full_name` has them."""
        return self.type.name

    @property
    def ir_type(self) -> ir.Type | None:
        """The form of the type in memory; None for types without one."""
        return self._context.types.lower(self.checked)

    @property
    def memory(self) -> Layout:
        """Size and alignment in bytes."""
        return self._context.layout(self._type)

    @property
    def fields(self) -> list[VariableLayoutReflection]:
        """The fields of a struct, or of a block with a struct; all at zero where the type has no place in memory."""
        members = self._context.fields(self._type)
        offsets = self.memory.offsets or (0,) * len(members)
        return [
            self._context.make(VariableLayoutReflection, *member, at) for member, at in zip(members, offsets)
        ]

    @property
    def element_type_layout(self) -> TypeLayoutReflection | None:
        """The element of an array, vector, matrix, buffer or pointer, or the content of a block."""
        element = element_of(laid_out(self._type))
        return None if element is None else layout_for(self._context, element)

    def unwrap_array(self) -> TypeLayoutReflection:
        """Of arrays of any depth the element's layout, else itself."""
        return layout_for(self._context, innermost(self._type, ArrayType))


def laid_out(t: Type) -> Type:
    """The type whose kind a layout shows: T of `DescriptorHandle<T>`, else the type itself."""
    handle = unstored(t)
    if not isinstance(handle, StructType) or standard_name(handle) != "DescriptorHandle":
        return t
    resource: Type = handle.inner
    return resource


def layout_for(context: ReflectionContext, t: Type) -> TypeLayoutReflection:
    return context.make(TypeLayoutReflection, t)


class VariableLayoutReflection(VariableReflection):
    """A parameter or field: its name, its type, and its offset in the struct or block around it."""

    __slots__ = ("offset",)

    def __init__(self, context: ReflectionContext, declaration: Declared, t: Type, offset: int) -> None:
        super().__init__(context, declaration, t)
        self.offset = offset

    def __repr__(self) -> str:
        return f"VariableLayoutReflection({self.name}: {self.type.full_name}, offset={self.offset})"

    @property
    def type_layout(self) -> TypeLayoutReflection:
        """The type, with its place in memory."""
        return layout_for(self._context, self._type)

    @property
    def variable(self) -> VariableReflection:
        """The variable as it is declared."""
        return self._context.variable(self.declaration, self._type)

    @property
    def semantic_name(self) -> str:
        """`SV_DispatchThreadID` of `uint3 id : SV_DispatchThreadID`; empty without a semantic."""
        semantics = getattr(self.declaration, "semantics", ())
        return semantics[0].name if semantics else ""


class EntryPointLayout(BaseReflectionObject):
    """An entry point: its group size and parameters."""

    __slots__ = ("_members", "_sizes", "name", "name_override", "stage")

    def __init__(self, context: ReflectionContext, entry: SlangEntryPoint) -> None:
        super().__init__(context)
        self.name: str = entry.declaration.name
        self.name_override = entry.name
        self.stage: ShaderStage = entry.stage
        self._sizes = entry.group_size
        arguments = entry.reference.substitution
        with context.asking() as program:
            self._members = [
                (parameter, program.substitute(program.info(parameter).type, arguments))
                for parameter in program.info(entry.declaration).parameters
            ]

    def __repr__(self) -> str:
        return f"EntryPointLayout({self.name}, {self.stage.name}, {self._sizes})"

    @property
    def compute_thread_group_size(self) -> HostVector:
        """Threads in x, y and z, as a `uint3`."""
        return vector_class(ir.U32, 3)(*self._sizes)

    @property
    def parameters(self) -> list[VariableLayoutReflection]:
        """All of them. The launch passes one after the other. A value of the thread itself, such as
        `SV_DispatchThreadID` (its `semantic_name`), has no place there and the offset 0."""
        rows, end = [], 0
        context = self._context
        for declared, t in self._members:
            layout, at = context.layout(t), 0
            if is_launch_parameter(context.program, declared):
                at = round_up(end, layout.alignment)
                end = at + layout.size
            rows.append(context.make(VariableLayoutReflection, declared, declared_type(declared, t), at))
        return rows


class HashedString(NamedTuple):
    """A text and its number."""

    string: str
    hash: int


class ProgramLayout(BaseReflectionObject):
    """All parameters and entry points of a program, its types and functions by name.

    `find_...` return None for a missing name; `require_...` raise CallError, with similar names.
    """

    __slots__ = ("_contexts", "_globals", "entry_points")

    def __init__(self, program: ShaderProgram) -> None:
        self._contexts = [module.reflection_context for module in program.parts]
        super().__init__(self._contexts[0])
        self.entry_points = [EntryPointLayout(self._context, entry) for entry in program.entry_points]
        self._globals = self._context.block_of([parameter.declaration for parameter in program.globals])

    def __repr__(self) -> str:
        names = [parameter.name for parameter in self.parameters]
        return f"ProgramLayout(parameters={names}, entry_points={self.entry_points})"

    @property
    def types(self) -> ModuleTypes:
        """The types of the program as calls see them."""
        return self._context.types

    def reflection_of(self, t: Type) -> TypeReflection:
        """A checked type as kernels see it."""
        return self._context.type_of(t)

    @property
    def globals_type_layout(self) -> TypeLayoutReflection:
        """The parameters outside of functions: a constant buffer with a struct of them."""
        return layout_for(self._context, self._globals)

    @property
    def globals_variable_layout(self) -> VariableLayoutReflection:
        """The same as a variable with the name of the module."""
        module = self._context.view.module.declaration
        return self._context.make(VariableLayoutReflection, module, self._globals, 0)

    @property
    def parameters(self) -> list[VariableLayoutReflection]:
        """The parameters outside of functions."""
        return self.globals_type_layout.fields

    @property
    def hashed_strings(self) -> list[HashedString]:
        """The texts of the program with the numbers by which kernels know them (`PrintableString.hash`)."""
        modules = [module for context in self._contexts for module in reachable(context.view.module)]
        parts = [part for module in modules for part in module.files]
        texts = [node.value for part in parts for node in walk(part) if isinstance(node, ast.StringLiteral)]
        return [HashedString(text, text_hash(text)) for text in dict.fromkeys(texts)]

    # --- Names ---

    def find_entry_point_by_name(self, name: str) -> EntryPointLayout | None:
        """An entry point, or None."""
        return next((entry for entry in self.entry_points if name in (entry.name, entry.name_override)), None)

    def find_type_by_name(self, name: str) -> TypeReflection | None:
        """A type by name, its generic arguments filled in: "float3", "Grid<float, 4>"."""
        base, arguments = parse_generic_signature(expect(name, str, "find_type_by_name"))
        is_block = base in BLOCKS and bool(arguments)
        for context in self._contexts:
            with context.asking():
                t = context.types.find(arguments[0] if is_block else name)
            if t is not None:
                return context.type_of(BlockType(base, t) if is_block else t)
        return None

    def find_function_by_name(self, name: str) -> FunctionReflection | None:
        """The functions of a name, generic arguments perhaps in it: "scale", "scale<float>", "Grid<float>.at"."""
        expect(name, str, "find_function_by_name")
        for context in self._contexts:
            with context.asking():
                function = reflect_functions(context, context.view.find_functions(name))
            if function is not None:
                return function
        return None

    def find_function_by_name_in_type(self, type: TypeReflection, name: str) -> FunctionReflection | None:
        """The methods of a type of that name, those of its extensions and interfaces too. "$init" for constructors."""
        type = expect(type, TypeReflection, "find_function_by_name_in_type")
        context, t = type._context, type.checked
        with context.asking():
            if "<" in name:
                return reflect_functions(context, context.view.find_functions(f"{spell(t)}.{name}"))
            methods = reflect_functions(context, context.view.find_methods(t, name))
        is_missing = methods is None and name in (CONSTRUCTOR, "__init")
        return constructor_of_fields(context, t) if is_missing else methods

    def require_type_by_name(self, name: str) -> TypeReflection:
        """A type by name; CallError (E1012) where there is none."""
        return required(self.find_type_by_name(name), "type", name, self._names("type_names"))

    def require_function_by_name(self, name: str) -> FunctionReflection:
        """The functions of a name; CallError (E1012) where there are none."""
        return required(self.find_function_by_name(name), "function", name, self._names("function_names"))

    def require_function_by_name_in_type(self, type: TypeReflection, name: str) -> FunctionReflection:
        """The methods of a name; CallError (E1012) where there are none."""
        method = self.find_function_by_name_in_type(type, name)
        names = type._context.view.member_names(type.checked)
        return required(method, f"method in '{type.full_name}'", name, names)

    def require_entry_point_by_name(self, name: str) -> EntryPointLayout:
        """An entry point; CallError (E1012) where there is none."""
        names = [entry.name_override for entry in self.entry_points]
        return required(self.find_entry_point_by_name(name), "entry point", name, names)

    def _names(self, kind: str) -> list[str]:
        return [name for context in self._contexts for name in getattr(context.view, kind)()]

    # --- Types ---

    def get_type_layout(self, type: TypeReflection) -> TypeLayoutReflection:
        """How values of a type lie in memory."""
        type = expect(type, TypeReflection, "get_type_layout")
        return layout_for(type._context, type._shown)

    def is_sub_type(self, sub_type: TypeReflection, super_type: TypeReflection) -> bool:
        """Whether one type is the other, conforms to that interface, or inherits from that struct."""
        t: Type | None = expect(sub_type, TypeReflection, "is_sub_type").checked
        wanted = expect(super_type, TypeReflection, "is_sub_type").checked
        with self._context.asking() as program:
            if isinstance(wanted, InterfaceType):
                return t is wanted or self._context.view.conforms(sub_type.checked, wanted)
            while t is not None and t is not wanted:
                t = base_of(program, t)
            return t is not None


def required(result: Result | None, kind: str, name: str, names: Iterable[str]) -> Result:
    """A lookup's result. CallError (E1012) where there is none, with the most similar of `names`, or all of them."""
    if result is None:
        raise CallError("E1012", f"there is no {kind} named '{name}'", (), suggestion(name, names))
    return result


class ReflectionCursor:
    """Parameters by name, fields by name, elements by index: `program.reflection.particles`."""

    def __init__(self, shader_program: ShaderProgram) -> None:
        """All parameters and entry points of a program."""
        self._layout: Reflected = getattr(shader_program, "layout", None)
        self._missing: CallError | None = None
        if not isinstance(self._layout, ProgramLayout):
            kind = type(shader_program).__name__
            raise CallError("E1015", f"ReflectionCursor: {kind} is not a ShaderProgram")

    @classmethod
    def _of(cls, layout: object, missing: CallError | None = None) -> ReflectionCursor:
        cursor = cls.__new__(cls)
        cursor._layout, cursor._missing = layout, missing
        return cursor

    def __repr__(self) -> str:
        return f"ReflectionCursor({'nothing' if self._layout is None else self._layout})"

    def is_valid(self) -> bool:
        """Whether there is such a parameter, field or element; without one, all but this is an error."""
        return self._missing is None

    @property
    def type_layout(self) -> TypeLayoutReflection:
        """The type at this place with its memory; CallError (E1012) of a whole program."""
        self._require()
        if not isinstance(self._layout, TypeLayoutReflection):
            raise CallError("E1012", "an entry point or a whole program has no type")
        return self._layout

    @property
    def type(self) -> TypeReflection:
        """The type at this place."""
        return self.type_layout.type

    def has_field(self, name: str) -> bool:
        """Whether there is a field of that name."""
        return name in self._children()

    def find_field(self, name: str) -> ReflectionCursor:
        """The parameter or field of a name; `is_valid()` says whether there is one."""
        children = self._children()
        if name in children:
            return self._of(children[name])
        note = f"there are {', '.join(children) or 'none'}"
        return self._of(None, CallError("E1012", f"there is no parameter or field '{name}'", (), note))

    def has_element(self, index: int) -> bool:
        """Whether there is an element of that number."""
        return 0 <= index < self.type.element_count

    def find_element(self, index: int) -> ReflectionCursor:
        """The element of a number; IndexError where there is none."""
        if not self.has_element(index):
            raise IndexError(f"there is no element {index}")
        return self._of(self.type_layout.element_type_layout)

    def __getitem__(self, key: str | int) -> ReflectionCursor:
        part = self.find_element(key) if isinstance(key, int) else self.find_field(key)
        part._require()
        return part

    def __getattr__(self, name: str) -> ReflectionCursor:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self.has_field(name):
            raise AttributeError(f"there is no parameter or field '{name}'")
        return self.find_field(name)

    def _require(self) -> None:
        if self._missing is not None:
            raise self._missing

    def _children(self) -> dict[str, Reflected]:
        self._require()
        layout = self._layout
        entries = layout.entry_points if isinstance(layout, ProgramLayout) else ()
        variables = layout.fields if isinstance(layout, TypeLayoutReflection) else layout.parameters
        return {entry.name: entry for entry in entries} | {v.name: v.type_layout for v in variables}


def element_of_resource(layout: object) -> ir.Type | None:
    """The type of a structured buffer's elements; TypeError for everything else."""
    resource = layout.type_layout if isinstance(layout, ReflectionCursor) else layout
    if not isinstance(resource, TypeLayoutReflection):
        kind = type(layout).__name__
        raise TypeError(
            f"resource_type_layout: expected a TypeLayoutReflection or ReflectionCursor, not {kind}"
        )
    if resource.type.resource_shape is not ShapeKind.structured_buffer:
        raise TypeError(f"resource_type_layout: '{resource.type.full_name}' is no structured buffer")
    element = resource.element_type_layout
    return None if element is None else element.ir_type
