"""Tensor: a strided view of a buffer, and the tensors of its gradients.

    x = Tensor.from_numpy(device, np.ones((4, 3), np.float32)).with_grads()
    x[1:3].shape == (2, 3)      x[1:3].offset == 3      x.grad.to_numpy()      x.storage

Strides and offsets count elements. A view shares memory with its tensor, and its gradients are the same view of the
tensor's gradients. `strided.py` has the tensor without gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod
from os import PathLike
from typing import Any, overload

import numpy as np

from slangrad.base.process.warn import warn
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.type_data import type_data, type_from
from slangrad.ir.data.types import Type
from slangrad.runtime.device import MemoryRegion
from slangrad.tensors.buffer import BYTES, READ_WRITE, Buffer, BufferUsage, MemoryType, runtime_of, typed_desc
from slangrad.tensors.buffer import shared_view as view_of_shared
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import element_type as find_element_type
from slangrad.tensors.elements.element_types import holds_structs, slang_name
from slangrad.tensors.elements.shape import Shape, as_integers, as_shape, contiguous_strides
from slangrad.tensors.elements.torch_types import host_array_of
from slangrad.tensors.elements.transfer import SharedArray, filled, host_array, import_array, shared_memory
from slangrad.tensors.elements.views import (
    View,
    broadcast,
    complete_shape,
    indexed,
    reshaped,
    retyped,
    transposed,
)
from slangrad.tensors.gradients import HasGradients, checked
from slangrad.tensors.host_values import assign, iterated
from slangrad.tensors.saved import Saved, html_of, restored
from slangrad.tensors.strided import EXCHANGE, IMAGES


class _TwoNames:
    """`tensor.numpy()` is `tensor.to_numpy()`; `Tensor.numpy(device, array)` is the older name of `from_numpy`."""

    @overload
    def __get__(self, tensor: None, owner: type[Tensor]) -> Callable[[object, AnyArray], Tensor]: ...
    @overload
    def __get__(self, tensor: Tensor, owner: type[Tensor]) -> Callable[..., AnyArray]: ...
    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> object:
        return _from_numpy if tensor is None else tensor.to_numpy


def _from_numpy(device: object, ndarray: AnyArray) -> Tensor:
    warn("Tensor.numpy is deprecated: use Tensor.from_numpy", DeprecationWarning)
    return Tensor.from_numpy(device, ndarray)


class Tensor(HasGradients):
    """An n-dimensional array on a device: a view of a buffer with shape, strides and offset, which count elements.
    Elements are scalars, vectors, matrices, arrays or structs. Rows come first: without gaps, strides of (2, 3) are
    (3, 1)."""

    __slots__ = ()

    def __init__(
        self,
        storage: object,
        dtype: object = None,
        shape: object = None,
        strides: object = (),
        offset: int = 0,
        grad_in: Tensor | None = None,
        grad_out: Tensor | None = None,
        *,
        element_type: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
    ) -> None:
        """A view of a buffer; given a device instead of a buffer, a new tensor that is not initialized. ValueError
        where the view does not lie in the buffer."""
        wanted = element_type if dtype is None else dtype
        element = find_element_type(wanted)
        if shape is None:
            raise TypeError("shape: give the size of each dimension, for example shape=(4, 3)")
        sizes = as_shape(shape)
        if not isinstance(storage, Buffer):
            storage = Buffer.typed(storage, element, sizes.element_count, usage, memory_type)
        steps = as_integers(() if strides is None else strides, "strides") or contiguous_strides(sizes)
        self._set(storage, element, wanted, View(sizes, steps, operator.index(offset)))
        self._check()
        self._grad_in = self._grad_out = None
        self.grad_in = grad_in
        self.grad_out = grad_out

    @staticmethod
    def empty(
        device: object,
        shape: object,
        dtype: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        program_layout: object = None,
    ) -> Tensor:
        """A new tensor whose elements are not initialized.

        `shape` is a number or a sequence of numbers. `dtype` is a name ("float3"), a type of a module, a NumPy dtype,
        or `float`, `int`, `bool` for 32 bits; names are looked up in a module's layout, if given. Without unordered
        access in `usage` no kernel writes there. TypeError for a `dtype` that is no type, ValueError for None, and
        for negative sizes.
        """
        return _allocate(device, shape, _named(dtype, program_layout), usage, memory_type, zero=False)

    @staticmethod
    def maker(device: object, element: Type, shape: Shape, dtype: object) -> Callable[[], Tensor]:
        """Makes `empty` tensors of one shape: for the results of calls, which differ in their memory alone."""
        desc = typed_desc(element, prod(shape))
        allocate, size = runtime_of(device).allocate, desc.size
        strides = shape.calc_contiguous_strides()
        layout, element_size = (runtime_of(device), *shape, *strides), desc.struct_size

        def make() -> Tensor:
            tensor = Tensor.__new__(Tensor)
            tensor.storage = storage = Buffer(device, allocate(size), desc, element)
            tensor.element_type, tensor._dtype = element, dtype
            tensor.shape, tensor.strides, tensor.layout = shape, strides, layout
            tensor.offset, tensor.element_size, tensor.address = 0, element_size, storage.address
            tensor._contiguous = True
            tensor._grad_in = tensor._grad_out = None
            return tensor

        return make

    @staticmethod
    def zeros(
        device: object,
        shape: object,
        dtype: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        program_layout: object = None,
    ) -> Tensor:
        """A new tensor whose bytes are zero; arguments as for `empty`."""
        return _allocate(device, shape, _named(dtype, program_layout), usage, memory_type, zero=True)

    @staticmethod
    def full(
        device: object,
        shape: object,
        fill_value: object,
        dtype: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
    ) -> Tensor:
        """A new tensor whose elements are all `fill_value`: a number, or an array of an element's shape."""
        tensor = _allocate(device, shape, dtype, usage, memory_type, zero=False)
        values = filled(tensor.element_type, tensor.shape, fill_value)
        tensor.storage.runtime.write(tensor.address, values)
        return tensor

    @staticmethod
    def ones(
        device: object,
        shape: object,
        dtype: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
    ) -> Tensor:
        """A new tensor whose elements are 1, in each component; arguments as for `empty`."""
        return Tensor.full(device, shape, 1, dtype, usage, memory_type)

    @staticmethod
    def empty_like(other: Tensor) -> Tensor:
        """Another tensor of the same shape and type, contiguous and without gradients."""
        return checked(other, "other")._like(zero=False)

    @staticmethod
    def zeros_like(other: Tensor) -> Tensor:
        """The same, with bytes that are zero."""
        return checked(other, "other")._like(zero=True)

    @staticmethod
    def from_numpy(
        device: object,
        ndarray: AnyArray,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        program_layout: object = None,
        target_slang_dtype: object = None,
        *,
        dtype: object = None,
    ) -> Tensor:
        """A copy of an array of any strides. A transposed array stays transposed: the tensor gets its strides.

        With `dtype`, trailing dimensions become vectors, matrices or arrays, and structured arrays structs: (4, 3)
        floats are a tensor of shape (4) of "float3". Numbers are converted if no value changes. TypeError unless it
        is an array, ValueError where shapes or values do not fit.
        """
        if not isinstance(ndarray, np.ndarray):
            raise TypeError(
                f"ndarray: expected a NumPy array, not {type(ndarray).__name__}; use np.asarray()"
            )
        wanted = _named(target_slang_dtype if dtype is None else dtype, program_layout)
        imported = import_array(ndarray, None if wanted is None else find_element_type(wanted))
        storage = Buffer.typed(device, imported.element_type, prod(imported.shape), usage, memory_type)
        storage.runtime.write(storage.address, imported.data)
        return _make(storage, imported.element_type, wanted, View(imported.shape, imported.strides, 0))

    numpy = _TwoNames()

    @staticmethod
    def from_dlpack(
        device: object,
        source: object,
        usage: BufferUsage = READ_WRITE,
        *,
        dtype: object = None,
        copy: bool | None = None,
    ) -> Tensor:
        """A tensor over the memory of another library's array, which stays alive with it. On a GPU the array lies on
        that GPU, or on the host and is copied.

        Read-only memory becomes a read-only tensor. `copy`: False refuses memory that cannot be shared, True always
        copies; None copies only if it cannot be shared. BufferError for memory that `copy=False` would have to copy.
        """
        element = None if dtype is None else find_element_type(dtype)
        if not runtime_of(device).reaches_host and EXCHANGE.is_on_gpu(source):
            tensor = _make(*EXCHANGE.view_on_gpu(device, source, element, usage, dtype))
            return tensor.copy() if copy else tensor
        array = source.host_view() if isinstance(source, Tensor) else host_array(source)
        shared = None if copy else _shared(device, array, element)
        if shared is None:
            if copy is False:
                raise BufferError(
                    f"copy: an array of {array.dtype} with shape {array.shape} and strides {array.strides} cannot "
                    "be used as it lies"
                )
            return Tensor.from_numpy(device, array, usage, dtype=dtype)
        return _make(*view_of_shared(device, array, shared, element, usage, dtype))

    @staticmethod
    def from_torch(
        device: object, tensor: HostValue, dtype: object = None, usage: BufferUsage = READ_WRITE
    ) -> Tensor:
        """A copy of a PyTorch tensor. With `dtype` the last dimensions become vectors, matrices or structs."""
        if not runtime_of(device).reaches_host and EXCHANGE.is_on_gpu(tensor):
            return Tensor.from_dlpack(device, tensor.detach().contiguous(), usage, dtype=dtype, copy=True)
        return Tensor.from_dlpack(device, host_array_of(tensor), usage, dtype=dtype, copy=True)

    @staticmethod
    def load_from_image(
        device: object,
        path: str | PathLike[str],
        flip_y: bool = False,
        linearize: bool = False,
        scale: float = 1.0,
        offset: float = 0.0,
        grayscale: bool = False,
    ) -> Tensor:
        """An image file as `float`, `float2`, `float3` or `float4`, by its channels, in height and width.

        Whole numbers become 0 to 1. `linearize`: from sRGB to linear intensities. Values are multiplied with `scale`
        and moved by `offset` afterwards.
        """
        array = IMAGES.read_image(path, flip_y, linearize, scale, offset, grayscale)
        channels = array.shape[2] if array.ndim == 3 else 1
        return Tensor.from_numpy(device, array, dtype=f"float{channels}" if channels > 1 else "float")

    def copy(self) -> Tensor:
        """The same values in memory of their own on the same device, without gaps; gradients are copied as well."""
        copied = self._like(zero=False)
        if self._contiguous:
            self.storage.runtime.copy(copied.address, self.address, self.element_count * self.element_size)
        else:
            copied.put_elements(self.elements())
        grad_in, grad_out = self._grad_in, self._grad_out
        copied._grad_in = None if grad_in is None else grad_in.copy()
        if grad_out is grad_in:
            copied._grad_out = copied._grad_in
        else:
            copied._grad_out = None if grad_out is None else grad_out.copy()
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        return self.copy()

    def __copy__(self) -> Tensor:
        return self._viewed(lambda t: View(t.shape, t.strides, 0))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles hold the values; they become tensors of the device that is current where they are loaded."""
        return restored, (_restore, self._saved())

    def _saved(self) -> Saved:
        grad_in, grad_out = self._grad_in, self._grad_out
        shared = grad_out is not None and grad_out is grad_in
        return Saved(
            type_data(self.element_type),
            self.to_numpy(),
            tuple(self.shape),
            int(self.usage),
            self.memory_type.value,
            None if grad_in is None else grad_in._saved(),
            None if grad_out is None or shared else grad_out._saved(),
            shared,
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        shown = self.to_numpy(structured=holds_structs(self.element_type))
        return html_of(repr(self), shown, len(self.shape))

    def _like(self, zero: bool) -> Tensor:
        old = self.storage
        storage = Buffer.typed(
            old.device, self.element_type, self.element_count, old.usage, old.memory_type, zero
        )
        return _make(storage, self.element_type, self._dtype, _whole(self.shape))

    def __repr__(self) -> str:
        flags = [str(grad is not None).lower() for grad in (self._grad_in, self._grad_out)]
        return (
            f"Tensor(dtype={slang_name(self.element_type)}, shape={self.shape}, "
            f"has_grad_in={flags[0]}, has_grad_out={flags[1]})"
        )

    def __getitem__(self, index: object) -> Tensor:
        """A view: ints, slices with any step, `...` and None. A full index leaves rank 1."""
        return self._viewed(lambda t: indexed(t.shape, t.strides, index))

    def __setitem__(self, index: object, value: object) -> None:
        """Overwrite what `tensor[index]` shows. Values are broadcast as NumPy does it, to the dimensions of
        `to_numpy`: numbers, nested lists, arrays, host vectors, tensors; for structs dicts of fields, or structured
        arrays. Arrays are converted if no value changes, Python's floats are rounded. ValueError where they do not
        fit."""
        assign(self.detach()[index], value)

    def __iter__(self) -> Iterator[HostValue]:
        """Views along the first dimension. A tensor of one dimension gives its elements: Python numbers, host vectors
        and matrices, dicts of structs."""
        if not self.shape:
            raise TypeError("a tensor without dimensions has nothing to iterate over; use tensor.item()")
        return iterated(self)

    def reshape(self, *shape: object) -> Tensor:
        """A view with other dimensions and the same elements in row-major order; one size may be -1. ValueError where
        the sizes do not fit, or gaps make it impossible without a copy."""
        sizes = complete_shape(
            self.element_count, as_integers(shape[0] if len(shape) == 1 else shape, "shape")
        )

        def change(t: Tensor) -> View:
            view = reshaped(t.shape, t.strides, sizes)
            if view is None:
                raise ValueError(
                    f"reshape: no view shows shape {t.shape} with strides {t.strides} as {Shape(sizes)}; "
                    "use tensor.copy().reshape()"
                )
            return view

        return self._viewed(change)

    def broadcast_to(self, shape: object) -> Tensor:
        """A view that repeats dimensions of size 1 and adds dimensions in front, with stride 0. ValueError where
        shapes do not fit."""
        target = as_shape(shape)
        return self._viewed(lambda t: broadcast(t.shape, t.strides, target))

    def transpose(self, *axes: int) -> Tensor:
        """A view with the dimensions in another order, all in reverse if no axes are given."""
        order = as_integers(axes[0] if len(axes) == 1 else axes, "axes")
        return self._viewed(lambda t: transposed(t.shape, t.strides, order))

    @property
    def T(self) -> Tensor:
        """The view with all dimensions in reverse."""
        return self.transpose()

    def view(
        self, shape: object = None, strides: object = (), offset: int = 0, *, dtype: object = None
    ) -> Tensor:
        """A strided view of the storage; `offset` is relative to this tensor's. No strides: contiguous.

        With `dtype` the memory is seen as elements of that type, which shape, strides and offset count. Without a
        shape the last dimension grows or shrinks with the size of the elements. TypeError without shape and dtype,
        ValueError for a tensor whose gradients have other strides.
        """
        if shape is None and dtype is None:
            raise TypeError("shape: give the size of each dimension, or a dtype")
        for grad in (self._grad_in, self._grad_out):
            if grad is not None and grad.strides != self.strides:
                raise ValueError("view: the gradients have other strides; use tensor.detach().view()")
        if dtype is not None:
            retyped = self._retyped(find_element_type(dtype), dtype, shape is not None)
            return retyped if shape is None else retyped.view(shape, strides, offset)
        sizes = as_shape(shape)
        steps = as_integers(() if strides is None else strides, "strides") or contiguous_strides(sizes)
        view = View(sizes, steps, operator.index(offset))
        return self._viewed(lambda t: view)

    def _retyped(self, element: Type, dtype: object, start_only: bool) -> Tensor:
        """The same memory as elements of another type; `start_only`: a shape follows."""
        size = layout_of(element).size
        old = View((0,), (1,), self.offset) if start_only else View(self.shape, self.strides, self.offset)
        retyped_view = _make(self.storage, element, dtype, retyped(old, self.element_size, size))
        if not start_only:
            retyped_view._check()
        derivative, declared = retyped_view._derivative()
        for name in ("_grad_in", "_grad_out"):
            grad: Tensor | None = getattr(self, name)
            if grad is None:
                continue
            if derivative is None or (layout_of(derivative).size, grad.element_size) != (
                size,
                self.element_size,
            ):
                raise ValueError(
                    f"dtype: the gradients cannot be seen as those of {slang_name(element)}; "
                    "use tensor.detach().view()"
                )
            same = name == "_grad_out" and grad is self._grad_in
            view = retyped_view._grad_in if same else grad._retyped(derivative, declared, start_only)
            setattr(retyped_view, name, view)
        return retyped_view

    def detach(self) -> Tensor:
        """The same view without gradients."""
        view = View(self.shape, self.strides, self.offset)
        return _make(self.storage, self.element_type, self._dtype, view)

    def point_to(self, target: Tensor) -> None:
        """Become a view of the memory of a tensor of the same shape, element type and usage; ValueError for others."""
        if self.shape != checked(target, "target").shape:
            raise ValueError(
                f"target: Shape of existing and new tensor view must match: {self.shape} and {target.shape}"
            )
        if self.element_type is not target.element_type:
            raise ValueError(
                f"target: Element size and type must match: {slang_name(self.element_type)} and "
                f"{slang_name(target.element_type)}"
            )
        if self.usage != target.usage or self.memory_type != target.memory_type:
            raise ValueError("target: Usage flags and memory type of both storages must match")
        view = View(target.shape, target.strides, target.offset)
        self._set(target.storage, self.element_type, self._dtype, view)
        HasGradients.changes += 1

    def _viewed(self, change: Callable[[Tensor], View]) -> Tensor:
        """The view `change(self)` with the views `change(gradient)` of the gradients."""
        shape, strides, offset = change(self)
        viewed = _make(
            self.storage, self.element_type, self._dtype, View(shape, strides, self.offset + offset)
        )
        viewed._check()
        if self._grad_in is not None:
            viewed._grad_in = self._grad_in._viewed(change)
        if self._grad_out is not None:
            same = self._grad_out is self._grad_in
            viewed._grad_out = viewed._grad_in if same else self._grad_out._viewed(change)
        return viewed

    def with_grads(
        self, grad_in: Tensor | None = None, grad_out: Tensor | None = None, zero: bool | None = None
    ) -> Tensor:
        """A tensor over the same storage with gradients: the given one or a new one serves as both.

        New gradients are zero unless `zero` is False; given ones are cleared only if `zero` is True. A
        read-only tensor gets no `grad_in` of its own.
        """
        gradients = [grad for grad in (grad_in, grad_out) if grad is not None]
        if zero:
            for grad in gradients:
                grad.clear()
        shared = gradients[0] if gradients else self.new_gradient(zero is not False)
        tensor = self.detach()
        tensor.grad_out = shared if grad_out is None else grad_out
        if self.writable or grad_in is not None:
            tensor.grad_in = shared if grad_in is None else grad_in
        return tensor

    def new_gradient(self, zero: bool = True) -> Tensor:
        """A tensor for derivatives of this one, not attached to it. ValueError if the element type has none."""
        element, dtype = self._derivative()
        if element is None:
            raise ValueError(
                f"No derivative type found for {slang_name(self.element_type)}: this tensor has no gradients"
            )
        storage = Buffer.typed(
            self.device, element, self.element_count, READ_WRITE | BufferUsage.shared, zero=zero
        )
        return _make(storage, element, dtype, _whole(self.shape))


def _make(storage: Buffer, element: Type, dtype: object, view: View) -> Tensor:
    """A tensor without gradients, and without checks."""
    tensor = Tensor.__new__(Tensor)
    tensor._set(storage, element, dtype, view)
    tensor._grad_in = tensor._grad_out = None
    return tensor


def _restore(device: object, saved: Saved) -> Tensor:
    """The tensor of a pickle's data, on a device."""
    element = type_from(saved.element)
    usage, memory_type = BufferUsage(saved.usage), MemoryType(saved.memory_type)
    storage = Buffer.typed(device, element, prod(saved.shape), usage, memory_type)
    storage.runtime.write(storage.address, np.ascontiguousarray(saved.array))
    tensor = _make(storage, element, None, _whole(as_shape(saved.shape)))
    tensor._grad_in = None if saved.grad_in is None else _restore(device, saved.grad_in)
    tensor._grad_out = None if saved.grad_out is None else _restore(device, saved.grad_out)
    if saved.shared:
        tensor._grad_out = tensor._grad_in
    return tensor


def _shared(device: object, array: AnyArray, element: Type | None) -> SharedArray | None:
    """An array's memory, where the device can use it as it lies."""
    memory = shared_memory(array, element)
    if memory is None:
        return None
    whole = MemoryRegion(memory.address, (0,), (1,), BYTES)
    return None if runtime_of(device).host_view(whole, None) is None else memory


def _named(dtype: object, program_layout: Any) -> object:  # a class of `api`
    """A dtype; the type of that name if the SlangProgramLayout has one."""
    if program_layout is None or not isinstance(dtype, str):
        return dtype
    declared: object = program_layout.find_type_by_name(dtype)
    return dtype if declared is None else declared


@lru_cache(maxsize=1024)  # results of calls have few shapes
def _whole(shape: Shape) -> View:
    return View(shape, Shape(contiguous_strides(shape)), 0)


def _allocate(
    device: object, shape: object, dtype: object, usage: BufferUsage, memory_type: MemoryType, zero: bool
) -> Tensor:
    if isinstance(device, (int, tuple, list)):
        raise TypeError("device: the device comes first: Tensor.zeros(device, (3,), 'float')")
    element = find_element_type(dtype)
    sizes = as_shape(shape)
    if not sizes:
        raise ValueError("shape: Cannot create a tensor with zero dimensions; use shape=(1,)")
    storage = Buffer.typed(device, element, sizes.element_count, usage, memory_type, zero)
    return _make(storage, element, dtype, _whole(sizes))
