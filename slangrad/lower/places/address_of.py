"""The address of a place: `&x`, `&a.b[i]`.

&p[3].x    ->   bitcast (member (offset %p, 3), 0)        &(a + b)   ->   error: it is not stored
"""

from __future__ import annotations

from slangrad.base.source import Span
from slangrad.ir.data.types import Type
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import Component, Swizzle
from slangrad.lower.places.statics import Static


def address_of(f: Frame, place: Place, t: Type, span: Span | None) -> Value:
    """The address of a place as a pointer of a type; memory of a group has addresses like any other."""
    memory = place.address(f)
    if memory is None:
        code, what, note = _without_address(place)
        f.error(code, f"{what} no address", span, note)
        return f.b.zero(t)
    return f.emit("bitcast", memory.pointer, type=t)


def _without_address(place: Place) -> tuple[str, str, str]:
    if isinstance(_whole_of(place), Static):
        return "E9010", "a static variable has", "pass it as an inout parameter instead"
    if isinstance(place, Swizzle):
        return "E0705", "several components have", "take the address of one of them, or of the whole"
    return "E0705", "a value that is not stored has", "store it in a variable first"


def _whole_of(place: Place) -> Place:
    """The variable that a place is a part of."""
    while isinstance(place, (Component, Swizzle)):
        place = place.parent
    return place
