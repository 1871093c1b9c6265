"""Explicit maps: the settings of an argument by `map`.

    f.map((0,), (1,))(a, b)     dimensions of the call for each dimension of the argument
    f.map("float3")(v)          the type that an element is to be seen as; numbers of it become those of the parameter
    f.map({"x": (0,)})(point)   the same for the fields of a dict, "$type" for the whole

A map wraps the argument's marshal and narrows down its ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from slangrad.check.model.types import Type
from slangrad.marshal.composed.scalars import UnsupportedMarshal
from slangrad.marshal.composed.structs import DictMarshal
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.protocol.patterns import converts
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.tensors.elements.conversion import HostValue

TYPE_ENTRY = "$type"
FindType = Callable[[HostValue], Type | None]


MAPPED = "mapped"


class MappedMarshal(Marshal):
    """A marshal of which only the ways that fit the map are left. In a way that is MAPPED the value is seen as the one
    part says, and becomes the parameter's type in the kernel."""

    def __init__(self, inner: Marshal, dims: tuple[int, ...] | None, seen: Type | None) -> None:
        self.inner = inner
        self.dims = dims
        self.seen = seen
        self.described = inner.described

    @property
    def is_plain(self) -> bool:
        return self.inner.is_plain

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        ways = []
        if self.seen is None or types.matches(wanted, self.seen):
            ways = self._fitting(wanted if self.seen is None else self.seen, types, mode)
        return ways or self._converted(wanted, types, mode)

    def _fitting(self, wanted: Type, types: ProgramTypes, mode: str) -> list[Way]:
        ways = self.inner.ways(wanted, types, mode)
        return [way for way in ways if self.dims is None or way.dims == len(self.dims)]

    def _converted(self, wanted: Type, types: ProgramTypes, mode: str) -> list[Way]:
        """The way of the map's type, for a parameter of another type; dimensions alone mean the element's type."""
        seen = self.inner.holds(wanted, types) if self.seen is None else self.seen
        if seen is None or not converts(seen, wanted):
            return []
        ways = self._fitting(seen, types, mode)
        return [Way(wanted, way.dims, MAPPED, way.cost + 1, (way,)) for way in ways if way.type is seen]

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if way.how == MAPPED:
            (way,) = way.parts
            spot = self._spot_of_other(way, spot)
        node = self.inner.bind(way, spot)
        if self.dims is not None:
            if self.dims and not node.has_dimensions:
                message = f"Explicit vectorization raised exception: NotImplementedError: '{spot.label}': "
                raise BoundVariableException("E1009", message + f"{self.described} has no dimensions to map")
            node.explicit = self.dims
        return node

    def _spot_of_other(self, way: Way, spot: Spot) -> Spot:
        """The spot for a value of another type than the parameter's; where it has no derivative it is a constant."""
        problem = f"argument '{spot.label}': it is seen as '{way.type}', as map says, "
        problem += "and the parameter has another type"
        if spot.role.writes:
            raise CallError("E1009", f"{problem}, so it cannot receive what is written")
        if spot.role.differentiates and spot.types.tangent(way.type) is not None:
            note = "pass a container of the parameter's type"
            raise CallError("E1009", f"{problem}, so no derivative reaches it", (), note)
        return replace(spot, role=spot.role.without_derivative())

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if self.seen is not None and not types.matches(wanted, self.seen):
            if converts(self.seen, wanted):
                return self.inner.reason(self.seen, types)
            return f"map says '{self.seen}', the parameter is '{wanted}'"
        if self.dims is not None and list(self.inner.ways(wanted, types, "")):
            return f"{self.described} as '{wanted}' cannot have {len(self.dims)} dimensions, as map says"
        return self.inner.reason(wanted, types)


def apply_map(marshal: Marshal, entry: object, label: str, find: FindType) -> Marshal:
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


def _checked_dims(entry: tuple[HostValue, ...], label: str) -> tuple[int, ...]:
    if not all(isinstance(dim, int) and dim >= 0 for dim in entry):
        message = f"Explicit vectorization raised exception: '{label}': {entry} are no call dimensions"
        raise BoundVariableException("E1009", message, (), "call dimensions are counted from 0")
    return entry


def _map_fields(marshal: Marshal, entry: Mapping[str, object], label: str, find: FindType) -> Marshal:
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


def check_count(positional: tuple[object, ...], arguments: int) -> None:
    if len(positional) > arguments:
        raise CallError(
            "E1009",
            f"map: Too many arguments supplied for explicit vectorization: {len(positional)} for {arguments}",
        )


def check_once(
    positional: tuple[object, ...], named: Mapping[str, object], parameters: Iterable[str]
) -> None:
    """CallError where a map names a parameter that it has by position already."""
    for entry, name in zip(positional, parameters):
        if entry is not None and name in named:
            raise CallError("E1009", f"map: '{name}' is specified by position and by name")


def check_names(named: Mapping[str, object], names: Iterable[str]) -> None:
    for name in named:
        if name not in names:
            raise CallError("E1009", f"map: Unknown keyword argument {name}")
