"""Texts of C++ in `__intrinsic_asm`, as far as they are expressions of Slang with functions of the library.

    "$P_exp($0)"                 return exp(x);                   "$P_" is the prefix of functions of a type
    "powf($1, 2.0f) * $0"        return pow(y, 2.0f) * x;         C's names of functions
    "exp"                        return exp(x);                   all arguments, in order

In: the statement.   Out: the statement that is meant, and the scope to check it in, which has the library's names and
the parameters; None where the text is no such expression.
"""

from __future__ import annotations

import re
from contextlib import suppress

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits
from slangrad.base.source import SourceFile
from slangrad.check.model.builtin_types import builtin_type
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import VOID
from slangrad.check.names.scopes import Scope, levels
from slangrad.syntax import ast
from slangrad.syntax.lexing.lexer import tokenize
from slangrad.syntax.parsing.cursor import GivenUp, Unparsable
from slangrad.syntax.parsing.declarations import DeclarationParser

LANGUAGE = 2025  # in which a comma is an operator
ARGUMENT = "__argument"  # the name of `$0` is `__argument0`
# fmt: off
_C_NAMES = {
    "fabs": "abs", "fmax": "max", "fmin": "min", "__float_as_int": "asint", "__float_as_uint": "asuint",
    "__int_as_float": "asfloat", "__uint_as_float": "asfloat", "__popc": "countbits", "__popcll": "countbits",
    "__brev": "reversebits", "__saturatef": "saturate",
}
# fmt: on
_PLACEHOLDER, _PREFIX = re.compile(r"\$(\d+)"), re.compile(r"\$P_|\bstd::|(?<![\w:])::")


def meaning_of(scope: Scope, node: ast.TargetAssembly) -> tuple[ast.Statement, Scope] | None:
    if scope.body is None or node.arguments:
        return None
    parameters = {f"{ARGUMENT}{i}": parameter for i, parameter in enumerate(scope.body.info.parameters)}
    text = _PREFIX.sub("", _PLACEHOLDER.sub(rf"{ARGUMENT}\1", node.text)).strip().rstrip(";")
    if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in parameters:
        text += f"({', '.join(parameters)})"
    meant = _parsed(scope, node, text, set(parameters))
    if meant is None:
        return None
    *_, library = levels(scope)
    inside = Scope(scope.checker, library)
    inside.body = scope.body
    inside.names = {name: [parameter] for name, parameter in parameters.items()}
    if scope.body.info.result is VOID:
        return ast.ExpressionStatement(node.span, meant), inside
    return ast.Return(node.span, meant), inside


def body_of(scope: Scope, declaration: ast.AnyFunction) -> ast.Block | None:
    """The body of `__target_intrinsic(cpp, "sizeof($0)") int size(int x);`, if its text is such an expression."""
    for attribute in declaration.attributes:
        if attribute.name != "__target_intrinsic" or len(attribute.arguments) != 2:
            continue
        target, text = attribute.arguments
        if isinstance(target, ast.Name) and target.name == "cpp" and isinstance(text, ast.StringLiteral):
            node = ast.TargetAssembly(declaration.span, text.value, [])
            return None if meaning_of(scope, node) is None else ast.Block(declaration.span, [node])
    return None


def _parsed(scope: Scope, node: ast.TargetAssembly, text: str, known: set[str]) -> ast.Expression | None:
    """The expression of a text, if all of its names are parameters or in the library."""
    reporter, checker = Reporter(), scope.checker
    source = SourceFile(f"assembly at {node.span.location}", text)
    tokens = tokenize(source)
    for token in tokens:
        name = _library_name(checker, token.text) if token.kind == "name" else token.text
        if name is None and token.text not in known and token.text != "sizeof":
            return None
        token.text = name or token.text
    owner = ast.ModuleDeclaration(node.span, source.name, node.span, source, [], None, 0)
    parser = DeclarationParser(tokens, reporter, Limits(), owner, LANGUAGE)
    meant = None
    with suppress(GivenUp, Unparsable):
        meant = parser.parse_assignment()
    return meant if meant is not None and parser.at("end") and not reporter.has_errors else None


def _library_name(checker: Checker, name: str) -> str | None:
    """The library's function for one of C: `sinf`, `fmaxf`, `__expf`. Types of numbers have their own names."""
    for candidate in (name, name.removesuffix("f"), name.removeprefix("__").removesuffix("f")):
        candidate = _C_NAMES.get(candidate, candidate)
        if checker.standard(candidate) is not None or builtin_type(candidate) is not None:
            return candidate
    return None
