"""Which bytes each argument of a call touches, and whether its calls share elements.

In: leaves, strides along the call and along the loops.   Out: Regions for overlap.py; which gradients are
added to by one call an element each (no atomic sum needed); an error for outputs that calls would race for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from slangrad.call.geometry import Loops, Shape, injective
from slangrad.call.overlap import Region, lattice_of
from slangrad.marshal.buffers import BufferLeaf
from slangrad.marshal.cells import Cell
from slangrad.marshal.elements import Elements
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Leaf, Measure
from slangrad.marshal.memory import GIVEN, PRIMAL_PART, TAKEN, Memory
from slangrad.marshal.rows import GlobalValue
from slangrad.marshal.whole import WholeTensor


def refuse_races(leaves: Sequence[Leaf], shape: Shape, measures: Sequence[Measure]) -> None:
    """An `inout` value that several calls share would be read and written at the same time."""
    for leaf, measure in zip(leaves, measures):
        if not (leaf.role.reads and leaf.role.writes):
            continue
        if isinstance(leaf, Elements):
            alone = injective(shape, tuple(measure.strides[0]), leaf.streams[0].unit)
        else:
            alone = not isinstance(leaf, Cell) or prod(shape) <= 1
        if not alone:
            message = f"argument '{leaf.label}': {prod(shape)} calls would read and write the same memory"
            note = "give each call an element of its own, or sum up with atomics on a tensor parameter"
            raise CallError("E1008", message, (), note)


def added_alone(leaves: Sequence[Leaf], shape: Shape, measures: Sequence[Measure]) -> frozenset[str]:
    """Names of the leaves whose gradient elements belong to one call each."""
    if prod(shape) <= 1:
        return frozenset()
    adding = [
        (leaf, measure.strides[-1])
        for leaf, measure in zip(leaves, measures)
        if isinstance(leaf, Elements) and leaf.role.gives == "add"
    ]
    return frozenset(
        leaf.name for leaf, strides in adding if injective(shape, tuple(strides), leaf.streams[-1].unit)
    )


def regions_of(
    leaves: Sequence[Leaf], loops: Loops, values: Sequence[Any], places: dict[str, slice]
) -> list[Region]:
    """The regions of all arguments that lie in the caller's memory."""
    regions: list[Region] = []
    at = 0
    for leaf, value in zip(leaves, values):
        strides = loops.strides[at : at + len(leaf.streams)]
        at += len(leaf.streams)
        if isinstance(leaf, Elements) and value is not None:
            regions += _of_elements(leaf, value, strides, places, loops)
        elif isinstance(leaf, (WholeTensor, BufferLeaf)) and leaf.name in places:
            regions += _of_memory(leaf, value, places[leaf.name].start)
        elif isinstance(leaf, GlobalValue) and leaf.name in places:
            start = places[leaf.name].start
            for cell in leaf.cells:
                regions += _of_memory(cell.leaf, cell.of(value), start + cell.at)
    return regions


def _of_memory(leaf: Leaf, value: Any, start: int) -> list[Region]:
    """Of what a function gets whole; `start` is the place of its first scalar."""
    if isinstance(leaf, WholeTensor):
        return _of_whole(leaf, value, start)
    return [_of_buffer(leaf, value, start)] if isinstance(leaf, BufferLeaf) and leaf.counted else []


def _of_buffer(leaf: BufferLeaf, value: Any, place: int) -> Region:
    """All of a structured buffer. What a pointer leads to is the function's own business."""
    size = leaf.reach(value)[1]
    return Region(leaf.label, place, 0, size, reads=True, writes=leaf.written, adds=False)


def _of_elements(
    leaf: Elements,
    value: Any,
    strides: Sequence[Shape],
    places: dict[str, slice],
    loops: Loops,
) -> list[Region]:
    memories = leaf.access.memories(value, leaf.parts)
    made = []
    for part, memory, own, stream in zip(leaf.parts, memories, strides, leaf.streams):
        if leaf.name + part in places:
            region = _region(leaf, part, memory, places[leaf.name + part].start, leaf.role.gives == "store")
            region.strides, region.injective = own, injective(loops.extents, own, stream.unit)
            made.append(region)
    return made


def _of_whole(leaf: WholeTensor, value: Any, start: int) -> list[Region]:
    parts = leaf.family.parts
    rows = enumerate(zip(parts, leaf.access.memories(value, parts)))
    return [_region(leaf, part, memory, start + i * leaf.room) for i, (part, memory) in rows]


def _region(leaf: Leaf, part: str, memory: Memory, place: int, stores: bool = False) -> Region:
    """The memory of one part. `stores`: derivatives that go out are not added to what is there."""
    low, high = memory.span
    primal = part == PRIMAL_PART
    return Region(
        label=leaf.label,
        place=place,
        low=low,
        high=high,
        reads=part == TAKEN or (primal and leaf.role.reads),
        writes=(primal and leaf.role.writes) or (part == GIVEN and stores),
        adds=part == GIVEN and not stores,
        takes=part == TAKEN,
        lattice=lattice_of(memory.item_size, memory.shape, memory.strides),
    )
