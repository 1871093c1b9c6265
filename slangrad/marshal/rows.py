"""Lists of dicts with tensors and buffers, one call for each: what a kernel needs of each element, as rows in memory.

    [{"x": t0, "k": 1}, {"x": t1, "k": 2}] to struct S { Tensor<float, 1> x; int k; }
        ->   S rows[2] = { { address, shape, strides of t0, 1 }, { ... of t1, 2 } }

In memory a tensor is its address, shape and strides, so a row is an S as the kernel loads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slangrad.ir import types as ir
from slangrad.ir.layout import layout_of
from slangrad.marshal.buffers import BufferLeaf
from slangrad.marshal.elements import make_elements
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Composite, Leaf, Marshal, Node, Spot, Way
from slangrad.marshal.memory import ARRAY_ACCESS
from slangrad.marshal.plain import field_names, memory_format, missing_field, scalars_of
from slangrad.marshal.uniform import Uniform, refuse_writes
from slangrad.marshal.whole import WholeTensor

IN_ROWS = (Uniform, WholeTensor, BufferLeaf)  # what is a few numbers that the host knows before the call


@dataclass(slots=True, frozen=True)
class Touched:
    """Memory from `low` up to `high` that the call of one element reads, or also writes."""

    label: str
    low: int
    high: int
    writes: bool


class Rows(np.ndarray[Any, Any]):
    """The rows of a call, and the memory that they lead to."""

    touched: tuple[Touched, ...] = ()


@dataclass(slots=True, frozen=True)
class Cell:
    """A leaf of an element, the keys to its value, and the place of its first scalar."""

    path: tuple[Any, ...]
    leaf: Leaf
    at: int

    def of(self, value: Any) -> Any:
        """Its value in that of the whole."""
        for step in self.path:
            value = value[step]
        return value


def bind_rows(way: Way, spot: Spot, children: Sequence[Marshal], described: str) -> Node:
    """A leaf whose memory is written anew for each call."""
    refuse_writes(spot, described)
    element = spot.types.lower(way.type)
    assert element is not None
    role = spot.role.without_derivative()
    rows = []
    for i, (child, part) in enumerate(zip(children, way.parts)):
        node = child.bind(part, spot.child(str(i), f"{spot.label}[{i}]", role))
        cells = tuple(cells_of(node, element))
        for cell in cells:
            _check(cell.leaf)
        rows.append(cells)
    leaf = make_elements(way, spot, role, described, ARRAY_ACCESS, ())
    leaf.prepare = RowPacker(element, tuple(rows))
    return leaf


def _check(leaf: Leaf) -> None:
    if not isinstance(leaf, IN_ROWS) or leaf.streams:
        message = (
            f"argument '{leaf.label}': {leaf.described} cannot stand in a list with one call for each element"
        )
        raise CallError("E1001", message, (), "tensors, buffers and plain values can")


def cells_of(node: Node, t: ir.Type, at: int = 0) -> Iterator[Cell]:
    """The leaves of a value of type `t`, whose scalars begin at `at`."""
    if isinstance(node, Leaf):
        yield Cell((), node, at)
        return
    assert isinstance(node, Composite)
    if not node.complete:
        given = {part.key for part in node.parts}
        raise missing_field(
            node.label, str(node.type), [each for each in field_names(t) if each not in given]
        )
    parts = list(ir.components(t))
    for part in node.parts:
        index = field_names(t).index(part.key) if isinstance(part.key, str) else part.key
        before = sum(scalar_count(each) for each in parts[:index])
        for cell in cells_of(part.node, parts[index], at + before):
            yield Cell((part.key, *cell.path), cell.leaf, cell.at)


def scalar_count(t: ir.Type) -> int:
    return sum(1 for _ in scalars_of(t))


@dataclass(slots=True, frozen=True)
class RowPacker:
    """Makes an array of the elements of a list."""

    element: ir.Type
    rows: tuple[tuple[Cell, ...], ...]

    def __call__(self, values: Any) -> Any:
        pack, size = memory_format(self.element), layout_of(self.element).size
        data = b"".join(pack.pack(*self._scalars(cells, value)) for cells, value in zip(self.rows, values))
        made = np.frombuffer(data, np.dtype((np.void, size)), count=len(self.rows)).view(Rows)
        made.touched = tuple(
            each for cells, value in zip(self.rows, values) for each in _touched(cells, value)
        )
        return made

    def _scalars(self, cells: tuple[Cell, ...], value: Any) -> list[Any]:
        scalars: list[Any] = [0] * scalar_count(self.element)
        for cell in cells:
            own = cell.of(value)
            if cell.leaf.measure(own) is None:
                message = (
                    f"argument '{cell.leaf.label}': {cell.leaf.described} cannot be used as it lies in memory"
                )
                raise CallError("E1005", message, (), "pass a contiguous copy")
            for fixed in cell.leaf.fixed_values(own, (), ()).values():
                scalars[cell.at : cell.at + len(fixed)] = fixed
            for put in cell.leaf.setters().values():
                put(scalars, cell.at, own, None)  # type: ignore[arg-type]
        return scalars


def _touched(cells: tuple[Cell, ...], element: Any) -> Iterator[Touched]:
    for cell in cells:
        leaf = cell.leaf
        if isinstance(leaf, BufferLeaf) and leaf.counted:
            address, size = leaf.reach(cell.of(element))
            yield Touched(leaf.label, address, address + size, leaf.written)
        elif isinstance(leaf, WholeTensor):
            for memory in leaf.access.memories(cell.of(element), leaf.family.parts):
                low, high = memory.span
                yield Touched(leaf.label, memory.address + low, memory.address + high, leaf.role.writes)
