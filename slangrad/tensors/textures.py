"""Textures: texels of one format in rows, with levels of detail and layers.

    t = device.create_texture(format=Format.rgba32_float, width=4, height=3, mip_count=2)
    t.to_numpy().shape == (3, 4, 4)      t.to_numpy(mip=1).shape == (1, 2, 4)

The memory is a buffer: levels lie one after the other, each row by row, with all layers. `std/texture.slang` reads it.
Texels lie as values of a Slang type, or are converted when a program reads or writes them (`TexelForm`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, IntFlag
from importlib import import_module
from math import prod
from typing import NoReturn

from slangrad.base.late import Late
from slangrad.ir.data.types import U32, Type
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferUsage, MemoryType, ResourceState, as_source
from slangrad.tensors.conversion import AnyArray, HostValue
from slangrad.tensors.element_types import derivative_type, numpy_layout, slang_name
from slangrad.tensors.formats import Format, TexelForm, decoded, element_of, encoded, texel_form
from slangrad.tensors.shape import check_count
from slangrad.tensors.tensor import Tensor

VECTORS = Late("slangrad.marshal.host.vectors")

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

# Of each kind: its type in Slang without RW, how many of width, height and depth it has, and whether it has layers.
KINDS: dict[TextureType, tuple[str, int, bool]] = {
    TextureType.texture_1d: ("Texture1D", 1, False),
    TextureType.texture_1d_array: ("Texture1DArray", 1, True),
    TextureType.texture_2d: ("Texture2D", 2, False),
    TextureType.texture_2d_array: ("Texture2DArray", 2, True),
    TextureType.texture_3d: ("Texture3D", 3, False),
}


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
        other objects and names.
        """
        if not isinstance(desc, (TextureDesc, Mapping, type(None))):
            raise TypeError(f"desc: expected a TextureDesc or a dict, not {desc!r}")
        values = {**(desc if isinstance(desc, Mapping) else {}), **named}
        names = [field.name for field in fields(TextureDesc)]
        unknown = [name for name in values if name not in names]
        if unknown:
            raise TypeError(f"{unknown[0]}: a texture has no such argument; it has {', '.join(names)}")
        return replace(desc if isinstance(desc, TextureDesc) else TextureDesc(), **values)

    def checked(self) -> TextureDesc:
        """With the number of all levels where `ALL_MIPS` are wanted. TypeError and ValueError for what makes no
        texture, UnsupportedTexture for kinds of textures that are not."""
        for name, kind in _KINDS_OF_FIELDS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name}: expected a {kind.__name__}, not {getattr(self, name)!r}")
        if self.type not in KINDS or self.sample_count != 1:
            kinds = ", ".join(kind.name for kind in KINDS)
            raise UnsupportedTexture(f"type: textures of these types are supported: {kinds}; one sample each")
        sizes = self._sizes()
        levels = max(sizes.values()).bit_length()
        count = self._whole("mip_count")
        count = levels if count == ALL_MIPS else count
        if not 1 <= count <= levels:
            raise ValueError(f"mip_count: a texture of these sizes has 1 to {levels} levels, not {count}")
        return replace(self, mip_count=count)

    def _sizes(self) -> dict[str, int]:
        """Width, height and depth, as far as the type has them."""
        _, count, is_array = KINDS[self.type]
        sizes = {name: self._whole(name) for name in ("width", "height", "depth")}
        layers = self._whole("array_length")
        for name, size in (*sizes.items(), ("array_length", layers)):
            if size < 1:
                raise ValueError(f"{name}: a texture cannot have {size}; the least is 1")
        unused = [name for name in list(sizes)[count:] if sizes[name] != 1]
        if unused or (layers != 1 and not is_array):
            name = unused[0] if unused else "array_length"
            raise ValueError(f"{name}: a {self.type.name} has 1, not {sizes.get(name, layers)}")
        return dict(list(sizes.items())[:count])

    def _whole(self, name: str) -> int:
        value = getattr(self, name)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name}: expected a whole number, not {value!r}")
        return operator.index(value)


_KINDS_OF_FIELDS: dict[str, type] = {
    "type": TextureType, "format": Format, "usage": TextureUsage, "memory_type": MemoryType,
    "default_state": ResourceState, "label": str,
}  # fmt: skip


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


class Texture:
    """Texels on a device. `texels` is a tensor over the memory of the first level; its shape has the outermost size
    first, that of layers before all others. `layout` is all that the launch of a kernel depends on besides the type."""

    # fmt: off
    __slots__ = ("__weakref__", "_desc", "_grad_in", "_grad_out", "address", "element_type", "form", "is_array",
                 "layout", "levels", "rank", "readable", "slang_name", "storage", "texels", "writable")
    # fmt: on

    def __init__(self, device: object, desc: TextureDesc, data: AnyArray | None = None) -> None:
        """`data` are the texels of the first level; others are zero."""
        checked = desc.checked()
        texels = sum(map(prod, _shapes(checked)))
        check_count(texels)
        usage = READ_WRITE if checked.usage & TextureUsage.unordered_access else BufferUsage.shader_resource
        element = form_of(desc.format).stored
        self._set(checked, Buffer.typed(device, element, texels, usage, desc.memory_type, zero=True))
        if data is not None:
            _write(self.texels, data)

    def _set(self, desc: TextureDesc, storage: Buffer) -> None:
        """A checked desc, and the memory of all levels."""
        self._desc = desc
        self._grad_in: Texture | None = None
        self._grad_out: Texture | None = None
        self.storage = storage
        self.form = form_of(desc.format)
        self.element_type = self.form.value
        self.slang_name, count, self.is_array = KINDS[desc.type]
        self.rank = count + self.is_array
        self.readable = bool(desc.usage & USUAL)
        self.writable = bool(desc.usage & TextureUsage.unordered_access)
        self.levels: list[Tensor] = []
        start = 0
        for shape in _shapes(desc):
            self.levels.append(Tensor(storage, self.form.stored, shape, offset=start))
            start += prod(shape)
        self.texels = self.levels[0]
        self.address = storage.address
        self.layout = (storage.runtime, desc.mip_count, *self.texels.shape)

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, reversed(self.texels.shape)))
        return f"Texture({self.type.name}, {self.format.name}, {sizes}, {self.mip_count} levels)"

    def __getattr__(self, name: str) -> NoReturn:
        raise import_module("slangrad.absent").missing("'Texture'", name)

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
        """How many layers there are."""
        return self._desc.array_length

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

    # --- Texels ---

    def to_numpy(self, layer: int = 0, mip: int = 0) -> AnyArray:
        """A copy of a level of one layer: rows first, the channels of a texel last, if there are several."""
        return self._level(layer, mip).to_numpy()

    def copy_from_numpy(self, data: AnyArray, layer: int = 0, mip: int = 0) -> None:
        """Overwrite a level of one layer by an array of its shape. Numbers are converted if no value changes;
        ValueError where it does not fit."""
        _write(self._level(layer, mip), data)

    def copy(self) -> Texture:
        """A texture of the same kind with the same texels in all levels. Gradients are copied as well."""
        copied = Texture(self.device, self._desc)
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
        return Texture(self.device, self._desc_of_gradient())

    def detach(self) -> Texture:
        """The same texels without gradients."""
        texture = Texture.__new__(Texture)
        texture._set(self._desc, self.storage)
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
        for field in ("type", "format", "width", "height", "depth", "array_length", "mip_count"):
            if getattr(desc, field) != getattr(wanted, field):
                value, needed = (_shown(getattr(d, field)) for d in (desc, wanted))
                raise ValueError(f"{name}: {field} is {value}, and the gradient of this texture has {needed}")
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
        return 0 if element is self.form.stored else self.form.code

    def decoded(self) -> Texture:
        """A texture of the values of texels, with the same gradients."""
        texture = Texture(self.device, self._desc_of_gradient())
        for level, stored in zip(texture.levels, self.levels):
            level.put_numbers(decoded(self.format, stored.detach().to_numpy()).reshape(level.numbers().shape))
        texture.grad_in, texture.grad_out = self._grad_in, self._grad_out
        return texture

    def put_values(self, values: Texture) -> None:
        """Overwrite the first level by the nearest numbers of values."""
        numbers = encoded(self.format, values.texels.detach().to_numpy())
        self.texels.detach().put_numbers(numbers.reshape(self.texels.numbers().shape))

    def _level(self, layer: int, mip: int) -> Tensor:
        level = self.levels[self._checked(mip)]
        index = _index("layer", layer, self.layer_count)
        return level[index] if self.is_array else level

    def _checked(self, mip: int) -> int:
        return _index("mip", mip, self.mip_count)


def _shapes(desc: TextureDesc) -> list[tuple[int, ...]]:
    """Of each level, outermost first."""
    _, count, is_array = KINDS[desc.type]
    layers = (desc.array_length,) if is_array else ()
    sizes = (desc.depth, desc.height, desc.width)[3 - count :]
    return [(*layers, *(halved(size, mip) for size in sizes)) for mip in range(desc.mip_count)]


def _shown(value: object) -> object:
    return value.name if isinstance(value, Enum) else value


def _index(name: str, index: int, count: int) -> int:
    number = operator.index(index)
    if not 0 <= number < count:
        raise ValueError(f"{name}: {number} is not among the {count} of this texture")
    return number


def halved(size: int, mip: int) -> int:
    """A size of the first level in a further one."""
    return max(size >> mip, 1)


def _write(texels: Tensor, data: AnyArray) -> None:
    source = as_source(data, "data")
    wanted = (*texels.shape, *numpy_layout(texels.element_type)[1])
    if source.shape != wanted:
        message = f"data: the shape of the NumPy array is {source.shape}, and texels of type"
        raise ValueError(f"{message} {slang_name(texels.element_type)} need {wanted} here")
    texels.copy_from_numpy(source)
