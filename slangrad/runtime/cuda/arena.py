"""The memory that threads of a launch on a GPU take while they run, for tapes and for variables of recursion.

    arena = Arena(driver, device, memory)
    status.arena = arena.begin(copies)      before each launch that may take memory: all of it is free
    arena.grow()                            after a launch that ran out of it: how much the next one has, in words

Launches of a device follow each other, so they share one arena.
"""

from __future__ import annotations

import numpy as np

from slangrad.runtime.cuda.copies import Copies
from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.cuda.launch import arena_header
from slangrad.runtime.memory import CachingAllocator, MemoryBlock

BYTES = 512 << 20  # at first
PART = 16  # of the GPU's memory is the most at first, and half of it in the end
BLOCKS = 2  # of threads that take memory, for each multiprocessor


class Arena:
    def __init__(self, driver: Driver, device: object, memory: CachingAllocator) -> None:
        self._memory = memory
        self._total = driver.memory(device)
        self._size = min(BYTES, self._total // PART)
        self._block: MemoryBlock | None = None
        self.most_blocks = BLOCKS * driver.attribute(device, "MULTIPROCESSOR_COUNT")

    def begin(self, copies: Copies) -> int:
        """The address of the arena, whose header is set in the order of the stream."""
        if self._block is None:
            self._block = self._memory.allocate(self._size)
            self._block.wanted = 0  # in check mode no pointer of a program leads here
        copies.to_gpu(self._block.address, np.frombuffer(arena_header(self._size), np.uint8))
        return self._block.address

    def grow(self) -> str:
        """Twice as much for the next launch, if the GPU has it."""
        before, self._size = self._size, min(2 * self._size, self._total // 2)
        if self._size > before:
            self._block = None
        now = f"the next launch has {self._size}" if self._size > before else "the GPU has no more to give"
        return f"all threads of a launch had {before} bytes together; {now}"
