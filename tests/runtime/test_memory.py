"""The caching allocator: alignment, zeroing, reuse, the cap, exhaustion."""

import ctypes
import gc
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest

from slangrad.runtime.memory import CachingAllocator, HostSource, foreign_block, size_class


class CountingSource(HostSource):
    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.obtained = []

    def obtain(self, size: int, zero: bool) -> tuple[int, object]:
        if size > self.room:
            raise MemoryError
        self.obtained.append(size)
        return super().obtain(size, zero)


@pytest.mark.parametrize(
    ("size", "rounded"),
    [
        (0, 64),
        (1, 64),
        (64, 64),
        (65, 128),
        (256, 256),
        (257, 320),
        (1000, 1024),
        (1025, 1280),
        (1 << 20, 1 << 20),
    ],
)
def test_size_classes(size: int, rounded: int) -> None:
    assert size_class(size) == rounded


def test_size_classes_waste_at_most_a_quarter_and_stay_aligned() -> None:
    for size in range(257, 70_000, 37):
        assert size <= size_class(size) <= 1.25 * size
        assert size_class(size) % 64 == 0
        assert size_class(size_class(size)) == size_class(size)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 1 << 16])
def test_blocks_are_aligned_and_writable(size: int) -> None:
    block = CachingAllocator(HostSource()).allocate(size)
    assert block.address % 64 == 0
    assert block.size >= size
    ctypes.memset(block.address, 0xAB, size)
    assert ctypes.string_at(block.address, size) == b"\xab" * size


def test_a_freed_block_is_used_again_and_zeroed_on_request() -> None:
    source = CountingSource()
    allocator = CachingAllocator(source)
    first = allocator.allocate(1000)
    address = first.address
    ctypes.memset(address, 0xFF, 1000)
    del first
    assert (allocator.in_use, allocator.cached) == (0, 1024)
    second = allocator.allocate(1020, zero=True)
    assert second.address == address
    assert ctypes.string_at(address, 1020) == bytes(1020)
    assert source.obtained == [1024]
    assert (allocator.in_use, allocator.cached) == (1024, 0)


def test_fresh_memory_is_zero_on_request() -> None:
    block = CachingAllocator(HostSource()).allocate(4096, zero=True)
    assert ctypes.string_at(block.address, 4096) == bytes(4096)


def test_blocks_in_use_never_overlap() -> None:
    allocator = CachingAllocator(HostSource())
    blocks = [allocator.allocate(size) for size in (1, 64, 100, 1000) * 8]
    spans = sorted((block.address, block.address + block.size) for block in blocks)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_the_cache_is_capped() -> None:
    allocator = CachingAllocator(HostSource(), cap=3000)
    blocks = [allocator.allocate(1024) for _ in range(5)]
    blocks.clear()
    assert (allocator.in_use, allocator.cached) == (0, 2048)
    allocator.trim()
    assert allocator.cached == 0


def test_when_memory_runs_out_the_cache_is_given_back_first() -> None:
    class Limited(CountingSource):
        def obtain(self, size: int, zero: bool) -> tuple[int, object]:
            if allocator.cached + size > 2048:
                raise MemoryError
            return super().obtain(size, zero)

    allocator = CachingAllocator(Limited())
    allocator.allocate(1024)
    assert allocator.cached == 1024
    assert allocator.allocate(2048).size == 2048


def test_no_memory_left_says_how_much_was_asked() -> None:
    allocator = CachingAllocator(CountingSource(room=1 << 20))
    with pytest.raises(MemoryError, match="no room for 2097152 bytes"):
        allocator.allocate(2 << 20)


def test_garbage_in_cycles_is_freed_before_memory_runs_out() -> None:
    class Full(CountingSource):
        def obtain(self, size: int, zero: bool) -> tuple[int, object]:
            if allocator.in_use + allocator.cached + size > 2048:
                raise MemoryError
            return super().obtain(size, zero)

    allocator = CachingAllocator(Full())
    cycle: list[object] = [allocator.allocate(1024)]
    cycle.append(cycle)
    del cycle
    assert allocator.allocate(2048).size == 2048
    assert (allocator.in_use, allocator.peak) == (0, 2048)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        CachingAllocator(HostSource()).allocate(-1)


def test_freeing_inside_an_allocation_does_not_deadlock() -> None:
    allocator = CachingAllocator(HostSource())
    block = allocator.allocate(100)
    with allocator._lock:
        del block
    assert allocator.in_use == 128
    allocator.allocate(1)
    assert (allocator.in_use, allocator.cached) == (0, 128 + 64)


def test_blocks_are_freed_without_the_cycle_collector() -> None:
    allocator = CachingAllocator(HostSource())
    gc.disable()
    try:
        allocator.allocate(100)
        assert allocator.in_use == 0
    finally:
        gc.enable()


def test_many_threads_allocate_and_free() -> None:
    allocator = CachingAllocator(HostSource())
    wrong = []

    def work(seed: int) -> None:
        kept = []
        for step in range(400):
            block = allocator.allocate(64 << (step + seed) % 5)
            ctypes.memset(block.address, seed, block.size)
            kept.append(block)
            if len(kept) > 5:
                oldest = kept.pop(0)
                if ctypes.string_at(oldest.address, oldest.size) != bytes([seed]) * oldest.size:
                    wrong.append(oldest)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert allocator.in_use == 0


def test_a_foreign_block_keeps_its_owner() -> None:
    array = np.arange(10)
    block = foreign_block(array.ctypes.data, array.nbytes, array)
    del array
    assert np.frombuffer(ctypes.string_at(block.address, block.size), np.int64).tolist() == list(range(10))


@pytest.mark.parametrize("size", [1 << 62, sys.maxsize, 1 << 63, 1 << 64, 1 << 100])
def test_memory_that_there_is_not_is_not_counted(size: int) -> None:
    allocator = CachingAllocator(HostSource())
    kept = allocator.allocate(100)
    for zero in (False, True):
        with pytest.raises(
            MemoryError, match=rf"no room for {size_class(size)} bytes \(128 bytes are in use\)"
        ):
            allocator.allocate(size, zero)
    assert (allocator.in_use, allocator.blocks) == (kept.size, 1)


def test_an_interrupt_while_memory_is_obtained_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    allocator = CachingAllocator(HostSource())
    monkeypatch.setattr(HostSource, "obtain", interrupt)
    with pytest.raises(KeyboardInterrupt):
        allocator.allocate(100)
    assert (allocator.in_use, allocator.blocks) == (0, 0)
