"""The types of a program that conform to an interface.

In: IShape.   Out: Circle, Square: structs and enums without generic parameters in the order of their
declarations, those of imported modules first; also what extensions make conform.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slangrad.check.checked_module import CheckedModule
from slangrad.check.interfaces.lookup import conforms, extension_target
from slangrad.check.model.types import InterfaceType, Type, nominal
from slangrad.check.modules import CheckedProgram
from slangrad.syntax import ast


@dataclass(frozen=True, slots=True)
class Conformance:
    """A type that values of an interface type can have, with its id in memory; -1: any free id."""

    interface: InterfaceType
    type: Type
    id: int = -1

    def __str__(self) -> str:
        return f"{self.type}:{self.interface}={self.id}"


def conforming_types(
    program: CheckedProgram, root: CheckedModule, interface: InterfaceType
) -> tuple[Type, ...]:
    """Those of a module and of all that it imports."""
    conforming: dict[Type, None] = {}
    for module in _in_order(root, set()):
        for part in module.files:
            for kind in _declared_types(program, part.members):
                if conforms(program, kind, interface):
                    conforming[kind] = None
    return tuple(conforming)


def _in_order(module: CheckedModule, seen: set[CheckedModule]) -> Iterator[CheckedModule]:
    """A module and what it imports, that first."""
    if module not in seen:
        seen.add(module)
        for imported in module.imports:
            yield from _in_order(imported, seen)
        yield module


def _declared_types(program: CheckedProgram, members: Iterable[ast.Declaration]) -> Iterator[Type]:
    for member in members:
        if isinstance(member, ast.Extension):
            if not member.generics:
                yield extension_target(program, member)
            continue
        if getattr(member, "generics", None):
            continue
        if isinstance(member, ast.EnumDeclaration) or (
            isinstance(member, ast.StructDeclaration) and member.alias is None
        ):
            yield nominal(member)
        if isinstance(member, (ast.StructDeclaration, ast.Namespace)):
            yield from _declared_types(program, member.members)


def any_value_size(program: CheckedProgram, interface: InterfaceType) -> int | None:
    """The `n` of an interface with [anyValueSize(n)]."""
    attribute = interface.declaration.attribute("anyValueSize")
    if attribute is None or not attribute.arguments:
        return None
    size = program.constant(program.scope_of(interface.declaration), attribute.arguments[0])
    return size if isinstance(size, int) else None
