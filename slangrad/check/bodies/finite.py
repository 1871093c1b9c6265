"""Structs that contain themselves, which have no size.

    struct S { S next; }              struct L<T> { Pair<L<Pair<T>>> next; }

Looked for before anything else is checked: what follows fields would never end where each holds a larger type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slangrad.base.diagnostics import CompileError
from slangrad.check.interfaces.differentiable import field_references, field_type
from slangrad.check.model.types import Array, StructType, Tuple, Type
from slangrad.check.model.world import World
from slangrad.check.names.scopes import this_type
from slangrad.syntax import ast

MOST = 1000  # types that are looked at; what grows without end is found where it is declared


def require_finite(world: World, members: Iterable[ast.Declaration]) -> None:
    """Raise CompileError if a struct among declarations, or in them, contains itself."""
    infinite = [each for each in _structs(members) if _is_infinite(world, each)]
    if infinite:
        raise CompileError(world.reporter.diagnostics)


def _structs(members: Iterable[ast.Declaration]) -> Iterable[ast.Struct]:
    for member in members:
        if isinstance(member, ast.Struct):
            yield member
        if isinstance(member, (ast.Struct, ast.Namespace, ast.Extension)):
            yield from _structs(member.members)


def _is_infinite(world: World, node: ast.Struct) -> bool:
    kind = this_type(world, node)
    for reference in field_references(kind) if isinstance(kind, StructType) else ():
        if _holds(world, field_type(world, reference), node):
            message = f"'{node.name}' contains itself through '{reference.declaration.name}'"
            world.error("E0325", message, reference.declaration.name_span, "hold its index in a buffer")
            return True
    return False


def _holds(world: World, kind: Type, node: ast.Struct) -> bool:
    """Whether a value of a type has one of the struct in it."""
    seen, pending = {kind}, deque([kind])
    while pending and len(seen) < MOST:
        each = pending.popleft()
        if isinstance(each, StructType) and each.declaration is node:
            return True
        new = [part for part in _parts(world, each) if part not in seen]
        seen.update(new)
        pending += new
    return False


def _parts(world: World, kind: Type) -> Iterable[Type]:
    if isinstance(kind, Array):
        return (kind.element,)
    if isinstance(kind, Tuple):
        return kind.elements
    references = field_references(kind) if isinstance(kind, StructType) else ()
    return [field_type(world, each) for each in references]
