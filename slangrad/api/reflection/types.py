"""Types, variables and attributes of a checked program, in SlangPy's words.

    hello = module.layout.find_type_by_name("Hello<float3>")
    hello.name, hello.full_name                ->   "Hello", "Hello<vector<float,3>>"
    hello.fields[0].type.kind                  ->   TypeKind.vector

The model of a type is in `marshal/reflection/model.py`. A `ReflectionContext` is the program as seen from one
module; it makes each object once, and each object keeps the program alive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from slangrad.call.binding.program import ModuleTypes
from slangrad.check.interfaces.differentiable import has_no_diff
from slangrad.check.model.declref import Declared
from slangrad.check.model.types import (
    VOID,
    ArrayType,
    Nominal,
    StructType,
    Type,
    innermost,
    rules_of,
    stored,
    unstored,
)
from slangrad.check.modules import CheckedProgram
from slangrad.check.names.attributes import UserAttribute, user_attributes, value_of
from slangrad.check.reflect import Reflection
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import Layout, composite, layout_of
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.spelling import full_name
from slangrad.marshal.reflection.model import (
    BLOCKS,
    MODELS,
    TypeModel,
    TypeProperties,
    model_of,
    scalar_type_of,
    short_name,
)
from slangrad.marshal.reflection.slang_type import DIRECTIONS
from slangrad.marshal.reflection.type_kinds import AccessKind, ModifierID, ScalarKind, ShapeKind, TypeKind
from slangrad.syntax import ast
from slangrad.tensors.elements.conversion import HostValue

Made = TypeVar("Made")
Members = tuple[tuple[Declared, Type], ...]
NOTHING = Layout(0, 1)


@dataclass(slots=True, unsafe_hash=True, repr=False)
class BlockType(Type):
    """`ConstantBuffer<T>`, `ParameterBlock<T>`, or `cbuffer { }`: kernels have a value of the type `inner`."""

    name: str
    inner: Type

    def __str__(self) -> str:
        inner = full_name(self.inner)
        return f"{self.name}<{inner}>" if inner else self.name


@dataclass(slots=True, unsafe_hash=True, repr=False)
class MembersType(Type):
    """The parameters in a block: a struct without a name."""

    members: Members

    def __str__(self) -> str:
        return ""


MODELS[BlockType] = lambda t: TypeModel(BLOCKS[t.name], (), t.inner)
MODELS[MembersType] = lambda t: TypeModel("struct")


class ReflectionContext:
    """A program as seen from one of its modules, and the reflection objects that were made of it."""

    def __init__(self, view: Reflection, lock: RLock) -> None:
        self.view = view
        self.types = ModuleTypes(view)  # its own: those of the module may know the device
        self.lock = lock
        self._layouts: WeakValueDictionary[Hashable, object] = WeakValueDictionary()

    @property
    def program(self) -> CheckedProgram:
        return self.view.program

    def make(self, kind: Callable[..., Made], *parts: object) -> Made:
        """`kind(self, *parts)`, the same object for the same parts as long as it is referenced."""
        with self.lock:
            kept = cast("Made | None", self._layouts.get((kind, parts)))
            if kept is None:
                kept = self._layouts[kind, parts] = kind(self, *parts)
            return kept

    def type_of(self, t: Type) -> TypeReflection:
        return self.make(TypeReflection, without_rules(t))

    def variable(self, declaration: Declared, t: Type) -> VariableReflection:
        return self.make(VariableReflection, declaration, without_rules(t))

    @contextmanager
    def asking(self) -> Iterator[CheckedProgram]:
        """A context for lookups by the checker from the module, in one thread at a time. Their errors are not
        reported."""
        with self.lock, self.view.looking():
            yield self.program

    def type_of_variable(self, declaration: ast.Declaration) -> Type:
        """The type as it is declared: of `ConstantBuffer<T> x` and `cbuffer x { }` a block."""
        if isinstance(declaration, ast.BufferBlock):
            variables = [member for member in declaration.members if isinstance(member, ast.Variable)]
            return self.block_of(variables)
        with self.asking() as program:
            if isinstance(declaration, ast.Property):
                return program.info(declaration).result
            assert isinstance(declaration, (ast.Variable, ast.ParameterDeclaration, ast.EnumCase))
            return declared_type(declaration, program.info(declaration).type)

    def block_of(self, variables: Sequence[ast.Declaration]) -> Type:
        """A constant buffer with a struct of these."""
        return BlockType(
            "ConstantBuffer", MembersType(tuple((d, self.type_of_variable(d)) for d in variables))
        )

    def layout(self, t: Type) -> Layout:
        """How values lie in memory; without size where the type has no place there."""
        if isinstance(t, BlockType):
            return self.layout(t.inner)
        if isinstance(t, MembersType):
            return composite([self.layout(member) for _, member in t.members])
        with self.asking():
            lowered = self.types.lower(t)
        return NOTHING if lowered is None else layout_of(lowered)

    def fields(self, t: Type) -> Members:
        """The fields of a struct, or of a block with a struct, with the attributes of their place in memory."""
        t = t.inner if isinstance(t, BlockType) else t
        if isinstance(t, MembersType):
            return t.members
        rules, struct = rules_of(t), unstored(t)
        if not isinstance(struct, StructType) or model_of(struct).kind != "struct":
            return ()
        with self.asking():
            return tuple(
                (field.declaration, declared_type(field.declaration, stored(field.stored, rules)))
                for field in self.view.fields(struct)
            )

    def attributes(self, declaration: ast.Declaration) -> list[Attribute]:
        with self.asking() as program:
            return [self.make(Attribute, attribute) for attribute in user_attributes(program, declaration)]


def expect(value: object, kind: type[Made], call: str) -> Made:
    """The argument of a lookup; CallError (E1015) where it is of another class."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "aeiouAEIOU" else "a"
        message = f"{call}: {type(value).__name__} is not {article} {kind.__name__}"
        note = "layout.find_type_by_name(name) finds types" if kind is TypeReflection else None
        raise CallError("E1015", message, (), note)
    return value


class BaseReflectionObject:
    """The base of all reflection: an object keeps the program that it shows, also when a newer one is loaded."""

    __slots__ = ("__weakref__", "_context")

    def __init__(self, context: ReflectionContext) -> None:
        self._context = context

    @property
    def is_valid(self) -> bool:
        """Whether the object can be used, which is always so."""
        return True


class Attribute(BaseReflectionObject):
    """An attribute whose struct the program declares: `[Foo(42)]` of `struct FooAttribute { int value; }`."""

    __slots__ = ("_attribute",)

    def __init__(self, context: ReflectionContext, attribute: UserAttribute) -> None:
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
        arguments = self._attribute.node.arguments
        if not 0 <= index < len(arguments):
            raise IndexError(f"[{self.name}] has no argument {index}: there are {len(arguments)}")
        return arguments[index]

    def _value(self, index: int, kinds: tuple[type, ...], expected: str) -> HostValue:
        node = self._argument(index)
        with self._context.asking() as program:
            value = value_of(program, self._attribute.owner, node)
        if not isinstance(value, kinds):
            raise CallError("E1013", f"argument {index} of [{self.name}] is {value!r}, not {expected}")
        return value


class Attributed(BaseReflectionObject, ABC):
    """A type, function or variable: declarations that may have attributes."""

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
        return next((attribute for attribute in self._attributes if attribute.name == name), None)


class VariableReflection(Attributed):
    """A field, a parameter or a variable outside of functions, without its place in memory."""

    __slots__ = ("_type", "declaration")

    def __init__(self, context: ReflectionContext, declaration: Declared, t: Type) -> None:
        super().__init__(context)
        self.declaration = declaration
        self._type = t

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
        return self._context.type_of(self._type)

    @property
    def _attributed(self) -> ast.Declaration:
        node: ast.Declaration = self.declaration
        return node

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether the variable has a modifier. Parameters without one are `in`; `inout` counts as `out`, too."""
        name = expect(modifier, ModifierID, "has_modifier").name
        if name == "nodiff":
            return has_no_diff(self.declaration)
        written = DIRECTIONS.get(getattr(self.declaration, "direction", ""), ())
        return name in written or bool(self.declaration.has(name))


class TypeReflection(Attributed, TypeProperties):
    """A type, without its place in memory. Equal types of one program are equal."""

    Kind = TypeKind
    ScalarType = ScalarKind
    ResourceShape = ShapeKind
    ResourceAccess = AccessKind

    __slots__ = ("_shown",)

    _shown: Type  # of a declaration: perhaps a block, or the parameters in one

    def __init__(self, context: ReflectionContext, t: Type) -> None:
        super().__init__(context)
        self._shown = t

    def __repr__(self) -> str:
        return f"TypeReflection({self.kind.name} {self.full_name})"

    def __eq__(self, other: object) -> bool:
        shown = other._shown if isinstance(other, TypeReflection) else getattr(other, "checked", None)
        return bool(shown == self._shown)

    def __hash__(self) -> int:
        return hash(self._shown)

    @property
    def checked(self) -> Type:
        """The type of values; a block has that of its content."""
        return value_type(self._shown)

    @property
    def name(self) -> str:
        """Without generic arguments: "Hello", "vector", "Array"."""
        return short_name(self._shown)

    @property
    def full_name(self) -> str:
        """With generic arguments: "Hello<int>", "vector<float,3>", "float[4]"."""
        return full_name(self._shown)

    @property
    def ir_type(self) -> ir.Type | None:
        """The form of the type in memory; None for types without one."""
        return self._context.types.lower(self.checked)

    @property
    def scalar_type(self) -> ScalarKind:
        """The type of the numbers that a scalar, vector or matrix is made of; that of the tag of an enum."""
        kind: ScalarKind = scalar_type_of(self._shown, lambda: self.ir_type)
        return kind

    @property
    def fields(self) -> list[VariableReflection]:
        """The fields of a struct, or of a block with a struct."""
        return [self._context.variable(*member) for member in self._context.fields(self._shown)]

    @property
    def element_type(self) -> TypeReflection | None:
        """The element of an array, vector, matrix, buffer, pointer or block."""
        element = element_of(self._shown)
        return None if element is None else self._context.type_of(element)

    @property
    def resource_shape(self) -> ShapeKind:
        """Which kind of buffer or texture it is."""
        return ShapeKind[model_of(self._shown).shape]

    @property
    def resource_access(self) -> AccessKind:
        """Whether a resource is read, or read and written."""
        model = model_of(self._shown)
        return AccessKind[model.access if model.kind == "resource" else "none"]

    @property
    def resource_result_type(self) -> TypeReflection | None:
        """The type of the values that a read of a resource returns."""
        return self.element_type if self.kind is TypeKind.resource else None

    def unwrap_array(self) -> TypeReflection:
        """Of arrays of any depth the element's type, else itself."""
        return self._context.type_of(innermost(self._shown, ArrayType))

    @property
    def _attributed(self) -> ast.Declaration | None:
        return self.checked.declaration if isinstance(self.checked, Nominal) else None


def declared_type(declaration: ast.Declaration, t: Type) -> Type:
    """The type of a variable with the block that its declaration writes around it."""
    written = getattr(declaration, "value_type", None)
    if isinstance(written, ast.GenericApplication) and isinstance(written.base, ast.Name):
        return BlockType(written.base.name, t) if written.base.name in BLOCKS else t
    return t


def value_type(t: Type) -> Type:
    """The type that kernels compute with; a block has that of its content."""
    value = t.inner if isinstance(t, BlockType) else t
    return VOID if isinstance(value, MembersType) else value


def without_rules(t: Type) -> Type:
    """The type without its attributes of memory."""
    return BlockType(t.name, unstored(t.inner)) if isinstance(t, BlockType) else unstored(t)


def element_of(t: Type) -> Type | None:
    """The type of `x[i]`, or of `*x`; None for structs (tensors are structs), and for bytes."""
    rules, model = rules_of(t), model_of(unstored(t))
    if model.element is None or model.kind in ("struct", "interface") or model.shape == "byte_address_buffer":
        return None
    return stored(model.element, rules) if model.kind in ("vector", "array") else model.element
