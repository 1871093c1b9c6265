"""Types, variables and attributes of a checked program, in SlangPy's words.

    found = module.layout.find_type_by_name("Hello<float3>")
    found.name, found.full_name                ->   "Hello", "Hello<vector<float,3>>"
    found.fields[0].type.kind                  ->   TypeKind.vector

What reflection shows is asked of the checker's own types and declarations. A `Context` is the program as seen from one
module; it makes each object once, and what holds an object holds the program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from slangrad.call.binding.program import ModuleTypes
from slangrad.check.interfaces.differentiable import has_no_diff
from slangrad.check.model import types as checked
from slangrad.check.model.declref import Declared
from slangrad.check.model.types import Type
from slangrad.check.modules import Program
from slangrad.check.names.user_attributes import UserAttribute, user_attributes, value_of
from slangrad.check.reflect import Reflection
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import Layout, layout_of
from slangrad.marshal.containers.buffers import BYTES, STRUCTURED, standard_name
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.spelling import full_name
from slangrad.marshal.reflection.type_kinds import AccessKind, ModifierID, ScalarKind, ShapeKind, TypeKind
from slangrad.syntax import ast
from slangrad.tensors.conversion import HostValue

Made = TypeVar("Made")
NOTHING = Layout(0, 1)

# fmt: off
_KINDS: dict[type, TypeKind] = {
    checked.Scalar:         TypeKind.scalar,
    checked.EnumType:       TypeKind.scalar,
    checked.Vector:         TypeKind.vector,
    checked.Matrix:         TypeKind.matrix,
    checked.Array:          TypeKind.array,
    checked.Pointer:        TypeKind.pointer,
    checked.StructType:     TypeKind.struct,
    checked.InterfaceType:  TypeKind.interface,
    checked.ParameterType:  TypeKind.generic_type_parameter,
    checked.AssociatedType: TypeKind.generic_type_parameter,
}
_NAMES: dict[type, str] = {
    checked.Vector: "vector", checked.Matrix: "matrix", checked.Array: "Array", checked.Pointer: "Ptr",
    checked.Tuple: "Tuple",
}
NUMBERS: dict[Type, ScalarKind] = {
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
_TEXTURES = {
    "Texture1D":   ShapeKind.texture_1d,     "Texture1DArray":   ShapeKind.texture_1d_array,
    "Texture2D":   ShapeKind.texture_2d,     "Texture2DArray":   ShapeKind.texture_2d_array,
    "Texture3D":   ShapeKind.texture_3d,
    "TextureCube": ShapeKind.texture_cube,   "TextureCubeArray": ShapeKind.texture_cube_array,
}
# Aliases of the standard library that users see as kinds of their own.
BLOCKS = {"ConstantBuffer": TypeKind.constant_buffer, "ParameterBlock": TypeKind.parameter_block}
_BLOCK_NAMES = {kind: name for name, kind in BLOCKS.items()}
# fmt: on

# Whether what is in a resource is written, by the name of the resource.
_RESOURCES = {
    **STRUCTURED,
    **BYTES,
    **dict.fromkeys(_TEXTURES, False),
    **{f"RW{name}": True for name in _TEXTURES},
}
_SAMPLERS = ("SamplerState", "SamplerComparisonState")

Members = tuple[tuple[ast.Declaration, Type], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A type as a declaration has it: perhaps inside of a constant buffer or parameter block, perhaps a struct of
    parameters that has no name and no type of the program."""

    type: Type
    block: TypeKind | None = None
    members: Members | None = None

    @property
    def inside(self) -> Form:
        """What is in the block."""
        return Form(self.type, None, self.members)


class Context:
    """A program as seen from one of its modules, and the reflection objects that were made of it."""

    def __init__(self, view: Reflection, lock: RLock) -> None:
        self.view = view
        self.types = ModuleTypes(view)  # its own: those of the module may know the device
        self.lock = lock
        self._made: WeakValueDictionary[Hashable, object] = WeakValueDictionary()

    @property
    def program(self) -> Program:
        return self.view.program

    def make(self, kind: Callable[..., Made], *parts: object) -> Made:
        """`kind(self, *parts)`, the same object for the same parts as long as somebody holds it."""
        with self.lock:
            found = cast("Made | None", self._made.get((kind, parts)))
            if found is None:
                found = self._made[kind, parts] = kind(self, *parts)
            return found

    def type_of(self, t: Type) -> TypeReflection:
        return self.make(TypeReflection, Form(t))

    @contextmanager
    def asking(self) -> Iterator[Program]:
        """The checker answers one thread at a time, as seen from the module. Mistakes in questions are not reported."""
        with self.lock, self.view.looking():
            yield self.program

    def type_of_variable(self, declaration: ast.Declaration) -> Type:
        with self.asking() as program:
            if isinstance(declaration, ast.Property):
                return program.info(declaration).result
            assert isinstance(declaration, (ast.Variable, ast.Parameter, ast.EnumCase))
            return program.info(declaration).type

    def layout(self, t: Type) -> Layout:
        with self.asking():
            lowered = self.types.lower(t)
        return NOTHING if lowered is None else layout_of(lowered)

    def fields(self, t: Type) -> Members:
        if not isinstance(t, checked.StructType):
            return ()
        with self.asking() as program:
            return tuple((reference.declaration, kind) for reference, kind in program.fields(t))

    def stored_fields(self, t: Type) -> Members:
        """With what is said about their place in memory, around them as well."""
        rules, struct = checked.rules_of(t), checked.unstored(t)
        if not isinstance(struct, checked.StructType):
            return ()
        with self.asking() as program:
            own = [(each.declaration, kind) for each, kind in program.fields(struct)]
            return tuple(
                (each, checked.stored(checked.stored(kind, program.info(each).rules), rules))
                for each, kind in own
            )

    def attributes(self, declaration: ast.Declaration) -> list[Attribute]:
        with self.asking() as program:
            return [self.make(Attribute, each) for each in user_attributes(program, declaration)]


def expect(given: object, kind: type[Made], where: str) -> Made:
    """What was given, if it is of the kind that can be asked about."""
    if not isinstance(given, kind):
        article = "an" if kind.__name__[0] in "aeiouAEIOU" else "a"
        message = f"{where}: {type(given).__name__} is not {article} {kind.__name__}"
        note = "layout.find_type_by_name(name) finds types" if kind is TypeReflection else None
        raise CallError("E1015", message, (), note)
    return given


class BaseReflectionObject:
    """What all of reflection has in common: an object holds the program that it shows, and shows it forever."""

    __slots__ = ("__weakref__", "_context")

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def is_valid(self) -> bool:
        """Whether the object may be asked, which is always."""
        return True


class Attribute(BaseReflectionObject):
    """An attribute that a struct of the program declares: `[Foo(42)]` of `struct FooAttribute { int value; }`."""

    __slots__ = ("_attribute",)

    def __init__(self, context: Context, attribute: UserAttribute) -> None:
        super().__init__(context)
        self._attribute = attribute

    def __repr__(self) -> str:
        return f"Attribute({self._attribute.node.span.text})"

    @property
    def name(self) -> str:
        """As it stands in brackets."""
        return self._attribute.node.name

    @property
    def argument_count(self) -> int:
        """How many arguments it is written with."""
        return len(self._attribute.node.arguments)

    def argument_type(self, index: int) -> TypeReflection:
        """The type of the field that an argument is for."""
        self._argument(index)
        return self._context.type_of(self._context.type_of_variable(self._attribute.fields[index]))

    def argument_value_int(self, index: int) -> int:
        """An argument as a whole number; CallError where it is none."""
        return int(self._value(index, (int,), "a whole number"))

    def argument_value_float(self, index: int) -> float:
        """An argument as a float; CallError where it is no number."""
        return float(self._value(index, (int, float), "a number"))

    def argument_value_string(self, index: int) -> str:
        """An argument as a text; CallError where it is none."""
        return str(self._value(index, (str,), "a text"))

    def _argument(self, index: int) -> ast.Expression:
        given = self._attribute.node.arguments
        if not 0 <= index < len(given):
            raise IndexError(f"[{self.name}] has no argument {index}: there are {len(given)}")
        return given[index]

    def _value(self, index: int, kinds: tuple[type, ...], what: str) -> HostValue:
        node = self._argument(index)
        with self._context.asking() as program:
            found = value_of(program, self._attribute.owner, node)
        if not isinstance(found, kinds):
            raise CallError("E1013", f"argument {index} of [{self.name}] is {found!r}, not {what}")
        return found


class Attributed(BaseReflectionObject, ABC):
    """What attributes can stand before."""

    __slots__ = ()

    @property
    @abstractmethod
    def _attributed(self) -> ast.Declaration | None:
        """The declaration that they stand before, if there is one."""

    @property
    def _attributes(self) -> list[Attribute]:
        declaration = self._attributed
        return [] if declaration is None else self._context.attributes(declaration)

    def get_user_attribute_count(self) -> int:
        return len(self._attributes)

    def get_user_attribute_by_index(self, index: int) -> Attribute:
        return self._attributes[index]

    def find_user_attribute_by_name(self, name: str) -> Attribute | None:
        """The first attribute of the program's own of that name."""
        return next((each for each in self._attributes if each.name == name), None)


class VariableReflection(Attributed):
    """A field, a parameter or a variable outside of functions, without its place in memory."""

    __slots__ = ("_form", "declaration")

    def __init__(self, context: Context, declaration: Declared, form: Form) -> None:
        super().__init__(context)
        self.declaration = declaration
        self._form = form

    def __repr__(self) -> str:
        return f"VariableReflection({self.name}: {self.type.full_name})"

    @property
    def name(self) -> str:
        """The name as it is declared."""
        name: str = self.declaration.name
        return name

    @property
    def type(self) -> TypeReflection:
        """The declared type."""
        return self._context.make(TypeReflection, self._form)

    @property
    def _attributed(self) -> ast.Declaration:
        node: ast.Declaration = self.declaration
        return node

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether a word stands before the variable. `in` is understood of parameters, `inout` is `out` as well."""
        direction = getattr(self.declaration, "direction", "")
        modifier = expect(modifier, ModifierID, "has_modifier")
        if modifier is ModifierID.nodiff:
            return has_no_diff(self.declaration)
        if modifier is ModifierID.out:
            return direction in ("out", "inout")
        if modifier in (ModifierID.inn, ModifierID.inout):
            return bool(direction == modifier.name.replace("inn", "in"))
        return bool(self.declaration.has(modifier.name))


class TypeReflection(Attributed):
    """A type, without its place in memory. Equal types of one program are equal."""

    Kind = TypeKind
    ScalarType = ScalarKind
    ResourceShape = ShapeKind
    ResourceAccess = AccessKind

    __slots__ = ("_form", "checked")

    def __init__(self, context: Context, form: Form) -> None:
        super().__init__(context)
        self._form = replace(form, type=checked.unstored(form.type))
        self.checked = self._form.type

    def __repr__(self) -> str:
        return f"TypeReflection({self.kind.name} {self.full_name})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeReflection):
            return other._form == self._form
        return getattr(other, "checked", None) is self.checked and self._form == Form(self.checked)

    def __hash__(self) -> int:
        return hash(self.checked)

    @property
    def name(self) -> str:
        """Without generic arguments: "Hello", "vector", "Array"."""
        if self._form.block is not None:
            return _BLOCK_NAMES[self._form.block]
        return "" if self._form.members is not None else short_name(self.checked)

    @property
    def full_name(self) -> str:
        """With generic arguments: "Hello<int>", "vector<float,3>", "float[4]"."""
        if self._form.members is not None:
            return self.name
        inside = full_name(self.checked)
        return inside if self._form.block is None else f"{self.name}<{inside}>"

    @property
    def ir_type(self) -> ir.Type | None:
        return self._context.types.lower(self.checked)

    @property
    def kind(self) -> TypeKind:
        """What kind of type it is."""
        if self._form.block is not None:
            return self._form.block
        if self._form.members is not None:
            return TypeKind.struct
        name = standard_name(self.checked)
        if name in _RESOURCES:
            return TypeKind.resource
        if name in _SAMPLERS:
            return TypeKind.sampler_state
        return _KINDS.get(type(self.checked), TypeKind.none)

    @property
    def fields(self) -> list[VariableReflection]:
        """The fields of a struct, or of a block with a struct."""
        if self._form.block is not None:
            return self._context.make(TypeReflection, self._form.inside).fields
        if self.kind is not TypeKind.struct:
            return []
        members = self._form.members
        found = self._context.fields(self.checked) if members is None else members
        return [
            self._context.make(VariableReflection, each, form_of(self._context, each, t)) for each, t in found
        ]

    @property
    def element_type(self) -> TypeReflection | None:
        """What an array, vector, matrix, buffer, pointer or block is made of."""
        if self._form.block is not None:
            return self._context.make(TypeReflection, self._form.inside)
        element = element_of(self.checked)
        return None if element is None else self._context.type_of(element)

    @property
    def scalar_type(self) -> ScalarKind:
        """The type of the numbers that a scalar, vector or matrix is made of."""
        t = self.checked
        if self._form.block is not None or self._form.members is not None:
            return ScalarKind.none
        if isinstance(t, checked.EnumType):
            with self._context.asking() as program:
                t = program.tag_type(t)
        if isinstance(t, (checked.Vector, checked.Matrix)):
            t = t.element
        return NUMBERS.get(t, ScalarKind.none)

    @property
    def row_count(self) -> int:
        """Rows of a matrix, 1 of vectors and scalars, else 0."""
        t = self.checked
        if isinstance(t, checked.Matrix):
            return _number(t.rows)
        return 1 if self.scalar_type not in (ScalarKind.none, ScalarKind.void) else 0

    @property
    def col_count(self) -> int:
        """Columns of a matrix, components of a vector, 1 of scalars, else 0."""
        t = self.checked
        if isinstance(t, checked.Matrix):
            return _number(t.columns)
        if isinstance(t, checked.Vector):
            return _number(t.count)
        return 1 if self.scalar_type not in (ScalarKind.none, ScalarKind.void) else 0

    @property
    def element_count(self) -> int:
        """Elements of an array, components of a vector; zero for all else."""
        t = self.checked
        return _number(t.count) if isinstance(t, (checked.Array, checked.Vector)) else 0

    @property
    def resource_shape(self) -> ShapeKind:
        """Which kind of buffer or texture it is."""
        name = standard_name(self.checked)
        if name in STRUCTURED:
            return ShapeKind.structured_buffer
        if name in BYTES:
            return ShapeKind.byte_address_buffer
        return _TEXTURES.get(name.removeprefix("RW"), ShapeKind.none)

    @property
    def resource_access(self) -> AccessKind:
        """Whether a resource is read, or read and written."""
        written = _RESOURCES.get(standard_name(self.checked))
        if written is None:
            return AccessKind.none
        return AccessKind.read_write if written else AccessKind.read

    @property
    def resource_result_type(self) -> TypeReflection | None:
        """What reading a resource gives."""
        element = element_of(self.checked) if self.kind is TypeKind.resource else None
        return None if element is None else self._context.type_of(element)

    def unwrap_array(self) -> TypeReflection:
        """Of arrays of any depth the element's type, else itself."""
        if self._form.block is not None or self._form.members is not None:
            return self
        return self._context.type_of(unwrapped(self.checked))

    @property
    def _attributed(self) -> ast.Declaration | None:
        return self.checked.declaration if isinstance(self.checked, checked.Nominal) else None


def form_of(context: Context, declaration: ast.Declaration, t: Type) -> Form:
    """The type of a variable as it is declared: `ConstantBuffer<T> x`, `cbuffer x { }`."""
    if isinstance(declaration, ast.BufferBlock):
        own = [each for each in declaration.members if isinstance(each, ast.Variable)]
        members = tuple((each, context.type_of_variable(each)) for each in own)
        return Form(checked.VOID, TypeKind.constant_buffer, members)
    written = getattr(declaration, "value_type", None)
    if isinstance(written, ast.GenericApplication) and isinstance(written.base, ast.Name):
        return Form(t, BLOCKS.get(written.base.name))
    return Form(t)


def element_of(t: Type) -> Type | None:
    """What indexing gives, or following a pointer."""
    rules, t = checked.rules_of(t), checked.unstored(t)
    name = standard_name(t)
    if name in _RESOURCES and name not in BYTES and isinstance(t, checked.StructType):
        found = t.arguments[0]
        return found if isinstance(found, Type) else None
    if isinstance(t, checked.Matrix):
        return checked.vector(t.element, t.columns)
    if isinstance(t, checked.Pointer):
        return t.element
    return checked.stored(t.element, rules) if isinstance(t, (checked.Vector, checked.Array)) else None


def unwrapped(t: Type) -> Type:
    """What is in all arrays."""
    while isinstance(t, checked.Array):
        t = t.element
    return t


def short_name(t: Type) -> str:
    """The name of a type without its arguments."""
    if isinstance(t, (checked.Nominal, checked.AssociatedType)):
        name: str = t.declaration.name
        return name
    return _NAMES.get(type(t)) or str(t)


def _number(count: object) -> int:
    return count if isinstance(count, int) else 0
