"""What `f.write(fn, ...)` hands to `fn`: a cursor that notes values for what stands outside of functions.

    def fill(cursor, k):
        cursor.params.k = k                     cursor["scale"] = 2.0          cursor.write({"table": tensor})

It points to no memory: values go to the call as those of `set` do, and are checked there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slangrad.api.kernels.shader_cursor import ShaderCursor
from slangrad.call.given import Tree, put
from slangrad.check.model.types import Array, Type
from slangrad.marshal.errors import CallError


@dataclass(frozen=True, slots=True)
class GlobalsPlace:
    """A place among the values, by the names that lead to it. `types` are those of the module."""

    types: Any
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
    def names(self) -> Mapping[str, Any]:
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
        inside = isinstance(t, Array) and isinstance(t.count, int) and 0 <= index < t.count
        return self if inside else None

    def write(self, value: Any) -> None:
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
