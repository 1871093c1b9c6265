"""Values for one parameter, kept by themselves: `device.create_shader_object(kernel.reflection["spring"])`.

    spring = device.create_shader_object(program.reflection.spring)
    ShaderCursor(spring).length = 2.0
    kernel.dispatch([64, 1, 1], {"spring": spring})

A block is a mapping of what was written to it, and goes where a dict goes; names are checked when they are written,
values when the block is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from slangrad.api.kernels.uniforms import unknown
from slangrad.api.reflection.cursor import ReflectionCursor
from slangrad.api.reflection.program_layout import TypeLayoutReflection
from slangrad.marshal.errors import CallError
from slangrad.marshal.type_kinds import TypeKind
from slangrad.marshal.vectors import HostArray

Key = TypeVar("Key", str, int)
WITH_ELEMENTS = (TypeKind.array, TypeKind.vector, TypeKind.matrix)


class _Kept(Mapping[Key, Any], Generic[Key]):
    """Parts and the values they have so far: `label` is what messages call the whole."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._values: dict[Key, Any] = {}

    def __getitem__(self, key: Key) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keep(self, key: Key, value: Any) -> None:
        self._values[key] = value

    def part(self, key: Key, layout: TypeLayoutReflection, label: str) -> BlockPlace:
        """Where a cursor to a part leads: to parts of its own, if it has some. A value that was written for the whole
        is taken apart, unless it does not fit, which is noticed when the block is used."""
        value = self._values.get(key)
        if isinstance(value, _Kept):
            return BlockPlace(self, key, label, value)
        made: _Kept[Any] | None = None
        if layout.fields:
            made = ShaderBlock(layout, label)
        elif layout.type.kind in WITH_ELEMENTS:
            made = BlockArray(layout, label)
        if made is None or (value is not None and not made.take(value)):
            return BlockPlace(self, key, label)
        self._values[key] = made
        return BlockPlace(self, key, label, made)

    def take(self, value: Any) -> bool:
        """Take over the parts of a value; whether it has them."""
        if not isinstance(value, Mapping):
            return False
        self._values.update(value)
        return True

    def names(self) -> Mapping[str, Any]:
        """The fields."""
        return {}

    def element(self, index: int) -> BlockPlace | None:
        """A part by its number; None where there is none."""
        return None


class ShaderBlock(_Kept[str]):
    """The fields of a struct, constant buffer or parameter block and the values they have so far."""

    def __init__(self, of: ReflectionCursor | TypeLayoutReflection, label: str = "") -> None:
        """CallError (E1019) for a type without fields."""
        found = of.type_layout if isinstance(of, ReflectionCursor) else of
        if not isinstance(found, TypeLayoutReflection):
            note = "kernel.reflection[name] gives one"
            raise CallError("E1015", f"type_layout: {type(of).__name__} is no type layout", (), note)
        super().__init__(label or str(found.type.full_name))
        self.layout = found
        self._fields = {each.name: each.type_layout for each in self.layout.fields}
        if not self._fields:
            raise CallError("E1019", f"values of type '{self.label}' have no fields")

    def __repr__(self) -> str:
        return f"ShaderBlock({self.label}: {', '.join(self) or 'nothing'})"

    def place(self) -> BlockPlace:
        """Where a cursor begins."""
        return BlockPlace(None, "", self.label, self)

    def names(self) -> Mapping[str, Any]:
        return self._fields

    def field(self, name: str) -> BlockPlace:
        if name not in self._fields:
            raise unknown(f"'{self.label}' has no field '{name}'", name, self._fields)
        return self.part(name, self._fields[name], f"{self.label}.{name}")


class BlockArray(_Kept[int]):
    """The elements of an array, the rows of a matrix or the components of a vector that were written one by one."""

    def __init__(self, layout: TypeLayoutReflection, label: str) -> None:
        super().__init__(label)
        of = layout.type
        self._count = of.row_count if of.kind is TypeKind.matrix else of.element_count
        self._element = layout.element_type_layout

    def take(self, value: Any) -> bool:
        parts = value.data if isinstance(value, HostArray) else value
        if not isinstance(parts, (Sequence, np.ndarray)) or isinstance(parts, (str, bytes)):
            return False
        if len(parts) != self._count:
            return False
        self._values.update(enumerate(parts))
        return True

    def element(self, index: int) -> BlockPlace | None:
        if self._element is None or not 0 <= index < self._count:
            return None
        return self.part(index, self._element, f"{self.label}[{index}]")


class BlockPlace:
    """The whole of a block, or a part of what is kept (`key` in `holder`), for a cursor. `inner` has its parts."""

    def __init__(
        self, holder: _Kept[Any] | None, key: Any, label: str, inner: _Kept[Any] | None = None
    ) -> None:
        self._holder = holder
        self._key = key
        self.label = label
        self._inner = inner

    @property
    def title(self) -> str:
        return f"'{self.label}'"

    @property
    def offset(self) -> int:
        raise CallError("E1019", f"{self.title} has no place in memory yet")

    @property
    def names(self) -> Mapping[str, Any]:
        return {} if self._inner is None else self._inner.names()

    def field(self, name: str) -> BlockPlace:
        if not isinstance(self._inner, ShaderBlock):
            raise unknown(f"{self.title} has no field '{name}'", name, {})
        return self._inner.field(name)

    def element(self, index: int) -> BlockPlace | None:
        return None if self._inner is None else self._inner.element(index)

    def write(self, value: Any) -> None:
        if not isinstance(self._inner, ShaderBlock):
            assert self._holder is not None
            self._holder.keep(self._key, value)
            return
        if not isinstance(value, Mapping):
            raise CallError("E1019", f"{self.title}: pass a dict with the fields")
        for name, each in value.items():
            self.field(name).write(each)

    def set_data(self, data: Any) -> None:
        raise CallError("E1019", f"{self.title}: raw data is for parameters of a pipeline")
