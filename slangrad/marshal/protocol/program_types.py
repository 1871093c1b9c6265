"""The types of a called program, as marshals ask for them."""

from __future__ import annotations

from typing import Any, Protocol

from slangrad.check.model.types import GenericArgument, Type
from slangrad.ir.data import types as ir

Reflected = Any  # of `api/reflection`, which stands above, or of type_kinds.py, which is loaded late


class ProgramTypes(Protocol):
    """The types of the called program for marshals. Without a program only plain types are known."""

    def lower(self, t: Type) -> ir.Type | None:
        """The type in memory."""

    def lift(self, t: ir.Type) -> Type | None:
        """The type that has this type in memory."""

    def fields(self, t: Type) -> tuple[tuple[str, Type], ...]:
        """Fields of a struct, components of a vector."""
        return ()

    def enumerators(self, t: Type) -> tuple[tuple[str, int], ...]:
        """Names and values of an enum."""
        return ()

    def initialized_fields(self, t: Type) -> set[str]:
        """The fields whose declarations have initializers."""
        return set()

    def no_diff_fields(self, t: Type) -> set[str]:
        """The fields that carry no derivative, whatever their types are."""
        return set()

    def program(self) -> Reflected:
        """The public layout of these types; None without a module."""
        return None

    def find(self, name: str) -> Type | None:
        """The type of a name, as it is written in the module."""
        return None

    def tangent(self, t: Type) -> Type | None:
        """The Differential of a type; None when it has none."""

    def tangent_field(self, t: Type, name: str) -> str | None:
        """The field of the Differential that belongs to a field."""

    def bounds(self, t: Type) -> tuple[Type, ...]:
        """The interfaces in the bounds of a parameter of this type."""
        return ()

    def standard(self, name: str, arguments: tuple[GenericArgument, ...]) -> Type:
        """A generic type of the standard library."""

    def matches(self, pattern: Type, t: Type) -> bool:
        """Whether a parameter of this type can take a value of that type; interfaces are conformed to."""

    def lacking(self, pattern: Type, t: Type) -> str:
        """The interface of a parameter to which a type does not conform, and its missing members; empty if that is
        not the cause."""
        return ""
