"""Applying generic arguments to generic types: `vector<float, 3>`, `Foo<T, 4>`, `Foo` with defaults.

In: a GenericMeaning and argument nodes.   Out: a TypeMeaning, or FAILED after an error.

Functions are not applied here: their arguments may be partial, the rest is inferred from a call
(overload.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

from slangrad.check.generics.substitution import identity, own_substitution, substitute, substitute_value
from slangrad.check.interfaces.lookup import LookupResult, unmet_constraint
from slangrad.check.interfaces.witnesses import member_type
from slangrad.check.model.declref import Bindings
from slangrad.check.model.meanings import FAILED, GenericMeaning, Meaning, TypeMeaning
from slangrad.check.model.packs import Entry, grouped, is_entry_pack
from slangrad.check.model.types import (
    FLOAT,
    HEAVIEST,
    GenericArgument,
    Type,
    array_of,
    matrix,
    pointer,
    tuple_of,
    unstored,
    vector,
)
from slangrad.check.model.values import Pack
from slangrad.check.names.memory_rules import pointed, with_layout
from slangrad.check.names.scopes import Scope, levels
from slangrad.check.names.texture_types import texture_type
from slangrad.syntax import ast


def apply_arguments(
    scope: Scope, node: ast.Expression, meaning: GenericMeaning, written: Sequence[Entry] | None = None
) -> Meaning:
    """The type for the arguments; where none are written inside of the type itself, that type."""
    if written is None and meaning.builtin == "Tuple":
        scope.checker.error(
            "E0403", "'Tuple' is generic, and its arguments are missing", node.span, "write Tuple<>"
        )
        return FAILED
    if meaning.builtin:
        return _apply_builtin(scope, node, meaning.builtin, written or ())
    declaration = meaning.declaration
    assert declaration is not None
    if written is None and any(level.owner is declaration for level in levels(scope)):
        seen = {**identity(declaration), **meaning.substitution}
        return TypeMeaning(member_type(scope.checker, LookupResult(declaration, seen)))
    arguments = with_layout(scope.checker, node, declaration, list(written or ()))
    substitution = bind(scope, node, declaration, meaning.substitution, arguments)
    if substitution is None:
        return FAILED
    _check_later(scope, node, declaration, substitution)
    return _light(scope, node, member_type(scope.checker, LookupResult(declaration, substitution)))


def _light(scope: Scope, node: ast.Expression, kind: Type) -> Meaning:
    """A type, unless it has so many parts that it could not be used; it might have two for each of another one."""
    if kind.weight > HEAVIEST:
        scope.checker.error("E0702", "the arguments of a generic type are nested too deeply", node.span)
        return FAILED
    return TypeMeaning(kind)


def bind(
    scope: Scope,
    node: ast.Expression,
    declaration: ast.GenericDeclaration,
    around: Bindings,
    written: Sequence[Entry],
) -> Bindings | None:
    """The substitution for written arguments and defaults; None after an error."""
    checker, parameters = scope.checker, declaration.generics
    arguments: Sequence[GenericArgument] | None = written
    if any(generic.is_pack for generic in parameters):
        arguments = grouped(parameters, written)
    if arguments is None:
        message = f"{len(written)} generic arguments cannot be shared out to those of '{declaration.name}'"
        checker.error("E0403", message, node.span)
        return None
    if len(arguments) > len(parameters):
        message = f"'{declaration.name}' takes {len(parameters)} generic arguments, not {len(arguments)}"
        checker.error("E0403", message, node.span)
        return None
    substitution = dict(around)
    for parameter, argument in zip(parameters, arguments):
        if not fits(parameter, argument):
            wanted = "a type" if isinstance(parameter, ast.TypeParameter) else "a value"
            checker.error("E0402", f"'{parameter.name}' of '{declaration.name}' must be {wanted}", node.span)
            return None
        substitution[parameter] = argument
    for parameter in parameters[len(arguments) :]:
        default = default_argument(scope, parameter, substitution)
        if default is None:
            _report_missing(scope, node, declaration, len(arguments))
            return None
        substitution[parameter] = default
    return substitution


def fits(parameter: Pack, argument: GenericArgument) -> bool:
    """Whether an argument is of the parameter's kind."""
    if parameter.is_pack:
        return isinstance(argument, tuple) and all(_is_of_kind(parameter, entry) for entry in argument)
    return not is_entry_pack(argument) and _is_of_kind(parameter, argument)


def _is_of_kind(parameter: Pack, argument: GenericArgument) -> bool:
    return isinstance(argument, Type) == isinstance(parameter, ast.TypeParameter)


def default_argument(scope: Scope, parameter: Pack, substitution: Bindings) -> GenericArgument | None:
    """The default of a generic parameter, or None."""
    if parameter.default is None:
        return None
    checker = scope.checker
    assert parameter.parent is not None
    inside = checker.scope_of(parameter.parent)
    if isinstance(parameter, ast.TypeParameter):
        return substitute(checker, checker.resolve_type(inside, parameter.default), substitution)
    value = checker.constant(inside, parameter.default)
    return None if value is None else substitute_value(checker, value, substitution)


def _report_missing(
    scope: Scope, node: ast.Expression, declaration: ast.GenericDeclaration, count: int
) -> None:
    parameters = declaration.generics
    names = ", ".join(parameter.name for parameter in parameters)
    message = f"generic type '{declaration.name}' needs arguments for <{names}>"
    if count:
        message += f": {len(parameters)}, not {count}"
    example = ", ".join(_example(parameter) for parameter in parameters)
    note = f"for example {declaration.name}<{example}>"
    conditions = ", ".join(
        f"{parameter.name} : {' & '.join(bound.span.text for bound in parameter.bounds)}"
        for parameter in parameters
        if isinstance(parameter, ast.TypeParameter) and parameter.bounds
    )
    scope.checker.error(
        "E0403", message, node.span, f"{note} with a type {conditions}" if conditions else note
    )


def _example(parameter: Pack) -> str:
    """An argument; a type that has to conform to something keeps its name."""
    if not isinstance(parameter, ast.TypeParameter):
        return "1"
    return parameter.name if parameter.bounds else "float"


def _check_later(
    scope: Scope, node: ast.Expression, declaration: ast.GenericDeclaration, substitution: Bindings
) -> None:
    """Bounds are checked after all declarations, because they may depend on the declaration in progress."""
    checker, assumptions = scope.checker, list(scope.checker.assumptions)
    if checker.quiet:
        return

    def check() -> None:
        before, checker.assumptions = checker.assumptions, assumptions
        reason = unmet_constraint(checker, declaration, substitution)
        checker.assumptions = before
        if reason is not None:
            checker.error(
                "E0404", f"'{declaration.name}' cannot be used with these arguments: {reason}", node.span
            )

    checker.later.append(check)


# --- Builtin generic types ----------------------------------------------------------------------------


def _apply_builtin(scope: Scope, node: ast.Expression, name: str, arguments: Sequence[Entry]) -> Meaning:
    kinds, defaults, make = BUILTIN_GENERICS[name]
    full = [*arguments, *defaults[len(arguments) :]]
    more = kinds[-1] in ("...", "types")
    wanted = len(kinds) - more
    if len(full) < wanted or (len(full) > wanted and not more):
        scope.checker.error("E0403", f"'{name}' takes {wanted} generic arguments", node.span)
        return FAILED
    for index, (kind, argument) in enumerate(zip(chain(kinds, repeat(kinds[-1])), full)):
        if not _is_kind(kind, argument):
            message = f"argument {index + 1} of '{name}' must be a {kind.rstrip('s')}, not '{argument}'"
            scope.checker.error("E0402", message, node.span)
            return FAILED
    if name == "_Texture":
        return _texture(scope, node, full)
    if name in POINTERS:
        return TypeMeaning(pointer(pointed(scope.checker, node, full)))
    return _light(scope, node, make([_without_rules(name, entry) for entry in full]))


def _texture(scope: Scope, node: ast.Expression, arguments: Sequence[Entry]) -> Meaning:
    kind = texture_type(scope.checker, arguments)
    if kind is None:
        scope.refuse(
            "E9001",
            "there is no such '_Texture'",
            node.span,
            "shape, isArray, isMS, access and isCombined have to be known, and name a texture that exists here",
        )
        return FAILED
    if isinstance(kind.declaration, ast.GenericDeclaration):
        _check_later(scope, node, kind.declaration, own_substitution(kind))
    return TypeMeaning(kind)


def _is_kind(kind: str, argument: Entry) -> bool:
    if kind in ("...", "types"):
        return kind == "..." or isinstance(argument, Type)
    return not is_entry_pack(argument) and (kind == "type") == isinstance(argument, Type)


def _without_rules(name: str, argument: Entry) -> Entry:
    """Arrays have the rules of their elements, tuples of values have none."""
    return argument if name == "Array" or not isinstance(argument, Type) else unstored(argument)


# Kinds of arguments, those that may be left out, and a function that makes the type.
GenericRow = tuple[tuple[str, ...], tuple[Entry, ...], Callable[[Sequence[Any]], Type]]

# fmt: off
BUILTIN_GENERICS: dict[str, GenericRow] = {
    "vector": (("type", "value"),          (FLOAT, 4),    lambda parts: vector(parts[0], parts[1])),
    "matrix": (("type", "value", "value"), (FLOAT, 4, 4), lambda parts: matrix(parts[0], parts[1], parts[2])),
    "Array":  (("type", "value"),          (),            lambda parts: array_of(parts[0], parts[1])),
    "Ptr":    (("type", "..."),            (),            lambda parts: pointer(parts[0])),
    "LayoutPtr": (("type", "..."),         (),            lambda parts: pointer(parts[0])),
    "_Texture": (("type", "type", *["value"] * 7), (),    lambda parts: parts[0]),
    "Tuple":  (("types",),                 (),            lambda parts: tuple_of(tuple(parts))),
}
# fmt: on
POINTERS = ("Ptr", "LayoutPtr")
