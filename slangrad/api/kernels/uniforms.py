"""Encoders for the parameters of a kernel, by type: each writes a Python value into the flat list of scalars.

In: a checked type.   Out: an `Encoder`, whose `put` fills its part of the list, one entry for each scalar.

    struct P { float2 a; int n; }      {"a": [1, 2], "n": 3}   ->   1, 2, 3
    RWStructuredBuffer<float>          a Buffer                ->   its address, its number of elements
    float*                             a Buffer or an int      ->   the address

No value is converted silently: one that does not fit is an error with the name of the parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.base.suggestions import suggestion
from slangrad.check.model.types import (
    UINT64,
    ArrayType,
    EnumType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    rules_of,
    stored,
    unstored,
)
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of, scalars_of
from slangrad.marshal.containers.buffers import BYTES, HANDLES, MOST, STRUCTURED, standard_name
from slangrad.marshal.containers.memory import GIVEN, TAKEN, TENSOR_ACCESS, is_texture_type
from slangrad.marshal.containers.tensor_views import MOST_DIMENSIONS, VIEWS
from slangrad.marshal.containers.whole import FAMILIES, Family, has_numbers
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import (
    FLAGS,
    INTEGERS,
    Encoder,
    Manner,
    NumberEncoder,
    PointerEncoder,
    RowsEncoder,
    StructEncoder,
    encoder_of,
)
from slangrad.marshal.host.footprint import Values
from slangrad.marshal.protocol.spelling import spell
from slangrad.marshal.reflection.model import TEXTURES as TEXTURE_SHAPES
from slangrad.marshal.simple.enums import EnumValue
from slangrad.runtime.device import Device
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import slang_name
from slangrad.tensors.elements.shape import MOST_ELEMENTS
from slangrad.tensors.tensor import Tensor

if TYPE_CHECKING:
    from slangrad.call.binding.program import ModuleTypes

TEXTURES = LazyModule("slangrad.marshal.containers.textures")
UNKNOWN, MISSING, UNFIT = "E1017", "E1018", "E1019"


class Strictly(Manner):
    """The rules for values of parameters: a number is no vector, and plain data that is left out is zero."""

    error, unnamed = CallError, UNKNOWN
    spreads = False
    flags = (*FLAGS, *INTEGERS)

    def refuse(self, encoder: Encoder, value: object, label: str, note: str | None) -> CallError:
        message = f"parameter '{label}' of type '{encoder.type}' cannot be {described(value)}"
        return CallError(UNFIT, message, (), note)

    def check_missing(self, encoder: Encoder, keys: Sequence[HostValue], label: str) -> None:
        for key in keys:
            part = encoder.fields().get(key) or encoder.element(key)
            if part is not None and part[1].needed:
                ending = f".{key}" if isinstance(key, str) else f"[{key}]"
                raise missing(label + ending, part[1].type)


STRICTLY = Strictly()


class EnumUniform(NumberEncoder):
    """A value of an enum, or a whole number."""

    __slots__ = ("_name",)

    def __init__(self, t: EnumType, form: ir.Type) -> None:
        super().__init__(STRICTLY, form, t)
        self._name = spell(t)

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, EnumValue) and value.enum != self._name:
            raise self.manner.refuse(self, value, label, None)
        super().put(values, at, value, label)


class PointerUniform(PointerEncoder):
    """An address, or memory of the kernel's device."""

    __slots__ = ("_device", "_element")

    def __init__(self, t: Type, form: ir.Pointer, device: Device) -> None:
        super().__init__(STRICTLY, form, t)
        self._device = device
        self._element = form.element

    def address_of(self, value: HostValue, label: str) -> int:
        return memory_of(self, value, self._element, self._device, label)[0]


class BufferUniform(Encoder):
    """A structured buffer (`element` is its type) or a byte-address buffer: address and extent."""

    __slots__ = ("_device", "_element", "_size", "_written")

    def __init__(
        self, t: Type, form: ir.Type, element: ir.Type | None, written: bool, device: Device
    ) -> None:
        super().__init__(STRICTLY, form, t)
        self._device = device
        self._element = element
        self._size = 1 if element is None else max(layout_of(element).size, 1)
        self._written = written

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if not isinstance(value, (Buffer, Tensor)):
            raise self.manner.refuse(
                self, value, label, "pass a Buffer, as device.create_buffer() gives one, or a Tensor"
            )
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


class TextureUniform(Encoder):
    """A texture: its address, format, sizes and the number of levels."""

    __slots__ = ("_device", "_element", "_name")

    def __init__(self, t: StructType, form: ir.Type, element: ir.Type | None, device: Device) -> None:
        super().__init__(STRICTLY, form, t)
        self._device = device
        self._element = element
        self._name = standard_name(t)

    def put(self, values: Values, at: int, value: HostValue, label: str) -> None:
        if not is_texture_type(type(value)):
            note = "pass a Texture, as device.create_texture() gives one"
            raise self.manner.refuse(self, value, label, note)
        refusal = TEXTURES.refusal(value, self._name, self._element)
        if refusal is not None:
            raise self.manner.refuse(self, value, label, refusal)
        scalars = TEXTURES.scalars_of(value, self._element)
        if value.storage.runtime is not self._device:
            raise CallError(UNFIT, f"parameter '{label}': the texture belongs to another device")
        values[at : at + len(scalars)] = scalars


class HandleUniform(StructEncoder):
    """A handle, or a resource that has one."""

    __slots__ = ("_device", "_resource")

    def __init__(self, t: StructType, form: ir.Type, address: Encoder, device: Device) -> None:
        super().__init__(STRICTLY, form, [("__address", address)], t)
        self._device = device
        self._resource = standard_name(t.inner)

    def put(self, values: Values, at: int, value: HostValue, label: str) -> None:
        if isinstance(value, dict):
            super().put(values, at, value, label)
            return
        handle = HANDLES.checked_handle(value, self._resource, label)
        if not handle.belongs_to(self._device):
            raise CallError(UNFIT, f"parameter '{label}': the handle belongs to another device")
        values[at] = handle.value


class TupleUniform(StructEncoder):
    """A tuple: a list of its elements, or a dict with `_0`, `_1` and so on."""

    __slots__ = ()

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, (list, tuple)):
            count = len(self.fields())
            if len(value) != count:
                raise self.manner.refuse(self, value, label, f"{count} elements are needed, not {len(value)}")
            value = {f"_{i}": part for i, part in enumerate(value)}
        super().put(values, at, value, label)


class FixedUniform(Encoder):
    """A value that cannot be passed: it stays zero."""

    __slots__ = ()
    needed = False

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        raise self.manner.refuse(self, value, label, "such values cannot be set from Python")


UNIFORMS = {"_data", "_shape", "_strides", "_offset"}  # the keys of `Tensor.uniforms()`


class TensorUniform(Encoder):
    """A tensor of the standard library: of each of its memories the address, sizes and strides."""

    __slots__ = ("_device", "_element", "_family", "_ranks")

    def __init__(
        self, t: Type, form: ir.Type, family: Family, element: ir.Type, ranks: range, device: Device
    ) -> None:
        super().__init__(STRICTLY, form, t)
        self._family = family
        self._element = element
        self._ranks = ranks
        self._device = device

    def put(self, values: Values, at: int, value: object, label: str) -> None:
        if isinstance(value, dict) and value.keys() == UNIFORMS and isinstance(value["_data"], Buffer):
            value = Tensor(
                value["_data"], self._element, *(value[key] for key in ("_shape", "_strides", "_offset"))
            )
        if not isinstance(value, Tensor):
            raise self.manner.refuse(self, value, label, "pass a Tensor")
        if value.element_type is not self._element or len(value.shape) not in self._ranks:
            raise self.manner.refuse(self, value, label, None)
        if self._family.role.writes and not value.writable:
            message = f"parameter '{label}' of type '{self.type}' is written, and the tensor is read-only"
            raise CallError(UNFIT, message)
        if value.storage.runtime is not self._device:
            raise CallError(UNFIT, f"parameter '{label}': the {described(value)} belongs to another device")
        for part, missing_one in ((TAKEN, "grad_in"), (GIVEN, "grad_out")):
            if part in self._family.parts and getattr(value, missing_one) is None:
                note = f"attach gradients with with_grads(): {missing_one} is missing"
                raise self.manner.refuse(self, value, label, note)
        for memory in TENSOR_ACCESS.memories(value, self._family.parts):
            if not has_numbers(memory):
                message = f"parameter '{label}': a tensor parameter takes less than {MOST_ELEMENTS} elements"
                raise CallError(UNFIT, message)
            scalars = self._family.scalars(memory, len(memory.shape))
            values[at : at + len(scalars)] = [memory.address, *scalars[1:]]
            at += len(scalars)


def memory_of(
    uniform: Encoder, value: Buffer | Tensor, element: ir.Type | None, device: Device, label: str
) -> tuple[int, int]:
    """Address and bytes of memory of the kernel's device that can hold such elements."""
    storage = value if isinstance(value, Buffer) else value.storage
    if storage.runtime is not device:
        message = f"parameter '{label}': the {described(value)} belongs to another device"
        raise CallError(UNFIT, message, (), "make it on the device of the kernel")
    if isinstance(value, Tensor):
        if not value.is_contiguous():
            raise STRICTLY.refuse(uniform, value, label, "the tensor has gaps: pass tensor.copy()")
        if element is not None and not _alike(element, value.element_type):
            raise STRICTLY.refuse(uniform, value, label, None)
        return value.address, value.element_count * value.element_size
    if element is not None and value.element_type is not None and not _alike(element, value.element_type):
        note = f"the buffer was made for elements of type {slang_name(value.element_type)}"
        raise STRICTLY.refuse(uniform, value, label, note)
    if element is not None and 0 < value.size < layout_of(element).size:
        note = f"one element takes {layout_of(element).size} bytes, the buffer has {value.size}"
        raise STRICTLY.refuse(uniform, value, label, note)
    return value.address, value.size


def _alike(wanted: ir.Type, held: ir.Type) -> bool:
    """Whether memory of one type can be seen as the other: the same type, or made of the same numbers."""
    if wanted is held or wanted is ir.U8:
        return True
    kinds = {_unsigned(t) for _, t in scalars_of(wanted)}
    return len(kinds) == 1 and kinds == {_unsigned(t) for _, t in scalars_of(held)}


def _unsigned(t: ir.Type) -> object:
    return (layout_of(t).size, isinstance(t, ir.Scalar) and ir.is_float(t))


class Uniforms:
    """Makes the encoders of types. `types` are the types of the program, `device` runs its kernels."""

    def __init__(self, types: ModuleTypes, device: Device) -> None:
        self._types = types
        self._device = device

    def of(self, t: Type) -> Encoder | None:
        """None for types whose values cannot be passed."""
        form = self._types.lower(t)
        if form is None:
            return None
        of, rules = unstored(t), rules_of(t)
        if isinstance(of, EnumType):
            return EnumUniform(of, form)
        if isinstance(of, (ScalarType, VectorType, MatrixType)):
            return encoder_of(form, STRICTLY)
        if isinstance(of, PointerType):
            assert isinstance(form, ir.Pointer)
            return PointerUniform(t, form, self._device)
        if isinstance(of, ArrayType):
            part = self.of(stored(of.element, rules))
            return None if part is None else RowsEncoder(STRICTLY, form, part, t)
        if isinstance(of, Tuple):
            parts = {f"_{i}": stored(element, rules) for i, element in enumerate(of.elements)}
            return TupleUniform(STRICTLY, form, self._parts(parts), t)
        return self._struct(t, form, of, rules) if isinstance(of, StructType) else None

    def _parts(self, types: Mapping[str, Type]) -> Iterator[tuple[str, Encoder]]:
        """The encoders of fields that have memory."""
        for name, kind in types.items():
            form = self._types.lower(kind)
            if form is not None:
                yield name, self.of(kind) or FixedUniform(STRICTLY, form, kind)

    def _struct(self, whole: Type, form: ir.Type, t: StructType, rules: str) -> Encoder | None:
        name, device = standard_name(t), self._device
        if name in BYTES:
            return BufferUniform(t, form, None, BYTES[name], device)
        if name in STRUCTURED:
            return BufferUniform(t, form, self._types.lower(t.inner), STRUCTURED[name], device)
        if name == "DescriptorHandle":
            return HandleUniform(t, form, encoder_of(self._types.lower(UINT64), STRICTLY), device)
        if name in TEXTURE_SHAPES and self._types.stored_fields(t):
            return TextureUniform(t, form, self._types.lower(t.inner), device)
        if name in FAMILIES or name in VIEWS:
            element = self._types.lower(t.inner)
            if element is None:
                return None
            if name in VIEWS:
                return TensorUniform(t, form, VIEWS[name], element, range(MOST_DIMENSIONS + 1), device)
            rank = t.arguments[1]
            assert isinstance(rank, int)
            return TensorUniform(t, form, FAMILIES[name], element, range(rank, rank + 1), device)
        parts = {field: stored(kind, rules) for field, kind in self._types.stored_fields(t)}
        return StructEncoder(STRICTLY, form, self._parts(parts), whole)


# --- Errors -------------------------------------------------------------------------------------------


def described(value: object) -> str:
    """A value in the words of a message."""
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


def unknown(message: str, name: str, names: Collection[str]) -> CallError:
    return CallError(UNKNOWN, message, (), suggestion(name, names))


def missing(label: str, t: str) -> CallError:
    return CallError(MISSING, f"parameter '{label}' of type '{t}' has no value", (), None)
