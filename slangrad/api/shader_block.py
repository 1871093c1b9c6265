"""Values for one parameter, kept by themselves: `device.create_shader_object(kernel.reflection["spring"])`.

    spring = device.create_shader_object(program.reflection.spring)
    ShaderCursor(spring).length = 2.0
    kernel.dispatch([64, 1, 1], {"spring": spring})

A block is a mapping of what was written to it, and goes where a dict goes; names are checked when they are written,
values when the block is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slangrad.api.reflection.cursor import ReflectionCursor
from slangrad.api.reflection.program_layout import TypeLayoutReflection
from slangrad.api.uniforms import unknown
from slangrad.marshal.errors import CallError


class ShaderBlock(Mapping[str, Any]):
    """The fields of a struct, constant buffer or parameter block and the values they have so far."""

    def __init__(self, of: ReflectionCursor | TypeLayoutReflection, label: str = "") -> None:
        """CallError (E1019) for a type without fields."""
        found = of.type_layout if isinstance(of, ReflectionCursor) else of
        if not isinstance(found, TypeLayoutReflection):
            note = "kernel.reflection[name] gives one"
            raise CallError("E1015", f"type_layout: {type(of).__name__} is no type layout", (), note)
        self.layout = found
        self.label = label or str(found.type.full_name)
        self._fields = {each.name: each.type_layout for each in self.layout.fields}
        if not self._fields:
            raise CallError("E1019", f"values of type '{self.label}' have no fields")
        self._values: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"ShaderBlock({self.label}: {', '.join(self._values) or 'nothing'})"

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def place(self) -> BlockPlace:
        """Where a cursor begins."""
        return BlockPlace(self)


class BlockPlace:
    """A block, or a field of it that has none of its own, for a cursor."""

    def __init__(self, block: ShaderBlock, name: str | None = None) -> None:
        self._block = block
        self._name = name

    @property
    def label(self) -> str:
        return self._block.label if self._name is None else f"{self._block.label}.{self._name}"

    @property
    def title(self) -> str:
        return f"'{self.label}'"

    @property
    def offset(self) -> int:
        raise CallError("E1019", f"{self.title} has no place in memory yet")

    @property
    def names(self) -> Mapping[str, Any]:
        return {} if self._name is not None else self._block._fields

    def field(self, name: str) -> BlockPlace:
        if name not in self.names:
            raise unknown(f"{self.title} has no field '{name}'", name, self.names)
        layout = self._block._fields[name]
        if not layout.fields:
            return BlockPlace(self._block, name)
        within = self._block._values.get(name)
        if not isinstance(within, ShaderBlock):
            made = ShaderBlock(layout, f"{self.label}.{name}")
            made._values.update(within or {})
            within = self._block._values[name] = made
        return within.place()

    def element(self, index: int) -> None:
        """Arrays are written as a whole."""

    def write(self, value: Any) -> None:
        if self._name is not None:
            self._block._values[self._name] = value
            return
        if not isinstance(value, Mapping):
            raise CallError("E1019", f"{self.title}: pass a dict with the fields")
        for name, each in value.items():
            self.field(name).write(each)

    def set_data(self, data: Any) -> None:
        raise CallError("E1019", f"{self.title}: raw data is for parameters of a pipeline")
