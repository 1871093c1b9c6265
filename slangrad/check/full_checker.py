"""The checker with the functions of all rooms.

In: the functions of each room.   Out: `FullChecker`, whose methods they are, under the names that `Checker` declares.

modules.py adds the modules of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.check.bodies import bodies, declarations, expressions
from slangrad.check.calls import calls, convert, initializers
from slangrad.check.derivatives import custom_derivatives
from slangrad.check.generics import substitution
from slangrad.check.interfaces import differentiable, lookup, witnesses
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import StructType, Type
from slangrad.check.names import constants, resolve, scopes


class FullChecker(Checker):
    """Lowering calls these functions, too; results are cached."""

    def fields(self, kind: StructType) -> tuple[tuple[DeclRef, Type], ...]:
        """The fields of a struct in order, and their types."""
        references = differentiable.field_references(kind)
        return tuple((reference, differentiable.field_type(self, reference)) for reference in references)

    substitute = (
        substitution.substitute
    )  # a type with generic parameters filled in, associated types looked up
    value = substitution.substitute_value  # the same for an integer
    tag_type = lookup.tag_type  # the integer type of an enum
    pointer_differential = differentiable.pointer_tangent  # of a type that conforms to IDifferentiablePtrType
    derivatives = custom_derivatives.derivatives  # the CustomDerivatives of a function
    known_value = staticmethod(constants.known_value)

    # --- Functions for lower folders, declared by Checker ---

    if not TYPE_CHECKING:  # Checker states which info a declaration has
        info = declarations.info
    differential = differentiable.differential
    size_of = constants.size_of
    conversion = convert.conversion
    associated = witnesses.associated
    required = witnesses.required
    scope_of = scopes.scope_of
    resolve_type = staticmethod(resolve.resolve_type)
    constant = staticmethod(constants.constant)
    check_value = staticmethod(expressions.check_value)
    check_argument = staticmethod(calls.check_argument)
    check_declaration = bodies.check_declaration
    check_synthesized = bodies.check_body
    plan_list = staticmethod(initializers.plan_list)
    explain_list = staticmethod(initializers.explain_list)
    plan_constructor = staticmethod(initializers.plan_constructor)
    # The function, subscript, property or variable of a reference: a requirement becomes the member of the concrete
    # type, an extension's, or a default. The last method, because it hides the module of this name.
    resolve = witnesses.resolve
