"""Marshals describe Python values as arguments, once for each signature.

`Marshal.ways` gives the possible Slang types of a value, with the number of call dimensions. `Marshal.bind` gives the
bound value (`nodes.py`).

    float f(float x), x = Tensor (n,)   ->   Way(float, 1 dimension)   ->   leaf "x"
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypedDict

from slangrad.check.model.types import Type
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import Role


@dataclass(slots=True, frozen=True)
class Way:
    """One way to see a value. `how` is the marshal's own note; `parts` are those of a dict's or list's
    children.
    """

    type: Type
    dims: int
    how: str = ""
    cost: int = 0
    parts: tuple[Way, ...] = ()


class NodeFields(TypedDict):
    """The fields of each bound value."""

    name: str
    label: str
    type: Type
    role: Role
    dims: int
    described: str


@dataclass(slots=True, frozen=True)
class Spot:
    """The place where a value is bound: its name in the kernel, its label in messages, its role.

    `fresh` makes a name unique.
    """

    name: str
    label: str
    role: Role
    mode: str
    types: ProgramTypes
    fresh: Callable[[str], str]

    def node(self, t: Type, role: Role, described: str, dims: int = 0) -> NodeFields:
        """The fields of each bound value here."""
        return {
            "name": self.name, "label": self.label, "type": t, "role": role, "dims": dims, "described": described
        }  # fmt: skip

    def child(self, name: str, label: str, role: Role) -> Spot:
        return Spot(self.fresh(f"{self.name}_{name}"), label, role, self.mode, self.types, self.fresh)


class Marshal(ABC):
    """One Python value as an argument. Made anew for each signature, so it may keep facts of its key."""

    described: str

    @property
    def is_plain(self) -> bool:
        """Whether values can be packed with the arguments, if they bring no dimensions."""
        return False

    @property
    def is_torch(self) -> bool:
        """Whether a torch tensor is in the value, which makes the call one of PyTorch."""
        return False

    @abstractmethod
    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        """The ways of the value to a parameter of type `wanted`; empty without one."""

    def holds(self, wanted: Type, types: ProgramTypes) -> Type | None:
        """The type of the elements of a container."""
        return None

    @abstractmethod
    def bind(self, way: Way, spot: Spot) -> BoundNode:
        """The value in one of its ways; CallError if it cannot have its role."""

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        """Why there is no way, and a cure."""
        return f"{self.described} does not fit '{wanted}'{_instead_of(str(wanted))}"


def _instead_of(wanted: str) -> str:
    """A note: the type to declare in place of a texture."""
    texture = re.match(r"(RW)?Texture(1D|2D|3D)<(.*)>$", wanted)
    if texture is None:
        return ""
    declared = f"I{texture[1] or ''}Tensor<{texture[3]}, {texture[2][0]}>"
    return f": pass a Texture, device.create_texture() makes one, or declare it as {declared}"
