"""Variables that are read and never given a value.

    float y;
    return x + y;      warning: 'y' has no value here, so it is zero

A variable counts as given a value when anything in its function stores into it, passes it as `out` or `inout`, or takes
its address. So the warning is never wrong, and misses variables that are set too late.
"""

from __future__ import annotations

from typing import Any

from slangrad.check.model import checked
from slangrad.check.model.types import Matrix, Scalar, Vector
from slangrad.check.model.world import World
from slangrad.syntax import ast
from slangrad.syntax.walk import walk


def warn_of_unset(world: World, declaration: Any, assigned: set[Any]) -> None:
    """Look through a checked body; `assigned` are the variables that something stores into."""
    if declaration.span.source.is_library:
        return
    statements = [node for node in walk(declaration.body) if isinstance(node, ast.DeclarationStatement)]
    declared = [each for node in statements for each in node.declarations]
    unset = {each for each in declared if _has_no_value(world, each)} - assigned
    if not unset:
        return
    for node in walk(declaration.body):
        if isinstance(node, ast.Unary) and node.operator == "&":
            unset -= {_local_of(each) for each in walk(node)}
    for node in walk(declaration.body):
        variable = _local_of(node)
        if variable in unset:
            unset.remove(variable)
            note = f"write '{variable.name} = 0' where it is declared, if this is meant"
            world.warning("E0331", f"'{variable.name}' has no value here, so it is zero", node.span, note)


def _has_no_value(world: World, node: ast.Declaration) -> bool:
    if not isinstance(node, ast.Variable) or node.initializer is not None or node.has("static"):
        return False
    return isinstance(world.info(node).type, (Scalar, Vector, Matrix))


def _local_of(node: ast.Node) -> Any:
    if isinstance(node, ast.Name) and isinstance(node.ref, checked.Local):
        return node.ref.declaration
    return None
