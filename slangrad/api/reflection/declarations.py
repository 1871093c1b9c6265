"""The declarations of a module as a tree, in SlangPy's words.

    module.module_decl.children[0].name
    struct = module.module_decl.find_first_child_of_kind(DeclReflection.Kind.struct, "Particle")
    struct.as_type().fields, struct.children_of_kind(DeclReflection.Kind.func)[0].as_function().parameters

The tree has the declarations of the text, in its order: members of modules, namespaces, types and blocks,
parameters of functions. A struct without a constructor has that of its fields as its last child. A generic
declaration is the last child of a node of the kind `generic`, behind its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slangrad.api.reflection.functions import (
    FunctionReflection,
    constructor_of_fields,
    reflect_function,
)
from slangrad.api.reflection.types import (
    BaseReflectionObject,
    ReflectionContext,
    TypeReflection,
    VariableReflection,
)
from slangrad.check.checked_module import CheckedModule
from slangrad.check.generics.substitution import self_type
from slangrad.check.interfaces.lookup import BASE
from slangrad.check.model.declref import Declared
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import Type, parameter_type
from slangrad.check.names.struct_fields import is_bit_field, is_word
from slangrad.check.reflect import FunctionView, written_generics
from slangrad.marshal.reflection.type_kinds import DeclarationKind
from slangrad.syntax import ast

# fmt: off
_KINDS: dict[type, DeclarationKind] = {
    ast.StructDeclaration:    DeclarationKind.struct,
    ast.FunctionDeclaration:  DeclarationKind.func,
    ast.Constructor:          DeclarationKind.func,
    ast.Variable:             DeclarationKind.variable,
    ast.ParameterDeclaration: DeclarationKind.variable,
    ast.ValueParameter:       DeclarationKind.variable,
    ast.BufferBlock:          DeclarationKind.variable,
    ast.Namespace:            DeclarationKind.namespace,
    ast.EnumDeclaration:      DeclarationKind.enum,
}
# fmt: on
_TYPES = (ast.StructDeclaration, ast.Interface, ast.EnumDeclaration)


class DeclReflection(BaseReflectionObject):
    """A declaration and, as a sequence, the declarations inside it. `kind` is that of a module, struct or function,
    say; `name` is `$init` of constructors, and empty for declarations without a name."""

    Kind = DeclarationKind

    __slots__ = ("_children", "_function", "_node", "kind", "name")

    def __init__(
        self,
        context: ReflectionContext,
        kind: DeclarationKind,
        name: str,
        children: Callable[[], list[DeclReflection]],
        node: Declared = None,
        function: FunctionReflection | None = None,
    ) -> None:
        """`node`: the declaration in the text, if there is one; `function`: its function, if it is one."""
        super().__init__(context)
        self.kind = kind
        self.name = name
        self._children = children
        self._node = node
        self._function = function

    def __repr__(self) -> str:
        return f"DeclReflection({self.kind.name} {self.name})"

    @property
    def children(self) -> list[DeclReflection]:
        """The declarations inside, in order."""
        return self._children()

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
        return [child for child in self.children if child.kind is kind]

    def find_children_of_kind(self, kind: DeclarationKind, child_name: str) -> list[DeclReflection]:
        """All children of a kind and a name: overloads have one name."""
        return [child for child in self.children_of_kind(kind) if child.name == child_name]

    def find_first_child_of_kind(self, kind: DeclarationKind, child_name: str) -> DeclReflection | None:
        """The first one inside of a kind and name, or None."""
        return next(iter(self.find_children_of_kind(kind, child_name)), None)

    def as_type(self) -> TypeReflection | None:
        """The type that it declares; its generic parameters are open. None for other declarations."""
        t = _declared_type(self._context, self._node)
        return None if t is None else self._context.type_of(t)

    def as_variable(self) -> VariableReflection | None:
        """The variable, field or parameter; None for all else."""
        if self.kind is not DeclarationKind.variable:
            return None
        node, context = self._node, self._context
        if isinstance(node, ast.ParameterDeclaration) and isinstance(
            node.parent, (ast.FunctionDeclaration, ast.Constructor)
        ):
            owner = context.make(_of_node, node.parent).as_function()
            return next(p for p in owner.parameters if p.declaration is node) if owner else None
        return context.variable(node, context.type_of_variable(node))

    def as_function(self) -> FunctionReflection | None:
        """The function, method or constructor; None for all else."""
        return self._function


def _of_modules(context: ReflectionContext, name: str, modules: tuple[CheckedModule, ...]) -> DeclReflection:
    """A module with all its files, or several that were composed."""

    def children() -> list[DeclReflection]:
        files = [part for module in modules for part in module.files]
        return [declared for part in files for declared in _reflect(context, part.members)]

    return DeclReflection(context, DeclarationKind.module, name, children)


def _of_node(context: ReflectionContext, node: Declared) -> DeclReflection:
    """A declaration of the text."""
    kind = _KINDS.get(type(node), DeclarationKind.unsupported)
    kind = DeclarationKind.variable if is_bit_field(node) else kind
    function = None
    if kind is DeclarationKind.func:
        function = reflect_function(context, FunctionView(context.program, Candidate(node, {})))

    def children() -> list[DeclReflection]:
        if function is not None:
            return _reflect(context, node.parameters)
        members = _reflect(context, getattr(node, "members", ()))
        is_struct = kind is DeclarationKind.struct
        constructor = constructor_of_fields(context, self_type(node)) if is_struct else None
        return members if constructor is None else [*members, context.make(_of_fields, constructor)]

    name = str(node.name) if function is None else function.name
    return DeclReflection(context, kind, name, children, node, function)


def _of_generic(context: ReflectionContext, node: object) -> DeclReflection:
    """The node around a generic declaration. As a type or function it is the generic one, without arguments."""
    inner = context.make(_of_node, node)

    def children() -> list[DeclReflection]:
        return [*_reflect(context, written_generics(node)), inner]

    return DeclReflection(context, DeclarationKind.generic, inner.name, children, node, inner.as_function())


def _of_fields(context: ReflectionContext, function: FunctionReflection) -> DeclReflection:
    """The constructor of a struct from its fields."""

    def children() -> list[DeclReflection]:
        return _reflect(context, [parameter.declaration for parameter in function.parameters])

    return DeclReflection(context, DeclarationKind.func, function.name, children, None, function)


def reflect_modules(
    context: ReflectionContext, name: str, modules: tuple[CheckedModule, ...]
) -> DeclReflection:
    """The tree of a module, or of those that it was composed of."""
    return context.make(_of_modules, name, modules)


def _reflect(context: ReflectionContext, members: Iterable[Declared]) -> list[DeclReflection]:
    return [
        context.make(_of_generic if written_generics(member) else _of_node, member)
        for member in members
        if not is_word(member) and not (member.name == BASE and member.has("internal"))  # the checker's own
    ]


def _declared_type(context: ReflectionContext, node: object) -> Type | None:
    if isinstance(node, _TYPES):
        t: Type = self_type(node)
        return t
    if isinstance(node, ast.TypeAlias) and not node.generics:
        return context.type_of_variable(node)
    return parameter_type(node) if isinstance(node, ast.TypeParameter) else None
