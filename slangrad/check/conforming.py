"""The types of a program that conform to an interface.

In: IShape.   Out: Circle, Square: structs and enums without generic parameters in the order of their
declarations, those of imported modules first; also what extensions make conform.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slangrad.check.interfaces.lookup import conforms, extension_target
from slangrad.check.model.types import InterfaceType, Type, nominal
from slangrad.check.modules import Module, Program
from slangrad.syntax import ast


@dataclass(frozen=True, slots=True)
class Conformance:
    """That values of an interface type can be of a type, which has that id in memory; -1: any id that is free."""

    interface: InterfaceType
    type: Type
    id: int = -1

    def __str__(self) -> str:
        return f"{self.type}:{self.interface}={self.id}"


def conforming_types(program: Program, root: Module, interface: InterfaceType) -> tuple[Type, ...]:
    """Those of a module and of all that it imports."""
    found: dict[Type, None] = {}
    for module in _in_order(root, set()):
        for part in module.files:
            for each in _declared_types(program, part.members):
                if conforms(program, each, interface):
                    found[each] = None
    return tuple(found)


def _in_order(module: Module, seen: set[Module]) -> Iterator[Module]:
    """A module and what it imports, that first."""
    if module not in seen:
        seen.add(module)
        for each in module.imports:
            yield from _in_order(each, seen)
        yield module


def _declared_types(program: Program, members: Iterable[ast.Declaration]) -> Iterator[Type]:
    for each in members:
        if isinstance(each, ast.Extension):
            if not each.generics:
                yield extension_target(program, each)
            continue
        if getattr(each, "generics", None):
            continue
        if isinstance(each, ast.Enum) or (isinstance(each, ast.Struct) and each.alias is None):
            yield nominal(each)
        if isinstance(each, (ast.Struct, ast.Namespace)):
            yield from _declared_types(program, each.members)


def any_value_size(program: Program, interface: InterfaceType) -> int | None:
    """What [anyValueSize(n)] says of an interface."""
    attribute = interface.declaration.attribute("anyValueSize")
    if attribute is None or not attribute.arguments:
        return None
    size = program.constant(program.scope_of(interface.declaration), attribute.arguments[0])
    return size if isinstance(size, int) else None
