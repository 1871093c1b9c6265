"""Plain values that are the same in all calls: uniform parameters of the kernel.

f(2, x) with float a  ->  uniform float a, packed as 2.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from slangrad.ir.data import types as ir
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import encode
from slangrad.marshal.host.footprint import Shape
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import Finder, Leaf, Setter
from slangrad.tensors.elements.conversion import HostValue


def mapped(change: Callable[[object], object], value: object) -> HostValue:
    """Lists and dicts with `change` applied to their entries; other values unchanged."""
    if isinstance(value, list):
        return [change(inner) for inner in value]
    return {name: change(inner) for name, inner in value.items()} if isinstance(value, dict) else value


@dataclass(slots=True, eq=False, kw_only=True)
class Uniform(Leaf):
    """A plain value, packed with the arguments. `read` finds it in the given value; see docs/extending.md."""

    is_packed: ClassVar[bool] = True

    lowered: ir.Type
    read: Callable[[HostValue], object] | None = None

    @property
    def _is_scalar(self) -> bool:
        return isinstance(self.lowered, (ir.Scalar, ir.Pointer)) and self.read is None

    def finders(self) -> list[Finder]:
        return [(self.name, 0, None)] if self._is_scalar else []

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        return {} if self._is_scalar else {self.name: plain_setter(self.lowered, self.read, self.label)}


def plain_setter(t: ir.Type, read: Callable[[object], object] | None, label: str) -> Setter:
    """A setter, which writes the scalars of a plain value."""

    def put(values: list[object], place: int, value: object, scratch: object) -> None:
        scalars = encode(t, value if read is None else read(value), label)
        values[place : place + len(scalars)] = scalars

    return put


def bind_plain(
    way: Way, spot: Spot, described: str, read: Callable[[object], object] | None = None
) -> Uniform:
    """A plain value as a uniform parameter; it cannot be written, and carries no derivative."""
    refuse_writes(spot, described)
    lowered = spot.types.lower(way.type)
    assert lowered is not None, f"{way.type} has no place in memory"
    node_fields = spot.node(way.type, spot.role.without_derivative(), described)
    return Uniform(**node_fields, lowered=lowered, read=read)


def refuse_writes(spot: Spot, described: str) -> None:
    """CallError if an immutable value would receive an output."""
    if spot.role.writes:
        message = f"argument '{spot.label}': {described} cannot receive what the function writes"
        raise CallError("E1011", message, (), "pass ValueRef(value), or a Tensor or NumPy array to fill")
