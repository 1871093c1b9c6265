"""A caching allocator for device memory.

In: a size in bytes.   Out: a `MemoryBlock` with a stable address aligned to 64 bytes.

    block = allocator.allocate(1000, zero=True)   # 1024 bytes of a size class, the first 1000 zero
    del block                                     # kept for the next request of that class, up to `cap` bytes

A block lives as long as it is referred to. A `MemorySource` obtains memory; this file only decides which blocks to
keep.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from bisect import bisect_right
from collections import deque
from contextlib import suppress
from typing import Protocol

import numpy as np

from slangrad.base.process.forks import BRIEF, kept_at_fork

ALIGNMENT = 64
STEPS_PER_DOUBLING = 4
DEFAULT_CAP = 1 << 30


class MemorySource(Protocol):
    """The source of one device's memory. A handle may keep its memory alive, if dropping it frees it."""

    def obtain(self, size: int, zero: bool) -> tuple[int, object]:
        """Address (aligned) and handle of `size` new bytes; MemoryError when there are none."""

    def release(self, address: int) -> None:
        """Take memory back whose handle is about to be dropped. Finalizers of handles could not do this: the garbage
        collector calls them together with that of a block, which gives its handle to the cache."""

    def fill_zero(self, address: int, size: int) -> None:
        """Set bytes to zero."""


class HostSource:
    """Memory of the host process, from NumPy's allocator."""

    def obtain(self, size: int, zero: bool) -> tuple[int, object]:
        if size > sys.maxsize - ALIGNMENT:
            raise MemoryError  # NumPy raises other errors for sizes that no index reaches
        make = np.zeros if zero else np.empty
        array = make(size + ALIGNMENT, np.uint8)
        start: int = array.ctypes.data
        return start + -start % ALIGNMENT, array

    def release(self, address: int) -> None:
        """NumPy frees it with the array."""

    def fill_zero(self, address: int, size: int) -> None:
        ctypes.memset(address, 0, size)


class MemoryBlock:
    """`size` bytes at `address`, of which `wanted` were asked for. Goes back to its allocator when the last reference
    is gone."""

    __slots__ = ("__weakref__", "_allocator", "_handle", "address", "size", "wanted")

    def __init__(
        self, address: int, size: int, handle: object, allocator: CachingAllocator | None, wanted: int
    ) -> None:
        self.address = address
        self.size = size
        self.wanted = wanted
        self._handle = handle
        self._allocator = allocator

    def __del__(self) -> None:
        if self._allocator is not None:
            self._allocator.take_back(self.address, self.size, self._handle)

    def belongs_to(self, allocator: CachingAllocator) -> bool:
        return self._allocator is allocator

    def __repr__(self) -> str:
        return f"Block({self.size} bytes at {self.address:#x})"


def foreign_block(address: int, size: int, owner: object) -> MemoryBlock:
    """Memory of another allocator; `owner` is kept alive and the memory is never reused."""
    return MemoryBlock(address, size, owner, None, size)


def size_class(size: int) -> int:
    """The size that is really allocated: four steps a doubling, so at most a quarter is wasted."""
    if size <= STEPS_PER_DOUBLING * ALIGNMENT:
        return max(-(-size // ALIGNMENT), 1) * ALIGNMENT
    step = 1 << ((size - 1).bit_length() - STEPS_PER_DOUBLING.bit_length())
    return -(-size // step) * step


class CachingAllocator:
    """Keeps up to `cap` bytes of freed blocks, by size class."""

    def __init__(self, source: MemorySource, cap: int = DEFAULT_CAP) -> None:
        self.cap = cap
        self.in_use = 0
        self.peak = 0  # the most bytes that were in use
        self.cached = 0
        self.blocks = 0  # that are in use
        self._source = source
        self._free: dict[int, list[tuple[int, object]]] = {}
        self._returned: deque[tuple[int, int, object]] = deque()
        self._lock = kept_at_fork(threading.Lock(), BRIEF)

    def allocate(self, size: int, zero: bool = False) -> MemoryBlock:
        """A block of at least `size` bytes; MemoryError when even an empty cache leaves no room."""
        if size < 0:
            raise ValueError(f"cannot allocate {size} bytes")
        rounded = size_class(size)
        block = self._reuse(rounded)
        if block is None:
            block = self._obtain(rounded, zero)
        elif zero:
            self._source.fill_zero(block[0], size)
        return MemoryBlock(block[0], rounded, block[1], self, size)

    def take_back(self, address: int, size: int, handle: object) -> None:
        """Called by `Block.__del__`, which may run anywhere, even inside `allocate` on this thread.

        So it never waits for the lock: when that is taken, the next use of the allocator does the sorting.
        """
        self._returned.append((size, address, handle))
        if self._lock.acquire(blocking=False):
            try:
                self._sort_returned()
            finally:
                self._lock.release()

    def trim(self) -> None:
        """Give all cached memory back to the source."""
        with self._lock:
            self._sort_returned()
            dropped, self._free = self._free, {}
            self.cached = 0
        for address, _ in (block for blocks in dropped.values() for block in blocks):
            self._source.release(address)
        dropped.clear()

    def _sort_returned(self) -> None:
        while self._returned:
            size, address, handle = self._returned.popleft()
            self.in_use -= size
            self.blocks -= 1
            if self.cached + size <= self.cap:
                self.cached += size
                self._free.setdefault(size, []).append((address, handle))
            else:
                self._source.release(address)

    def _reuse(self, rounded: int) -> tuple[int, object] | None:
        """Memory of that size class from the cache."""
        with self._lock:
            self._sort_returned()
            kept = self._free.get(rounded)
            if not kept:
                return None
            self.cached -= rounded
            self._count(rounded)
            return kept.pop()

    def _count(self, rounded: int) -> None:
        self.in_use += rounded
        self.peak = max(self.peak, self.in_use)
        self.blocks += 1

    def _obtain(self, rounded: int, zero: bool) -> tuple[int, object]:
        """New memory, which counts as used once it is there."""
        try:
            memory = self._source.obtain(rounded, zero)
        except MemoryError:
            self.trim()
            memory = self._obtain_at_last(rounded, zero)
        with self._lock:
            self._count(rounded)
        return memory

    def _obtain_at_last(self, rounded: int, zero: bool) -> tuple[int, object]:
        """Without the cache, and then without blocks in reference cycles, as tracebacks make them."""
        with suppress(MemoryError):
            return self._source.obtain(rounded, zero)
        gc.collect()
        self.trim()
        try:
            return self._source.obtain(rounded, zero)
        except MemoryError:
            raise self.no_room(f"{rounded} bytes") from None

    def no_room(self, wanted: str) -> MemoryError:
        """The error for what the device has no memory for."""
        note = "del tensors that are not needed; device.memory_report() shows how much there is"
        return MemoryError(f"error[E0908]: no room for {wanted} ({self.in_use} bytes are in use); {note}")


HOST_MEMORY = CachingAllocator(HostSource())


class KnownMemory:
    """All blocks that are alive now; kernels of check mode compare addresses with them. The table is
    { i64 count; { i64 start, end; } ranges[count] } in the order of the addresses. Only blocks that overlap share a
    range. The blocks are searched among the objects of the process, so that other runs keep no list. With an
    `allocator` these are its blocks only."""

    def __init__(self, allocator: CachingAllocator | None = None) -> None:
        blocks = (item for item in gc.get_objects() if type(item) is MemoryBlock)
        ranges_of_blocks = sorted(
            (block.address, block.address + block.wanted)
            for block in blocks
            if block.wanted and (allocator is None or block.belongs_to(allocator))
        )
        ranges: list[tuple[int, int]] = []
        for start, end in ranges_of_blocks:
            if ranges and start < ranges[-1][1]:
                ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
            else:
                ranges.append((start, end))
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]
        self.table = np.array([len(ranges), *(place for span in ranges for place in span)], np.int64)

    @property
    def address(self) -> int:
        """The address of the table, valid as long as this object lives."""
        table: int = self.table.ctypes.data
        return table

    def holds(self, address: int, size: int) -> bool:
        """Whether so many bytes are within a block."""
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address + size <= self._ends[at]
