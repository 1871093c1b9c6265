"""Rules for derivatives: of methods that satisfy an interface, of types, of functions in pairs.

In: a type that claims to conform, or a function and the one that is to be its derivative.   Out: errors.

    interface I { [Differentiable] float f(float x); }
    struct S : I { float f(float x) { ... } }       error: 'f' must be differentiable, because 'I' requires it

custom_derivatives.py compares signatures of custom derivatives, activity.py checks bodies.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.source import Span
from slangrad.check.generics.signatures import function_name
from slangrad.check.interfaces.differentiable import (
    differential,
    field_references,
    field_type,
    given_differential,
    has_no_diff,
    tangent,
)
from slangrad.check.interfaces.lookup import conforms_to
from slangrad.check.interfaces.witnesses import witness
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import InterfaceType, StructType, Type
from slangrad.check.names.places import accessor
from slangrad.syntax import ast

_RANK = {"none": 0, "forward": 1, "backward": 2}
_FUNCTIONS = (ast.FunctionDeclaration, ast.Constructor, ast.Property, ast.Subscript)
Pair = tuple[ast.AnyFunction, ast.AnyFunction]

# --- Requirements -------------------------------------------------------------------------------------


def check_levels(checker: Checker, kind: Type, interface: InterfaceType, span: Span) -> None:
    """Report members that satisfy a differentiable requirement and are not differentiable."""
    for requirement in interface.declaration.members:
        if not isinstance(requirement, _FUNCTIONS):
            continue
        reference = witness(checker, kind, interface, requirement)
        if reference is None or reference.declaration is requirement:
            continue
        for wanted, offered in _functions(requirement, reference.declaration):
            needed, info = checker.info(wanted).level, checker.info(offered)
            if _RANK["backward" if info.treat_as_differentiable else info.level] < _RANK[needed]:
                _report_level(checker, interface, reference.declaration, offered, needed, span)


def _functions(requirement: ast.Declaration, offered: ast.Declaration) -> Iterator[Pair]:
    """The compared pairs: the functions, or the accessors of the same name."""
    if isinstance(requirement, ast.AnyFunction) and isinstance(offered, ast.AnyFunction):
        yield requirement, offered
    elif isinstance(requirement, ast.Property | ast.Subscript):
        pairs = ((required, accessor(offered, required.name)) for required in requirement.accessors)
        yield from ((required, other) for required, other in pairs if other is not None)


def _report_level(
    checker: Checker,
    interface: InterfaceType,
    member: ast.Declaration,
    offered: ast.AnyFunction,
    needed: str,
    span: Span,
) -> None:
    message = f"'{function_name(member)}' must be differentiable, because '{interface}' requires it"
    attribute = "[Differentiable]" if needed == "backward" else "[ForwardDifferentiable]"
    written = not member.span.source.name.startswith("std/")
    place = (
        (offered.name_span if isinstance(offered, ast.FunctionDeclaration) else offered.span)
        if written
        else span
    )
    checker.error("E0411", message, place, f"mark it as {attribute}")


# --- Types --------------------------------------------------------------------------------------------


def check_differential(checker: Checker, kind: Type, interface: InterfaceType, span: Span) -> None:
    """Report a Differential that cannot be one, and fields that it leaves out."""
    if interface.declaration is not checker.standard("IDifferentiable") or not isinstance(kind, StructType):
        return
    pointers = checker.standard("IDifferentiablePtrType")
    if conforms_to(checker, kind, pointers) is not None:
        message = f"'{kind}' cannot conform to both IDifferentiable and IDifferentiablePtrType"
        checker.error("E0413", message, kind.declaration.name_span)
        return
    declared = given_differential(checker, kind)
    second = None if declared is None else tangent(checker, declared)
    if declared is None or second is None:
        return
    if second is not declared:
        message = (
            f"'{declared}' cannot be the Differential of '{kind}', because its own Differential is '{second}'"
        )
        checker.error("E0507", message, span, f"write 'typealias Differential = {declared};' in '{declared}'")
        return
    _check_fields(checker, kind, declared)


def _check_fields(checker: Checker, kind: StructType, declared: Type) -> None:
    info = differential(checker, kind)
    covered = (
        {field.declaration for field, to in info.fields if to is not None} if info is not None else set()
    )
    for field in field_references(kind):
        declaration = field.declaration
        if (
            has_no_diff(declaration)
            or declaration in covered
            or tangent(checker, field_type(checker, field)) is None
        ):
            continue
        message = f"'{declared}' has no field for the derivative of '{declaration.name}'"
        note = "add one of this name, or write [DerivativeMember(Differential.name)] or 'no_diff' before the field"
        checker.error("E0507", message, declaration.name_span, note)


# --- Pairs --------------------------------------------------------------------------------------------

_EXPLICIT = ("Differentiable", "BackwardDifferentiable", "ForwardDifferentiable")


def refused_pair(
    checker: Checker,
    kind: str,
    function: ast.FunctionDeclaration | ast.Accessor,
    derivative: ast.FunctionDeclaration,
) -> str | None:
    """Why one function cannot be a derivative, or the primal substitute, of another."""
    if isinstance(function.parent, ast.Interface) and function.body is None:
        return (
            f"'{function.name}' is required by an interface, so it is what satisfies it that has derivatives"
        )
    if isinstance(derivative.parent, ast.Interface) and derivative.body is None:
        return f"'{derivative.name}' is required by an interface, so it cannot be the derivative of '{function.name}'"
    owned, other = checker.info(function), checker.info(derivative)
    for declaration in (function, derivative):
        if getattr(checker.info(declaration), "throws", None) is not None:
            return f"'{declaration.name}' throws errors, so it neither has nor is a derivative"
    if owned.this_type is None and other.this_type is not None:
        return f"'{derivative.name}' must be static, because '{function.name}' has no 'this'"
    explicit = any(function.attribute(name) is not None for name in _EXPLICIT)
    if kind == "primal_substitute" and explicit and other.level == "none":
        return f"'{derivative.name}' must be differentiable to stand for '{function.name}', which is"
    return None
