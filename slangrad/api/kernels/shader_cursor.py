"""Parameters of a pipeline that are written one by one, by name.

    with encoder.begin_compute_pass() as compute:
        cursor = ShaderCursor(compute.bind_pipeline(kernel.pipeline))
        cursor["scale"] = 2.0
        cursor.lights[3].color = float3(1, 0, 0)
        compute.dispatch([64, 1, 1])

A cursor points to a parameter or a part of one. It checks values as `ComputeKernel.dispatch` does. `f.write(fn, ...)`
calls `fn` with a cursor that has no memory: the call takes its values, as it takes those of `set`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slangrad.api.kernels.pipeline import BlockSlot, ComputePipeline, ParameterSlot
from slangrad.api.kernels.shader_block import ShaderBlock
from slangrad.api.kernels.uniforms import unknown
from slangrad.call.binding.call_request import Tree, put
from slangrad.check.model.types import ArrayType, Type
from slangrad.ir.data.layout import scalars_of
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import Encoder, memory_format
from slangrad.marshal.host.footprint import Values
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.call.binding.program import ModuleTypes


class ShaderObject:
    """The parameters of a pipeline and the values they have so far."""

    def __init__(self, pipeline: ComputePipeline) -> None:
        self.pipeline = pipeline
        self.values: Values = pipeline.empty[:]
        self.written: set[ParameterSlot] = set()
        self._kept: dict[Hashable, object] = {}

    def place(self) -> _Place:
        """The root of a cursor: all parameters outside of functions."""
        return _Place(self, children=self.pipeline.globals)

    def keep(self, at: Hashable, value: object) -> None:
        """Memory that is written to a parameter stays alive."""
        self._kept[at] = value

    def kept(self) -> tuple[object, ...]:
        """Objects whose memory the values use."""
        return tuple(self._kept.values())

    def pack(self) -> bytes:
        """The argument block, as bytes. CallError (E1018) for a parameter without a value."""
        self.pipeline.check_written(self.written)
        return self.pipeline.pack(self.values)


@dataclass(frozen=True, slots=True)
class ShaderOffset:
    """The offset of a parameter or a part of one, in bytes, as in reflection; the binding has the same offset."""

    uniform_offset: int
    binding_range_index: int = 0
    binding_array_index: int = 0

    def is_valid(self) -> bool:
        """True: an offset of a cursor always leads to a parameter."""
        return True


@dataclass(frozen=True, slots=True)
class _Place:
    """Several parameters (`children`), or one of them or a part of it: a uniform and its first scalar."""

    object: ShaderObject
    label: str = ""
    children: Mapping[str, ParameterSlot | BlockSlot] | None = None
    slot: ParameterSlot | BlockSlot | None = None
    uniform: Encoder | None = None
    values: Values | None = None
    at: int = 0

    @property
    def title(self) -> str:
        return f"'{self.label}'" if self.label else "the kernel"

    @property
    def offset(self) -> int:
        """Bytes to here, from the first parameter outside of functions or of the entry point."""
        if self.slot is None:
            return 0
        pipeline = self.object.pipeline
        start = pipeline.offsets[self.slot]
        if isinstance(self.slot, BlockSlot):
            return start
        within = [offset for offset, _ in scalars_of(self.slot.uniform.form)]
        return start + (within[self.at - max(self.slot.at, 0)] if within else 0)

    @property
    def names(self) -> Collection[str]:
        if self.children is not None:
            return self.children
        return {} if self.uniform is None else self.uniform.fields()

    def field(self, name: str) -> _Place:
        if name not in self.names:
            raise unknown(f"{self.title} has no parameter or field '{name}'", name, self.names)
        if self.children is not None:
            return self._child(self.children[name])
        assert self.uniform is not None
        return self._part(*self.uniform.fields()[name], f".{name}")

    def element(self, index: int) -> _Place | None:
        part = None if self.uniform is None else self.uniform.element(index)
        return None if part is None else self._part(*part, f"[{index}]")

    def _child(self, slot: ParameterSlot | BlockSlot) -> _Place:
        if isinstance(slot, BlockSlot):
            return _Place(self.object, slot.name, slot.members, slot)
        values = self.object.values if slot.at >= 0 else [0] * slot.uniform.count
        return _Place(self.object, slot.name, None, slot, slot.uniform, values, max(slot.at, 0))

    def _part(self, offset: int, uniform: Encoder, ending: str) -> _Place:
        return replace(self, label=self.label + ending, uniform=uniform, at=self.at + offset)

    def write(self, value: HostValue) -> None:
        if self.uniform is not None:
            self.uniform.put(self._scalars, self.at, value, self.label)
            self._note(value)
            return
        if not isinstance(value, Mapping):
            raise CallError("E1019", f"{self.title}: pass a dict with the parameters")
        for name, part in value.items():
            self.field(name).write(part)

    def set_data(self, data: HostValue) -> None:
        if self.uniform is None:
            raise CallError("E1019", f"{self.title}: raw data is for one parameter")
        raw = np.ascontiguousarray(data).view(np.uint8).tobytes()
        form = memory_format(self.uniform.form)
        if len(raw) > form.size:
            raise CallError("E1019", f"parameter '{self.label}' takes {form.size} bytes, not {len(raw)}")
        self._scalars[self.at : self.at + self.uniform.count] = form.unpack(raw.ljust(form.size, b"\0"))
        self._note(data)

    @property
    def _scalars(self) -> Values:
        assert self.values is not None, self
        return self.values

    def _note(self, value: HostValue) -> None:
        assert isinstance(self.slot, ParameterSlot)
        self.object.written.add(self.slot)
        self.object.keep((self.slot, self.at), value)


class ShaderCursor:
    """A place among the parameters. Fields are attributes and items, elements items."""

    __slots__ = ("_place",)

    _place: Any  # a _Place, BlockPlace or GlobalsPlace

    def __init__(self, shader_object: ShaderObject | ShaderBlock) -> None:
        """All parameters outside of functions, or the fields of a block."""
        object.__setattr__(self, "_place", shader_object.place())

    @classmethod
    def _at(cls, place: object) -> ShaderCursor:
        """A cursor of the class to a place."""
        cursor = cls.__new__(cls)
        object.__setattr__(cursor, "_place", place)
        return cursor

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.label or 'all parameters'})"

    # --- Finding places ---

    def find_entry_point(self, index: int) -> ShaderCursor:
        """The parameters of the entry point. CallError (E1017) for another index than 0."""
        if index != 0:
            raise CallError("E1017", f"there is no entry point {index}")
        shader_object = self._place.object
        return self._at(_Place(shader_object, children=shader_object.pipeline.parameters))

    def dereference(self) -> ShaderCursor:
        """The content of a constant buffer or parameter block: the same place."""
        return self

    def is_valid(self) -> bool:
        """True: a place that does not exist is an error instead."""
        return True

    def has_field(self, name: str) -> bool:
        """Whether there is a field of that name."""
        return name in self._place.names

    def has_element(self, index: int) -> bool:
        """Whether there is an element of that number."""
        return self._place.element(index) is not None

    def find_field_index(self, name: str) -> int:
        """The number of a field, -1 where there is none."""
        names = list(self._place.names)
        return names.index(name) if name in names else -1

    def get_field_by_index(self, field_index: int) -> ShaderCursor:
        """The place of a field by its number."""
        return self.find_field(list(self._place.names)[field_index])

    def find_field(self, name: str) -> ShaderCursor:
        """The place of a field. CallError (E1017) where there is none."""
        return self._at(self._place.field(name))

    def find_element(self, index: int) -> ShaderCursor:
        """The place of an element; IndexError where there is none."""
        element = self._place.element(index)
        if element is None:
            raise IndexError(f"{self._place.title} has no element {index}")
        return self._at(element)

    @property
    def _offset(self) -> ShaderOffset:
        return ShaderOffset(self._place.offset)

    # --- Writing ---

    def write(self, value: object) -> None:
        """Give the place a value; of several parameters a dict."""
        self._place.write(value)

    def set_data(self, data: object) -> None:
        """Give the place the bytes of an array."""
        self._place.set_data(data)

    def __getitem__(self, key: str | int) -> ShaderCursor:
        return self.find_element(key) if isinstance(key, int) else self.find_field(key)

    def __setitem__(self, key: str | int, value: object) -> None:
        self[key].write(value)

    def __getattr__(self, name: str) -> ShaderCursor:
        if name.startswith("__") or not self.has_field(name):
            raise AttributeError(f"{self._place.title} has no parameter or field '{name}'")
        return self.find_field(name)

    def __setattr__(self, name: str, value: object) -> None:
        self.find_field(name).write(value)


@dataclass(frozen=True, slots=True)
class GlobalsPlace:
    """A place among the values, by the names that lead to it. `types` are those of the module."""

    types: ModuleTypes
    tree: Tree
    path: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return ".".join(self.path)

    @property
    def title(self) -> str:
        return f"'{self.label}'" if self.path else "the module"

    def _type(self) -> Type | None:
        t: Type | None = self.types.global_type(self.path[0]) if self.path else None
        for name in self.path[1:]:
            t = None if t is None else dict(self.types.fields(t)).get(name)
        return t

    @property
    def names(self) -> Collection[str]:
        t = self._type()
        if not self.path:
            return dict.fromkeys(self.types.global_names())
        return {} if t is None else dict(self.types.fields(t))

    def field(self, name: str) -> GlobalsPlace:
        if name not in self.names:
            raise CallError("E1017", f"{self.title} has no value or field '{name}'")
        return GlobalsPlace(self.types, self.tree, (*self.path, name))

    def element(self, index: int) -> GlobalsPlace | None:
        t = self._type()
        inside = isinstance(t, ArrayType) and isinstance(t.count, int) and 0 <= index < t.count
        return self if inside else None

    def write(self, value: object) -> None:
        if not self.path and not isinstance(value, dict):
            raise CallError("E1019", "write: pass a dict with the values outside of functions")
        put(self.tree, self.path, value)


class GlobalsCursor(ShaderCursor):
    """A place among the values; fields are attributes and items."""

    __slots__ = ()

    def __init__(self, place: GlobalsPlace) -> None:
        object.__setattr__(self, "_place", place)

    def find_element(self, index: int) -> ShaderCursor:
        note = "write a list with all of its elements"
        message = f"{self._place.title}: single elements cannot be written in calls"
        raise CallError("E1017", message, (), note)
