"""What `f.write(fn, ...)` hands to `fn`: a cursor that notes values for what stands outside of functions.

    def fill(cursor, k):
        cursor.params.k = k                     cursor["scale"] = 2.0          cursor.write({"table": tensor})

It is used like a ShaderCursor, but points to no memory: values go to the call as those of `set` do, and are checked
there.
"""

from __future__ import annotations

from typing import Any

from slangrad.call.given import Tree, put
from slangrad.check.model.types import Array, Type
from slangrad.marshal.errors import CallError


class GlobalsCursor:
    """A place among the values; fields are attributes and items. `types` are those of the module."""

    __slots__ = ("_path", "_tree", "_types")

    _path: tuple[str, ...]
    _tree: Tree
    _types: Any

    def __init__(self, types: Any, tree: Tree, path: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "_types", types)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_path", path)

    def __repr__(self) -> str:
        return f"GlobalsCursor({'.'.join(self._path) or 'all values'})"

    def _type(self) -> Type | None:
        """The type of what the cursor points to."""
        t: Type | None = self._types.global_type(self._path[0])
        for name in self._path[1:]:
            t = None if t is None else dict(self._types.fields(t)).get(name)
        return t

    def is_valid(self) -> bool:
        return True

    def dereference(self) -> GlobalsCursor:
        """What is in a constant buffer or parameter block: the same place."""
        return self

    def has_field(self, name: str) -> bool:
        if not self._path:
            return name in self._types.global_names()
        t = self._type()
        return t is not None and name in dict(self._types.fields(t))

    def has_element(self, index: int) -> bool:
        t = self._type() if self._path else None
        return isinstance(t, Array) and isinstance(t.count, int) and 0 <= index < t.count

    def find_field(self, name: str) -> GlobalsCursor:
        if not self.has_field(name):
            where = f"'{'.'.join(self._path)}'" if self._path else "the module"
            raise CallError("E1017", f"{where} has no value or field '{name}'")
        return GlobalsCursor(self._types, self._tree, (*self._path, name))

    def find_element(self, index: int) -> GlobalsCursor:
        label = ".".join(self._path) or "the module"
        note = "write a list with all of its elements"
        raise CallError("E1017", f"'{label}': single elements cannot be written in calls", (), note)

    def write(self, value: Any) -> None:
        """Give the place a value; to all of the values a dict."""
        if not self._path and not isinstance(value, dict):
            raise CallError("E1019", "write: pass a dict with the values outside of functions")
        put(self._tree, self._path, value)

    def __getitem__(self, key: str | int) -> GlobalsCursor:
        return self.find_element(key) if isinstance(key, int) else self.find_field(key)

    def __setitem__(self, key: str | int, value: Any) -> None:
        self[key].write(value)

    def __getattr__(self, name: str) -> GlobalsCursor:
        if name.startswith("__") or not self.has_field(name):
            raise AttributeError(f"{self!r} has no field '{name}'")
        return self.find_field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.find_field(name).write(value)
