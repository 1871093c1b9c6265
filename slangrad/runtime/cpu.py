"""The CPU device: machine code run over the chunks of a grid, by the calling thread and parked helpers.

In: a `NativeKernel` (addresses of compiled functions), an argument block, a grid.
Out: the effects of the kernel, and the exception for what it reported.

    void entry(const void* arguments, Launch* launch, i64 chunk)     // all threads of one chunk
    void drain(const void* arguments, Launch* launch, i64 limit)     // up to `limit` batches from shared->next
    void share(Team* team)                                           // the same by one thread of a team (team.py)
    void reduce(const void* arguments, Launch* launch, i64 chunks)   // once, at the end: adds partial sums
    void plan(const void* arguments, Launch* launch, i64 chunks)     // once, first: the size of partial sums, or -1

Chunks and batches depend on grid and kernel only, so results do not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns

import numpy as np

from slangrad.base.options import Options
from slangrad.runtime.device import (
    Array,
    Device,
    DeviceClosedError,
    Grid,
    Kernel,
    MemoryRegion,
    PythonKernel,
    RegionItems,
    check_arguments,
    check_grid,
)
from slangrad.runtime.launch_record import LaunchRecord, give_back_record, take_record
from slangrad.runtime.memory import ALIGNMENT, HOST_MEMORY, KnownMemory, MemoryBlock
from slangrad.runtime.pool import POOL, Job
from slangrad.runtime.processors import available_processors
from slangrad.runtime.reports import LaunchFailure, Printed, exception_of
from slangrad.runtime.team import TEAM

DEFAULT_GRANULARITY = 256
MOST_CHUNKS = 512
MOST_CHUNKS_WITH_PARTIALS = 128
ALL_BATCHES = 1 << 62
PROBE = 16
BATCHES_A_THREAD = 4  # at least

# Nanoseconds, measured on a two-core virtual machine; they decide how many threads work, never the results.
CALL_COST = 1_000
SHORT_BATCH = 5_000
# Threads that take shorter batches in turn wait for the counter, and for lines of each other's caches.
LONG_BATCH = 20_000
WORTH_A_HELPER = 50_000
WORTH_A_MEMBER = 10_000  # of a team that is awake
BETWEEN_SIGNALS = 5_000_000

# Held while an ordered kernel runs; a callback of one may launch another.
_ordered = threading.RLock()


def _after_fork() -> None:
    global _ordered
    _ordered = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
# A function whose arguments have no types takes bytes and the numbers of ctypes as they are, which is faster.
_UNTYPED = ctypes.CFUNCTYPE(None)
FIRST_CHUNK = ctypes.c_int64(0)
NativeFunction = Callable[[bytes, int, int], None]
Failures = list[tuple[int, LaunchFailure]]


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class NativeKernel(Kernel):
    """Compiled functions by address. Without `drain` the runtime hands out chunks itself, a little slower.

    `ordered`: chunks run one after the other on the calling thread, and no two such kernels run at a time. This
    serves kernels that print, and those that add floats in a fixed order. `granularity`: a chunk has a multiple of
    so many threads of x (a multiple of 64, and of the group size where there are groups). `code` keeps the machine
    code loaded. A `plan` writes the number of chunks of a batch to the launch record, and the bytes of a batch's
    partial sums. -1 means that `fallback` runs instead. `reduce` adds up the partial sums. A size that is no
    multiple of ALIGNMENT means that some adds go to memory itself. A kernel that runs whole groups of `group`
    threads has chunks of groups, and `granularity` counts groups. One that `follows_memory` reads the table of all
    blocks of memory.
    """

    entry: int
    drain: int = 0
    share: int = 0
    reduce: int = 0
    ordered: bool = False
    granularity: int = DEFAULT_GRANULARITY
    group: Grid = (1, 1, 1)
    plan: int = 0
    fallback: NativeKernel | None = None
    code: object = None
    follows_memory: bool = False
    run: NativeFunction = field(init=False, repr=False)
    run_directly: Callable[..., None] = field(init=False, repr=False)
    run_many: NativeFunction | None = field(init=False, repr=False)
    run_reduce: NativeFunction | None = field(init=False, repr=False)
    run_plan: NativeFunction | None = field(init=False, repr=False)
    most_alone: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        assert self.entry and self.granularity > 0, self
        assert bool(self.plan) == (self.fallback is not None), self
        self.run = _FUNCTION(self.entry)
        self.run_directly = _UNTYPED(self.entry)
        self.run_many = _FUNCTION(self.drain) if self.drain else None
        self.run_reduce = _FUNCTION(self.reduce) if self.reduce else None
        self.run_plan = _FUNCTION(self.plan) if self.plan else None
        special = self.ordered or self.plan or self.follows_memory
        if not special and self.group == (1, 1, 1):
            self.most_alone = self.granularity

    def is_one_chunk(self, grid: Grid) -> bool:
        """Whether a launch over the grid runs the function once, and nothing else."""
        return 0 < grid[0] <= self.most_alone and grid[1] == 1 == grid[2]


def _in_groups(grid: Grid, group: Grid) -> Grid:
    """How many groups have some of the threads."""
    x, y, z = (-(-count // size) for count, size in zip(grid, group, strict=True))
    return x, y, z


def chunks_of(grid: Grid, granularity: int, most: int = MOST_CHUNKS) -> tuple[int, int, int]:
    """Threads of x in a chunk, chunks in a row, all chunks. A chunk is a part of one row of x."""
    nx, ny, nz = grid
    if nx <= granularity and ny == 1 and nz == 1:
        return granularity, 1, 1
    rows = ny * nz
    units = -(-nx // granularity)
    chunk_x = granularity * -(-units // max(1, most // rows))
    chunks_x = -(-nx // chunk_x)
    return chunk_x, chunks_x, chunks_x * rows


class CpuDevice(Device):
    """This machine's processors."""

    kind = "cpu"
    name = "CPU"

    def __init__(self, options: Options | None = None) -> None:
        options = Options.from_environment() if options is None else options
        self.threads = options.threads or available_processors()
        self._tape_limit = options.limits.tape_bytes
        self.printed = Printed()

    def launch(self, kernel: Kernel, arguments: bytes | bytearray, grid: Grid) -> None:
        check_arguments(kernel, arguments)
        if isinstance(kernel, NativeKernel) and kernel.is_one_chunk(grid):
            self._run_one_chunk(kernel, bytes(arguments), grid)
            return
        self.require_open()
        if self.recording is not None and self.records(partial(self.launch, kernel, bytes(arguments), grid)):
            return
        nx, ny, nz = grid
        if nx <= 0 or ny <= 0 or nz <= 0:
            check_grid(grid)
            return
        if isinstance(kernel, NativeKernel):
            with _ordered if kernel.ordered else nullcontext():
                self._launch_native(kernel, bytes(arguments), grid, _chunks_of_launch(kernel, grid))
        elif isinstance(kernel, PythonKernel):
            self._launch_python(kernel, bytearray(arguments), grid)
        else:
            raise TypeError(f"kernel '{kernel.name}' was not made for the CPU")

    def prepare(self, kernel: Kernel, arguments: bytes, grid: Grid) -> Callable[[], None]:
        if not isinstance(kernel, NativeKernel) or kernel.ordered or min(grid) <= 0:
            return super().prepare(kernel, arguments, grid)
        check_arguments(kernel, arguments)
        if kernel.is_one_chunk(grid):
            return partial(self._run_one_chunk, kernel, arguments, grid)
        return partial(self._launch_prepared, kernel, arguments, grid, _chunks_of_launch(kernel, grid))

    def _launch_prepared(self, kernel: NativeKernel, arguments: bytes, grid: Grid, geometry: Grid) -> None:
        self.require_open()
        if self.recording is not None and self.records(
            partial(self._launch_prepared, kernel, arguments, grid, geometry)
        ):
            return
        self._launch_native(kernel, arguments, grid, geometry)

    def _run_one_chunk(self, kernel: NativeKernel, arguments: bytes, grid: Grid) -> None:
        """A small launch: one chunk, with nothing counted, shared or added up."""
        if self.is_closed:
            raise DeviceClosedError
        if self.recording is not None and self.records(partial(self._run_one_chunk, kernel, arguments, grid)):
            return
        record = take_record()
        try:
            record.begin_one_chunk(kernel, self._tape_limit, grid, kernel.granularity)
            kernel.run_directly(arguments, record.pointer, FIRST_CHUNK)
            if record.is_touched():
                self._raise_report(kernel, *record.end())
        finally:
            give_back_record(record)

    def _raise_report(
        self, kernel: Kernel, failure: tuple[int, LaunchFailure] | None, raised: BaseException | None
    ) -> None:
        if raised is not None:
            raise raised
        if failure is not None:
            raise exception_of(failure[1], kernel.name, kernel.sites, self._tape_limit)

    def _launch_native(self, kernel: NativeKernel, arguments: bytes, grid: Grid, geometry: Grid) -> None:
        """`geometry`: of `_chunks_of_launch`."""
        record = take_record()
        record.begin(kernel, self._tape_limit, grid, geometry)
        record.printed = self.printed
        memory = KnownMemory() if kernel.follows_memory else None
        record.launch.memory = None if memory is None else memory.address
        failures: Failures = []
        try:
            size = self._size_of_partials(kernel, arguments, record)
            if size < 0:
                assert kernel.fallback is not None
                with _ordered:
                    chunks = _chunks_of_launch(kernel.fallback, grid)
                    self._launch_native(kernel.fallback, arguments, grid, chunks)
            elif size:
                self._run_with_partials(kernel, arguments, record, size, failures)
            elif geometry[2] == 1:
                kernel.run(arguments, record.address, 0)
            else:
                _ChunkRun(kernel, arguments, record, failures).all_chunks(self.threads)
        finally:
            raised = _close(record, failures)
        if raised is not None:
            raise raised
        if failures:
            _, first = min(failures, key=_chunk_of)
            raise exception_of(first, kernel.name, kernel.sites, self._tape_limit)

    def _size_of_partials(self, kernel: NativeKernel, arguments: bytes, record: LaunchRecord) -> int:
        """For each chunk; -1 where the kernel's fallback has to run."""
        if kernel.run_plan is None:
            return 0
        kernel.run_plan(arguments, record.address, record.launch.chunks)
        size: int = record.launch.partial_size
        return size

    def _run_with_partials(
        self, kernel: NativeKernel, arguments: bytes, record: LaunchRecord, size: int, failures: Failures
    ) -> None:
        """Each batch adds into bytes of its own; `reduce` adds those up, in the order of the batches."""
        launch, batches = record.launch, _batches(record)
        try:
            partials = HOST_MEMORY.allocate(batches * size, zero=True)
        except MemoryError:
            wanted = f"the partial sums of {batches} batches of kernel '{kernel.name}'"
            raise HOST_MEMORY.no_room(wanted) from None
        launch.partials, launch.partial_size = partials.address, size
        with _ordered if size % ALIGNMENT else nullcontext():  # others may add to the same memory
            run = _ChunkRun(kernel, arguments, record, failures, has_sums=True)
            run.all_chunks(self.threads)
        if kernel.run_reduce is not None and not record.shared.stop:
            with _ordered:
                kernel.run_reduce(arguments, record.address, batches)

    def _launch_python(self, kernel: PythonKernel, arguments: bytearray, grid: Grid) -> None:
        record = take_record()
        record.begin(kernel, self._tape_limit, grid, (grid[0], 1, grid[1] * grid[2]))
        record.printed = self.printed
        record.launch.chunk = 0
        failures: Failures = []
        block = (ctypes.c_char * len(arguments)).from_buffer(arguments) if arguments else None
        try:
            kernel.function(0 if block is None else ctypes.addressof(block), grid, record)
        finally:
            _close(record, failures)
        if failures:
            raise exception_of(failures[0][1], kernel.name, kernel.sites, self._tape_limit)

    def allocate(self, size: int, zero: bool = False) -> MemoryBlock:
        self.require_open()
        return HOST_MEMORY.allocate(size, zero)

    def write(self, address: int, source: Array) -> None:
        self.require_open()
        assert source.flags.c_contiguous, "only C-contiguous arrays are written"
        if source.nbytes:
            self.refuse_recording("this call writes memory of the device")
            ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def read(self, region: MemoryRegion) -> Array:
        return self.host_view(region, None).copy()

    def copy(self, target: int, source: int, size: int) -> None:
        self.require_open()
        if not self.records(partial(self.copy, target, source, size)):
            ctypes.memmove(target, source, size)

    def clear(self, region: MemoryRegion) -> None:
        if self.records(partial(self.clear, region)):
            return
        size = region.dtype.itemsize
        every_byte = MemoryRegion(
            region.address, (*region.shape, size), (*region.strides, 1), np.dtype(np.uint8)
        )
        self.host_view(every_byte, None)[...] = 0

    def host_view(self, region: MemoryRegion, owner: object) -> Array:
        self.require_open()
        self.refuse_recording("this call reaches memory of the device from the host")
        return np.asarray(RegionItems(region, owner)).view(region.dtype)

    def synchronize(self) -> None:
        """Launches are finished when they return."""
        self.refuse_recording("this call waits for the device")

    def torch_has_computed(self) -> None:
        """Without this hint, threads of ours would share the processors with PyTorch's."""
        TEAM.torch_has_computed()


def _chunks_of_launch(kernel: NativeKernel, grid: Grid) -> Grid:
    most = MOST_CHUNKS_WITH_PARTIALS if kernel.reduce else MOST_CHUNKS
    return chunks_of(_in_groups(grid, kernel.group), kernel.granularity, most)


def _batches(record: LaunchRecord) -> int:
    chunks: int = record.launch.chunks
    batch: int = record.launch.batch
    return -(-chunks // batch)


class _ChunkRun:
    """A launch of several chunks in progress, taken by batches. `has_sums`: each batch has sums of its own."""

    __slots__ = ("_arguments", "_failures", "_has_sums", "_kernel", "_lock", "_record")

    def __init__(
        self,
        kernel: NativeKernel,
        arguments: bytes,
        record: LaunchRecord,
        failures: Failures,
        has_sums: bool = False,
    ) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._record = record
        self._failures = failures
        self._has_sums = has_sums
        self._lock = threading.Lock()

    def all_chunks(self, threads: int) -> None:
        """Run a few batches, measure their time, and ask for as many helpers as the rest is worth."""
        spent, most = self._time_of_a_batch(1), _batches(self._record)
        if spent < SHORT_BATCH and most > 2 * PROBE:
            spent = self._time_of_a_batch(PROBE)
        launch = self._record.launch
        left = -(-(launch.chunks - self._record.shared.next) // launch.batch)
        is_team = bool(self._kernel.share) and TEAM.is_awake()
        worth = spent * left // (WORTH_A_MEMBER if is_team else WORTH_A_HELPER)
        helpers = 0 if self._kernel.ordered else max(0, min(threads - 1, left, worth))
        if helpers and not self._has_sums:
            factor = max(1, min(LONG_BATCH // max(spent, 1), left // (BATCHES_A_THREAD * (helpers + 1))))
            launch.batch, spent = factor * launch.batch, factor * spent
        portion = max(1, BETWEEN_SIGNALS // max(spent, 1))
        if helpers == 0:
            self._take_all(portion)
            return
        if is_team and TEAM.is_taken():
            try:
                self._take_with_team(min(helpers + 1, TEAM.threads), portion)
            finally:
                TEAM.release()
            return
        job = Job(self._help)
        try:
            self._take_with_help(job, helpers, portion)
        except BaseException:
            self._record.shared.stop = 1
            self._close(job)
            raise
        if job.error is not None:
            raise job.error

    def _has_more(self) -> bool:
        shared = self._record.shared
        return bool(shared.next < self._record.launch.chunks and not shared.stop)

    def _time_of_a_batch(self, count: int) -> int:
        began = perf_counter_ns()
        self._take(self._record, count)
        return max(perf_counter_ns() - began - CALL_COST, 0) // count

    def _take_with_help(self, job: Job, helpers: int, portion: int) -> None:
        POOL.ask_for_help(job, helpers)
        self._take_all(portion)
        self._close(job)

    def _take_with_team(self, members: int, portion: int) -> None:
        others = [take_record() for _ in range(members - 1)]
        try:
            for record in others:
                record.join(self._record)
            launches = [record.address for record in (self._record, *others)]
            while self._has_more():  # Python handles signals in between
                TEAM.run(self._kernel.share, self._arguments, launches, portion)
        finally:
            errors = [_close(record, self._failures) for record in others]
        for error in filter(None, errors):
            raise error

    def _take_all(self, portion: int) -> None:
        """In portions, so that Python handles signals in between."""
        while self._has_more():
            self._take(self._record, portion)

    def _take(self, record: LaunchRecord, limit: int) -> None:
        if self._kernel.run_many is not None:
            self._kernel.run_many(self._arguments, record.address, limit)
            return
        for _ in range(limit):
            with self._lock:
                first = record.shared.next
                record.shared.next = first + record.launch.batch
            if first >= record.launch.chunks:
                return
            for chunk in range(first, min(first + record.launch.batch, record.launch.chunks)):
                if record.shared.stop:
                    return
                self._kernel.run(self._arguments, record.address, chunk)

    def _help(self) -> None:
        record = take_record()
        record.join(self._record)
        try:
            self._take(record, ALL_BATCHES)
        finally:
            raised = _close(record, self._failures)
        if raised is not None:
            raise raised

    def _close(self, job: Job) -> None:
        """No helper touches memory of the caller afterwards. An interrupt only makes the chunks stop."""
        interrupt: BaseException | None = None
        while True:
            try:
                job.close()
                break
            except BaseException as error:
                self._record.shared.stop = 1
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _close(record: LaunchRecord, failures: Failures) -> BaseException | None:
    """Read a record and give it back; returns what a callback raised."""
    failure, raised = record.end()
    if failure is not None:
        failures.append(failure)
    give_back_record(record)
    return raised


def _chunk_of(failure: tuple[int, LaunchFailure]) -> int:
    return failure[0]
