"""Memory of the host for the launch on a device that does not reach it: NumPy arrays, and torch tensors of the CPU.

    f(x, _result=y)      x and y go to the device, the launch runs, y comes back

In: the regions of a launch, and its scalars with addresses of the host. Out: these addresses lead to the device.
Regions that share bytes share their copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slangrad.call.plans.overlap import TouchedRegion
from slangrad.marshal.composed.rows import Touched
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Values
from slangrad.runtime.device import Device, MemoryRegion, RegionItems
from slangrad.runtime.memory import ALIGNMENT, MemoryBlock
from slangrad.tensors.elements.conversion import AnyArray

BYTE = np.dtype(np.uint8)


@dataclass(slots=True)
class Copied:
    """Bytes of the host from `low` up to `high`, and their copy on the device."""

    low: int
    high: int
    changes: bool
    block: MemoryBlock | None = None
    address: int = 0  # of the copy, within the block

    @property
    def bytes(self) -> AnyArray:
        """The memory of the host."""
        return np.asarray(RegionItems(MemoryRegion(self.low, (self.high - self.low,), (1,), BYTE), None))


@dataclass(slots=True)
class Staged:
    """The copies of a launch on the device, until it is over."""

    runtime: Device
    copies: list[Copied]

    def bring_back(self) -> None:
        """Copy changes of the launch to the host."""
        for part in self.copies:
            if part.changes and part.block is not None:
                self.runtime.fetch(part.bytes, part.address)


def stage(runtime: Device, regions: Sequence[TouchedRegion], scalars: Values) -> Staged:
    """Copy the regions that lie on the host, and lead their addresses to the copies."""
    spans: list[tuple[TouchedRegion, int, int]] = []
    for region in regions:
        start = scalars[region.place]
        if region.is_host and region.high > region.low:
            spans.append((region, start + region.low, start + region.high))
    staged = Staged(runtime, _merged(spans))
    for part in staged.copies:
        shift = part.low % ALIGNMENT  # the copy of an address is aligned as the address is
        part.block = runtime.allocate(shift + part.high - part.low)
        part.address = part.block.address + shift
        runtime.write(part.address, part.bytes)
    for region, low, _ in spans:
        copied = next(part for part in staged.copies if part.low <= low < part.high)
        scalars[region.place] += copied.address - copied.low
    return staged


def _merged(spans: Sequence[tuple[TouchedRegion, int, int]]) -> list[Copied]:
    """Ranges that have no byte in common."""
    merged: list[Copied] = []
    for region, low, high in sorted(spans, key=lambda span: span[1]):
        if merged and low < merged[-1].high:
            merged[-1].high = max(merged[-1].high, high)
            merged[-1].changes |= region.changes
        else:
            merged.append(Copied(low, high, region.changes))
    return merged


def refuse_in_rows(touched: Sequence[Touched]) -> None:
    """CallError where an element of a list leads to memory of the host: no launch can follow it."""
    for memory in touched:
        if memory.is_host:
            message = f"'{memory.label}' lies in memory of the host, inside of a list for a device that "
            raise CallError(
                "E1022",
                f"{message}does not reach it",
                (),
                f"pass Tensor.from_numpy(device, {memory.label}) there",
            )
