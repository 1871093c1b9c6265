"""Names of variables outside of functions: fields of the argument block, static variables, memory of a group.

uniform float* p;   ->   "p", a field of the argument block         static int count = 1;   ->   "static count"

A variable gets its name on first use; the initializers of static variables wait here to be lowered.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.data.types import Struct, Type, struct
from slangrad.syntax import ast


class UniqueNames:
    """Names that are given once: Foo, Foo, bar become Foo, Foo#2, bar."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __call__(self, wanted: str) -> str:
        """The name, with a number behind it if it is taken."""
        count = self._counts[wanted] = self._counts.get(wanted, 0) + 1
        return wanted if count == 1 else f"{wanted}#{count}"


class LaunchParameters:
    """The fields of the argument block, in order of first use; a name that is taken gets a number."""

    def __init__(self) -> None:
        self._fields: dict[str, Type] = {}
        self._unique = UniqueNames()
        self.names: dict[ast.Declaration, str] = {}

    def name_of(self, declared: ast.Declaration, t: Type) -> str:
        if declared not in self.names:
            name = self.names[declared] = self._unique(declared.name)
            self._fields[name] = t
        return self.names[declared]

    def block(self) -> Struct:
        return struct("arguments", tuple(self._fields.items()))


class Statics:
    """The static variables in use, and those whose first values wait to be lowered."""

    def __init__(self, program: CheckedProgram, unique: Callable[[str], str]) -> None:
        self._program, self._unique = program, unique
        self._names: dict[tuple[object, ...], str] = {}
        self.waiting: list[tuple[str, DeclRef]] = []

    def name_of(self, resolved: DeclRef) -> str:
        name = self._names.get(resolved.key)
        if name is None:
            name = self._names[resolved.key] = self._unique(f"static {resolved}")
            if not is_initialized_late(self._program, resolved.declaration):
                self.waiting.append((name, resolved))
        return name

    def name_of_shared(self, resolved: DeclRef) -> str:
        """Of memory that a group shares, which has no first value."""
        if resolved.key not in self._names:
            self._names[resolved.key] = self._unique(f"shared {resolved}")
        return self._names[resolved.key]


LITERALS = (ast.IntLiteral, ast.FloatLiteral, ast.BoolLiteral)


def is_initialized_late(program: CheckedProgram, declared: ast.Variable) -> bool:
    """Whether control has to come to the declaration first."""
    initializer = declared.initializer
    return (
        is_in_function(program.info(declared), declared)
        and initializer is not None
        and not isinstance(initializer, LITERALS)
    )


def is_in_function(info: checked.VariableInfo, declared: ast.Variable) -> bool:
    is_member = isinstance(
        declared.parent, (ast.StructDeclaration, ast.Extension, ast.Interface, ast.EnumDeclaration)
    )
    return info.kind == "static" and not is_member
