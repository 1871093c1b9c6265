"""Strided memory as a source or target of one element for each call.

In: where memory lies and how it moves.   Out: kernel text around the element types of std/call.slang.

    x of (n,) floats, contiguous  ->  uniform ContiguousElements<float, 1> x       x.load(id)
    its gradient, added to        ->  uniform ContiguousElements<float, 1> x_grad  x_grad.addAlone(id, d)
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.containers.memory import (
    GIVEN,
    PRIMAL_PART,
    TAKEN,
    TENSOR_ACCESS,
    Access,
    Parts,
    doing,
    parts_of,
)
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, Memory, Shape, Use
from slangrad.marshal.protocol.marshal import (
    TANGENT,
    ElementLeaf,
    Find,
    Finder,
    Parameter,
    Role,
    Spot,
    StreamSpec,
    Way,
)
from slangrad.marshal.protocol.spelling import spell_on_page

ELEMENT_TYPES = {"c": "ContiguousElements", "s": "StridedElements", "r": "RepeatedElements"}


@dataclass(slots=True, eq=False, kw_only=True)
class Elements(ElementLeaf):
    """`parts` are the memories that the role touches. `trailing` sizes of the value make one element."""

    access: Access
    parts: Parts
    trailing: Shape = ()
    tangent: Type | None = None

    def parameters(self, classes: str) -> list[Parameter]:
        return [
            Parameter(
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
    def is_tensor(self) -> bool:
        return self.access is TENSOR_ACCESS

    @property
    def _seen(self) -> Parts:
        return self.parts or (PRIMAL_PART,)  # what is not touched has sizes, too

    def layout_finder(self) -> Find:
        return self.access.layout_finder(self._seen)

    def instead(self, mode: str) -> str:
        label = self.label
        given = label if self.described.startswith("Tensor") else f"Tensor.from_numpy(device, {label})"
        return f"pass {given}.with_grads({'tangent' if mode == TANGENT else ''})"

    def footprint(self, value: object) -> Footprint | None:
        found = self.access.memories(value, self._seen)
        if found is None:
            return None
        leading = len(found[0].shape) - len(self.trailing)
        for memory in found:
            if memory.shape[leading:] != self.trailing:
                raise self._wrong_sizes(memory.shape, leading)
        if self.trailing and not all(_gapless(memory, leading) for memory in found):
            return None
        sizes, homes = found[0].shape[:leading], [(type(value).__name__, found[0].home)]
        if not self.parts:
            return Footprint(sizes, homes=homes)
        rows, stores = enumerate(zip(self.parts, found)), self.role.gives == "store"
        uses = [
            Use(self.label, self.name + part, memory, **doing(self.role, part, stores), stream=i)
            for i, (part, memory) in rows
        ]
        strides = [memory.strides[:leading] for memory in found]
        return Footprint(sizes, strides, uses=uses, homes=homes)

    def _wrong_sizes(self, shape: Shape, leading: int) -> CallError:
        message = (
            f"argument '{self.label}': in shape {shape} the end, {shape[leading:]}, does not match the expected "
            f"shape {self.trailing} of '{self.type}'"
        )
        return CallError("E1005", message)

    def finders(self) -> list[Finder]:
        return [(self.name + part, 0, self.access.address_of(part)) for part in self.parts]

    def copy(self, value: object) -> object:
        return self.access.copy(value, self.role)

    def copy_back(self, copied: object, value: object) -> None:
        self.access.copy_back(copied, value, self.role)


def _gapless(memory: Memory, leading: int) -> bool:
    if 0 in memory.shape:
        return True
    expected = memory.item_size
    for size, stride in zip(reversed(memory.shape[leading:]), reversed(memory.strides[leading:])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def make_elements(
    way: Way, spot: Spot, role: Role, described: str, access: Access, trailing: Shape
) -> Elements:
    """The leaf for memory whose elements are of the way's type."""
    parts = parts_of(role)
    tangent = spot.types.tangent(way.type) if role.differentiates else None
    sizes = {part: _size_of(way.type if part == PRIMAL_PART else tangent, spot) for part in parts}
    return Elements(
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
