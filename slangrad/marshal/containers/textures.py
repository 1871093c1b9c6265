"""Textures as arguments: as a whole, or a texel for each call.

Texture2D<float4>,   texture of rgba32_float (h, w)  ->  { address, h, w, levels }
float4,              the same                        ->  float4, two call dimensions: texels of the first level

Texels are of the type that the format says; none is converted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from slangrad.check.model.types import StructType, Type, nominal
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.containers.containers import ELEMENTS, ContainerMarshal
from slangrad.marshal.containers.memory import TEXTURE_ACCESS, Contents
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, StridedMemory, Use
from slangrad.marshal.protocol.marshal import (
    BoundNode,
    Find,
    Finder,
    KernelParameter,
    Leaf,
    ProgramTypes,
    Spot,
    Way,
)
from slangrad.marshal.protocol.patterns import matches
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.tensors.element_types import slang_name
from slangrad.tensors.textures import KINDS, Texture

TEXTURE = "texture"
WRITTEN = "RW"
NAMES = {prefix + name for name, _, _ in KINDS.values() for prefix in ("", WRITTEN)}


def key_of_texture(texture: Texture) -> Hashable:
    return Texture, texture.slang_name, texture.element_type, texture.readable, texture.writable


class TextureMarshal(ContainerMarshal):
    """A texture of a type, a format and a usage."""

    access = TEXTURE_ACCESS

    def __init__(self, texture: Texture) -> None:
        self.contents = Contents(texture.element_type, texture.rank, texture.writable)
        self.readable = texture.readable
        self.name = texture.slang_name
        usage = "" if texture.writable else "read-only " if texture.readable else "unused "
        self.described = f"{usage}{texture.slang_name} of {slang_name(texture.element_type)}"

    def _ways_of(self, element: Type, wanted: Type, types: ProgramTypes, mode: str) -> Iterator[Way]:
        if not self.readable:
            return
        name = standard_name(wanted)
        if name not in NAMES:
            # No dimension of a texture makes elements.
            ways = self.as_elements(wanted, element, ELEMENTS)
            yield from (way for way in ways if way.dims == self.contents.rank)
        elif name in self._names() and isinstance(wanted, StructType) and matches(wanted.inner, element):
            yield Way(nominal(wanted.declaration, (element,)), 0, TEXTURE)

    def _names(self) -> list[str]:
        """The types of Slang that the texture can be."""
        return [self.name, WRITTEN + self.name] if self.contents.writable else [self.name]

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if not self.readable:
            return f"{self.described}: its usage has neither shader_resource nor unordered_access"
        name = standard_name(wanted)
        if name == WRITTEN + self.name and not self.contents.writable:
            return (
                f"Can't pass a {self.described} to '{wanted}': its usage needs TextureUsage.unordered_access"
            )
        if name in self._names():
            return f"{self.described} does not fit '{wanted}': texels are not converted"
        return f"{self.described} does not fit '{wanted}'"

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if spot.role.writes and way.how == ELEMENTS and not self.contents.writable:
            message = f"argument '{spot.label}': Can't write to a {self.described}"
            raise CallError("E1011", message, (), "make it with TextureUsage.unordered_access")
        return bind(way, spot, self.described) if way.how == TEXTURE else super().bind(way, spot)


@dataclass(slots=True, eq=False, kw_only=True)
class TextureLeaf(Leaf):
    """All of a texture: address, sizes and the number of levels."""

    is_whole: ClassVar[bool] = True

    written: bool

    @property
    def content(self) -> Type | None:
        return None

    def parameters(self, classes: str) -> list[KernelParameter]:
        return [KernelParameter(spell_on_page(self.type), self.name)]

    def load(self) -> str:
        return self.name

    @property
    def may_write(self) -> bool:
        return self.written

    def layout_finder(self) -> Find:
        return attrgetter("layout")

    def footprint(self, value: Texture) -> Footprint:
        home = value.storage.runtime
        memory = StridedMemory(value.address, (value.storage.size,), (1,), 1, home)
        return Footprint(
            fixed={self.name: scalars_of(value)},
            uses=[Use(self.label, self.name, memory, reads=True, writes=self.written)],
            homes=[(type(value).__name__, home)],
        )

    def finders(self) -> list[Finder]:
        return [(self.name, 0, attrgetter("address"))]


def scalars_of(texture: Texture) -> list[int]:
    """The scalars of a texture in an argument block."""
    return [texture.address, *texture.texels.shape, texture.mip_count]


def bind(way: Way, spot: Spot, described: str) -> BoundNode:
    written = standard_name(way.type).startswith(WRITTEN)
    node = spot.node(way.type, spot.role.without_derivative(), described)
    return TextureLeaf(**node, written=written)


def refusal(texture: Texture, name: str, element: object) -> str | None:
    """Why a texture cannot be a parameter of a kernel, if it cannot: of the type with a name, and of such texels."""
    if name.removeprefix(WRITTEN) != texture.slang_name or element is not texture.element_type:
        return f"it is a {texture.slang_name} of {slang_name(texture.element_type)}; texels are not converted"
    if name.startswith(WRITTEN) and not texture.writable:
        return "make it with TextureUsage.unordered_access"
    return None if texture.readable else "make it with TextureUsage.shader_resource"
