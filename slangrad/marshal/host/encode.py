"""One writer and one reader of values in memory, by their types there: `encode` and `decode`.

    {"x": 1, "v": float2(2, 3)} as struct { int x; float2 v; }   <->   1, 2.0, 3.0   <->   12 bytes

In between is a flat list of scalars in the order of memory. `memory_format` packs it with the gaps that a layout has:
the type is a form (`abi.py`), so rules such as std140, and matrices by columns, are in it. An `Encoder` is made
once for a type, and writes its part of the list; a `Manner` has the differences between calls, kernels and cursors.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import ClassVar, TypeAlias

import numpy as np

from slangrad.base.suggestions import suggestion
from slangrad.ir.data import types as ir
from slangrad.ir.data.forms import lies_by_columns, without_room
from slangrad.ir.data.layout import layout_of, scalars_of
from slangrad.ir.data.numbers import wrap
from slangrad.ir.data.small_floats import bits_of_small, small_of_bits
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.host.footprint import Values
from slangrad.marshal.host.records import TYPE_KEY, as_fields
from slangrad.marshal.host.vectors import HostArray, class_of_array, plain_data
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import AnyArray, HostValue, convert_exactly
from slangrad.tensors.elements.element_types import numpy_layout, slang_name
from slangrad.tensors.strided import StridedView

COMPONENTS = "xyzw"
INTEGERS = (int, np.integer)
FLAGS = (bool, np.bool_)
NUMBERS = (*INTEGERS, float, np.floating, *FLAGS)

_FORMATS = {
    "bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d",
    **{t.name: "f" for t in ir.SMALL_FLOATS},
}  # fmt: skip


# --- Scalars and bytes --------------------------------------------------------------------------------


def format_of(t: ir.Type) -> str:
    """The letter of a scalar or pointer in a `struct` format."""
    return "Q" if isinstance(t, ir.Pointer) else _FORMATS[str(t)]


class SmallFloatStruct:
    """A `struct.Struct` whose numbers at `places` are small floats. In memory they are the integers with their bits."""

    __slots__ = ("_inner", "_places", "size")

    def __init__(self, format: str, places: Sequence[tuple[int, ir.Scalar]]) -> None:
        self._inner, self._places = struct.Struct(format), places
        self.size = self._inner.size

    def pack(self, *values: object) -> bytes:
        """The numbers as bytes, rounded."""
        words = list(values)
        for place, t in self._places:
            words[place] = bits_of_small(t, float(wrap(t, float(words[place]))))  # type: ignore[arg-type]
        return self._inner.pack(*words)

    def pack_into(self, memory: HostValue, offset: int, *values: object) -> None:
        """The same, at a place in memory."""
        memory[offset : offset + self.size] = self.pack(*values)

    def unpack(self, data: bytes) -> tuple[HostValue, ...]:
        """The numbers in as many bytes."""
        return self._numbers(self._inner.unpack(data))

    def unpack_from(self, data: HostValue, offset: int = 0) -> tuple[HostValue, ...]:
        """The numbers from a place in memory on."""
        return self._numbers(self._inner.unpack_from(data, offset))

    def _numbers(self, words: tuple[HostValue, ...]) -> tuple[HostValue, ...]:
        numbers = list(words)
        for place, t in self._places:
            numbers[place] = small_of_bits(t, words[place])
        return tuple(numbers)


MemoryFormat: TypeAlias = "struct.Struct | SmallFloatStruct"


@cache
def memory_format(t: ir.Type) -> MemoryFormat:
    """Packs the scalars of a value as they lie in memory; gaps are zero."""
    parts, end, small = ["="], 0, []
    for place, (offset, scalar) in enumerate(scalars_of(t)):
        letter = format_of(scalar)
        if scalar in ir.SMALL_FLOATS:
            assert isinstance(scalar, ir.Scalar)
            small.append((place, scalar))
            letter = _FORMATS[f"u{scalar.bits}"]
        parts.append("x" * (offset - end) + letter)
        end = offset + layout_of(scalar).size
    text = "".join(parts) + "x" * (layout_of(t).size - end)
    return SmallFloatStruct(text, small) if small else struct.Struct(text)


def field_names(t: ir.Type) -> tuple[str, ...]:
    """The names a dict may use for a value of this type."""
    t = ir.value_of(t)
    if isinstance(t, ir.Struct):
        return tuple(name for name, _ in t.fields)
    return tuple(COMPONENTS[: t.length]) if isinstance(t, ir.Vector) else ()


def numbers_of(t: ir.Type) -> tuple[np.dtype, tuple[int, ...]] | None:
    """The dtype and shape of a form that equals a NumPy array; None for other forms."""
    inner = ir.innermost(t)
    plain = isinstance(inner, (ir.Scalar, ir.Vector, ir.Matrix)) and ir.value_of(inner) is inner
    return numpy_layout(t) if plain else None


def order_in_memory(t: ir.Type) -> Sequence[int]:
    """The place of each scalar of a number, vector or matrix (rows first) among the scalars in memory."""
    value = ir.value_of(t)
    if not isinstance(value, ir.Matrix) or not lies_by_columns(t):
        return range(ir.scalar_count(value))
    return [j * value.rows + i for i in range(value.rows) for j in range(value.columns)]


# --- Writing ------------------------------------------------------------------------------------------


class Manner:
    """The accepted values besides those of exactly the shape, and the errors of others: those of calls."""

    error: ClassVar[type[CallError]] = BoundVariableException
    unfit, uneven, unnamed = "E1001", "E1005", "E1001"  # codes: another kind, another length, no such field
    spreads = True  # a number may stand for all components of a vector or matrix
    flags: ClassVar[tuple[type, ...]] = FLAGS  # what may be a truth value

    def instead(self, encoder: Encoder, value: HostValue, label: str) -> HostValue:
        """The value to write in place of one of another kind; the value itself if there is none."""
        return value.get_this() if hasattr(type(value), "get_this") else value

    def refuse(self, encoder: Encoder, value: object, label: str, note: str | None) -> CallError:
        """The error of a value that does not fit. `note` is a cure."""
        t, kind, code, note = encoder.type, type(value).__name__, self.unfit, None
        length = -1 if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) else len(value)
        if isinstance(encoder, StructEncoder):
            reason = f"Expected dict with the fields of {t}, not {kind}"
        elif isinstance(encoder, PointerEncoder):
            reason, note = f"{kind} is no address", "pass an address, a Buffer or a Tensor"
        elif isinstance(value, np.ndarray):
            reason = f"an array of shape {value.shape} is no value of {t}"
        elif isinstance(value, NUMBERS) and isinstance(encoder, NumberEncoder):
            reason, note = f"{value!r} is no {t}", "use int(x) if cutting off is meant"
            if encoder.scalar is ir.BOOL:
                reason, note = f"it takes truth values, not {value!r}", None
        elif not isinstance(encoder.form, ir.Array):
            code = code if length < 0 else self.uneven
            reason = f"{f'{kind} is' if length < 0 else f'{length} numbers are'} no value of {t}"
        elif length >= 0:
            reason, code = f"sequence is the wrong length: {length} elements for {t}", self.uneven
        else:
            reason = f"Expected list with {encoder.form.length} elements, not {kind}"
        return self.error(code, f"'{label}': {reason}", (), note)

    def unknown(self, encoder: Encoder, name: object, label: str) -> CallError:
        """The error of a missing field."""
        message = f"'{label}' of type '{encoder.type}' has no field '{name}'"
        return self.error(self.unnamed, message, (), suggestion(str(name), encoder.fields()))

    def check_missing(self, encoder: Encoder, keys: Sequence[HostValue], label: str) -> None:
        """CallError where these parts cannot be left out."""
        names = [key if isinstance(key, str) else COMPONENTS[key : key + 1] or str(key) for key in keys]
        raise missing_field(label, encoder.type, names)


NEEDED = "lists with a call for each element, a ValueRef and values outside of functions need all fields"


def missing_field(label: str, t: str, names: Sequence[str], note: str = NEEDED) -> CallError:
    plural, listed = "s" if len(names) > 1 else "", ", ".join(map(repr, names))
    message = f"argument '{label}': the dict lacks the field{plural} {listed} of '{t}'"
    return CallError("E1001", message, (), note)


class Encoder(ABC):
    """Writes values of the form `form` in memory, as `count` scalars. Messages show `type`."""

    __slots__ = ("count", "form", "manner", "type")

    def __init__(self, manner: Manner, form: ir.Type, shown: object = None) -> None:
        self.manner = manner
        self.form = without_room(form)
        self.count = ir.scalar_count(form)
        self.type = str(shown or slang_name(ir.value_of(form)))

    @property
    def needed(self) -> bool:
        """Whether it holds addresses, which have no zero."""
        return ir.contains(self.form, lambda t: isinstance(t, ir.Pointer))

    @abstractmethod
    def put(self, values: Values, at: int, value: object, label: str) -> None:
        """Write the scalars of `value` from `at` on. CallError where it does not fit."""

    def fields(self) -> Mapping[str, tuple[int, Encoder]]:
        """Parts by name, each with the place of its first scalar in the whole."""
        return {}

    def element(self, index: int) -> tuple[int, Encoder] | None:
        """A part by index."""
        return None

    def put_other(self, values: Values, at: int, value: object, label: str, note: str | None = None) -> None:
        """A value of another kind: its replacement, or an error."""
        other = self.manner.instead(self, value, label)
        if other is value:
            raise self.manner.refuse(self, value, label, note)
        self.put(values, at, other, label)


class NumberEncoder(Encoder):
    """A number. Its range is checked where it is packed."""

    __slots__ = ("kinds", "scalar")

    def __init__(self, manner: Manner, form: ir.Type, shown: object = None) -> None:
        super().__init__(manner, form, shown)
        scalar = ir.value_of(form)
        assert isinstance(scalar, ir.Scalar)
        self.scalar = scalar
        whole = manner.flags if self.scalar is ir.BOOL else (*INTEGERS, *FLAGS)
        self.kinds: tuple[type, ...] = NUMBERS if ir.is_float(self.scalar) else whole

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, self.kinds):
            values[at] = value
        else:
            self.put_other(values, at, value, label)


class PointerEncoder(Encoder):
    """An address, or an object with one. None is the null pointer."""

    __slots__ = ()

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, INTEGERS) and not isinstance(value, bool):
            values[at] = int(value)
        elif value is None:
            values[at] = 0
        elif isinstance(value, (Buffer, StridedView)):
            values[at] = self.address_of(value, label)
        else:
            note = "pass a Buffer, a Tensor, or an address: buffer.device_address"
            self.put_other(values, at, value, label, note)

    def address_of(self, value: Buffer | StridedView, label: str) -> int:
        return value.address


class RowsEncoder(Encoder):
    """A vector, matrix or array: one part for each component, row or element."""

    __slots__ = ("_part", "length", "numbers")

    def __init__(self, manner: Manner, form: ir.Type, part: Encoder, shown: object = None) -> None:
        super().__init__(manner, form, shown)
        self._part = part
        self.length = ir.component_count(self.form)
        self.numbers = numbers_of(self.form)

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, (list, tuple)):
            self._put_all(values, at, value, label)
        elif isinstance(value, (HostArray, np.ndarray)):
            self._put_array(values, at, value, label)
        elif isinstance(value, Mapping):
            self._put_some(values, at, value, label)
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            self._put_all(values, at, value, label)
        elif self.manner.spreads and isinstance(value, NUMBERS) and not isinstance(self.form, ir.Array):
            for i in range(self.length):
                self._part.put(values, at + i * self._part.count, value, label)
        else:
            self.put_other(values, at, value, label)

    def _put_all(self, values: Values, at: int, value: Sequence[object], label: str) -> None:
        if len(value) != self.length:
            self.put_other(values, at, value, label, f"{self.length} elements are needed")
            return
        put, step = self._part.put, self._part.count
        for i, part in enumerate(value):
            put(values, at + i * step, part, f"{label}[{i}]")

    def _put_some(self, values: Values, at: int, value: Mapping[object, object], label: str) -> None:
        """Elements by their numbers, components of vectors by their names, too."""
        letters = field_names(self.form)
        parts = {letters.index(key) if key in letters else key: part for key, part in value.items()}
        for i, part in parts.items():
            encoder = self.element(i) if isinstance(i, int) else None
            if encoder is None:
                raise self.manner.refuse(self, value, label, f"there is no element {i!r}")
            encoder[1].put(values, at + encoder[0], part, f"{label}[{i}]")
        unset = [i for i in range(self.length) if i not in parts]
        if unset:
            self.manner.check_missing(self, unset, label)

    def element(self, index: int) -> tuple[int, Encoder] | None:
        inside = 0 <= index < self.length
        return (index * self._part.count, self._part) if inside else None

    def _put_array(self, values: Values, at: int, value: HostArray | np.ndarray, label: str) -> None:
        array = plain_data(value)
        if self.numbers is None:
            self.put(values, at, list(array), label)
        else:
            values[at : at + self.count] = self.exact(array, self.numbers, label).ravel().tolist()

    def exact(self, array: AnyArray, form: tuple[np.dtype, tuple[int, ...]], label: str) -> AnyArray:
        """Numbers in the shape of the type, or flat, in its dtype; ValueError where one would change."""
        dtype, shape = form
        if array.shape != shape and array.shape != (self.count,):
            raise self.manner.refuse(self, array, label, f"an array of shape {shape} is needed")
        return convert_exactly(array, dtype, label)


class ColumnsEncoder(Encoder):
    """A matrix that lies by columns; written by its rows."""

    __slots__ = ("_order", "_rows")

    def __init__(self, form: ir.Type, rows: Encoder) -> None:
        super().__init__(rows.manner, form)
        self._rows = rows
        self._order = order_in_memory(form)

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        rows = [values[at + place] for place in self._order]
        self._rows.put(rows, 0, value, label)
        for place, scalar in zip(self._order, rows):
            values[at + place] = scalar


class StructEncoder(Encoder):
    """A struct or a block of parameters: a dict by the names of fields, a dataclass, a record of NumPy's."""

    __slots__ = ("_fields",)

    def __init__(
        self, manner: Manner, form: ir.Type, fields: Iterable[tuple[str, Encoder]], shown: object = None
    ) -> None:
        super().__init__(manner, form, shown)
        self._fields: dict[str, tuple[int, Encoder]] = {}
        at = 0
        for name, part in fields:
            self._fields[name] = (at, part)
            at += part.count

    def fields(self) -> Mapping[str, tuple[int, Encoder]]:
        return self._fields

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        parts = _by_name(value)
        if parts is None:
            self.put_other(values, at, value, label, "pass a dict with the fields")
            return
        fields = self._fields
        for name, part in parts.items():
            field = fields.get(name)
            if field is not None:
                field[1].put(values, at + field[0], part, f"{label}.{name}")
            elif name != TYPE_KEY:
                raise self.manner.unknown(self, name, label)
        if not fields.keys() <= parts.keys():
            self.manner.check_missing(self, [name for name in fields if name not in parts], label)


def _by_name(value: object) -> Mapping[str, object] | None:
    if isinstance(value, np.void) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    fields = value if isinstance(value, Mapping) else as_fields(value)
    return fields if isinstance(fields, Mapping) else None


CALLS = Manner()


@cache
def encoder_of(t: ir.Type, manner: Manner = CALLS) -> Encoder:
    """The encoder of values of a form in memory."""
    form, value = without_room(t), ir.value_of(t)
    if isinstance(value, ir.Scalar):
        return NumberEncoder(manner, form)
    if isinstance(form, ir.Pointer):
        return PointerEncoder(manner, form)
    if isinstance(form, ir.Array):
        return RowsEncoder(manner, form, encoder_of(form.element, manner))
    if isinstance(value, ir.Struct):
        assert isinstance(form, ir.Struct)
        return StructEncoder(manner, form, [(name, encoder_of(part, manner)) for name, part in form.fields])
    rows = RowsEncoder(manner, value, encoder_of(ir.component(value, 0), manner))
    return ColumnsEncoder(form, rows) if lies_by_columns(form) else rows


def encode(t: ir.Type, value: object, label: str) -> Values:
    """The scalars of a value, in the order of memory; None is zero. CallError names the part that does not fit."""
    encoder = encoder_of(t)
    values: Values = [0] * encoder.count
    if value is not None:
        encoder.put(values, 0, value, label)
    return values


# --- Reading ------------------------------------------------------------------------------------------


Reader = Callable[[tuple[HostValue, ...], int], HostValue]  # of scalars, and where those of the value begin


def decode(t: ir.Type, memory: HostValue, offset: int = 0) -> HostValue:
    """The value at an offset: a number, host vector or matrix, an address; structs are dicts, arrays lists."""
    return _reader_of(t)(memory_format(t).unpack_from(memory, offset), 0)


@cache
def _reader_of(t: ir.Type) -> Reader:
    form, value = without_room(t), ir.value_of(t)
    if isinstance(value, ir.Struct):
        assert isinstance(form, ir.Struct)
        counts = [ir.scalar_count(part) for _, part in form.fields]
        parts = [(name, _reader_of(part), sum(counts[:i])) for i, (name, part) in enumerate(form.fields)]
        return lambda scalars, start: {name: read(scalars, start + at) for name, read, at in parts}
    if isinstance(form, ir.Array):
        element, step = _reader_of(form.element), ir.scalar_count(form.element)
        places = [i * step for i in range(form.length or 0)]
        return lambda scalars, start: [element(scalars, start + at) for at in places]
    if isinstance(value, (ir.Vector, ir.Matrix)):
        dtype, shape = numpy_layout(value)
        host_class, order = type(class_of_array(value.element, np.zeros(shape, dtype))), order_in_memory(form)
        return lambda scalars, start: host_class.of(
            np.array([scalars[start + place] for place in order], dtype).reshape(shape)
        )
    return lambda scalars, start: bool(scalars[start]) if value is ir.BOOL else scalars[start]
