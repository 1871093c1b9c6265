"""Structs that inherit from a struct: an object of the base is their first field.

In: struct Derived : Base { int b; }
Out: struct Derived { Base __base = Base(); int b; }

Members of the base are found through the field (lookup.py), and a Derived becomes a Base by it. Constructors, operators
and subscripts are not inherited.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.check.interfaces.lookup import BASE, interface_bases, nested
from slangrad.check.model import checked
from slangrad.check.model.types import StructType
from slangrad.check.model.world import World
from slangrad.check.names.scopes import ModuleScope, Scope, levels
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate


def add_bases(world: World, members: Iterable[ast.Declaration]) -> None:
    """Give their field to all structs among declarations, and in them, that inherit from a struct."""
    for member in nested(members):
        if isinstance(member, ast.Struct) and member.bases and not _has_base(member):
            _add_base(world, member)


def _has_base(owner: ast.Struct) -> bool:
    return any(each.name == BASE for each in owner.members[:1])


def _add_base(world: World, owner: ast.Struct) -> None:
    node = owner.bases[0]
    if not _may_be_struct(world.scope_of(owner), node):
        return
    with world.silence():
        interface_bases(world, owner)
    if not isinstance(node.ref, checked.TypeName) or not isinstance(node.ref.named, StructType):
        return
    if inherits(node.ref.named, owner):
        return
    made = ast.Call(node.span, duplicate(node), [])
    field = ast.Variable(node.span, BASE, node.span, "", node, made, [], None)
    field.parent, field.modifiers = owner, ("internal",)
    owner.members = [field, *owner.members]
    world.member_tables.pop(owner, None)


def inherits(kind: StructType, owner: ast.Struct) -> bool:
    """Whether a type is one of this struct, or of one that inherits from it."""
    declaration = kind.declaration
    while declaration is not owner:
        named = declaration.bases[0].ref.named if _has_base(declaration) else None
        if not isinstance(named, StructType):
            return False
        declaration = named.declaration
    return True


def _may_be_struct(scope: Scope, node: ast.Expression) -> bool:
    """Whether a struct has the name of a base; nothing else is looked at before all is known."""
    if isinstance(node, ast.GenericApplication):
        node = node.base
    if not isinstance(node, (ast.Name, ast.Member)):
        return False
    if isinstance(node, ast.Member):
        return True
    found = []
    for level in levels(scope):
        found += level.names.get(node.name, [])
        if isinstance(level, ModuleScope):
            found += [each for one in level.imports for each in one.names.get(node.name, [])]
    return any(isinstance(each, (ast.Struct, ast.TypeAlias)) for each in found)
