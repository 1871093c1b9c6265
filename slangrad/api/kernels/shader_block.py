"""Values for one parameter, kept by themselves: `device.create_shader_object(kernel.reflection["spring"])`.

    spring = device.create_shader_object(program.reflection.spring)
    ShaderCursor(spring).length = 2.0
    kernel.dispatch([64, 1, 1], {"spring": spring})

A block is a mapping of the written values, and is passed like a dict. Names are checked when they are written,
values when the block is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slangrad.api.kernels.uniforms import unknown
from slangrad.api.reflection.program_layout import ReflectionCursor, TypeLayoutReflection
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.vectors import plain_data
from slangrad.marshal.reflection.type_kinds import TypeKind
from slangrad.tensors.elements.conversion import HostValue

WITH_ELEMENTS = (TypeKind.array, TypeKind.vector, TypeKind.matrix)


class _Parts(dict[str | int, HostValue]):
    """The values written to parts of a value, by their names or numbers; uniforms take it as a dict."""


class ShaderBlock(Mapping[str, HostValue]):
    """The fields of a struct, constant buffer or parameter block and the values they have so far."""

    def __init__(self, of: ReflectionCursor | TypeLayoutReflection) -> None:
        """CallError (E1019) for a type without fields."""
        layout = of.type_layout if isinstance(of, ReflectionCursor) else of
        if not isinstance(layout, TypeLayoutReflection):
            note = "kernel.reflection[name] gives one"
            raise CallError("E1015", f"type_layout: {type(of).__name__} is no type layout", (), note)
        self.layout = layout
        self.label = layout.type.full_name
        self.values_so_far = _Parts()
        if not layout.fields:
            raise CallError("E1019", f"values of type '{self.label}' have no fields")

    def __getitem__(self, name: str) -> HostValue:
        return self.values_so_far[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_so_far)

    def __len__(self) -> int:
        return len(self.values_so_far)

    def __repr__(self) -> str:
        return f"ShaderBlock({self.label}: {', '.join(self) or 'nothing'})"

    def place(self) -> BlockPlace:
        """Where a cursor begins."""
        return BlockPlace(self.layout, self.label, self.values_so_far)


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A place that a cursor points to: a whole block, which has `parts`, or the part `key` of the place `around`."""

    layout: TypeLayoutReflection
    label: str
    parts: _Parts | None = None
    around: BlockPlace | None = None
    key: str | int = ""

    @property
    def title(self) -> str:
        return f"'{self.label}'"

    @property
    def offset(self) -> int:
        raise CallError("E1019", f"{self.title} has no place in memory yet")

    @property
    def names(self) -> Mapping[str, TypeLayoutReflection]:
        return {field.name: field.type_layout for field in self.layout.fields}

    def field(self, name: str) -> BlockPlace:
        names = self.names
        if name not in names:
            raise unknown(f"{self.title} has no field '{name}'", name, names)
        return BlockPlace(names[name], f"{self.label}.{name}", None, self, name)

    @property
    def _count(self) -> int:
        of = self.layout.type
        return of.row_count if of.kind is TypeKind.matrix else of.element_count

    def element(self, index: int) -> BlockPlace | None:
        element = self.layout.element_type_layout if self.layout.type.kind in WITH_ELEMENTS else None
        if element is None or not 0 <= index < self._count:
            return None
        return BlockPlace(element, f"{self.label}[{index}]", None, self, index)

    def write(self, value: object) -> None:
        if not self.layout.fields:
            assert self.around is not None, "a block has fields"
            self.around.written()[self.key] = value
            return
        if not isinstance(value, Mapping):
            raise CallError("E1019", f"{self.title}: pass a dict with the fields")
        for name, part in value.items():
            self.field(name).write(part)

    def written(self) -> _Parts:
        """The parts that have values. A value that was written for the whole is split into its parts."""
        if self.around is None:
            assert self.parts is not None
            return self.parts
        beside = self.around.written()
        whole = beside.get(self.key)
        if not isinstance(whole, _Parts):
            whole = beside[self.key] = self._taken_apart(whole)
        return whole

    def _taken_apart(self, whole: HostValue) -> _Parts:
        if whole is None or isinstance(whole, Mapping):
            return _Parts(whole or {})
        parts = plain_data(whole)
        is_row = isinstance(parts, (Sequence, np.ndarray)) and not isinstance(parts, (str, bytes))
        if not is_row or len(parts) != self._count:
            message = f"{self.title}: no part can be written of the {type(whole).__name__} that it is"
            raise CallError("E1019", message)
        return _Parts(enumerate(parts))

    def set_data(self, data: object) -> None:
        raise CallError("E1019", f"{self.title}: raw data is for parameters of a pipeline")
