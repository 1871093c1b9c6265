"""Textures as arguments: as a whole, or a texel for each call.

Texture2D<float4>,   texture of rgba32_float (h, w)  ->  { addresses, h, w, levels }
float4,              the same                        ->  float4, two call dimensions: texels of the first level

Texels are of the type that the format says, or are converted: floats to floats, integers to integers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from slangrad.check.model.types import StructType, Type, nominal
from slangrad.marshal.containers.buffers import HANDLE, HANDLES, handle_ways, standard_name
from slangrad.marshal.containers.containers import ELEMENTS, ContainerMarshal
from slangrad.marshal.containers.memory import GIVEN, TAKEN, TEXTURE_ACCESS, Contents, doing
from slangrad.marshal.containers.whole import shared_gradient
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, StridedMemory, Use
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Find, Finder, Leaf
from slangrad.marshal.protocol.patterns import matches
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT, Role
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.tensors.elements.element_types import slang_name
from slangrad.tensors.textures.formats import TexelForm
from slangrad.tensors.textures.texture import Texture
from slangrad.tensors.textures.texture_desc import KINDS

TEXTURE = "texture"
WRITTEN = "RW"
NAMES = {prefix + name for name, *_ in KINDS.values() for prefix in ("", WRITTEN)}


Slots = tuple[str, str]  # the memories of the two addresses of derivatives
NOTHING: Slots = ("", "")


def key_of_texture(texture: Texture) -> Hashable:
    grad_in, grad_out = texture._grad_in, texture._grad_out
    kind = (Texture, texture.slang_name, texture.format, texture.readable, texture.writable)
    if grad_in is None and grad_out is None:
        return kind
    return *kind, grad_in is not None, grad_out is not None, grad_in is grad_out


class TextureMarshal(ContainerMarshal):
    """A texture of a type, a format and a usage."""

    access = TEXTURE_ACCESS

    def __init__(self, texture: Texture) -> None:
        grad_in, grad_out = texture._grad_in, texture._grad_out
        self.contents = Contents(
            texture.element_type,
            texture.rank,
            texture.writable,
            has_in=grad_in is not None,
            has_out=grad_out is not None,
            shared=grad_in is grad_out,
        )
        self.form = texture.form
        self.readable = texture.readable
        self.name = texture.slang_name
        usage = "" if texture.writable else "read-only " if texture.readable else "unused "
        self.described = f"{usage}{texture.slang_name} of {slang_name(texture.element_type)}"

    def _ways_of(self, element: Type, wanted: Type, types: ProgramTypes, mode: str) -> Iterator[Way]:
        if not self.readable:
            return
        name = standard_name(wanted)
        if name == "DescriptorHandle":
            yield from handle_ways(wanted)
        elif name not in NAMES:
            # No dimension of a texture makes elements.
            ways = self.as_elements(wanted, element, ELEMENTS)
            yield from (way for way in ways if way.dims == self.contents.rank)
        elif name in self._names() and isinstance(wanted, StructType):
            for cost, lowered in enumerate((self.form.value, *self.form.others)):
                texel = types.lift(lowered)
                if texel is not None and matches(wanted.inner, texel):
                    yield Way(nominal(wanted.declaration, (texel, *wanted.arguments[1:])), 0, TEXTURE, cost)
                    return

    def _names(self) -> list[str]:
        """The types of Slang that the texture can be."""
        names = names_of(self.name)
        return [*names, WRITTEN + self.name] if self.contents.writable else names

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if not self.readable:
            return f"{self.described}: its usage has neither shader_resource nor unordered_access"
        name = standard_name(wanted)
        if name == WRITTEN + self.name and not self.contents.writable:
            return (
                f"Can't pass a {self.described} to '{wanted}': its usage needs TextureUsage.unordered_access"
            )
        if name in self._names():
            return f"{self.described} does not fit '{wanted}': such texels are not converted"
        return f"{self.described} does not fit '{wanted}'"

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if spot.role.writes and way.how == ELEMENTS and not self.contents.writable:
            message = f"argument '{spot.label}': Can't write to a {self.described}"
            raise CallError("E1011", message, (), "make it with TextureUsage.unordered_access")
        if way.how == HANDLE:
            bound: BoundNode = HANDLES.bind(way, spot, self.described)
            return bound
        if way.how == TEXTURE:
            return bind(way, spot, self.contents, self.form, self.described)
        return super().bind(way, spot)


@dataclass(slots=True, eq=False, kw_only=True)
class TextureLeaf(Leaf):
    """All of a texture: addresses, sizes and the number of levels. `slots` has the memory of each address of
    derivatives; the kernel sees that one without memory is null."""

    is_whole: ClassVar[bool] = True

    written: bool
    slots: Slots = NOTHING
    code: int = 0

    @property
    def content(self) -> Type | None:
        assert isinstance(self.type, StructType)
        return None if self.written else self.type.inner

    def instead(self, mode: str) -> str:
        return f"pass {self.label}.with_grads({'tangent' if mode == TANGENT else ''})"

    def before(self, classes: str) -> list[str]:
        local = self.load()
        unused = [field for field, part in zip(FIELDS, self.slots) if not part]
        return [
            f"{spell_on_page(self.type)} {local} = {self.name};",
            *(f"{local}._levels._texels.{field} = nullptr;" for field in unused),
            f"{local}._levels._texels._format = {self.code}u;",
        ]

    def load(self) -> str:
        return f"{self.name}_here"

    @property
    def may_write(self) -> bool:
        return self.written

    def layout_finder(self) -> Find:
        return attrgetter("layout")

    def footprint(self, value: Texture) -> Footprint:
        home = value.storage.runtime
        uses = [Use(self.label, self.name, _memory(value), reads=True, writes=self.written)]
        for at, part in enumerate(self.slots, start=1):
            if part:
                memory = _memory(_GRADIENTS[part](value))
                stores = self.role.gives == "store"
                uses.append(Use(self.label, self.name, memory, **doing(self.role, part, stores), at=at))
        return Footprint(
            fixed={self.name: scalars_of(value, value.form.stored)},
            uses=uses,
            homes=[(type(value).__name__, home)],
        )

    def finders(self) -> list[Finder]:
        finders: list[Finder] = [(self.name, 0, attrgetter("base_address"))]
        for at, part in enumerate(self.slots, start=1):
            if part:
                finders.append((self.name, at, ADDRESSES[part]))
        return finders


FIELDS = ("_taken", "_given")
_GRADIENTS = {TAKEN: attrgetter("_grad_in"), GIVEN: attrgetter("_grad_out")}
ADDRESSES = {TAKEN: attrgetter("_grad_in.base_address"), GIVEN: attrgetter("_grad_out.base_address")}


def _memory(texture: Texture) -> StridedMemory:
    return StridedMemory(
        texture.base_address,
        (texture.texel_count * texture.texels.element_size,),
        (1,),
        1,
        texture.storage.runtime,
    )


def scalars_of(texture: Texture, element: object) -> list[int]:
    """The scalars of a texture without derivatives in an argument block, for a parameter with such texels."""
    return texture.scalars(texture.format_code(element))


def bind(way: Way, spot: Spot, contents: Contents, form: TexelForm, described: str) -> BoundNode:
    written = standard_name(way.type).startswith(WRITTEN)
    slots = _slots(spot.mode, written, contents)
    assert isinstance(way.type, StructType)
    texel = spot.types.lower(way.type.inner)
    if any(slots) and texel is not form.value:
        message = f"argument '{spot.label}': the gradient has texels of type {slang_name(form.value)}"
        raise CallError(
            "E1007", message, (), f"declare it {standard_name(way.type)}<{slang_name(form.value)}>"
        )
    if spot.mode == BACKWARD and all(slots) and contents.shared:
        raise shared_gradient(spot)
    gives = "" if GIVEN not in slots else "store" if spot.mode == TANGENT else "add"
    role = Role(spot.role.reads, spot.role.writes, takes=TAKEN in slots, gives=gives)
    code = form.code_for(texel)
    return TextureLeaf(**spot.node(way.type, role, described), written=written, slots=slots, code=code)


def _slots(mode: str, written: bool, contents: Contents) -> Slots:
    """The memories of derivatives in a mode, as far as there are some. The tangents of a texture that is written are
    read where they were stored."""
    if mode == PRIMAL or (mode == HIGHER and (written or not (contents.has_in and contents.has_out))):
        return NOTHING
    grad_in, grad_out = TAKEN if contents.has_in else "", GIVEN if contents.has_out else ""
    rows = {
        (BACKWARD, False): ("", grad_out),
        (BACKWARD, True): (grad_in, grad_out),
        (TANGENT, False): (grad_in, ""),
        (TANGENT, True): (grad_out, grad_out),
        (HIGHER, False): (grad_in, grad_out),
    }
    return rows[mode, written]


def names_of(name: str) -> list[str]:
    """The types of textures that are read, which a texture with a name can be: a cube is an array of one."""
    return [name, "TextureCubeArray"] if name == "TextureCube" else [name]


def refusal(texture: Texture, name: str, element: object) -> str | None:
    """Why a texture cannot be a parameter of a kernel, if it cannot: of the type with a name, and of such texels."""
    if name.removeprefix(WRITTEN) not in names_of(texture.slang_name) or not texture.accepts(element):
        return f"it is a {texture.slang_name} of {slang_name(texture.element_type)}, and such texels are not converted"
    if name.startswith(WRITTEN) and not texture.writable:
        return "make it with TextureUsage.unordered_access"
    return None if texture.readable else "make it with TextureUsage.shader_resource"
