"""Pointers to variables of a function, as far as derivatives are concerned.

    float* p = &x; *p = a;      x depends on a, and what is read through p on x

Which variables a pointer may lead to is known when all of the function was seen: every `Address` that it depends on.
Through pointers that may lead elsewhere no derivative passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slangrad.check.derivatives.flow import Flow, Node, Sources, reach
from slangrad.check.model import checked
from slangrad.check.model.types import Pointer
from slangrad.check.names.places import steps, value_type
from slangrad.syntax import ast


@dataclass(frozen=True, slots=True)
class Address:
    """That of a variable, or of a part of it."""

    variable: Node


@dataclass(frozen=True, slots=True)
class Behind:
    """What a pointer leads to."""

    pointer: Node


def pointer_of(place: Any) -> Any:
    """The pointer that leads to a place, if one does."""
    for part, form in steps(place):
        if isinstance(form, checked.Dereference):
            return form.pointer
        conversion = getattr(part, "conversion", None)
        if conversion is not None and conversion.kind == "dereference":
            return part
        if isinstance(form, checked.Element) and isinstance(value_type(form.base), Pointer):
            return form.base
    return None


def store_behind(flow: Flow, pointer: Sources, sources: Sources) -> None:
    for each in pointer:
        flow.add(Behind(each), sources)


def leads_to_variables(flow: Flow, pointer: Sources) -> bool:
    """Whether a pointer leads to variables of the function only."""
    found = reach(flow.into, pointer)
    known = all(isinstance(each, (Address, ast.Variable)) for each in found)
    return known and any(isinstance(each, Address) for each in found)


def addresses(flow: Flow) -> dict[Node, Sources]:
    """What addresses depend on: their variables. Also lets variables depend on what is stored through pointers."""
    for behind, sources in [item for item in flow.into.items() if isinstance(item[0], Behind)]:
        for each in reach(flow.into, {behind.pointer}):
            if isinstance(each, Address):
                flow.add(each.variable, sources)
    nodes = {each for item in flow.into.items() for each in (item[0], *item[1])}
    nodes |= {each for lost in flow.lost for each in lost.inputs}
    return {each: {each.variable} for each in nodes if isinstance(each, Address)}
