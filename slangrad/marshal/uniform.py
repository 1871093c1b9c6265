"""Plain values that are the same in all calls: uniform parameters of the kernel.

f(2, x) with float a  ->  uniform float a, packed as 2.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slangrad.ir import types as ir
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Leaf, Parameter, Setter, Spot, Way
from slangrad.marshal.plain import flatten
from slangrad.marshal.spelling import spell_on_page


@dataclass(slots=True, eq=False, kw_only=True)
class Uniform(Leaf):
    """A plain value, packed with the arguments. `read` finds it in what was given."""

    lowered: ir.Type
    read: Callable[[Any], Any] | None = None

    def parameters(self, classes: str) -> list[Parameter]:
        return [Parameter(spell_on_page(self.type), self.name)]

    def load(self) -> str:
        return self.name

    def setters(self) -> dict[str, Setter]:
        return {self.name: plain_setter(self.lowered, self.read, self.label)}


def plain_setter(t: ir.Type, read: Callable[[Any], Any] | None, label: str) -> Setter:
    """What puts the scalars of a plain value at their place."""
    if isinstance(t, (ir.Scalar, ir.Pointer)) and read is None:
        return _put_scalar

    def put(values: list[Any], place: int, value: Any, scratch: Any) -> None:
        scalars = flatten(t, value if read is None else read(value), label)
        values[place : place + len(scalars)] = scalars

    return put


def _put_scalar(values: list[Any], place: int, value: Any, scratch: Any) -> None:
    values[place] = value


def bind_plain(way: Way, spot: Spot, described: str, read: Callable[[Any], Any] | None = None) -> Uniform:
    """A plain value as a uniform parameter; it cannot be written, and carries no derivative."""
    refuse_writes(spot, described)
    lowered = spot.types.lower(way.type)
    assert lowered is not None, f"{way.type} has no place in memory"
    own = spot.node(way.type, spot.role.without_derivative(), described)
    return Uniform(**own, lowered=lowered, read=read)


def refuse_writes(spot: Spot, described: str) -> None:
    """CallError where a value that cannot change is to receive one."""
    if spot.role.writes:
        message = f"argument '{spot.label}': {described} cannot receive what the function writes"
        raise CallError("E1011", message, (), "pass ValueRef(value), or a Tensor or NumPy array to fill")
