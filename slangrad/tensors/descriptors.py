"""Handles of resources: numbers of 64 bits that programs keep in structs and buffers, and follow as the resources.

    infos.cursor()[0].image = texture.descriptor_handle_ro        Texture2D<float4>.Handle image;  in Slang

A handle is the address of a descriptor in the device's memory, which `std/descriptor.slang` reads, with check bits
above it. Each resource has one of each kind, made when it is first needed. It ends with the resource, which the program
has to keep.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from slangrad.tensors.buffer import Buffer, BufferUsage
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.tensors.textures.texture import Texture


class DescriptorHandleType(Enum):
    """The kinds of resources that handles stand for."""

    undefined = 0
    buffer = 1
    rw_buffer = 2
    texture = 3
    rw_texture = 4
    sampler = 5
    combined_texture_sampler = 6
    acceleration_structure = 7


class DescriptorHandle:
    """A handle: the kind of its resource (`type`), and its 64 bits (`value`), zero for none."""

    __slots__ = ("_descriptor", "type", "value")

    def __init__(
        self,
        type: DescriptorHandleType = DescriptorHandleType.undefined,
        value: int = 0,
        _descriptor: Buffer | None = None,
    ) -> None:
        self.type = type
        self.value = value
        self._descriptor = _descriptor

    def __repr__(self) -> str:
        return f"DescriptorHandle({self.type.name}, {self.value:#x})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescriptorHandle) and (self.type, self.value) == (other.type, other.value)

    def __hash__(self) -> int:
        return hash((self.type, self.value))

    def __bool__(self) -> bool:
        return self.value != 0

    def belongs_to(self, runtime: object) -> bool:
        """Whether the descriptor lies on a device; a handle of nothing lies on all."""
        return self._descriptor is None or self._descriptor.runtime is runtime

    def get_this(self) -> dict[str, int]:
        """The fields of the struct in Slang."""
        return {"__address": self.value}


# Kinds of descriptors in `std/descriptor.slang` and `std/texture_handles.slang`.
BUFFER, TEXTURE, SAMPLER, COMPARISON, COMBINED, WRITTEN = 1, 2, 16, 17, 32, 256
TEXTURES = (
    "Texture1D", "Texture1DArray", "Texture2D", "Texture2DArray", "Texture3D", "TextureCube", "TextureCubeArray",
    "Texture2DMS", "Texture2DMSArray",
)  # fmt: skip
LONG = {"r64_uint": 14 | 256, "r64_sint": 15 | 256}  # formats that the library does not convert


def handle(
    type: DescriptorHandleType, device: HostValue, kind: int, format: str, *numbers: HostValue
) -> DescriptorHandle:
    """A handle of a new descriptor in memory of the device."""
    record = np.frombuffer(struct.pack(f"=II{format}", kind, 0, *numbers), np.uint8)
    descriptor = Buffer.create(device, data=record, usage=BufferUsage.shader_resource)
    return DescriptorHandle(type, checked(descriptor.address), descriptor)


HASH = 0x9E3779B97F4A7C15  # as in `std/descriptor.slang`


def checked(address: int) -> int:
    """An address of 48 bits, with a hash of it in the 16 bits above."""
    assert address < 1 << 48 and address % 64 == 0, hex(address)
    return address | (address * HASH >> 48 & 0xFFFF | 0x8000) << 48


def of_buffer(buffer: Buffer, written: bool) -> DescriptorHandle:
    """Of a buffer. ValueError where it is to be written and is read-only."""
    if written and not buffer.writable:
        raise ValueError("descriptor_handle_rw: give the buffer the usage BufferUsage.unordered_access")
    kind = DescriptorHandleType.rw_buffer if written else DescriptorHandleType.buffer
    code = BUFFER | (WRITTEN if written else 0)
    return handle(kind, buffer.device, code, "QQ", buffer.address, buffer.size)


def of_texture(texture: Texture, written: bool) -> DescriptorHandle:
    """Of a texture without gradients. ValueError where its usage does not permit it, or it has gradients."""
    usage = "unordered_access" if written else "shader_resource"
    if not (texture.writable if written else texture.readable):
        raise ValueError(f"descriptor_handle: make the texture with TextureUsage.{usage}")
    kind = DescriptorHandleType.rw_texture if written else DescriptorHandleType.texture
    code = TEXTURE + TEXTURES.index(texture.slang_name) + (WRITTEN if written else 0)
    return handle(kind, texture.device, code, *_texels(texture))


def of_combined(texture: Texture, sampler: HostValue) -> DescriptorHandle:
    """Of a texture and its sampler. ValueError where the texture has no sampler, several samples, or gradients."""
    if sampler is None:
        raise ValueError("descriptor_handle_combined: make the view with a sampler: create_view(sampler=...)")
    if sampler.desc.compares:
        raise ValueError("descriptor_handle_combined: a sampler that compares needs a handle of its own")
    if "MS" in texture.slang_name:
        raise ValueError(f"descriptor_handle_combined: no sampler applies to a {texture.type.name}")
    code = COMBINED + TEXTURES.index(texture.slang_name)
    format, *numbers = _texels(texture)
    padding = "xxxx" if struct.calcsize(f"={format}") % 8 else ""
    kind = DescriptorHandleType.combined_texture_sampler
    return handle(kind, texture.device, code, f"{format}{padding}{STATE}", *numbers, *sampler.numbers())


STATE = "IIIIfffffff"  # a SamplerState


def of_sampler(sampler: HostValue) -> DescriptorHandle:
    """Of a sampler."""
    kind, compares = DescriptorHandleType.sampler, sampler.desc.compares
    if not compares:
        return handle(kind, sampler.device, SAMPLER, STATE, *sampler.numbers())
    function = sampler.desc.comparison_func.value
    return handle(kind, sampler.device, COMPARISON, f"{STATE}I", *sampler.numbers(), function)


def _texels(texture: Texture) -> tuple[HostValue, ...]:
    """The struct of a texture: the format of `struct`, and its numbers."""
    if texture.grad_in is not None or texture.grad_out is not None:
        raise ValueError("descriptor_handle: texels behind a handle are constants; use texture.detach()")
    code = LONG.get(texture.format.name, texture.form.code)
    numbers = texture.scalars(code)
    return f"QQQ{len(numbers) - 3}I", *numbers


# --- The kinds of a handle's type in Slang ---

_BUFFER, _WRITTEN_BUFFER = (DescriptorHandleType.buffer,), (DescriptorHandleType.rw_buffer,)
_COMBINED = (DescriptorHandleType.combined_texture_sampler,)
_READ, _WRITTEN = (DescriptorHandleType.texture,), (DescriptorHandleType.rw_texture,)
FITTING: dict[str, tuple[DescriptorHandleType, ...]] = {
    **dict.fromkeys(TEXTURES, _READ + _WRITTEN),
    **{f"RW{name}": _WRITTEN for name in TEXTURES},
    **dict.fromkeys(("StructuredBuffer", "ByteAddressBuffer"), _BUFFER + _WRITTEN_BUFFER),
    **dict.fromkeys(("RWStructuredBuffer", "RWByteAddressBuffer"), _WRITTEN_BUFFER),
    **dict.fromkeys(("SamplerState", "SamplerComparisonState"), (DescriptorHandleType.sampler,)),
    **{name.replace("Texture", "Sampler"): _COMBINED for name in TEXTURES if "MS" not in name},
}  # fmt: skip


def handle_of(value: HostValue, resource: str) -> DescriptorHandle:
    """The handle of a resource for a type of Slang: `value` itself, or that of a Buffer, Texture, view or Sampler.
    ValueError where it stands for something else."""
    fitting = FITTING[resource]
    names = (
        "descriptor_handle_combined" if resource.startswith("Sampler") else "descriptor_handle_ro",
        "descriptor_handle_rw" if resource.startswith("RW") else "descriptor_handle_ro",
        "descriptor_handle",
    )
    name = next((name for name in reversed(names) if hasattr(type(value), name)), None)
    chosen = value if isinstance(value, DescriptorHandle) else None if name is None else getattr(value, name)
    if not isinstance(chosen, DescriptorHandle):
        raise ValueError(
            f"a {type(value).__name__} has no handle; pass a Buffer, a Texture, a Sampler or a handle"
        )
    if chosen and chosen.type not in fitting:
        raise ValueError(f"it is the handle of a {chosen.type.name}, not of a {resource}")
    return chosen
