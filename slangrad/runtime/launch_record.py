"""The C struct `Launch` that compiled code sees, and its Python side.

Each thread that takes part in a launch has its own `Launch`, so compiled code writes it without atomics. The fields
that threads share are behind `shared`. Native byte order, natural alignment:

    struct Shared { i64 next; i32 stop; };
    struct Launch { i64 nx, ny, nz, chunk_x, chunks_x, chunks; Shared* shared; ... };   // see LAUNCH_OFFSETS

This file moves numbers and serves the three callbacks; it starts no thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from slangrad.runtime.device import Grid, Kernel
from slangrad.runtime.memory import ALIGNMENT, HOST_MEMORY, MemoryBlock
from slangrad.runtime.reports import FORMATS, OUT_OF_MEMORY, LaunchFailure, Printed, print_site

if TYPE_CHECKING:
    from slangrad.base.prints.formats import Value


class Shared(ctypes.Structure):
    # fmt: off
    _fields_ = [
        ("next", ctypes.c_int64),             # the first chunk of the next batch; taken by a relaxed atomic add
        ("stop", ctypes.c_int32),             # not 0: run no further chunk; long loops may look at it, too
    ]
    # fmt: on


class Launch(ctypes.Structure):
    # fmt: off
    _fields_ = [
        ("nx", ctypes.c_int64),               # threads of the grid
        ("ny", ctypes.c_int64),
        ("nz", ctypes.c_int64),
        ("chunk_x", ctypes.c_int64),          # threads of x in a chunk, a multiple of the granularity
        ("chunks_x", ctypes.c_int64),         # chunks in a row of x
        ("chunks", ctypes.c_int64),           # all chunks: chunks_x * ny * nz, x first
        ("shared", ctypes.c_void_p),          # Shared*
        ("partials", ctypes.c_void_p),        # `partial_size` bytes for each batch, zero at first
        ("partial_size", ctypes.c_int64),
        ("batch", ctypes.c_int64),            # chunks that one thread runs in their order, one after the other
        ("chunk", ctypes.c_int64),            # the entry writes its chunk's number when it begins
        ("arena", ctypes.c_void_p),           # memory for tapes; the entry writes 0 to arena_used first
        ("arena_used", ctypes.c_int64),
        ("arena_size", ctypes.c_int64),
        ("error", ctypes.c_int32),            # 0 none, 1 index out of range, 2 out of memory, 3 assertion
        ("site", ctypes.c_int32),             # written with the first error only: number in Kernel.sites,
        ("index", ctypes.c_int64),            # the index and
        ("extent", ctypes.c_int64),           # how many elements there are,
        ("error_chunk", ctypes.c_int64),      # and the value of `chunk`
        ("print", ctypes.c_void_p),           # void (*)(Launch*, i32 site, const i64* values)
        ("reserve", ctypes.c_void_p),         # void* (*)(Launch*, i64 bytes)
        ("poll", ctypes.c_void_p),            # void (*)(Launch*), now and then from long loops; null for helpers
        ("released", ctypes.c_int64),         # bit k: lists[k] has freed memory of 2^k bytes; the entry writes 0 first
        ("lists", ctypes.c_void_p * 64),      # where a free piece is, which begins with the address of the next one
        ("memory", ctypes.c_void_p),          # the table of all blocks of memory, for kernels of check mode
    ]
    # fmt: on


LAUNCH_OFFSETS: dict[str, int] = {name: getattr(Launch, name).offset for name, *_ in Launch._fields_}
SHARED_OFFSETS: dict[str, int] = {name: getattr(Shared, name).offset for name, *_ in Shared._fields_}

SHARED_AT = 704
RECORD_SIZE = 768
SMALLEST_ARENA = 1 << 20
LARGEST_KEPT_ARENA = 64 << 20

_GRID = Struct("=7q")
_SHARED = Struct("=qq")
assert LAUNCH_OFFSETS["shared"] == _GRID.size - 8
assert ctypes.sizeof(Shared) == _SHARED.size
assert ctypes.sizeof(Launch) <= SHARED_AT


class LaunchRecord:
    """One `Launch` and one `Shared`, reused by launch after launch."""

    # fmt: off
    __slots__ = ("_arenas", "_memory", "_own_shared", "_poll", "_poll_address", "address", "grid", "kernel", "launch",
                 "pointer", "prepared", "printed", "raised", "shared", "tape_limit")
    # fmt: on

    def __init__(self) -> None:
        self._memory = HOST_MEMORY.allocate(RECORD_SIZE, zero=True)
        self._arenas: list[MemoryBlock] = []
        self.address = self._memory.address
        self.pointer = ctypes.c_void_p(self.address)
        self.launch = Launch.from_address(self.address)
        self._own_shared = Shared.from_address(self.address + SHARED_AT)
        self.shared = self._own_shared
        self.kernel: Kernel | None = None
        self.prepared: Kernel | None = (
            None  # the kernel whose numbers are filled in, ready for another run over the same grid
        )
        self.grid: Grid = (0, 0, 0)
        self.raised: BaseException | None = None
        self.printed: Printed | None = None  # kernels that print never run with helpers
        self.tape_limit = 0
        self.launch.print = _PRINT_ADDRESS
        self.launch.reserve = _RESERVE_ADDRESS
        self._poll = _POLL(_polling(self))
        self._poll_address = ctypes.cast(self._poll, ctypes.c_void_p).value
        _RECORDS[self.address] = self

    def begin(self, kernel: Kernel, tape_limit: int, grid: Grid, chunks: Grid) -> None:
        """For the thread that launches; `chunks` are chunk_x, chunks_x and their number."""
        self.kernel = self.prepared = kernel
        self.grid = grid
        self.launch.poll = self._poll_address
        self._limit_tapes(tape_limit)
        shared = self.shared = self._own_shared
        _SHARED.pack_into(shared, 0, 0, 0)
        _GRID.pack_into(self.launch, 0, *grid, *chunks, self.address + SHARED_AT)
        self.launch.batch = 1

    def begin_one_chunk(self, kernel: Kernel, tape_limit: int, grid: Grid, threads: int) -> None:
        """The same for a launch of one chunk of so many threads; fast if the last launch was the same."""
        if self.prepared is not kernel or self.grid != grid or self.tape_limit != tape_limit:
            self.begin(kernel, tape_limit, grid, (threads, 1, 1))

    def join(self, other: LaunchRecord) -> None:
        """For a helper: take part in the launch of `other`."""
        ctypes.memmove(self.address, other.address, LAUNCH_OFFSETS["chunk"])
        self.kernel = other.kernel
        self.prepared = None
        self.launch.poll = None
        self.launch.memory = other.launch.memory
        self.shared = other.shared
        self._limit_tapes(other.tape_limit)

    def end(self) -> tuple[tuple[int, LaunchFailure] | None, BaseException | None]:
        """The first failure with its chunk, and the exception of a callback. Clears the record."""
        self.kernel = self.prepared = None
        raised, self.raised = self.raised, None
        if self._arenas:
            self._keep_one_arena()
        launch = self.launch
        if not launch.error:
            return None, raised
        failure = (launch.error_chunk, LaunchFailure(launch.error, launch.site, launch.index, launch.extent))
        launch.error = 0
        return failure, raised

    def is_touched(self) -> bool:
        """Whether the launch left anything that `end` has to read or to clean."""
        return bool(self.launch.error or self._arenas) or self.raised is not None

    def fail(self, error: int, site: int, index: int = 0, extent: int = 0) -> None:
        """Does in Python the record keeping of compiled code; for kernels written in Python."""
        launch = self.launch
        if launch.error:
            return
        launch.error, launch.site, launch.index, launch.extent = error, site, index, extent
        launch.error_chunk = launch.chunk

    def print(self, site: int, values: Sequence[Value]) -> None:
        assert self.kernel is not None
        print_site(self.kernel.sites[site], values, self.printed)

    def reserve(self, size: int) -> int | None:
        """`size` bytes that stay until the chunk ends; None, and the launch stops, beyond the limit."""
        assert size > 0, f"kernel reserves {size} bytes"
        launch = self.launch
        start = launch.arena_used + -launch.arena_used % ALIGNMENT
        if start + size > launch.arena_size:
            if not self._add_arena(size):
                self.fail(OUT_OF_MEMORY, -1)
                self.shared.stop = 1
                return None
            start = 0
        launch.arena_used = start + size
        address: int = launch.arena + start
        return address

    def _limit_tapes(self, limit: int) -> None:
        self.tape_limit = limit
        if self.launch.arena_size > limit:
            self._drop_arenas()

    def _add_arena(self, size: int) -> bool:
        doubled = 2 * self.launch.arena_size
        if self.launch.arena_used == 0:
            self._drop_arenas()
        room = self.tape_limit - sum(block.size for block in self._arenas)
        if size > room:
            return False
        wanted = max(size, min(max(doubled, SMALLEST_ARENA), room))
        try:
            block = HOST_MEMORY.allocate(wanted)
        except MemoryError:
            return False
        self._arenas.append(block)
        self.launch.arena, self.launch.arena_size = block.address, wanted
        return True

    def _keep_one_arena(self) -> None:
        """The newest, usually the largest; no chunk is left that needs the others."""
        del self._arenas[:-1]
        if self._arenas[0].size > LARGEST_KEPT_ARENA:
            self._drop_arenas()

    def _drop_arenas(self) -> None:
        self._arenas.clear()
        self.launch.arena, self.launch.arena_size, self.launch.arena_used = None, 0, 0

    def stop_with(self, error: BaseException) -> None:
        """A callback raised: C code cannot pass that on, so it is kept and the launch stops."""
        if self.raised is None:
            self.raised = error
        self.shared.stop = 1


# Records live as long as the process: a few for each thread that ever launched at the same time.
_RECORDS: dict[int, LaunchRecord] = {}
_free_records: list[LaunchRecord] = []


def take_record() -> LaunchRecord:
    try:
        return _free_records.pop()
    except IndexError:
        return LaunchRecord()


give_back_record = _free_records.append


def _print(address: int, site: int, words: Sequence[int]) -> None:
    record = _RECORDS[address]
    try:
        assert record.kernel is not None
        text = FORMATS.format_of(record.kernel.sites[site].text)
        record.print(site, text.decode(words))
    except BaseException as error:
        record.stop_with(error)


def _reserve(address: int, size: int) -> int | None:
    record = _RECORDS[address]
    try:
        return record.reserve(size)
    except BaseException as error:
        record.stop_with(error)
        return None


def _polling(record: LaunchRecord) -> Callable[[int], None]:
    """Called from long loops, so that Python handles signals. Python runs handlers at the very start of a function
    and where a loop turns back. A `try` in a function cannot catch their exceptions at its start, so this is a
    generator that goes on."""

    def wait() -> Generator[None, int, None]:
        while True:
            try:
                while True:
                    yield
            except BaseException as error:
                record.stop_with(error)

    waiting = wait()
    next(waiting)
    return waiting.send


_POLL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))(_print)
_RESERVE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(_reserve)
_PRINT_ADDRESS = ctypes.cast(_PRINT, ctypes.c_void_p).value
_RESERVE_ADDRESS = ctypes.cast(_RESERVE, ctypes.c_void_p).value
