"""What derivatives have to be: of methods that satisfy an interface, of types, of functions in pairs.

In: a type that claims to conform, or a function and the one that is to be its derivative.   Out: errors.

    interface I { [Differentiable] float f(float x); }
    struct S : I { float f(float x) { ... } }       error: 'f' must be differentiable, because 'I' requires it

Signatures of custom derivatives are compared in derivatives.py, what happens in bodies is in activity.py.
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
_FUNCTIONS = (ast.Function, ast.Constructor, ast.Property, ast.Subscript)
Pair = tuple[ast.AnyFunction, ast.AnyFunction]

# --- Requirements -------------------------------------------------------------------------------------


def check_levels(checker: Checker, kind: Type, interface: InterfaceType, span: Span) -> None:
    """Report members that satisfy a differentiable requirement and are not differentiable."""
    for requirement in interface.declaration.members:
        if not isinstance(requirement, _FUNCTIONS):
            continue
        found = witness(checker, kind, interface, requirement)
        if found is None or found.declaration is requirement:
            continue
        for wanted, offered in _functions(requirement, found.declaration):
            needed, own = checker.info(wanted).level, checker.info(offered)
            if _RANK["backward" if own.treat_as_differentiable else own.level] < _RANK[needed]:
                _report_level(checker, interface, found.declaration, offered, needed, span)


def _functions(requirement: ast.Declaration, found: ast.Declaration) -> Iterator[Pair]:
    """What is compared: the functions, or the accessors of the same name."""
    if isinstance(requirement, ast.AnyFunction) and isinstance(found, ast.AnyFunction):
        yield requirement, found
    elif isinstance(requirement, ast.Property | ast.Subscript):
        pairs = ((each, accessor(found, each.name)) for each in requirement.accessors)
        yield from ((one, other) for one, other in pairs if other is not None)


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
    place = (offered.name_span if isinstance(offered, ast.Function) else offered.span) if written else span
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
    given = given_differential(checker, kind)
    own = None if given is None else tangent(checker, given)
    if given is None or own is None:
        return
    if own is not given:
        message = f"'{given}' cannot be the Differential of '{kind}', because its own Differential is '{own}'"
        checker.error("E0507", message, span, f"write 'typealias Differential = {given};' in '{given}'")
        return
    _check_fields(checker, kind, given)


def _check_fields(checker: Checker, kind: StructType, given: Type) -> None:
    made = differential(checker, kind)
    known = {field.declaration for field, to in made.fields if to is not None} if made is not None else set()
    for field in field_references(kind):
        declaration = field.declaration
        if (
            has_no_diff(declaration)
            or declaration in known
            or tangent(checker, field_type(checker, field)) is None
        ):
            continue
        message = f"'{given}' has no field for the derivative of '{declaration.name}'"
        note = "add one of this name, or write [DerivativeMember(Differential.name)] or 'no_diff' before the field"
        checker.error("E0507", message, declaration.name_span, note)


# --- Pairs --------------------------------------------------------------------------------------------

_EXPLICIT = ("Differentiable", "BackwardDifferentiable", "ForwardDifferentiable")


def refused_pair(
    checker: Checker, kind: str, function: ast.Function | ast.Accessor, given: ast.Function
) -> str | None:
    """Why one function cannot be a derivative, or the primal substitute, of another."""
    if isinstance(function.parent, ast.Interface) and function.body is None:
        return (
            f"'{function.name}' is required by an interface, so it is what satisfies it that has derivatives"
        )
    if isinstance(given.parent, ast.Interface) and given.body is None:
        return (
            f"'{given.name}' is required by an interface, so it cannot be the derivative of '{function.name}'"
        )
    owned, other = checker.info(function), checker.info(given)
    for each in (function, given):
        if getattr(checker.info(each), "throws", None) is not None:
            return f"'{each.name}' throws errors, so it neither has nor is a derivative"
    if owned.this_type is None and other.this_type is not None:
        return f"'{given.name}' must be static, because '{function.name}' has no 'this'"
    explicit = any(function.attribute(each) is not None for each in _EXPLICIT)
    if kind == "primal_substitute" and explicit and other.level == "none":
        return f"'{given.name}' must be differentiable to stand for '{function.name}', which is"
    return None
