"""Launches for one layout of the arguments, their memory, and launches that are made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slangrad.call.plans.geometry import Loops
from slangrad.call.plans.overlap import TouchedRegion
from slangrad.call.plans.packing import Compiled
from slangrad.marshal.host.footprint import Shape, Values
from slangrad.marshal.protocol.nodes import Setter
from slangrad.marshal.registry import key_of
from slangrad.runtime.device import Device, Grid, Kernel, MemoryRegion
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.call.plans.plan import CallPlan

BYTE = np.dtype(np.uint8)
# A function that reads a scalar or writes some, the number of its leaf, and the place of the first scalar.
Placed = tuple[Callable[[HostValue], object] | None, int, int]
PlacedSetter = tuple[Setter, int, int]


@dataclass(slots=True)
class Geometry:
    """A launch for one layout of the arguments: all that does not depend on addresses."""

    shape: Shape
    loops: Loops
    values: Values
    finders: list[Placed]
    setters: list[PlacedSetter]
    compiled: Compiled
    pairs: list[tuple[TouchedRegion, TouchedRegion]]
    regions: list[TouchedRegion]
    make_result: Callable[[], object]
    is_staged: bool  # whether memory of the host must be copied to the device for the launch
    atomic: Geometry | None = None


class ScratchBlock:
    """Memory of one call for values that the kernel writes and Python reads. If the host does not reach the
    device's memory, a copy goes to the device before the launch and back after it."""

    __slots__ = ("_copied", "_runtime", "address", "block", "memory")

    def __init__(self, runtime: Device, size: int) -> None:
        self._runtime = runtime
        self.block = runtime.allocate(size)
        self.address = self.block.address
        view = runtime.host_view(MemoryRegion(self.address, (size,), (1,), BYTE), self.block)
        self._copied = np.zeros(size, BYTE) if view is None else None
        self.memory = memoryview(self._copied if view is None else view)  # type: ignore[arg-type]

    def send(self) -> None:
        if self._copied is not None:
            self._runtime.write(self.address, self._copied)

    def fetch(self) -> None:
        if self._copied is not None:
            self._runtime.fetch(self._copied, self.address)


@dataclass(slots=True)
class FixedLaunch:
    """A launch, and the values whose memory it reads and writes, which must live as long."""

    plan: CallPlan
    geometry: Geometry
    grid: Grid
    values: list[HostValue]
    scalars: Values = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scalars = self.geometry.values.copy()
        for i in range(len(self.values)):
            self._fill(i)

    def _fill(self, i: int) -> None:
        """Write the scalars of one value."""
        for find, k, place in self.geometry.finders:
            if k == i:
                self.scalars[place] = self.values[i] if find is None else find(self.values[i])
        for put, k, place in self.geometry.setters:
            if k == i:
                put(self.scalars, place, self.values[i], None)  # type: ignore[arg-type]

    @property
    def kernel(self) -> Kernel:
        return self.geometry.compiled.kernel

    @property
    def arguments(self) -> bytes:
        return self.geometry.compiled.packer.pack(self.scalars)

    def move(self, index: int, value: object) -> bool:
        """Take the memory of another tensor of the same type and layout, by the number of the argument; False if
        the launch needs more than that."""
        i = self.plan.place_of(index)
        if i is None:
            return False
        old, leaf = self.values[i], self.plan.call.leaves[i]
        if type(value) is not type(old) or leaf.prepare is not None or key_of(value) != key_of(old):
            return False
        find = self.plan.layouts.get(i)
        if find is None or find(value) != find(old):
            return False
        self.values[i] = value
        self._fill(i)
        return True

    def check(self) -> bool:
        """Whether memory has no overlap that an ordinary call would have to resolve."""
        return self.plan.may_launch(self.geometry, self.values, self.scalars)
