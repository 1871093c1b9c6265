"""Resources where functions take their handles.

DescriptorHandle<Texture2D<float>> t,   a Texture   ->   the 8 bytes of its handle

A DescriptorHandle itself is an object with `get_this()`.
"""

from __future__ import annotations

from slangrad.check.model.types import StructType
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.simple.plain import bind_plain
from slangrad.tensors.descriptors import handle_of
from slangrad.tensors.elements.conversion import HostValue


def bind(way: Way, spot: Spot, described: str) -> BoundNode:
    assert isinstance(way.type, StructType)
    resource, label = standard_name(way.type.inner), spot.label

    def read(value: HostValue) -> HostValue:
        return checked_handle(value, resource, label).get_this()

    return bind_plain(way, spot, described, read)


def checked_handle(value: HostValue, resource: str, label: str) -> HostValue:
    """The handle of a value; CallError (E1019) where it has none for such a resource."""
    try:
        return handle_of(value, resource)
    except ValueError as error:
        raise CallError("E1019", f"argument '{label}': {error}") from None
