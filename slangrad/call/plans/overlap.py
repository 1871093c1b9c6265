"""Memory of one call: which bytes each argument touches, whether calls share elements, and what overlaps.

In: leaves with their footprints, strides along the call and along the loops.   Out: the regions that arguments touch;
which gradients are added to by one call an element each (no atomic sum needed); regions to copy first, or an error.

    f(x, _result=x)          the same elements by the same threads: fine
    f(x[:-1], _result=x[1:])  x is copied first, so the call reads what was there before
    f(a, out=x, _result=x)   two outputs: refused (E1008)
    f.bwds(x, _result=x')    x' over the memory of x: the call has overwritten the input of its derivative (E1008)
    f(x[:, 0], _result=x[:, 1])   interleaved, but no element in common: fine
    f([{"t": x}], _result=x)  memory behind elements of a list is not copied: refused (E1008)

Inputs that overlap outputs are copied first, as if all inputs were read before any output is written. Outputs that
are whole tensors or structured buffers may overlap each other, as in the language itself. Memory behind pointers is
not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from slangrad.call.plans.geometry import Loops
from slangrad.marshal.composed.rows import Touched
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, Lattice, Shape, Values, injective, lattice_of, span_of
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.tensor import Tensor

MOST_WORK = 100_000


@dataclass(slots=True)
class TouchedRegion:
    """Bytes `low` to `high` from the address in `values[place]`. `takes`: a derivative is read there; `adds`:
    one is accumulated.

    `strides` are along the loops of the launch, None where the function itself chooses the elements;
    `injective`: no two calls share an element.
    """

    label: str
    place: int
    low: int
    high: int
    writes: bool
    adds: bool
    strides: Shape | None = None
    injective: bool = False
    takes: bool = False
    lattice: Lattice = (0, 0, 0)
    is_host: bool = False  # memory of no device
    by_pointer: bool = False

    @property
    def changes(self) -> bool:
        return self.writes or self.adds


def pairs_of(regions: Sequence[TouchedRegion]) -> list[tuple[TouchedRegion, TouchedRegion]]:
    """The pairs worth looking at in every call."""
    return [
        (first, second)
        for i, first in enumerate(regions)
        for second in regions[i + 1 :]
        if (first.changes or second.changes) and not (_free(first, second))
    ]


def _free(first: TouchedRegion, second: TouchedRegion) -> bool:
    """The function itself is responsible for whole tensors that it writes, and for pointers."""
    whole = first.strides is None and second.strides is None and first.writes and second.writes
    return whole or first.by_pointer or second.by_pointer


@dataclass(slots=True)
class Conflicts:
    """The overlaps of a launch: regions to copy first; whether gradients share elements."""

    copies: list[TouchedRegion]
    shared: bool


@dataclass(slots=True)
class Overwritten:
    """An input that reverse mode reads, and an output that the call has written: numbers of leaves with their
    names."""

    read: int
    written: int
    labels: tuple[str, str]


def overwritten_of(leaves: Sequence[Leaf]) -> list[Overwritten]:
    """The pairs to look at in a reverse mode; none in others."""
    if all(leaf.role.gives != "add" for leaf in leaves):
        return []
    tensors = [(i, leaf) for i, leaf in enumerate(leaves) if leaf.is_tensor]
    return [
        Overwritten(i, j, (first.label, second.label))
        for i, first in tensors
        for j, second in tensors
        if first.role.reads and (second.role.takes or second.role.writes) and not second.role.reads
    ]


def refuse_overwritten(pairs: Sequence[Overwritten], values: Sequence[HostValue]) -> None:
    """CallError where the memory of an input is that of an output."""
    for pair in pairs:
        x, y = values[pair.read], values[pair.written]
        if x.storage.address >= y.storage.address + y.storage.size:
            continue
        if y.storage.address < x.storage.address + x.storage.size and share(x.places(), y.places()):
            first, second = pair.labels
            message = (
                f"'{first}' and '{second}' overlap in memory: the call has written '{second}', so the values "
            )
            message += f"of '{first}' that its derivative needs are gone"
            raise CallError("E1008", message, (), f"give '{second}' memory of its own")


def share(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether an element of one is one of the other; yes where that is hard to say."""
    try:
        return np.shares_memory(x, y, MOST_WORK)  # type: ignore[arg-type]  # its annotation knows no bound
    except np.exceptions.TooHardError:
        return True


def refuse_shared_outputs(leaves: Sequence[Leaf], values: Sequence[object], copied: Sequence[int]) -> None:
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


def _array_of(value: object) -> np.ndarray | None:
    if isinstance(value, Tensor):
        return value.places()
    return value if isinstance(value, np.ndarray) else None


def both_changed(first: str, second: str) -> CallError:
    message = f"'{first}' and '{second}' overlap in memory, and the call changes both"
    return CallError("E1008", message, (), "give each its own memory, for example a copy")


def find_conflicts(pairs: Sequence[tuple[TouchedRegion, TouchedRegion]], values: Values) -> Conflicts | None:
    """None, nearly always: nothing overlaps, or each element is read and written by one thread alone."""
    conflicts: Conflicts | None = None
    for first, second in pairs:
        start, other = values[first.place], values[second.place]
        if start + first.low >= other + second.high or other + second.low >= start + first.high:
            continue
        if _interleaved(first.lattice, second.lattice, other - start):
            continue
        conflicts = conflicts or Conflicts([], False)
        _resolve(first, second, start == other and _same_elements(first, second), conflicts)
    return conflicts if conflicts is not None and (conflicts.copies or conflicts.shared) else None


def refuse_touched(touched: Sequence[Touched], regions: Sequence[TouchedRegion], values: Values) -> None:
    """CallError where elements of a list lead to memory that the call changes."""
    for i, memory in enumerate(touched):
        for region in regions:
            is_own_matter = region.by_pointer or (region.strides is None and region.writes and memory.writes)
            if (region.changes or memory.writes) and not is_own_matter:
                start = values[region.place]
                if memory.low < start + region.high and start + region.low < memory.high:
                    raise _changed(region.label, memory.label, region.changes)
        for other in touched[:i]:
            if memory.writes != other.writes and memory.low < other.high and other.low < memory.high:
                raise _changed(memory.label, other.label, memory.writes)


def _changed(first: str, second: str, first_changes: bool) -> CallError:
    changes = first if first_changes else second
    message = f"'{first}' and '{second}' overlap in memory, and the call changes '{changes}'"
    return CallError("E1008", message, (), "give each its own memory, for example a copy")


def _interleaved(first: Lattice, second: Lattice, distance: int) -> bool:
    """Whether the runs of one surely lie between those of the other; `distance` is between the addresses."""
    step = gcd(first[2], second[2])
    if step == 0 or not first[1] or not second[1]:
        return False
    between = (distance + second[0] - first[0]) % step
    return between >= first[1] and between + second[1] <= step


def _same_elements(first: TouchedRegion, second: TouchedRegion) -> bool:
    """Whether each call touches the same element through both, and no other call does."""
    same = first.strides is not None and first.strides == second.strides
    return same and first.injective and first.high == second.high and first.low == second.low


def _resolve(first: TouchedRegion, second: TouchedRegion, same: bool, conflicts: Conflicts) -> None:
    if (first.adds and second.takes) or (first.takes and second.adds):
        message = (
            f"the gradients of '{first.label}' and '{second.label}' overlap: one is read where the other is "
            "added to, so they need separate buffers for inputs and outputs (see Tensor.with_grads)"
        )
        raise CallError("E1007", message, (), "tensor.with_grads(grad_in=..., grad_out=...)")
    if first.adds and second.adds:
        conflicts.shared = conflicts.shared or not same
        return
    if first.changes and second.changes:
        raise both_changed(first.label, second.label)
    if same:
        return
    reader = second if first.changes else first
    if reader not in conflicts.copies:
        conflicts.copies.append(reader)


def alone_of(leaves: Sequence[Leaf], shape: Shape, strides: Sequence[Sequence[Shape]]) -> frozenset[str]:
    """Names of the leaves whose gradient elements belong to one call each; strides of streams are along the call. An
    `inout` value that several calls share would be read and written at the same time: CallError (E1008)."""
    alone = set()
    for leaf, leaf_strides in zip(leaves, strides):
        if leaf.role.reads and leaf.role.writes and leaf.is_shared(0, shape, leaf_strides):
            message = f"argument '{leaf.label}': {prod(shape)} calls would read and write the same memory"
            note = "give each call an element of its own, or sum up with atomics on a tensor parameter"
            raise CallError("E1008", message, (), note)
        if leaf.role.gives == "add" and not leaf.is_whole and prod(shape) > 1:
            alone |= set() if leaf.is_shared(-1, shape, leaf_strides) else {leaf.name}
    return frozenset(alone)


def regions_of(
    leaves: Sequence[Leaf], footprints: Sequence[Footprint], loops: Loops, places: Mapping[str, slice]
) -> list[TouchedRegion]:
    """The regions of all arguments that lie in the caller's memory, as a launch has them."""
    regions: list[TouchedRegion] = []
    first = 0
    for leaf, footprint in zip(leaves, footprints):
        for use in footprint.uses:
            if use.name not in places:
                continue
            _, shape, steps, item, home = use.memory
            low, high = span_of(item, shape, steps)
            start = places[use.name].start + use.at
            region = TouchedRegion(use.label, start, low, high, use.writes, use.adds, takes=use.takes)
            region.is_host, region.by_pointer = home is None, use.by_pointer
            region.lattice = lattice_of(item, shape, steps)
            if use.stream is not None:
                region.strides = loops.strides[first + use.stream]
                unit = leaf.streams[use.stream].unit
                region.injective = injective(loops.extents, region.strides, unit)
            regions.append(region)
        first += len(leaf.streams)
    return regions
