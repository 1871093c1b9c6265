"""NumPy arrays and Tensors as arguments: the types as which a function can take their elements.

float3 parameter, (4, 3) of float   ->  float3, one call dimension: the last dimension is consumed
float parameter,  (4,) of double    ->  float, converted, if every value survives (NumPy arrays only)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slangrad.check.model.types import UINT64, EnumType, PointerType, Type
from slangrad.ir.data import types as ir
from slangrad.marshal.containers import buffers, tensor_views, whole
from slangrad.marshal.containers.elements import make_elements
from slangrad.marshal.containers.memory import Access, Contents
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.protocol.patterns import consumed, from_elements, with_sizes
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, TANGENT, Role
from slangrad.marshal.simple.enums import enum_inside
from slangrad.tensors.elements.element_types import slang_name

ELEMENTS, CONVERTED = "elements", "converted"


class ContainerMarshal(Marshal):
    """Elements of one type in some dimensions."""

    contents: Contents
    access: Access

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        element = self.element_for(wanted, types)
        if isinstance(element, EnumType):  # of two overloads the one that takes numbers
            yield from (
                replace(way, cost=way.cost + 2) for way in self._ways_of(element, wanted, types, mode)
            )
        elif element is not None:
            yield from self._ways_of(element, wanted, types, mode)

    def _ways_of(self, element: Type, wanted: Type, types: ProgramTypes, mode: str) -> Iterator[Way]:
        yield from whole.ways(self.contents, element, wanted, types, mode)
        yield from tensor_views.ways(self.contents, element, wanted, types)
        yield from buffers.ways(element, self.contents.writable, wanted)
        yield from self.as_elements(wanted, element, ELEMENTS)

    def holds(self, wanted: Type, types: ProgramTypes) -> Type | None:
        return self.element_for(wanted, types)

    def element_for(self, wanted: Type, types: ProgramTypes) -> Type | None:
        """The checked type of an element; the parameter's enum if it has the same form in memory."""
        enum = enum_inside(whole.element_of(wanted, types) or wanted)
        if enum is not None and types.lower(enum) is self.contents.element:
            return enum
        return None if self.contents.element is None else types.lift(self.contents.element)

    def as_elements(self, wanted: Type, element: Type, how: str) -> Iterable[Way]:
        if element is UINT64 and isinstance(wanted, PointerType) and not wanted.abstract:
            yield Way(wanted, self.contents.rank, how)
        counted = with_sizes(wanted, element, tuple(self.contents.sizes))
        for t in dict.fromkeys([*from_elements(wanted, element), *([] if counted is None else [counted])]):
            sizes = consumed(t, element)
            assert sizes is not None, (t, element)
            if len(sizes) <= self.contents.rank:
                yield Way(t, self.contents.rank - len(sizes), how, int(how == CONVERTED))

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        is_view = tensor_views.is_view(wanted)
        if not self.contents.writable and (is_view or whole.needs_write_access(wanted, types)):
            return f"Can't pass a read-only {self.described} to a writable parameter '{wanted}'"
        element = self.element_for(wanted, types)
        if element is None:
            return f"the element type of {self.described} is not known in this module{self._changed(types)}"
        if is_view and self.contents.rank > tensor_views.MOST_DIMENSIONS:
            return f"{self.described}: '{wanted}' takes at most {tensor_views.MOST_DIMENSIONS}"
        target = whole.element_of(wanted, types)
        fits = any(True for _ in from_elements(wanted if target is None else target, element))
        if target is not None and target is not element and not target.abstract and not fits:
            return f"Can't convert tensor with element type {element} to tensor with element type {target} ({wanted})"
        if fits:
            return f"Could not resolve dimensionality: {self.described} has too few for '{wanted}'"
        return super().reason(wanted, types)

    def _changed(self, types: ProgramTypes) -> str:
        """A note about a struct whose text has changed."""
        t = self.contents.element
        current = types.find(t.name) if isinstance(t, ir.Struct) else None
        now = None if current is None else types.lower(current)
        if not isinstance(t, ir.Struct) or not isinstance(now, ir.Struct) or now == t:
            return ""
        return f": its '{t.name}' is {_fields(t)}, and the module's is {_fields(now)}; make the tensor anew"

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if way.how == whole.WHOLE:
            return whole.bind(way, spot, self.contents, self.described, self.access)
        if way.how == tensor_views.VIEW:
            return tensor_views.bind(way, spot, self.contents, self.described, self.access)
        if way.how == buffers.BUFFER:
            element = None if self.contents.element is None else spot.types.lift(self.contents.element)
            return buffers.bind(way, spot, self.described, element)
        if spot.role.writes and not self.contents.writable:
            message = (
                f"argument '{spot.label}': Can't pass a read-only {self.described} to a writable parameter"
            )
            raise CallError(
                "E1011",
                message,
                (),
                "a tensor needs BufferUsage.unordered_access, an array flags.writeable: pass a copy",
            )
        return self.bind_elements(way, spot)

    def bind_elements(self, way: Way, spot: Spot) -> BoundNode:
        """The leaf of a value whose elements go to the calls."""
        role = role_with(self.contents, spot, self.described)
        element = self.element_for(way.type, spot.types)
        trailing = None if element is None else consumed(way.type, element)
        return make_elements(way, spot, role, self.described, self.access, trailing or ())


def role_with(contents: Contents, spot: Spot, described: str) -> Role:
    """The role limited to existing gradients: an input without any is constant, an output must have them."""
    role = spot.role
    if not role.differentiates:
        return role
    if not contents.has_in and not contents.has_out and _is_input(role, spot):
        return role.without_derivative()
    if spot.mode == TANGENT and not role.gives and not contents.has_in:
        return role.without_derivative()
    if role.takes and not contents.has_in:
        raise missing_gradient(spot, described, "input")
    if role.gives and not contents.has_out:
        raise missing_gradient(spot, described, "output")
    if role.takes and role.gives and contents.shared and spot.mode != TANGENT:
        raise whole.shared_gradient(spot)
    return role


def _is_input(role: Role, spot: Spot) -> bool:
    """Whether a value without gradients is a constant here."""
    if spot.mode == HIGHER:
        return role.reads
    return (spot.mode == BACKWARD and not role.takes) or (spot.mode == TANGENT and not role.gives)


def missing_gradient(spot: Spot, described: str, which: str) -> CallError:
    message = (
        f"argument '{spot.label}': {described} has no {which} gradient, and {spot.mode} requires "
        f"a tensor with an associated {which} gradient here"
    )
    return CallError("E1007", message, (), f"attach one: {spot.label} = {spot.label}.with_grads()")


def _fields(t: ir.Struct) -> str:
    return "{ " + " ".join(f"{slang_name(field_type)} {name};" for name, field_type in t.fields) + " }"
