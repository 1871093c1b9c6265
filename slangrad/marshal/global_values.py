"""Values outside of functions with memory in them: what `set` and `write` say about structs and arrays of buffers.

    set({"params": {"table": buffer, "weights": np.ones(3), "k": 2}})   ->   address and size, three floats, an int

The kernel reads such a value as it lies in the argument block, so all of it is put there, part by part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slangrad.marshal.buffers import BufferLeaf
from slangrad.marshal.elements import Elements
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Leaf, Measure, Node, Parameter, ProgramTypes, Setter, Shape
from slangrad.marshal.rows import Cell, cells_of, scalar_count
from slangrad.marshal.spelling import spell_on_page
from slangrad.marshal.uniform import Uniform
from slangrad.marshal.whole import WholeTensor


@dataclass(slots=True, eq=False, kw_only=True)
class GlobalValue(Leaf):
    """A value of `count` scalars. `arrays` are parts whose numbers are copied in each call."""

    has_layout: ClassVar[bool] = True

    cells: tuple[Cell, ...]
    arrays: tuple[Cell, ...]
    count: int

    def parameters(self, classes: str) -> list[Parameter]:
        return [Parameter(spell_on_page(self.type), self.name)]

    def load(self) -> str:
        return self.name

    def memory(self, value: Any) -> Iterable[Any]:
        return [cell.of(value) for cell in self.cells]

    def layout(self, value: Any) -> Hashable:
        return tuple([cell.leaf.layout(cell.of(value)) for cell in self.cells])

    def measure(self, value: Any) -> Measure | None:
        for cell in self.cells:
            if cell.leaf.measure(cell.of(value)) is None:
                message = (
                    f"set: '{cell.leaf.label}': {cell.leaf.described} cannot be used as it lies in memory"
                )
                raise CallError("E1013", message, (), "pass a contiguous copy")
        return Measure((), [])

    def fixed_values(
        self, value: Any, starts: Sequence[int], strides: Sequence[Shape]
    ) -> dict[str, list[Any]]:
        scalars: list[Any] = [0] * self.count
        for cell in self.cells:
            for fixed in cell.leaf.fixed_values(cell.of(value), (), ()).values():
                scalars[cell.at : cell.at + len(fixed)] = fixed
        return {self.name: scalars}

    def setters(self) -> dict[str, Setter]:
        return {self.name: self._put}

    def _put(self, values: list[Any], place: int, value: Any, scratch: Any) -> None:
        for cell in self.cells:
            for put in cell.leaf.setters().values():
                put(values, place + cell.at, cell.of(value), scratch)
        for cell in self.arrays:
            numbers = _numbers(cell.leaf, cell.of(value))
            values[place + cell.at : place + cell.at + len(numbers)] = numbers


def _numbers(leaf: Leaf, value: Any) -> list[Any]:
    """All numbers of an array or tensor whose sizes are those of the value's type."""
    if leaf.prepare is not None:
        value = leaf.prepare(value)
    leaf.measure(value)
    array = value if isinstance(value, np.ndarray) else np.asarray(value.detach())
    found: list[Any] = array.ravel().tolist()
    return found


def global_leaf(node: Node, types: ProgramTypes) -> Leaf:
    """The leaf of a value outside of functions; CallError for parts that are none (E1013)."""
    lowered = types.lower(node.type)
    if isinstance(node, (Uniform, BufferLeaf, WholeTensor)) or lowered is None:
        if isinstance(node, Leaf):
            return node
        raise CallError("E1013", f"set: '{node.label}' of type '{node.type}' has no place in memory")
    cells = tuple(cells_of(node, lowered))
    for cell in cells:
        if not isinstance(cell.leaf, (Uniform, BufferLeaf, WholeTensor, Elements)):
            message = f"set: '{cell.leaf.label}': {cell.leaf.described} cannot be set"
            raise CallError("E1013", message, (), "numbers, vectors, arrays, tensors and buffers can")
    return GlobalValue(
        name=node.name,
        label=node.label,
        type=node.type,
        role=node.role,
        dims=0,
        described=node.described,
        cells=tuple(cell for cell in cells if not isinstance(cell.leaf, Elements)),
        arrays=tuple(cell for cell in cells if isinstance(cell.leaf, Elements)),
        count=scalar_count(lowered),
    )
