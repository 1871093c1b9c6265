"""Enums of a module: types with enumerators.

m.Color.Green   m.Color["Green"]   m.Color(5)   list(m.Color)   m.shade(m.Color.Green)   m.shade(5)
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any

from slangrad.api.functional.function import DESCRIBE, OwnText
from slangrad.api.functional.struct import Struct
from slangrad.check.model.types import Type
from slangrad.marshal.enums import EnumValue, holds
from slangrad.marshal.errors import CallError, NameNotFound

if TYPE_CHECKING:
    from slangrad.api.functional.module import Module


class Enum(Struct):
    """An enum of a module: `Color.Green` is one of its values, an int that knows its name; `Color(5)` is the value of
    a number, which need not have a name. It has a length, and gives its values one by one."""

    __slots__ = ("_known",)

    def __init__(self, module: Module, checked: Type) -> None:
        super().__init__(module, checked)
        self._known: tuple[Type | None, dict[str, EnumValue]] = (None, {})

    @property
    def values(self) -> dict[str, EnumValue]:
        """The enumerators by name, in the order of their declaration."""
        t, enum = self.checked, self.spelled
        if self._known[0] is not t:
            listed = self._types.enumerators(t)
            self._known = t, {name: EnumValue(value, enum, name) for name, value in listed}
        return self._known[1]

    def __getitem__(self, name: str) -> Any:
        if isinstance(name, str) and name in self.values:
            return self.values[name]
        return super().__getitem__(name)

    def __call__(self, value: Any, /) -> EnumValue:
        """The value of a whole number. CallError (E1010) where the enum's type cannot hold it."""
        if isinstance(value, str):
            raise CallError(
                "E1001", f"{self.name}({value!r}): a number is needed", (), f'{self.name}["..."] finds names'
            )
        try:
            number = index(value)
        except TypeError:
            kind = type(value).__name__
            raise CallError("E1001", f"{self.name}: {kind} is no whole number") from None
        if not holds(self.ir_type, number):
            raise CallError("E1010", f"{self.name}({number}): its type cannot hold this number")
        named = (each for each in self.values.values() if each == number)
        return next(named, EnumValue(number, self.spelled))

    def __iter__(self) -> Iterator[EnumValue]:
        return iter(self.values.values())

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: object) -> bool:
        return value in self.values if isinstance(value, str) else value in self.values.values()

    def __repr__(self) -> str:
        listed = ", ".join(f"{name} = {int(value)}" for name, value in self.values.items())
        return f"Enum({self.spelled}: {listed})"

    def _missing(self, name: str, what: str) -> NameNotFound:
        return NameNotFound(
            f"Enum '{self.name}' has no enumerator named '{name}'", self._similar(name, self.values)
        )


Enum.__doc__ = OwnText(Enum.__doc__, lambda enum: DESCRIBE.documentation_of_type(enum))
