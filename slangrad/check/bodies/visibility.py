"""Public declarations that name types which their users cannot see.

    struct Hidden {}
    public Hidden f() { ... }          E0333: 'f' is public, and 'Hidden' is not
    public typealias Out = Box<Hidden>;

In: a public declaration.   Out: errors. Types of other files say themselves who sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slangrad.base.records import fields_of
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import ParameterType, Projection, Type
from slangrad.syntax import ast

_TYPES = (ast.StructDeclaration, ast.EnumDeclaration, ast.Interface)


def check_visibility(checker: Checker, declaration: ast.Declaration) -> None:
    """The types of parameters, results, fields and aliases."""
    if not declaration.has("public") or isinstance(declaration.parent, ast.Interface):
        return
    hidden = next(_hidden(declaration, _types_of(checker, declaration)), None)
    if hidden is not None:
        name = "__init" if isinstance(declaration, ast.Constructor) else declaration.name
        message = f"'{name}' is public, and '{hidden.name}', which it names, is not"
        checker.error("E0333", message, declaration.name_span, f"make '{hidden.name}' public, too")


def _types_of(checker: Checker, declaration: ast.Declaration) -> Iterable[Type]:
    if isinstance(declaration, (ast.FunctionDeclaration, ast.Constructor)):
        info = checker.info(declaration)
        return [*(checker.info(parameter).type for parameter in info.parameters), info.result]
    if isinstance(declaration, (ast.Variable, ast.TypeAlias)):
        return [checker.info(declaration).type]
    if isinstance(declaration, (ast.Property, ast.Subscript)):
        return [checker.info(declaration).result]
    return []


def _hidden(declaration: ast.Declaration, kinds: Iterable[Type]) -> Iterator[ast.Declaration]:
    """The declarations in the same file of the types, and of their arguments, that are not public."""
    file, seen, pending = _file_of(declaration), set[object](), [*kinds]
    while pending:
        kind = pending.pop()
        if kind in seen or isinstance(kind, (ParameterType, Projection)):
            continue
        seen.add(kind)
        named = getattr(kind, "declaration", None)
        is_here = isinstance(named, _TYPES) and _file_of(named) is file
        if isinstance(named, ast.Declaration) and is_here and not _is_public(named):
            yield named
        pending += _parts(kind)


def _parts(kind: Type) -> Iterator[Type]:
    for name in fields_of(type(kind)):
        part = getattr(kind, name)
        yield from (
            entry for entry in (part if isinstance(part, tuple) else (part,)) if isinstance(entry, Type)
        )


def _is_public(declaration: ast.Declaration) -> bool:
    around = declaration.parent
    if not isinstance(around, (ast.StructDeclaration, ast.Interface, ast.Extension)):
        return declaration.has("public")
    return (declaration.has("public") or isinstance(around, ast.Interface)) and _is_public(around)


def _file_of(declaration: ast.Declaration) -> ast.Declaration:
    while declaration.parent is not None:
        declaration = declaration.parent
    return declaration
