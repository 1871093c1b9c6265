"""Containers that are bound as a whole to the tensor types of slang-torch, whose rank is a value of the run.

TensorView<float>,     Tensor (4, 3)                 ->  { address, rank 2, sizes, strides }, no call dimensions
TensorView<float3>,    Tensor (4, 3) of float        ->  rank 1: the last dimension is consumed
DiffTensorView<float>, Tensor (4,) with a gradient   ->  primal, diff; in forward calls diff may lack
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slangrad.check.model.types import ScalarType, StructType, Type
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.containers.memory import GIVEN, PRIMAL_PART, TAKEN, Access, Contents
from slangrad.marshal.containers.whole import VIEW_TYPES, Family, WholeTensor
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, StridedMemory
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.protocol.patterns import consumed, from_elements
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT, Role

VIEW = "view"
PLAIN, DIFFERENTIATED = VIEW_TYPES
ADDED = "__AtomicAdd"
MOST_DIMENSIONS = 5


@dataclass(slots=True, frozen=True)
class ViewFamily(Family):
    """A view, which has room for the sizes and strides of all dimensions that there may be, and its rank."""

    def room(self, rank: int) -> int:
        return 2 + 2 * MOST_DIMENSIONS

    def scalars(self, memory: StridedMemory, rank: int) -> list[int]:
        address, *sizes_and_steps = super(ViewFamily, self).scalars(memory, rank)
        unused = [0] * (MOST_DIMENSIONS - rank)
        return [address, rank, *sizes_and_steps[:rank], *unused, *sizes_and_steps[rank:], *unused]


VIEWS = {
    PLAIN: ViewFamily((("", PRIMAL_PART),), Role(reads=True, writes=True)),
    DIFFERENTIATED: ViewFamily(
        (("primal.", PRIMAL_PART), ("diff.diff.", GIVEN)), Role(reads=True, writes=True)
    ),
}


def is_view(wanted: Type) -> bool:
    return standard_name(wanted) in VIEWS


def ways(contents: Contents, container_element: Type, wanted: Type, types: ProgramTypes) -> Iterable[Way]:
    """`own` is the type of the container's elements."""
    if not is_view(wanted) or not contents.writable:
        return
    assert isinstance(wanted, StructType)
    name = standard_name(wanted)
    for element in dict.fromkeys(from_elements(wanted.inner, container_element)):
        sizes = consumed(element, container_element)
        assert sizes is not None, (element, container_element)
        if 0 <= contents.rank - len(sizes) <= MOST_DIMENSIONS:
            view_type = _type(name, element, wanted, types)
            if view_type is not None:
                yield Way(view_type, 0, VIEW)


def _type(name: str, element: Type, wanted: StructType, types: ProgramTypes) -> Type | None:
    """With gradients, these have the elements' own type."""
    if name == PLAIN:
        return types.standard(PLAIN, (element,))
    if not isinstance(element, ScalarType) or types.tangent(element) is not element:
        return None
    added = types.standard(ADDED, (element,))
    gradient = wanted.arguments[1]
    assert isinstance(gradient, Type)
    if gradient is not added and not (standard_name(gradient) == ADDED and gradient.abstract):
        return None
    return types.standard(DIFFERENTIATED, (element, added))


@dataclass(slots=True, eq=False, kw_only=True)
class ViewTensor(WholeTensor):
    """A tensor as a view; `own` is its rank. `empty`: no gradient is bound to the type's place for it."""

    empty: bool = False

    def before(self, classes: str) -> list[str]:
        return []

    def load(self) -> str:
        return self.name

    def _moving(self, memories: list[StridedMemory]) -> Footprint:
        return Footprint()

    def footprint(self, value: object) -> Footprint | None:
        footprint = super(ViewTensor, self).footprint(value)
        if footprint is not None and self.empty:
            footprint.fixed[self.name] += [0] * self.family.room(self.own)
        return footprint


def bind(way: Way, spot: Spot, contents: Contents, described: str, access: Access) -> BoundNode:
    assert isinstance(way.type, StructType)
    name = standard_name(way.type)
    own_element = None if contents.element is None else spot.types.lift(contents.element)
    assert own_element is not None
    trailing = consumed(way.type.inner, own_element)
    assert trailing is not None
    family, gradient = VIEWS[name], ""
    if name == DIFFERENTIATED:
        gradient = _gradient(spot, contents, described)
        fields = (("primal.", PRIMAL_PART), *([("diff.diff.", gradient)] if gradient else []))
        family = ViewFamily(fields, _role(spot.mode, gradient))
    return ViewTensor(
        **spot.node(way.type, family.role, described),
        access=access,
        family=family,
        own=contents.rank - len(trailing),
        trailing=trailing,
        empty=name == DIFFERENTIATED and not gradient,
    )


def _role(mode: str, gradient: str) -> Role:
    """The function may load and store, so derivatives come and go through one memory."""
    if not gradient or mode == PRIMAL:
        return Role(reads=True, writes=True)
    return Role(reads=True, writes=True, takes=gradient == TAKEN, gives="add" if gradient == GIVEN else "")


def _gradient(spot: Spot, contents: Contents, described: str) -> str:
    """Which of the gradients there are is bound; empty for none."""
    if spot.mode == HIGHER:
        message = f"argument '{spot.label}': hvp carries no derivatives through a parameter of type 'DiffTensorView'"
        raise CallError("E1007", message, (), "declare it ITensor")
    if contents.has_in and contents.has_out and not contents.shared:
        message = (
            f"argument '{spot.label}': a DiffTensorView has one gradient, and {described} two different ones"
        )
        raise CallError("E1007", message, (), f"{spot.label} = {spot.label}.with_grads()")
    if contents.has_out:
        return GIVEN
    if contents.has_in:
        return TAKEN
    if spot.mode in (BACKWARD, TANGENT):
        message = (
            f"argument '{spot.label}': {described} has no gradient, and a DiffTensorView requires one in "
        )
        raise CallError("E1007", f"{message}{spot.mode}", (), f"{spot.label} = {spot.label}.with_grads()")
    return ""
