"""Declarations that stand where they mean nothing, and parameters of extensions that no type can tell.

    struct S { interface I {} }              E0414: an interface does not belong into a struct
    extension S { int field; }               E0414: an extension adds no fields; `extern` says that it is there
    extension<T> int { void f() {} }         E0415: 'T' is no part of 'int'

In: a container of declarations, or an extension.   Out: errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.check.model.checker import Checker
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

_ADDS_NO_FIELDS = "an extension adds no fields to a type"
_HAS_NO_FIELDS = "an interface has no fields"
_TYPES_OF_INTERFACES = "declare it outside, or an associatedtype"

# fmt: off
_MISPLACED: dict[type[ast.Declaration], dict[type[ast.Declaration], tuple[str, str]]] = {
    ast.Extension: {ast.Variable: (_ADDS_NO_FIELDS, "make it static, or a property")},
    ast.Interface: {
        ast.Variable: (_HAS_NO_FIELDS, "make it 'static const', or a property"),
        ast.StructDeclaration: ("a struct does not belong into an interface", _TYPES_OF_INTERFACES),
        ast.EnumDeclaration: ("an enum does not belong into an interface", _TYPES_OF_INTERFACES),
    },
    ast.StructDeclaration: {
        ast.Interface: ("an interface does not belong into a struct", "declare it outside"),
        ast.Extension: ("an extension does not belong into a struct", "declare it outside"),
        ast.Namespace: ("a namespace does not belong into a struct", "declare it outside"),
    },
    ast.ModuleDeclaration: {
        ast.AssociatedType: ("an associated type belongs into an interface", "for a name of a type: typealias A = T;"),
    },
}
# fmt: on


def check_nesting(checker: Checker, container: ast.Declaration, members: Sequence[ast.Declaration]) -> None:
    misplaced = _MISPLACED.get(type(container), {})
    for member in members:
        refusal = misplaced.get(type(member))
        if refusal is not None and not member.has("static") and not member.has("extern"):
            message, note = refusal
            checker.error("E0414", message, member.name_span, note)


def check_parameters_of_extension(checker: Checker, extension: ast.Extension) -> None:
    """Each is in the target, or in a bound of one that is."""
    generics = {parameter.name: parameter for parameter in extension.generics}
    named = _names_in([extension.target])
    for parameter in generics.values():
        if parameter.name in named and isinstance(parameter, ast.TypeParameter):
            named |= _names_in(parameter.bounds)
    for name, parameter in generics.items():
        if name not in named and not extension.constraints:
            message = f"the target of the extension does not tell what '{name}' is"
            checker.error("E0415", message, parameter.name_span, "make the methods generic")


def _names_in(nodes: list[ast.Expression]) -> set[str]:
    return {inner.name for node in nodes for inner in walk(node) if isinstance(inner, ast.Name)}
