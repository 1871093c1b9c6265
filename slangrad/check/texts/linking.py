"""Open declarations of one module and their definitions in another: `extern` and `export`.

extern static const int N;          export static const int N = 16;
extern struct Op : IOp;             export struct Op : IOp = AddOp;
extern float f(float x);            export float f(float x) { return 2 * x; }

A module with open declarations is checked alone first. Linking checks it again without these declarations, with the
exporting modules imported instead. A constant with a value, `extern static const int N = 4;`, is open, too: its
value holds if no module is linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def is_open(declared: ast.SyntaxNode) -> bool:
    """Whether a declaration needs a definition in another module."""
    if not isinstance(declared, ast.Declaration) or not declared.has("extern"):
        return False
    if isinstance(declared, ast.FunctionDeclaration):
        return declared.body is None
    if isinstance(declared, ast.Variable):
        return declared.initializer is None and declared.has("static")
    return isinstance(declared, ast.StructDeclaration) and not declared.has_body and declared.alias is None


def open_names(files: Sequence[ast.ModuleDeclaration]) -> dict[str, ast.Declaration]:
    """The open declarations of a module's files, without functions that are declared first and defined later."""
    members = [member for part in files for member in part.members]
    bodies = {
        member.name
        for member in members
        if isinstance(member, ast.FunctionDeclaration) and member.body is not None
    }
    opened = [member for member in members if is_open(member)]
    return {
        declaration.name: declaration
        for declaration in opened
        if not (isinstance(declaration, ast.FunctionDeclaration) and declaration.name in bodies)
    }


def named_from(root: ast.SyntaxNode, files: Iterable[ast.ModuleDeclaration]) -> set[str]:
    """All names that may matter for a function: those in its text, in functions and values of these names, and in
    all other declarations of the files.
    """
    by_name: dict[str, list[ast.SyntaxNode]] = {}
    pending = [root]
    for member in (declared for part in files for declared in part.members):
        if isinstance(member, (ast.FunctionDeclaration, ast.Variable)):
            by_name.setdefault(member.name, []).append(member)
        elif not is_open(member):
            pending.append(member)
    names: set[str] = set()
    for root_node in pending:  # grows while it is read
        for node in walk(root_node):
            name = getattr(node, "name", None)
            if isinstance(name, str) and name not in names:
                names.add(name)
                pending += by_name.get(name, ())
    return names


def can_be_linked(declared: ast.SyntaxNode, names: Iterable[str]) -> bool:
    """Whether a declaration gives way to one of these names in another module."""
    kinds = (ast.Variable, ast.StructDeclaration, ast.FunctionDeclaration)
    return isinstance(declared, kinds) and declared.has("extern") and declared.name in names


def exported_names(files: Iterable[ast.ModuleDeclaration]) -> tuple[str, ...]:
    """The exports of a module's files by name."""
    members = [member for part in files for member in part.members]
    return tuple(member.name for member in members if member.has("export"))
