"""Strided memory as a source or target of one element for each call.

In: the place and the strides of memory.   Out: kernel text around the element types of std/call.slang.

    x of (n,) floats, contiguous  ->  uniform ContiguousElements<float, 1> x       x.load(id)
    its gradient, added to        ->  uniform ContiguousElements<float, 1> x_grad  x_grad.addAlone(id, d)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.containers.memory import (
    GIVEN,
    PRIMAL_PART,
    TAKEN,
    Access,
    MemoryLeaf,
    Parts,
    as_tensor,
    doing,
    parts_of,
)
from slangrad.marshal.host.footprint import Footprint, Shape, Use
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import Finder, KernelParameter, StreamSpec
from slangrad.marshal.protocol.roles import TANGENT, Role
from slangrad.marshal.protocol.spelling import spell_on_page

ELEMENT_TYPES = {"c": "ContiguousElements", "s": "StridedElements", "r": "RepeatedElements"}


@dataclass(slots=True, eq=False, kw_only=True)
class ElementsLeaf(MemoryLeaf):
    """`parts` are the memories that the role touches."""

    has_elements: ClassVar[bool] = True

    parts: Parts
    tangent: Type | None = None

    def parameters(self, classes: str) -> list[KernelParameter]:
        return [
            KernelParameter(
                f"{ELEMENT_TYPES[letter]}<{spell_on_page(self._type_of(part))}, {self.rank}>",
                self.name + part,
            )
            for letter, part in zip(classes, self.parts)
        ]

    def _type_of(self, part: str) -> Type:
        return self.type if part == PRIMAL_PART or self.tangent is None else self.tangent

    def load(self) -> str:
        return f"{self.name}.load(id)"

    def store(self, value: str) -> str:
        return f"{self.name}.store(id, {value});"

    def take(self) -> str:
        return f"{self.name}{TAKEN}.load(id)"

    def give(self, value: str, alone: bool) -> str:
        word = "store" if self.role.gives == "store" else ("addAlone" if alone else "add")
        return f"{self.name}{GIVEN}.{word}(id, {value});"

    @property
    def seen_parts(self) -> Parts:
        return self.parts or (PRIMAL_PART,)  # untouched memories have sizes, too

    def instead(self, mode: str) -> str:
        tensor = as_tensor(self.label, self.described)
        return f"pass {tensor}.with_grads({'tangent' if mode == TANGENT else ''})"

    def footprint(self, value: object) -> Footprint | None:
        memories = self.access.memories(value, self.seen_parts)
        if memories is not None and self.trailing:
            memories = self.merged(memories)
        if memories is None:
            return None
        sizes, homes = memories[0].shape, [(type(value).__name__, memories[0].home)]
        if not self.parts:
            return Footprint(sizes, homes=homes)
        rows, stores = enumerate(zip(self.parts, memories)), self.role.gives == "store"
        uses = [
            Use(self.label, self.name + part, memory, **doing(self.role, part, stores), stream=i)
            for i, (part, memory) in rows
        ]
        return Footprint(sizes, [memory.strides for memory in memories], uses=uses, homes=homes)

    def finders(self) -> list[Finder]:
        return [(self.name + part, 0, self.access.address_of(part)) for part in self.parts]


def make_elements(
    way: Way, spot: Spot, role: Role, described: str, access: Access, trailing: Shape
) -> ElementsLeaf:
    """The leaf for memory whose elements are of the way's type."""
    parts = parts_of(role)
    tangent = spot.types.tangent(way.type) if role.differentiates else None
    sizes = {part: _size_of(way.type if part == PRIMAL_PART else tangent, spot) for part in parts}
    return ElementsLeaf(
        **spot.node(way.type, role, described, way.dims),
        access=access,
        parts=parts,
        trailing=trailing,
        tangent=tangent,
        streams=tuple(StreamSpec(spot.name + part, sizes[part], way.dims == 0) for part in parts),
    )


def _size_of(t: Type | None, spot: Spot) -> int:
    lowered: ir.Type | None = None if t is None else spot.types.lower(t)
    assert lowered is not None, t
    return layout_of(lowered).size
