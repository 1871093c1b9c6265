"""Values for the parameters of a kernel: by type, what writes a Python value into the flat list of scalars.

In: a checked type.   Out: a `Uniform`, whose `put` fills its part of the list, one entry for each scalar.

    struct P { float2 a; int n; }      {"a": [1, 2], "n": 3}   ->   1, 2, 3
    RWStructuredBuffer<float>          a Buffer                ->   its address, its number of elements
    float*                             a Buffer or an int      ->   the address

Nothing is converted silently: what does not fit is an error that names the parameter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slangrad.base.suggestions import suggestion
from slangrad.check.model.types import (
    Array,
    EnumType,
    Matrix,
    Pointer,
    StructType,
    Type,
    Vector,
    rules_of,
    stored,
    unstored,
)
from slangrad.ir import types as ir
from slangrad.ir.forms import lies_by_columns
from slangrad.ir.layout import layout_of
from slangrad.marshal.buffers import BYTES, MOST, STRUCTURED, standard_name
from slangrad.marshal.enums import EnumValue
from slangrad.marshal.errors import CallError
from slangrad.marshal.memory import GIVEN, PRIMAL_PART, TAKEN
from slangrad.marshal.plain import holds_forms, in_memory, scalars_of
from slangrad.marshal.records import as_fields
from slangrad.marshal.spelling import spell
from slangrad.marshal.tensor_views import MOST_DIMENSIONS, VIEWS
from slangrad.marshal.vectors import HostArray
from slangrad.marshal.whole import FAMILIES, Family
from slangrad.runtime.device import Device
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.conversion import convert_exactly
from slangrad.tensors.element_types import holds_structs, numpy_layout, slang_name
from slangrad.tensors.shape import MOST_ELEMENTS
from slangrad.tensors.tensor import Tensor
from slangrad.tensors.views import reach

UNKNOWN, MISSING, UNFIT = "E1017", "E1018", "E1019"
INTEGERS = (int, np.integer)
NUMBERS = (int, float, np.integer, np.floating)
FLAGS = (bool, np.bool_)

Values = list[Any]


class Uniform(ABC):
    """One parameter, or a part of one. `count` is the number of its scalars."""

    __slots__ = ("count", "type")

    def __init__(self, t: Type, count: int) -> None:
        self.type = t
        self.count = count

    @property
    def needed(self) -> bool:
        """Whether leaving it out is an error: memory has no zero."""
        return False

    @abstractmethod
    def put(self, values: Values, at: int, value: object, label: str) -> None:
        """Write the scalars of `value` from `at` on."""

    def fields(self) -> Mapping[str, tuple[int, Uniform]]:
        """Parts by name, each with the place of its first scalar in the whole."""
        return {}

    def element(self, index: int) -> tuple[int, Uniform] | None:
        """A part by index."""
        return None

    def refuse(self, value: object, label: str, note: str | None = None) -> CallError:
        message = f"parameter '{label}' of type '{self.type}' cannot be {described(value)}"
        return CallError(UNFIT, message, (), note)


class ScalarUniform(Uniform):
    """A number. Its range is checked where it is packed."""

    __slots__ = ("_kinds",)

    def __init__(self, t: Type, lowered: ir.Scalar) -> None:
        super().__init__(t, 1)
        floats = NUMBERS if ir.is_float(lowered) else INTEGERS
        self._kinds: tuple[type, ...] = (*floats, *FLAGS)

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        other = (
            isinstance(value, EnumValue)
            and isinstance(self.type, EnumType)
            and value.enum != spell(self.type)
        )
        if other or not isinstance(value, self._kinds):
            raise self.refuse(value, label)
        values[at] = value


class ArrayUniform(Uniform):
    """A vector, matrix or array: one part for each component, row or element."""

    __slots__ = ("_length", "_part", "_plain")

    def __init__(self, t: Type, part: Uniform, length: int, lowered: ir.Type) -> None:
        super().__init__(t, part.count * length)
        self._part = part
        self._length = length
        self._plain = _numbers_of(lowered)

    @property
    def needed(self) -> bool:
        return self._length > 0 and self._part.needed

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, (HostArray, np.ndarray)):
            self._put_array(values, at, value, label)
            return
        if isinstance(value, Mapping):
            self._put_some(values, at, value, label)
            return
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise self.refuse(value, label)
        if len(value) != self._length:
            note = f"{self._length} elements are needed"
            raise self.refuse(value, label, note)
        part = self._part
        for i, each in enumerate(value):
            part.put(values, at + i * part.count, each, f"{label}[{i}]")

    def _put_some(self, values: Values, at: int, value: Mapping[Any, object], label: str) -> None:
        """Elements by their numbers. Plain data that is left out is zero."""
        for i, each in value.items():
            found = self.element(i) if isinstance(i, int) else None
            if found is None:
                raise self.refuse(value, label, f"there is no element {i!r}")
            found[1].put(values, at + found[0], each, f"{label}[{i}]")
        unset = next((i for i in range(self._length) if i not in value), None)
        if unset is not None and self._part.needed:
            raise missing(f"{label}[{unset}]", self._part.type)

    def element(self, index: int) -> tuple[int, Uniform] | None:
        inside = 0 <= index < self._length
        return (index * self._part.count, self._part) if inside else None

    def _put_array(self, values: Values, at: int, value: Any, label: str) -> None:
        """Numbers in the shape of the type, or flat."""
        array = value.data if isinstance(value, HostArray) else value
        if self._plain is None:
            self.put(values, at, list(array), label)
            return
        dtype, shape = self._plain
        if array.shape not in (shape, (self.count,)):
            raise self.refuse(value, label, f"an array of shape {shape} is needed")
        values[at : at + self.count] = convert_exactly(array, dtype, label).ravel().tolist()


def _numbers_of(t: ir.Type) -> tuple[np.dtype, tuple[int, ...]] | None:
    """The NumPy dtype and shape of what consists of numbers only."""
    kinds = {part for _, part in scalars_of(t)}
    plain = len(kinds) == 1 and isinstance(next(iter(kinds)), ir.Scalar)
    return numpy_layout(t) if plain and not holds_structs(t) and not holds_forms(t) else None


class TurnedUniform(Uniform):
    """A matrix that lies by columns; written as a whole, by its rows."""

    __slots__ = ("_by_rows", "_form")

    def __init__(self, t: Type, by_rows: Uniform, form: ir.Type) -> None:
        super().__init__(t, by_rows.count)
        self._by_rows, self._form = by_rows, form

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        rows: Values = [0] * self.count
        self._by_rows.put(rows, 0, value, label)
        values[at : at + self.count] = in_memory(self._form, rows)


class StructUniform(Uniform):
    """A struct or a block of parameters: a dict by the names of fields. Plain data that is left out is zero."""

    __slots__ = ("_fields",)

    def __init__(self, t: Type, fields: Sequence[tuple[str, Uniform]]) -> None:
        super().__init__(t, sum(part.count for _, part in fields))
        self._fields: dict[str, tuple[int, Uniform]] = {}
        at = 0
        for name, part in fields:
            self._fields[name] = (at, part)
            at += part.count

    @property
    def needed(self) -> bool:
        return any(part.needed for _, part in self._fields.values())

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        value = as_fields(value)
        if not isinstance(value, Mapping):
            raise self.refuse(value, label, "pass a dict with the fields")
        for name, each in value.items():
            found = self._fields.get(name)
            if found is None:
                raise unknown(f"'{label}' of type '{self.type}' has no field '{name}'", name, self._fields)
            found[1].put(values, at + found[0], each, f"{label}.{name}")
        if len(value) < len(self._fields):
            self._check_missing(value, label)

    def fields(self) -> Mapping[str, tuple[int, Uniform]]:
        return self._fields

    def _check_missing(self, given: Mapping[str, object], label: str) -> None:
        for name, (_, part) in self._fields.items():
            if name not in given and part.needed:
                raise missing(f"{label}.{name}", part.type)


class PointerUniform(Uniform):
    """An address, or what has one. None is the null pointer."""

    __slots__ = ("_device", "_element")

    def __init__(self, t: Type, element: ir.Type, device: Device) -> None:
        super().__init__(t, 1)
        self._device = device
        self._element = element

    needed = True

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, INTEGERS) and not isinstance(value, bool):
            values[at] = int(value)
        elif isinstance(value, (Buffer, Tensor)):
            values[at] = memory_of(self, value, self._element, self._device, label)[0]
        elif value is None:
            values[at] = 0
        else:
            raise self.refuse(value, label, "pass a Buffer, a Tensor, or an address: buffer.device_address")


class BufferUniform(Uniform):
    """A structured buffer (`element` is its type) or a byte-address buffer: address and extent."""

    __slots__ = ("_device", "_element", "_size", "_written")

    def __init__(self, t: Type, element: ir.Type | None, written: bool, device: Device) -> None:
        super().__init__(t, 2)
        self._device = device
        self._element = element
        self._size = 1 if element is None else max(layout_of(element).size, 1)
        self._written = written

    needed = True

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if not isinstance(value, (Buffer, Tensor)):
            raise self.refuse(value, label, "pass a Buffer, as device.create_buffer() gives one, or a Tensor")
        if self._written and not value.writable:
            raise CallError(
                UNFIT,
                f"parameter '{label}' of type '{self.type}' is written, and the {described(value)} is read-only",
                (),
                "give its buffer the usage BufferUsage.unordered_access",
            )
        address, size = memory_of(self, value, self._element, self._device, label)
        values[at] = address
        values[at + 1] = min(size // self._size, MOST)


UNIFORMS = {"_data", "_shape", "_strides", "_offset"}  # the keys of `Tensor.uniforms()`


class TensorUniform(Uniform):
    """A tensor of the standard library: of each of its memories the address, sizes and strides."""

    __slots__ = ("_device", "_element", "_family", "_rank")

    def __init__(self, t: Type, family: Family, element: ir.Type, rank: int, device: Device) -> None:
        super().__init__(t, len(family.parts) * self._room(rank))
        self._family = family
        self._element = element
        self._rank = rank
        self._device = device

    @staticmethod
    def _room(rank: int) -> int:
        return 1 + 2 * rank

    needed = True

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, dict) and value.keys() == UNIFORMS and isinstance(value["_data"], Buffer):
            value = Tensor(
                value["_data"], self._element, *(value[each] for each in ("_shape", "_strides", "_offset"))
            )
        if not isinstance(value, Tensor):
            raise self.refuse(value, label, "pass a Tensor")
        if value.element_type is not self._element or not self._takes(len(value.shape)):
            raise self.refuse(value, label)
        if self._family.role.writes and not value.writable:
            message = f"parameter '{label}' of type '{self.type}' is written, and the tensor is read-only"
            raise CallError(UNFIT, message)
        if value.storage.runtime is not self._device:
            raise CallError(UNFIT, f"parameter '{label}': the {described(value)} belongs to another device")
        for part in self._parts(value, label):
            self._check_extent(part, label)
            scalars = self._scalars(part)
            values[at : at + len(scalars)] = scalars
            at += len(scalars)

    def _takes(self, rank: int) -> bool:
        return rank == self._rank

    def _scalars(self, part: Tensor) -> list[int]:
        return [part.address, *part.shape, *part.strides]

    def _check_extent(self, part: Tensor, label: str) -> None:
        found = reach(part.shape, part.strides)
        if found is not None and max(found[1] - found[0], *part.shape, 0) >= MOST_ELEMENTS:
            message = f"parameter '{label}': a tensor parameter takes less than {MOST_ELEMENTS} elements"
            raise CallError(UNFIT, message)

    def _parts(self, value: Tensor, label: str) -> list[Tensor]:
        found = []
        for name in self._family.parts:
            part = {PRIMAL_PART: value, TAKEN: value.grad_in, GIVEN: value.grad_out}[name]
            if part is None:
                missing_one = "grad_in" if name == TAKEN else "grad_out"
                note = f"attach gradients with with_grads(): {missing_one} is missing"
                raise self.refuse(value, label, note)
            found.append(part)
        return found


class ViewUniform(TensorUniform):
    """A tensor of slang-torch's, of any rank up to `rank`."""

    __slots__ = ()

    @staticmethod
    def _room(rank: int) -> int:
        return 2 + 2 * rank

    def _takes(self, rank: int) -> bool:
        return rank <= self._rank

    def _scalars(self, part: Tensor) -> list[int]:
        unused = [0] * (self._rank - len(part.shape))
        return [part.address, len(part.shape), *part.shape, *unused, *part.strides, *unused]


def memory_of(
    uniform: Uniform, value: Buffer | Tensor, element: ir.Type | None, device: Device, label: str
) -> tuple[int, int]:
    """Address and bytes of memory of the kernel's device that can hold such elements."""
    storage = value if isinstance(value, Buffer) else value.storage
    if storage.runtime is not device:
        message = f"parameter '{label}': the {described(value)} belongs to another device"
        raise CallError(UNFIT, message, (), "make it on the device of the kernel")
    if isinstance(value, Tensor):
        if not value.is_contiguous():
            raise uniform.refuse(value, label, "the tensor has gaps: pass tensor.copy()")
        if element is not None and not _alike(element, value.element_type):
            raise uniform.refuse(value, label)
        return value.address, value.element_count * value.element_size
    if element is not None and value.element_type is not None and not _alike(element, value.element_type):
        note = f"the buffer was made for elements of type {slang_name(value.element_type)}"
        raise uniform.refuse(value, label, note)
    if element is not None and 0 < value.size < layout_of(element).size:
        note = f"one element takes {layout_of(element).size} bytes, the buffer has {value.size}"
        raise uniform.refuse(value, label, note)
    return value.address, value.size


def _alike(wanted: ir.Type, given: ir.Type) -> bool:
    """Whether memory of one type can be seen as the other: the same type, or made of the same numbers."""
    if wanted is given or wanted is ir.U8:
        return True
    kinds = {_unsigned(t) for _, t in scalars_of(wanted)}
    return len(kinds) == 1 and kinds == {_unsigned(t) for _, t in scalars_of(given)}


def _unsigned(t: ir.Type) -> object:
    return (layout_of(t).size, isinstance(t, ir.Scalar) and ir.is_float(t))


class Uniforms:
    """Makes the uniforms of types. `types` knows the program, `device` is where its kernels run."""

    def __init__(self, types: Any, device: Device) -> None:
        self._types = types
        self._device = device

    def of(self, t: Type) -> Uniform | None:
        """None for types that no value can be given for."""
        form = self._types.lower(t)
        if form is None:
            return None
        of, rules = unstored(t), rules_of(t)
        lowered: Any = ir.value_of(form)
        if isinstance(lowered, ir.Scalar):
            return ScalarUniform(t, lowered)
        if isinstance(of, Pointer):
            return PointerUniform(t, lowered.element, self._device)
        if isinstance(of, Vector):
            return self._array(t, of.element, lowered.length, lowered)
        if isinstance(of, Matrix):
            row = self._types.lift(ir.vector(lowered.element, lowered.columns))
            made = self._array(t, row, lowered.rows, lowered)
            return made if made is None or not lies_by_columns(form) else TurnedUniform(t, made, form)
        if isinstance(of, Array):
            return self._array(t, stored(of.element, rules), lowered.length, lowered)
        return self._struct(t, of, rules) if isinstance(of, StructType) else None

    def _array(self, t: Type, element: Type, length: int, lowered: ir.Type) -> Uniform | None:
        part = self.of(element)
        return None if part is None else ArrayUniform(t, part, length, lowered)

    def _struct(self, whole: Type, t: StructType, rules: str) -> Uniform | None:
        name = standard_name(t)
        if name in STRUCTURED:
            return BufferUniform(t, self._types.lower(t.inner), STRUCTURED[name], self._device)
        if name in BYTES:
            return BufferUniform(t, None, BYTES[name], self._device)
        if name in FAMILIES:
            return self._tensor(t, FAMILIES[name])
        if name in VIEWS:
            return self._view(t, VIEWS[name])
        fields = [(field, self.of(stored(kind, rules))) for field, kind in self._types.stored_fields(t)]
        return StructUniform(whole, [(field, part) for field, part in fields if part is not None])

    def _tensor(self, t: StructType, family: Family) -> Uniform | None:
        rank, lowered = t.arguments[1], self._types.lower(t.inner)
        assert isinstance(rank, int)
        return None if lowered is None else TensorUniform(t, family, lowered, rank, self._device)

    def _view(self, t: StructType, family: Family) -> Uniform | None:
        lowered = self._types.lower(t.inner)
        return None if lowered is None else ViewUniform(t, family, lowered, MOST_DIMENSIONS, self._device)


# --- Errors -------------------------------------------------------------------------------------------


def described(value: object) -> str:
    """What a message calls a value."""
    if isinstance(value, Buffer):
        return f"Buffer of {value.size} bytes"
    if isinstance(value, Tensor):
        return f"Tensor of {slang_name(value.element_type)} with shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"NumPy array of {value.dtype} with shape {value.shape}"
    if isinstance(value, (bool, int, float, np.generic)):
        return f"{type(value).__name__} {value}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)} elements"
    return type(value).__name__


def unknown(message: str, name: str, known: Mapping[str, object]) -> CallError:
    return CallError(UNKNOWN, message, (), suggestion(name, known))


def missing(label: str, t: Type) -> CallError:
    return CallError(MISSING, f"parameter '{label}' of type '{t}' has no value", (), None)
