"""Descriptions of textures: kinds, uses, sizes and formats.

    TextureDesc(format=Format.rgba32_float, width=4, height=3, mip_count=ALL_MIPS).checked().mip_count == 3
    shapes_of(desc) == [(3, 4), (1, 2), (1, 1)]

A desc has no memory: `textures.py` has the texels.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, IntFlag

from slangrad.base.records import desc_and_values
from slangrad.ir.data.types import Type
from slangrad.tensors.buffer import MemoryType, ResourceState
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.textures.formats import Format, TexelForm, element_of, texel_form

ALL_LAYERS = ALL_MIPS = (1 << 32) - 1


class UnsupportedTexture(ValueError, NotImplementedError):
    """A type or a format of which there are no textures."""

    code = "E9001"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"error[{self.code}]: {reason}")


class TextureType(Enum):
    """Kinds of textures."""

    texture_1d = 0
    texture_1d_array = 1
    texture_2d = 2
    texture_2d_array = 3
    texture_2d_ms = 4
    texture_2d_ms_array = 5
    texture_3d = 6
    texture_cube = 7
    texture_cube_array = 8


class TextureUsage(IntFlag):
    """What a texture may be used for. Without `unordered_access` no kernel may write to it."""

    none = 0
    shader_resource = 1
    unordered_access = 2
    render_target = 4
    depth_stencil = 8
    present = 16
    copy_source = 32
    copy_destination = 64
    resolve_source = 128
    resolve_destination = 256
    typeless = 512
    shared = 1024


USUAL = TextureUsage.shader_resource | TextureUsage.unordered_access

# Of each kind: its type in Slang without RW, how many of width, height and depth it has, whether `array_length` counts,
# and the layers of one element of the array: zero where there are no layers.
KINDS: dict[TextureType, tuple[str, int, bool, int]] = {
    TextureType.texture_1d:         ("Texture1D",        1, False, 0),
    TextureType.texture_1d_array:   ("Texture1DArray",   1, True,  1),
    TextureType.texture_2d:         ("Texture2D",        2, False, 0),
    TextureType.texture_2d_array:   ("Texture2DArray",   2, True,  1),
    TextureType.texture_2d_ms:      ("Texture2DMS",      2, False, 0),
    TextureType.texture_2d_ms_array: ("Texture2DMSArray", 2, True, 1),
    TextureType.texture_3d:         ("Texture3D",        3, False, 0),
    TextureType.texture_cube:       ("TextureCube",      2, False, 6),
    TextureType.texture_cube_array: ("TextureCubeArray", 2, True,  6),
}  # fmt: skip


WITH_SAMPLES = (TextureType.texture_2d_ms, TextureType.texture_2d_ms_array)
SAMPLE_COUNTS = (1, 2, 4, 8, 16)


@dataclass(slots=True)
class TextureDesc:
    """The arguments of a texture; `texture.desc` is a copy of those that it was made with."""

    type: TextureType = TextureType.texture_2d
    format: Enum = Format["undefined"]
    width: int = 1
    height: int = 1
    depth: int = 1
    array_length: int = 1
    mip_count: int = 1
    sample_count: int = 1
    sample_quality: int = 0
    memory_type: MemoryType = MemoryType.device_local
    usage: TextureUsage = USUAL
    default_state: ResourceState = ResourceState.undefined
    label: str = ""

    @staticmethod
    def of(desc: TextureDesc | Mapping[str, HostValue] | None, named: Mapping[str, HostValue]) -> TextureDesc:
        """A copy of a desc, or of a dict of its fields, with other values for those that are named. TypeError for
        other objects and names."""
        start, values = desc_and_values(TextureDesc, desc, named, "a texture has no such argument; it has")
        return replace(start, **values)

    def checked(self) -> TextureDesc:
        """With the number of all levels where `ALL_MIPS` are wanted. TypeError and ValueError where fields make no
        texture."""
        for name, kind in _KINDS_OF_FIELDS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name}: expected a {kind.__name__}, not {getattr(self, name)!r}")
        sizes, samples = self._sizes(), self._whole("sample_count")
        if samples != 1 and not self.has_samples:
            raise ValueError(f"sample_count: a {self.type.name} has 1, not {samples}; there is texture_2d_ms")
        if samples not in SAMPLE_COUNTS:
            raise ValueError(f"sample_count: a texture has 1, 2, 4, 8 or 16 samples, not {samples}")
        levels = 1 if self.has_samples else max(sizes.values()).bit_length()
        count = self._whole("mip_count")
        count = levels if count == ALL_MIPS else count
        if not 1 <= count <= levels:
            raise ValueError(f"mip_count: a texture of these sizes has 1 to {levels} levels, not {count}")
        return replace(self, mip_count=count)

    def _sizes(self) -> dict[str, int]:
        """Width, height and depth, as far as the type has them."""
        _, count, is_array, faces = KINDS[self.type]
        sizes = {name: self._whole(name) for name in ("width", "height", "depth")}
        layers = self._whole("array_length")
        for name, size in (*sizes.items(), ("array_length", layers)):
            if size < 1:
                raise ValueError(f"{name}: a texture cannot have {size}; the least is 1")
        unused = [name for name in list(sizes)[count:] if sizes[name] != 1]
        if unused or (layers != 1 and not is_array):
            name = unused[0] if unused else "array_length"
            raise ValueError(f"{name}: a {self.type.name} has 1, not {sizes.get(name, layers)}")
        if faces == 6 and sizes["width"] != sizes["height"]:
            raise ValueError(
                f"height: the faces of a cube are squares, not {sizes['width']} x {sizes['height']}"
            )
        return dict(list(sizes.items())[:count])

    @property
    def has_samples(self) -> bool:
        """Whether a texel is an array of samples, even of one."""
        return self.type in WITH_SAMPLES

    @property
    def layers(self) -> int:
        """How many layers there are; a cube has six. One where a kind has none."""
        return self.array_length * max(KINDS[self.type][3], 1)

    def _whole(self, name: str) -> int:
        value = getattr(self, name)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name}: expected a whole number, not {value!r}")
        return operator.index(value)


_KINDS_OF_FIELDS: dict[str, type] = {
    "type": TextureType, "format": Format, "usage": TextureUsage, "memory_type": MemoryType,
    "default_state": ResourceState, "label": str,
}  # fmt: skip


# --- Views ---


def _from_dict(record: SubresourceRange | TextureViewDesc, first: HostValue) -> None:
    """Fill the fields of a record whose first argument is a dict of them."""
    if isinstance(first, Mapping):
        filled = type(record)(**first)
        for field in fields(filled):
            object.__setattr__(record, field.name, getattr(filled, field.name))


@dataclass(frozen=True, slots=True)
class SubresourceRange:
    """Some layers and levels of a texture, by name or as a dict."""

    layer: int = 0
    layer_count: int = ALL_LAYERS
    mip: int = 0
    mip_count: int = ALL_MIPS

    def __post_init__(self) -> None:
        _from_dict(self, self.layer)


@dataclass(slots=True)
class TextureViewDesc:
    """The arguments of a view, by name or as a dict: the format (`undefined` for that of the texture), layers, levels,
    a name, and a sampler for `descriptor_handle_combined`."""

    format: Enum = Format["undefined"]
    subresource_range: SubresourceRange = SubresourceRange()
    label: str = ""
    sampler: HostValue = None

    def __post_init__(self) -> None:
        _from_dict(self, self.format)
        if self.sampler is not None and not hasattr(self.sampler, "descriptor_handle"):
            raise TypeError(f"sampler: expected a Sampler, not {type(self.sampler).__name__}")

    @staticmethod
    def of(
        desc: TextureViewDesc | Mapping[str, HostValue] | None, named: Mapping[str, HostValue]
    ) -> TextureViewDesc:
        """A copy of a desc, or of a dict of its fields, with other values for those that are named. TypeError for
        other objects and names.
        """
        parts = [field.name for field in fields(SubresourceRange)]
        start, values = desc_and_values(
            TextureViewDesc, desc, named, "a view has no such argument; it has", more=parts
        )
        chosen = values.pop("subresource_range", start.subresource_range)
        within = chosen if isinstance(chosen, SubresourceRange) else SubresourceRange(**chosen)
        within = replace(
            within, **{name: operator.index(values.pop(name)) for name in parts if name in values}
        )
        return replace(start, subresource_range=within, **values)


# --- Formats and sizes ---


@dataclass(frozen=True, slots=True)
class SubresourceLayout:
    """A level of one layer in the memory of a buffer. `size`: width, height and depth in texels (a uint3). The pitches
    are the bytes from a texel to the next one in x, y and z."""

    size: HostValue
    col_pitch: int
    row_pitch: int
    slice_pitch: int
    size_in_bytes: int
    block_width: int
    block_height: int
    row_count: int

    @staticmethod
    def of(size: HostValue, texel_bytes: int, row_alignment: int) -> SubresourceLayout:
        """Of a level whose rows begin at multiples of `row_alignment` bytes."""
        width, height, depth = size
        pitch = -(-width * texel_bytes // row_alignment) * row_alignment
        return SubresourceLayout(
            size, texel_bytes, pitch, pitch * height, pitch * height * depth, 1, 1, height
        )


def form_of(format: Enum) -> TexelForm:
    """The form of texels in memory. ValueError where there is no format, UnsupportedTexture where there are no
    such textures."""
    try:
        form = texel_form(format)
    except ValueError:
        note = "use one with floats, integers or normalized numbers, such as rgba32_float or rgba8_unorm"
        raise UnsupportedTexture(f"format: {format.name} is not supported; {note}") from None
    if form is None:
        raise ValueError("format: a texture needs one, for example format=Format.rgba32_float")
    return form


def format_of(t: Type) -> Enum | None:
    """The format of texels of a type, if there is one."""
    return next((format for format in Format if _texel_or_none(format) is t), None)


def desc_of(t: Type, shape: tuple[int, ...]) -> TextureDesc:
    """Of a texture of texels of a type, which has a format; one to three sizes, outermost first."""
    kinds = (TextureType.texture_1d, TextureType.texture_2d, TextureType.texture_3d)
    sizes = dict(zip(("width", "height", "depth"), reversed(shape)))
    return TextureDesc.of(None, {"type": kinds[len(shape) - 1], "format": format_of(t), **sizes})


def _texel_or_none(format: Enum) -> Type | None:
    try:
        return element_of(format)
    except ValueError:
        return None


def shapes_of(desc: TextureDesc) -> list[tuple[int, ...]]:
    """Of each level, outermost first."""
    _, count, _, faces = KINDS[desc.type]
    layers = (desc.layers,) if faces else ()
    sizes = (desc.depth, desc.height, desc.width)[3 - count :]
    samples = (desc.sample_count,) if desc.has_samples else ()
    return [(*layers, *samples, *(halved(size, mip) for size in sizes)) for mip in range(desc.mip_count)]


def halved(size: int, mip: int) -> int:
    """A size of the first level in a further one."""
    return max(size >> mip, 1)
