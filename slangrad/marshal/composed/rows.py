"""Values that contain memory, as scalars for a kernel: elements of lists, and values outside of functions.

    [{"x": t0, "k": 1}, {"x": t1, "k": 2}] to struct S { Tensor<float, 1> x; int k; }
        ->   S rows[2] = { { address, shape, strides of t0, 1 }, { ... of t1, 2 } }

    set({"params": {"table": buffer, "weights": np.ones(3), "k": 2}})   ->   address and size, three floats, an int

In memory a tensor is its address, shape and strides, so a row is an S in the kernel's form. The kernel reads a
value outside of functions in the argument block, so all of it is written there, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.containers.buffers import BufferLeaf
from slangrad.marshal.containers.elements import ElementsLeaf, make_elements
from slangrad.marshal.containers.memory import ARRAY_ACCESS
from slangrad.marshal.containers.whole import WholeTensor
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import field_names, memory_format, missing_field
from slangrad.marshal.host.footprint import Footprint, Shape, Use, Values, span_of
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import (
    BoundNode,
    Composite,
    Find,
    Leaf,
    Scratch,
    Setter,
)
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.simple.plain import Uniform, refuse_writes
from slangrad.tensors.elements.conversion import HostValue

IN_ROWS = (Uniform, WholeTensor, BufferLeaf)  # values that are a few numbers on the host before the call


@dataclass(slots=True, frozen=True)
class Touched:
    """Memory from `low` up to `high` that the call of one element reads, or also writes."""

    label: str
    low: int
    high: int
    writes: bool
    is_host: bool = False  # memory of no device


class Rows(np.ndarray):
    """The rows of a call, and the memory that they lead to."""

    touched: tuple[Touched, ...] = ()


@dataclass(slots=True, frozen=True)
class RowCell:
    """A leaf of an element, the keys to its value, and the place of its first scalar."""

    path: tuple[str | int, ...]
    leaf: Leaf
    at: int

    def of(self, value: HostValue) -> HostValue:
        """Its value in that of the whole."""
        for step in self.path:
            value = value[step]
        return value


def bind_rows(way: Way, spot: Spot, children: Sequence[Marshal], described: str) -> BoundNode:
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


def cells_of(node: BoundNode, t: ir.Type, at: int = 0) -> Iterator[RowCell]:
    """The leaves of a value of type `t`, with its first scalar at `at`."""
    if isinstance(node, Leaf):
        yield RowCell((), node, at)
        return
    assert isinstance(node, Composite)
    if not node.complete:
        keys = {part.key for part in node.parts}
        raise missing_field(node.label, str(node.type), [name for name in field_names(t) if name not in keys])
    parts = list(ir.components(t))
    for part in node.parts:
        index = field_names(t).index(part.key) if isinstance(part.key, str) else part.key
        before = sum(ir.scalar_count(part_type) for part_type in parts[:index])
        for cell in cells_of(part.node, parts[index], at + before):
            yield RowCell((part.key, *cell.path), cell.leaf, cell.at)


@dataclass(slots=True, frozen=True)
class RowPacker:
    """Makes an array of the elements of a list."""

    element: ir.Type
    rows: tuple[tuple[RowCell, ...], ...]

    def __call__(self, values: HostValue) -> HostValue:
        pack, size = memory_format(self.element), layout_of(self.element).size
        packed: list[bytes] = []
        touched: list[Touched] = []
        for cells, value in zip(self.rows, values):
            scalars: list[object] = [0] * ir.scalar_count(self.element)
            uses, _ = _put_fixed(cells, value, scalars, "E1005", "argument")
            _put_own(cells, value, scalars, 0, None)  # type: ignore[arg-type]  # no cell of a row needs it
            packed.append(pack.pack(*scalars))
            for use in uses:
                address, shape, strides, item, home = use.memory
                low, high = span_of(item, shape, strides)
                touched.append(Touched(use.label, address + low, address + high, use.writes, home is None))
        array = np.frombuffer(b"".join(packed), np.dtype((np.void, size)), count=len(self.rows)).view(Rows)
        array.touched = tuple(touched)
        return array


def makes_rows(leaf: Leaf) -> bool:
    """Whether the leaf's value are `Rows`, which lead to other memory."""
    return isinstance(leaf.prepare, RowPacker)


def _put_fixed(
    cells: tuple[RowCell, ...], value: object, scalars: list[object], code: str, title: str
) -> tuple[list[Use], list[tuple[str, object]]]:
    """The scalars that depend on the layout alone; the memory behind them, and its place."""
    uses: list[Use] = []
    homes: list[tuple[str, object]] = []
    for cell in cells:
        footprint = cell.leaf.footprint(cell.of(value))
        if footprint is None:
            message = (
                f"{title} '{cell.leaf.label}': {cell.leaf.described} cannot be used as it lies in memory"
            )
            raise CallError(code, message, (), "pass a contiguous copy")
        for fixed in footprint.fixed.values():
            scalars[cell.at : cell.at + len(fixed)] = fixed
        uses += [replace(use, at=use.at + cell.at) for use in footprint.uses]
        homes += footprint.homes
    return uses, homes


def _put_own(
    cells: tuple[RowCell, ...], value: object, scalars: Values, place: int, scratch: Scratch
) -> None:
    """Those of this value."""
    for cell in cells:
        part = cell.of(value)
        for _, at, find in cell.leaf.finders():
            scalars[place + cell.at + at] = part if find is None else find(part)
        for put in cell.leaf.setters(()).values():
            put(scalars, place + cell.at, part, scratch)


@dataclass(slots=True, eq=False, kw_only=True)
class GlobalValue(Leaf):
    """A value of `count` scalars. `arrays` are parts whose numbers are copied in each call."""

    cells: tuple[RowCell, ...]
    arrays: tuple[RowCell, ...]
    count: int

    def layout_finder(self) -> Find:
        finders = [(cell, cell.leaf.layout_finder()) for cell in self.cells]
        needed = [(cell, find) for cell, find in finders if find is not None]
        return lambda value: tuple([find(cell.of(value)) for cell, find in needed])

    def hides(self, holds_addresses: Callable[[Type], bool]) -> bool:
        return True

    def footprint(self, value: object) -> Footprint:
        scalars: Values = [0] * self.count
        uses, homes = _put_fixed(self.cells, value, scalars, "E1013", "set:")
        named = [replace(use, name=self.name) for use in uses]
        return Footprint(fixed={self.name: scalars}, uses=named, homes=homes)

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        return {self.name: self._put}

    def _put(self, values: list[object], place: int, value: object, scratch: Scratch) -> None:
        _put_own(self.cells, value, values, place, scratch)
        for cell in self.arrays:
            numbers = _numbers(cell.leaf, cell.of(value))
            values[place + cell.at : place + cell.at + len(numbers)] = numbers


def _numbers(leaf: Leaf, value: HostValue) -> list[object]:
    """All numbers of an array or tensor whose sizes are those of the value's type."""
    if leaf.prepare is not None:
        value = leaf.prepare(value)
    leaf.footprint(value)
    array = value if isinstance(value, np.ndarray) else np.asarray(value.detach())
    numbers: list[object] = array.ravel().tolist()
    return numbers


def global_leaf(node: BoundNode, types: ProgramTypes) -> Leaf:
    """The leaf of a value outside of functions; CallError (E1013) for parts that cannot be set."""
    lowered = types.lower(node.type)
    if isinstance(node, (Uniform, BufferLeaf, WholeTensor)) or lowered is None:
        if isinstance(node, Leaf):
            return node
        raise CallError("E1013", f"set: '{node.label}' of type '{node.type}' has no place in memory")
    cells = tuple(cells_of(node, lowered))
    for cell in cells:
        if not isinstance(cell.leaf, (Uniform, BufferLeaf, WholeTensor, ElementsLeaf)):
            message = f"set: '{cell.leaf.label}': {cell.leaf.described} cannot be set"
            raise CallError("E1013", message, (), "numbers, vectors, arrays, tensors and buffers can")
    return GlobalValue(
        name=node.name,
        label=node.label,
        type=node.type,
        role=node.role,
        dims=0,
        described=node.described,
        cells=tuple(cell for cell in cells if not isinstance(cell.leaf, ElementsLeaf)),
        arrays=tuple(cell for cell in cells if isinstance(cell.leaf, ElementsLeaf)),
        count=ir.scalar_count(lowered),
    )
