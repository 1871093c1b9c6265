"""What programs look like from outside, by names and indices.

program.reflection.particles.type_layout       of a parameter
program.reflection["main"]["count"].type       of a parameter of an entry point
program.reflection.find_field("missing").is_valid()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slangrad.api.reflection.program_layout import EntryPointLayout, ProgramLayout, TypeLayoutReflection
from slangrad.api.reflection.types import TypeReflection
from slangrad.ir import types as ir
from slangrad.marshal.errors import CallError
from slangrad.marshal.type_kinds import ShapeKind

if TYPE_CHECKING:
    from slangrad.api.kernels.shader import ShaderProgram


class ReflectionCursor:
    """Parameters by name, fields by name, elements by index: `program.reflection.particles`."""

    def __init__(self, shader_program: ShaderProgram) -> None:
        """All parameters and entry points of a program."""
        self._layout: Any = getattr(shader_program, "layout", None)
        self._missing: CallError | None = None
        if not isinstance(self._layout, ProgramLayout):
            given = type(shader_program).__name__
            raise CallError("E1015", f"ReflectionCursor: {given} is not a ShaderProgram")

    @classmethod
    def _of(cls, layout: Any, missing: CallError | None = None) -> ReflectionCursor:
        made = cls.__new__(cls)
        made._layout, made._missing = layout, missing
        return made

    def __repr__(self) -> str:
        return f"ReflectionCursor({'nothing' if self._layout is None else self._layout})"

    def is_valid(self) -> bool:
        """Whether there is such a parameter, field or element; without one, all but this is an error."""
        return self._missing is None

    @property
    def type_layout(self) -> TypeLayoutReflection:
        """The type at this place with its memory; CallError (E1012) of a whole program."""
        self._require()
        if not isinstance(self._layout, TypeLayoutReflection):
            raise CallError("E1012", "an entry point or a whole program has no type")
        return self._layout

    @property
    def type(self) -> TypeReflection:
        """The type at this place."""
        return self.type_layout.type

    def has_field(self, name: str) -> bool:
        """Whether there is a field of that name."""
        return name in self._children()

    def find_field(self, name: str) -> ReflectionCursor:
        """The parameter or field of a name; `is_valid()` says whether there is one."""
        children = self._children()
        if name in children:
            return self._of(children[name])
        note = f"there are {', '.join(children) or 'none'}"
        return self._of(None, CallError("E1012", f"there is no parameter or field '{name}'", (), note))

    def has_element(self, index: int) -> bool:
        """Whether there is an element of that number."""
        return 0 <= index < self.type.element_count

    def find_element(self, index: int) -> ReflectionCursor:
        """What an element is; IndexError where there is none."""
        if not self.has_element(index):
            raise IndexError(f"there is no element {index}")
        return self._of(self.type_layout.element_type_layout)

    def __getitem__(self, key: str | int) -> ReflectionCursor:
        found = self.find_element(key) if isinstance(key, int) else self.find_field(key)
        found._require()
        return found

    def __getattr__(self, name: str) -> ReflectionCursor:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self.has_field(name):
            raise AttributeError(f"there is no parameter or field '{name}'")
        return self.find_field(name)

    def _require(self) -> None:
        if self._missing is not None:
            raise self._missing

    def _children(self) -> dict[str, Any]:
        self._require()
        layout = self._layout
        if isinstance(layout, ProgramLayout):
            entries = {each.name: each for each in layout.entry_points}
            return {**entries, **{each.name: each.type_layout for each in layout.parameters}}
        if isinstance(layout, EntryPointLayout):
            return {each.name: each.type_layout for each in layout.parameters}
        return {each.name: each.type_layout for each in layout.fields}


def element_of_resource(layout: object) -> ir.Type | None:
    """The type of a structured buffer's elements; TypeError for everything else."""
    found = layout.type_layout if isinstance(layout, ReflectionCursor) else layout
    if not isinstance(found, TypeLayoutReflection):
        given = type(layout).__name__
        raise TypeError(
            f"resource_type_layout: expected a TypeLayoutReflection or ReflectionCursor, not {given}"
        )
    if found.type.resource_shape is not ShapeKind.structured_buffer:
        raise TypeError(f"resource_type_layout: '{found.type.full_name}' is no structured buffer")
    element = found.element_type_layout
    return None if element is None else element.ir_type
