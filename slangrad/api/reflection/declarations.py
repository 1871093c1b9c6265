"""The declarations of a module as a tree, in SlangPy's words.

    module.module_decl.children[0].name
    struct = module.module_decl.find_first_child_of_kind(DeclReflection.Kind.struct, "Particle")
    struct.as_type().fields, struct.children_of_kind(DeclReflection.Kind.func)[0].as_function().parameters

The tree has what stands in the text, in its order: members of modules, namespaces, types and blocks, parameters of
functions. A struct without a constructor has that of its fields as its last child. A generic declaration is the last
child of a node of the kind `generic`, behind its parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from slangrad.api.reflection.functions import (
    FunctionReflection,
    constructor_of_fields,
    reflect_function,
)
from slangrad.api.reflection.types import (
    BaseReflectionObject,
    Context,
    TypeReflection,
    VariableReflection,
    form_of,
)
from slangrad.check.generics.substitution import self_type
from slangrad.check.interfaces.lookup import BASE
from slangrad.check.model import types as checked
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import Type, parameter_type
from slangrad.check.modules import Module
from slangrad.check.names.bit_fields import is_bit_field, is_word
from slangrad.check.reflect import FunctionView
from slangrad.marshal.type_kinds import DeclarationKind
from slangrad.syntax import ast

# fmt: off
_KINDS: dict[type, DeclarationKind] = {
    ast.Struct:         DeclarationKind.struct,
    ast.Function:       DeclarationKind.func,
    ast.Constructor:    DeclarationKind.func,
    ast.Variable:       DeclarationKind.variable,
    ast.Parameter:      DeclarationKind.variable,
    ast.ValueParameter: DeclarationKind.variable,
    ast.BufferBlock:    DeclarationKind.variable,
    ast.Namespace:      DeclarationKind.namespace,
    ast.Enum:           DeclarationKind.enum,
}
# fmt: on
_TYPES = (ast.Struct, ast.Interface, ast.Enum)


class DeclReflection(BaseReflectionObject, ABC):
    """A declaration and, as a sequence, what is declared in it."""

    Kind = DeclarationKind

    __slots__ = ()

    def __repr__(self) -> str:
        return f"DeclReflection({self.kind.name} {self.name})"

    @property
    @abstractmethod
    def kind(self) -> DeclarationKind:
        """What is declared: a module, a struct, a function, ..."""

    @property
    @abstractmethod
    def name(self) -> str:
        """`$init` of constructors; empty for what has none."""

    @property
    def children(self) -> list[DeclReflection]:
        """What is declared inside, in order."""
        return []

    @property
    def child_count(self) -> int:
        """How many declarations are inside."""
        return len(self.children)

    def __len__(self) -> int:
        return len(self.children)

    def __getitem__(self, index: int) -> DeclReflection:
        return self.children[index]

    def __iter__(self) -> Iterator[DeclReflection]:
        return iter(self.children)

    def __bool__(self) -> bool:
        return True

    def children_of_kind(self, kind: DeclarationKind) -> list[DeclReflection]:
        """Those inside that are of a kind."""
        return [each for each in self.children if each.kind is kind]

    def find_children_of_kind(self, kind: DeclarationKind, child_name: str) -> list[DeclReflection]:
        """All children of a kind and a name: overloads have one name."""
        return [each for each in self.children_of_kind(kind) if each.name == child_name]

    def find_first_child_of_kind(self, kind: DeclarationKind, child_name: str) -> DeclReflection | None:
        """The first one inside of a kind and name, or None."""
        return next(iter(self.find_children_of_kind(kind, child_name)), None)

    def as_type(self) -> TypeReflection | None:
        """The type that it declares; its generic parameters are open. None for what declares no type."""
        return None

    def as_variable(self) -> VariableReflection | None:
        """The variable, field or parameter; None for all else."""
        return None

    def as_function(self) -> FunctionReflection | None:
        """The function, method or constructor; None for all else."""
        return None


class ModuleDeclaration(DeclReflection):
    """A module with all its files, or several that were composed."""

    __slots__ = ("_modules", "_name")

    def __init__(self, context: Context, name: str, modules: tuple[Module, ...]) -> None:
        super().__init__(context)
        self._name = name
        self._modules = modules

    @property
    def kind(self) -> DeclarationKind:
        return DeclarationKind.module

    @property
    def name(self) -> str:
        return self._name

    @property
    def children(self) -> list[DeclReflection]:
        files = [part for module in self._modules for part in module.files]
        return [each for part in files for each in _reflect(self._context, part.members)]


class NodeDeclaration(DeclReflection):
    """A declaration of the text."""

    __slots__ = ("_node",)

    def __init__(self, context: Context, node: Any) -> None:
        super().__init__(context)
        self._node = node

    @property
    def kind(self) -> DeclarationKind:
        if is_bit_field(self._node):
            return DeclarationKind.variable
        return _KINDS.get(type(self._node), DeclarationKind.unsupported)

    @property
    def name(self) -> str:
        function = self.as_function()
        return str(self._node.name) if function is None else function.name

    @property
    def children(self) -> list[DeclReflection]:
        node = self._node
        if isinstance(node, (ast.Function, ast.Constructor)):
            return _reflect(self._context, node.parameters)
        found = _reflect(self._context, getattr(node, "members", ()))
        made = (
            constructor_of_fields(self._context, self_type(node))
            if self.kind is DeclarationKind.struct
            else None
        )
        return found if made is None else [*found, self._context.make(MadeConstructor, made)]

    def as_type(self) -> TypeReflection | None:
        found = _declared_type(self._context, self._node)
        return None if found is None else self._context.type_of(found)

    def as_variable(self) -> VariableReflection | None:
        if self.kind is not DeclarationKind.variable:
            return None
        node, context = self._node, self._context
        if isinstance(node, ast.Parameter) and isinstance(node.parent, (ast.Function, ast.Constructor)):
            owner = context.make(NodeDeclaration, node.parent).as_function()
            return next(each for each in owner.parameters if each.declaration is node) if owner else None
        is_block = isinstance(node, ast.BufferBlock)
        t = checked.VOID if is_block else context.type_of_variable(node)
        return context.make(VariableReflection, node, form_of(context, node, t))

    def as_function(self) -> FunctionReflection | None:
        if self.kind is not DeclarationKind.func:
            return None
        view = FunctionView(self._context.program, Candidate(self._node, {}))
        return reflect_function(self._context, view)


class GenericDeclaration(NodeDeclaration):
    """What stands around a generic declaration. As a type or function it is the generic one, nothing filled in."""

    __slots__ = ()

    @property
    def kind(self) -> DeclarationKind:
        return DeclarationKind.generic

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def children(self) -> list[DeclReflection]:
        return [*_reflect(self._context, _written(self._node)), self._inner]

    def as_function(self) -> FunctionReflection | None:
        return self._inner.as_function()

    @property
    def _inner(self) -> NodeDeclaration:
        return self._context.make(NodeDeclaration, self._node)


class MadeConstructor(DeclReflection):
    """The constructor that a struct has of its fields."""

    __slots__ = ("_function",)

    def __init__(self, context: Context, function: FunctionReflection) -> None:
        super().__init__(context)
        self._function = function

    @property
    def kind(self) -> DeclarationKind:
        return DeclarationKind.func

    @property
    def name(self) -> str:
        return self._function.name

    @property
    def children(self) -> list[DeclReflection]:
        fields = [each.declaration for each in self._function.parameters]
        return _reflect(self._context, fields)

    def as_function(self) -> FunctionReflection:
        return self._function


def reflect_modules(context: Context, name: str, modules: tuple[Module, ...]) -> DeclReflection:
    """The tree of a module, or of those that it was composed of."""
    return context.make(ModuleDeclaration, name, modules)


def _reflect(context: Context, members: Any) -> list[DeclReflection]:
    return [
        context.make(GenericDeclaration if _written(each) else NodeDeclaration, each)
        for each in members
        if not is_word(each) and not (each.name == BASE and each.has("internal"))  # the checker's own
    ]


def _written(node: Any) -> list[Any]:
    """The generic parameters that stand in the text."""
    return [each for each in getattr(node, "generics", ()) if not each.name.startswith("$")]


def _declared_type(context: Context, node: Any) -> Type | None:
    if isinstance(node, _TYPES):
        found: Type = self_type(node)
        return found
    if isinstance(node, ast.TypeAlias) and not node.generics:
        return context.type_of_variable(node)
    return parameter_type(node) if isinstance(node, ast.TypeParameter) else None
