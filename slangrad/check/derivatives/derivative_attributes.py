"""Functions that declare themselves derivatives of another function.

In: `[BackwardDerivativeOf(square)] void g(...)`, `__func_extension bwd_diff(square)(...)`.
Out: for `square`: ("backward", g).

Also the functions that the argument of such an attribute, or of one on the function itself, names.
custom_derivatives.py compares the signatures.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.source import SourceFile
from slangrad.check.generics.signatures import this_of
from slangrad.check.interfaces.lookup import nested
from slangrad.check.model.checked import FunctionInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, visible_parameters
from slangrad.check.model.meanings import Candidate, OverloadMeaning
from slangrad.check.model.types import Type
from slangrad.check.model.values import Pack
from slangrad.check.names.resolve import refer
from slangrad.syntax import ast

# fmt: off
#             attribute on f,      attribute on g,         what it is,         which derivative
KINDS = (
    ("ForwardDerivative",  "ForwardDerivativeOf",  "forward"),
    ("BackwardDerivative", "BackwardDerivativeOf", "backward"),
    ("PrimalSubstitute",   "PrimalSubstituteOf",   "primal_substitute"),
    ("",                   ast.APPLY_OF,           "apply"),
)
# fmt: on
_KIND_OF = {of: kind for _, of, kind in KINDS}


def are_named_in(source: SourceFile) -> bool:
    """Whether a text of the library has such functions, by its words: no macro puts them together there."""
    return any(word in source.text for word in (*_KIND_OF, "__func_extension"))


def note_derivatives(checker: Checker, declarations: list[ast.Declaration]) -> None:
    """File the functions that are derivatives of others under the name of the other."""
    for node in nested(declarations, (ast.StructDeclaration, ast.Extension, ast.Interface, ast.Namespace)):
        if not isinstance(node, ast.FunctionDeclaration):
            continue
        for attribute in node.attributes:
            if attribute.name in _KIND_OF and len(attribute.arguments) == 1:
                checker.derivative_functions.setdefault(_last_name(attribute.arguments[0]), []).append(node)
                _remind(checker, node, attribute)


def _remind(checker: Checker, derivative: ast.FunctionDeclaration, attribute: ast.AttributeNode) -> None:
    """Clear the cached results of functions in other modules, which may precede their derivatives."""
    for candidate in functions_meant(checker, derivative, attribute):
        checker.custom_derivatives.pop(candidate.declaration, None)
        info = candidate.declaration.checked
        if isinstance(info, FunctionInfo) and info.level != "backward":
            info.level = "forward" if _KIND_OF[attribute.name] == "forward" else "backward"


def _last_name(node: ast.Expression) -> str:
    while isinstance(node, (ast.GenericApplication, ast.Paren)):
        node = node.base if isinstance(node, ast.GenericApplication) else node.inner
    return node.name if isinstance(node, (ast.Name, ast.Member)) else ""


def derivatives_elsewhere(
    checker: Checker, declaration: ast.Declaration
) -> Iterator[tuple[str, ast.FunctionDeclaration, Candidate]]:
    """The functions elsewhere that declare themselves a derivative of this one, and how they name it."""
    for derivative in checker.derivative_functions.get(declaration.name, ()):
        for attribute in derivative.attributes:
            if attribute.name not in _KIND_OF:
                continue
            for meant in functions_meant(checker, derivative, attribute):
                if meant.declaration is declaration:
                    yield _KIND_OF[attribute.name], derivative, meant


def functions_meant(
    checker: Checker, declaration: ast.Declaration, attribute: ast.AttributeNode
) -> list[Candidate]:
    """The functions that the argument of an attribute names, seen from the declaration."""
    if len(attribute.arguments) != 1:
        return []
    argument = attribute.arguments[0]
    with checker.silence():
        meaning = refer(checker.scope_of(declaration), argument)
    return meaning.candidates if isinstance(meaning, OverloadMeaning) else []


def level_from_elsewhere(checker: Checker, declaration: ast.Declaration) -> str:
    """ "forward" or "backward" when some function elsewhere is a derivative of this one."""
    kinds = {kind for kind, _, _ in derivatives_elsewhere(checker, declaration)}
    if kinds - {"forward"}:
        return "backward"
    return "forward" if kinds else "none"


def named_instance(candidate: Candidate) -> Bindings | None:
    """The generic arguments with which a function is named: `f<T>`, `S<float>::f`; None when some are open."""
    written = dict(zip(getattr(candidate.declaration, "generics", ()), candidate.explicit))
    bindings = {**candidate.substitution, **written}
    needed = generic_parameters(candidate.declaration)
    return bindings if all(parameter in bindings for parameter in needed) else None


def generic_parameters(declaration: ast.Declaration) -> list[Pack]:
    """The generic parameters of a function and of what is around it."""
    around = visible_parameters(declaration)
    return [
        parameter for parameter in around if isinstance(parameter, (ast.TypeParameter, ast.ValueParameter))
    ]


def applied_type(
    checker: Checker, declaration: ast.FunctionDeclaration, attribute: ast.AttributeNode
) -> Type | None:
    """The type of `this` in `__func_extension __apply(Type::method)`; None for that of another function."""
    meant = functions_meant(checker, declaration, attribute)
    return this_of(checker, meant[0].reference) if meant else None
