"""Structs in memory, read and written by the names of their fields.

cursor = particles.cursor()          a Tensor or a Buffer of structs, copied on first access
cursor[3].mass = 2.0                 cursor[3].read() -> {"position": float3(...), "mass": 2.0}
cursor.apply()                       copies the written values back

BufferCursor(layout, buffer)         BufferCursor(device_type, layout, 100)      memory of its own
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from slangrad.ir.data import types as ir
from slangrad.ir.data.forms import lies_by_columns, part_of, without_room
from slangrad.ir.data.layout import layout_of, scalars_of
from slangrad.marshal.errors import CallError, ending
from slangrad.marshal.host.components import converted, gathered
from slangrad.marshal.host.encode import (
    INTEGERS,
    Encoder,
    Manner,
    NumberEncoder,
    RowsEncoder,
    decode,
    encoder_of,
    field_names,
    memory_format,
    numbers_of,
)
from slangrad.marshal.host.footprint import Values
from slangrad.marshal.host.vectors import HostArray
from slangrad.marshal.protocol.program_types import Reflected
from slangrad.marshal.reflection.model import ElementLayout
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import HostValue, convert_exactly
from slangrad.tensors.elements.element_types import NUMPY_TYPES, element_type, numpy_layout, slang_name
from slangrad.tensors.strided import StridedView

Bytes = npt.NDArray[np.uint8]


class CursorError(CallError, RuntimeError):
    """A value that a place in memory cannot take, or a place that does not exist."""


def _error(message: str, note: str | None = None) -> CursorError:
    return CursorError("E1019", message, (), note)


# --- Sources of bytes ---------------------------------------------------------------------------------


class BufferRange:
    """Bytes of a buffer."""

    def __init__(self, buffer: Buffer, offset: int, size: int) -> None:
        if offset < 0 or size < 0 or offset + size > buffer.size:
            raise _error(f"bytes {offset} to {offset + size} are not in a buffer of {buffer.size} bytes")
        self.resource = buffer
        self._offset = offset
        self._size = size

    def read(self) -> Bytes:
        return np.frombuffer(bytearray(self.resource.read_bytes(self._offset, self._size)), np.uint8)

    def write(self, data: Bytes) -> None:
        self.resource.write_bytes(self._offset, memoryview(data))  # type: ignore[arg-type]


class TensorRange:
    """`count` elements of a tensor from `start` on, in row-major order, wherever they lie."""

    def __init__(self, tensor: StridedView, start: int, count: int) -> None:
        if start < 0 or count < 0 or start + count > tensor.element_count:
            raise _error(f"elements {start} to {start + count} are not in a tensor of {tensor.element_count}")
        self.resource = tensor.storage
        self._tensor = tensor
        self._part = slice(start, start + count)

    def read(self) -> Bytes:
        return np.array(self._tensor.elements().ravel()[self._part]).view(np.uint8)

    def write(self, data: Bytes) -> None:
        self.resource.require_writes()
        elements = self._tensor.elements()
        elements.flat[self._part] = data.view(elements.dtype)
        self._tensor.put_elements(elements)


class BufferCursor:
    """Elements of one type in memory, which is copied when it is first read and goes back with `apply`."""

    size: int  # in bytes
    _source: BufferRange | TensorRange | None = None
    _data: Bytes | None = None
    _written: npt.NDArray[np.bool_] | None = None  # which bytes of a copy that was never read
    _load_before_write = True

    def __init__(self, *args: object, **named: object) -> None:
        """(element_layout, buffer, load_before_write=True), (element_layout, buffer, size, offset,
        load_before_write=True) with bytes, or (device_type, element_layout, size) with elements."""
        values = _arguments(args, named)
        layout, size = values["element_layout"], values.get("size")
        t = element_type(layout, "element_layout")
        self._show(layout if hasattr(layout, "kind") else ElementLayout(t), t)
        if "buffer_resource" not in values:
            self.size = int(size or 0) * self.element_stride
            self._data = np.zeros(self.size, np.uint8)
            return
        buffer = values["buffer_resource"]
        if not isinstance(buffer, Buffer):
            raise TypeError(f"buffer_resource: expected a Buffer, not {type(buffer).__name__}")
        offset = int(values.get("offset", 0))
        rest = buffer.size - offset
        self.size = rest - rest % max(self.element_stride, 1) if size is None else int(size)
        self._source = BufferRange(buffer, offset, self.size)
        self._load_before_write = bool(values.get("load_before_write", True))

    @staticmethod
    def of_tensor(tensor: StridedView, start: int | None, count: int | None) -> BufferCursor:
        """The elements of a tensor in row-major order, from `start` on."""
        cursor = BufferCursor.__new__(BufferCursor)
        cursor._show(ElementLayout(tensor.element_type), tensor.element_type)
        first = 0 if start is None else start
        number = tensor.element_count - first if count is None else count
        cursor._source = TensorRange(tensor, first, number)
        cursor.size = number * cursor.element_stride
        return cursor

    def _show(self, layout: Reflected, t: ir.Type) -> None:
        self.element_type_layout = layout
        self._type = t

    def __repr__(self) -> str:
        return f"BufferCursor({self.element_count} elements of {slang_name(self._type)})"

    # --- Properties ---

    @property
    def element_type(self) -> Reflected:
        """The type of an element, reflected."""
        return self.element_type_layout.type

    @property
    def element_size(self) -> int:
        """Bytes of an element, which are those from one to the next."""
        return layout_of(self._type).size

    element_stride = element_size

    @property
    def element_count(self) -> int:
        """How many elements the cursor shows."""
        return self.size // self.element_stride if self.element_stride else 0

    @property
    def resource(self) -> Buffer | None:
        """The buffer behind the cursor."""
        return None if self._source is None else self._source.resource

    @property
    def is_loaded(self) -> bool:
        """Whether there is a copy of the memory yet."""
        return self._data is not None and self._written is None

    def __len__(self) -> int:
        return self.element_count

    def find_element(self, index: int) -> BufferElementCursor:
        """An element; one that is not valid if there is none."""
        is_inside = 0 <= index < self.element_count
        return BufferElementCursor(self, self._type, index * self.element_stride, f"[{index}]", is_inside)

    def __getitem__(self, index: int) -> BufferElementCursor:
        place = index + self.element_count if index < 0 else index
        if not 0 <= place < self.element_count:
            raise IndexError(f"element {index} of a cursor of {self.element_count} elements")
        return self.find_element(place)

    def __setitem__(self, index: int, value: object) -> None:
        self[index].write(value)

    def __iter__(self) -> Iterator[BufferElementCursor]:
        return map(self.find_element, range(self.element_count))

    # --- Memory ---

    def load(self) -> None:
        """Copy the memory again; values that were written and not applied are lost."""
        if self._source is not None:
            self._data, self._written = self._source.read(), None

    def apply(self) -> None:
        """Write the copy back; without `load_before_write` only the written bytes."""
        if self._source is not None and self._data is not None:
            self._source.write(self.bytes_to_read())

    def bytes_to_read(self) -> Bytes:
        """All bytes, up to date."""
        if self._data is None:
            self.load()
        assert self._data is not None, "memory of its own is always there"
        if self._written is not None and self._source is not None:  # read what was not written
            current = self._source.read()
            current[self._written] = self._data[self._written]
            self._data, self._written = current, None
        return self._data

    def bytes_to_write(self, offset: int, size: int, count: int = 1) -> Bytes:
        """`size` bytes that are going to be written; a row for each of the first `count` elements."""
        if self._data is None and self._load_before_write:
            self.load()
        elif self._data is None:
            self._data, self._written = np.zeros(self.size, np.uint8), np.zeros(self.size, np.bool_)
        shape, strides = (count, size), (self.element_stride, 1)
        if self._written is not None:
            np.ndarray(shape, np.bool_, self._written, offset, strides)[...] = True
        return np.ndarray(shape, np.uint8, self._data, offset, strides)

    def to_numpy(self) -> Bytes:
        """A copy of the bytes."""
        return self.bytes_to_read().copy()

    def copy_from_numpy(self, data: object) -> None:
        """Overwrite the bytes from the front on. TypeError for an array that is not contiguous, CursorError (E1019)
        for a larger one.
        """
        if not isinstance(data, np.ndarray) or not data.flags.c_contiguous:
            raise TypeError("data: expected a contiguous NumPy array")
        if data.nbytes > self.size:
            raise _error(f"data: numpy array is larger than the buffer ({data.nbytes} > {self.size})")
        self.bytes_to_write(0, data.nbytes)[0] = data.reshape(-1).view(np.uint8)

    def write_from_numpy(self, data: object, unchecked_copy: bool = True) -> None:
        """Write all elements: an array whose first dimension counts them, or, for structs, a dict of such arrays by
        field. Values are converted if none changes; np.uint8 arrays of the right size are bytes.

        With `unchecked_copy` rows may be shorter than their targets.
        """
        _write_arrays(self, self._type, 0, data, "data", unchecked_copy)


_FORMS = {  # parameters by the first of them that tells the forms apart, and how many are needed
    "device_type": (("device_type", "element_layout", "size"), 3),
    "size": (("element_layout", "buffer_resource", "size", "offset", "load_before_write"), 2),
    "": (("element_layout", "buffer_resource", "load_before_write", "offset"), 2),
}


def _arguments(args: tuple[object, ...], named: dict[str, object]) -> dict[str, HostValue]:
    """The arguments by name, in one of the three forms."""
    form = ""
    if "device_type" in named or (args and _is_device_type(args[0])):
        form = "device_type"
    elif "size" in named or (len(args) > 2 and not isinstance(args[2], bool)):
        form = "size"
    names, least = _FORMS[form]
    if len(args) > len(names) or named.keys() - set(names[len(args) :]):
        raise TypeError(f"BufferCursor takes {', '.join(names)}")
    values = dict(zip(names, args)) | named
    if not set(names[:least]) <= values.keys():
        passed = ", ".join(values) or "nothing"
        raise TypeError(f"BufferCursor takes {', '.join(names[:least])}, not {passed}")
    return values


def _is_device_type(value: object) -> bool:
    kinds = ("automatic", "cpu", "cuda", "d3d12", "metal", "vulkan", "wgpu")
    return value in kinds if isinstance(value, str) else type(value).__name__ == "DeviceType"


class BufferElementCursor:
    """A place in memory: an element, or a part of one. Fields are attributes and items, elements items."""

    __slots__ = ("_cursor", "_label", "_offset", "_type", "_valid")

    _cursor: BufferCursor
    _type: ir.Type
    _offset: int
    _label: str
    _valid: bool

    def __init__(self, cursor: BufferCursor, t: ir.Type, offset: int, label: str, valid: bool = True) -> None:
        for name, value in zip(self.__slots__, (cursor, label, offset, t, valid)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{self.read()!r} [{slang_name(self._type)}]" if self._valid else "no place"

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *field_names(self._type)]

    def is_valid(self) -> bool:
        """Whether the place exists: a failed `find` returns a place that does not."""
        return self._valid

    # --- Finding places ---

    def has_field(self, name: str) -> bool:
        """Whether the place is a struct with a field of that name."""
        return self._valid and name in field_names(self._type)

    def has_element(self, index: int) -> bool:
        """Whether the place has an element of that number."""
        return self._valid and 0 <= index < len(self)

    def find_field(self, name: str) -> BufferElementCursor:
        """A field of a struct or component of a vector; one that is not valid if there is none."""
        if not self.has_field(name):
            return self._nothing(f".{name}")
        return self._part(field_names(self._type).index(name), f".{name}")

    def find_element(self, index: int) -> BufferElementCursor:
        """An element of an array, a row, a component; one that is not valid if there is none."""
        return self._part(index, f"[{index}]") if self.has_element(index) else self._nothing(f"[{index}]")

    def reinterpret(self, new_layout: object) -> BufferElementCursor:
        """The same place as a value of another type. CursorError (E1019) for a larger type."""
        t = element_type(new_layout, "new_layout")
        self._check()
        if self._offset + layout_of(t).size > self._cursor.size:
            raise _error(f"'{self._label}': {slang_name(t)} takes more bytes than there are")
        return BufferElementCursor(self._cursor, t, self._offset, self._label)

    def __len__(self) -> int:
        """How many elements there are; none in numbers and structs."""
        t = ir.value_of(self._type)
        return 0 if isinstance(t, ir.Struct) else len(list(ir.components(t)))

    def __getitem__(self, key: str | int) -> BufferElementCursor:
        if isinstance(key, str):
            if not self.has_field(key):
                raise FREELY.unknown(encoder_of(self._type), key, self._label)
            return self.find_field(key)
        index = key + len(self) if key < 0 else key
        if not self.has_element(index):
            raise IndexError(f"'{self._label}' of type {slang_name(self._type)} has no element {key}")
        return self.find_element(index)

    def __getattr__(self, name: str) -> BufferElementCursor:
        if name.startswith("__") or not self.has_field(name):
            raise AttributeError(f"'{self._label}' of type {slang_name(self._type)} has no field '{name}'")
        return self.find_field(name)

    def __iter__(self) -> Iterator[BufferElementCursor]:
        return map(self.find_element, range(len(self)))

    def _part(self, index: int, suffix: str) -> BufferElementCursor:
        t = without_room(self._type)
        if lies_by_columns(t):
            raise _error(f"'{self._label}' lies by columns: its rows are in several places", "take all of it")
        while part_of(t):
            t = ir.component(t, 0)
        offset = self._offset + layout_of(t).offsets[index]
        part = ir.component(t, index)
        return BufferElementCursor(self._cursor, part, offset, self._label + suffix)

    def _nothing(self, suffix: str) -> BufferElementCursor:
        return BufferElementCursor(self._cursor, self._type, self._offset, self._label + suffix, False)

    def _check(self) -> None:
        if not self._valid:
            raise CursorError("E1017", f"there is no '{self._label}'")

    # --- Reading and writing ---

    def read(self) -> HostValue:
        """A number, host vector or matrix; structs are dicts, arrays lists, pointers addresses."""
        self._check()
        return decode(self._type, self._cursor.bytes_to_read(), self._offset)

    @ending
    def write(self, value: object) -> None:
        """Give the place a value. Fields that a dict leaves out do not change. CursorError (E1019) for a value that
        does not fit the type.
        """
        self._check()
        encoder, label = encoder_of(self._type, FREELY), self._label
        try:
            if isinstance(encoder, RowsEncoder) and encoder.numbers and isinstance(value, np.ndarray):
                self._store(self._offset, np.ascontiguousarray(encoder.exact(value, encoder.numbers, label)))
                return
            values: Values = [None] * encoder.count
            encoder.put(values, 0, value, label)
            if None not in values:
                self._store(self._offset, _packed(self._type, values, label))
                return
            for (at, scalar), number in zip(scalars_of(self._type, self._offset), values):
                if number is not None:
                    self._store(at, _packed(scalar, [number], label))
        except CallError:
            raise
        except (ValueError, OverflowError) as error:
            raise _error(str(error)) from None

    def _store(self, offset: int, data: np.ndarray) -> None:
        self._cursor.bytes_to_write(offset, data.nbytes)[0] = data.reshape(-1).view(np.uint8)

    def set_data(self, data: object) -> None:
        """Overwrite the bytes of the place from the front on. CursorError (E1019) unless they are contiguous and as
        many.
        """
        self._check()
        raw = np.asarray(data)
        if not raw.flags.c_contiguous:
            raise _error(f"'{self._label}': data is not contiguous")
        if raw.nbytes > layout_of(self._type).size:
            raise _error(f"'{self._label}' takes {layout_of(self._type).size} bytes, not {raw.nbytes}")
        self._store(self._offset, raw)

    def __setitem__(self, key: str | int, value: object) -> None:
        self[key].write(value)

    def __setattr__(self, name: str, value: object) -> None:
        self[name].write(value)


# --- Writing values -----------------------------------------------------------------------------------


class _Freely(Manner):
    """The rules of places: numbers of vectors in any nesting, arrays of one number, a part of the fields."""

    error = CursorError
    unfit, uneven, unnamed = "E1019", "E1019", "E1017"

    def instead(self, encoder: Encoder, value: object, label: str) -> HostValue:
        other = super().instead(encoder, value, label)
        if other is not value:
            return other
        if isinstance(encoder, RowsEncoder) and isinstance(value, (list, tuple)):
            return value if isinstance(encoder.form, ir.Array) else _flat(encoder, value, label)
        if isinstance(encoder, NumberEncoder):
            if isinstance(value, (np.ndarray, HostArray)) and np.size(value) == 1:
                return convert_exactly(np.asarray(value), NUMPY_TYPES[encoder.scalar], label).item()
            if encoder.scalar is ir.BOOL and isinstance(value, INTEGERS) and value in (0, 1):
                return bool(value)
        return value

    def check_missing(self, encoder: Encoder, keys: Sequence[object], label: str) -> None:
        """They do not change."""


def _flat(encoder: RowsEncoder, value: Sequence[object], label: str) -> HostValue:
    """The numbers of nested lists; the lists where there are too few or too many."""
    try:
        flat = gathered([value], numpy_layout(encoder.form)[0], f"'{label}'")
    except (TypeError, OverflowError) as error:
        raise _error(str(error)) from None
    return flat if flat.size == encoder.count else value


FREELY = _Freely()


def _packed(t: ir.Type, values: Values, label: str) -> Bytes:
    """OverflowError for whole numbers out of range; floats are rounded."""
    pack = memory_format(t).pack
    try:
        data = pack(*values)
    except (struct.error, OverflowError):
        dtypes = [numpy_layout(scalar)[0] for _, scalar in scalars_of(t)]
        data = pack(*[converted(value, dtype, f"'{label}'").item() for value, dtype in zip(values, dtypes)])
    return np.frombuffer(data, np.uint8)


# --- Writing columns ----------------------------------------------------------------------------------


def _write_arrays(
    cursor: BufferCursor, t: ir.Type, offset: int, data: object, label: str, shorter: bool
) -> None:
    """A value of type t at `offset` of each element, from an array of all of them."""
    t = t if _is_bytes(t, data) else without_room(t)
    if _is_bytes(t, data) or numbers_of(t):
        _write_column(cursor, t, offset, data, label, shorter)
    elif not isinstance(t, ir.Struct) or part_of(t):
        _write_each(cursor, t, offset, data, label)
    else:
        if isinstance(data, np.ndarray) and data.dtype.names:
            data = {name: data[name] for name in data.dtype.names}
        if not isinstance(data, Mapping):
            raise _error(f"'{label}': Expected dict of arrays for the fields of {t.name}")
        parts = {name: (at, part) for (name, part), at in zip(t.fields, layout_of(t).offsets)}
        for name, column in data.items():
            if name not in parts:
                raise FREELY.unknown(encoder_of(t), name, label)
            at, part = parts[name]
            _write_arrays(cursor, part, offset + at, column, f"{label}.{name}", shorter)


def _write_each(cursor: BufferCursor, t: ir.Type, offset: int, data: object, label: str) -> None:
    if not isinstance(data, np.ndarray) or data.ndim == 0 or len(data) != cursor.element_count:
        raise _error(
            f"'{label}': expected a NumPy array with an entry for each of {cursor.element_count} elements"
        )
    for i, value in enumerate(data):
        BufferElementCursor(cursor, t, offset + i * cursor.element_stride, f"{label}[{i}]").write(value)


def _is_bytes(t: ir.Type, data: object) -> bool:
    """Whether an array has the bytes of values of another type."""
    size = layout_of(t).size
    raw = isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape[1:] == (size,)
    numbers = numbers_of(t)
    return raw and (numbers is None or numbers[0] != np.uint8)


def _write_column(
    cursor: BufferCursor, t: ir.Type, offset: int, data: object, label: str, shorter: bool
) -> None:
    if not isinstance(data, np.ndarray):
        raise _error(f"'{label}': expected a NumPy array, not {type(data).__name__}")
    count = cursor.element_count
    if data.ndim == 0 or data.shape[0] != count:
        raise _error(
            f"'{label}': First dimension of ndarray {data.shape} does not match the {count} elements"
        )
    dtype, shape = (np.dtype(np.uint8), (layout_of(t).size,)) if _is_bytes(t, data) else numpy_layout(t)
    rows = data.reshape(count, -1)
    wanted = int(np.prod(shape))
    if rows.shape[1] > wanted or (rows.shape[1] < wanted and not (shorter and len(shape) == 1)):
        raise _error(f"'{label}': an array of shape {data.shape} has no {slang_name(t)} for each element")
    try:
        rows = convert_exactly(rows, dtype, f"'{label}'")
    except ValueError as error:
        raise _error(str(error)) from None
    used = rows.shape[1] * dtype.itemsize
    if count:
        cursor.bytes_to_write(offset, used, count)[...] = np.ascontiguousarray(rows).view(np.uint8)
