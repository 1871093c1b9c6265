"""Device memory with a size, and perhaps an element type.

    buffer = Buffer.create(device, element_type=module.Particle, element_count=100)
    buffer.copy_from_numpy(array)      # converted to the element's scalar type where no value changes
    buffer.to_numpy()                  # the bytes, np.uint8

`device` is a runtime device or an object whose attribute `runtime` is one; `buffer.device` is that object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Type
from slangrad.runtime.device import Device, MemoryRegion
from slangrad.runtime.memory import MemoryBlock, foreign_block
from slangrad.tensors.elements.conversion import AnyArray, HostValue, convert_exactly
from slangrad.tensors.elements.element_types import element_type as find_element_type
from slangrad.tensors.elements.element_types import from_numpy_type, holds_structs, numpy_layout
from slangrad.tensors.elements.shape import check_count, contiguous_strides
from slangrad.tensors.elements.torch_types import TORCH
from slangrad.tensors.elements.transfer import SharedArray
from slangrad.tensors.elements.views import View, reach

FORMATS = LazyModule("slangrad.tensors.textures.formats")
EXCHANGE = LazyModule("slangrad.tensors.gpu_exchange")
if TYPE_CHECKING:
    from slangrad.tensors import descriptors as DESCRIPTORS
    from slangrad.tensors.descriptors import DescriptorHandle
else:
    DESCRIPTORS = LazyModule("slangrad.tensors.descriptors")
BYTES = np.dtype(np.uint8)


class BufferUsage(IntFlag):
    """The permitted uses of a buffer. Without `unordered_access` no kernel may write to it."""

    none = 0
    vertex_buffer = 1
    index_buffer = 2
    constant_buffer = 4
    indirect_argument = 8
    shader_resource = 16
    unordered_access = 32
    copy_source = 64
    copy_destination = 128
    acceleration_structure = 256
    acceleration_structure_build_input = 512
    shader_table = 1024
    shared = 2048


class MemoryType(Enum):
    """The place of memory; the CPU device has one kind only."""

    device_local = "device_local"
    upload = "upload"
    read_back = "read_back"


class ResourceState(Enum):
    """The next use of memory, which programs declare for other devices; here it has no effect."""

    undefined = "undefined"
    general = "general"
    constant_buffer = "constant_buffer"
    shader_resource = "shader_resource"
    unordered_access = "unordered_access"
    indirect_argument = "indirect_argument"
    copy_source = "copy_source"
    copy_destination = "copy_destination"


READ_WRITE = BufferUsage.shader_resource | BufferUsage.unordered_access


def runtime_of(device: object) -> Device:
    """The runtime device of a user's device; TypeError for other objects."""
    runtime = getattr(device, "runtime", None)
    if not isinstance(runtime, Device):
        raise TypeError(f"device: expected a device, as create_device() gives one, not {device!r}")
    return runtime


@dataclass(slots=True)
class BufferDesc:
    """The arguments of a buffer; `buffer.desc` is a copy of those that it was made with."""

    size: int = 0
    struct_size: int = 0
    usage: BufferUsage = READ_WRITE
    memory_type: MemoryType = MemoryType.device_local
    label: str = ""


def typed_desc(
    element: Type,
    count: int,
    usage: BufferUsage = READ_WRITE,
    memory_type: MemoryType = MemoryType.device_local,
) -> BufferDesc:
    """The arguments of a buffer of `count` elements. ValueError for more than a buffer can have."""
    check_count(count)
    stride = layout_of(element).size
    return BufferDesc(count * stride, stride, usage, memory_type)


class Buffer:
    """Bytes on a device. Tensors have one (`tensor.storage`), kernels take them. `size` and `struct_size` are in
    bytes."""

    # fmt: off
    __slots__ = ("__weakref__", "_block", "_handles", "address", "device", "element_type", "frozen", "label",
                 "memory_type", "runtime", "size", "struct_size", "usage", "writable")
    # fmt: on

    def __init__(
        self,
        device: Any,  # has a Device as `runtime`; its class stands above
        block: MemoryBlock,
        desc: BufferDesc,
        element_type: Type | None = None,
    ) -> None:
        self.device = device
        self.runtime: Device = device.runtime
        self._block = block
        self.address = block.address
        self.size = desc.size
        self.element_type = element_type
        self.struct_size = desc.struct_size
        self.usage = desc.usage
        self.writable = desc.usage is READ_WRITE or bool(desc.usage & BufferUsage.unordered_access)
        self.memory_type = desc.memory_type
        self.label = desc.label
        self.frozen = False
        self._handles: dict[bool, DescriptorHandle] | None = None  # by whether it is written

    @staticmethod
    def create(
        device: object,
        size: int | None = None,
        *,
        element_type: object = None,
        element_count: int | None = None,
        struct_size: int | None = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        data: AnyArray | None = None,
        zero: bool = False,
        label: str = "",
    ) -> Buffer:
        """`size` in bytes, or `element_count` elements of `struct_size` or a type, or as big as `data`. ValueError if
        `struct_size` is not the size of the type.
        """
        t = None if element_type is None else find_element_type(element_type, "element_type")
        stride = struct_size or (1 if t is None else layout_of(t).size)
        if struct_size and t is not None and struct_size != layout_of(t).size:
            raise ValueError(
                f"struct_size: elements of {t} take {layout_of(t).size} bytes, not {struct_size}"
            )
        data = None if data is None else as_source(data)
        size = _size_in_bytes(size, element_count, stride, data)
        block = runtime_of(device).allocate(size, zero)
        buffer = Buffer(device, block, BufferDesc(size, stride, usage, memory_type, label), t)
        if data is not None:
            buffer.runtime.write(buffer.address, data)
        return buffer

    @staticmethod
    def typed(
        device: object,
        element: Type,
        count: int,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        zero: bool = False,
    ) -> Buffer:
        """A buffer of `count` elements."""
        desc = typed_desc(element, count, usage, memory_type)
        return Buffer(device, runtime_of(device).allocate(desc.size, zero), desc, element)

    @staticmethod
    def foreign(
        device: object, element: Type, address: int, size: int, owner: object, usage: BufferUsage
    ) -> Buffer:
        """A buffer over memory of the device that another library allocated; `owner` is kept alive."""
        runtime_of(device)
        check_count(size // (layout_of(element).size or 1))
        block = foreign_block(address, size, owner)
        return Buffer(device, block, BufferDesc(size, layout_of(element).size, usage), element)

    def to_torch(
        self, type: object = None, shape: Sequence[int] = (), strides: Sequence[int] = (), offset: int = 0
    ) -> HostValue:
        """The memory itself as a PyTorch tensor of a dtype (without one: bytes), from byte `offset` on. Strides count
        elements; without a shape there is one dimension. ValueError for elements outside of the buffer or at no
        multiple of their size, BufferError for memory that is read-only.
        """
        element = FORMATS.scalar_of(type)
        size = layout_of(element).size
        if offset < 0 or offset % size or offset > self.size:
            raise ValueError(f"offset: {offset} is no multiple of {size} in a buffer of {self.size} bytes")
        sizes = tuple(shape) or ((self.size - offset) // size,)
        steps = tuple(strides) or contiguous_strides(sizes)
        range_of_elements = reach(sizes, steps)
        if len(steps) != len(sizes):
            raise ValueError(f"strides: {len(sizes)} are needed, not {len(steps)}")
        if range_of_elements is not None and (
            range_of_elements[0] * size + offset < 0 or (range_of_elements[1] + 1) * size + offset > self.size
        ):
            raise ValueError(
                f"shape: the requested shape {sizes} exceeds the buffer size of {self.size} bytes"
            )
        dtype = numpy_layout(element)[0]
        region = MemoryRegion(self.address + offset, sizes, tuple(step * size for step in steps), dtype)
        if not self.runtime.reaches_host:
            return EXCHANGE.torch_view(self.runtime, region, self, self.frozen)
        array = self.runtime.host_view(region, self)
        assert array is not None, "the host reaches the memory"
        if self.frozen:
            raise BufferError("PyTorch has no read-only tensors: use torch.from_numpy(buffer.to_numpy())")
        return TORCH.from_numpy(array)

    def require_writes(self) -> None:
        """ValueError if the owner of the memory does not permit writing; the host may write all other memory."""
        if self.frozen:
            raise ValueError(
                "the memory belongs to a read-only array: copy it, tensor.copy() or array.copy()"
            )

    def __repr__(self) -> str:
        return f"Buffer(size={self.size}, struct_size={self.struct_size}, usage={self.usage!r})"

    @property
    def desc(self) -> BufferDesc:
        """The arguments that it was made with."""
        return BufferDesc(self.size, self.struct_size, self.usage, self.memory_type, self.label)

    @property
    def device_address(self) -> int:
        """The address of its first byte, for pointers."""
        return self.address

    @property
    def descriptor_handle_ro(self) -> DescriptorHandle:
        """The handle by which programs read it: of a StructuredBuffer or a ByteAddressBuffer."""
        return self._handle(written=False)

    @property
    def descriptor_handle_rw(self) -> DescriptorHandle:
        """The handle by which programs read and write it. ValueError for a read-only buffer."""
        return self._handle(written=True)

    def _handle(self, written: bool) -> DescriptorHandle:
        if self._handles is None:
            self._handles = {}
        if written not in self._handles:
            self._handles[written] = DESCRIPTORS.of_buffer(self, written)
        return self._handles[written]

    @property
    def element_count(self) -> int:
        """How many elements of `struct_size` bytes there are."""
        return self.size // self.struct_size if self.struct_size else 0

    def to_numpy(self) -> npt.NDArray[np.uint8]:
        """A copy of the bytes; `buffer.to_numpy().view(np.float32)` gives numbers."""
        return self.runtime.read(MemoryRegion(self.address, (self.size,), (1,), BYTES))  # type: ignore[return-value]

    def copy_from_numpy(self, data: AnyArray) -> None:
        """Overwrite the front of the buffer with a contiguous array, which may be smaller. Numbers are converted to
        the element type if no value changes; structs, and buffers without an element type, take any bytes. ValueError
        where it does not fit."""
        self.require_writes()
        source = as_source(data)
        if self.element_type is not None and not holds_structs(self.element_type):
            source = convert_exactly(source, numpy_layout(self.element_type)[0], "data")
        if source.nbytes > self.size:
            raise ValueError(
                f"data: Numpy array is larger than the buffer ({source.nbytes} > {self.size} bytes)"
            )
        self.runtime.write(self.address, source)

    def clear(self) -> None:
        """Set all bytes to zero."""
        self.require_writes()
        self.runtime.clear(MemoryRegion(self.address, (self.size,), (1,), BYTES))

    def read_bytes(self, offset: int, size: int) -> bytes:
        """A copy of bytes from `offset` on; ValueError where they are not all in the buffer."""
        self._check_range(offset, size)
        return self.runtime.read(MemoryRegion(self.address + offset, (size,), (1,), BYTES)).tobytes()

    def write_bytes(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Overwrite bytes from `offset` on; ValueError where they are not all in the buffer."""
        self.require_writes()
        source = np.frombuffer(data, np.uint8)
        self._check_range(offset, source.nbytes)
        self.runtime.write(self.address + offset, source)

    def _check_range(self, offset: int, size: int) -> None:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(f"offset: bytes {offset} to {offset + size} are not in a buffer of {self.size}")


# Of a tensor: its storage, the type of its elements, how that is shown, and the view.
SharedView = tuple[Buffer, Type, object, View]


def shared_view(
    device: object,
    array: AnyArray,
    shared: SharedArray,
    element: Type | None,
    usage: BufferUsage,
    dtype: object,
) -> SharedView:
    """A view of another library's memory; the array, whose memory that is, stays alive. `element`: None for its own."""
    frozen = not array.flags.writeable
    if frozen:
        usage &= ~BufferUsage.unordered_access
    element = from_numpy_type(array.dtype) if element is None else element
    assert element is not None, array.dtype
    storage = Buffer.foreign(device, element, shared.address, shared.size, array, usage)
    storage.frozen = frozen
    return storage, element, dtype, shared.view


def as_source(data: object) -> AnyArray:
    """`data` if it is a NumPy array without gaps."""
    if not isinstance(data, np.ndarray):
        raise TypeError(f"data: expected a NumPy array, not {type(data).__name__}; use np.asarray()")
    if data.dtype.hasobject:
        raise TypeError("data: an array of Python objects has no bytes to copy; use astype()")
    if not data.flags.c_contiguous:
        raise ValueError("data: Source Numpy array must be contiguous; use np.ascontiguousarray()")
    return data


def _size_in_bytes(size: int | None, count: int | None, stride: int, data: AnyArray | None) -> int:
    for name, number, units in (("size", size, "bytes"), ("element_count", count, "elements")):
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, np.integer))):
            raise TypeError(f"{name}: expected a whole number, not {number!r}")
        if number is not None and number < 0:
            raise ValueError(f"{name}: a buffer cannot have {number} {units}")
    if size is None and count is None:
        if data is None:
            raise ValueError("size: give a size in bytes, an element_count, or data")
        return data.nbytes
    total = int((count or 0) * stride if size is None else size)
    if size is not None and count is not None and count * stride != size:
        raise ValueError(f"size: {count} elements of {stride} bytes do not take {size} bytes")
    if data is not None and data.nbytes != total:
        raise ValueError(f"data: {data.nbytes} bytes were given for a buffer of {total} bytes")
    return total
