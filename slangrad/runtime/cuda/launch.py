"""The launch of a kernel on a GPU: its grid of blocks, its launch block, and the record of what kernels report.

struct Launch { i64 nx, ny, nz; ptr status; i64 kernel, partials, rows; ptr arena; };   by value, after the arguments
struct Arena { i64 used, size; frames of threads; bytes };            what kernels take memory from
struct Status { i32 error, site; i64 index, extent, kernel; ptr prints, memory; };    in pinned memory
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from struct import Struct
from typing import Any

from slangrad.runtime.device import Grid
from slangrad.runtime.reports import LaunchFailure

LAUNCH = Struct("=3qQqQqQ")
_ADDRESS, _ARENA_AT = Struct("=Q"), LAUNCH.size - 8  # its last field
THREADS = 256  # of a block; the kernels are compiled for at most as many
MOST_ROWS = 65_535  # blocks along y or z
ARENA_HEADER = 64  # bytes of an arena before its memory
MOST_BLOCKS = (1 << 31) - 1  # along x
MOST_GRIDS = 256  # of a kernel, whose launches are kept

WAVE = 32

DriverResult = tuple[Any]  # a CUresult


class Status(ctypes.Structure):
    # fmt: off
    _fields_ = [
        ("error", ctypes.c_int32),            # 0 none, 1 index out of range; exchanged by the first thread that reports
        ("site", ctypes.c_int32),             # number in Kernel.sites,
        ("index", ctypes.c_int64),            # the index,
        ("extent", ctypes.c_int64),           # how many elements there are,
        ("kernel", ctypes.c_int64),           # and the number of the kernel on its device
        ("prints", ctypes.c_void_p),          # where kernels print to,
        ("memory", ctypes.c_void_p),          # the table of memory blocks, for kernels in check mode
    ]
    # fmt: on

    @property
    def failure(self) -> LaunchFailure:
        return LaunchFailure(self.error, self.site, self.index, self.extent)


STATUS_OFFSETS: dict[str, int] = {name: getattr(Status, name).offset for name, *_ in Status._fields_}


def blocks_for(grid: Grid, group: Grid | None = None, lanes: int = 1, most: int = 0) -> tuple[Grid, Grid]:
    """How many blocks there are along each axis, and how many threads of a block, each of which runs `lanes` of the
    grid's along x. Short rows share a block. All groups stand in one row: a ValueError if there are more than a GPU has
    blocks. `most`: of blocks whose threads go on along all axes, 0 if they do not."""
    nx, ny, nz = grid
    if group is not None:
        count = prod(-(-threads // size) for threads, size in zip(grid, group, strict=True))
        if count > MOST_BLOCKS:
            raise ValueError(
                f"grid: {grid} are {count} groups, and a GPU runs at most {MOST_BLOCKS} in a launch"
            )
        return (count, 1, 1), group
    nx = -(-nx // lanes)
    width = min(THREADS, 1 << (nx - 1).bit_length())
    height = min(THREADS // width, 1 << (ny - 1).bit_length())
    x, y, z = -(-nx // width), min(-(-ny // height), MOST_ROWS), min(nz, MOST_ROWS)
    if most:
        x = min(x, most)
        y = min(y, max(1, most // x))
        z = min(z, max(1, most // (x * y)))
    return (x, y, z), (width, height, 1)


def blocks_that_stay(grid: Grid, group: Grid, most: int) -> tuple[Grid, Grid]:
    """The same for few blocks, whose threads run all of a grid."""
    return (min(most, -(-prod(grid) // prod(group))), 1, 1), group


class PreparedLaunch:
    """The launch of a kernel over one grid: the block of its arguments and its launch block, which may be overwritten
    once `run` has returned, and the driver's call. `frames`: the bytes of the arena that its threads have from the
    start. One thread uses it at a time."""

    __slots__ = ("_address", "_blocks", "_pointers", "_second", "_start", "arguments", "frames")

    def __init__(
        self,
        call: Callable[..., DriverResult],
        size: int,
        launch: bytes,
        shape: tuple[Grid, Grid],
        shared: int,
        frame: int,
    ) -> None:
        """`call` is cuLaunchKernel with the function, `size` that of the arguments, `shape` the blocks and their
        threads. `shared`: the bytes of dynamic shared memory; `frame`: those of the arena that each thread has."""
        # The parameter of a kernel without arguments has one byte.
        block = ctypes.create_string_buffer(max(size, 1))
        self._blocks: tuple[ctypes.Array[ctypes.c_char], ...] = (
            block,
            ctypes.create_string_buffer(launch, len(launch)),
        )
        self._pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, self._blocks))
        self.arguments = memoryview(block).cast("B")[:size]
        blocks, threads = shape
        self.frames = frame * prod(blocks) * prod(threads)
        self._address = ctypes.addressof(self._pointers)
        self._start = partial(call, *blocks, *threads, shared)
        self._second: Callable[..., DriverResult] | None = None

    def run(self, stream: object) -> DriverResult:
        """The result of the last launch, or the first error."""
        result = self._start(stream, self._address, 0)
        if self._second is None or result[0]:
            return result
        return self._second(stream, self._address, 0)

    def copied(self) -> PreparedLaunch:
        """The same launch with blocks of its own."""
        other = PreparedLaunch.__new__(PreparedLaunch)
        other._blocks = tuple([ctypes.create_string_buffer(block.raw, len(block)) for block in self._blocks])
        other._pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, other._blocks))
        other.arguments = memoryview(other._blocks[0]).cast("B")[: len(self.arguments)]
        other._address = ctypes.addressof(other._pointers)
        other.frames, other._start, other._second = self.frames, self._start, self._second
        return other

    def set_arena(self, address: int) -> None:
        _ADDRESS.pack_into(self._blocks[1], _ARENA_AT, address)

    def then(self, call: Callable[..., DriverResult], function: object, waves: int) -> None:
        """Another kernel with the same arguments follows, in blocks of a wave."""
        self._second = partial(call, function, waves, 1, 1, WAVE, 1, 1, 0)


def arena_header(size: int, frames: int = 0) -> bytes:
    """The beginning of an arena of which nothing but the frames of all threads is in use."""
    return struct.pack("=2q48x", ARENA_HEADER + frames, size)


@dataclass(slots=True)
class LoadedKernel:
    """A kernel on one GPU and the one that follows it, its number there, and launches by their grids that no thread
    uses at the moment. `blocks`: of a kernel that stays, how many a multiprocessor runs at a time."""

    function: object
    number: int
    finish: object = None
    blocks: int = 0
    idle: dict[Grid, list[PreparedLaunch]] = field(default_factory=dict)

    def idle_over(self, grid: Grid) -> list[PreparedLaunch]:
        """The list for a grid."""
        if len(self.idle) >= MOST_GRIDS:
            self.idle.clear()
        return self.idle.setdefault(grid, [])
