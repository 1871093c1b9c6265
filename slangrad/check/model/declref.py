"""A declaration and its substitution.

In: `Foo<float, 4>.bar`.   Out: DeclRef(bar, {T: float, N: 4}).

A substitution maps declarations of generic parameters to types and values; parameters are compared by
identity, so one flat mapping serves nested generics. An interface maps to the type that conforms to it,
`This` inside it; so does an extension of an interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slangrad.base.records import record
from slangrad.check.model.types import GenericArgument, Type, arguments_text, nominal_name
from slangrad.syntax import ast

GenericKey = ast.TypeParameter | ast.ValueParameter | ast.Interface | ast.Extension
Substitution = Mapping[GenericKey, GenericArgument]
Bindings = dict[GenericKey, GenericArgument]

EMPTY: Substitution = {}
Declared = Any  # a declaration, as in a DeclRef


@record
class DeclRef:
    """Compare by `key`: the declaration and the arguments of all generic parameters that it sees."""

    declaration: Any  # of the class that the form, or the meaning, around it states
    substitution: Substitution

    @property
    def arguments(self) -> tuple[GenericArgument | None, ...]:
        """Types and values of the generic parameters around and of the declaration, the outermost first."""
        return tuple(self.substitution.get(parameter) for parameter in visible_parameters(self.declaration))

    @property
    def key(self) -> tuple[object, ...]:
        return (self.declaration, *self.arguments)

    def type_for(self, parameter: GenericKey) -> Type:
        """The argument of a type parameter, or of `This`."""
        argument = self.substitution[parameter]
        assert isinstance(argument, Type)
        return argument

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        generics = getattr(self.declaration, "generics", ())
        arguments = [self.substitution.get(parameter, parameter.name) for parameter in generics]
        name = self.declaration.name + (arguments_text(arguments) if arguments else "")
        scope = self.declaration.parent
        if isinstance(scope, (ast.StructDeclaration, ast.EnumDeclaration)):
            around = tuple(
                self.substitution.get(parameter, parameter.name) for parameter in visible_parameters(scope)
            )
            return f"{nominal_name(scope, around)}.{name}"
        if isinstance(scope, ast.Interface):
            return f"{self.substitution.get(scope, scope.name)}.{name}"
        return str(name)


def visible_parameters(declaration: ast.Declaration) -> tuple[GenericKey, ...]:
    """All declarations that a substitution for `declaration` may map, the outermost first; `This` too."""
    parameters: list[GenericKey] = []
    scope: ast.Declaration | None = declaration
    while scope is not None:
        generics: list[GenericKey] = list(getattr(scope, "generics", ()))
        parameters[:0] = [*generics, scope] if isinstance(scope, (ast.Interface, ast.Extension)) else generics
        scope = scope.parent
    return tuple(parameters)
