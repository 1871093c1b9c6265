"""Textures: texels of one format in rows, with levels of detail and layers.

    t = device.create_texture(format=Format.rgba32_float, width=4, height=3, mip_count=2)
    t.to_numpy().shape == (3, 4, 4)      t.to_numpy(mip=1).shape == (1, 2, 4)

The memory is a buffer: levels lie one after the other, each row by row, with all layers. `std/texture.slang` reads it.
Texels lie as values of a Slang type, or are converted when a program reads or writes them (`TexelForm`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.types import U32
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferUsage, MemoryType, as_source
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import derivative_type, numpy_layout, slang_name
from slangrad.tensors.elements.shape import check_count
from slangrad.tensors.tensor import Tensor
from slangrad.tensors.textures.formats import PACKED, Format, blue_first, channels, get_format_info
from slangrad.tensors.textures.texel_numbers import decoded, encoded
from slangrad.tensors.textures.texture_desc import (
    ALL_LAYERS,
    ALL_MIPS,
    KINDS,
    USUAL,
    SubresourceLayout,
    SubresourceRange,
    TextureDesc,
    TextureType,
    TextureUsage,
    TextureViewDesc,
    UnsupportedTexture,
    form_of,
    format_of,
    halved,
    shapes_of,
)

VECTORS = LazyModule("slangrad.marshal.host.vectors")
BITMAPS = LazyModule("slangrad.images.bitmap")
if TYPE_CHECKING:
    from slangrad.tensors import descriptors as DESCRIPTORS
    from slangrad.tensors.descriptors import DescriptorHandle
else:
    DESCRIPTORS = LazyModule("slangrad.tensors.descriptors")


# Fields of a desc that a texture and its gradient share.
GRADIENT_FIELDS = (
    "type", "format", "width", "height", "depth", "array_length", "mip_count", "sample_count",
)  # fmt: skip


class LayersInMemory(NamedTuple):
    """Which layers of a level in memory a texture has: from the first one on; and how many there are in memory."""

    first: int
    total: int


class Texture:
    """Texels on a device. `texels` is a tensor over the memory of the first level; its shape has the outermost size
    first, that of layers before all others. `layout` is all that the launch of a kernel depends on besides the type.
    Kernels read from `base_address` on; in a view of some layers of several levels the first texel, at `address`, lies
    behind it."""

    # fmt: off
    __slots__ = ("__weakref__", "_desc", "_grad_in", "_grad_out", "_handles", "address", "base_address",
                 "element_type", "form", "is_layered", "layers_in_memory", "layout", "levels", "rank", "readable",
                 "slang_name", "start", "storage", "texel_count", "texels", "writable")
    # fmt: on

    def __init__(self, device: object, desc: TextureDesc, data: AnyArray | None = None) -> None:
        """`data` are the texels of the first level; others are zero."""
        checked = desc.checked()
        texels = sum(map(prod, shapes_of(checked)))
        check_count(texels)
        usage = READ_WRITE if checked.usage & TextureUsage.unordered_access else BufferUsage.shader_resource
        element = form_of(desc.format).stored
        self._set(checked, Buffer.typed(device, element, texels, usage, desc.memory_type, zero=True))
        if data is not None:
            _write(self.texels, data)

    def _set(
        self, desc: TextureDesc, storage: Buffer, start: int = 0, layers: LayersInMemory | None = None
    ) -> None:
        """A checked desc, and memory that has all levels from a texel on, each with these layers."""
        self._desc = desc
        self._grad_in: Texture | None = None
        self._grad_out: Texture | None = None
        self._handles: dict[str, DescriptorHandle] = {}
        self.storage = storage
        self.form = form_of(desc.format)
        self.element_type = self.form.value
        self.slang_name, count, _, faces = KINDS[desc.type]
        self.is_layered = faces > 0
        self.rank = count + self.is_layered + desc.has_samples
        self.readable = bool(desc.usage & USUAL)
        self.writable = bool(desc.usage & TextureUsage.unordered_access)
        self.layers_in_memory = layers or LayersInMemory(0, desc.layers)
        self.levels: list[Tensor] = []
        end = start
        for shape in shapes_of(desc):
            of_layer = prod(shape[self.is_layered :])
            first = end + self.layers_in_memory.first * of_layer
            self.levels.append(Tensor(storage, self.form.stored, shape, offset=first))
            end += self.layers_in_memory.total * of_layer
        self.start, self.texel_count = start, end - start
        self.texels = self.levels[0]
        self.address = self.texels.address
        self.base_address = storage.address + start * self.texels.element_size
        self.layout = (storage.runtime, desc.mip_count, *self.layers_in_memory, *self.texels.shape)

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, reversed(self.texels.shape)))
        return f"Texture({self.type.name}, {self.format.name}, {sizes}, {self.mip_count} levels)"

    def __getattr__(self, name: str) -> NoReturn:
        raise import_module("slangrad.missing_names").missing("'Texture'", name)

    # --- Facts ---

    @property
    def device(self) -> HostValue:
        """The device that has the memory."""
        return self.storage.device

    @property
    def desc(self) -> TextureDesc:
        """The arguments that it was made with."""
        return replace(self._desc)

    @property
    def type(self) -> TextureType:
        """Its kind."""
        return self._desc.type

    @property
    def format(self) -> Enum:
        """The format of a texel."""
        return self._desc.format

    @property
    def usage(self) -> TextureUsage:
        """The permitted uses."""
        return self._desc.usage

    @property
    def memory_type(self) -> MemoryType:
        """The kind of its memory."""
        return self._desc.memory_type

    @property
    def label(self) -> str:
        """The name that it was given, for people."""
        return self._desc.label

    @property
    def width(self) -> int:
        """Texels of a row of the first level."""
        return self._desc.width

    @property
    def height(self) -> int:
        """Rows of the first level."""
        return self._desc.height

    @property
    def depth(self) -> int:
        """Slices of the first level."""
        return self._desc.depth

    @property
    def array_length(self) -> int:
        """How many textures the array has."""
        return self._desc.array_length

    @property
    def layer_count(self) -> int:
        """How many layers there are; a cube has six."""
        return self._desc.layers

    @property
    def mip_count(self) -> int:
        """How many levels there are."""
        return self._desc.mip_count

    @property
    def subresource_count(self) -> int:
        """How many levels all layers have together."""
        return self.layer_count * self.mip_count

    def get_mip_width(self, mip: int = 0) -> int:
        """The width of a level."""
        return halved(self.width, self._checked(mip))

    def get_mip_height(self, mip: int = 0) -> int:
        """The height of a level."""
        return halved(self.height, self._checked(mip))

    def get_mip_depth(self, mip: int = 0) -> int:
        """The depth of a level."""
        return halved(self.depth, self._checked(mip))

    def get_mip_size(self, mip: int = 0) -> HostValue:
        """Width, height and depth of a level, as a uint3."""
        sizes = self.get_mip_width(mip), self.get_mip_height(mip), self.get_mip_depth(mip)
        return VECTORS.vector_class(U32, 3)(*sizes)

    def get_subresource_layout(self, mip: int = 0, row_alignment: int = 1) -> SubresourceLayout:
        """Where texels of a level lie in a buffer to which `copy_texture_to_buffer` writes, if rows begin at multiples
        of `row_alignment` bytes. ValueError for a level or an alignment that there is not, and for several samples."""
        if operator.index(row_alignment) < 1:
            raise ValueError(f"row_alignment: expected at least 1 byte, not {row_alignment}")
        if self._desc.has_samples:
            raise ValueError(f"row_alignment: samples of a {self.type.name} have no rows of their own")
        size = self.get_mip_size(mip)
        return SubresourceLayout.of(size, get_format_info(self.format).bytes_per_block, row_alignment)

    @property
    def descriptor_handle_ro(self) -> DescriptorHandle:
        """The handle by which programs read it. ValueError for a texture with gradients, because texels behind a
        handle are constants, and without TextureUsage.shader_resource or unordered_access."""
        return self._handle("read")

    @property
    def descriptor_handle_rw(self) -> DescriptorHandle:
        """The handle by which programs read and write it. ValueError for a texture with gradients, and without
        TextureUsage.unordered_access."""
        return self._handle("written")

    def _handle(self, use: str) -> DescriptorHandle:
        if use not in self._handles or self._grad_in is not None or self._grad_out is not None:
            self._handles[use] = self._new_handle(use)
        return self._handles[use]

    def _new_handle(self, use: str) -> DescriptorHandle:
        return DESCRIPTORS.of_texture(self, written=use == "written")

    # --- Texels ---

    def to_numpy(self, layer: int = 0, mip: int = 0) -> AnyArray:
        """A copy of a level of one layer: rows first, the channels of a texel last, if there are several."""
        return self.level(layer, mip).to_numpy()

    def copy_from_numpy(self, data: AnyArray, layer: int = 0, mip: int = 0) -> None:
        """Overwrite a level of one layer by an array of its shape. Numbers are converted if no value changes;
        ValueError where it does not fit."""
        _write(self.level(layer, mip), data)

    def check_data(self, data: AnyArray, layer: int = 0, mip: int = 0) -> None:
        """ValueError where an array is not of the shape of a level of a layer."""
        _fitting(self.level(layer, mip), data)

    from_numpy = copy_from_numpy

    def to_bitmap(self, layer: int = 0, mip: int = 0) -> HostValue:
        """A Bitmap of a level of one layer, with the numbers in memory, of packed formats with floats. ValueError for
        textures of one or three dimensions, and of several samples."""
        if self.rank - self.is_layered != 2:
            raise ValueError(
                f"to_bitmap: a {self.type.name} is no image; there are to_numpy() and Bitmap(array)"
            )
        info = get_format_info(self.format)
        names = BITMAPS.PixelFormat
        kinds = {1: names.r, 2: names.rg, 3: names.rgb, 4: names.rgba}
        level, count = self.level(layer, mip), channels(info)
        numbers = self._values_of(level) if info.name in PACKED else level.to_numpy()
        if blue_first(info) and info.name not in PACKED:
            numbers = numbers[..., [2, 1, 0, 3][:count]]
        pixels = numbers[..., None] if numbers.ndim == 2 else numbers
        return BITMAPS.Bitmap(pixels, pixel_format=kinds[count], srgb_gamma=info.is_srgb_format())

    def generate_mips(self) -> None:
        """Overwrite all levels but the first: each texel is the mean of the area that it covers in the level before.
        Colors in sRGB are averaged as linear ones. ValueError for texels that are whole numbers."""
        if get_format_info(self.format).is_integer_format():
            raise UnsupportedTexture(f"generate_mips: texels of {self.format.name} have no mean")
        for source, target in zip(self.levels, self.levels[1:]):
            values = self._values_of(source)
            for axis in range(self.is_layered, self.rank):
                values = _reduced(values, axis, target.shape[axis])
            self._put_values(target, values)

    def create_view(
        self, desc: TextureViewDesc | Mapping[str, HostValue] | None = None, **named: HostValue
    ) -> TextureView:
        """A texture over some levels of this one, `mip_count` from `mip` on, and some layers, `layer_count` from
        `layer` on. ValueError for levels or layers that are not there, UnsupportedTexture (E9001) for another
        format."""
        return TextureView(self, TextureViewDesc.of(desc, named))

    def copy(self) -> Texture:
        """A texture of the same kind with the same texels in all levels. Gradients are copied as well."""
        copied = self._with_layers(self._desc)
        for level, source in zip(copied.levels, self.levels):
            level.put_numbers(source.numbers())
        grad_in, grad_out = self._grad_in, self._grad_out
        copied.grad_in = None if grad_in is None else grad_in.copy()
        if grad_out is not None:
            copied.grad_out = copied._grad_in if grad_out is grad_in else grad_out.copy()
        return copied

    # --- Gradients ---

    @property
    def grad_in(self) -> Texture | None:
        """The gradient that a kernel reads if it writes this texture."""
        return self._grad_in

    @grad_in.setter
    def grad_in(self, grad: Texture | None) -> None:
        self._attach("grad_in", grad)

    @property
    def grad_out(self) -> Texture | None:
        """The gradient to which a kernel adds if it reads this texture."""
        return self._grad_out

    @grad_out.setter
    def grad_out(self, grad: Texture | None) -> None:
        self._attach("grad_out", grad)

    @property
    def grad(self) -> Texture:
        """`grad_out`. RuntimeError if there is none."""
        if self._grad_out is None:
            raise RuntimeError("Texture has no grad. Attach one with texture = texture.with_grads()")
        return self._grad_out

    def with_grads(
        self, grad_in: Texture | None = None, grad_out: Texture | None = None, zero: bool = False
    ) -> Texture:
        """A texture over the same memory with gradients: the given one or a new one serves as both. A gradient is a
        texture of the same kind, sizes and levels.

        New gradients are zero; given ones are cleared if `zero` is True. ValueError where a gradient does not fit, or
        texels have none.
        """
        gradients = [grad for grad in (grad_in, grad_out) if grad is not None]
        shared = gradients[0] if gradients else self.new_gradient()
        texture = self.detach()
        texture.grad_in = shared if grad_in is None else grad_in
        texture.grad_out = shared if grad_out is None else grad_out
        for grad in gradients if zero else ():
            grad.clear()
        return texture

    def new_gradient(self) -> Texture:
        """A texture of zeros for derivatives of this one, which is not attached to it. ValueError where texels have
        none."""
        return self._with_layers(self._desc_of_gradient())

    def _with_layers(self, desc: TextureDesc) -> Texture:
        """A new texture of zeros whose memory has as many layers as that of this one."""
        if self.layers_in_memory == (0, desc.layers):
            return Texture(self.device, desc)
        first, total = self.layers_in_memory
        whole = Texture(self.device, replace(desc, array_length=total * desc.array_length // desc.layers))
        return whole.create_view(layer=first, layer_count=desc.layers)

    def detach(self) -> Texture:
        """The same texels without gradients."""
        texture = Texture.__new__(Texture)
        texture._set(self._desc, self.storage, self.start, self.layers_in_memory)
        return texture

    def clear(self) -> None:
        """Make all texels of all levels zero. Gradients stay."""
        for level in self.levels:
            level.detach().clear()

    def _attach(self, name: str, grad: Texture | None) -> None:
        """Attach a gradient to all levels. TypeError and ValueError where it does not fit."""
        self._check_gradient(name, grad)
        setattr(self, f"_{name}", grad)
        for number, level in enumerate(self.levels):
            setattr(level, f"_{name}", None if grad is None else grad.levels[number])

    def _desc_of_gradient(self) -> TextureDesc:
        if derivative_type(self.element_type) is not self.element_type:
            name = slang_name(self.element_type)
            raise ValueError(f"No derivative type found for {name}: this texture has no gradients")
        return self._desc_of_values()

    def _desc_of_values(self) -> TextureDesc:
        format = format_of(self.element_type)
        assert format is not None, self.element_type
        return replace(self._desc, format=format, usage=USUAL, label="")

    def _check_gradient(self, name: str, grad: object) -> None:
        if grad is None:
            return
        if not isinstance(grad, Texture):
            raise TypeError(f"{name}: expected a Texture, not {type(grad).__name__}")
        if grad.storage.runtime is not self.storage.runtime:
            raise ValueError(f"{name}: the gradient lies on another device than the texture")
        wanted, desc = self._desc_of_gradient(), grad._desc
        for field in GRADIENT_FIELDS:
            if getattr(desc, field) != getattr(wanted, field):
                value, needed = (_shown(getattr(d, field)) for d in (desc, wanted))
                raise ValueError(f"{name}: {field} is {value}, and the gradient of this texture has {needed}")
        if grad.layers_in_memory != self.layers_in_memory:
            raise ValueError(
                f"{name}: a view of some layers needs a gradient with the same layers in memory; "
                "use view.new_gradient()"
            )
        if not grad.writable:
            raise ValueError(f"{name}: make it with TextureUsage.unordered_access")

    @property
    def is_converted(self) -> bool:
        """Whether programs see other values than the numbers in memory."""
        return self.form.value is not self.form.stored

    def accepts(self, element: object) -> bool:
        """Whether programs may see texels of a type."""
        return element is self.element_type or element in self.form.others

    def format_code(self, element: object) -> int:
        """The library's number of the format where texels are seen as values of another type than the stored one."""
        return self.form.code_for(element)

    def scalars(self, format_code: int) -> list[int]:
        """The struct in Slang without derivatives, for texels of a format: `std/texture.slang` has its fields."""
        numbers = (self.texel_count, format_code, *self.texels.shape, self.mip_count)
        return [self.base_address, 0, 0, *numbers, *self.layers_in_memory]

    def decoded(self) -> Texture:
        """A texture of the values of texels, with the same gradients."""
        texture = self._with_layers(self._desc_of_values())
        for level, stored in zip(texture.levels, self.levels):
            level.put_numbers(self._values_of(stored).reshape(level.numbers().shape))
        texture.grad_in, texture.grad_out = self._grad_in, self._grad_out
        return texture

    def put_values(self, values: Texture) -> None:
        """Overwrite the first level by the nearest numbers of values."""
        self._put_values(self.texels, values.texels.detach().to_numpy())

    def _values_of(self, level: Tensor) -> AnyArray:
        numbers: AnyArray = level.detach().to_numpy()
        return decoded(self.format, numbers) if self.is_converted else numbers

    def _put_values(self, level: Tensor, values: AnyArray) -> None:
        numbers = encoded(self.format, values) if self.is_converted else values
        level.detach().put_numbers(numbers.astype(level.numbers().dtype).reshape(level.numbers().shape))

    def level(self, layer: int, mip: int) -> Tensor:
        """The texels of a level of one layer, as a tensor over their memory. ValueError where they are not there."""
        level = self.levels[self._checked(mip)]
        index = _index("layer", layer, self.layer_count)
        return level[index] if self.is_layered else level

    def _checked(self, mip: int) -> int:
        return _index("mip", mip, self.mip_count)


def _shown(value: object) -> object:
    return value.name if isinstance(value, Enum) else value


def _index(name: str, index: int, count: int) -> int:
    number = operator.index(index)
    if not 0 <= number < count:
        raise ValueError(f"{name}: {number} is not among the {count} of this texture")
    return number


def _write(texels: Tensor, data: AnyArray) -> None:
    texels.copy_from_numpy(_fitting(texels, as_source(data)))


def _fitting(texels: Tensor, source: AnyArray) -> AnyArray:
    """An array in the shape of texels, which it may have without dimensions, too."""
    wanted = (*texels.shape, *numpy_layout(texels.element_type)[1])
    without_channels = source.shape[:-1] == wanted and source.shape[-1] == 1
    if (source.ndim == 1 or without_channels) and source.size == prod(wanted):
        source = source.reshape(wanted)
    if source.shape != wanted:
        message = f"data: the shape of the NumPy array is {source.shape}, and texels of type"
        raise ValueError(f"{message} {slang_name(texels.element_type)} need {wanted} here")
    return source


def _reduced(values: AnyArray, axis: int, size: int) -> AnyArray:
    """Means along an axis: of each of `size` equal parts."""
    count = values.shape[axis]
    edges = np.arange(size + 1) * count / size
    first, total = np.floor(edges[:-1]).astype(int), np.zeros(())
    shape = [-1 if k == axis else 1 for k in range(values.ndim)]
    for step in range(int(np.ceil(count / size)) + 1):
        index = first + step
        part = (
            np.clip(np.minimum(edges[1:], index + 1) - np.maximum(edges[:-1], index), 0, None) * size / count
        )
        weights = part.reshape(shape).astype(values.dtype if values.dtype.itemsize > 2 else np.float32)
        total = total + weights * np.take(values, np.minimum(index, count - 1), axis)
    return total


# --- Views ---


class TextureView(Texture):
    """Some levels and layers of a texture, in its memory. Calls and kernels take it as a texture. `sampler` is the one
    that it was made with, for handles of both."""

    __slots__ = ("_texture", "_view_desc")

    def __init__(self, texture: Texture, desc: TextureViewDesc) -> None:
        if desc.format not in (Format["undefined"], texture.format):
            raise UnsupportedTexture(
                f"format: a view of {texture.format.name} as {desc.format.name} is not supported"
            )
        within = desc.subresource_range
        mips = _counted("mip", within.mip, within.mip_count, ALL_MIPS, texture.mip_count)
        layers = _counted("layer", within.layer, within.layer_count, ALL_LAYERS, texture.layer_count)
        faces = max(KINDS[texture.type][3], 1)
        if layers % faces:
            raise ValueError(f"layer_count: a {texture.type.name} has six layers for each cube, not {layers}")
        first, total = texture.layers_in_memory
        of_layers = [prod(level.shape[texture.is_layered :]) for level in texture.levels]
        start = texture.start + total * sum(of_layers[: within.mip])
        place = LayersInMemory(first + within.layer, total)
        if mips == 1 or layers == total:  # one piece of memory
            start, place = start + place.first * of_layers[within.mip], LayersInMemory(0, layers)
        self._texture, self._view_desc = texture, desc
        sizes = [halved(size, within.mip) for size in (texture.width, texture.height, texture.depth)]
        self._set(
            replace(texture._desc, width=sizes[0], height=sizes[1], depth=sizes[2], mip_count=mips,
                    array_length=layers // faces, label=desc.label),
            texture.storage, start, place,
        )  # fmt: skip
        chosen = replace(desc, subresource_range=SubresourceRange(within.layer, layers, within.mip, mips))
        self._view_desc = chosen
        gradients: dict[int, Texture] = {}
        for name, grad in (("grad_in", texture.grad_in), ("grad_out", texture.grad_out)):
            if grad is not None:
                view = gradients.setdefault(
                    id(grad), TextureView(grad, replace(chosen, format=Format["undefined"]))
                )
                self._attach(name, view)

    def __repr__(self) -> str:
        return f"TextureView({self._texture!r}, {self._view_desc.subresource_range})"

    @property
    def texture(self) -> Texture:
        """The whole texture."""
        return self._texture

    @property
    def desc(self) -> TextureViewDesc:  # type: ignore[override]
        """The format, layers and levels."""
        return replace(self._view_desc)

    @property
    def sampler(self) -> HostValue:
        """The sampler that the view was made with; None for none."""
        return self._view_desc.sampler

    @property
    def descriptor_handle_combined(self) -> DescriptorHandle:
        """The handle of the view with its sampler, a Sampler2D and so on. ValueError without a sampler, with one that
        compares, and for a view with gradients."""
        return self._handle("combined")

    def _new_handle(self, use: str) -> DescriptorHandle:
        return DESCRIPTORS.of_combined(self, self.sampler) if use == "combined" else super()._new_handle(use)

    @property
    def subresource_range(self) -> SubresourceRange:
        """Which layers and levels these are."""
        return self._view_desc.subresource_range


def _counted(name: str, first: int, count: int, everything: int, available: int) -> int:
    """The number of layers or levels of a view."""
    _index(name, first, available)
    count = available - first if count == everything else count
    if not 1 <= count <= available - first:
        raise ValueError(
            f"{name}_count: {count} from {name} {first} on are not among the {available} of this texture"
        )
    return count
