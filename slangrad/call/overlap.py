"""Memory of one call: which bytes each argument touches, whether calls share elements, and what overlaps.

In: leaves, strides along the call and along the loops.   Out: the regions that arguments touch; which gradients are
added to by one call an element each (no atomic sum needed); regions to copy first, or an error.

    f(x, _result=x)          the same elements by the same threads: fine
    f(x[:-1], _result=x[1:])  x is copied first, so the call reads what was there before
    f(a, out=x, _result=x)   two outputs: refused (E1008)
    f.bwds(x, _result=x')    x' over the memory of x: the call has overwritten what its derivative needs (E1008)
    f(x[:, 0], _result=x[:, 1])   interleaved, but no element in common: fine
    f([{"t": x}], _result=x)  what elements of a list lead to is not copied: refused (E1008)

What is only read and overlaps what is written is copied first, as if all inputs were read before any output
is written. Parameters that are whole tensors or structured buffers may overlap each other in what they write, as in
the language itself. What a pointer leads to is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from slangrad.call.geometry import Loops, Shape, injective
from slangrad.marshal.buffers import BufferLeaf
from slangrad.marshal.elements import Elements
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Leaf, Measure
from slangrad.marshal.memory import GIVEN, PRIMAL_PART, TAKEN, TENSOR_ACCESS, Memory
from slangrad.marshal.rows import GlobalValue, Touched
from slangrad.marshal.values import Cell
from slangrad.marshal.whole import WholeTensor
from slangrad.tensors.tensor import Tensor

MOST_WORK = 100_000

# Where a region's bytes are: how far from the address the first run starts, the bytes of a run, and what the distances
# between runs are multiples of (0: there is one run).
Lattice = tuple[int, int, int]


@dataclass(slots=True)
class Region:
    """Bytes `low` to `high` from the address in `values[place]`. `takes`: a derivative is read there; `adds`:
    one is accumulated.

    `strides` are along the loops of the launch, None where the function itself says what it touches;
    `injective`: no two calls share an element.
    """

    label: str
    place: int
    low: int
    high: int
    reads: bool
    writes: bool
    adds: bool
    strides: Shape | None = None
    injective: bool = False
    takes: bool = False
    lattice: Lattice = (0, 0, 0)

    @property
    def changes(self) -> bool:
        return self.writes or self.adds


def pairs_of(regions: Sequence[Region]) -> list[tuple[Region, Region]]:
    """The pairs worth looking at in every call."""
    return [
        (first, second)
        for i, first in enumerate(regions)
        for second in regions[i + 1 :]
        if (first.changes or second.changes) and not (_free(first, second))
    ]


def _free(first: Region, second: Region) -> bool:
    """Whole tensors that are written are the function's own business."""
    return first.strides is None and second.strides is None and first.writes and second.writes


@dataclass(slots=True)
class Conflicts:
    """What to do about overlaps: regions to copy first; whether gradients share elements."""

    copies: list[Region]
    shared: bool


@dataclass(slots=True)
class Overwritten:
    """An input that reverse mode reads, and an output that the call has written: numbers of leaves with their names."""

    read: int
    written: int
    labels: tuple[str, str]


def overwritten_of(leaves: Sequence[Any]) -> list[Overwritten]:
    """The pairs to look at in a reverse mode; none in others."""
    if all(leaf.role.gives != "add" for leaf in leaves):
        return []
    tensors = [(i, leaf) for i, leaf in enumerate(leaves) if getattr(leaf, "access", None) is TENSOR_ACCESS]
    return [
        Overwritten(i, j, (first.label, second.label))
        for i, first in tensors
        for j, second in tensors
        if first.role.reads and (second.role.takes or second.role.writes) and not second.role.reads
    ]


def refuse_overwritten(pairs: Sequence[Overwritten], values: Sequence[Any]) -> None:
    """CallError where the memory of an input is that of an output."""
    for each in pairs:
        x, y = values[each.read], values[each.written]
        if x.storage.address >= y.storage.address + y.storage.size:
            continue
        if y.storage.address < x.storage.address + x.storage.size and share(x.host_view(), y.host_view()):
            first, second = each.labels
            message = (
                f"'{first}' and '{second}' overlap in memory: the call has written '{second}', so the values "
            )
            message += f"of '{first}' that its derivative needs are gone"
            raise CallError("E1008", message, (), f"give '{second}' memory of its own")


def share(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether an element of one is one of the other; yes where that is hard to say."""
    try:
        most: Any = MOST_WORK
        return np.shares_memory(x, y, most)
    except np.exceptions.TooHardError:
        return True


def refuse_shared_outputs(leaves: Sequence[Any], values: Sequence[Any], copied: Sequence[int]) -> None:
    """CallError where copies of two outputs would be brought back to the same memory, or one over another output."""
    written = [i for i, leaf in enumerate(leaves) if leaf.role.writes]
    arrays = {i: _array_of(values[i]) for i in written}
    for n, i in enumerate(written):
        for j in written[n + 1 :]:
            first, second = arrays[i], arrays[j]
            if first is None or second is None or not (i in copied or j in copied):
                continue
            if share(first, second):
                raise both_changed(leaves[i].label, leaves[j].label)


def _array_of(value: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(value, Tensor):
        return value.host_view()
    return value if isinstance(value, np.ndarray) else None


def both_changed(first: str, second: str) -> CallError:
    message = f"'{first}' and '{second}' overlap in memory, and the call changes both"
    return CallError("E1008", message, (), "give each its own memory, for example a copy")


def find_conflicts(pairs: Sequence[tuple[Region, Region]], values: list[Any]) -> Conflicts | None:
    """None, nearly always: nothing overlaps, or each element is read and written by one thread alone."""
    found = Conflicts([], False)
    for first, second in pairs:
        start, other = values[first.place], values[second.place]
        if start + first.low >= other + second.high or other + second.low >= start + first.high:
            continue
        if _interleaved(first.lattice, second.lattice, other - start):
            continue
        _resolve(first, second, start == other and _same_elements(first, second), found)
    return found if found.copies or found.shared else None


def refuse_touched(touched: Sequence[Touched], regions: Sequence[Region], values: Sequence[Any]) -> None:
    """CallError where elements of a list lead to memory that the call changes."""
    for i, each in enumerate(touched):
        for region in regions:
            if (region.changes or each.writes) and not (
                region.strides is None and region.writes and each.writes
            ):
                start = values[region.place]
                if each.low < start + region.high and start + region.low < each.high:
                    raise _changed(region.label, each.label, region.changes)
        for other in touched[:i]:
            if each.writes != other.writes and each.low < other.high and other.low < each.high:
                raise _changed(each.label, other.label, each.writes)


def _changed(first: str, second: str, first_changes: bool) -> CallError:
    changes = first if first_changes else second
    message = f"'{first}' and '{second}' overlap in memory, and the call changes '{changes}'"
    return CallError("E1008", message, (), "give each its own memory, for example a copy")


def lattice_of(item: int, shape: Shape, strides: Shape) -> Lattice:
    """Of items of so many bytes; dimensions without gaps make the runs longer."""
    origin, run, rest = 0, item, 0
    for stride, size in sorted(zip(strides, shape), key=lambda dim: abs(dim[0])):
        if size <= 1:
            continue
        if abs(stride) == run and rest == 0:
            run *= size
            origin += min((size - 1) * stride, 0)
        else:
            rest = gcd(rest, stride)
    return origin, run, rest


def _interleaved(first: Lattice, second: Lattice, distance: int) -> bool:
    """Whether the runs of one surely lie between those of the other; `distance` is between the addresses."""
    step = gcd(first[2], second[2])
    if step == 0 or not first[1] or not second[1]:
        return False
    between = (distance + second[0] - first[0]) % step
    return between >= first[1] and between + second[1] <= step


def _same_elements(first: Region, second: Region) -> bool:
    """Whether each call touches the same element through both, and no other call does."""
    same = first.strides is not None and first.strides == second.strides
    return same and first.injective and first.high == second.high and first.low == second.low


def _resolve(first: Region, second: Region, same: bool, found: Conflicts) -> None:
    if (first.adds and second.takes) or (first.takes and second.adds):
        message = (
            f"the gradients of '{first.label}' and '{second.label}' overlap: one is read where the other is "
            "added to, so they need separate buffers for inputs and outputs (see Tensor.with_grads)"
        )
        raise CallError("E1007", message, (), "tensor.with_grads(grad_in=..., grad_out=...)")
    if first.adds and second.adds:
        found.shared = found.shared or not same
        return
    if first.changes and second.changes:
        raise both_changed(first.label, second.label)
    if same:
        return
    reader = second if first.changes else first
    if reader not in found.copies:
        found.copies.append(reader)


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
