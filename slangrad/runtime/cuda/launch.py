"""The launch of a kernel on a GPU: its grid of blocks, its launch block, and the record of what kernels report.

struct Launch { i64 nx, ny, nz; ptr status; i64 kernel; };            passed by value, behind the arguments
struct Status { i32 error, site; i64 index, extent, kernel; };        in pinned memory
"""

from __future__ import annotations

import ctypes
from struct import Struct

from slangrad.runtime.device import Grid
from slangrad.runtime.reports import LaunchFailure

LAUNCH = Struct("=3qQq24x")
THREADS = 256  # of a block; the kernels are compiled for at most as many
MOST_ROWS = 65_535  # blocks along y or z


class Status(ctypes.Structure):
    # fmt: off
    _fields_ = [
        ("error", ctypes.c_int32),            # 0 none, 1 index out of range; exchanged by the first thread that reports
        ("site", ctypes.c_int32),             # number in Kernel.sites,
        ("index", ctypes.c_int64),            # the index,
        ("extent", ctypes.c_int64),           # how many elements there are,
        ("kernel", ctypes.c_int64),           # and the number of the kernel on its device
    ]
    # fmt: on

    @property
    def failure(self) -> LaunchFailure:
        return LaunchFailure(self.error, self.site, self.index, self.extent)


STATUS_OFFSETS: dict[str, int] = {name: getattr(Status, name).offset for name, *_ in Status._fields_}


def blocks_for(grid: Grid) -> tuple[Grid, Grid]:
    """How many blocks there are along each axis, and how many threads of a block. Short rows share a block."""
    nx, ny, nz = grid
    width = min(THREADS, 1 << (nx - 1).bit_length())
    height = min(THREADS // width, 1 << (ny - 1).bit_length())
    return (-(-nx // width), min(-(-ny // height), MOST_ROWS), min(nz, MOST_ROWS)), (width, height, 1)


class LaunchArguments:
    """The arguments and the launch block by their addresses; the driver copies both at a launch."""

    __slots__ = ("_arguments", "_launch", "_pointers", "address")

    def __init__(self, arguments: bytes | bytearray, launch: bytes) -> None:
        self._arguments = ctypes.create_string_buffer(bytes(arguments), max(len(arguments), 1))
        self._launch = ctypes.create_string_buffer(launch, len(launch))
        addresses = (ctypes.addressof(self._arguments), ctypes.addressof(self._launch))
        self._pointers = (ctypes.c_void_p * 2)(*addresses)
        self.address = ctypes.addressof(self._pointers)
