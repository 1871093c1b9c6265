"""Elements of tensors as Python values, one or many, and Python values as elements.

    item(t)     the only element: a number, a host vector or matrix, a dict of a struct, as calls return them
    listed(t)   nested lists of numbers, vectors too, and dicts of structs: what JSON can hold
    assign(t, value)   every element gets a number, an array that is broadcast, another tensor, the fields of a struct

Values are converted where none changes; Python's floats are rounded to the element's type, as literals are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.types import Matrix, Pointer, Scalar, Vector
from slangrad.tensors.elements.conversion import AnyArray, HostValue, convert_exactly
from slangrad.tensors.elements.element_types import holds_structs, numpy_layout, slang_name
from slangrad.tensors.elements.torch_types import host_array_of, is_torch_type
from slangrad.tensors.elements.transfer import structs_of

if TYPE_CHECKING:
    from slangrad.tensors.strided import StridedView
    from slangrad.tensors.tensor import Tensor

VECTORS = LazyModule("slangrad.marshal.host.vectors")
CHUNK = 4096  # elements that are read at once; memory that changes meanwhile is seen from one to the next


def item(view: StridedView) -> HostValue:
    """The only element."""
    if view.element_count != 1:
        raise ValueError(
            f"item: a tensor of shape {view.shape} has {view.element_count} elements, not one; use tolist()"
        )
    return view.to_numpy().item() if _is_number(view) else view.cursor()[0].read()


def listed(view: StridedView) -> HostValue:
    """All elements in lists, one inside of the other for each dimension."""
    return _plain(view.to_numpy(structured=holds_structs(view.element_type)))


def _plain(array: AnyArray) -> HostValue:
    """An array as nested lists; records become dicts."""
    if array.dtype.names is None:
        return array.tolist()
    names = array.dtype.names
    columns = [_plain(array[name].reshape(array.size, *array[name].shape[array.ndim :])) for name in names]
    rows = zip(*columns) if names else [()] * array.size
    nested: list[object] = [dict(zip(names, row)) for row in rows]
    for size in reversed(array.shape[1:]):
        nested = [nested[i : i + size] for i in range(0, len(nested), size)] if size else []
    return nested if array.shape else nested[0]


def iterated(view: Tensor) -> Iterator[HostValue]:
    """Views along the first dimension; the elements themselves where there is only one."""
    if len(view.shape) > 1:
        return (view[i] for i in range(view.shape[0]))
    return _elements(view)


def _elements(view: Tensor) -> Iterator[object]:
    for start in range(0, view.shape[0], CHUNK):
        yield from _chunk(view[start : start + CHUNK])


def _chunk(view: Tensor) -> list[object]:
    """The elements of a view of one dimension."""
    t = view.element_type
    if isinstance(t, Vector):
        host_class = VECTORS.vector_class(t.element, t.length)
    elif isinstance(t, Matrix) and not t.transposed:
        host_class = VECTORS.matrix_class(t.element, t.rows, t.columns)
    elif _is_number(view):
        numbers: list[object] = view.to_numpy().tolist()
        return numbers
    else:
        return [element.read() for element in view.cursor()]
    return list(map(host_class.of, view.to_numpy().astype(host_class.dtype, copy=False)))


def _is_number(view: StridedView) -> bool:
    return isinstance(view.element_type, (Scalar, Pointer))


def assign(view: StridedView, value: HostValue) -> None:
    """Overwrite all elements of a view."""
    view.storage.require_writes()
    if is_torch_type(type(value)):
        value = host_array_of(value)
    if hasattr(value, "element_type") and hasattr(value, "host_view"):  # a tensor
        _assign_tensor(view, value)
    elif not holds_structs(view.element_type):
        dtype, shape = _numbers_of(view)
        view.put_numbers(_fitting(_numbers(value, dtype), shape, view))
    elif isinstance(value, np.ndarray):
        _assign_structs(view, value)
    else:
        _assign_values(view, value)


def _assign_tensor(view: StridedView, source: StridedView) -> None:
    """Elements of the same type are copied as they are. NumPy sees to memory that overlaps."""
    if source.element_type is not view.element_type:
        if holds_structs(source.element_type) or holds_structs(view.element_type):
            names = f"{slang_name(source.element_type)} do not fit {slang_name(view.element_type)}"
            raise ValueError(f"value: elements of type {names}")
        assign(view, source.to_numpy())
        return
    view.put_elements(_fitting(source.elements(), tuple(view.shape), view))


def _numbers(value: object, dtype: np.dtype) -> AnyArray:
    """Arrays are converted exactly; Python's own floats, and lists of them, are rounded."""
    array = np.asarray(value)
    literal = not isinstance(value, np.ndarray)
    if literal and dtype.kind == "f" and (array.dtype.kind == "f" or array.size == 0):
        return _rounded(array, dtype)
    return convert_exactly(array, dtype, "value")


def _rounded(array: AnyArray, dtype: np.dtype) -> AnyArray:
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype)
    lost = np.isfinite(array) & ~np.isfinite(rounded)
    if lost.any():
        raise ValueError(f"value: {array[lost][0] if array.ndim else array} is too large for {dtype}")
    return rounded


def _fitting(array: AnyArray, shape: tuple[int, ...], view: StridedView) -> AnyArray:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        inner = numpy_layout(view.element_type)[1]
        advice = f", elements of type {slang_name(view.element_type)} add {inner}" if inner else ""
        raise ValueError(
            f"value: shape {array.shape} does not fit a part of shape {tuple(view.shape)}{advice}"
        ) from None


def _assign_structs(view: StridedView, records: AnyArray) -> None:
    """Structured arrays field by field; bytes as they are."""
    if records.dtype.names is not None:
        records = structs_of(records, view.element_type)
        items = _fitting(records, tuple(view.shape), view).copy(order="C")
        view.put_elements(items.view(f"V{view.element_size}"))
        return
    dtype, shape = _numbers_of(view)
    view.put_numbers(_fitting(convert_exactly(records, dtype, "value"), shape, view))


def _numbers_of(view: StridedView) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype and the shape of all numbers of a view."""
    dtype, inner = numpy_layout(view.element_type)
    return dtype, (*view.shape, *inner)


def _assign_values(view: StridedView, value: HostValue) -> None:
    """Fields by their names, for all elements or one by one; fields that are left out keep their values."""
    is_listed = isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
    if is_listed and len(value) != view.element_count:
        raise ValueError(f"value: {len(value)} values for {view.element_count} elements")
    cursor = view.cursor()
    for i in range(view.element_count):
        cursor[i] = value[i] if is_listed else value
    cursor.apply()
