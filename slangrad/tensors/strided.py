"""A strided view of a buffer: the facts that a call reads, and conversions to and from the host.

    view.address      of the first element          view.shape, view.strides      in elements
    view.to_numpy()   float3 (5,) -> float32 (5, 3)  view.copy_from_numpy(array)   checked, never rounded

Gradients are in `tensor.py`.
"""

from __future__ import annotations

from math import prod
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Type
from slangrad.runtime.device import MemoryRegion
from slangrad.tensors.buffer import Buffer, BufferUsage, MemoryType, as_source
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import TypeView, holds_structs, is_small_dtype, structured_dtype
from slangrad.tensors.elements.shape import Shape, is_contiguous
from slangrad.tensors.elements.torch_types import host_array_of, is_torch_type, torch_tensor_of
from slangrad.tensors.elements.transfer import region_of, source_for, whole_elements
from slangrad.tensors.elements.views import View, reach
from slangrad.tensors.host_values import assign, item, listed
from slangrad.tensors.operators import Operators

IMAGES = LazyModule("slangrad.images.pixels")
CURSOR = LazyModule("slangrad.marshal.reflection.buffer_cursor")
EXCHANGE = LazyModule("slangrad.tensors.gpu_exchange")


class StridedView(Operators):
    """Elements of one type in a buffer. `address` is that of the first one, and `element_size` its bytes. `layout` is
    device, shape and strides in one tuple: what the launch of a kernel depends on besides the type."""

    # fmt: off
    __slots__ = ("__weakref__", "_contiguous", "_dtype", "address", "element_size", "element_type", "layout",
                 "offset", "shape", "storage", "strides")
    # fmt: on

    def _set(self, storage: Buffer, element: Type, dtype: object, view: View) -> None:
        self.storage = storage
        self.element_type = element
        self._dtype = dtype
        self.shape = view.shape if type(view.shape) is Shape else Shape(view.shape)
        self.strides = view.strides if type(view.strides) is Shape else Shape(view.strides)
        self.layout = (storage.runtime, *self.shape, *self.strides)
        self.offset = view.offset
        self.element_size = layout_of(element).size
        self.address = storage.address + view.offset * self.element_size
        self._contiguous = is_contiguous(view.shape, view.strides)

    def _check(self) -> None:
        """ValueError if the view does not lie in its storage."""
        if len(self.shape) != len(self.strides):
            rank, steps = len(self.shape), len(self.strides)
            raise ValueError(f"strides: Shape dimensions ({rank}) must match stride dimensions ({steps})")
        if self.offset < 0:
            raise ValueError(f"offset: Tensor view offset is negative ({self.offset})")
        reached = reach(self.shape, self.strides)
        if reached is None or not self.element_size:
            return
        first, last = self.offset + reached[0], self.offset + reached[1]
        if first < 0:
            raise ValueError(
                f"strides: Strides must be positive or zero, or the offset large enough: from element "
                f"{self.offset} on, strides {self.strides} reach element {first}"
            )
        room = self.storage.size // self.element_size
        if last >= room:
            raise ValueError(f"shape: the view reaches element {last} of a storage of {room} elements")

    @property
    def device(self) -> object:
        """The device that has the memory."""
        return self.storage.device

    @property
    def dtype(self) -> object:
        """The element type: the module's type if the tensor was made with one, else the reflected type."""
        if hasattr(self._dtype, "ir_type") and not isinstance(self._dtype, type):
            return self._dtype
        return TypeView.show(self.element_type)

    @property
    def element_count(self) -> int:
        """The product of the shape."""
        return prod(self.shape)

    @property
    def usage(self) -> BufferUsage:
        """The permitted uses of its buffer."""
        return self.storage.usage

    @property
    def memory_type(self) -> MemoryType:
        """The kind of its buffer's memory."""
        return self.storage.memory_type

    @property
    def writable(self) -> bool:
        """Whether kernels may write it."""
        return self.storage.writable

    @property
    def ndim(self) -> int:
        """The number of dimensions, without those of an element."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in row-major order."""
        return self._contiguous

    def __str__(self) -> str:
        return str(self.to_numpy(structured=holds_structs(self.element_type)))

    def to_numpy(self, structured: bool = False) -> AnyArray:
        """A copy: the view's dimensions, then those of an element, so that (4) of "float3" are (4, 3). Structs are
        bytes; with `structured` they are records with named fields."""
        values = self.storage.runtime.read(self._region())
        if not structured:
            return values
        record = structured_dtype(self.element_type)
        return values.view(record.base).reshape(*self.shape, *record.shape)

    def copy_from_numpy(self, data: AnyArray) -> None:
        """Overwrite all elements with a contiguous array of as many numbers (of structs: bytes). Numbers of another
        dtype are converted if no value changes. ValueError where it does not fit, or the tensor has gaps or is
        read-only."""
        self.storage.require_writes()
        source = as_source(data)
        if not self._contiguous:
            raise ValueError(
                "Destination tensor must be contiguous; write to its memory: tensor.host_view()[...] = array"
            )
        source = source_for(self.element_type, self.element_count, source)
        self.storage.runtime.write(self.address, source)

    def fill(self, value: object) -> None:
        """Set every element to a number, an array or host vector of an element's shape, or a dict of fields."""
        assign(self, value)

    def item(self) -> HostValue:
        """The only element as a call returns it: a number, a host vector or matrix, a dict of a struct. ValueError
        where there are none or several."""
        return item(self)

    def tolist(self) -> HostValue:
        """The elements in nested lists of Python numbers, those of vectors and matrices too; structs are dicts."""
        return listed(self)

    def save(self, path: str | PathLike[str], *, flip_y: bool = False, linear: bool = False) -> None:
        """Write an image file, in the format of its name: `float` to `float4` or bytes in height and
        width, or numbers with the channels as third dimension. 0 to 1 become 0 to 255; other values are clamped.
        EXR and HDR have the floats.
        `linear`: the values are linear intensities, and the file gets them as sRGB. An image that `load_from_image`
        has read with `flip_y` or `linearize` is saved with `flip_y` or `linear`. ValueError for shapes and types
        that are no image."""
        if holds_structs(self.element_type):
            raise ValueError("save: structs are no pixels; tensor.cursor() reads their fields")
        IMAGES.write_image(path, self.to_numpy(), flip_y, linear)

    def to_torch(self) -> HostValue:
        """The memory itself as a torch tensor that keeps the storage alive, with dimensions as in `to_numpy`.
        Read-only tensors, and those with negative strides, are copied, because PyTorch cannot use their memory. Memory
        of a GPU stays there. BufferError if PyTorch does not have the GPU."""
        if not self.storage.runtime.reaches_host:
            frozen = not self.writable or self.storage.frozen
            return EXCHANGE.torch_view(self.storage.runtime, self._region(), self.storage, frozen)
        return torch_tensor_of(self.host_view())

    def copy_from_torch(self, tensor: HostValue) -> None:
        """Overwrite all elements, as `copy_from_numpy` does, with those of a torch tensor, from wherever it lies."""
        on_host = tensor.cpu() if is_torch_type(type(tensor)) and tensor.is_cuda else tensor
        self.copy_from_numpy(np.ascontiguousarray(host_array_of(on_host)))

    def clear(self, command_encoder: HostValue = None) -> None:
        """Set the elements of this view to zero, at once or as a command of an encoder."""
        if command_encoder is not None:
            command_encoder.clear_tensor(self)
            return
        self.storage.require_writes()
        self.storage.runtime.clear(self._whole())

    def host_view(self) -> AnyArray:
        """The memory itself as a NumPy array that keeps the storage alive; as in `to_numpy`, elements add
        dimensions. Read-only if the tensor is. BufferError where the host cannot reach it."""
        memory = self._seen(self._region())
        memory.flags.writeable = self.writable and not self.storage.frozen
        return memory

    def elements(self) -> AnyArray:
        """The elements, each as one opaque item: the memory itself where the host reaches it, else a copy."""
        return self._items(self._whole())

    def numbers(self) -> AnyArray:
        """The numbers of the elements (of structs: the bytes): the memory itself, or a copy, as for `elements`."""
        return self._items(self._region())

    def put_elements(self, values: AnyArray) -> None:
        """Overwrite the elements by opaque items; the caller has checked that the tensor permits it."""
        self.storage.runtime.put(self._whole(), values)

    def put_numbers(self, values: AnyArray) -> None:
        """Overwrite the numbers of the elements (of structs: the bytes); as `put_elements`."""
        self.storage.runtime.put(self._region(), values)

    def places(self) -> AnyArray:
        """An array over the addresses of `host_view`, to be compared with others and never read."""
        return self._region().places()

    def _region(self) -> MemoryRegion:
        return region_of(self.element_type, self.address, self.shape, self.strides)

    def _whole(self) -> MemoryRegion:
        return whole_elements(self.element_type, self.address, self.shape, self.strides)

    def _items(self, region: MemoryRegion) -> AnyArray:
        runtime = self.storage.runtime
        memory = runtime.host_view(region, self.storage)
        return runtime.read(region) if memory is None else memory

    def uniforms(self) -> dict[str, object]:
        """The fields of a kernel's tensor parameter, as a dict that the parameter takes: the buffer, and shape,
        strides and offset in elements. Gradients are not in it."""
        return {
            "_data": self.storage,
            "_shape": self.shape.as_list(),
            "_strides": self.strides.as_list(),
            "_offset": self.offset,
        }

    def cursor(self, start: int | None = None, count: int | None = None) -> Any:  # a BufferCursor
        """Elements by index and fields by name, of all elements in row-major order or `count` from `start` on."""
        return CURSOR.BufferCursor.of_tensor(self, start, count)

    def _seen(self, region: MemoryRegion) -> AnyArray:
        memory = self.storage.runtime.host_view(region, self.storage)
        if memory is None:
            raise BufferError("the host cannot reach this device's memory; use tensor.to_numpy()")
        return memory

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("copy: a tensor is copied to the host; np.from_dlpack(tensor) shares its memory")
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The memory itself for libraries on the same GPU, as CuPy and Numba; tensors of the CPU have none."""
        if self.storage.runtime.reaches_host:
            raise AttributeError("__cuda_array_interface__: the tensor lies on the CPU")
        self.storage.runtime.precede(0)
        shown: dict[str, object] = EXCHANGE.interface(self._region())
        return shown | {"data": (self.address, not self.writable)}

    def __dlpack__(self, **options: HostValue) -> HostValue:
        """The memory itself, for other libraries. On a GPU `stream` is theirs, which then waits for all launches.
        BufferError for negative strides: PyTorch would end the process, and the protocol does not say which library
        reads it."""
        if options.get("copy") is not True and min(self.strides, default=0) < 0:
            raise BufferError(
                f"a tensor with strides {tuple(self.strides)} cannot share its memory, as other libraries take no "
                "negative ones: tensor.copy(), tensor.to_torch() and copy=True are copies, tensor.host_view() is an "
                "array of NumPy that shares it"
            )
        if not self.storage.runtime.reaches_host:
            return self._gpu_capsule(**options)
        shown = self.host_view()
        if is_small_dtype(shown.dtype):  # NumPy makes no capsules of these
            shared = shown.flags.writeable and options.get("copy") is not True
            return EXCHANGE.host_capsule(shown if shared else np.array(shown, order="C"))
        if options.get("copy") is True:
            return np.array(shown, order="C").__dlpack__(**options | {"copy": None})
        return shown.__dlpack__(**options)

    def _gpu_capsule(
        self,
        *,
        stream: int | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
        max_version: object = None,
    ) -> object:
        runtime = self.storage.runtime
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (EXCHANGE.HOST_KIND, 0) or copy is False:
                raise BufferError(f"dl_device: the tensor lies on {self.__dlpack_device__()}")
            return self.to_numpy().__dlpack__()
        region, owner = self._region(), self.storage
        if copy:
            region, owner = EXCHANGE.copied(runtime, region)
        return EXCHANGE.capsule(runtime, region, owner, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        if not self.storage.runtime.reaches_host:
            return EXCHANGE.GPU_KIND, self.storage.runtime.index
        return self.host_view().__dlpack_device__()
