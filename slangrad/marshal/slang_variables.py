"""Parameters and fields as users see them: a name, a type, and what is said before these.

    layout.find_function_by_name("update").parameters[0]   ->   SlangParameter("inout float value")
    module.Particle.fields["mass"]                         ->   SlangField("float mass")

A parameter that takes any type of an interface shows the interface.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from slangrad.base.late import Late

if TYPE_CHECKING:
    from slangrad.marshal.slang_type import SlangType


KINDS = Late("slangrad.marshal.type_kinds")


class IOType(Enum):
    """Whether a parameter is read, written, or both."""

    none = 0
    inn = 1
    out = 2
    inout = 3


_MODIFIERS = {"in": ("inn",), "out": ("out",), "inout": ("inout", "out"), "ref": ("inout", "out")}
_IO_TYPES = {"out": IOType.out, "inout": IOType.inout, "ref": IOType.inout}


class SlangVariable:
    """`direction` is "in", "out", "inout", "ref" or "constref", "" for fields."""

    __slots__ = ("direction", "name", "no_diff", "type")

    def __init__(self, name: str, type: SlangType, direction: str, no_diff: bool) -> None:
        self.name = name
        self.type = type
        self.direction = direction
        self.no_diff = no_diff

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}("{self.declaration}")'

    def __str__(self) -> str:
        return self.declaration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlangVariable) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.__class__, self.name, self.type, self.direction, self.no_diff

    @property
    def program(self) -> Any:
        """The SlangProgramLayout that it is from."""
        return self.type.program

    @property
    def modifiers(self) -> set[Any]:
        """The ModifierIDs of the words before it; `inout` is `out` as well."""
        words = (*_MODIFIERS.get(self.direction, ()), *(("nodiff",) if self.no_diff else ()))
        return {KINDS.ModifierID[each] for each in words}

    def has_modifier(self, modifier: Any) -> bool:
        return modifier in self.modifiers

    @property
    def declaration(self) -> str:
        """As it is written: `no_diff inout float x`."""
        words = ["no_diff"] if self.no_diff else []
        words += [self.direction] if self.direction not in ("", "in") else []
        return " ".join([*words, self.type.name, self.name])

    @property
    def io_type(self) -> IOType:
        return _IO_TYPES.get(self.direction, IOType.inn)

    @property
    def differentiable(self) -> bool:
        """Whether a derivative goes through it."""
        return not self.no_diff and self.type.differentiable

    @property
    def derivative(self) -> SlangType:
        """The type of its derivative."""
        found = None if self.no_diff else self.type.derivative
        if found is None:
            raise ValueError(f"'{self.declaration}' is not differentiable")
        return found


class SlangField(SlangVariable):
    """A field of a struct."""

    __slots__ = ()


class SlangParameter(SlangVariable):
    """A parameter of a function: its number, and whether Slang calls may leave it out."""

    __slots__ = ("has_default", "index")

    def __init__(
        self, name: str, type: SlangType, direction: str, no_diff: bool, index: int, has_default: bool
    ) -> None:
        super().__init__(name, type, direction, no_diff)
        self.index = index
        self.has_default = has_default
