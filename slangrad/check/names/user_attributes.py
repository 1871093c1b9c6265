"""Attributes that a program declares: structs with [__AttributeUsage], and what stands in brackets for them.

In: struct FooAttribute { int value; }      [Foo(42)] struct S { }
Out: of S, the attribute Foo: the struct that declares it, and 42

They change nothing in a program; hosts ask for them (api/reflection/types.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slangrad.check.interfaces.differentiable import field_declarations
from slangrad.check.model.types import STRING, EnumType, Scalar, Type
from slangrad.check.model.world import World
from slangrad.check.names.scopes import Scope, levels
from slangrad.syntax import ast

SUFFIX = "Attribute"

Constant = int | float | bool | str


@dataclass(slots=True, frozen=True)
class UserAttribute:
    """An attribute where it is written, and the struct that declares it."""

    node: ast.Attribute
    owner: ast.Declaration
    struct: ast.Struct

    @property
    def fields(self) -> list[ast.Variable]:
        return field_declarations(self.struct)


def user_attributes(world: World, owner: ast.Declaration) -> Iterator[UserAttribute]:
    """Those before a declaration, in order."""
    for node in owner.attributes:
        struct = attribute_struct(world, owner, node.name)
        if struct is not None:
            yield UserAttribute(node, owner, struct)


def attribute_struct(world: World, owner: ast.Node, name: str) -> ast.Struct | None:
    """The struct that declares the attribute `name`, as seen from a declaration."""
    if not isinstance(owner, ast.Declaration) or owner.parent is None:
        return None
    scope: Scope = world.scope_of(owner.parent)
    for each in levels(scope):
        for found in (*each.local(name + SUFFIX), *each.local(name)):
            if isinstance(found.declaration, ast.Struct):
                return found.declaration
    return None


def check_arguments(world: World, attribute: UserAttribute) -> None:
    """Report arguments that are not what the fields of the attribute's struct can be."""
    node, fields = attribute.node, attribute.fields
    if len(node.arguments) != len(fields):
        wanted = f"{len(fields)} argument{'' if len(fields) == 1 else 's'}"
        message = f"[{node.name}] takes {wanted}, not {len(node.arguments)}"
        world.error("E0329", message, node.span, f"they are the fields of '{attribute.struct.name}'")
        return
    for argument, field in zip(node.arguments, fields):
        kind = world.info(field).type
        if not _fits(value_of(world, attribute.owner, argument), kind):
            message = f"'{field.name}' of [{node.name}] must be a value of type '{kind}' that is known when compiling"
            world.error("E0329", message, argument.span, "write a number or a text")


def _fits(value: Constant | None, kind: Type) -> bool:
    if kind is STRING:
        return isinstance(value, str)
    if isinstance(kind, Scalar) and kind.is_float:
        return isinstance(value, (int, float))
    return isinstance(value, int) if isinstance(kind, (Scalar, EnumType)) else value is not None


def value_of(world: World, owner: ast.Declaration, node: ast.Expression) -> Constant | None:
    """An argument of an attribute: a text, a number, or a whole number that is known when compiling."""
    if isinstance(node, (ast.StringLiteral, ast.FloatLiteral, ast.IntLiteral, ast.BoolLiteral)):
        return node.value
    if isinstance(node, ast.Unary) and node.operator in "+-" and isinstance(node.operand, ast.FloatLiteral):
        return -node.operand.value if node.operator == "-" else node.operand.value
    assert owner.parent is not None
    with world.silence():
        found = world.constant(world.scope_of(owner.parent), node)
    return found if isinstance(found, int) else None
