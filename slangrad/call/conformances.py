"""Types that values of an interface type can have, by their names.

In: ("IShape", "Scaled<10>", 7), seen from a module.   Out: a Conformance, or an error that says which name is wrong.
"""

from __future__ import annotations

from slangrad.call.program import ModuleTypes
from slangrad.call.request import Named
from slangrad.check.conforming import Conformance
from slangrad.check.model.types import InterfaceType
from slangrad.marshal.errors import CallError
from slangrad.marshal.spelling import spell


def conformance_of(types: ModuleTypes, named: Named) -> Conformance:
    interface_name, type_name, number = named
    interface, kind = types.find(interface_name), types.find(type_name)
    if not isinstance(interface, InterfaceType):
        raise CallError("E1020", f'Interface type "{interface_name}" not found')
    if kind is None:
        raise CallError("E1020", f'Type "{type_name}" not found')
    if not types.view.conforms(kind, interface):
        raise CallError("E1020", f"type conformance: '{kind}' does not conform to '{interface}'")
    return Conformance(interface, kind, number)


def conformance_text(given: Conformance) -> str:
    """How the text of a kernel tells of it."""
    number = f", with the id {given.id}" if given.id >= 0 else ""
    return f"{spell(given.interface)} may be {spell(given.type)}{number}"
