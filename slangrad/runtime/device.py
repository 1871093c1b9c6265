"""Devices and kernels: what every device can do.

    block = device.allocate(4 * n, zero=True)
    device.write(block.address, numpy_array)
    device.launch(kernel, argument_bytes, (n, 1, 1))          # raises what the kernel reported
    device.read(Region(block.address, (n,), (4,), np.dtype(np.float32)))

The host reaches device memory only through `read`, `write`, `copy` and `clear`. This file has no device;
`cpu.py` has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slangrad.runtime.memory import MemoryBlock
from slangrad.runtime.reports import LaunchReports, Printed, Site

Grid = tuple[int, int, int]
Array = npt.NDArray[np.generic]


class MemoryRegion(NamedTuple):
    """Items of `dtype` in device memory: the item at index i is at address + sum(i * strides), in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[np.generic]


@dataclass(slots=True, eq=False, kw_only=True)
class Kernel:
    """What all kinds of kernels have in common. Each device knows the subclasses that it can launch."""

    name: str
    argument_size: int
    sites: tuple[Site, ...] = ()

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.name})"


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class PythonKernel(Kernel):
    """A kernel that is a Python function: `function(address of the argument block, grid, reports)`."""

    function: Callable[[int, Grid, LaunchReports], None]


class DeviceClosedError(RuntimeError):
    """Something was asked of a device that is closed."""

    code = "E1023"

    def __init__(self) -> None:
        super().__init__(f"error[{self.code}]: the device is closed")


class Device(ABC):
    """Memory and launches. Addresses are integers. All of it is refused once the device is closed."""

    kind: str
    name: str
    printed: Printed  # what kernels print
    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def require_open(self) -> None:
        """DeviceClosedError if the device is closed."""
        if self.is_closed:
            raise DeviceClosedError

    @property
    def runtime(self) -> Device:
        """Itself: whoever has a device of the runtime behind it has this attribute."""
        return self

    @abstractmethod
    def allocate(self, size: int, zero: bool = False) -> MemoryBlock:
        """Memory aligned to 64 bytes, freed when the block is no longer referred to."""

    @abstractmethod
    def launch(self, kernel: Kernel, arguments: bytes | bytearray, grid: Grid) -> None:
        """Run one thread for each point of the grid; `arguments` may be changed as soon as this returns."""

    def prepare(self, kernel: Kernel, arguments: bytes, grid: Grid) -> Callable[[], None]:
        """A launch as a function, for those that run it many times."""
        return partial(self.launch, kernel, arguments, grid)

    @abstractmethod
    def write(self, address: int, source: Array) -> None:
        """Copy a C-contiguous host array to the device."""

    @abstractmethod
    def read(self, region: MemoryRegion) -> Array:
        """A new C-contiguous host array with a copy of the items."""

    @abstractmethod
    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes within the device; the ranges may overlap."""

    @abstractmethod
    def clear(self, region: MemoryRegion) -> None:
        """Set the items to zero, and nothing between them."""

    @abstractmethod
    def host_view(self, region: MemoryRegion, owner: object) -> Array | None:
        """The memory itself as an array that keeps `owner` alive; None where the host cannot reach it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything that was launched; errors that were not raised yet are raised here."""
