"""The memory that launches on a GPU have besides their arguments.

    arena = Arena(driver, device, memory)
    arena.blocks(1 << 20, 40)          how many of 40 blocks run, whose threads have 1 MB of local arrays together
    address = arena.begin(copies, frames)       before each launch: all but `frames` bytes is free
    arena.grow()                       after a launch that ran out of it: how much the next one has, in words

    sums = PartialSums(memory, multiprocessors)
    sums.address, sums.blocks(2048)    how many blocks run, each of which leaves 2 KB of partial sums

An arena has the frames of threads, which are their local arrays beyond a small stack. It also has pieces that threads
take while they run, for tapes and for variables of recursion. Launches of a device follow each other, so they share
this memory.
"""

from __future__ import annotations

import numpy as np

from slangrad.runtime.cuda.copies import Copies
from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.cuda.launch import arena_header
from slangrad.runtime.memory import CachingAllocator, MemoryBlock

BYTES = 512 << 20  # at first
LEAST = 1 << 20
PART = 16  # of the GPU's memory is the most at first, and half of it in the end
BLOCKS = 2  # of threads that take memory, for each multiprocessor

LARGEST_ROW = 8 << 10  # bytes of partial sums of a block
ROWS = 4  # of that size for each multiprocessor, which runs more blocks where rows are shorter


class Arena:
    def __init__(self, driver: Driver, device: object, memory: CachingAllocator) -> None:
        self._memory = memory
        self._total = driver.memory(device)
        self._size = min(BYTES, self._total // PART)
        self._block: MemoryBlock | None = None
        self._framed = 0  # bytes that the frames of a launch may take

    @property
    def size(self) -> int:
        """Bytes that it takes now."""
        return 0 if self._block is None else self._block.size

    def blocks(self, frames: int, most: int) -> int:
        """How many blocks, at most `most`, have room for frames of so many bytes each. Frames have half of the arena. 0
        if there is no room for a block."""
        one = 2 * frames
        try:
            room = self._opened(max(one, min(one * most, self._total // PART)), one).size
        except MemoryError:
            return 0
        count = min(most, room // one)
        self._framed = max(self._framed, count * frames)
        return count

    def begin(self, copies: Copies, frames: int) -> int:
        """The address of the arena, whose header is set in the order of the stream. An earlier launch may still run in
        another block: so each launch states the address of its own."""
        block = self._opened()
        copies.to_gpu(block.address, np.frombuffer(arena_header(self._size, frames), np.uint8))
        return block.address

    def _opened(self, wanted: int = 0, least: int = LEAST) -> MemoryBlock:
        """Of at least `wanted` bytes; with half as much, and half of that, where the GPU has no more to give."""
        size, least = max(self._size, wanted), max(least, 2 * self._framed)
        if self._block is not None and size == self._size:
            return self._block
        self._block = None
        while True:
            try:
                block = self._memory.allocate(size)
                break
            except MemoryError:
                if size // 2 < least:
                    raise
                size //= 2
        block.wanted = 0  # in check mode no pointer of a program leads here
        self._size, self._block = size, block
        return block

    def grow(self) -> str:
        """Twice as much for the next launch, if the GPU has it."""
        before, self._size = self._size, min(2 * self._size, self._total // 2)
        if self._size > before:
            self._block = None
        now = f"the next launch has {self._size}" if self._size > before else "the GPU has no more to give"
        return f"all threads of a launch had {before} bytes together; {now}"


class PartialSums:
    """Rows of partial sums, one of each block of a launch."""

    def __init__(self, memory: CachingAllocator, multiprocessors: int) -> None:
        self._memory = memory
        self._size = multiprocessors * ROWS * LARGEST_ROW
        self._block: MemoryBlock | None = None

    @property
    def size(self) -> int:
        """Bytes that they take now."""
        return 0 if self._block is None else self._block.size

    @property
    def address(self) -> int:
        """It stays the same, so that launches are prepared once."""
        if self._block is None:
            self._block = self._memory.allocate(self._size)
            self._block.wanted = 0  # no pointer of a program leads here
        return self._block.address

    def blocks(self, row: int) -> int:
        """How many blocks there is room for."""
        assert row <= LARGEST_ROW
        return self._size // max(row, 1)
