"""Devices and kernels: the interface of every device.

    block = device.allocate(4 * n, zero=True)
    device.write(block.address, numpy_array)
    device.launch(kernel, argument_bytes, (n, 1, 1))          # raises what the kernel reported
    device.read(Region(block.address, (n,), (4,), np.dtype(np.float32)))

The host reaches device memory only through `read`, `write`, `copy` and `clear`. The devices are in `cpu.py` and
`cuda/device.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock, get_ident
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.runtime.memory import HOST_MEMORY, MemoryBlock
from slangrad.runtime.processors import OtherPrograms
from slangrad.runtime.reports import LaunchReports, Printed, Site

Grid = tuple[int, int, int]
Array = npt.NDArray[np.generic]


class MemoryRegion(NamedTuple):
    """Items of `dtype` in device memory: the item at index i is at address + sum(i * strides), in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def span(self) -> tuple[int, int]:
        """The bytes around the address that the items lie in. There is at least one item."""
        reach = [(size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)]
        return sum(min(extent, 0) for extent in reach), sum(
            max(extent, 0) for extent in reach
        ) + self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the items lie one after the other in row-major order."""
        wanted = self.dtype.itemsize
        for size, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and step != wanted:
                return False
            wanted *= size
        return True

    @property
    def runs(self) -> tuple[int, int, list[tuple[int, int]]]:
        """The items as runs of bytes without gaps. Gives the lowest address, the bytes of a run, and count and step
        of the runs along each dimension that is left, the smallest step first. There is at least one item."""
        run, dims = self.dtype.itemsize, list[tuple[int, int]]()
        moving = [
            (size, abs(step))
            for size, step in zip(self.shape, self.strides, strict=True)
            if size > 1 and step
        ]
        for size, step in sorted(moving, key=lambda dim: dim[1]):
            if step == run and not dims:
                run *= size
            else:
                dims.append((size, step))
        return self.address + self.span[0], run, dims

    def places(self) -> Array:
        """An array over the addresses, to be compared with others and never read; the host may not reach them."""
        return np.asarray(RegionItems(self, None)).view(self.dtype)


class RegionItems:
    """A region in the form that NumPy takes; NumPy keeps this object as the array's base. Sizes and strides are plain
    tuples, because CuPy takes no subclass."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, region: MemoryRegion, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (region.address, False),
            "shape": tuple(region.shape),
            "strides": tuple(region.strides),
            "typestr": f"|V{region.dtype.itemsize}" if _is_opaque(region.dtype) else region.dtype.str,
            "version": 3,
        }


def _is_opaque(dtype: np.dtype[np.generic]) -> bool:
    """Whether NumPy takes it from no text: structs, and types of other packages."""
    return dtype.names is not None or dtype.isbuiltin == 2


@dataclass(slots=True, eq=False, kw_only=True)
class Kernel:
    """The common fields of all kernels. Each device launches some of the subclasses."""

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
    """A call used a device that is closed."""

    code = "E1023"

    def __init__(self) -> None:
        super().__init__(f"error[{self.code}]: the device is closed")


class CaptureError(RuntimeError):
    """A call that cannot be part of recorded work, and what would have to change."""

    code = "E1052"

    def __init__(self, reason: str, recorder: str, cure: str) -> None:
        super().__init__(f"error[{self.code}]: {reason}, so {recorder} cannot record it; {cure}")


class Recording:
    """Work of one thread that waits to be run, and the objects whose memory it uses."""

    __slots__ = ("kept", "thread", "work")

    def __init__(self) -> None:
        self.thread = get_ident()
        self.work: list[Callable[[], None]] = []
        self.kept: list[object] = []


class DeviceMissing(Exception):
    """A device that this machine does not have; the text says which part is missing, and the cure."""

    def __init__(self, message: str, note: str) -> None:
        self.message = message
        self.note = note
        super().__init__(f"{message}; {note}")


class Device(ABC):
    """Memory and launches. Addresses are integers. All of it is refused once the device is closed."""

    kind: str
    name: str
    printed: Printed  # what kernels print
    memory = HOST_MEMORY  # where its blocks come from
    is_closed = False
    index = 0  # of a GPU
    place_of_torch: str | None = None  # the device of PyTorch's tensors in the same memory; None is the CPU
    threads = 1  # of the host that work on a launch at most
    recording: Recording | None = None
    _recording_begins = kept_at_fork(Lock(), BRIEF)  # a thread that records itself waits for `replay_of`
    reaches_host = True  # whether kernels reach memory of the host, and the host that of the device

    def close(self) -> None:
        self.is_closed = True

    def require_open(self) -> None:
        """DeviceClosedError if the device is closed."""
        if self.is_closed:
            raise DeviceClosedError

    def take_printed(self) -> str:
        """What kernels printed for the host to fetch; they have finished."""
        return self.printed.take()

    def target(self, backend: str) -> str:
        """The target of kernels for this device: the backend's name, with an architecture where it has several."""
        return backend

    def holds(self, home: object) -> bool:
        """Whether kernels reach memory of this home: a device, None for the host, "cuda:0" for PyTorch on that GPU."""
        return home in (None, self)

    def records(self, work: Callable[[], None]) -> bool:
        """Whether this thread records its work; then this piece is recorded, and not done."""
        recording = self.recording
        if recording is None or recording.thread != get_ident():
            return False
        recording.work.append(work)
        return True

    def keep_recorded(self, objects: object) -> None:
        """Keep what recorded work uses, if this thread records."""
        recording = self.recording
        if recording is not None and recording.thread == get_ident():
            recording.kept.append(objects)

    def refuse_recording(self, reason: str) -> None:
        """CaptureError while this thread records its work."""
        recording = self.recording
        if recording is not None and recording.thread == get_ident():
            raise CaptureError(reason, "device.capture()", "do it before or after the with block")

    def begin_recording(self) -> Recording:
        """From now on this thread records launches, copies within the device and clearing, which `fixed` takes.
        CaptureError if a thread records already."""
        with self._recording_begins:
            if self.recording is not None:
                raise CaptureError(
                    "another capture of the device is open", "device.capture()", "let it end first"
                )
            self.recording = Recording()
            return self.recording

    def end_recording(self) -> None:
        self.recording = None

    def fixed(self, work: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Make one function of recorded work. A caller may run it many times."""
        steps = tuple(work)

        def run() -> None:
            self.require_open()
            for step in steps:
                step()

        return run

    def replay_of(self, calls: Sequence[Callable[[], object]]) -> Callable[[], None] | None:
        """Record the work of calls. The result runs it in less time of the host; call it only while `may_replay` is
        true. None if the device cannot record it."""
        return None

    def may_replay(self) -> bool:
        """Whether a result of `replay_of` may be called now."""
        return False

    @property
    def runtime(self) -> Device:
        """Itself. Objects with a device of the runtime behind them have this attribute, too."""
        return self

    def precede(self, stream: int | None) -> None:
        """What another library puts on its stream of the GPU comes after all launches so far; None is PyTorch's."""
        return

    def follow(self, stream: int) -> None:
        """Launches come after what another library has put on its stream of the GPU."""
        return

    def torch_has_computed(self) -> None:
        """PyTorch has just computed on the host. Its threads wait busily for some milliseconds, and help with launches
        on the CPU in that time."""
        return

    def watch_other_programs(self) -> OtherPrograms:
        """Whether others are at work on the processors from now on, so that times that are measured mean little."""
        return OtherPrograms()

    def memory_beside_launches(self) -> int:
        """Bytes that launches have besides arguments and tensors."""
        return 0

    def memory_of_gpu(self) -> tuple[int, int] | None:
        """How many bytes no process uses, and all; None without a GPU."""
        return None

    @abstractmethod
    def allocate(self, size: int, zero: bool = False) -> MemoryBlock:
        """Memory aligned to 64 bytes, freed when the block is no longer referred to."""

    @abstractmethod
    def launch(self, kernel: Kernel, arguments: bytes | bytearray, grid: Grid) -> None:
        """Run one thread for each point of the grid; `arguments` may be changed as soon as this returns."""

    def prepare(self, kernel: Kernel, arguments: bytes, grid: Grid) -> Callable[[], None]:
        """A launch as a function, for callers that run it many times."""
        return partial(self.launch, kernel, arguments, grid)

    @abstractmethod
    def write(self, address: int, source: Array) -> None:
        """Copy a C-contiguous host array to the device."""

    @abstractmethod
    def read(self, region: MemoryRegion) -> Array:
        """A new C-contiguous host array with a copy of the items."""

    def fetch(self, target: Array, address: int) -> None:
        """Overwrite a C-contiguous host array by as many bytes of the device."""
        target[...] = self.read(MemoryRegion(address, target.shape, target.strides, target.dtype))

    def put(self, region: MemoryRegion, values: Array) -> None:
        """Overwrite the items by values that broadcast to their shape, of the same dtype."""
        memory = self.host_view(region, None)
        assert memory is not None, "a device whose memory the host does not reach copies by itself"
        memory[...] = values

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
        """Wait for all launches, and raise errors of kernels that were not raised yet."""


def check_arguments(kernel: Kernel, arguments: bytes | bytearray) -> None:
    """ValueError for an argument block that is too short."""
    if len(arguments) < kernel.argument_size:
        raise ValueError(
            f"arguments: kernel '{kernel.name}' takes {kernel.argument_size} bytes, not {len(arguments)}"
        )


def check_grid(grid: Grid) -> None:
    """ValueError for a grid of negative size."""
    if min(grid) < 0:
        raise ValueError(f"grid: {grid} has a negative size")
