"""Explicit maps: what the user says about an argument with `map`.

    f.map((0,), (1,))(a, b)     dimensions of the call for each dimension of the argument
    f.map("float3")(v)          the type that an element is to be seen as
    f.map({"x": (0,)})(point)   the same for the fields of a dict, "$type" for the whole

A map wraps the argument's marshal and narrows down its ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slangrad.check.types import Type
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.marshal import Leaf, Marshal, Node, ProgramTypes, Spot, Way
from slangrad.marshal.scalars import UnsupportedMarshal
from slangrad.marshal.structs import DictMarshal

TYPE_ENTRY = "$type"
FindType = Callable[[Any], Type | None]


class MappedMarshal(Marshal):
    """A marshal of which only the ways that fit the map are left."""

    def __init__(self, inner: Marshal, dims: tuple[int, ...] | None, seen: Type | None) -> None:
        self.inner = inner
        self.dims = dims
        self.seen = seen
        self.described = inner.described

    @property
    def is_plain(self) -> bool:
        return self.inner.is_plain

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        if self.seen is not None and not types.matches(wanted, self.seen):
            return []
        found = list(self.inner.ways(wanted if self.seen is None else self.seen, types, mode))
        return found if self.dims is None else [way for way in found if way.dims == len(self.dims)]

    def bind(self, way: Way, spot: Spot) -> Node:
        node = self.inner.bind(way, spot)
        if self.dims is not None:
            if self.dims and not isinstance(node, Leaf):
                message = f"Explicit vectorization raised exception: NotImplementedError: '{spot.label}': "
                raise BoundVariableException("E1009", message + f"{self.described} has no dimensions to map")
            node.explicit = self.dims
        return node

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if self.seen is not None and not types.matches(wanted, self.seen):
            return f"map says '{self.seen}', the parameter is '{wanted}'"
        if self.dims is not None and list(self.inner.ways(wanted, types, "")):
            return f"{self.described} as '{wanted}' cannot have {len(self.dims)} dimensions, as map says"
        return self.inner.reason(wanted, types)


def apply_map(marshal: Marshal, entry: Any, label: str, find: FindType) -> Marshal:
    """The marshal under one entry of a map."""
    if entry is None:
        return marshal
    if isinstance(marshal, UnsupportedMarshal):
        message = (
            f"Explicit vectorization raised exception: NotImplementedError: '{label}': {marshal.described}"
        )
        raise BoundVariableException("E1009", message, (), "only containers have dimensions to map")
    if isinstance(entry, Mapping):
        return _map_fields(marshal, entry, label, find)
    if isinstance(entry, tuple):
        return MappedMarshal(marshal, _checked_dims(entry, label), None)
    seen = find(entry)
    if seen is None:
        raise CallError("E1009", f"map: '{label}': {entry!r} is neither a tuple of dimensions nor a type")
    return MappedMarshal(marshal, None, seen)


def _checked_dims(entry: tuple[Any, ...], label: str) -> tuple[int, ...]:
    if not all(isinstance(each, int) and each >= 0 for each in entry):
        message = f"Explicit vectorization raised exception: '{label}': {entry} are no call dimensions"
        raise BoundVariableException("E1009", message, (), "call dimensions are counted from 0")
    return entry


def _map_fields(marshal: Marshal, entry: Mapping[str, Any], label: str, find: FindType) -> Marshal:
    if not isinstance(marshal, DictMarshal):
        message = f"Explicit vectorization raised exception: '{label}': {marshal.described} has no fields"
        raise BoundVariableException("E1009", message)
    unknown = [name for name in entry if name != TYPE_ENTRY and name not in marshal.children]
    if unknown:
        raise CallError("E1009", f"map: '{label}': the argument has no field '{unknown[0]}'")
    children = {
        name: apply_map(child, entry.get(name), f"{label}.{name}", find)
        for name, child in marshal.children.items()
    }
    mapped: Marshal = DictMarshal(children, marshal.type_name)
    if TYPE_ENTRY in entry:
        mapped = apply_map(mapped, entry[TYPE_ENTRY], label, find)
    return mapped


def check_count(positional: tuple[Any, ...], arguments: int) -> None:
    if len(positional) > arguments:
        raise CallError("E1009", "Too many arguments supplied for explicit vectorization")


def check_names(named: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in named:
        if name not in names:
            raise CallError("E1009", f"Unknown keyword argument {name}")
